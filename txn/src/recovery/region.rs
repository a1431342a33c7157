//! A region at its primary: the recovering transactions, their locks, and the region's votes
//! (SOSP'15 §5.3, steps 3 to 6).
//!
//! ```text
//!  find                NEED-RECOVERY of all backups: the union of their evidence
//!  fetch ─► lock       writes that this replica lacks, from a replica that has them; then
//!                      the locks: the region is active
//!  replicate           evidence and writes that backups lack
//!  vote                once all backups have acknowledged
//! ```
//! A transaction that this replica has truncated has either taken effect here or never will. So it
//! is not locked, and its evidence is not replicated. All replicas at that time have records that
//! lead to the same decision, or have truncated it too.
//!
//! If any replica has seen ABORT-RECOVERY, the transaction is not locked again: other transactions
//! may have changed the objects that it had locked. Its writes are no longer needed.

use std::collections::BTreeMap;
use std::mem::replace;
use std::sync::Arc;

use fencepost_cluster::few::{FewMap, FewSet};
use fencepost_cluster::{MachineId, Replicas};

use super::message::Body;
use super::post::RecoveryActions;
use super::seen::{RegionEvidence, ReplicaEvidence};
use super::vote::{Evidence, RegionVote, Vote};
use super::{Action, RecoveryEnvironment};
use crate::fault::{self, Fault};
use crate::record::TxnId;

/// A region whose primary is this machine.
#[derive(Debug)]
pub(super) struct Primary {
    region: u32,
    replicas: Replicas,
    /// Backups that have not sent all their evidence.
    missing: FewSet<MachineId>,
    recovering: BTreeMap<TxnId, RecoveringTransaction>,
    /// Number of transactions whose writes have been requested.
    fetching: usize,
    active: bool,
}

/// A transaction of which any replica has records.
#[derive(Debug)]
struct RecoveringTransaction {
    /// The evidence of all replicas together.
    all: ReplicaEvidence,
    /// The evidence of each backup.
    backups: FewMap<MachineId, Evidence>,
    stage: Stage,
}

#[derive(Debug, PartialEq, Eq)]
enum Stage {
    Found,
    Fetching,
    /// The backups that have not acknowledged the replicated evidence.
    Replicating(FewSet<MachineId>),
    Voted,
}

impl RecoveringTransaction {
    /// Returns the evidence to replicate.
    fn to_tell(&self) -> ReplicaEvidence {
        let given_up = self.all.evidence.any_of(Evidence::ABORT_RECOVERY);
        ReplicaEvidence {
            evidence: match given_up {
                true => Evidence::ABORT_RECOVERY,
                false => self.all.evidence.without(Evidence::TRUNCATED),
            },
            ..self.all.clone()
        }
    }
}

impl Primary {
    pub fn new(region: u32, replicas: Replicas) -> Primary {
        Primary {
            region,
            missing: replicas.backups().iter().copied().collect(),
            replicas,
            recovering: BTreeMap::new(),
            fetching: 0,
            active: false,
        }
    }

    pub fn is_active(&self) -> bool {
        self.active
    }

    /// Returns whether no recovery is left to do.
    pub fn is_settled(&self) -> bool {
        self.active && self.recovering.is_empty()
    }

    /// Handles NEED-RECOVERY (step 3): adds the evidence of a backup.
    pub fn need_recovery(&mut self, from: MachineId, seen: Vec<ReplicaEvidence>, last: bool) {
        if !self.missing.contains(&from) {
            return;
        }
        let counts = |seen: &ReplicaEvidence| {
            seen.evidence.has_records() && !fault::injected(Fault::OverlookBackups)
        };
        for seen in seen.into_iter().filter(counts) {
            let evidence = seen.evidence;
            let backups = &mut self.found(seen).backups;
            let there = backups.entry(from).or_insert(evidence);
            *there = there.and(evidence);
        }
        if last {
            self.missing.remove(&from);
        }
    }

    fn found(&mut self, seen: ReplicaEvidence) -> &mut RecoveringTransaction {
        let recovering = self.recovering.entry(seen.id);
        let recovering = recovering.or_insert_with(|| RecoveringTransaction {
            all: seen.clone(),
            backups: FewMap::new(),
            stage: Stage::Found,
        });
        recovering.all.learn(&seen);
        recovering
    }

    /// Runs lock recovery (step 4), once all backups have sent their evidence.
    pub fn find(
        &mut self,
        held: &mut RegionEvidence,
        around: &dyn RecoveryEnvironment,
        post: &mut RecoveryActions,
    ) {
        if self.active || self.fetching > 0 || !self.missing.is_empty() {
            return;
        }
        for seen in held.all() {
            self.found(seen.clone());
        }
        let all: Vec<TxnId> = self.recovering.keys().copied().collect();
        for id in all {
            self.recover(id, held, around, post);
        }
        self.activate(post);
    }

    fn recover(
        &mut self,
        id: TxnId,
        held: &mut RegionEvidence,
        around: &dyn RecoveryEnvironment,
        post: &mut RecoveryActions,
    ) {
        let Some(found) = self.recovering.get_mut(&id) else {
            return;
        };
        if around.was_truncated(id, self.region) {
            return self.recovery_vote(id, post);
        }
        let to_tell = found.to_tell();
        let has = |evidence: Evidence| evidence.any_of(Evidence::CONTENT);
        if has(to_tell.evidence) && !has(held.evidence(id)) {
            let who = found.backups.iter().find(|(_, evidence)| has(**evidence));
            if let Some((backup, _)) = who {
                let region = self.region;
                post.send(*backup, Body::FetchTxState { region, id });
                found.stage = Stage::Fetching;
                self.fetching += 1;
            }
            return;
        }
        self.lock_and_replicate(id, None, held, around, post);
    }

