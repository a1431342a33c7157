//! `orw`: FaSST's O(r, w), transactions over r keys of which w are updated on average (OSDI'16
//! §6.1).
//!
//! 8-byte keys and 40-byte values, a million keys for each thread, drawn uniformly. A transaction
//! reads r different keys and updates each of them with probability w/r. A transaction that
//! conflicts is run again with the same keys (FaSST draws new ones, which hides contention).
//!
//! After a run every key must be present with a valid value, and the sum of the versions must equal
//! the number of committed updates.

mod native;
mod sql;

use fencepost_fabric::random::Random;

pub use native::OrwNative;
pub use sql::OrwSql;

/// The default number of keys for each thread.
pub const KEYS_A_THREAD: u32 = 1_000_000;
/// The maximal number of keys of a transaction.
pub const MOST_READS: u32 = 32;
const VALUE_WORDS: usize = 5;
/// The failure reason: a value was invalid or missing. The check after the run reports it too.
const BROKEN: &str = "broken_value";

/// The parameters of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrwOptions {
    /// The number of keys in the table, at least `reads`.
    pub keys: u64,
    /// The number of keys of a transaction: 1 to [`MOST_READS`].
    pub reads: u32,
    /// The average number of them that are updated, at most `reads`.
    pub writes: u32,
}

/// The keys of a transaction, from 1, and those of them that it updates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The keys, all different.
    pub keys: Vec<u64>,
    /// Bit k is set if key k is updated.
    pub updated: u32,
}

impl OrwOptions {
    fn draw(&self, random: &mut Random) -> Request {
        let reads = self.reads as usize;
        let mut keys = Vec::with_capacity(reads);
        while keys.len() < reads {
            let key = random.below(self.keys) + 1;
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        let updated = (0..self.reads)
            .filter(|_| random.below(u64::from(self.reads)) < u64::from(self.writes))
            .fold(0, |bits, key| bits | 1 << key);
        Request { keys, updated }
    }
}

impl Request {
    /// Returns the number of updates of the transaction.
    fn updates(&self) -> i64 {
        self.updated.count_ones().into()
    }

    /// Returns each key, and whether it is updated.
    fn keys(&self) -> impl Iterator<Item = (u64, bool)> {
        let updated = self.updated;
        let number = move |(k, key): (usize, &u64)| (*key, updated >> k & 1 == 1);
        self.keys.iter().enumerate().map(number)
    }
}

/// Returns the violated condition, if the sum of the versions differs from the number of updates.
fn lost(versions: i64, updates: i64) -> Option<String> {
    (versions != updates)
        .then(|| format!("{updates} updates committed, and the versions say {versions}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_and_half_of_them_are_updated() {
        let options = OrwOptions {
            keys: 5,
            reads: 4,
            writes: 2,
        };
        let mut random = Random::new(6);
        let mut updates = 0;
        for _ in 0..2000 {
            let request = options.draw(&mut random);
            let mut keys = request.keys.clone();
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len(), 4);
            assert!(keys.iter().all(|key| (1..=5).contains(key)));
            assert!(request.updated < 16);
            updates += request.updates();
        }
        assert!((3800..4200).contains(&updates), "{updates}");
        let never = OrwOptions {
            writes: 0,
            ..options
        };
        assert_eq!(never.draw(&mut random).updated, 0);
        let always = OrwOptions {
            writes: 4,
            ..options
        };
        assert_eq!(always.draw(&mut random).updated, 15);
    }
}
