//! The row-lock queue: the holders of a row's lock and the waiters.
//!
//! # Invariants
//! * QUEUE-1: the strengths of two holders never conflict.
//! * QUEUE-2: a waiter blocks no other transaction: waiters wait only for holders whose strength
//!   conflicts with theirs. So a new share lock joins the holders of share locks, whichever
//!   transactions wait (as in PostgreSQL). A holder that wants a stronger lock waits for the other
//!   holders.
//! * QUEUE-3: among the waiters that can have the row, the one that has waited longest gets it.

use std::collections::VecDeque;
use std::task::Waker;

use smallvec::SmallVec;

use super::{Holder, Strength};

/// The entry of a holder or a waiter in a row's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueEntry {
    /// The coordinator.
    pub holder: Holder,
    /// The strength that it has or waits for.
    pub strength: Strength,
    /// Whether it has the row.
    pub granted: bool,
}

#[derive(Debug)]
struct QueueWaiter {
    holder: Holder,
    strength: Strength,
    waker: Waker,
}

#[derive(Debug, Default)]
pub(super) struct RowQueue {
    /// Mostly one.
    holders: SmallVec<[(Holder, Strength); 1]>,
    waiting: VecDeque<QueueWaiter>,
}

impl RowQueue {
    /// Takes the row, or a stronger lock on it, if no other holder conflicts. Returns whether it
    /// was taken.
    pub fn try_take(&mut self, me: Holder, strength: Strength) -> bool {
        let free = self.in_the_way(me, strength).next().is_none();
        if free {
            self.grant(me, strength);
        }
        free
    }

    fn grant(&mut self, me: Holder, strength: Strength) {
        match self.holders.iter_mut().find(|(holder, _)| *holder == me) {
            Some((_, had)) => *had = strength.max(*had),
            None => self.holders.push((me, strength)),
        }
    }

    /// Appends a waiter to the queue.
    pub fn wait(&mut self, holder: Holder, strength: Strength, waker: Waker) {
        self.waiting.push_back(QueueWaiter {
            holder,
            strength,
            waker,
        });
    }

    /// Returns the holders that prevent `me` from having the row with this strength.
    pub fn in_the_way(&self, me: Holder, strength: Strength) -> impl Iterator<Item = Holder> {
        let others = self.holders.iter().filter(move |(other, _)| *other != me);
        let conflicting = others.filter(move |(_, had)| strength.conflicts(*had));
        conflicting.map(|(other, _)| *other)
    }

    /// Returns whether `me` has the row.
    pub fn has(&self, me: Holder) -> bool {
        self.holders.iter().any(|(holder, _)| *holder == me)
    }

    /// Returns the waker of `me`, while it waits.
    pub fn waker(&mut self, me: Holder) -> Option<&mut Waker> {
        let mut waiting = self.waiting.iter_mut();
        let place = waiting.find(|place| place.holder == me)?;
        Some(&mut place.waker)
    }

    /// Removes `me` from the waiters. If it is a holder, it stays one.
    pub fn stop_waiting(&mut self, me: Holder) {
        self.waiting.retain(|place| place.holder != me);
    }

    /// Removes `me` from the holders. Returns the wakers of the new holders.
    pub fn release(&mut self, me: Holder) -> SmallVec<[Waker; 1]> {
        self.holders.retain(|(holder, _)| *holder != me);
        self.grant_next()
    }

    /// Weakens the lock of `me` to at most `strength`. Returns the wakers of the new holders.
    pub fn weaken(&mut self, me: Holder, strength: Strength) -> SmallVec<[Waker; 1]> {
        if let Some((_, had)) = self.holders.iter_mut().find(|(holder, _)| *holder == me) {
            *had = strength.min(*had);
        }
        self.grant_next()
    }

    /// Grants the row to all waiters with which no holder conflicts. Returns their wakers.
    fn grant_next(&mut self) -> SmallVec<[Waker; 1]> {
        let mut next = SmallVec::new();
        let mut at = 0;
        while let Some(place) = self.waiting.get(at) {
            let (holder, strength) = (place.holder, place.strength);
            if !self.try_take(holder, strength) {
                at += 1;
                continue;
            }
            next.extend(self.waiting.remove(at).map(|place| place.waker));
        }
        next
    }

