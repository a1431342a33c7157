//! The agent: plays the network card for those who call this machine.
//!
//! ```text
//! accept ─► handshake ─► admit ─► card: requests that have arrived, one read(2)
//!                                       apply them in order, gather the replies, one write(2), again
//! ```
//! # Failure
//! A malformed request ends its connection. What cannot be accepted for want of threads or
//! descriptors is closed, and the peer calls again. Of a peer that does not read its replies nothing more is
//! read.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use super::auth::{self, HandshakeError, Peer};
use super::callers::Call;
use super::card::{Port, Wants, write_some};
use super::frame::{self, Inbox, Request, Target};
use super::{PATIENCE, Shared};
use crate::direct;
use crate::fabric::FabricError;
use crate::machine::MachineId;
use crate::memory::Memory;

/// Replies that gather before they are written.
const REPLY_BYTES: usize = 256 << 10;

/// The listener's life: until the fabric shuts the listener down.
pub(super) fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    loop {
        let accepted = listener.accept();
        if shared.callers.is_closed() {
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
                // Whyever it was refused: the peer calls again if it wants to.
                if greet(&shared, &caller).is_err() {
                    shared.callers.leave(&caller);
                }
            };
            if threads.spawn(name, life).is_err() {
                callers.leave(&call);
            }
        }
    }
}

/// The handshake; from then on the card of the lane carries the connection.
fn greet(shared: &Arc<Shared>, call: &Arc<Call>) -> Result<(), HandshakeError> {
    super::prepare(&call.stream, Some(PATIENCE))?;
    let me = shared.identity.me;
    let admit = |peer| shared.callers.admit(me, call, peer);
    let peer = auth::listen(&shared.identity, &mut &call.stream, admit)?;
    call.stream.set_nonblocking(true)?;
    shared.call_back(peer.machine);
    shared.cards[usize::from(peer.lane)].plug(Box::new(Served {
        shared: Arc::clone(shared),
        call: Arc::clone(call),
        peer,
        inbox: Inbox::new(),
        work: Work::default(),
    }));
    Ok(())
}

/// A caller's place on a card: applies its requests and writes the replies, until one of the two ends the
/// connection.
struct Served {
    shared: Arc<Shared>,
    call: Arc<Call>,
    peer: Peer,
    inbox: Inbox,
    work: Work,
}

impl Port for Served {
    fn stream(&self) -> &TcpStream {
        &self.call.stream
    }

    fn turn(&mut self, readable: bool) -> io::Result<Wants> {
        if !self.work.send(&self.call.stream)? {
            return Ok(Wants::Write);
        }
        if readable {
            self.inbox.fill(&mut &self.call.stream)?;
        }
        loop {
            let (work, inbox) = (&mut self.work, &mut self.inbox);
            let apply = || work.apply(&self.shared, self.peer, inbox);
            let applied = self.call.apply(self.peer, apply);
            let all = applied.ok_or(io::ErrorKind::ConnectionAborted)??;
            if !self.work.send(&self.call.stream)? {
                return Ok(Wants::Write);
            }
            if all {
                return Ok(Wants::Read);
            }
        }
    }

    fn has_work(&self) -> bool {
        false
    }

    fn end(&mut self) {
        self.shared.callers.leave(&self.call);
    }
}

/// What a batch of requests comes to.
#[derive(Debug, Default)]
struct Work {
    replies: Vec<u8>,
    /// How much of them is written.
    sent: usize,
    /// Writes that were applied and are not in the replies yet.
    done: u32,
    words: Vec<u64>,
}

impl Work {
    /// Writes replies as far as there is room; whether all of them are.
    fn send(&mut self, stream: &TcpStream) -> io::Result<bool> {
        let all = write_some(stream, &self.replies, &mut self.sent)?;
        if all {
            self.replies.clear();
            self.replies.shrink_to(REPLY_BYTES);
            self.words.shrink_to(REPLY_BYTES / 8);
            self.sent = 0;
        }
        Ok(all)
    }

    /// Applies requests that are there, until there are enough replies; whether it was all of them.
    fn apply(&mut self, shared: &Shared, from: Peer, inbox: &mut Inbox) -> io::Result<bool> {
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
                request => self.apply_one(shared, from.machine, request),
            }
        };
        frame::put_done(&mut self.replies, &mut self.done);
        if rung {
            shared.cards[usize::from(from.lane)].call();
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
