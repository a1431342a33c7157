//! Data partitioned over machines: each machine has its own part. The part of a key follows from a
//! hash of the key. With `n` machines, all but one in `n` accesses are remote, as with the
//! unpartitioned data of the papers. A workload may also choose the part itself, to keep related
//! data together.

use fencepost_hashtable::HashTable;
use fencepost_txn::Addr;

use crate::draw::scatter;

/// Tables that another process can find by the addresses of their roots.
pub(crate) trait Roots: Sized {
    /// Returns the addresses of the roots.
    fn roots(&self) -> Vec<u64>;
    /// Creates the tables with these roots; `None` if their number is wrong.
    fn of_roots(roots: &[u64]) -> Option<Self>;
}

impl Roots for HashTable {
    fn roots(&self) -> Vec<u64> {
        vec![self.root().raw()]
    }

    fn of_roots(roots: &[u64]) -> Option<HashTable> {
        match roots {
            [root] => Some(HashTable::open(Addr::from_raw(*root))),
            _ => None,
        }
    }
}

/// One part for each machine, in the order of the machines.
#[derive(Debug)]
pub(crate) struct Partitions<T>(Box<[T]>);

/// Returns which of `machines` machines has key `number`.
#[inline]
pub(super) fn home(number: u64, machines: usize) -> usize {
    // The hash differs from that of the tables, so every part fills evenly.
    ((u128::from(scatter(number)) * machines as u128) >> 64) as usize
}

impl<T> Partitions<T> {
    pub(super) fn new(parts: Vec<T>) -> Partitions<T> {
        Partitions(parts.into())
    }

    /// Returns the parts, in the order of the machines.
    #[inline]
    pub fn parts(&self) -> &[T] {
        &self.0
    }

    /// Returns the part that has key `number` by its hash.
    #[inline]
    pub fn of(&self, number: u64) -> &T {
        match &*self.0 {
            [only] => only,
            parts => &parts[home(number, parts.len())],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_spread_evenly_and_stably() {
        for machines in [1, 2, 3, 7] {
            let parts = Partitions::new((0..machines).collect());
            let mut counts = vec![0; machines];
            for number in 0..7000 {
                assert_eq!(*parts.of(number), home(number, machines));
                counts[*parts.of(number)] += 1;
            }
            let share = 7000 / machines;
            let even = |count: &usize| count.abs_diff(share) < share / 10 + 1;
            assert!(counts.iter().all(even), "{counts:?}");
        }
    }
}
