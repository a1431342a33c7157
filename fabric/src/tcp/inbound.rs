//! The inbound connections whose callers are not identified yet.

use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;

/// The largest number of callers in a handshake at once.
const GREETING: usize = 64;

/// A set of inbound connections.
#[derive(Debug, Default)]
pub(super) struct InboundConnections(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    closed: bool,
    greeting: Vec<Arc<TcpStream>>,
}

impl InboundConnections {
    /// Closes all connections, and refuses new ones.
    pub(super) fn close(&self) {
        let mut inner = self.0.lock();
        inner.closed = true;
        for stream in inner.greeting.drain(..) {
            // The connection may be broken already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Returns whether [`Self::close`] was called.
    pub(super) fn is_closed(&self) -> bool {
        self.0.lock().closed
    }

    /// Adds an accepted stream; `None` if there are too many or the set is closed.
    pub(super) fn enter(&self, stream: TcpStream) -> Option<Arc<TcpStream>> {
        let mut inner = self.0.lock();
        if inner.closed || inner.greeting.len() >= GREETING {
            return None;
        }
        let stream = Arc::new(stream);
        inner.greeting.push(Arc::clone(&stream));
        Some(stream)
    }

    /// Removes a stream at the end of its handshake.
    pub(super) fn leave(&self, stream: &Arc<TcpStream>) {
        let mut inner = self.0.lock();
        inner.greeting.retain(|other| !Arc::ptr_eq(stream, other));
    }
}
