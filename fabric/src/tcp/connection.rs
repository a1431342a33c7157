//! The posting end of a connection: operations of many threads, gathered into few writes.
//!
//! ```text
//! post ─► out, waiting ─► flusher: all that has gathered, one write(2) ─────► peer's agent
//!                         reader: many replies a read(2), first come first ◄─ applies in order
//! ```
//! # Invariants
//! * Requests and what waits for their replies are queued under one lock, so the n-th reply is that
//!   of the n-th request.
//! * A connection is closed for ever. What waits then, and what is posted later, answers
//!   [`crate::FabricError::Lost`]; the next connection to the peer knows nothing of it.
//! * At most [`OUT_BYTES`] and one operation wait for the flusher, which holds no more than that
//!   itself, and [`WAITING`] operations for replies. Whoever posts more waits, until the peer has
//!   taken some or the connection is closed.

use std::collections::VecDeque;
use std::io::Write;
use std::net::{Shutdown, TcpStream};

use parking_lot::{Condvar, Mutex};

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
    state: Mutex<State>,
    /// There is something to write, or nothing ever again.
    work: Condvar,
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
    /// On a stream whose handshake is done.
    pub(super) fn new(stream: TcpStream) -> Self {
        Connection {
            stream,
            state: Mutex::default(),
            work: Condvar::new(),
            room: Condvar::new(),
        }
    }

    /// Posts what `put` puts into the frames, for `waiting`.
    pub(super) fn post(&self, put: impl FnOnce(&mut Vec<u8>), waiting: Waiting) {
        let mut state = self.state.lock();
        while !state.closed && (state.out.len() > OUT_BYTES || state.waiting.len() >= WAITING) {
            self.room.wait(&mut state);
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
        self.work.notify_one();
    }

    /// Makes the peer's poller look at what was posted; `always` even if nothing was.
    pub(super) fn bell(&self, always: bool) {
        let mut state = self.state.lock();
        if !state.closed && (state.unrung || (always && state.out.is_empty())) {
            frame::put_bell(&mut state.out);
            state.unrung = false;
            drop(state);
            self.work.notify_one();
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
        self.work.notify_all();
        self.room.notify_all();
        drop(waiting);
    }

    /// The flusher's life: writes whatever has gathered, until the connection is closed or breaks.
    pub(super) fn flush(&self) {
        let mut batch = Vec::new();
        loop {
            let mut state = self.state.lock();
            while state.out.is_empty() && !state.closed {
                self.work.wait(&mut state);
            }
            if state.closed {
                return;
            }
            std::mem::swap(&mut state.out, &mut batch);
            drop(state);
            self.room.notify_all();
            if (&self.stream).write_all(&batch).is_err() {
                return;
            }
            batch.clear();
            batch.shrink_to(KEPT_BYTES);
        }
    }

    /// The reader's life: answers whoever waits, until the connection is closed or breaks, or the
    /// peer writes nonsense.
    pub(super) fn answer(&self) {
        let mut inbox = Inbox::new();
        while inbox.fill(&mut &self.stream).is_ok() {
            loop {
                match inbox.next() {
                    Ok(None) => break,
                    Ok(Some(frame)) if self.reply(frame).is_ok() => (),
                    _ => return,
                }
            }
            self.room.notify_all();
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::completion::Completion;
    use crate::fabric::FabricError;
    use crate::segment::SegmentId;
    use crate::tcp::frame::Target;
    use std::net::TcpListener;

    const TARGET: Target = Target {
        segment: SegmentId::new(1, 0, 0),
        word: 0,
    };

    /// A connection, and the peer's end of it.
    fn pair() -> (Connection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let here = TcpStream::connect(address).expect("listens");
        let (there, _) = listener.accept().expect("connected");
        (Connection::new(here), there)
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
            scope.spawn(|| connection.flush());
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
            scope.spawn(|| connection.flush());
            scope.spawn(|| connection.answer());
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
            connection.answer();
            connection.close();
            assert_eq!(write.take(), Some(Err(FabricError::Lost)));
        }
    }
}
