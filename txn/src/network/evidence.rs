//! Evidence on this machine of transactions that are not truncated, with which recovery begins
//! (SOSP'15 §5.3, step 3).
//!
//! A LOCK is evidence once all new values of the region are here (PRIMARY-3), COMMIT-BACKUP once
//! its last part is. A truncated transaction that waits for versions (BACKUP-1) is settled; it
//! needs no recovery.
//!
//! *Content*: the writes of a transaction to a region, in the same encoding from a LOCK as from a
//! COMMIT-BACKUP, so that replicas can exchange them. The encoding is that of COMMIT-BACKUP with
//! one addition, because a LOCK does not contain W:
//!
//! ```text
//! address | kind, class, words | incarnation (16), word stamped with W plus 1, or 0 (8) | payload
//! ```
//! Ranges have the base version before them.
//!
//! Locks that a coordinator has taken in regions of its own machine are not included: the in-flight
//! commit has them.

use std::collections::BTreeMap;
use std::sync::Arc;

use fencepost_cluster::ConfigurationId;
use fencepost_storage::Timestamp;

use super::message::{self, Kind, Slot, Value, WordReader};
use crate::machine::Machine;
use crate::record::{BadRecord, TxnId};
use crate::recovery::{Evidence, ReplicaEvidence};

/// The position of the stamped word in the third word of a write.
pub(super) const STAMPED_SHIFT: u32 = 16;

/// The evidence by transaction and region.
#[derive(Default)]
pub(super) struct EvidenceByTransaction(BTreeMap<(TxnId, u32), ReplicaEvidence>);

impl EvidenceByTransaction {
    /// Adds evidence from a record that writes the regions `written`, with the write timestamp `w`
    /// if the record has it.
    pub fn add(
        &mut self,
        (id, region): (TxnId, u32),
        evidence: Evidence,
        written: &Arc<[u32]>,
        w: Option<Timestamp>,
    ) {
        let seen = self
            .0
            .entry((id, region))
            .or_insert_with(|| ReplicaEvidence {
                id,
                region,
                evidence: Evidence::NONE,
                written: Arc::clone(written),
                w: None,
            });
        seen.evidence = seen.evidence.and(evidence);
        seen.w = seen.w.or(w);
    }
}

/// Reads the written regions, which come next in a record.
pub(super) fn written(reader: &mut WordReader<'_>) -> Result<Arc<[u32]>, BadRecord> {
    let regions = reader.counted()?.iter();
    let regions = regions.map(|region| u32::try_from(*region));
    let regions: Result<_, _> = regions.collect();
    regions.map_err(|_| BadRecord("a region whose number is too large"))
}

/// Appends the new value of an object that a primary has locked at `base`.
pub(super) fn put_content(
    out: &mut Vec<u64>,
    (addr, kind, slot): (fencepost_storage::Addr, Kind, Slot),
    base: Timestamp,
    value: Option<Value<'_>>,
    stamped: Option<usize>,
) {
    let stamped = stamped.map_or(0, |word| word as u64 + 1);
    let about = u64::from(slot.incarnation) | (stamped << STAMPED_SHIFT);
    let kind = match value {
        Some(Value::Ranges(_)) => Kind::Ranges,
        _ => kind,
    };
    let put = |out: &mut Vec<u64>| {
        match value {
            None => {}
            Some(Value::Whole(words)) => out.extend_from_slice(words),
            Some(Value::Ranges(ranges)) => {
                out.push(base.raw());
                out.extend_from_slice(ranges);
            }
        }
        true
    };
    message::put_write_of(out, (addr, kind, slot.class.0, about), put);
}

impl Machine {
    /// Returns the evidence of transactions of configurations before `configuration`, from records
    /// of peers and of this machine's own transactions.
    pub fn seen_before(&self, configuration: ConfigurationId) -> Vec<ReplicaEvidence> {
        let Some(network) = self.network() else {
            return Vec::new();
        };
        let mut found = EvidenceByTransaction::default();
        let receivers = network.receivers.lock();
        receivers
            .iter()
            .for_each(|receiver| receiver.find(&mut found));
        drop(receivers);
        network.home.lock().find(&mut found);
        let seen = found.0.into_values();
        seen.filter(|seen| seen.id.configuration < configuration.0)
            .collect()
    }

    /// Returns the writes of such a transaction to a region; `None` if this machine has no record
    /// with them.
    pub fn content(&self, id: TxnId, region: u32) -> Option<Arc<[u64]>> {
        let network = self.network()?;
        let content = match id.machine == network.me().0 {
            true => network.home.lock().content(id, region),
            false => {
                let receivers = network.receivers.lock();
                let mut of_peer = receivers
                    .iter()
                    .filter(|receiver| receiver.is_of(id.machine));
                of_peer.find_map(|receiver| receiver.content(id, region))
            }
        };
        content.map(Arc::from)
    }

    /// Returns whether this machine has truncated a transaction, and does not know that all
    /// participants have.
    pub fn was_truncated(&self, id: TxnId) -> bool {
        self.network().is_some_and(|network| {
            if id.machine == network.me().0 {
                return network.truncated.lock().has(id);
            }
            let receivers = network.receivers.lock();
            receivers.iter().any(|receiver| receiver.was_truncated(id))
        })
    }
}
