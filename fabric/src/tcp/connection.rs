//! The posting end of a connection: operations of many threads, gathered into few writes.
//!
//! ```text
//! post ─► out, waiting ─► card: all that has gathered, one write(2) ─────────► peer's card
//!                         many replies a read(2), first come first served ◄─── applies in order
//! ```
//! # Invariants
//! * Requests and what waits for their replies are queued under one lock, so the n-th reply is that
//!   of the n-th request.
//! * A connection is closed for ever. What waits then, and what is posted later, answers
//!   [`crate::FabricError::Lost`]; the next connection to the peer knows nothing of it.
//! * At most [`OUT_BYTES`] and one operation wait for the card, which holds no more than that
//!   itself, and [`WAITING`] operations for replies. Whoever posts more waits, until the peer has
//!   taken some or the connection is closed; but not while the attendant works (CARD-3).

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use super::card::{Card, Port, Wants, write_some};
use super::frame::{self, Inbox, Malformed, Reply};
use crate::waiting::{Answer, Waiting};

/// Bytes that gather before whoever posts must wait.
pub(super) const OUT_BYTES: usize = 4 << 20;
/// Operations without reply before whoever posts must wait.
const WAITING: usize = 1 << 16;
/// What an idle connection keeps of its buffers.
const KEPT_BYTES: usize = 256 << 10;

/// A connection that operations are posted to.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    card: Arc<Card>,
    state: Mutex<State>,
    /// There is room to post, or never again.
    room: Condvar,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    out: Vec<u8>,
    waiting: VecDeque<Waiting>,
    /// Whether something was posted that no bell follows yet.
    unrung: bool,
}

impl Connection {
    /// On a stream whose handshake is done, and which does not block; `card` is to carry its [`Poster`].
    pub(super) fn new(stream: TcpStream, card: &Arc<Card>) -> Arc<Self> {
        Arc::new(Connection {
            stream,
            card: Arc::clone(card),
            state: Mutex::default(),
            room: Condvar::new(),
        })
    }

    /// Posts what `put` puts into the frames, for `waiting`.
    pub(super) fn post(&self, put: impl FnOnce(&mut Vec<u8>), waiting: Waiting) {
        let mut state = self.state.lock();
        while !state.closed
            && (state.out.len() > OUT_BYTES || state.waiting.len() >= WAITING)
            && self.card.may_wait()
        {
            self.room.wait(&mut state);
            self.card.has_waited();
        }
        if state.closed {
            // Whom it wakes may post again.
            drop(state);
            return drop(waiting);
        }
        put(&mut state.out);
        state.unrung |= !matches!(waiting, Waiting::Read(..));
        state.waiting.push_back(waiting);
        drop(state);
        self.card.nudge();
    }

    /// Makes the peer's poller look at what was posted; `always` even if nothing was.
    pub(super) fn bell(&self, always: bool) {
        let mut state = self.state.lock();
        if !state.closed && (state.unrung || (always && state.out.is_empty())) {
            frame::put_bell(&mut state.out);
            state.unrung = false;
            drop(state);
            self.card.nudge();
        }
    }

    /// Ends it; whoever waits is answered.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.out = Vec::new();
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        // It may be broken already.
        let _ = self.stream.shutdown(Shutdown::Both);
        self.room.notify_all();
        drop(waiting);
    }

    fn has_posted(&self) -> bool {
        !self.state.lock().out.is_empty()
    }

    /// Gives what has gathered for `batch`, which is empty.
    fn take_posted(&self, batch: &mut Vec<u8>) -> io::Result<()> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        std::mem::swap(&mut state.out, batch);
        drop(state);
        self.room.notify_all();
        Ok(())
    }

    fn reply(&self, frame: &[u8]) -> Result<(), Malformed> {
        let answer = match Reply::of(frame)? {
            Reply::Done(count) => return self.done(count as usize),
            Reply::Words(words) => Answer::Words(words.iter().collect()),
            Reply::Was(was) => Answer::Was(was),
            Reply::Refused(error) => Answer::Failed(error),
        };
        // Answered without the lock: whom it wakes may post again.
        let first = self.state.lock().waiting.pop_front();
        let waiting = first.ok_or(Malformed)?;
        waiting.answer(answer).map_err(|_| Malformed)
    }

    fn done(&self, count: usize) -> Result<(), Malformed> {
        let mut state = self.state.lock();
        if count > state.waiting.len() {
            return Err(Malformed);
        }
        let done: Vec<_> = state.waiting.drain(..count).collect();
        drop(state);
        let mut answered = done.into_iter().map(|one| one.answer(Answer::Written));
        answered
            .try_for_each(|answered| answered)
            .map_err(|_| Malformed)
    }
}

/// A connection's place on its card: writes whatever has gathered, and answers whoever waits, until the
/// connection is closed or breaks, or the peer writes nonsense.
pub(super) struct Poster<F> {
    connection: Arc<Connection>,
    inbox: Inbox,
    /// What is being written, and how much of it is.
    batch: Vec<u8>,
    sent: usize,
    ended: F,
}

impl<F: Fn(&Arc<Connection>) + Send> Poster<F> {
    /// `ended` is called once, after the connection was closed.
    pub(super) fn new(connection: &Arc<Connection>, ended: F) -> Self {
        Poster {
            connection: Arc::clone(connection),
            inbox: Inbox::new(),
            batch: Vec::new(),
            sent: 0,
            ended,
        }
    }

    fn is_sent(&self) -> bool {
        self.sent == self.batch.len()
    }

