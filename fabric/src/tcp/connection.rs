//! A connection to a peer: operations of many threads and replies to the peer's operations,
//! gathered into few writes.
//!
//! ```text
//! post ─► out, waiting ─► card: replies and all posted operations, one write(2) ─► peer's card
//!          replies, in the order of requests; requests ─► [`super::agent`] ◄─ one read(2)
//! ```
//! The card's part, reading and writing, is [`super::carried`].
//!
//! # Invariants
//! * Requests and their completers are queued under one lock, so the n-th reply answers the n-th
//!   request.
//! * A closed connection stays closed. Waiting operations, and later ones, answer
//!   [`crate::FabricError::Lost`]; the next connection to the peer shares no state with it.
//! * A request of the peer is applied only while the gate is held and open. After a thread has
//!   closed the connection, no request of the peer is applied (FAB-5).
//! * At most [`OUT_BYTES`] and one operation wait to be written, besides an equal amount being
//!   written. At most [`WAITING`] operations wait for replies, and these have at most
//!   [`REPLY_BYTES_MAX`] and one more reply. A thread that posts more waits until the peer has
//!   taken some or the connection is closed. It does not wait while the attendant works (AGENT-3).
//! * Replies wait for no request of this machine: both ends always read. The limits of the
//!   requesting end bound the replies that accumulate at the other end.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::frame::{self, Malformed, Reply};
use super::one_sided_agent::OneSidedAgent;
use super::tls::Session;
use crate::waiting::{Answer, PendingOperation};

/// The number of waiting bytes above which a posting thread must wait.
pub(super) const OUT_BYTES: usize = 4 << 20;
/// The number of unanswered operations at which a posting thread must wait.
pub(super) const WAITING: usize = 1 << 16;
/// The number of requested bytes above which a posting thread must wait: those of the longest read.
pub(super) const REPLY_BYTES_MAX: usize = frame::LONGEST * 8;
/// The largest size of posted requests that are copied behind replies into the same write.
const COPIED_BYTES: usize = 64 << 10;

/// A connection over which both ends post.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    lane_agent: Arc<OneSidedAgent>,
    /// Whether requests of the peer are applied.
    gate: Mutex<bool>,
    posted: Mutex<SendQueue>,
    /// The TLS session, until a card takes it.
    session: Mutex<Option<Session>>,
    /// Notified when there is space to post, or the connection is closed.
    space_freed: Condvar,
}

#[derive(Debug, Default)]
struct SendQueue {
    closed: bool,
    out: Vec<u8>,
    waiting: VecDeque<PendingOperation>,
    /// The bytes that the waiting operations have asked for.
    asked: usize,
    /// Whether an operation was posted without a bell after it.
    unrung: bool,
}

impl SendQueue {
    fn is_full(&self) -> bool {
        self.out.len() > OUT_BYTES || self.waiting.len() >= WAITING || self.asked > REPLY_BYTES_MAX
    }
}

