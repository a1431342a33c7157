//! The link to a peer: it keeps two connections up, one for ordinary operations and one for leases.
//!
//! ```text
//! greater number   connect both ─► up ─► one breaks ─► both closed: Lost ─► growing delay ─► …
//! smaller number   ask for both ─► two accepted: up ─► one breaks ─► both closed: Lost ─► ask …
//! ```
//! The machine with the greater number connects, and the other one asks it to. A request goes
//! through the same handshake, so that each machine learns the reason of a refusal.
//!
//! # Invariants
//! * The peer's earlier connections are closed before the first of its new ones is admitted.
//! * No request of the peer is applied before both connections are up, nor after
//!   [`PeerConnections::stop`] (FAB-5).
//! * Both connections are of one attempt: connections of an attempt that the peer has given up may
//!   be admitted late.
//!
//! # Failure
//! A broken or refused connection is tried again, until the peer is no longer a member.
//! [`PeerConnections::refusal`] returns the last refusal. A request to connect is served at once.

use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::agent::Agent;
use super::auth::{ASKS, HandshakeError, Peer};
use super::carried::AgentConnection;
use super::connection::Connection;
use super::tls::{self, Session};
use super::{Shared, TIME_LIMIT};
use crate::fabric::Event;
use crate::machine::MachineId;

const FIRST_DELAY: Duration = Duration::from_millis(5);
const LAST_DELAY: Duration = Duration::from_millis(500);

/// The number of connections; data that waits in one does not delay the other.
pub(super) const LANES: usize = 2;
/// The lane of all operations but leases.
pub(super) const ORDINARY: usize = 0;
/// The lane of leases.
pub(super) const LEASES: usize = 1;

/// The state of the connections to a peer.
#[derive(Debug)]
pub(super) struct PeerConnections {
    peer: MachineId,
    state: Mutex<State>,
    wake: Condvar,
    /// The number of connection pairs that were used and have ended; it is increased before the
    /// next pair is used.
    losses: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct State {
    address: String,
    stopped: bool,
    /// Whether the next attempt starts without delay.
    now: bool,
    /// The streams in a handshake.
    calling: Vec<TcpStream>,
    /// The number of attempts of the peer, each of which begins with the ordinary connection.
    calls: u64,
    /// The ordinary connection of the peer's last attempt, until the other one arrives.
    half: Option<Arc<Connection>>,
    up: Option<Pair>,
    /// Whether one of the connections has ended.
    over: bool,
    refusal: Option<HandshakeError>,
}

/// The connections to one incarnation of a peer.
#[derive(Clone, Debug)]
struct Pair {
    incarnation: u64,
    connections: [Arc<Connection>; LANES],
}

impl Pair {
    fn close(&self) {
        self.connections
            .iter()
            .for_each(|connection| connection.close());
    }
}

/// Returns whether `me` is the one of the two that connects.
fn calls(me: MachineId, peer: MachineId) -> bool {
    me > peer
}

impl PeerConnections {
    /// Returns a link without connections.
    pub(super) fn new(peer: MachineId, address: &str, losses: Arc<AtomicU64>) -> Arc<Self> {
        let state = State {
            address: address.to_owned(),
            ..State::default()
        };
        Arc::new(PeerConnections {
            peer,
            state: Mutex::new(state),
            wake: Condvar::new(),
            losses,
        })
    }

    /// Returns the connection of a lane, while both are up.
    pub(super) fn connection(&self, lane: usize) -> Option<Arc<Connection>> {
        let state = self.state.lock();
        let up = state.up.as_ref();
        up.map(|up| Arc::clone(&up.connections[lane]))
    }

    /// Returns why the last attempt was refused; `None` while the connections are up.
    pub(super) fn refusal(&self) -> Option<HandshakeError> {
        self.state.lock().refusal.clone()
    }

    /// Changes the address for further attempts.
    pub(super) fn set_address(&self, address: &str) {
        let mut state = self.state.lock();
        if state.address != address {
            state.address = address.to_owned();
            state.now = true;
            drop(state);
            self.wake.notify_all();
        }
    }

