//! A connection to a peer: operations of many threads and replies to the peer's, gathered into few writes.
//!
//! ```text
//! post ─► out, waiting ─► card: replies and all that has gathered, one write(2) ─► peer's card
//!          replies, first come first served; requests ─► [`super::agent`] ◄─ one read(2)
//! ```
//! The card's part, reading and writing, is [`super::carried`].
//!
//! # Invariants
//! * Requests and what waits for their replies are queued under one lock, so the n-th reply is that
//!   of the n-th request.
//! * A connection is closed for ever. What waits then, and what is posted later, answers
//!   [`crate::FabricError::Lost`]; the next connection to the peer knows nothing of it.
//! * A request of the peer is applied while the gate is held and open. Whoever has closed the
//!   connection knows that nothing of the peer is applied afterwards (FAB-5).
//! * At most [`OUT_BYTES`] and one operation wait to be written, no more than that is being written, and
//!   [`WAITING`] operations, whose replies are [`REPLY_BYTES_MAX`] and one more, wait for replies. Whoever posts
//!   more waits, until the peer has taken some or the connection is closed; but not while the attendant works
//!   (CARD-3).
//! * Replies wait for no request of this machine: both ends read whatever comes, always, and the limits of
//!   the one that asks are what bounds the replies that gather at the other.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::card::Card;
use super::frame::{self, Malformed, Reply};
use super::tls::Session;
use crate::waiting::{Answer, Waiting};

/// Bytes that gather before whoever posts must wait.
pub(super) const OUT_BYTES: usize = 4 << 20;
/// Operations without reply before whoever posts must wait.
pub(super) const WAITING: usize = 1 << 16;
/// Bytes of words that were asked for before whoever posts must wait: those of the longest read.
pub(super) const REPLY_BYTES_MAX: usize = frame::LONGEST * 8;
/// Requests that are copied behind replies to leave with them; more of them leave on their own.
const COPIED_BYTES: usize = 64 << 10;

/// One connection, both ends of which post.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    card: Arc<Card>,
    /// Whether requests of the peer are applied.
    gate: Mutex<bool>,
    posted: Mutex<Posted>,
    /// Of a connection in TLS, until a card carries it.
    session: Mutex<Option<Session>>,
    /// There is room to post, or never again.
    room: Condvar,
}

#[derive(Debug, Default)]
struct Posted {
    closed: bool,
    out: Vec<u8>,
    waiting: VecDeque<Waiting>,
    /// Bytes of words that those who wait have asked for.
    asked: usize,
    /// Whether something was posted that no bell follows yet.
    unrung: bool,
}

impl Posted {
    fn is_full(&self) -> bool {
        self.out.len() > OUT_BYTES || self.waiting.len() >= WAITING || self.asked > REPLY_BYTES_MAX
    }
}

impl Connection {
    /// On a stream whose handshake is done, and which does not block; `card` is to carry it.
    pub(super) fn new(stream: TcpStream, session: Option<Session>, card: &Arc<Card>) -> Arc<Self> {
        Arc::new(Connection {
            stream,
            card: Arc::clone(card),
            gate: Mutex::new(true),
            posted: Mutex::default(),
            session: Mutex::new(session),
            room: Condvar::new(),
        })
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Posts what `put` puts into the frames, for `waiting`; with `ring` the peer looks at it.
    pub(super) fn post(&self, put: impl FnOnce(&mut Vec<u8>), waiting: Waiting, ring: bool) {
        let mut posted = self.posted.lock();
        while !posted.closed && posted.is_full() && self.card.may_wait() {
            self.room.wait(&mut posted);
            self.card.has_waited();
        }
        if posted.closed {
            // Whom it wakes may post again.
            drop(posted);
            return drop(waiting);
        }
        put(&mut posted.out);
        posted.unrung |= !matches!(waiting, Waiting::Read(..));
        posted.asked += waiting.asked() * 8;
        posted.waiting.push_back(waiting);
        if ring {
            posted.ring();
        }
        drop(posted);
        self.card.nudge();
    }

    /// Makes the peer look, after what was posted.
    pub(super) fn bell(&self) {
        let mut posted = self.posted.lock();
        if !posted.closed && (posted.unrung || posted.out.is_empty()) {
            posted.ring();
            drop(posted);
            self.card.nudge();
        }
    }

    /// Ends it; whoever waits is answered.
    pub(super) fn close(&self) {
        let mut posted = self.posted.lock();
        posted.closed = true;
        posted.out = Vec::new();
        let waiting = std::mem::take(&mut posted.waiting);
        drop(posted);
        // It may be broken already.
        let _ = self.stream.shutdown(Shutdown::Both);
        *self.gate.lock() = false;
        self.room.notify_all();
        drop(waiting);
    }

    /// Held while a request of the peer is applied, if it is open.
    pub(super) fn gate(&self) -> MutexGuard<'_, bool> {
        self.gate.lock()
    }

    /// The state of a connection in TLS, for whoever carries it.
    pub(super) fn take_session(&self) -> Option<Session> {
        self.session.lock().take()
    }

    pub(super) fn has_posted(&self) -> bool {
        !self.posted.lock().out.is_empty()
    }

    /// Whether whoever posts must wait.
    #[cfg(test)]
    pub(super) fn is_full(&self) -> bool {
        self.posted.lock().is_full()
    }

    /// Puts what has gathered behind the replies in `batch`; a lot of it leaves on its own.
    ///
    /// # Errors
    /// Where the connection is closed.
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
        self.room.notify_all();
        Ok(())
    }

    /// The peer has answered what waits first.
    ///
    /// # Errors
    /// [`Malformed`] where nothing waits, or something else.
    pub(super) fn reply(&self, reply: Reply<'_>) -> Result<(), Malformed> {
        let answer = match reply {
            Reply::Done(count) => return self.done(count as usize),
            Reply::Words(words) => Answer::Words(words.iter().collect()),
            Reply::Was(was) => Answer::Was(was),
            Reply::Refused(error) => Answer::Failed(error),
        };
        // Answered without the lock: whom it wakes may post again.
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

    /// Some of what waited was answered.
    pub(super) fn answered(&self) {
        self.room.notify_all();
    }
}

impl Posted {
    fn ring(&mut self) {
        frame::put_bell(&mut self.out);
        self.unrung = false;
    }

    fn take_first(&mut self) -> Option<Waiting> {
        let first = self.waiting.pop_front()?;
        self.asked -= first.asked() * 8;
        Some(first)
    }
}

#[cfg(test)]
mod tests;
