//! Intents: who is going to write a row, first come first served.
//!
//! # Picture
//! ```text
//! shard of rows:  row → holder, waiting coordinators in line; how many rows are held
//! waits:          coordinator → row it waits for          (only touched by those who wait)
//! ```
//! An intent is advice: it keeps two transactions from preparing changes of one row of which one
//! must abort. Correctness never rests on it. A coordinator waits for one row at a time, so a circle
//! of waits is found by walking holder → row it waits for → holder, when somebody begins to wait.
//! A circle is ended at a waiter that *yields*, because it is run again unseen, if there is one; else
//! at whoever closes it.
//!
//! Who takes no intents, since it is over at once, asks [`Intents::is_others`] before it reads a row
//! and once more under the row's lock. Whoever takes an intent does so before reading the row: so
//! one of the two sees the other, the intent or the lock.
//!
//! Among several machines a row's line is at its primary, and a holder's number says which machine it is
//! of. A circle that goes over several lines' machines is seen by none of them: `network/circles.rs` looks for those
//! that somebody may be in who has waited for some time.
//!
//! # Failure
//! Intents live in memory and go with their transaction, however it ends.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use fencepost_storage::{Addr, Timestamp};
use foldhash::fast::FixedState;
use parking_lot::Mutex;

const SHARDS: usize = 64;
/// So often the time between two looks at a wait is doubled.
const LONGER: u32 = 4;

/// A coordinator, as intents know it: its number, above it that of its machine if that is another.
pub type Holder = u64;

/// The machine of a holder; 0 for this one.
pub(crate) fn machine_of(holder: Holder) -> u64 {
    holder >> 32
}

#[derive(Debug)]
struct Line {
    holder: Holder,
    waiting: VecDeque<(Holder, Option<Waker>)>,
}

type Rows = HashMap<Addr, Line, FixedState>;

/// On a cache line of its own, because everybody who writes a row looks at `held`.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Shard {
    /// Rows in `rows`; changed under its lock.
    held: AtomicUsize,
    rows: Mutex<Rows>,
}

impl Shard {
    fn count(&self, rows: &Rows) {
        self.held.store(rows.len(), Ordering::SeqCst);
    }
}

#[derive(Debug)]
struct Wait {
    row: Addr,
    yields: bool,
    /// It was chosen to end a circle, and will leave the line.
    doomed: bool,
    /// When it is next looked at whether it is in a circle over several machines, and how often it was.
    due: Option<Timestamp>,
    looks: u32,
}

/// A wait as one step of a walk along holders and what they wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// What is waited for.
    pub row: Addr,
    /// Whether the waiter is to end a circle rather than others.
    pub yields: bool,
    /// Who has it.
    pub holder: Holder,
}

/// How a wait ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The intent is the waiter's.
    Taken,
    /// It is not, and whoever waited may go on all the same.
    Without,
    /// It is somebody else's, and who asked does not wait.
    Others,
}

type Waits = HashMap<Holder, Wait, FixedState>;

/// All intents of a machine.
#[derive(Debug)]
pub struct Intents {
    shards: Box<[Shard]>,
    waits: Mutex<Waits>,
}

/// Where the walk along a line of waits ends.
enum Walk {
    /// At somebody who does not wait, or will not for long.
    Open,
    /// Where it began; past this waiter, which yields.
    Circle(Option<Holder>),
}

/// The wait is part of a circle, and was chosen to end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WouldDeadlock;

impl Default for Intents {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            waits: Mutex::new(HashMap::default()),
        }
    }
}

impl Intents {
    fn shard(&self, row: Addr) -> &Shard {
        &self.shards[(row.raw() >> 6) as usize % SHARDS]
    }

    /// Whether somebody else has the intent. One load where nobody has any intent nearby.
    #[inline]
    pub fn is_others(&self, row: Addr, me: Holder) -> bool {
        let shard = self.shard(row);
        shard.held.load(Ordering::SeqCst) > 0
            && shard
                .rows
                .lock()
                .get(&row)
                .is_some_and(|line| line.holder != me)
    }

    /// Whether nobody has an intent or waits for one.
    pub(crate) fn is_empty(&self) -> bool {
        let held = |shard: &Shard| shard.held.load(Ordering::SeqCst) > 0;
        !self.shards.iter().any(held) && self.waits.lock().is_empty()
    }

    /// Takes the intent if nobody else has it.
    pub fn try_take(&self, row: Addr, me: Holder) -> bool {
        let shard = self.shard(row);
        let mut rows = shard.rows.lock();
        let line = rows.entry(row).or_insert_with(|| Line {
            holder: me,
            waiting: VecDeque::new(),
        });
        let taken = line.holder == me;
        shard.count(&rows);
        taken
    }