    fn send(&mut self) -> io::Result<()> {
        if self.is_sent() {
            self.batch.clear();
            self.batch.shrink_to(KEPT_BYTES);
            self.sent = 0;
            self.connection.take_posted(&mut self.batch)?;
        }
        write_some(&self.connection.stream, &self.batch, &mut self.sent).map(drop)
    }

    fn receive(&mut self) -> io::Result<()> {
        if !self.inbox.fill(&mut &self.connection.stream)? {
            return Ok(());
        }
        while let Some(frame) = self.inbox.next()? {
            self.connection.reply(frame)?;
        }
        self.connection.room.notify_all();
        Ok(())
    }
}

impl<F: Fn(&Arc<Connection>) + Send> Port for Poster<F> {
    fn stream(&self) -> &TcpStream {
        &self.connection.stream
    }

    fn turn(&mut self, readable: bool) -> io::Result<Wants> {
        if readable {
            self.receive()?;
        }
        self.send()?;
        Ok(if self.is_sent() {
            Wants::Read
        } else {
            Wants::Either
        })
    }

    fn has_work(&self) -> bool {
        self.is_sent() && self.connection.has_posted()
    }

    fn end(&mut self) {
        self.connection.close();
        (self.ended)(&self.connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bell::Bell;
    use crate::completion::Completion;
    use crate::fabric::FabricError;
    use crate::memory::Memory;
    use crate::segment::SegmentId;
    use crate::tcp::frame::Target;
    use std::io::Write;
    use std::net::TcpListener;

    const TARGET: Target = Target {
        segment: SegmentId::new(1, 0, 0),
        word: 0,
    };

    /// A connection, and the peer's end of it.
    fn pair() -> (Arc<Connection>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let here = TcpStream::connect(address).expect("listens");
        here.set_nonblocking(true).expect("a socket");
        let (there, _) = listener.accept().expect("connected");
        let bell = Bell::new(Arc::new(Memory::anonymous(1).expect("memory")), 0);
        let card = Card::new(&bell).expect("descriptors");
        (Connection::new(here, &card), there)
    }

    /// Carries a connection until it has ended.
    fn carry(connection: &Arc<Connection>) {
        let card = Arc::clone(&connection.card);
        card.plug(Box::new(Poster::new(connection, move |ended| {
            ended.card.stop()
        })));
        card.run();
    }

    fn post_write(connection: &Connection, words: &[u64]) -> Completion<()> {
        let (completer, completion) = Completion::pending();
        connection.post(
            |out| frame::put_write(out, TARGET, words),
            Waiting::Write(completer),
        );
        completion
    }

    #[test]
    fn a_peer_that_does_not_read_makes_who_posts_wait_and_holds_little() {
        let (connection, there) = pair();
        let words = vec![0; 1 << 13];
        std::thread::scope(|scope| {
            scope.spawn(|| carry(&connection));
            let (full, is_full) = std::sync::mpsc::channel();
            let poster = scope.spawn(|| {
                // It ends because the connection does.
                let (full, mut posted) = (full, Vec::new());
                loop {
                    posted.push(post_write(&connection, &words));
                    let state = connection.state.lock();
                    assert!(state.out.len() <= OUT_BYTES + words.len() * 8 + 64);
                    if state.closed {
                        return posted;
                    }
                    if state.out.len() > OUT_BYTES {
                        full.send(()).expect("somebody listens");
                    }
                }
            });
            is_full.recv().expect("the peer does not read");
            // Time enough to post more, if nothing held it up.
            (0..1000).for_each(|_| std::thread::yield_now());
            connection.close();
            for mut completion in poster.join().expect("no panic") {
                assert_eq!(completion.take(), Some(Err(FabricError::Lost)));
            }
        });
        drop(there);
    }

    #[test]
    fn what_is_posted_meanwhile_leaves_together() {
        let (connection, mut there) = pair();
        let writes: Vec<_> = (0..10).map(|n| post_write(&connection, &[n])).collect();
        connection.bell(false);
        connection.bell(false);
        connection.bell(true);
        std::thread::scope(|scope| {
            scope.spawn(|| carry(&connection));
            let (mut inbox, mut frames) = (Inbox::new(), 0);
            inbox.fill(&mut there).expect("connected");
            while inbox.next().expect("well-formed").is_some() {
                frames += 1;
            }
            assert_eq!(frames, 11, "one read, and one bell for all");
            let mut replies = Vec::new();
            frame::put_done(&mut replies, &mut 10);
            there.write_all(&replies).expect("connected");
            for mut write in writes {
                let answer = loop {
                    match write.take() {
                        Some(answer) => break answer,
                        None => std::thread::yield_now(),
                    }
                };
                assert_eq!(answer, Ok(()));
            }
            connection.close();
        });
    }

    #[test]
    fn replies_to_nothing_and_to_something_else_end_the_connection() {
        type Put = fn(&mut Vec<u8>);
        let wrong: [Put; 4] = [
            |out| frame::put_done(out, &mut 2),
            |out| frame::put_was(out, 1),
            |out| frame::put_words(out, &[1]),
            |out| frame::put_bell(out),
        ];
        for put in wrong {
            let (connection, mut there) = pair();
            let mut write = post_write(&connection, &[1]);
            let mut reply = Vec::new();
            put(&mut reply);
            there.write_all(&reply).expect("connected");
            carry(&connection);
            assert_eq!(write.take(), Some(Err(FabricError::Lost)));
        }
    }
}
