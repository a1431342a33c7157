//! The agent: plays the network card for those who call this machine.
//!
//! ```text
//! accept ─► handshake ─► admit ─► requests that have arrived, one read(2)
//!                                 apply them in order, gather the replies, one write(2), again
//! ```
//! # Invariants
//! * A request is applied while its connection's gate is held and open. Whoever closes the gate of
//!   a machine that was removed knows that nothing of it is applied afterwards (FAB-5).
//! * A machine has one connection a lane, the newest. When it has restarted, those of its life
//!   before are closed before the first new one is admitted.
//!
//! # Failure
//! A malformed request ends its connection. What cannot be accepted for want of threads or
//! descriptors is closed, and the peer calls again.

use std::collections::HashSet;
use std::io::{self, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::auth::{self, HandshakeError, Peer};
use super::frame::{self, Inbox, Request, Target};
use super::{PATIENCE, Shared};
use crate::direct;
use crate::fabric::FabricError;
use crate::machine::MachineId;
use crate::memory::Memory;

/// Replies that gather before they are written.
const REPLY_BYTES: usize = 256 << 10;
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
struct Call {
    stream: TcpStream,
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

    /// A stream that was accepted, unless there are too many strangers.
    fn enter(&self, stream: TcpStream) -> Option<Arc<Call>> {
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

    fn leave(&self, call: &Arc<Call>) {
        call.close();
        let mut inner = self.0.lock();
        inner.calls.retain(|other| !Arc::ptr_eq(call, other));
    }

    /// Opens the gate of a caller that has proved who it is.
    fn admit(&self, me: MachineId, call: &Call, caller: Peer) -> Result<Peer, HandshakeError> {
        let inner = self.0.lock();
        if inner.closed || !inner.members.contains(&caller.machine) {
            return Err(HandshakeError::NotMember);
        }
        if caller.machine == me {
            return Err(HandshakeError::OtherMachine);
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

/// The listener's life: until the fabric shuts the listener down.
pub(super) fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    loop {
        let accepted = listener.accept();
        if shared.callers.0.lock().closed {
            return;
        }
        let Ok((stream, _)) = accepted else {
            // Most likely there are no descriptors; waiting for some must not take a processor.
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        if let Some(call) = shared.callers.enter(stream) {
            let (shared, name) = (Arc::clone(shared), shared.name("agent"));
            let threads = Arc::clone(&shared.threads);
            let callers = Arc::clone(&shared.callers);
            let caller = Arc::clone(&call);
            let life = move || {
                // However it ended: the peer calls again if it wants to.
                let _ = serve(&shared, &caller);
                shared.callers.leave(&caller);
            };
            if threads.spawn(name, life).is_err() {
                callers.leave(&call);
            }
        }
    }
}

/// The life of a connection: the handshake, then requests, until one of the two ends it.
fn serve(shared: &Shared, call: &Call) -> Result<(), HandshakeError> {
    super::prepare(&call.stream, Some(PATIENCE))?;
    let me = shared.identity.me;
    let admit = |peer| shared.callers.admit(me, call, peer);
    let peer = auth::listen(&shared.identity, &mut &call.stream, admit)?;
    super::prepare(&call.stream, None)?;
    shared.call_back(peer.machine);

    let (mut inbox, mut work) = (Inbox::new(), Work::default());
    loop {
        inbox.fill(&mut &call.stream)?;
        loop {
            let gate = call.gate.lock();
            if *gate != Gate::Open(peer) {
                return Ok(());
            }
            let all = work.apply(shared, peer.machine, &mut inbox)?;
            drop(gate);
            (&call.stream).write_all(&work.replies)?;
            work.replies.clear();
            if all {
                break;
            }
        }
        work.replies.shrink_to(REPLY_BYTES);
        work.words.shrink_to(REPLY_BYTES / 8);
    }
}

/// What a batch of requests comes to.
#[derive(Debug, Default)]
struct Work {
    replies: Vec<u8>,
    /// Writes that were applied and are not in the replies yet.
    done: u32,
    words: Vec<u64>,
}

impl Work {
    /// Applies requests that are there, until there are enough replies; whether it was all of them.
    fn apply(&mut self, shared: &Shared, from: MachineId, inbox: &mut Inbox) -> io::Result<bool> {
        let mut rung = false;
        let all = loop {
            if self.replies.len() >= REPLY_BYTES {
                break false;
            }
            let Some(frame) = inbox.next()? else {
                break true;
            };
            match Request::of(frame)? {
                Request::Bell => rung = true,
                request => self.apply_one(shared, from, request),
            }
        };
        frame::put_done(&mut self.replies, &mut self.done);
        if rung {
            shared.bell.ring();
        }
        Ok(all)
    }

    fn apply_one(&mut self, shared: &Shared, from: MachineId, request: Request<'_>) {
        let memory = |target: Target, to_write| -> Result<Arc<Memory>, FabricError> {
            shared.registry.memory(target.segment, from, to_write)
        };
        let refused = match request {
            Request::Write(target, words) => {
                self.words.clear();
                self.words.extend(words.iter());
                let written = memory(target, true).and_then(|memory| {
                    direct::now(direct::write(&memory, target.word, &self.words))
                });
                written.map(|()| self.done += 1)
            }
            Request::Read(target, words) => memory(target, false)
                .and_then(|memory| direct::now(direct::read(&memory, target.word, words)))
                .map(|words| {
                    frame::put_done(&mut self.replies, &mut self.done);
                    frame::put_words(&mut self.replies, &words);
                }),
            Request::Swap(target, expected, new) => memory(target, true)
                .and_then(|memory| direct::now(direct::cas(&memory, target.word, expected, new)))
                .map(|was| {
                    frame::put_done(&mut self.replies, &mut self.done);
                    frame::put_was(&mut self.replies, was);
                }),
            // Bells have no reply, and are rung after the batch.
            Request::Bell => Ok(()),
        };
        if let Err(error) = refused {
            frame::put_done(&mut self.replies, &mut self.done);
            frame::put_refused(&mut self.replies, &error);
        }
    }
}
