//! One-sided writes that a commit costs: what SOSP'15 §4 counts, and what follows for a small cluster.
//!
//! The paper counts P_w(f + 3) for objects on P_w primaries with f backups each: LOCK, its answer, f
//! COMMIT-BACKUP and COMMIT-PRIMARY for each primary, with TRUNCATE in the same write as a later record.
//! That has every primary and every backup on a machine of its own, and none of them the coordinator's.
//! Here the regions of machine `k` of `n` have their backups on the `f` machines that follow `k`, so that
//! some coincide, and fewer writes do:
//! * what the coordinator's machine has itself, as primary or as backup, it is not written to;
//! * a machine that is a backup of several of the written primaries gets one COMMIT-BACKUP for all.

use std::collections::BTreeSet;

/// Machines, and backups of each region.
#[derive(Clone, Copy, Debug)]
pub struct Cluster {
    /// Machines.
    pub machines: usize,
    /// f: replicas without the primary.
    pub backups: usize,
}

/// Writes of one commit, or of commits on average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// P_w(f + 3).
    pub paper: f64,
    /// What is left where machines coincide.
    pub here: f64,
}

impl Cluster {
    /// Machines other than the coordinator's, 0, that get COMMIT-BACKUP for objects on `primaries`.
    pub fn told_as_backups(self, primaries: &BTreeSet<usize>) -> usize {
        let of = |primary: &usize| {
            let primary = *primary;
            (1..=self.backups).map(move |next| (primary + next) % self.machines)
        };
        let all: BTreeSet<usize> = primaries.iter().flat_map(of).collect();
        all.iter().filter(|machine| **machine != 0).count()
    }

    /// What machine 0 posts, and is answered with, to commit objects on `primaries`.
    pub fn commit(self, primaries: &BTreeSet<usize>) -> Cost {
        let elsewhere = primaries.iter().filter(|machine| **machine != 0).count();
        Cost {
            paper: (primaries.len() * (self.backups + 3)) as f64,
            // LOCK, its answer and COMMIT-PRIMARY.
            here: (3 * elsewhere + self.told_as_backups(primaries)) as f64,
        }
    }

    /// The average for `keys` keys, each of which may be on any machine.
    pub fn commit_of_keys(self, keys: u32) -> Cost {
        let ways = self.machines.pow(keys);
        let mut sum = Cost::default();
        for way in 0..ways {
            let place = |key| way / self.machines.pow(key) % self.machines;
            let cost = self.commit(&(0..keys).map(place).collect());
            sum.paper += cost.paper;
            sum.here += cost.here;
        }
        Cost {
            paper: sum.paper / ways as f64,
            here: sum.here / ways as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_are_those_of_all_ways_to_place_the_keys() {
        let three = Cluster {
            machines: 3,
            backups: 2,
        };
        // 2 on the coordinator's machine, 4 on either other one.
        let one = three.commit_of_keys(1);
        assert_eq!(one.paper, 5.0);
        assert!((one.here - 10.0 / 3.0).abs() < 1e-9);
        // A third of the pairs is on one machine; of the others two pairs cost 5, one 8.
        let two = three.commit_of_keys(2);
        assert!((two.paper - 25.0 / 3.0).abs() < 1e-9);
        assert!((two.here - 46.0 / 9.0).abs() < 1e-9);
    }
}
