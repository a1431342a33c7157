//! The connections to one peer, kept up: one for ordinary operations, one for leases.
//!
//! ```text
//! call both ─► up: Connected ─► one breaks ─► both closed: Lost ─► wait, ever longer ─► call …
//! ```
//! # Failure
//! Whatever breaks or is refused is tried again, until the peer is no member any more; why it was
//! refused last can be asked for. A peer that calls is called back at once.

use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::auth::{self, HandshakeError, Peer};
use super::connection::{Connection, Poster};
use super::{PATIENCE, Shared};
use crate::fabric::Event;
use crate::machine::MachineId;

const FIRST_DELAY: Duration = Duration::from_millis(5);
const LAST_DELAY: Duration = Duration::from_millis(500);

/// One connection each; what waits in one does not delay the other.
pub(super) const LANES: usize = 2;
/// Everything but leases.
pub(super) const ORDINARY: usize = 0;
/// Leases alone.
pub(super) const LEASES: usize = 1;

/// What keeps the connections to a peer.
#[derive(Debug)]
pub(super) struct Link {
    peer: MachineId,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    address: String,
    stopped: bool,
    /// Not to wait before the next call.
    now: bool,
    /// Streams in a handshake.
    calling: Vec<TcpStream>,
    up: Option<[Arc<Connection>; LANES]>,
    /// One of the connections has ended.
    over: bool,
    refusal: Option<HandshakeError>,
}

impl Link {
    /// Not called yet.
    pub(super) fn new(peer: MachineId, address: &str) -> Arc<Self> {
        let state = State {
            address: address.to_owned(),
            ..State::default()
        };
        Arc::new(Link {
            peer,
            state: Mutex::new(state),
            wake: Condvar::new(),
        })
    }

    /// The connection of a lane, while both are up.
    pub(super) fn connection(&self, lane: usize) -> Option<Arc<Connection>> {
        let state = self.state.lock();
        state.up.as_ref().map(|up| Arc::clone(&up[lane]))
    }

    /// Why the last call was refused; `None` while the connections are up.
    pub(super) fn refusal(&self) -> Option<HandshakeError> {
        self.state.lock().refusal.clone()
    }

    /// Calls another address from now on.
    pub(super) fn set_address(&self, address: &str) {
        let mut state = self.state.lock();
        if state.address != address {
            state.address = address.to_owned();
            drop(state);
            self.call_now();
        }
    }

    /// Does not wait before the next call: the peer is there.
    pub(super) fn call_now(&self) {
        self.state.lock().now = true;
        self.wake.notify_all();
    }

    /// Ends the connections, and answers all that waits, for good.
    pub(super) fn stop(&self, shared: &Shared) {
        let mut state = self.state.lock();
        state.stopped = true;
        for stream in state.calling.drain(..) {
            // It may be broken already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        drop(state);
        self.wake.notify_all();
        self.down(shared);
    }

    /// The life of a link: calls the peer until it is stopped.
    pub(super) fn keep(self: &Arc<Self>, shared: &Shared) {
        let mut delay = FIRST_DELAY;
        loop {
            match self.call(shared) {
                Ok(connections) => {
                    delay = FIRST_DELAY;
                    if self.up(shared, &connections) {
                        self.carry(shared, &connections);
                    }
                    self.down(shared);
                }
                Err(error) => {
                    let mut state = self.state.lock();
                    state.calling.clear();
                    state.refusal = Some(error);
                }
            }
            let mut state = self.state.lock();
            if !state.stopped && !state.now {
                self.wake.wait_for(&mut state, delay);
            }
            if state.stopped {
                return;
            }
            state.now = false;
            delay = (delay * 2).min(LAST_DELAY);
        }
    }

    /// From now on the connections are used, unless the link was stopped meanwhile.
    fn up(&self, shared: &Shared, connections: &[Arc<Connection>; LANES]) -> bool {
        let mut state = self.state.lock();
        state.calling.clear();
        if state.stopped {
            return false;
        }
        state.up = Some(connections.clone());
        state.over = false;
        state.refusal = None;
        shared.tell(Event::Connected(self.peer));
        true
    }

    /// From now on they are not.
    fn down(&self, shared: &Shared) {
        let mut state = self.state.lock();
        let up = state.up.take();
        if up.is_some() {
            shared.tell(Event::Lost(self.peer));
        }
        drop(state);
        for connection in up.iter().flatten() {
            connection.close();
        }
    }

    /// Lets the cards carry the connections until one of them ends, which ends the other.
    fn carry(self: &Arc<Self>, shared: &Shared, connections: &[Arc<Connection>; LANES]) {
        for (card, connection) in shared.cards.iter().zip(connections) {
            let link = Arc::clone(self);
            let ended = move |ended: &Arc<Connection>| link.ended(ended);
            card.plug(Box::new(Poster::new(connection, ended)));
        }
        let mut state = self.state.lock();
        while !state.over && !state.stopped {
            self.wake.wait(&mut state);
        }
    }

    /// A connection has ended; one of an earlier pair says nothing of those of now.
    fn ended(&self, connection: &Arc<Connection>) {
        let mut state = self.state.lock();
        let mut up = state.up.iter().flatten();
        if up.any(|other| Arc::ptr_eq(other, connection)) {
            state.over = true;
            drop(state);
            self.wake.notify_all();
        }
    }

    fn call(&self, shared: &Shared) -> Result<[Arc<Connection>; LANES], HandshakeError> {
        let (ordinary, first) = self.call_lane(shared, ORDINARY)?;
        let (leases, second) = self.call_lane(shared, LEASES)?;
        if first.incarnation != second.incarnation {
            return Err(HandshakeError::Io("the peer has just restarted".into()));
        }
        Ok([ordinary, leases])
    }

    fn call_lane(
        &self,
        shared: &Shared,
        lane: usize,
    ) -> Result<(Arc<Connection>, Peer), HandshakeError> {
        let address = self.state.lock().address.clone();
        let mut stream = Err(std::io::ErrorKind::AddrNotAvailable.into());
        for address in address.to_socket_addrs()? {
            stream = TcpStream::connect_timeout(&address, PATIENCE);
            if stream.is_ok() {
                break;
            }
        }
        let mut stream = stream?;
        super::prepare(&stream, Some(PATIENCE))?;
        let shutter = stream.try_clone()?;
        let mut state = self.state.lock();
        if state.stopped {
            return Err(HandshakeError::Io("no member any more".into()));
        }
        state.calling.push(shutter);
        drop(state);
        let peer = auth::call(&shared.identity, self.peer, lane as u8, &mut stream)?;
        stream.set_nonblocking(true)?;
        Ok((Connection::new(stream, &shared.cards[lane]), peer))
    }
}
