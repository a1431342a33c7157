//! The evidence that replicas have of a transaction, and the resulting vote of their region.

use std::sync::Arc;

use fencepost_cluster::MachineId;
use fencepost_storage::Timestamp;

use crate::record::TxnId;

/// A set of facts that a replica of a region knows about a transaction, from its log or from other
/// replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Evidence(u8);

impl Evidence {
    /// No evidence.
    pub const NONE: Evidence = Evidence(0);
    /// LOCK, or another replica's report of one.
    pub const LOCK: Evidence = Evidence(1);
    /// COMMIT-BACKUP, complete.
    pub const COMMIT_BACKUP: Evidence = Evidence(1 << 1);
    /// COMMIT-PRIMARY.
    pub const COMMIT_PRIMARY: Evidence = Evidence(1 << 2);
    /// COMMIT-RECOVERY: an earlier recovery has decided.
    pub const COMMIT_RECOVERY: Evidence = Evidence(1 << 3);
    /// ABORT-RECOVERY.
    pub const ABORT_RECOVERY: Evidence = Evidence(1 << 4);
    /// TRUNCATE: the records were deleted.
    pub const TRUNCATED: Evidence = Evidence(1 << 5);

    /// Evidence that includes the transaction's writes to the region.
    pub(super) const CONTENT: Evidence = Evidence::LOCK
        .and(Evidence::COMMIT_BACKUP)
        .and(Evidence::COMMIT_PRIMARY);
    /// Evidence that includes the write timestamp.
    pub(super) const TIMED: Evidence = Evidence::COMMIT_BACKUP
        .and(Evidence::COMMIT_PRIMARY)
        .and(Evidence::COMMIT_RECOVERY);

    /// Returns the union of both.
    #[must_use]
    pub const fn and(self, other: Evidence) -> Evidence {
        Evidence(self.0 | other.0)
    }

    /// Returns the evidence without `these`.
    #[must_use]
    pub const fn without(self, these: Evidence) -> Evidence {
        Evidence(self.0 & !these.0)
    }

    /// Returns whether any of `these` was seen.
    pub const fn any_of(self, these: Evidence) -> bool {
        self.0 & these.0 != 0
    }

    /// Returns the encoding in a message.
    pub(super) const fn bits(self) -> u64 {
        self.0 as u64
    }

    /// Decodes the result of [`Self::bits`]; returns `None` for any other word.
    pub(super) const fn from_bits(bits: u64) -> Option<Evidence> {
        match bits {
            0..64 => Some(Evidence(bits as u8)),
            _ => None,
        }
    }

    /// Returns whether there is a record of the transaction.
    pub const fn has_records(self) -> bool {
        self.0 & !Evidence::TRUNCATED.0 != 0
    }
}

/// The vote of a region about a transaction that wrote to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vote {
    /// The transaction took effect here.
    CommitPrimary,
    /// A backup has the writes and the timestamp: the transaction may have been committed.
    CommitBackup,
    /// The transaction's objects were locked.
    Lock,
    /// The transaction was aborted.
    Abort,
    /// The records of the transaction were truncated.
    Truncated,
    /// There is no record of the transaction, and never was one.
    Unknown,
}

impl Vote {
    /// Returns the vote of a region, by the evidence of its remaining replicas (SOSP'15 §5.3, step
    /// 6).
    pub fn of(replicas: impl IntoIterator<Item = Evidence>) -> Vote {
        let seen = replicas.into_iter().fold(Evidence::NONE, Evidence::and);
        let given_up = seen.any_of(Evidence::ABORT_RECOVERY);
        if !seen.has_records() {
            return match seen.any_of(Evidence::TRUNCATED) {
                true => Vote::Truncated,
                false => Vote::Unknown,
            };
        }
        if seen.any_of(Evidence::COMMIT_PRIMARY.and(Evidence::COMMIT_RECOVERY)) {
            Vote::CommitPrimary
        } else if seen.any_of(Evidence::COMMIT_BACKUP) && !given_up {
            Vote::CommitBackup
        } else if seen.any_of(Evidence::LOCK) && !given_up {
            Vote::Lock
        } else {
            Vote::Abort
        }
    }
}

/// A vote with the information that the coordinator needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionVote {
    /// The region that votes.
    pub region: u32,
    /// The transaction of the vote.
    pub id: TxnId,
    /// The vote of the region.
    pub vote: Vote,
    /// The write timestamp, where the region knows it.
    pub w: Option<Timestamp>,
    /// All regions that the transaction writes; empty where there is no record of it.
    pub written: Arc<[u32]>,
    /// The replicas that must receive the decision.
    pub replicas: Vec<MachineId>,
}

impl RegionVote {
    /// Returns whether the vote is consistent.
    pub(super) fn is_whole(&self) -> bool {
        let timed = matches!(self.vote, Vote::CommitPrimary | Vote::CommitBackup);
        let recorded = !matches!(self.vote, Vote::Truncated | Vote::Unknown);
        (self.w.is_some() || !timed) && (self.written.contains(&self.region) || !recorded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_of_seen_records_has_vote_of_paper() {
        for bits in 0..1 << 6 {
            let seen = Evidence(bits);
            let [lock, backup, primary, commit, abort, truncated] =
                std::array::from_fn(|bit| bits >> bit & 1 == 1);
            let expected = match () {
                () if primary || commit => Vote::CommitPrimary,
                () if backup && !abort => Vote::CommitBackup,
                () if lock && !abort => Vote::Lock,
                () if lock || backup || abort => Vote::Abort,
                () if truncated => Vote::Truncated,
                () => Vote::Unknown,
            };
            assert_eq!(Vote::of([seen]), expected, "{seen:?}");
            // The vote does not depend on which replica has seen what.
            let each = (0..6).map(|bit| Evidence(bits & 1 << bit));
            assert_eq!(Vote::of(each), expected, "{seen:?}");
        }
    }
}
