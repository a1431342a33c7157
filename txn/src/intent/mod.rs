//! Intents: advisory row locks of transactions that are going to write a row, or to keep others
//! from writing it. They are granted first come, first served.
//!
//! # Picture
//! ```text
//! strength.rs   which intents are compatible
//! queue.rs      the queue of a row: holders and waiters
//! deadlock.rs   deadlocks: cycles of waits, on one machine
//! taking.rs     the intents of transactions
//!
//! shard of rows:  row → its queue; number of rows with one
//! waits:          coordinator → row it waits for          (only touched by waiters)
//! ```
//! An intent is advice: it keeps two transactions from preparing changes of one row if one of them
//! would have to abort. Correctness never depends on it. A coordinator waits for one row at a time.
//! When a wait begins, a walk looks for a cycle of waits. It goes from holders to the rows that
//! they wait for, and on to the holders of those rows. The cycle is ended at a waiter that
//! *yields*, if there is one: the server runs that waiter again without its client's notice.
//! Otherwise the wait that closes the cycle fails.
//!
//! A short transaction takes no intents. It calls [`Intents::is_others`] before it reads a row and
//! again under the row's lock. A transaction that takes an intent does so before it reads the row.
//! So one of the two sees the other's intent or lock.
//!
//! In a cluster a row's queue is at its primary, and a holder's number includes its machine. No
//! single machine sees a cycle over queues of several machines. `network/distributed_deadlock.rs`
//! searches for such cycles when a wait has lasted for some time.
//!
//! # Failure
//! Intents are in memory and end with their transaction, however it ends.

mod deadlock;
mod queue;
mod strength;
mod taking;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use fencepost_storage::{Addr, Timestamp};
use foldhash::fast::FixedState;
use parking_lot::Mutex;

use deadlock::Cycle;
pub use queue::QueueEntry;
use queue::RowQueue;
pub use strength::Strength;

const SHARDS: usize = 64;
/// Number of times that the interval between two checks of a wait is doubled.
const LONGER: u32 = 4;

/// A coordinator as intents know it: its number in the low bits, and above it the number of its
/// machine if that is another one.
pub type Holder = u64;

/// Returns the machine of a holder; 0 for this one.
pub(crate) fn machine_of(holder: Holder) -> u64 {
    holder >> 32
}

type Rows = HashMap<Addr, RowQueue, FixedState>;

/// On a cache line of its own, because every writer of a row reads `held`.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Shard {
    /// Number of entries in `rows`; changed under its lock.
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
    strength: Strength,
    yields: bool,
    /// Whether it was chosen to end a cycle, and will leave the queue.
    is_victim: bool,
    /// The time of the next check for a distributed deadlock, and the number of checks so far.
    due: Option<Timestamp>,
    looks: u32,
}

/// A wait: one step of a walk along holders and the rows that they wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The row that the waiter waits for.
    pub row: Addr,
    /// Whether the waiter is preferred as the one that ends a cycle.
    pub yields: bool,
    /// The holders that block the waiter.
    pub holders: Vec<Holder>,
}

/// A request for a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntentRequest {
    /// The requested strength.
    pub strength: Strength,
    /// Whether the request is preferred as the one that ends a cycle.
    pub yields: bool,
    /// Whether the requester has a weaker lock on the row, which it keeps if it stops waiting.
    pub has_it: bool,
}

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitEnd {
    /// The waiter has the intent.
    Taken,
    /// The waiter does not have the intent, and may go on nevertheless.
    Without,
    /// Another transaction has the intent, and the requester does not wait.
    Others,
}

type Waits = HashMap<Holder, Wait, FixedState>;

/// All intents of a machine.
#[derive(Debug)]
pub struct Intents {
    shards: Box<[Shard]>,
    waits: Mutex<Waits>,
}

