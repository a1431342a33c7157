//! Intents: who is going to write a row, or wants that nobody does, first come first served.
//!
//! # Picture
//! ```text
//! strength.rs   which intents go together
//! line.rs       who has a row, and who waits for it
//! circle.rs     waits that wait for each other, on one machine
//! taking.rs     what transactions do with them
//!
//! shard of rows:  row → its line; how many rows have one
//! waits:          coordinator → row it waits for          (only touched by those who wait)
//! ```
//! An intent is advice: it keeps two transactions from preparing changes of one row of which one
//! must abort. Correctness never rests on it. A coordinator waits for one row at a time, so a circle
//! of waits is found by walking from holders to the rows that they wait for and on to their holders, when somebody begins to
//! wait. A circle is ended at a waiter that *yields*, because it is run again unseen, if there is one; else
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

mod circle;
mod line;
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

use circle::Circle;
use line::Line;
pub use line::Place;
pub use strength::Strength;

const SHARDS: usize = 64;
/// So often the time between two looks at a wait is doubled.
const LONGER: u32 = 4;

/// A coordinator, as intents know it: its number, above it that of its machine if that is another.
pub type Holder = u64;

/// The machine of a holder; 0 for this one.
pub(crate) fn machine_of(holder: Holder) -> u64 {
    holder >> 32
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
    strength: Strength,
    yields: bool,
    /// It was chosen to end a circle, and will leave the line.
    doomed: bool,
    /// When it is next looked at whether it is in a circle over several machines, and how often it was.
    due: Option<Timestamp>,
    looks: u32,
}

/// A wait as one step of a walk along holders and what they wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// What is waited for.
    pub row: Addr,
    /// Whether the waiter is to end a circle rather than others.
    pub yields: bool,
    /// Those who have it, so that the waiter cannot.
    pub holders: Vec<Holder>,
}