    /// Closes the connections and completes all waiting operations, for good.
    pub(super) fn stop(&self, shared: &Shared) {
        let mut state = self.state.lock();
        state.stopped = true;
        for stream in state.calling.drain(..) {
            // The stream may be broken already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        let half = state.half.take();
        self.down(shared, state);
        if let Some(half) = half {
            half.close();
        }
    }

    /// Runs the link until it is stopped: connects to the peer, or asks it to connect.
    pub(super) fn keep(self: &Arc<Self>, shared: &Arc<Shared>) {
        let mut delay = FIRST_DELAY;
        loop {
            if !self.is_up() {
                self.try_call(shared);
            }
            if self.await_end(shared) {
                delay = FIRST_DELAY;
            }
            let mut state = self.state.lock();
            if !state.stopped && !state.now && state.up.is_none() {
                self.wake.wait_for(&mut state, delay);
            }
            if state.stopped {
                return;
            }
            state.now = false;
            delay = (delay * 2).min(LAST_DELAY);
        }
    }

    fn is_up(&self) -> bool {
        self.state.lock().up.is_some()
    }

    fn try_call(self: &Arc<Self>, shared: &Arc<Shared>) {
        let called = if calls(shared.identity.me, self.peer) {
            let pair = self.call(shared);
            pair.map(|pair| self.up(shared, pair))
        } else {
            let asked = self.call_lane(shared, ASKS).map(drop);
            // No caller sees this once the peer has connected.
            asked.and(Err(HandshakeError::Io("has been asked to call".into())))
        };
        let mut state = self.state.lock();
        state.calling.clear();
        if state.up.is_none()
            && let Err(error) = called
        {
            state.refusal = Some(error);
        }
    }

    /// Waits while the connections are up; when one ends, closes the other. Returns whether they
    /// were up.
    fn await_end(&self, shared: &Shared) -> bool {
        let mut state = self.state.lock();
        let was_up = state.up.is_some();
        while state.up.is_some() && !state.over && !state.stopped {
            self.wake.wait(&mut state);
        }
        self.down(shared, state);
        was_up
    }

    /// Puts the connections into use and adds them to the lane agents, unless the link was stopped
    /// meanwhile.
    fn up(self: &Arc<Self>, shared: &Arc<Shared>, pair: Pair) {
        let mut state = self.state.lock();
        if state.stopped {
            drop(state);
            return pair.close();
        }
        state.up = Some(pair.clone());
        state.over = false;
        state.refusal = None;
        shared.tell(Event::Connected(self.peer));
        drop(state);
        self.wake.notify_all();
        for (lane_agent, connection) in shared.lane_agents.iter().zip(&pair.connections) {
            let link = Arc::clone(self);
            let ended = move |ended: &Arc<Connection>| link.ended(ended);
            let agent = Agent::new(&shared.registry, lane_agent, self.peer);
            lane_agent.plug(Box::new(AgentConnection::new(connection, agent, ended)));
        }
    }

    /// Takes the connections out of use and closes them.
    fn down(&self, shared: &Shared, mut state: MutexGuard<'_, State>) {
        let up = state.up.take();
        if up.is_some() {
            self.losses.fetch_add(1, Ordering::AcqRel);
            shared.tell(Event::Lost(self.peer));
        }
        drop(state);
        self.wake.notify_all();
        if let Some(pair) = up {
            pair.close();
        }
    }

    /// Records that a connection has ended; ignores connections of an earlier pair.
    fn ended(&self, connection: &Arc<Connection>) {
        let mut state = self.state.lock();
        let mut up = state.up.iter().flat_map(|up| &up.connections);
        if up.any(|other| Arc::ptr_eq(other, connection)) {
            state.over = true;
            drop(state);
            self.wake.notify_all();
        }
    }

    /// Admits an identified peer: takes its request to connect, or counts its connection to an
    /// attempt, whose number it returns.
    ///
    /// # Errors
    /// If the peer is not the one of the two that connects.
    pub(super) fn admit(&self, shared: &Shared, peer: Peer) -> Result<u64, HandshakeError> {
        let mut state = self.state.lock();
        if state.stopped {
            return Err(HandshakeError::NotMember);
        }
        let other_incarnation = |up: &Pair| up.incarnation != peer.incarnation;
        let restarted = state.up.as_ref().is_some_and(other_incarnation);
        if calls(shared.identity.me, self.peer) {
            if !peer.asks() {
                return Err(HandshakeError::Version);
            }
            state.over |= restarted;
            state.now = true;
            let call = state.calls;
            drop(state);
            self.wake.notify_all();
            return Ok(call);
        }
        if usize::from(peer.lane) >= LANES {
            return Err(HandshakeError::Version);
        }
        // The peer connects only while it has no connection, the ordinary one first.
        if restarted || usize::from(peer.lane) == ORDINARY {
            state.calls += 1;
            let call = state.calls;
            let half = state.half.take();
            self.down(shared, state);
            half.iter().for_each(|half| half.close());
            return Ok(call);
        }
        Ok(state.calls)
    }

    /// Takes a connection that the peer has made, of the given attempt.
    pub(super) fn called(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        (peer, call): (Peer, u64),
        stream: TcpStream,
        session: Option<Session>,
    ) {
        let lane = usize::from(peer.lane);
        let connection = Connection::new(stream, session, &shared.lane_agents[lane]);
        let mut state = self.state.lock();
        let goes_on = |state: &State| state.calls == call && !state.stopped;
        if lane == ORDINARY && goes_on(&state) {
            state.half = Some(connection);
            self.wake.notify_all();
            return;
        }
        // The peer has opened the ordinary connection first, but its thread here may be slightly
        // later.
        let until = Instant::now() + TIME_LIMIT;
        let mut late = false;
        while state.half.is_none() && goes_on(&state) && !late {
            late = self.wake.wait_until(&mut state, until).timed_out();
        }
        let goes_on = goes_on(&state);
        let half = state.half.take_if(|_| goes_on);
        drop(state);
        match half {
            Some(ordinary) => {
                let pair = Pair {
                    incarnation: peer.incarnation,
                    connections: [ordinary, connection],
                };
                self.up(shared, pair);
            }
            // The connection is of an attempt that the peer has given up.
            None => connection.close(),
        }
    }

    fn call(&self, shared: &Shared) -> Result<Pair, HandshakeError> {
        let (first, ordinary, in_tls) = self.call_lane(shared, ORDINARY)?;
        let (second, leases, also_in_tls) = self.call_lane(shared, LEASES)?;
        if first.incarnation != second.incarnation {
            return Err(HandshakeError::Io("the peer has just restarted".into()));
        }
        let [agent, lease_agent] = &shared.lane_agents;
        Ok(Pair {
            incarnation: first.incarnation,
            connections: [
                Connection::new(ordinary, in_tls, agent),
                Connection::new(leases, also_in_tls, lease_agent),
            ],
        })
    }

    /// Opens a stream to the peer and carries out the handshake.
    fn call_lane(
        &self,
        shared: &Shared,
        lane: usize,
    ) -> Result<(Peer, TcpStream, Option<Session>), HandshakeError> {
        let address = self.state.lock().address.clone();
        let mut stream = Err(std::io::ErrorKind::AddrNotAvailable.into());
        for address in address.to_socket_addrs()? {
            stream = TcpStream::connect_timeout(&address, TIME_LIMIT);
            if stream.is_ok() {
                break;
            }
        }
        let stream = stream?;
        super::prepare(&stream, shared.silence)?;
        let shutter = stream.try_clone()?;
        let mut state = self.state.lock();
        if state.stopped {
            return Err(HandshakeError::Io("no member any more".into()));
        }
        state.calling.push(shutter);
        drop(state);
        let (identity, tls) = (&shared.identity, shared.tls.as_ref());
        let (peer, session) = tls::call(identity, tls, self.peer, lane as u8, &stream)?;
        stream.set_nonblocking(true)?;
        Ok((peer, stream, session))
    }

    /// Delays the peer's requests on a lane while `meanwhile` runs.
    #[cfg(test)]
    pub(super) fn hold_up(&self, lane: usize, meanwhile: impl FnOnce()) {
        let connection = self.connection(lane).expect("it is connected");
        let _gate = connection.gate();
        meanwhile();
    }
}