    /// Returns whether the queue has no holder, and so no waiter.
    pub fn is_empty(&self) -> bool {
        self.holders.is_empty() && self.waiting.is_empty()
    }

    /// Returns all entries: first the holders, then the waiters in order.
    pub fn places(&self) -> Vec<QueueEntry> {
        let had = self.holders.iter().map(|(holder, strength)| QueueEntry {
            holder: *holder,
            strength: *strength,
            granted: true,
        });
        let waits = self.waiting.iter().map(|place| QueueEntry {
            holder: place.holder,
            strength: place.strength,
            granted: false,
        });
        had.chain(waits).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Strength::{Share, Update};

    fn wait(queue: &mut RowQueue, holder: Holder, strength: Strength) {
        queue.wait(holder, strength, Waker::noop().clone());
    }

    fn had(queue: &RowQueue) -> Vec<Holder> {
        let places = queue.places().into_iter();
        let granted = places.filter(|place| place.granted);
        granted.map(|place| place.holder).collect()
    }

    #[test]
    fn shared_locks_coexist_and_update_lock_excludes() {
        let mut queue = RowQueue::default();
        assert!(queue.try_take(1, Share) && queue.try_take(2, Share));
        assert!(!queue.try_take(3, Update) && !queue.try_take(1, Update));
        wait(&mut queue, 3, Update);
        assert!(queue.try_take(4, Share), "who shares it joins them");
        assert_eq!(queue.in_the_way(3, Update).collect::<Vec<_>>(), [1, 2, 4]);
        assert_eq!(queue.in_the_way(5, Share).next(), None);
        assert!(queue.release(1).is_empty() && queue.release(2).is_empty());
        assert_eq!(queue.release(4).len(), 1);
        assert_eq!(had(&queue), [3]);
        assert!(!queue.try_take(4, Share) && queue.try_take(3, Share));
        assert_eq!(queue.places()[0].strength, Update, "it has not less then");
        queue.release(3);
        assert!(queue.is_empty());
    }

    #[test]
    fn lock_upgrade_precedes_new_waiters() {
        let mut queue = RowQueue::default();
        assert!(queue.try_take(1, Share) && queue.try_take(2, Share));
        wait(&mut queue, 3, Update);
        wait(&mut queue, 2, Update);
        assert!(queue.waker(2).is_some() && queue.has(2));
        assert_eq!(queue.release(1).len(), 1);
        assert!(queue.waker(2).is_none() && queue.waker(3).is_some());
        assert_eq!(queue.places()[0].strength, Update);
        queue.release(2);
        assert_eq!(had(&queue), [3]);
        // Without other holders it need not wait.
        assert!(queue.release(3).is_empty());
        assert!(queue.try_take(4, Share) && queue.try_take(4, Update));
    }

    #[test]
    fn weakened_lock_lets_waiters_in_that_it_does_not_conflict_with() {
        let mut queue = RowQueue::default();
        assert!(queue.try_take(1, Share) && queue.try_take(1, Update));
        wait(&mut queue, 2, Share);
        wait(&mut queue, 3, Update);
        assert_eq!(queue.weaken(1, Share).len(), 1);
        assert_eq!(had(&queue), [1, 2]);
        assert!(
            queue.weaken(1, Update).is_empty(),
            "it is not made stronger"
        );
        assert_eq!(queue.places()[0].strength, Share);
    }

    #[test]
    fn release_grants_all_compatible_waiters_in_order() {
        let mut queue = RowQueue::default();
        assert!(queue.try_take(1, Update));
        wait(&mut queue, 2, Share);
        wait(&mut queue, 3, Update);
        wait(&mut queue, 4, Share);
        wait(&mut queue, 5, Update);
        queue.stop_waiting(5);
        assert_eq!(queue.release(1).len(), 2);
        assert_eq!(had(&queue), [2, 4]);
        queue.release(2);
        queue.release(4);
        assert_eq!(had(&queue), [3]);
    }
}
