//! What replicas have seen of a transaction, and how their region votes.

use std::sync::Arc;

use fencepost_cluster::MachineId;
use fencepost_storage::Timestamp;

use crate::record::TxnId;

/// What a replica of a region has seen of a transaction in its log, or knows of it since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Evidence(u8);

impl Evidence {
    /// None.
    pub const NONE: Evidence = Evidence(0);
    /// LOCK, or what another replica has told of one.
    pub const LOCK: Evidence = Evidence(1);
    /// COMMIT-BACKUP, all of it.
    pub const COMMIT_BACKUP: Evidence = Evidence(1 << 1);
    /// COMMIT-PRIMARY.
    pub const COMMIT_PRIMARY: Evidence = Evidence(1 << 2);
    /// COMMIT-RECOVERY: an earlier recovery has decided.
    pub const COMMIT_RECOVERY: Evidence = Evidence(1 << 3);
    /// ABORT-RECOVERY.
    pub const ABORT_RECOVERY: Evidence = Evidence(1 << 4);
    /// TRUNCATE: its records are gone.
    pub const TRUNCATED: Evidence = Evidence(1 << 5);

    /// Those with which goes what the transaction writes to the region: who has seen one of them has that, too.
    pub(super) const CONTENT: Evidence = Evidence::LOCK
        .and(Evidence::COMMIT_BACKUP)
        .and(Evidence::COMMIT_PRIMARY);
    /// Those that the write timestamp comes with.
    pub(super) const TIMED: Evidence = Evidence::COMMIT_BACKUP
        .and(Evidence::COMMIT_PRIMARY)
        .and(Evidence::COMMIT_RECOVERY);

    /// Both.
    #[must_use]
    pub const fn and(self, other: Evidence) -> Evidence {
        Evidence(self.0 | other.0)
    }

    /// What was seen but these.
    #[must_use]
    pub const fn without(self, these: Evidence) -> Evidence {
        Evidence(self.0 & !these.0)
    }

    /// Whether any of these was seen.
    pub const fn any_of(self, these: Evidence) -> bool {
        self.0 & these.0 != 0
    }

    /// As a word of a message.
    pub(super) const fn bits(self) -> u64 {
        self.0 as u64
    }

    /// What [`Self::bits`] gave; `None` for what it never gives.
    pub(super) const fn from_bits(bits: u64) -> Option<Evidence> {
        match bits {
            0..64 => Some(Evidence(bits as u8)),
            _ => None,
        }
    }

    /// Whether there is a record of it.
    pub const fn has_records(self) -> bool {
        self.0 & !Evidence::TRUNCATED.0 != 0
    }
}

/// What a region says of a transaction that wrote to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vote {
    /// It took effect here.
    CommitPrimary,
    /// It was to take effect: a backup knows how.
    CommitBackup,
    /// Its objects were locked.
    Lock,
    /// It was given up.
    Abort,
    /// There is no record of it any more.
    Truncated,
    /// There is no record of it, and never was one.
    Unknown,
}

impl Vote {
    /// The vote of a region whose replicas, those that are left, have seen this.
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

/// A vote, with what its coordinator has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionVote {
    /// The region.
    pub region: u32,
    /// The transaction.
    pub id: TxnId,
    /// The vote.
    pub vote: Vote,
    /// The write timestamp, where the region knows it.
    pub w: Option<Timestamp>,
    /// All regions that the transaction writes; none, where there is no record of it.
    pub written: Arc<[u32]>,
    /// Who has to be told what becomes of it.
    pub replicas: Vec<MachineId>,
}

impl RegionVote {
    /// Whether it can be so.
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
    fn every_set_of_what_was_seen_has_the_vote_of_the_paper() {
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
            // It does not matter which replica has seen what.
            let each = (0..6).map(|bit| Evidence(bits & 1 << bit));
            assert_eq!(Vote::of(each), expected, "{seen:?}");
        }
    }
}