impl Connection {
    /// Returns a connection on a non-blocking stream whose handshake is done; `one_sided_agent` is
    /// to serve it.
    pub(super) fn new(
        stream: TcpStream,
        session: Option<Session>,
        card: &Arc<OneSidedAgent>,
    ) -> Arc<Self> {
        Arc::new(Connection {
            stream,
            lane_agent: Arc::clone(card),
            gate: Mutex::new(true),
            posted: Mutex::default(),
            session: Mutex::new(session),
            space_freed: Condvar::new(),
        })
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Posts the operation that `put` encodes, with its completer; with `ring` the peer's bell
    /// follows.
    pub(super) fn post(
        &self,
        put: impl FnOnce(&mut Vec<u8>),
        waiting: PendingOperation,
        ring: bool,
    ) {
        let mut posted = self.posted.lock();
        while !posted.closed && posted.is_full() && self.lane_agent.may_wait() {
            self.space_freed.wait(&mut posted);
            self.lane_agent.has_waited();
        }
        if posted.closed {
            // The lock is released first, because a woken task may post again.
            drop(posted);
            return drop(waiting);
        }
        put(&mut posted.out);
        posted.unrung |= !matches!(waiting, PendingOperation::Read(..));
        posted.asked += waiting.asked() * 8;
        posted.waiting.push_back(waiting);
        if ring {
            posted.ring();
        }
        drop(posted);
        self.lane_agent.nudge();
    }

    /// Rings the peer's bell after the posted operations.
    pub(super) fn bell(&self) {
        let mut posted = self.posted.lock();
        if !posted.closed && (posted.unrung || posted.out.is_empty()) {
            posted.ring();
            drop(posted);
            self.lane_agent.nudge();
        }
    }

    /// Closes the connection, and completes all waiting operations with an error.
    pub(super) fn close(&self) {
        let mut posted = self.posted.lock();
        posted.closed = true;
        posted.out = Vec::new();
        let waiting = std::mem::take(&mut posted.waiting);
        drop(posted);
        // The connection may be broken already.
        let _ = self.stream.shutdown(Shutdown::Both);
        *self.gate.lock() = false;
        self.space_freed.notify_all();
        drop(waiting);
    }

    /// Locks the gate; while it is held and true, a request of the peer may be applied.
    pub(super) fn gate(&self) -> MutexGuard<'_, bool> {
        self.gate.lock()
    }

    /// Takes the TLS session, for the card.
    pub(super) fn take_session(&self) -> Option<Session> {
        self.session.lock().take()
    }

    pub(super) fn has_posted(&self) -> bool {
        !self.posted.lock().out.is_empty()
    }

    /// Returns whether a posting thread must wait.
    #[cfg(test)]
    pub(super) fn is_full(&self) -> bool {
        self.posted.lock().is_full()
    }

    /// Moves the posted operations behind the replies in `batch`; a large amount is left for a
    /// write of its own.
    ///
    /// # Errors
    /// If the connection is closed.
    pub(super) fn take_posted(&self, batch: &mut Vec<u8>) -> io::Result<()> {
        let mut posted = self.posted.lock();
        if posted.closed {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        if batch.is_empty() {
            std::mem::swap(batch, &mut posted.out);
        } else if posted.out.len() <= COPIED_BYTES {
            batch.append(&mut posted.out);
        }
        drop(posted);
        self.space_freed.notify_all();
        Ok(())
    }

    /// Completes the first waiting operation with the peer's reply.
    ///
    /// # Errors
    /// [`Malformed`] if no operation waits, or one of another kind.
    pub(super) fn reply(&self, reply: Reply<'_>) -> Result<(), Malformed> {
        let answer = match reply {
            Reply::Done(count) => return self.done(count as usize),
            Reply::Words(words) => Answer::Words(words.iter().collect()),
            Reply::Was(was) => Answer::Was(was),
            Reply::Refused(error) => Answer::Failed(error),
        };
        // The lock is released first, because a woken task may post again.
        let first = self.posted.lock().take_first();
        let waiting = first.ok_or(Malformed)?;
        waiting.answer(answer).map_err(|_| Malformed)
    }

    fn done(&self, count: usize) -> Result<(), Malformed> {
        let mut posted = self.posted.lock();
        if count > posted.waiting.len() {
            return Err(Malformed);
        }
        let done: Vec<_> = (0..count).map_while(|_| posted.take_first()).collect();
        drop(posted);
        let mut answered = done.into_iter().map(|one| one.answer(Answer::Written));
        answered
            .try_for_each(|answered| answered)
            .map_err(|_| Malformed)
    }

    /// Wakes threads that wait for space, after operations were answered.
    pub(super) fn answered(&self) {
        self.space_freed.notify_all();
    }
}

impl SendQueue {
    fn ring(&mut self) {
        frame::put_bell(&mut self.out);
        self.unrung = false;
    }

    fn take_first(&mut self) -> Option<PendingOperation> {
        let first = self.waiting.pop_front()?;
        self.asked -= first.asked() * 8;
        Some(first)
    }
}

#[cfg(test)]
mod tests;
