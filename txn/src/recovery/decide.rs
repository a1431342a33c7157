//! The decision about a transaction, by the votes of the regions that it wrote to.

use super::vote::Vote;
use crate::fault::{self, Fault};

/// The outcome of a recovering transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// COMMIT-RECOVERY is sent to all its replicas.
    Commit,
    /// ABORT-RECOVERY is sent to all its replicas.
    Abort,
}

/// Decides by the votes of all regions that a transaction wrote to; a missing vote is `None`
/// (SOSP'15 §5.3, step 7). Returns `None` as long as a missing vote matters.
///
/// The transaction commits if a region has shown its writes. Otherwise it commits only if all
/// regions have locked its objects, and one has their new contents. A region that has truncated it
/// had a record of it, so it does not object.
pub fn decide(votes: impl IntoIterator<Item = Option<Vote>>) -> Option<Decision> {
    let (mut missing, mut to_commit, mut against) = (false, false, false);
    for vote in votes {
        match vote {
            Some(Vote::CommitPrimary) => return Some(Decision::Commit),
            Some(Vote::CommitBackup) => to_commit = true,
            Some(Vote::Lock | Vote::Truncated) => {}
            Some(Vote::Unknown) if fault::injected(Fault::UnknownIsNoObjection) => {}
            Some(Vote::Abort | Vote::Unknown) => against = true,
            None => missing = true,
        }
    }
    match (missing, to_commit && !against) {
        (true, _) => None,
        (false, true) => Some(Decision::Commit),
        (false, false) => Some(Decision::Abort),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Option<Vote>; 7] = [
        None,
        Some(Vote::CommitPrimary),
        Some(Vote::CommitBackup),
        Some(Vote::Lock),
        Some(Vote::Abort),
        Some(Vote::Truncated),
        Some(Vote::Unknown),
    ];

    /// Calls `f` with every three votes and the decision.
    fn each(mut f: impl FnMut([Option<Vote>; 3], Option<Decision>)) {
        for a in ALL {
            for b in ALL {
                for c in ALL {
                    f([a, b, c], decide([a, b, c]));
                }
            }
        }
    }

    #[test]
    fn decisions_match_table_of_paper() {
        each(|votes, decision| {
            let any = |vote| votes.contains(&Some(vote));
            let expected = if any(Vote::CommitPrimary) {
                Some(Decision::Commit)
            } else if votes.contains(&None) {
                None
            } else if any(Vote::CommitBackup) && !any(Vote::Abort) && !any(Vote::Unknown) {
                Some(Decision::Commit)
            } else {
                Some(Decision::Abort)
            };
            assert_eq!(decision, expected, "{votes:?}");
        });
        assert_eq!(decide([]), Some(Decision::Abort));
    }

    #[test]
    fn votes_that_come_later_change_no_decision() {
        each(|votes, decision| {
            let Some(decision) = decision else { return };
            for late in (0..3).filter(|at| votes[*at].is_none()) {
                for vote in ALL {
                    let mut more = votes;
                    more[late] = vote;
                    assert_eq!(decide(more), Some(decision), "{votes:?} and {vote:?}");
                }
            }
        });
    }
}
