//! The outbox of a worker: sends the replies of several clients with one system call.
//!
//! ```text
//!   connection ──post──> waiting ──flush──> [`BatchSender`] ──> sent completely
//!                                               └──> sent in part: the connection sends the rest
//! ```
//! A connection that has posted a reply continues at once, usually to wait for its client. The
//! worker's flusher is a task like those of connections. The first reply wakes it, so it runs after
//! the tasks that were ready before. So a reply waits only for requests that arrived together with
//! its own.
//!
//! Invariants
//! - OUT-1: the outbox has at most one reply of a connection. Nothing else is written to the socket
//!   until the outcome of that reply is known ([`crate::io::Io`]).
//! - OUT-2: a connection keeps its socket open while its reply waits here.
//! - OUT-3: a reply that has waited for [`WAIT_MAX`] is sent before another connection starts to
//!   handle its input.
//!
//! With a single client, replies are sent alone several times in a row. The outbox then refuses
//! most replies for a while, because waiting has no benefit.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::task::Waker;
use std::time::{Duration, Instant};

use fencepost_fabric::sends::{BatchSender, Outgoing};
use foldhash::fast::RandomState;

use crate::io::Pool;

/// The number of replies that are sent with one call.
const BATCH_MAX: u16 = 16;
/// The longest wait of a reply for requests that have not started.
const WAIT_MAX: Duration = Duration::from_micros(100);
/// The number of consecutive flushes of a single reply after which replies are refused.
const ALONE_MAX: u32 = 4;
/// The number of replies that are refused then.
const ALONE_DIRECT: u32 = 64;

/// The rest of a reply that the outbox could not send.
pub(crate) struct UnsentReply {
    pub(crate) bytes: Vec<u8>,
    /// The number of bytes that were sent.
    pub(crate) sent: usize,
}

/// The waiting replies, and the rests of earlier ones.
pub(crate) struct Outbox {
    sends: RefCell<BatchSender>,
    pool: Rc<Pool>,
    waiting: RefCell<Vec<Outgoing>>,
    /// The connections of the waiting replies, in the same order.
    senders: RefCell<Vec<u64>>,
    /// The time since which the first reply waits.
    since: Cell<Option<Instant>>,
    left: RefCell<HashMap<u64, io::Result<UnsentReply>, RandomState>>,
    flushes: Cell<u64>,
    flusher: RefCell<Option<Waker>>,
    /// The number of flushes of a single reply since the last flush of several.
    alone: Cell<u32>,
    /// The number of replies that will be refused.
    direct: Cell<u32>,
}

impl Outbox {
    pub(crate) fn new(pool: Rc<Pool>) -> Outbox {
        Outbox {
            sends: RefCell::new(BatchSender::new(BATCH_MAX)),
            pool,
            waiting: RefCell::default(),
            senders: RefCell::default(),
            since: Cell::new(None),
            left: RefCell::default(),
            flushes: Cell::new(0),
            flusher: RefCell::default(),
            alone: Cell::new(0),
            direct: Cell::new(0),
        }
    }

    /// Returns whether a reply should be posted rather than sent directly.
    #[inline]
    pub(crate) fn takes(&self) -> bool {
        match self.direct.get() {
            0 => self.sends.borrow().is_one_call(),
            direct => {
                self.direct.set(direct - 1);
                false
            }
        }
    }