    /// Handles SEND-TX-STATE, the answer to a request for writes.
    pub fn send_tx_state(
        &mut self,
        id: TxnId,
        content: Arc<[u64]>,
        held: &mut RegionEvidence,
        around: &dyn RecoveryEnvironment,
        post: &mut RecoveryActions,
    ) {
        let found = self.recovering.get(&id);
        if found.is_none_or(|found| found.stage != Stage::Fetching) {
            return;
        }
        self.fetching -= 1;
        self.lock_and_replicate(id, Some(content), held, around, post);
        self.activate(post);
    }

    /// Locks the objects that a transaction writes and goes on to [`Self::replicate_tx_state`].
    /// `fetched` is the writes, if this replica lacked them.
    fn lock_and_replicate(
        &mut self,
        id: TxnId,
        fetched: Option<Arc<[u64]>>,
        held: &mut RegionEvidence,
        around: &dyn RecoveryEnvironment,
        post: &mut RecoveryActions,
    ) {
        let Some(found) = self.recovering.get_mut(&id) else {
            return;
        };
        let to_tell = found.to_tell();
        if to_tell.evidence.without(held.evidence(id)) != Evidence::NONE {
            held.keep(to_tell.clone(), fetched.clone(), &mut post.actions);
        }
        let region = self.region;
        if to_tell.evidence.any_of(Evidence::CONTENT) {
            post.actions.push(Action::Lock { region, id });
        }
        self.replicate_tx_state(to_tell, fetched, around, post);
    }

    /// Activates the region once all locks are taken: this machine may use it as primary. Tells the
    /// backups that all evidence has been sent.
    fn activate(&mut self, post: &mut RecoveryActions) {
        if self.fetching > 0 || replace(&mut self.active, true) {
            return;
        }
        let region = self.region;
        for backup in self.replicas.backups() {
            post.send(*backup, Body::Replicated { region });
        }
        post.actions.push(Action::Active(region));
    }

    /// Sends REPLICATE-TX-STATE (step 5) to the backups that lack evidence.
    fn replicate_tx_state(
        &mut self,
        to_tell: ReplicaEvidence,
        fetched: Option<Arc<[u64]>>,
        around: &dyn RecoveryEnvironment,
        post: &mut RecoveryActions,
    ) {
        let id = to_tell.id;
        let Some(found) = self.recovering.get_mut(&id) else {
            return;
        };
        let mut content = fetched;
        let mut recipients = FewSet::new();
        for backup in self.replicas.backups() {
            let has = found.backups.get(backup).copied();
            let has = has.unwrap_or(Evidence::NONE);
            if to_tell.evidence.without(has) == Evidence::NONE
                || fault::injected(Fault::SkipReplication)
            {
                continue;
            }
            let lacks =
                to_tell.evidence.any_of(Evidence::CONTENT) && !has.any_of(Evidence::CONTENT);
            let content = lacks.then(|| {
                let content = content.get_or_insert_with(|| around.content(id, self.region));
                Arc::clone(content)
            });
            let seen = to_tell.clone();
            post.send(*backup, Body::ReplicateTxState { seen, content });
            recipients.insert(*backup);
        }
        let all = recipients.is_empty();
        found.stage = Stage::Replicating(recipients);
        if all {
            self.recovery_vote(id, post);
        }
    }

    /// Handles the acknowledgement of a backup.
    pub fn replicate_ack(&mut self, from: MachineId, id: TxnId, post: &mut RecoveryActions) {
        let found = self.recovering.get_mut(&id);
        if let Some(Stage::Replicating(waiting)) = found.map(|found| &mut found.stage)
            && waiting.remove(&from)
            && waiting.is_empty()
        {
            self.recovery_vote(id, post);
        }
    }

    /// Sends RECOVERY-VOTE (step 6).
    fn recovery_vote(&mut self, id: TxnId, post: &mut RecoveryActions) {
        let Some(found) = self.recovering.get_mut(&id) else {
            return;
        };
        found.stage = Stage::Voted;
        let vote = RegionVote {
            region: self.region,
            id,
            vote: Vote::of([found.all.evidence]),
            w: found.all.w,
            written: Arc::clone(&found.all.written),
            replicas: self.replicas.all().collect(),
        };
        post.send(post.coordinator_of(id), Body::RecoveryVote(vote));
    }

    /// Handles REQUEST-VOTE: votes on a transaction without any record. Any other transaction has
    /// had its vote, or will get it. If the backups have not sent all evidence yet, the coordinator
    /// asks again later.
    pub fn request_vote(
        &self,
        from: MachineId,
        id: TxnId,
        around: &dyn RecoveryEnvironment,
        post: &mut RecoveryActions,
    ) {
        if !self.missing.is_empty() || self.recovering.contains_key(&id) {
            return;
        }
        let vote = RegionVote {
            region: self.region,
            id,
            vote: match around.was_truncated(id, self.region) {
                true => Vote::Truncated,
                false => Vote::Unknown,
            },
            w: None,
            written: Arc::new([]),
            replicas: self.replicas.all().collect(),
        };
        post.send(from, Body::RecoveryVote(vote));
    }

    /// Forgets a transaction, when all replicas have carried out the decision.
    pub fn truncate(&mut self, id: TxnId) {
        self.recovering.remove(&id);
    }
}
