//! Copies of objects of peers that a transaction has read, so that what it reads and then changes costs one
//! read.
//!
//! # Invariant
//! * FETCHED-1: a copy is the newest version at or below R of whoever keeps it, and so it stays while R does:
//!   it was the newest there was, unlocked, when R had come, and whoever locked it later gets a W above.

use std::sync::Arc;

use fencepost_storage::{Addr, ObjectCopy};

/// Copies that are kept.
const KEPT: usize = 16;
/// Payload words of the longest one.
const LONGEST: usize = 512;

/// What a transaction has read of other machines at its R.
#[derive(Default)]
pub(crate) struct Fetched {
    copies: Vec<(Addr, Arc<ObjectCopy>)>,
    /// Which one goes next where there are as many as are kept.
    next: usize,
}

impl Fetched {
    /// The copy of an object.
    pub fn get(&self, addr: Addr) -> Option<Arc<ObjectCopy>> {
        let found = self.copies.iter().find(|(at, _)| *at == addr);
        found.map(|(_, copy)| Arc::clone(copy))
    }

    /// Keeps a copy, which is not kept yet, unless it is long.
    pub fn keep(&mut self, addr: Addr, copy: &Arc<ObjectCopy>) {
        if copy.payload().len() > LONGEST {
            return;
        }
        let entry = (addr, Arc::clone(copy));
        if self.copies.len() < KEPT {
            self.copies.push(entry);
        } else {
            self.copies[self.next] = entry;
            self.next = (self.next + 1) % KEPT;
        }
    }

    /// R has moved, or another transaction begins.
    #[inline]
    pub fn clear(&mut self) {
        self.copies.clear();
        self.next = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_copies_are_kept_and_long_ones_are_not() {
        let copy = |words: usize| {
            let words = vec![1 << 62; words].into_boxed_slice();
            Arc::new(ObjectCopy::of(words, 0).expect("whole"))
        };
        let at = |number: u64| Addr::from_raw(number * 64);
        let mut fetched = Fetched::default();
        for number in 0..KEPT as u64 + 1 {
            fetched.keep(at(number), &copy(8));
        }
        assert!(fetched.get(at(0)).is_none());
        assert!((1..=KEPT as u64).all(|number| fetched.get(at(number)).is_some()));
        fetched.keep(at(99), &copy(2 * LONGEST));
        assert!(fetched.get(at(99)).is_none());
        fetched.clear();
        assert!(fetched.get(at(5)).is_none());
    }
}
