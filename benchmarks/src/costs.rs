//! One-sided writes that a commit costs: the formula of SOSP'15 §4, and its result for a small
//! cluster.
//!
//! The paper counts P_w(f + 3) for objects on P_w primaries with f backups each: LOCK, its reply, f
//! COMMIT-BACKUP and COMMIT-PRIMARY for each primary. TRUNCATE is in the same write as a later
//! record. The formula assumes that every primary and every backup is on its own machine, different
//! from the coordinator's. Here the regions of machine `k` of `n` have their backups on the `f`
//! machines that follow `k`. So some of these machines coincide, and fewer writes are needed:
//! * The coordinator's own machine, as primary or as backup, needs no write.
//! * A machine that is a backup of several written primaries gets one COMMIT-BACKUP for all of
//!   them.

use std::collections::BTreeSet;

/// The numbers of machines, and of backups of each region.
#[derive(Clone, Copy, Debug)]
pub struct Cluster {
    /// The number of machines.
    pub machines: usize,
    /// f: the number of replicas besides the primary.
    pub backups: usize,
}

/// The writes of one commit, or the average over commits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// P_w(f + 3).
    pub paper: f64,
    /// The number of writes when machines coincide.
    pub expected: f64,
}

impl Cluster {
    /// Returns the number of machines, other than the coordinator's machine 0, that get
    /// COMMIT-BACKUP for objects on `primaries`.
    pub fn backup_count(self, primaries: &BTreeSet<usize>) -> usize {
        let of = |primary: &usize| {
            let primary = *primary;
            (1..=self.backups).map(move |next| (primary + next) % self.machines)
        };
        let all: BTreeSet<usize> = primaries.iter().flat_map(of).collect();
        all.iter().filter(|machine| **machine != 0).count()
    }

    /// Returns the number of writes, replies included, with which machine 0 commits objects on
    /// `primaries`.
    pub fn commit(self, primaries: &BTreeSet<usize>) -> Cost {
        let elsewhere = primaries.iter().filter(|machine| **machine != 0).count();
        Cost {
            paper: (primaries.len() * (self.backups + 3)) as f64,
            // LOCK, its reply and COMMIT-PRIMARY.
            expected: (3 * elsewhere + self.backup_count(primaries)) as f64,
        }
    }

    /// Returns the average for `keys` keys, each of which may be on any machine.
    pub fn commit_of_keys(self, keys: u32) -> Cost {
        let ways = self.machines.pow(keys);
        let mut sum = Cost::default();
        for way in 0..ways {
            let place = |key| way / self.machines.pow(key) % self.machines;
            let cost = self.commit(&(0..keys).map(place).collect());
            sum.paper += cost.paper;
            sum.expected += cost.expected;
        }
        Cost {
            paper: sum.paper / ways as f64,
            expected: sum.expected / ways as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_cover_all_key_placements() {
        let three = Cluster {
            machines: 3,
            backups: 2,
        };
        // 2 writes on the coordinator's machine, 4 on either other one.
        let one = three.commit_of_keys(1);
        assert_eq!(one.paper, 5.0);
        assert!((one.expected - 10.0 / 3.0).abs() < 1e-9);
        // A third of the pairs is on one machine. Of the other pairs, two cost 5 and one costs 8.
        let two = three.commit_of_keys(2);
        assert!((two.paper - 25.0 / 3.0).abs() < 1e-9);
        assert!((two.expected - 46.0 / 9.0).abs() < 1e-9);
    }
}