    /// Takes a reply of the connection `sender`. Returns true if the caller should flush.
    pub(crate) fn post(&self, sender: u64, reply: Outgoing) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        waiting.push(reply);
        self.senders.borrow_mut().push(sender);
        if waiting.len() == 1 {
            self.since.set(Some(Instant::now()));
            if let Some(flusher) = &*self.flusher.borrow() {
                flusher.wake_by_ref();
            }
        }
        waiting.len() >= usize::from(BATCH_MAX)
    }

    /// Returns whether a reply has waited too long (OUT-3).
    #[inline]
    pub(crate) fn is_late(&self) -> bool {
        self.since
            .get()
            .is_some_and(|since| since.elapsed() > WAIT_MAX)
    }

    /// Returns the number of flushes. A reply posted at this number waits until the number changes.
    #[inline]
    pub(crate) fn flushes(&self) -> u64 {
        self.flushes.get()
    }

    /// Sets the task that the first reply wakes, so that it flushes.
    pub(crate) fn set_flusher(&self, flusher: &Waker) {
        let mut known = self.flusher.borrow_mut();
        if known.is_none() {
            *known = Some(flusher.clone());
        }
    }

    /// Sends all waiting replies. Calls `wake` for each connection whose reply was not sent
    /// completely.
    pub(crate) fn flush(&self, wake: impl Fn(u64)) {
        let mut waiting = self.waiting.borrow_mut();
        match waiting.len() {
            0 => return,
            1 => self.count_alone(),
            _ => self.alone.set(0),
        }
        self.sends.borrow_mut().send_all(&mut waiting);
        self.since.set(None);
        self.flushes.set(self.flushes.get() + 1);
        let mut senders = self.senders.borrow_mut();
        for (outgoing, sender) in waiting.drain(..).zip(senders.drain(..)) {
            let (outcome, bytes) = outgoing.into_outcome();
            let left = match outcome {
                Ok(sent) if sent == bytes.len() => {
                    self.pool.keep_output(bytes);
                    continue;
                }
                Ok(sent) => Ok(UnsentReply { bytes, sent }),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    Ok(UnsentReply { bytes, sent: 0 })
                }
                Err(error) => Err(error),
            };
            self.left.borrow_mut().insert(sender, left);
            wake(sender);
        }
    }

    fn count_alone(&self) {
        let alone = self.alone.get() + 1;
        self.alone.set(alone);
        if alone >= ALONE_MAX {
            self.alone.set(0);
            self.direct.set(ALONE_DIRECT);
        }
    }

    /// Returns the rest of a connection's reply, if it was not sent completely.
    #[inline]
    pub(crate) fn take_left(&self, sender: u64) -> io::Result<Option<UnsentReply>> {
        let mut left = self.left.borrow_mut();
        match left.is_empty() {
            true => Ok(None),
            false => left.remove(&sender).transpose(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    fn flush(outbox: &Outbox) -> Vec<u64> {
        let woken = RefCell::new(Vec::new());
        outbox.flush(|number| woken.borrow_mut().push(number));
        woken.into_inner()
    }

    #[test]
    fn unsent_bytes_are_returned_to_sender() {
        let outbox = Outbox::new(Rc::default());
        let (small, mut small_end) = UnixStream::pair().expect("a pair");
        let (large, mut large_end) = UnixStream::pair().expect("a pair");
        let (closed, closed_end) = UnixStream::pair().expect("a pair");
        drop(closed_end);
        let much: Vec<u8> = (0..8u32 << 20).map(|n| n as u8).collect();
        let posts = [
            (1, Outgoing::new(&large, much.clone())),
            (2, Outgoing::new(&small, b"small".to_vec())),
            (3, Outgoing::new(&closed, b"closed".to_vec())),
        ];
        let before = outbox.flushes();
        for (sender, reply) in posts {
            assert!(!outbox.post(sender, reply));
        }
        assert_eq!(outbox.flushes(), before);
        assert_eq!(flush(&outbox), [1, 3]);
        assert_eq!(outbox.flushes(), before + 1);
        assert!(flush(&outbox).is_empty());
        assert_eq!(outbox.flushes(), before + 1, "nothing was there");

        let mut heard = [0; 5];
        small_end.read_exact(&mut heard).expect("sent");
        assert_eq!(&heard, b"small");
        assert!(outbox.take_left(2).expect("no error").is_none());
        assert!(outbox.take_left(3).is_err());
        let left = outbox.take_left(1).expect("no error").expect("left");
        assert!(0 < left.sent && left.sent < much.len());
        let mut heard = vec![0; left.sent];
        large_end.read_exact(&mut heard).expect("sent");
        assert_eq!([&heard, &left.bytes[left.sent..]].concat(), much);
        assert!(outbox.take_left(1).expect("no error").is_none());
    }

    #[test]
    fn full_outbox_requests_flush() {
        let outbox = Outbox::new(Rc::default());
        let (socket, mut client) = UnixStream::pair().expect("a pair");
        let asks: Vec<bool> = (0..BATCH_MAX)
            .map(|sender| outbox.post(sender.into(), Outgoing::new(&socket, vec![1])))
            .collect();
        assert_eq!(asks.iter().position(|ask| *ask), Some(asks.len() - 1));
        assert!(flush(&outbox).is_empty());
        let mut heard = vec![0; BATCH_MAX.into()];
        client.read_exact(&mut heard).expect("sent");
    }

    #[test]
    fn reply_becomes_late_after_limit() {
        let outbox = Outbox::new(Rc::default());
        let (socket, _client) = UnixStream::pair().expect("a pair");
        std::thread::sleep(WAIT_MAX * 2);
        assert!(!outbox.is_late(), "there is none");
        outbox.post(0, Outgoing::new(&socket, vec![1]));
        std::thread::sleep(WAIT_MAX * 2);
        assert!(outbox.is_late());
        flush(&outbox);
        assert!(!outbox.is_late());
    }

    #[test]
    fn replies_that_go_alone_are_not_taken_for_a_while() {
        let outbox = Outbox::new(Rc::default());
        let (socket, _client) = UnixStream::pair().expect("a pair");
        let takes = outbox.takes();
        let post = |times: usize| {
            (0..times).for_each(|_| assert!(!outbox.post(0, Outgoing::new(&socket, vec![1]))));
            flush(&outbox);
        };
        (1..ALONE_MAX).for_each(|_| post(1));
        post(2);
        (1..ALONE_MAX).for_each(|_| post(1));
        assert_eq!(outbox.takes(), takes, "some went together");
        post(1);
        assert!((0..ALONE_DIRECT).all(|_| !outbox.takes()));
        assert_eq!(outbox.takes(), takes);
    }
}
