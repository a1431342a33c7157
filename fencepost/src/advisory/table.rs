//! The lock table: the holders of each advisory or table lock, and the queue of requests for it.
//!
//! The table is plain data under one mutex. A waiting request gets its [`Reply`] after the table
//! has been unlocked.
//!
//! # Invariants
//! * ADV-1: no two owners hold one lock in modes that conflict.
//! * ADV-2: a lock is granted in the order of requests, but a request of an owner that already
//!   holds the lock in another mode goes first.
//! * ADV-3: there is no cycle of waits: a request that would close one gets a deadlock verdict.

use std::collections::VecDeque;

use fencepost_sql::advisory::{LockKey, LockMode, LockState};
use foldhash::HashMap;

use super::deadlocks::cycle;

/// A session of any machine, by its number.
pub(super) type Owner = i32;

/// The verdict on a request for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The owner holds the lock.
    Granted,
    /// Other owners hold the lock, and the request does not wait.
    Refused,
    /// Waiting would close a cycle of waits. The request would wait for this owner.
    Deadlock(Owner),
}

/// The callback that sends the verdict to the requester.
pub(super) type Reply = Box<dyn FnOnce(Verdict) + Send>;

/// Replies that are due.
pub(super) type DueReplies = Vec<(Reply, Verdict)>;

#[derive(Default)]
pub(super) struct Table {
    locks: HashMap<LockKey, Lock>,
    /// The lock that each owner waits for; an owner waits for at most one.
    waits: HashMap<Owner, LockKey>,
}

#[derive(Default)]
struct Lock {
    holders: Vec<(Owner, LockMode)>,
    line: VecDeque<LockWaiter>,
}

struct LockWaiter {
    owner: Owner,
    mode: LockMode,
    reply: Reply,
}

impl Lock {
    /// Returns the other owners whose held modes conflict with `mode`.
    fn in_the_way(&self, owner: Owner, mode: LockMode) -> impl Iterator<Item = Owner> {
        let others = self
            .holders
            .iter()
            .filter(move |(other, _)| *other != owner);
        let conflicting = others.filter(move |(_, held)| mode.conflicts(*held));
        conflicting.map(|(other, _)| *other)
    }

    fn is_holder(&self, owner: Owner) -> bool {
        self.holders.iter().any(|(holder, _)| *holder == owner)
    }

    /// Returns whether `owner` can get the lock at once, if the first `ahead` requests of the queue
    /// precede this one.
    fn may_have(&self, owner: Owner, mode: LockMode, ahead: usize) -> bool {
        let first = self.is_holder(owner)
            || !(self.line.iter().take(ahead)).any(|other| mode.conflicts(other.mode));
        first && self.in_the_way(owner, mode).next().is_none()
    }

    fn grant(&mut self, owner: Owner, mode: LockMode) {
        if !self.holders.contains(&(owner, mode)) {
            self.holders.push((owner, mode));
        }
    }

    /// Grants the lock to every queued request that can have it now.
    fn pass_on(&mut self, waits: &mut HashMap<Owner, LockKey>, due: &mut DueReplies) {
        let mut at = 0;
        while let Some(next) = self.line.get(at) {
            if !self.may_have(next.owner, next.mode, at) {
                at += 1;
                continue;
            }
            let Some(next) = self.line.remove(at) else {
                break;
            };
            self.grant(next.owner, next.mode);
            waits.remove(&next.owner);
            due.push((next.reply, Verdict::Granted));
        }
    }
}

impl Table {
    /// Grants the lock, or puts the request in the queue if `waits`; otherwise refuses it.
    pub fn ask(
        &mut self,
        (owner, key, mode): (Owner, LockKey, LockMode),
        waits: bool,
        reply: Reply,
        due: &mut DueReplies,
    ) {
        let lock = self.locks.entry(key).or_default();
        if lock.may_have(owner, mode, lock.line.len()) {
            lock.grant(owner, mode);
            due.push((reply, Verdict::Granted));
            return;
        }
        if !waits {
            self.forget_if_idle(key);
            due.push((reply, Verdict::Refused));
            return;
        }
        lock.line.push_back(LockWaiter { owner, mode, reply });
        self.waits.insert(owner, key);
        if let Some(other) = self.cycle(owner)
            && let Some(lock) = self.locks.get_mut(&key)
            && let Some(last) = lock.line.pop_back()
        {
            self.waits.remove(&owner);
            due.push((last.reply, Verdict::Deadlock(other)));
        }
    }

