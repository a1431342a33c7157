//! The decision about recovering transactions of which this machine is coordinator (SOSP'15 §5.3,
//! steps 6 and 7).
//!
//! ```text
//!  votes of all regions ─► decide ─► COMMIT|ABORT-RECOVERY to all ─► acks ─► TRUNCATE-RECOVERY
//!    └ 250 µs later: REQUEST-VOTE to the regions whose votes are missing
//! ```
//! *Unlike the paper* a COMMIT-PRIMARY vote does not decide before the other votes have arrived.
//! Once a region has voted, all its replicas have the data that they need to carry out the
//! decision. The decision is the same.
//!
//! *A lost region* never votes. It counts as a region that does not object. If another region has
//! seen COMMIT-BACKUP, all locks had been taken, in the lost region too, and all reads were valid.
//! The transaction may then have been reported as committed. Its writes to the lost region are
//! lost, with all other data there. A region that this machine does not know is not a lost region;
//! its vote is awaited.

use std::collections::BTreeMap;
use std::sync::Arc;

use fencepost_cluster::MachineId;
use fencepost_cluster::few::{FewMap, FewSet};

use super::decide::{Decision, decide};
use super::message::Body;
use super::post::RecoveryActions;
use super::vote::{RegionVote, Vote};
use super::{Action, RecoveryEnvironment, RegionPrimary};
use crate::fault::{self, Fault};
use crate::record::TxnId;

/// Nanoseconds after which missing votes are requested, and requested again.
pub(super) const PATIENCE_NS: u64 = 250_000;

/// The transactions that this machine decides about.
#[derive(Debug, Default)]
pub(super) struct Coordinator {
    voting: BTreeMap<TxnId, RunningVote>,
    telling: BTreeMap<TxnId, DecidedTransaction>,
}

/// A transaction that is not decided yet.
#[derive(Debug)]
struct RunningVote {
    written: Arc<[u32]>,
    votes: FewMap<u32, RegionVote>,
    /// Regions that will never vote.
    lost: FewSet<u32>,
    /// The time at which the missing votes are requested.
    ask_at: u64,
}

/// A decided transaction.
#[derive(Debug)]
struct DecidedTransaction {
    replicas: FewSet<MachineId>,
    /// The replicas that have not acknowledged.
    missing: FewSet<MachineId>,
}

impl RunningVote {
    fn new(now: u64, written: Arc<[u32]>) -> RunningVote {
        RunningVote {
            written,
            votes: FewMap::new(),
            lost: FewSet::new(),
            ask_at: now.saturating_add(PATIENCE_NS),
        }
    }

    fn missing(&self) -> impl Iterator<Item = u32> {
        let voted = |region: &u32| self.votes.contains_key(region) || self.lost.contains(region);
        self.written
            .iter()
            .copied()
            .filter(move |region| !voted(region))
    }
}

impl Coordinator {
    pub fn is_settled(&self) -> bool {
        self.voting.is_empty() && self.telling.is_empty()
    }

    /// Returns when [`Self::ask`] is due.
    pub fn next_wake(&self) -> u64 {
        let times = self.voting.values().map(|voting| voting.ask_at);
        times.min().unwrap_or(u64::MAX)
    }

    /// Adds a transaction whose outcome code of this machine awaits, whether or not any replica has
    /// evidence of it.
    pub fn awaited(&mut self, now: u64, id: TxnId, written: Arc<[u32]>) {
        self.voting.insert(id, RunningVote::new(now, written));
    }

    /// Handles RECOVERY-VOTE.
    pub fn recovery_vote(&mut self, now: u64, vote: RegionVote, post: &mut RecoveryActions) {
        let id = vote.id;
        if !self.voting.contains_key(&id) {
            // Either the transaction wrote nothing, and this answers a request that was answered
            // before, or the vote is too late.
            if vote.written.is_empty() || self.telling.contains_key(&id) {
                return;
            }
            let voting = RunningVote::new(now, Arc::clone(&vote.written));
            self.voting.insert(id, voting);
        }
        if let Some(voting) = self.voting.get_mut(&id)
            && voting.written.contains(&vote.region)
        {
            voting.votes.entry(vote.region).or_insert(vote);
        }
        self.decide(id, post);
    }

    /// Sends REQUEST-VOTE where it is due.
    pub fn ask(&mut self, now: u64, around: &dyn RecoveryEnvironment, post: &mut RecoveryActions) {
        let due = self
            .voting
            .iter()
            .filter(|(_, voting)| voting.ask_at <= now);
        let due: Vec<TxnId> = due.map(|(id, _)| *id).collect();
        for id in due {
            let Some(voting) = self.voting.get_mut(&id) else {
                continue;
            };
            voting.ask_at = now.saturating_add(PATIENCE_NS);
            let missing: Vec<u32> = voting.missing().collect();
            for region in missing {
                match around.region_primary(region) {
                    RegionPrimary::Primary(primary) => {
                        post.send(primary, Body::RequestVote { region, id });
                    }
                    RegionPrimary::Lost => drop(voting.lost.insert(region)),
                    RegionPrimary::Unknown => {}
                }
            }
            self.decide(id, post);
        }
    }

    /// Decides (step 7) if all regions have voted, and sends the decision to all replicas.
    fn decide(&mut self, id: TxnId, post: &mut RecoveryActions) {
        let complete = |voting: &&RunningVote| {
            voting.missing().next().is_none() || fault::injected(Fault::DecideOnFirstVote)
        };
        let Some(voting) = self.voting.get(&id).filter(complete) else {
            return;
        };
        let votes = voting.written.iter().map(|region| {
            let vote = voting.votes.get(region);
            Some(vote.map_or(Vote::Truncated, |vote| vote.vote))
        });
        let Some(decision) = decide(votes) else {
            return;
        };
        let votes = voting.votes.values();
        let written = Arc::clone(&voting.written);
        let order = match (decision, votes.clone().find_map(|vote| vote.w)) {
            (Decision::Commit, Some(w)) => Body::CommitRecovery { id, w, written },
            // Every vote that leads to a commit has its timestamp.
            (Decision::Commit, None) => return,
            (Decision::Abort, _) => Body::AbortRecovery { id, written },
        };
        let replicas: FewSet<MachineId> = votes
            .flat_map(|vote| vote.replicas.iter().copied())
            .collect();
        self.voting.remove(&id);
        post.actions.push(Action::Decided { id, decision });
        for replica in &replicas {
            post.send(*replica, order.clone());
        }
        if !replicas.is_empty() {
            let missing = replicas.clone();
            self.telling
                .insert(id, DecidedTransaction { replicas, missing });
        }
    }

    /// Handles the acknowledgement of a replica; sends TRUNCATE-RECOVERY once all replicas have
    /// acknowledged.
    pub fn recovery_ack(&mut self, from: MachineId, id: TxnId, post: &mut RecoveryActions) {
        let Some(telling) = self.telling.get_mut(&id) else {
            return;
        };
        telling.missing.remove(&from);
        if telling.missing.is_empty() {
            let replicas = telling.replicas.iter();
            for replica in replicas.filter(|_| !fault::injected(Fault::SkipTruncateRecovery)) {
                post.send(*replica, Body::TruncateRecovery { id });
            }
            self.telling.remove(&id);
        }
    }
}
