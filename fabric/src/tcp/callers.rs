//! Those who call this machine, and whose requests are applied.
//!
//! # Invariants
//! * A request is applied while its connection's gate is held and open. Whoever closes the gate of
//!   a machine that was removed knows that nothing of it is applied afterwards (FAB-5).
//! * A machine has one connection a lane, the newest. When it has restarted, those of its life
//!   before are closed before the first new one is admitted.

use std::collections::HashSet;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;

use super::auth::{HandshakeError, Peer};
use super::link::LANES;
use crate::machine::MachineId;

/// Callers that are in a handshake at once.
const GREETING: usize = 64;

/// Those who call.
#[derive(Debug)]
pub(super) struct Callers(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    closed: bool,
    members: HashSet<MachineId>,
    calls: Vec<Arc<Call>>,
}

/// One connection to the agent.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) stream: TcpStream,
    gate: Mutex<Gate>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    /// In the handshake.
    Greeting,
    Open(Peer),
    Closed,
}

impl Call {
    fn close(&self) {
        // First the stream, so that whoever holds the gate is not held up by the peer.
        let _ = self.stream.shutdown(Shutdown::Both);
        *self.gate.lock() = Gate::Closed;
    }

    fn gate(&self) -> Gate {
        *self.gate.lock()
    }

    /// Lets `apply` work on what `caller` has sent; `None` where that is not wanted any more.
    pub(super) fn apply<T>(&self, caller: Peer, apply: impl FnOnce() -> T) -> Option<T> {
        let gate = self.gate.lock();
        (*gate == Gate::Open(caller)).then(apply)
    }
}

impl Callers {
    /// Nobody but this machine is a member.
    pub(super) fn new(me: MachineId) -> Self {
        Callers(Mutex::new(Inner {
            closed: false,
            members: HashSet::from([me]),
            calls: Vec::new(),
        }))
    }

    /// Closes the connections of those who are no members any more; nothing of them is applied when
    /// this returns.
    pub(super) fn set_members(&self, members: HashSet<MachineId>) {
        let mut inner = self.0.lock();
        for call in &inner.calls {
            if matches!(call.gate(), Gate::Open(peer) if !members.contains(&peer.machine)) {
                call.close();
            }
        }
        inner.members = members;
    }

    /// Closes all, for good.
    pub(super) fn close(&self) {
        let mut inner = self.0.lock();
        inner.closed = true;
        inner.calls.iter().for_each(|call| call.close());
    }

    /// Whether [`Self::close`] was called.
    pub(super) fn is_closed(&self) -> bool {
        self.0.lock().closed
    }

    /// A stream that was accepted, unless there are too many strangers.
    pub(super) fn enter(&self, stream: TcpStream) -> Option<Arc<Call>> {
        let mut inner = self.0.lock();
        let greeting = inner.calls.iter();
        let greeting = greeting.filter(|call| call.gate() == Gate::Greeting);
        if inner.closed || greeting.count() >= GREETING {
            return None;
        }
        let call = Arc::new(Call {
            stream,
            gate: Mutex::new(Gate::Greeting),
        });
        inner.calls.push(Arc::clone(&call));
        Some(call)
    }

    /// Holds up what a machine has sent on a lane, while something else happens.
    #[cfg(test)]
    pub(super) fn hold_up(&self, machine: MachineId, lane: usize, meanwhile: impl FnOnce()) {
        let calls = self.0.lock().calls.clone();
        let held = calls.iter().find_map(|call| {
            let gate = call.gate.lock();
            let of = |peer: Peer| peer.machine == machine && usize::from(peer.lane) == lane;
            matches!(*gate, Gate::Open(peer) if of(peer)).then_some(gate)
        });
        assert!(held.is_some(), "it is connected");
        meanwhile();
    }

    pub(super) fn leave(&self, call: &Arc<Call>) {
        call.close();
        let mut inner = self.0.lock();
        inner.calls.retain(|other| !Arc::ptr_eq(call, other));
    }

    /// Opens the gate of a caller that has proved who it is.
    pub(super) fn admit(
        &self,
        me: MachineId,
        call: &Call,
        caller: Peer,
    ) -> Result<Peer, HandshakeError> {
        let inner = self.0.lock();
        if inner.closed || !inner.members.contains(&caller.machine) {
            return Err(HandshakeError::NotMember);
        }
        if caller.machine == me {
            return Err(HandshakeError::OtherMachine);
        }
        if usize::from(caller.lane) >= LANES {
            return Err(HandshakeError::Version);
        }
        for other in &inner.calls {
            let replaced = |peer: Peer| {
                peer.machine == caller.machine
                    && (peer.lane == caller.lane || peer.incarnation != caller.incarnation)
            };
            if matches!(other.gate(), Gate::Open(peer) if replaced(peer)) {
                other.close();
            }
        }
        *call.gate.lock() = Gate::Open(caller);
        Ok(caller)
    }
}