    /// Releases a lock.
    pub fn release(&mut self, owner: Owner, key: LockKey, mode: LockMode, due: &mut DueReplies) {
        if let Some(lock) = self.locks.get_mut(&key) {
            lock.holders.retain(|holder| *holder != (owner, mode));
            lock.pass_on(&mut self.waits, due);
            self.forget_if_idle(key);
        }
    }

    /// Removes the request that the owner waits for.
    pub fn leave(&mut self, owner: Owner, due: &mut DueReplies) {
        if let Some(key) = self.waits.remove(&owner)
            && let Some(lock) = self.locks.get_mut(&key)
        {
            lock.line.retain(|waiting| waiting.owner != owner);
            lock.pass_on(&mut self.waits, due);
            self.forget_if_idle(key);
        }
    }

    /// Removes all locks and requests of the owners for which `is_evicted` returns true.
    pub fn part_with(&mut self, is_evicted: impl Fn(Owner) -> bool, due: &mut DueReplies) {
        for lock in self.locks.values_mut() {
            lock.holders.retain(|(owner, _)| !is_evicted(*owner));
            lock.line.retain(|waiting| !is_evicted(waiting.owner));
        }
        self.waits.retain(|owner, _| !is_evicted(*owner));
        for lock in self.locks.values_mut() {
            lock.pass_on(&mut self.waits, due);
        }
        let idle = |lock: &Lock| lock.holders.is_empty() && lock.line.is_empty();
        self.locks.retain(|_, lock| !idle(lock));
    }

    /// Records a lock that an owner holds already.
    pub fn put(&mut self, owner: Owner, key: LockKey, mode: LockMode) {
        self.locks.entry(key).or_default().grant(owner, mode);
    }

    /// Removes everything. Waiting requests are dropped; their machines ask the next lock manager.
    pub fn clear(&mut self) {
        self.locks.clear();
        self.waits.clear();
    }

    /// Returns whether any request waits.
    pub fn has_waits(&self) -> bool {
        !self.waits.is_empty()
    }

    /// Returns all locks that are held or requested. The requests for one lock keep the order of
    /// the queue.
    pub fn states(&self) -> Vec<LockState> {
        let mut states = Vec::new();
        for (key, lock) in &self.locks {
            let had = lock.holders.iter().map(|held| (*held, true));
            let wanted = lock.line.iter().map(|w| ((w.owner, w.mode), false));
            states.extend(
                had.chain(wanted)
                    .map(|((session, mode), granted)| LockState {
                        key: *key,
                        mode,
                        session,
                        granted,
                    }),
            );
        }
        // The sort is stable, so waiting requests keep the order of the queue.
        states.sort_by_key(|state| (state.key, !state.granted));
        states
    }

    /// Returns the owners that `owner` waits for.
    fn waited_for(&self, owner: Owner) -> Vec<Owner> {
        let Some(lock) = self.waits.get(&owner).and_then(|key| self.locks.get(key)) else {
            return Vec::new();
        };
        let place = lock.line.iter().position(|w| w.owner == owner);
        let Some((place, waiting)) = place.and_then(|at| Some((at, lock.line.get(at)?))) else {
            return Vec::new();
        };
        let ahead = lock.line.iter().take(place);
        let ahead = ahead.filter(|other| waiting.mode.conflicts(other.mode));
        let ahead = ahead.map(|other| other.owner);
        let holders = lock.in_the_way(owner, waiting.mode);
        match lock.is_holder(owner) {
            true => holders.collect(),
            false => holders.chain(ahead).collect(),
        }
    }

    /// Returns the owner that `owner` waits for, if that owner waits for `owner`, directly or
    /// through others.
    fn cycle(&self, owner: Owner) -> Option<Owner> {
        let cycle = cycle(owner, |owner| self.waited_for(owner))?;
        cycle.get(1).copied()
    }

