//! The remote-read cache of a transaction: copies of objects of peers. With them, an object that is
//! read and then changed costs one remote read.
//!
//! # Invariant
//! * FETCHED-1: a copy is the newest version at or below R, and stays so while R does not change.
//!   It was the newest version, and unlocked, after R was taken; a transaction that locks the
//!   object later gets a W above R.

use std::sync::Arc;

use fencepost_storage::{Addr, ObjectCopy};

/// Most copies that are kept.
const COPIES_MAX: usize = 16;
/// Most payload words of a copy that is kept.
const LONGEST: usize = 512;

/// Objects of other machines that a transaction has read at its R.
#[derive(Default)]
pub(crate) struct RemoteReadCache {
    copies: Vec<(Addr, Arc<ObjectCopy>)>,
    /// Index of the copy that is replaced next when the cache is full.
    next: usize,
}

impl RemoteReadCache {
    /// Returns the copy of an object.
    pub fn get(&self, addr: Addr) -> Option<Arc<ObjectCopy>> {
        let found = self.copies.iter().find(|(at, _)| *at == addr);
        found.map(|(_, copy)| Arc::clone(copy))
    }

    /// Keeps a copy of an object that has no copy yet, unless the object is long.
    pub fn keep(&mut self, addr: Addr, copy: &Arc<ObjectCopy>) {
        if copy.payload().len() > LONGEST {
            return;
        }
        let entry = (addr, Arc::clone(copy));
        if self.copies.len() < COPIES_MAX {
            self.copies.push(entry);
        } else {
            self.copies[self.next] = entry;
            self.next = (self.next + 1) % COPIES_MAX;
        }
    }

    /// Drops all copies: R has moved, or another transaction begins.
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
    fn cache_keeps_latest_copies_and_no_long_ones() {
        let copy = |words: usize| {
            let words = vec![1 << 62; words].into_boxed_slice();
            Arc::new(ObjectCopy::of(words, 0).expect("whole"))
        };
        let at = |number: u64| Addr::from_raw(number * 64);
        let mut fetched = RemoteReadCache::default();
        for number in 0..COPIES_MAX as u64 + 1 {
            fetched.keep(at(number), &copy(8));
        }
        assert!(fetched.get(at(0)).is_none());
        assert!((1..=COPIES_MAX as u64).all(|number| fetched.get(at(number)).is_some()));
        fetched.keep(at(99), &copy(2 * LONGEST));
        assert!(fetched.get(at(99)).is_none());
        fetched.clear();
        assert!(fetched.get(at(5)).is_none());
    }
}