/// The error of a wait that is part of a cycle and was chosen to end it.
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

    /// Returns whether another holder has a conflicting intent. Costs one load if the row's shard
    /// has no intents.
    #[inline]
    pub fn is_others(&self, row: Addr, me: Holder, strength: Strength) -> bool {
        let shard = self.shard(row);
        shard.held.load(Ordering::SeqCst) > 0
            && shard
                .rows
                .lock()
                .get(&row)
                .is_some_and(|queue| queue.in_the_way(me, strength).next().is_some())
    }

    /// Returns whether no intent is held and none is waited for.
    pub(crate) fn is_empty(&self) -> bool {
        let held = |shard: &Shard| shard.held.load(Ordering::SeqCst) > 0;
        !self.shards.iter().any(held) && self.waits.lock().is_empty()
    }

    /// Takes the intent if no other holder conflicts. Returns whether it was taken.
    pub fn try_take(&self, row: Addr, me: Holder, strength: Strength) -> bool {
        let shard = self.shard(row);
        let mut rows = shard.rows.lock();
        let taken = rows.entry(row).or_default().try_take(me, strength);
        shard.count(&rows);
        taken
    }

    /// Returns a future that waits in the queue for the intent.
    pub fn take(&self, row: Addr, me: Holder, wish: IntentRequest) -> QueueWait<'_> {
        QueueWait {
            intents: self,
            row,
            me,
            wish,
            queued: false,
        }
    }

    /// Returns all rows with intents and their queues: first the holders, then the waiters in
    /// order.
    pub(crate) fn queues(&self) -> Vec<(Addr, Vec<QueueEntry>)> {
        let mut queues = Vec::new();
        for shard in &self.shards {
            let rows = shard.rows.lock();
            queues.extend(rows.iter().map(|(row, queue)| (*row, queue.places())));
        }
        queues
    }

    /// Releases an intent and wakes the waiters that get the row.
    pub fn release(&self, row: Addr, me: Holder) {
        let shard = self.shard(row);
        let mut rows = shard.rows.lock();
        let Some(queue) = rows.get_mut(&row) else {
            return;
        };
        if !queue.has(me) {
            return;
        }
        let next = queue.release(me);
        if queue.is_empty() {
            rows.remove(&row);
            shard.count(&rows);
        }
        drop(rows);
        next.into_iter().for_each(Waker::wake);
    }

    /// Weakens the lock of `me` on the row to `strength`, and wakes the waiters that get the row.
    pub fn weaken(&self, row: Addr, me: Holder, strength: Strength) {
        let mut rows = self.shard(row).rows.lock();
        let next = rows.get_mut(&row).map(|queue| queue.weaken(me, strength));
        drop(rows);
        next.into_iter().flatten().for_each(Waker::wake);
    }

    /// Returns the holders that `me` has to wait for.
    fn in_the_way(&self, row: Addr, me: Holder, strength: Strength) -> Vec<Holder> {
        let rows = self.shard(row).rows.lock();
        let queue = rows.get(&row);
        queue.map_or_else(Vec::new, |queue| queue.in_the_way(me, strength).collect())
    }

    /// Tells a waiter to leave its queue.
    fn send_away(&self, waits: &mut Waits, victim: Holder) {
        let Some(wait) = waits.get_mut(&victim) else {
            return;
        };
        wait.is_victim = true;
        let mut rows = self.shard(wait.row).rows.lock();
        let queue = rows.get_mut(&wait.row);
        let waker = queue.and_then(|queue| queue.waker(victim).cloned());
        drop(rows);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Returns the wait of `waiter` at this machine, if it waits.
    pub(crate) fn step(&self, waiter: Holder) -> Option<Step> {
        let waits = self.waits.lock();
        let wait = waits.get(&waiter).filter(|wait| !wait.is_victim)?;
        let mut rows = self.shard(wait.row).rows.lock();
        let queue = rows.get_mut(&wait.row)?;
        // It may have been granted the row without having noticed.
        queue.waker(waiter)?;
        Some(Step {
            row: wait.row,
            yields: wait.yields,
            holders: queue.in_the_way(waiter, wait.strength).collect(),
        })
    }

    /// Ends a cycle at `victim`, if it still waits for `row`.
    pub(crate) fn end_cycle_at(&self, victim: Holder, row: Addr) {
        let mut waits = self.waits.lock();
        if waits.get(&victim).is_some_and(|wait| wait.row == row) {
            self.send_away(&mut waits, victim);
        }
    }

    /// Returns the waiters that have waited for `patience` since they were last returned. The
    /// interval of a waiter doubles each time, up to a limit.
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

    /// Takes the intent, or appends a waiter to the queue. Returns whether the intent was taken.
    /// `waker` is woken when [`Self::outcome`] has a result.
    pub(crate) fn enqueue(
        &self,
        row: Addr,
        me: Holder,
        wish: IntentRequest,
        waker: &Waker,
    ) -> Result<bool, WouldDeadlock> {
        // The lock on `waits` makes the check and the start of the wait one atomic step.
        let mut waits = self.waits.lock();
        if self.try_take(row, me, wish.strength) {
            return Ok(true);
        }
        // A victim is no longer part of any cycle, so the loop ends.
        while let Some(cycle) = self.cycle(&waits, row, me, wish.strength) {
            match cycle {
                Cycle::EndsAt(victim) if !wish.yields => self.send_away(&mut waits, victim),
                Cycle::EndsAt(_) | Cycle::NoneYields => return Err(WouldDeadlock),
            }
        }
        let shard = self.shard(row);
        let mut rows = shard.rows.lock();
        let queue = rows.entry(row).or_default();
        // The row may have been released since the first try.
        let taken = queue.try_take(me, wish.strength);
        if !taken {
            queue.wait(me, wish.strength, waker.clone());
            let wait = Wait {
                row,
                strength: wish.strength,
                yields: wish.yields,
                is_victim: false,
                due: None,
                looks: 0,
            };
            waits.insert(me, wait);
        }
        shard.count(&rows);
        Ok(taken)
    }

    /// Returns how the wait of `me` in the queue of `row` has ended. Returns `None` while it lasts;
    /// `waker` is woken at its end.
    pub(crate) fn outcome(
        &self,
        row: Addr,
        me: Holder,
        waker: &Waker,
    ) -> Option<Result<WaitEnd, WouldDeadlock>> {
        let mut waits = self.waits.lock();
        let mut rows = self.shard(row).rows.lock();
        let queue = rows.get_mut(&row)?;
        let has_it = queue.has(me);
        let outcome = match queue.waker(me) {
            None if has_it => Ok(WaitEnd::Taken),
            None => return None,
            Some(_) if waits.get(&me).is_some_and(|wait| wait.is_victim) => Err(WouldDeadlock),
            Some(place) => {
                place.clone_from(waker);
                return None;
            }
        };
        queue.stop_waiting(me);
        waits.remove(&me);
        Some(outcome)
    }

    /// Removes all holders and waiters of a lost machine.
    pub(crate) fn leave_all(&self, machine: u64) {
        self.leave_where(|_, holder| machine_of(holder) == machine);
    }

    /// Removes the holders and waiters of other machines from the queues of rows that
    /// `is_handed_over`: those queues are at another machine from now on. Holders and waiters of
    /// this machine leave by themselves.
    pub(crate) fn leave_to_own(&self, is_handed_over: impl Fn(Addr) -> bool) {
        self.leave_where(|row, holder| is_handed_over(row) && machine_of(holder) != 0);
    }

    fn leave_where(&self, leaves: impl Fn(Addr, Holder) -> bool) {
        for (row, places) in self.queues() {
            for place in places {
                if leaves(row, place.holder) {
                    self.leave(row, place.holder);
                }
            }
        }
    }

    /// Removes `me` from the waiters and the holders of `row`.
    pub(crate) fn leave(&self, row: Addr, me: Holder) {
        self.stop_waiting(row, me);
        self.release(row, me);
    }

    /// Removes `me` from the waiters of the row. It keeps the row if it had it before, or was
    /// granted it meanwhile.
    pub(crate) fn stop_waiting(&self, row: Addr, me: Holder) {
        self.waits.lock().remove(&me);
        let shard = self.shard(row);
        let mut rows = shard.rows.lock();
        if let Some(queue) = rows.get_mut(&row) {
            queue.stop_waiting(me);
        }
    }
}

/// A wait in the queue; dropping it leaves the queue.
#[derive(Debug)]
pub struct QueueWait<'a> {
    intents: &'a Intents,
    row: Addr,
    me: Holder,
    wish: IntentRequest,
    queued: bool,
}

impl Future for QueueWait<'_> {
    type Output = Result<WaitEnd, WouldDeadlock>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if !self.queued {
            let (row, me, wish) = (self.row, self.me, self.wish);
            match self.intents.enqueue(row, me, wish, cx.waker()) {
                Ok(true) => return Poll::Ready(Ok(WaitEnd::Taken)),
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

impl Drop for QueueWait<'_> {
    fn drop(&mut self) {
        match self.wish.has_it {
            _ if !self.queued => {}
            true => self.intents.stop_waiting(self.row, self.me),
            false => self.intents.leave(self.row, self.me),
        }
    }
}
