//! Intents: who is going to write a row, first come first served.
//!
//! # Picture
//! ```text
//! shard of rows:  row → holder, waiting coordinators in line
//! waits:          coordinator → row it waits for          (only touched by those who wait)
//! ```
//! An intent is advice: it keeps two transactions from preparing changes of one row of which one
//! must abort. Correctness never rests on it. A coordinator waits for one row at a time, so a circle
//! of waits is found by walking holder → row it waits for → holder, when somebody begins to wait.
//!
//! # Failure
//! Intents live in memory and go with their transaction, however it ends.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use fencepost_storage::Addr;
use foldhash::fast::FixedState;
use parking_lot::Mutex;

const SHARDS: usize = 64;

/// A coordinator, as intents know it.
pub type Holder = u64;

#[derive(Debug)]
struct Line {
    holder: Holder,
    waiting: VecDeque<(Holder, Option<Waker>)>,
}

type Rows = HashMap<Addr, Line, FixedState>;

/// All intents of a machine.
#[derive(Debug)]
pub struct Intents {
    shards: Box<[Mutex<Rows>]>,
    waits: Mutex<HashMap<Holder, Addr, FixedState>>,
}

/// Waiting would close a circle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WouldDeadlock;

impl Default for Intents {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::new(Rows::default())).collect(),
            waits: Mutex::new(HashMap::default()),
        }
    }
}

impl Intents {
    fn shard(&self, row: Addr) -> &Mutex<Rows> {
        &self.shards[(row.raw() >> 6) as usize % SHARDS]
    }

    /// Takes the intent if nobody else has it.
    pub fn try_take(&self, row: Addr, me: Holder) -> bool {
        let mut rows = self.shard(row).lock();
        rows.entry(row)
            .or_insert_with(|| Line {
                holder: me,
                waiting: VecDeque::new(),
            })
            .holder
            == me
    }

    /// Waits in line for the intent.
    pub fn take(&self, row: Addr, me: Holder) -> Take<'_> {
        Take {
            intents: self,
            row,
            me,
            queued: false,
        }
    }

    /// Gives an intent back; the first in line has it then.
    pub fn release(&self, row: Addr, me: Holder) {
        let mut rows = self.shard(row).lock();
        let Some(line) = rows.get_mut(&row) else {
            return;
        };
        if line.holder != me {
            return;
        }
        let Some((next, waker)) = line.waiting.pop_front() else {
            rows.remove(&row);
            return;
        };
        line.holder = next;
        drop(rows);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Walks from `row` along holders and what they wait for; true if that leads back to `me`.
    fn closes_a_circle(
        &self,
        waits: &HashMap<Holder, Addr, FixedState>,
        row: Addr,
        me: Holder,
    ) -> bool {
        let mut row = row;
        // Each holder waits for at most one row, so a longer walk would have found a circle.
        for _ in 0..=waits.len() {
            let Some(holder) = self.shard(row).lock().get(&row).map(|line| line.holder) else {
                return false;
            };
            if holder == me {
                return true;
            }
            match waits.get(&holder) {
                Some(next) => row = *next,
                None => return false,
            }
        }
        false
    }

    fn enqueue(&self, row: Addr, me: Holder, waker: &Waker) -> Result<bool, WouldDeadlock> {
        // The lock on `waits` makes checking and beginning to wait one step.
        let mut waits = self.waits.lock();
        if self.try_take(row, me) {
            return Ok(true);
        }
        if self.closes_a_circle(&waits, row, me) {
            return Err(WouldDeadlock);
        }
        let mut rows = self.shard(row).lock();
        match rows.get_mut(&row) {
            Some(line) => line.waiting.push_back((me, Some(waker.clone()))),
            // Released since the try: nobody is in line.
            None => {
                rows.insert(
                    row,
                    Line {
                        holder: me,
                        waiting: VecDeque::new(),
                    },
                );
                return Ok(true);
            }
        }
        waits.insert(me, row);
        Ok(false)
    }
}

/// A place in line; dropping it leaves the line.
#[derive(Debug)]
pub struct Take<'a> {
    intents: &'a Intents,
    row: Addr,
    me: Holder,
    queued: bool,
}

impl Future for Take<'_> {
    type Output = Result<(), WouldDeadlock>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if !self.queued {
            match self.intents.enqueue(self.row, self.me, cx.waker()) {
                Ok(true) => return Poll::Ready(Ok(())),
                Ok(false) => self.queued = true,
                Err(deadlock) => return Poll::Ready(Err(deadlock)),
            }
            return Poll::Pending;
        }
        let mut rows = self.intents.shard(self.row).lock();
        let me = self.me;
        let Some(line) = rows.get_mut(&self.row) else {
            return Poll::Pending;
        };
        if line.holder != me {
            if let Some(place) = line.waiting.iter_mut().find(|(holder, _)| *holder == me) {
                place.1 = Some(cx.waker().clone());
            }
            return Poll::Pending;
        }
        drop(rows);
        self.intents.waits.lock().remove(&me);
        self.queued = false;
        Poll::Ready(Ok(()))
    }
}

impl Drop for Take<'_> {
    fn drop(&mut self) {
        if !self.queued {
            return;
        }
        self.intents.waits.lock().remove(&self.me);
        let holds = {
            let mut rows = self.intents.shard(self.row).lock();
            rows.get_mut(&self.row).is_some_and(|line| {
                line.waiting.retain(|(holder, _)| *holder != self.me);
                line.holder == self.me
            })
        };
        if holds {
            self.intents.release(self.row, self.me);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_storage::RegionId;

    fn row(n: u32) -> Addr {
        Addr::new(RegionId(0), n << 6)
    }

    fn poll(take: &mut Take<'_>) -> Poll<Result<(), WouldDeadlock>> {
        Pin::new(take).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn first_come_first_served() {
        let intents = Intents::default();
        assert!(intents.try_take(row(1), 10) && intents.try_take(row(1), 10));
        assert!(!intents.try_take(row(1), 11));
        let (mut second, mut third) = (intents.take(row(1), 11), intents.take(row(1), 12));
        assert!(poll(&mut second).is_pending() && poll(&mut third).is_pending());
        intents.release(row(1), 10);
        assert!(poll(&mut third).is_pending());
        assert_eq!(poll(&mut second), Poll::Ready(Ok(())));
        drop(third);
        intents.release(row(1), 11);
        assert!(intents.try_take(row(1), 13));
    }

    #[test]
    fn a_circle_of_three_is_found_by_whoever_closes_it() {
        let intents = Intents::default();
        for n in 1..=3 {
            assert!(intents.try_take(row(n), u64::from(n)));
        }
        let (mut a, mut b, mut c) = (
            intents.take(row(2), 1),
            intents.take(row(3), 2),
            intents.take(row(1), 3),
        );
        assert!(poll(&mut a).is_pending() && poll(&mut b).is_pending());
        assert_eq!(poll(&mut c), Poll::Ready(Err(WouldDeadlock)));
        intents.release(row(3), 3);
        assert_eq!(poll(&mut b), Poll::Ready(Ok(())));
    }

    #[test]
    fn who_leaves_the_line_as_it_is_served_passes_the_intent_on() {
        let intents = Intents::default();
        assert!(intents.try_take(row(1), 1));
        let (mut a, mut b) = (intents.take(row(1), 2), intents.take(row(1), 3));
        assert!(poll(&mut a).is_pending() && poll(&mut b).is_pending());
        intents.release(row(1), 1);
        drop(a);
        assert_eq!(poll(&mut b), Poll::Ready(Ok(())));
        assert!(intents.waits.lock().is_empty());
    }
}
