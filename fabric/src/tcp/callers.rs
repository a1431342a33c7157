//! The streams of callers that have not said yet who they are.

use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;

/// Callers that are in a handshake at once.
const GREETING: usize = 64;

/// Those who call.
#[derive(Debug, Default)]
pub(super) struct Callers(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    closed: bool,
    greeting: Vec<Arc<TcpStream>>,
}

impl Callers {
    /// Ends all handshakes, and lets nobody in any more.
    pub(super) fn close(&self) {
        let mut inner = self.0.lock();
        inner.closed = true;
        for stream in inner.greeting.drain(..) {
            // It may be broken already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Whether [`Self::close`] was called.
    pub(super) fn is_closed(&self) -> bool {
        self.0.lock().closed
    }

    /// A stream that was accepted, unless there are too many strangers.
    pub(super) fn enter(&self, stream: TcpStream) -> Option<Arc<TcpStream>> {
        let mut inner = self.0.lock();
        if inner.closed || inner.greeting.len() >= GREETING {
            return None;
        }
        let stream = Arc::new(stream);
        inner.greeting.push(Arc::clone(&stream));
        Some(stream)
    }

    /// Its handshake is over.
    pub(super) fn leave(&self, stream: &Arc<TcpStream>) {
        let mut inner = self.0.lock();
        inner.greeting.retain(|other| !Arc::ptr_eq(stream, other));
    }
}