/// How somebody asks for a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// What it wants.
    pub strength: Strength,
    /// It is to end a circle rather than others.
    pub yields: bool,
    /// It has the row already, with less, and will have it still if it stops waiting.
    pub has_it: bool,
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

    /// Whether somebody else has an intent that is in the way. One load where nobody has any intent nearby.
    #[inline]
    pub fn is_others(&self, row: Addr, me: Holder, strength: Strength) -> bool {
        let shard = self.shard(row);
        shard.held.load(Ordering::SeqCst) > 0
            && shard
                .rows
                .lock()
                .get(&row)
                .is_some_and(|line| line.in_the_way(me, strength).next().is_some())
    }

    /// Whether nobody has an intent or waits for one.
    pub(crate) fn is_empty(&self) -> bool {
        let held = |shard: &Shard| shard.held.load(Ordering::SeqCst) > 0;
        !self.shards.iter().any(held) && self.waits.lock().is_empty()
    }

    /// Takes the intent if nobody else has one that is in the way.
    pub fn try_take(&self, row: Addr, me: Holder, strength: Strength) -> bool {
        let shard = self.shard(row);
        let mut rows = shard.rows.lock();
        let taken = rows.entry(row).or_default().try_take(me, strength);
        shard.count(&rows);
        taken
    }

    /// Waits in line for the intent.
    pub fn take(&self, row: Addr, me: Holder, wish: Wish) -> Take<'_> {
        Take {
            intents: self,
            row,
            me,
            wish,
            queued: false,
        }
    }

    /// All rows that somebody has an intent on, and who is in their lines: first who has it, then those who wait, in turn.
    pub(crate) fn lines(&self) -> Vec<(Addr, Vec<Place>)> {
        let mut lines = Vec::new();
        for shard in &self.shards {
            let rows = shard.rows.lock();
            lines.extend(rows.iter().map(|(row, line)| (*row, line.places())));
        }
        lines
    }

    /// Gives an intent back; those have it then whose turn it is.
    pub fn release(&self, row: Addr, me: Holder) {
        let shard = self.shard(row);
        let mut rows = shard.rows.lock();
        let Some(line) = rows.get_mut(&row) else {
            return;
        };
        if !line.has(me) {
            return;
        }
        let next = line.release(me);
        if line.is_empty() {
            rows.remove(&row);
            shard.count(&rows);
        }
        drop(rows);
        next.into_iter().for_each(Waker::wake);
    }

    /// Has `me` keep the row with `strength` alone; those have it too then whom that is not in the way of.
    pub fn weaken(&self, row: Addr, me: Holder, strength: Strength) {
        let mut rows = self.shard(row).rows.lock();
        let next = rows.get_mut(&row).map(|line| line.weaken(me, strength));
        drop(rows);
        next.into_iter().flatten().for_each(Waker::wake);
    }

    /// Who has the row, so that `me` has to wait for it.
    fn in_the_way(&self, row: Addr, me: Holder, strength: Strength) -> Vec<Holder> {
        let rows = self.shard(row).rows.lock();
        let line = rows.get(&row);
        line.map_or_else(Vec::new, |line| line.in_the_way(me, strength).collect())
    }

    /// Makes a waiter leave its line.
    fn send_away(&self, waits: &mut Waits, victim: Holder) {
        let Some(wait) = waits.get_mut(&victim) else {
            return;
        };
        wait.doomed = true;
        let mut rows = self.shard(wait.row).rows.lock();
        let line = rows.get_mut(&wait.row);
        let waker = line.and_then(|line| line.waker(victim).cloned());
        drop(rows);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whom `waiter` waits for here, if it does.
    pub(crate) fn step(&self, waiter: Holder) -> Option<Step> {
        let waits = self.waits.lock();
        let wait = waits.get(&waiter).filter(|wait| !wait.doomed)?;
        let mut rows = self.shard(wait.row).rows.lock();
        let line = rows.get_mut(&wait.row)?;
        // Its turn may have come without its having looked.
        line.waker(waiter)?;
        Some(Step {
            row: wait.row,
            yields: wait.yields,
            holders: line.in_the_way(waiter, wait.strength).collect(),
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
        wish: Wish,
        waker: &Waker,
    ) -> Result<bool, WouldDeadlock> {
        // The lock on `waits` makes checking and beginning to wait one step.
        let mut waits = self.waits.lock();
        if self.try_take(row, me, wish.strength) {
            return Ok(true);
        }
        // Each that is sent away is part of no other.
        while let Some(circle) = self.circle(&waits, row, me, wish.strength) {
            match circle {
                Circle::EndsAt(victim) if !wish.yields => self.send_away(&mut waits, victim),
                Circle::EndsAt(_) | Circle::NobodyYields => return Err(WouldDeadlock),
            }
        }
        let shard = self.shard(row);
        let mut rows = shard.rows.lock();
        let line = rows.entry(row).or_default();
        // Released since the try, perhaps.
        let taken = line.try_take(me, wish.strength);
        if !taken {
            line.wait(me, wish.strength, waker.clone());
            let wait = Wait {
                row,
                strength: wish.strength,
                yields: wish.yields,
                doomed: false,
                due: None,
                looks: 0,
            };
            waits.insert(me, wait);
        }
        shard.count(&rows);
        Ok(taken)
    }

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
        let has_it = line.has(me);
        let outcome = match line.waker(me) {
            None if has_it => Ok(Turn::Taken),
            None => return None,
            Some(_) if waits.get(&me).is_some_and(|wait| wait.doomed) => Err(WouldDeadlock),
            Some(place) => {
                place.clone_from(waker);
                return None;
            }
        };
        line.stop_waiting(me);
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
        for (row, places) in self.lines() {
            for place in places {
                if leaves(row, place.holder) {
                    self.leave(row, place.holder);
                }
            }
        }
    }

    /// `me` is neither in the line of `row` any more nor has its intent.
    pub(crate) fn leave(&self, row: Addr, me: Holder) {
        self.stop_waiting(row, me);
        self.release(row, me);
    }

    /// `me` does not wait for the row any more; it has it if it had it before, or its turn has come.
    pub(crate) fn stop_waiting(&self, row: Addr, me: Holder) {
        self.waits.lock().remove(&me);
        let shard = self.shard(row);
        let mut rows = shard.rows.lock();
        if let Some(line) = rows.get_mut(&row) {
            line.stop_waiting(me);
        }
    }
}

/// A place in line; dropping it leaves the line.
#[derive(Debug)]
pub struct Take<'a> {
    intents: &'a Intents,
    row: Addr,
    me: Holder,
    wish: Wish,
    queued: bool,
}

impl Future for Take<'_> {
    type Output = Result<Turn, WouldDeadlock>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if !self.queued {
            let (row, me, wish) = (self.row, self.me, self.wish);
            match self.intents.enqueue(row, me, wish, cx.waker()) {
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
        match self.wish.has_it {
            _ if !self.queued => {}
            true => self.intents.stop_waiting(self.row, self.me),
            false => self.intents.leave(self.row, self.me),
        }
    }
}