    fn forget_if_idle(&mut self, key: LockKey) {
        let idle = |lock: &Lock| lock.holders.is_empty() && lock.line.is_empty();
        if self.locks.get(&key).is_some_and(idle) {
            self.locks.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;
    use LockMode::{Exclusive, Share};
    use Verdict::{Deadlock, Granted, Refused};

    const KEY: LockKey = LockKey::One(5, 7);
    const OTHER: LockKey = LockKey::Two(5, 0, 7);

    #[derive(Default)]
    struct World {
        table: Table,
        replies: Arc<Mutex<Vec<(Owner, Verdict)>>>,
    }

    impl World {
        fn ask(&mut self, owner: Owner, key: LockKey, mode: LockMode, waits: bool) {
            let replies = Arc::clone(&self.replies);
            let reply = Box::new(move |verdict| replies.lock().push((owner, verdict)));
            self.then(|table, due| table.ask((owner, key, mode), waits, reply, due));
        }

        fn then(&mut self, change: impl FnOnce(&mut Table, &mut DueReplies)) {
            let mut due = DueReplies::new();
            change(&mut self.table, &mut due);
            due.into_iter().for_each(|(reply, verdict)| reply(verdict));
        }

        fn release(&mut self, owner: Owner, key: LockKey, mode: LockMode) {
            self.then(|table, due| table.release(owner, key, mode, due));
        }

        fn take_replies(&self) -> Vec<(Owner, Verdict)> {
            std::mem::take(&mut self.replies.lock())
        }
    }

    #[test]
    fn shared_ones_are_had_together_and_the_line_is_first_come_first_served() {
        let mut world = World::default();
        world.ask(1, KEY, Share, false);
        world.ask(2, KEY, Share, false);
        world.ask(3, KEY, Exclusive, false);
        assert_eq!(
            world.take_replies(),
            [(1, Granted), (2, Granted), (3, Refused)]
        );
        world.ask(3, KEY, Exclusive, true);
        // A new request does not overtake a waiting exclusive one, unless its owner holds the lock
        // already.
        world.ask(4, KEY, Share, false);
        world.ask(4, KEY, Share, true);
        world.ask(1, KEY, Share, false);
        assert_eq!(world.take_replies(), [(4, Refused), (1, Granted)]);
        world.release(1, KEY, Share);
        assert_eq!(world.take_replies(), []);
        world.release(2, KEY, Share);
        assert_eq!(world.take_replies(), [(3, Granted)]);
        world.release(3, KEY, Exclusive);
        assert_eq!(world.take_replies(), [(4, Granted)]);
        world.release(4, KEY, Share);
        assert!(world.table.states().is_empty());
    }

    #[test]
    fn departing_waiter_lets_later_waiters_pass() {
        let mut world = World::default();
        world.ask(1, KEY, Share, false);
        world.ask(2, KEY, Exclusive, true);
        world.ask(3, KEY, Share, true);
        world.then(|table, due| table.leave(2, due));
        assert_eq!(world.take_replies(), [(1, Granted), (3, Granted)]);
        world.ask(4, KEY, Exclusive, true);
        world.then(|table, due| table.part_with(|owner| owner != 4, due));
        assert_eq!(world.take_replies(), [(4, Granted)]);
        assert!(!world.table.has_waits());
    }

    #[test]
    fn waiter_that_closes_cycle_gets_deadlock() {
        let mut world = World::default();
        world.ask(1, KEY, Exclusive, false);
        world.ask(2, OTHER, Exclusive, false);
        world.ask(1, OTHER, Exclusive, true);
        world.take_replies();
        world.ask(2, KEY, Exclusive, true);
        assert_eq!(world.take_replies(), [(2, Deadlock(1))]);
        world.release(2, OTHER, Exclusive);
        assert_eq!(world.take_replies(), [(1, Granted)]);
    }

    #[test]
    fn two_upgrades_of_shared_lock_are_deadlock() {
        let mut world = World::default();
        world.ask(1, KEY, Share, false);
        world.ask(2, KEY, Share, false);
        world.ask(1, KEY, Exclusive, true);
        world.take_replies();
        world.ask(2, KEY, Exclusive, true);
        assert_eq!(world.take_replies(), [(2, Deadlock(1))]);
    }
}