    /// Waits in line for the intent; `yields` says that `me` is to end a circle rather than others.
    pub fn take(&self, row: Addr, me: Holder, yields: bool) -> Take<'_> {
        Take {
            intents: self,
            row,
            me,
            yields,
            queued: false,
        }
    }

    /// All rows that somebody has the intent of: the holder, and who waits behind, in line.
    pub(crate) fn lines(&self) -> Vec<(Addr, Vec<Holder>)> {
        let mut lines = Vec::new();
        for shard in &self.shards {
            for (row, line) in &*shard.rows.lock() {
                let waiting = line.waiting.iter().map(|(holder, _)| *holder);
                lines.push((*row, std::iter::once(line.holder).chain(waiting).collect()));
            }
        }
        lines
    }

    /// Gives an intent back; the first in line has it then.
    pub fn release(&self, row: Addr, me: Holder) {
        let shard = self.shard(row);
        let mut rows = shard.rows.lock();
        let Some(line) = rows.get_mut(&row) else {
            return;
        };
        if line.holder != me {
            return;
        }
        let Some((next, waker)) = line.waiting.pop_front() else {
            rows.remove(&row);
            shard.count(&rows);
            return;
        };
        line.holder = next;
        drop(rows);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Walks from `row` along holders and what they wait for.
    fn walk(&self, waits: &Waits, row: Addr, me: Holder) -> Walk {
        let mut row = row;
        let mut yielding = None;
        // Each holder waits for at most one row, so a longer walk would have found a circle.
        for _ in 0..=waits.len() {
            let line = self.shard(row).rows.lock();
            let Some(holder) = line.get(&row).map(|line| line.holder) else {
                return Walk::Open;
            };
            drop(line);
            if holder == me {
                return Walk::Circle(yielding);
            }
            match waits.get(&holder) {
                Some(wait) if !wait.doomed => {
                    if wait.yields {
                        yielding = Some(holder);
                    }
                    row = wait.row;
                }
                _ => return Walk::Open,
            }
        }
        Walk::Open
    }

    /// Makes a waiter leave its line.
    fn send_away(&self, waits: &mut Waits, victim: Holder) {
        let Some(wait) = waits.get_mut(&victim) else {
            return;
        };
        wait.doomed = true;
        let rows = self.shard(wait.row).rows.lock();
        let waker = rows.get(&wait.row).and_then(|line| {
            let place = line.waiting.iter().find(|(holder, _)| *holder == victim);
            place.and_then(|(_, waker)| waker.clone())
        });
        drop(rows);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whom `waiter` waits for here, if it does.
    pub(crate) fn step(&self, waiter: Holder) -> Option<Step> {
        let waits = self.waits.lock();
        let wait = waits.get(&waiter).filter(|wait| !wait.doomed)?;
        let rows = self.shard(wait.row).rows.lock();
        let holder = rows.get(&wait.row)?.holder;
        // Its turn may have come without its having looked.
        (holder != waiter).then_some(Step {
            row: wait.row,
            yields: wait.yields,
            holder,
        })
    }

    /// Ends a circle at `victim`, if it still waits for `row`.
    pub(crate) fn doom(&self, victim: Holder, row: Addr) {
        let mut waits = self.waits.lock();
        if waits.get(&victim).is_some_and(|wait| wait.row == row) {
            self.send_away(&mut waits, victim);
        }
    }

    /// Those who have waited for `patience` since they were last named here, which is twice as long each time, for some time.
    pub(crate) fn stalled(&self, now: Timestamp, patience: u64) -> Vec<Holder> {
        let mut stalled = Vec::new();
        for (waiter, wait) in self.waits.lock().iter_mut() {
            let later =
                |looks: u32| Timestamp::from_raw(now.raw() + (patience << looks.min(LONGER)));
            let due = *wait.due.get_or_insert_with(|| later(0));
            if due <= now {
                stalled.push(*waiter);
                wait.looks += 1;
                wait.due = Some(later(wait.looks));
            }
        }
        stalled
    }

    /// Takes the intent, or a place in its line; whether it was taken at once. `waker` is told when
    /// [`Self::outcome`] has something to say.
    pub(crate) fn enqueue(
        &self,
        row: Addr,
        me: Holder,
        yields: bool,
        waker: &Waker,
    ) -> Result<bool, WouldDeadlock> {
        // The lock on `waits` makes checking and beginning to wait one step.
        let mut waits = self.waits.lock();
        if self.try_take(row, me) {
            return Ok(true);
        }
        match self.walk(&waits, row, me) {
            Walk::Open => {}
            Walk::Circle(Some(victim)) if !yields => {
                self.send_away(&mut waits, victim);
            }
            Walk::Circle(_) => return Err(WouldDeadlock),
        }
        let shard = self.shard(row);
        let mut rows = shard.rows.lock();
        match rows.get_mut(&row) {
            Some(line) => line.waiting.push_back((me, Some(waker.clone()))),
            // Released since the try: nobody is in line.
            None => {
                let line = Line {
                    holder: me,
                    waiting: VecDeque::new(),
                };
                rows.insert(row, line);
                shard.count(&rows);
                return Ok(true);
            }
        }
        let wait = Wait {
            row,
            yields,
            doomed: false,
            due: None,
            looks: 0,
        };
        waits.insert(me, wait);
        Ok(false)
    }
}

impl Intents {
    /// How the wait of `me` in the line of `row` has ended; `None` while it lasts, and `waker` is told of
    /// its end.
    pub(crate) fn outcome(
        &self,
        row: Addr,
        me: Holder,
        waker: &Waker,
    ) -> Option<Result<Turn, WouldDeadlock>> {
        let mut waits = self.waits.lock();
        let mut rows = self.shard(row).rows.lock();
        let line = rows.get_mut(&row)?;
        let outcome = match waits.get(&me) {
            _ if line.holder == me => Ok(Turn::Taken),
            Some(wait) if wait.doomed => Err(WouldDeadlock),
            _ => {
                let mut waiting = line.waiting.iter_mut();
                if let Some(place) = waiting.find(|(holder, _)| *holder == me) {
                    place.1 = Some(waker.clone());
                }
                return None;
            }
        };
        line.waiting.retain(|(holder, _)| *holder != me);
        waits.remove(&me);
        Some(outcome)
    }

    /// Nobody of a machine that is lost stands in a line any more, or has an intent.
    pub(crate) fn leave_all(&self, machine: u64) {
        self.leave_where(|_, holder| machine_of(holder) == machine);
    }

    /// The lines of rows that `is_gone` are at another machine from now on: nobody of others stands in them any more.
    /// Those of this machine leave them by themselves.
    pub(crate) fn leave_to_own(&self, is_gone: impl Fn(Addr) -> bool) {
        self.leave_where(|row, holder| is_gone(row) && machine_of(holder) != 0);
    }

    fn leave_where(&self, leaves: impl Fn(Addr, Holder) -> bool) {
        for shard in &self.shards {
            let rows = shard.rows.lock();
            let its: Vec<(Addr, Holder)> = rows
                .iter()
                .flat_map(|(row, line)| {
                    let waiting = line.waiting.iter().map(|(holder, _)| *holder);
                    let all = waiting.chain([line.holder]);
                    all.map(|holder| (*row, holder)).collect::<Vec<_>>()
                })
                .filter(|(row, holder)| leaves(*row, *holder))
                .collect();
            drop(rows);
            for (row, holder) in its {
                self.leave(row, holder);
            }
        }
    }

    /// `me` is neither in the line of `row` any more nor has its intent.
    pub(crate) fn leave(&self, row: Addr, me: Holder) {
        self.waits.lock().remove(&me);
        let holds = {
            let mut rows = self.shard(row).rows.lock();
            rows.get_mut(&row).is_some_and(|line| {
                line.waiting.retain(|(holder, _)| *holder != me);
                line.holder == me
            })
        };
        if holds {
            self.release(row, me);
        }
    }
}

/// A place in line; dropping it leaves the line.
#[derive(Debug)]
pub struct Take<'a> {
    intents: &'a Intents,
    row: Addr,
    me: Holder,
    yields: bool,
    queued: bool,
}

