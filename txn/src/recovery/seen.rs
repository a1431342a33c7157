//! The evidence that a replica has of a transaction.

use std::collections::BTreeMap;
use std::sync::Arc;

use fencepost_storage::Timestamp;

use super::Action;
use super::vote::Evidence;
use crate::record::TxnId;

/// The evidence that a replica of a region has of a transaction of an older configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaEvidence {
    /// The transaction of the evidence.
    pub id: TxnId,
    /// The region of the evidence.
    pub region: u32,
    /// The records that the replica has seen.
    pub evidence: Evidence,
    /// All regions that it writes.
    pub written: Arc<[u32]>,
    /// Its write timestamp, which is known with all evidence of a commit except LOCK.
    pub w: Option<Timestamp>,
}

impl ReplicaEvidence {
    /// Adds the evidence of another replica of the region.
    pub(super) fn learn(&mut self, other: &ReplicaEvidence) {
        self.evidence = self.evidence.and(other.evidence);
        self.w = self.w.or(other.w);
    }

    /// Returns whether it is consistent: the transaction writes the region, and a timestamp is
    /// present if the evidence requires one.
    pub(super) fn is_whole(&self) -> bool {
        self.written.contains(&self.region)
            && (self.w.is_some() || !self.evidence.any_of(Evidence::TIMED))
    }
}

/// The evidence of this machine for the transactions that wrote one of its regions.
#[derive(Debug, Default)]
pub(super) struct RegionEvidence(BTreeMap<TxnId, ReplicaEvidence>);

impl RegionEvidence {
    pub fn new(seen: impl Iterator<Item = ReplicaEvidence>) -> RegionEvidence {
        RegionEvidence(seen.map(|seen| (seen.id, seen)).collect())
    }

    pub fn all(&self) -> impl Iterator<Item = &ReplicaEvidence> {
        self.0.values()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn evidence(&self, id: TxnId) -> Evidence {
        self.0.get(&id).map_or(Evidence::NONE, |seen| seen.evidence)
    }

    /// Adds the evidence of other replicas, with the transaction's writes if this replica lacks
    /// them. Adds an action to keep it, so that a later recovery finds it.
    pub fn keep(
        &mut self,
        seen: ReplicaEvidence,
        content: Option<Arc<[u64]>>,
        actions: &mut Vec<Action>,
    ) {
        self.learn(&seen);
        actions.push(Action::Keep { seen, content });
    }

    /// Adds evidence that this replica has now.
    pub fn learn(&mut self, seen: &ReplicaEvidence) {
        match self.0.get_mut(&seen.id) {
            Some(there) => there.learn(seen),
            None => drop(self.0.insert(seen.id, seen.clone())),
        }
    }

    pub fn forget(&mut self, id: TxnId) {
        self.0.remove(&id);
    }
}
