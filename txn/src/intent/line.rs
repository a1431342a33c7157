//! The row-lock queue: the holders of a row's lock and the waiters.
//!
//! # Invariants
//! * LINE-1: the strengths of two holders never conflict.
//! * LINE-2: a waiter blocks no other transaction: waiters wait only for holders whose strength
//!   conflicts with theirs. So a new share lock joins the holders of share locks, whichever
//!   transactions wait (as in PostgreSQL). A holder that wants a stronger lock waits for the other
//!   holders.
//! * LINE-3: among the waiters that can have the row, the one that has waited longest gets it.

use std::collections::VecDeque;
use std::task::Waker;

use smallvec::SmallVec;

use super::{Holder, Strength};

/// The entry of a holder or a waiter in a row's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The coordinator.
    pub holder: Holder,
    /// The strength that it has or waits for.
    pub strength: Strength,
    /// Whether it has the row.
    pub granted: bool,
}

#[derive(Debug)]
struct Waiting {
    holder: Holder,
    strength: Strength,
    waker: Waker,
}

#[derive(Debug, Default)]
pub(super) struct Line {
    /// Mostly one.
    holders: SmallVec<[(Holder, Strength); 1]>,
    waiting: VecDeque<Waiting>,
}

impl Line {
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
        self.waiting.push_back(Waiting {
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
    pub fn places(&self) -> Vec<Place> {
        let had = self.holders.iter().map(|(holder, strength)| Place {
            holder: *holder,
            strength: *strength,
            granted: true,
        });
        let waits = self.waiting.iter().map(|place| Place {
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

    fn wait(line: &mut Line, holder: Holder, strength: Strength) {
        line.wait(holder, strength, Waker::noop().clone());
    }

    fn had(line: &Line) -> Vec<Holder> {
        let places = line.places().into_iter();
        let granted = places.filter(|place| place.granted);
        granted.map(|place| place.holder).collect()
    }

    #[test]
    fn some_share_a_row_and_one_writes_it() {
        let mut line = Line::default();
        assert!(line.try_take(1, Share) && line.try_take(2, Share));
        assert!(!line.try_take(3, Update) && !line.try_take(1, Update));
        wait(&mut line, 3, Update);
        assert!(line.try_take(4, Share), "who shares it joins them");
        assert_eq!(line.in_the_way(3, Update).collect::<Vec<_>>(), [1, 2, 4]);
        assert_eq!(line.in_the_way(5, Share).next(), None);
        assert!(line.release(1).is_empty() && line.release(2).is_empty());
        assert_eq!(line.release(4).len(), 1);
        assert_eq!(had(&line), [3]);
        assert!(!line.try_take(4, Share) && line.try_take(3, Share));
        assert_eq!(line.places()[0].strength, Update, "it has not less then");
        line.release(3);
        assert!(line.is_empty());
    }

    #[test]
    fn who_has_a_row_gets_more_of_it_before_those_who_have_nothing() {
        let mut line = Line::default();
        assert!(line.try_take(1, Share) && line.try_take(2, Share));
        wait(&mut line, 3, Update);
        wait(&mut line, 2, Update);
        assert!(line.waker(2).is_some() && line.has(2));
        assert_eq!(line.release(1).len(), 1);
        assert!(line.waker(2).is_none() && line.waker(3).is_some());
        assert_eq!(line.places()[0].strength, Update);
        line.release(2);
        assert_eq!(had(&line), [3]);
        // Without other holders it need not wait.
        assert!(line.release(3).is_empty());
        assert!(line.try_take(4, Share) && line.try_take(4, Update));
    }

    #[test]
    fn weakened_lock_lets_waiters_in_that_it_does_not_conflict_with() {
        let mut line = Line::default();
        assert!(line.try_take(1, Share) && line.try_take(1, Update));
        wait(&mut line, 2, Share);
        wait(&mut line, 3, Update);
        assert_eq!(line.weaken(1, Share).len(), 1);
        assert_eq!(had(&line), [1, 2]);
        assert!(line.weaken(1, Update).is_empty(), "it is not made stronger");
        assert_eq!(line.places()[0].strength, Share);
    }

    #[test]
    fn all_that_can_have_it_do_and_who_waited_longest_is_first() {
        let mut line = Line::default();
        assert!(line.try_take(1, Update));
        wait(&mut line, 2, Share);
        wait(&mut line, 3, Update);
        wait(&mut line, 4, Share);
        wait(&mut line, 5, Update);
        line.stop_waiting(5);
        assert_eq!(line.release(1).len(), 2);
        assert_eq!(had(&line), [2, 4]);
        line.release(2);
        line.release(4);
        assert_eq!(had(&line), [3]);
    }
}
