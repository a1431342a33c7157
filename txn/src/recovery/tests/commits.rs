//! The normal case: transactions at every point of their commit (SOSP'15 §4).

use std::sync::Arc;

use fencepost_cluster::MachineId;
use fencepost_storage::Timestamp;

use super::world::{Record, World, content};
use crate::record::TxnId;
use crate::recovery::{Evidence, ReplicaEvidence};

/// A transaction and its reported outcome.
#[derive(Clone, Debug)]
pub struct Txn {
    pub id: TxnId,
    pub written: Arc<[u32]>,
    pub w: Timestamp,
    /// Whether a version was shown.
    pub shown: bool,
    /// The coordinator's report to the client: whether it has committed.
    pub reported: Option<bool>,
    /// Whether it has reached its final state.
    pub over: bool,
}

impl World {
    /// Begins some transactions, and runs some steps of each.
    pub fn commit_some(&mut self) {
        let first = self.txns.len();
        for _ in 0..1 + self.random.below(3) {
            self.begin_txn();
        }
        for at in first..self.txns.len() {
            let steps = self.random.below(40);
            for _ in 0..steps {
                self.commit_step(at);
            }
        }
    }

    fn begin_txn(&mut self) {
        let machines: Vec<MachineId> = self.nodes.keys().copied().collect();
        let coordinator = self.pick(&machines);
        let local = self.txns.len() as u64 + 1;
        let mut written: Vec<u32> = self.mappings.keys().copied().collect();
        while written.len() > 1 && !self.random.one_in(3) {
            let at = self.random.below(written.len() as u64);
            written.remove(at as usize);
        }
        self.txns.push(Txn {
            id: TxnId {
                configuration: self.configuration.0,
                machine: coordinator.0,
                thread: 0,
                local,
            },
            written: written.into(),
            w: Timestamp::from_raw(100 + local),
            shown: false,
            reported: None,
            over: false,
        });
    }

    /// Returns the evidence of all replicas: whether the replica is the primary, its machine, the
    /// region, the evidence.
    fn progress(&self, txn: &Txn) -> Vec<(bool, MachineId, u32, Evidence)> {
        let mut progress = Vec::new();
        for region in txn.written.iter() {
            for machine in self.mappings[region].all() {
                let primary = machine == self.mappings[region].primary();
                let node = &self.nodes[&machine];
                let record = node.records.get(&(txn.id, *region));
                let mut seen = record.map_or(Evidence::NONE, |record| record.seen.evidence);
                if node.truncated.contains(&(txn.id, *region)) {
                    seen = Evidence::TRUNCATED;
                }
                progress.push((primary, machine, *region, seen));
            }
        }
        progress
    }

    /// Runs one step of a replica or of the coordinator, if one is possible.
    fn commit_step(&mut self, at: usize) {
        let txn = self.txns[at].clone();
        let progress = self.progress(&txn);
        let all = |primary: bool, these: Evidence| {
            let mut of = progress.iter().filter(|(is, ..)| *is == primary);
            of.all(|(_, _, _, seen)| seen.any_of(these.and(Evidence::TRUNCATED)))
        };
        let backed = progress
            .iter()
            .any(|(_, _, _, seen)| seen.any_of(Evidence::COMMIT_BACKUP));
        let replica = self.random.below(progress.len() as u64 + 1) as usize;
        let Some(&(primary, machine, region, seen)) = progress.get(replica) else {
            // The coordinator gives up the transaction, or reports success.
            if txn.shown && txn.reported.is_none() {
                self.txns[at].reported = Some(true);
            } else if !backed && !txn.shown && self.random.one_in(4) {
                self.txns[at].reported = Some(false);
            }
            return;
        };
        let node = self.nodes.get_mut(&machine).unwrap();
        let key = (txn.id, region);
        if txn.reported == Some(false) {
            node.records.remove(&key);
            node.locks.remove(&key);
            return;
        }
        if all(true, Evidence::COMMIT_PRIMARY) {
            self.txns[at].reported = Some(true);
            node.records.remove(&key);
            node.truncated.insert(key);
            node.data.entry(region).or_default().insert(txn.id);
            return;
        }
        let more = match primary {
            true if seen == Evidence::NONE => {
                node.locks.insert(key);
                Evidence::LOCK
            }
            true if all(true, Evidence::LOCK) && all(false, Evidence::COMMIT_BACKUP) => {
                node.locks.remove(&key);
                node.data.entry(region).or_default().insert(txn.id);
                self.txns[at].shown = true;
                Evidence::COMMIT_PRIMARY
            }
            false if all(true, Evidence::LOCK) => Evidence::COMMIT_BACKUP,
            _ => return,
        };
        let record = node.records.entry(key).or_insert_with(|| Record {
            seen: ReplicaEvidence {
                id: txn.id,
                region,
                evidence: Evidence::NONE,
                written: Arc::clone(&txn.written),
                w: None,
            },
            content: Some(content(txn.id, region)),
        });
        record.seen.evidence = record.seen.evidence.and(more);
        record.seen.w = (more != Evidence::LOCK).then_some(txn.w);
    }
}