impl Future for Take<'_> {
    type Output = Result<Turn, WouldDeadlock>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if !self.queued {
            match self
                .intents
                .enqueue(self.row, self.me, self.yields, cx.waker())
            {
                Ok(true) => return Poll::Ready(Ok(Turn::Taken)),
                Ok(false) => self.queued = true,
                Err(deadlock) => return Poll::Ready(Err(deadlock)),
            }
            return Poll::Pending;
        }
        let outcome = self.intents.outcome(self.row, self.me, cx.waker());
        if outcome.is_some() {
            self.queued = false;
        }
        outcome.map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for Take<'_> {
    fn drop(&mut self) {
        if !self.queued {
            return;
        }
        self.intents.leave(self.row, self.me);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_storage::RegionId;

    fn row(n: u32) -> Addr {
        Addr::new(RegionId(0), n << 6)
    }

    fn poll(take: &mut Take<'_>) -> Poll<Result<Turn, WouldDeadlock>> {
        Pin::new(take).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn first_come_first_served() {
        let intents = Intents::default();
        assert!(intents.try_take(row(1), 10) && intents.try_take(row(1), 10));
        assert!(!intents.try_take(row(1), 11));
        let (mut second, mut third) = (
            intents.take(row(1), 11, false),
            intents.take(row(1), 12, false),
        );
        assert!(poll(&mut second).is_pending() && poll(&mut third).is_pending());
        assert_eq!(intents.lines(), [(row(1), vec![10, 11, 12])]);
        intents.release(row(1), 10);
        assert!(poll(&mut third).is_pending());
        assert_eq!(poll(&mut second), Poll::Ready(Ok(Turn::Taken)));
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
            intents.take(row(2), 1, false),
            intents.take(row(3), 2, false),
            intents.take(row(1), 3, false),
        );
        assert!(poll(&mut a).is_pending() && poll(&mut b).is_pending());
        assert_eq!(poll(&mut c), Poll::Ready(Err(WouldDeadlock)));
        intents.release(row(3), 3);
        assert_eq!(poll(&mut b), Poll::Ready(Ok(Turn::Taken)));
    }

    #[test]
    fn who_leaves_the_line_as_it_is_served_passes_the_intent_on() {
        let intents = Intents::default();
        assert!(intents.try_take(row(1), 1));
        let (mut a, mut b) = (
            intents.take(row(1), 2, false),
            intents.take(row(1), 3, false),
        );
        assert!(poll(&mut a).is_pending() && poll(&mut b).is_pending());
        intents.release(row(1), 1);
        drop(a);
        assert_eq!(poll(&mut b), Poll::Ready(Ok(Turn::Taken)));
        assert!(intents.waits.lock().is_empty());
    }
    #[test]
    fn a_circle_ends_at_a_waiter_that_yields() {
        let intents = Intents::default();
        assert!(intents.try_take(row(1), 1) && intents.try_take(row(2), 2));
        let mut statement = intents.take(row(1), 2, true);
        assert!(poll(&mut statement).is_pending());
        let mut block = intents.take(row(2), 1, false);
        assert!(poll(&mut block).is_pending(), "the other goes");
        assert_eq!(poll(&mut statement), Poll::Ready(Err(WouldDeadlock)));
        intents.release(row(2), 2);
        assert_eq!(poll(&mut block), Poll::Ready(Ok(Turn::Taken)));

        // Who yields and closes the circle goes itself.
        assert!(intents.try_take(row(3), 3));
        let mut block = intents.take(row(3), 1, false);
        assert!(poll(&mut block).is_pending());
        let mut statement = intents.take(row(1), 3, true);
        assert_eq!(poll(&mut statement), Poll::Ready(Err(WouldDeadlock)));
        assert!(poll(&mut block).is_pending());
    }

    #[test]
    fn who_waits_long_is_named_ever_less_often() {
        let intents = Intents::default();
        let at = Timestamp::from_raw;
        assert!(intents.try_take(row(1), 1));
        let mut second = intents.take(row(1), 2, false);
        assert!(poll(&mut second).is_pending());
        let named = |now| intents.stalled(at(now), 10) == [2];
        let times: Vec<u64> = (100..1000).filter(|now| named(*now)).collect();
        assert_eq!(times, [110, 130, 170, 250, 410, 570, 730, 890]);
    }

    #[test]
    fn who_is_found_in_a_circle_leaves_the_line_it_was_seen_in() {
        let intents = Intents::default();
        let far = (7 << 32) | 1;
        assert!(intents.try_take(row(1), far) && intents.try_take(row(2), 3));
        let mut second = intents.take(row(1), 2, true);
        assert!(poll(&mut second).is_pending());
        let step = Step {
            row: row(1),
            yields: true,
            holder: far,
        };
        assert_eq!(intents.step(2), Some(step));
        assert_eq!(intents.step(far), None);
        intents.doom(2, row(2));
        assert!(poll(&mut second).is_pending(), "it waits for another row");
        intents.doom(2, row(1));
        assert_eq!(intents.step(2), None);
        assert_eq!(poll(&mut second), Poll::Ready(Err(WouldDeadlock)));
        intents.doom(2, row(1));
        let mut third = intents.take(row(1), 4, false);
        assert!(poll(&mut third).is_pending() && intents.step(4).is_some());
        intents.release(row(1), far);
        assert_eq!(intents.step(4), None, "its turn has come");
    }

    #[test]
    fn a_free_row_is_seen_without_the_lock() {
        let intents = Intents::default();
        let held = intents.shards[0].rows.lock();
        assert!(!intents.is_others(row(64), 1), "it would hang otherwise");
        drop(held);
        assert!(intents.try_take(row(64), 2));
        assert!(intents.is_others(row(64), 1) && !intents.is_others(row(64), 2));
        intents.release(row(64), 2);
        assert!(!intents.is_others(row(64), 1));
    }
}
