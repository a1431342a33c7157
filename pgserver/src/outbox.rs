//! Replies of a worker's clients on their way out: several go with one system call.
//!
//! ```text
//!   connection ──post──> waiting ──flush──> [`Sends`] ──> sent: nothing more is to be done
//!                                               └──> not all of it: left, for the connection to go on with
//! ```
//! A connection that has posted a reply goes on at once, mostly to wait for its client. The worker's flusher is a task like
//! those of connections: a first reply makes it ready, behind those that were ready before. So a reply waits for requests
//! that came in with its own, and for no other.
//!
//! Invariants
//! - OUT-1: at most one reply of a connection is here, and nothing else is written to its socket until it is known what came
//!   of it ([`crate::io::Io`]).
//! - OUT-2: a connection does not let go of its socket while its reply waits here.
//! - OUT-3: no reply waits while a connection begins with what it has read, once it has waited for [`WAIT_MAX`].
//!
//! Where replies go out alone time after time, as those of a single client do, most are not taken for a while: to wait for
//! others would only cost.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::task::Waker;
use std::time::{Duration, Instant};

use fencepost_fabric::sends::{Outgoing, Sends};
use foldhash::fast::RandomState;

use crate::io::Pool;

/// Replies that are sent with one call.
const BATCH_MAX: u16 = 16;
/// How long a reply waits for requests that have not begun.
const WAIT_MAX: Duration = Duration::from_micros(100);
/// After so many flushes of one reply the next are not taken.
const ALONE_MAX: u32 = 4;
/// How many.
const ALONE_DIRECT: u32 = 64;

/// What the outbox could not send of a reply.
pub(crate) struct Left {
    pub(crate) bytes: Vec<u8>,
    /// How much of it was sent.
    pub(crate) sent: usize,
}

/// Replies that wait, and what could not be sent of earlier ones.
pub(crate) struct Outbox {
    sends: RefCell<Sends>,
    pool: Rc<Pool>,
    waiting: RefCell<Vec<Outgoing>>,
    /// Whose they are, in the same order.
    senders: RefCell<Vec<u64>>,
    /// Since when the first of them waits.
    since: Cell<Option<Instant>>,
    left: RefCell<HashMap<u64, io::Result<Left>, RandomState>>,
    flushes: Cell<u64>,
    flusher: RefCell<Option<Waker>>,
    /// Flushes of one reply since the last one of more.
    alone: Cell<u32>,
    /// Replies that are not taken yet.
    direct: Cell<u32>,
}

impl Outbox {
    pub(crate) fn new(pool: Rc<Pool>) -> Outbox {
        Outbox {
            sends: RefCell::new(Sends::new(BATCH_MAX)),
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

    /// Whether a reply had better be posted than sent.
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

    /// Takes a reply of the connection `sender`; true when it is time to flush.
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

    /// Whether a reply has waited for long (OUT-3).
    #[inline]
    pub(crate) fn is_late(&self) -> bool {
        self.since
            .get()
            .is_some_and(|since| since.elapsed() > WAIT_MAX)
    }

    /// How often it was flushed: what was posted at this number waits until it is another.
    #[inline]
    pub(crate) fn flushes(&self) -> u64 {
        self.flushes.get()
    }

    /// Who is woken by the first reply, to flush.
    pub(crate) fn set_flusher(&self, flusher: &Waker) {
        let mut known = self.flusher.borrow_mut();
        if known.is_none() {
            *known = Some(flusher.clone());
        }
    }

    /// Sends all that waits. `wake` is told of connections that are left something.
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
                Ok(sent) => Ok(Left { bytes, sent }),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    Ok(Left { bytes, sent: 0 })
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

    /// What could not be sent of a connection's reply.
    #[inline]
    pub(crate) fn take_left(&self, sender: u64) -> io::Result<Option<Left>> {
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
    fn what_is_not_sent_is_left_to_its_sender() {
        let outbox = Outbox::new(Rc::default());
        let (small, mut small_end) = UnixStream::pair().expect("a pair");
        let (large, mut large_end) = UnixStream::pair().expect("a pair");
        let (gone, gone_end) = UnixStream::pair().expect("a pair");
        drop(gone_end);
        let much: Vec<u8> = (0..8u32 << 20).map(|n| n as u8).collect();
        let posts = [
            (1, Outgoing::new(&large, much.clone())),
            (2, Outgoing::new(&small, b"small".to_vec())),
            (3, Outgoing::new(&gone, b"gone".to_vec())),
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
    fn a_full_outbox_asks_to_be_flushed() {
        let outbox = Outbox::new(Rc::default());
        let (here, mut there) = UnixStream::pair().expect("a pair");
        let asks: Vec<bool> = (0..BATCH_MAX)
            .map(|sender| outbox.post(sender.into(), Outgoing::new(&here, vec![1])))
            .collect();
        assert_eq!(asks.iter().position(|ask| *ask), Some(asks.len() - 1));
        assert!(flush(&outbox).is_empty());
        let mut heard = vec![0; BATCH_MAX.into()];
        there.read_exact(&mut heard).expect("sent");
    }

    #[test]
    fn a_reply_is_late_after_a_while() {
        let outbox = Outbox::new(Rc::default());
        let (here, _there) = UnixStream::pair().expect("a pair");
        std::thread::sleep(WAIT_MAX * 2);
        assert!(!outbox.is_late(), "there is none");
        outbox.post(0, Outgoing::new(&here, vec![1]));
        std::thread::sleep(WAIT_MAX * 2);
        assert!(outbox.is_late());
        flush(&outbox);
        assert!(!outbox.is_late());
    }

    #[test]
    fn replies_that_go_alone_are_not_taken_for_a_while() {
        let outbox = Outbox::new(Rc::default());
        let (here, _there) = UnixStream::pair().expect("a pair");
        let takes = outbox.takes();
        let post = |times: usize| {
            (0..times).for_each(|_| assert!(!outbox.post(0, Outgoing::new(&here, vec![1]))));
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
