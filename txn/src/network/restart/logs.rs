//! All records that remain in the logs of machines that have ended.
//!
//! A released record may still be present behind one that was not released. That is harmless: a
//! write that has taken effect is installed at its primary, and an ABORT follows the records of its
//! transaction.

use std::collections::BTreeMap;

use fencepost_cluster::few::{FewMap, FewSet};
use fencepost_fabric::{MachineId, MemoryStore, RetainedMemory, SegmentId, ring};
use fencepost_storage::Timestamp;

use super::super::message::{Value, WordReader};
use super::super::peer_sender::LOG;
use super::{RestartError, copied};
use crate::record::{self, BadRecord, TxnId};

/// The records by transaction.
#[derive(Default)]
pub struct Logs {
    pub transactions: BTreeMap<TxnId, TransactionRecords>,
}

/// The records of one transaction.
#[derive(Default)]
pub struct TransactionRecords {
    /// All regions that it writes.
    pub written: FewSet<u32>,
    /// The write timestamp, if it is known.
    pub w: Option<Timestamp>,
    /// Whether there is a COMMIT-PRIMARY.
    pub committed: bool,
    /// Whether there is an ABORT.
    pub aborted: bool,
    /// LOCK and LOCK-MOVED at each primary.
    pub locks: FewMap<MachineId, PrimaryRecords>,
    /// COMMIT-BACKUP at each backup.
    pub backups: FewMap<MachineId, BackupRecords>,
}

/// The records of a primary.
#[derive(Default)]
pub struct PrimaryRecords {
    pub lock: Vec<u64>,
    pub moved: Vec<u64>,
}

/// The records of a backup.
#[derive(Default)]
pub struct BackupRecords {
    pub parts: Vec<Vec<u64>>,
    pub whole: bool,
}

impl TransactionRecords {
    /// Returns the COMMIT-BACKUPs of which all parts are present.
    pub fn whole(&self) -> impl Iterator<Item = &BackupRecords> {
        self.backups.values().filter(|backed| backed.whole)
    }
}

impl Logs {
    /// Reads all logs, without transactions of configurations before `recovered`, which are settled
    /// on all machines.
    pub fn read(
        after: &dyn MemoryStore,
        remains: &FewMap<MachineId, RetainedMemory>,
        recovered: u64,
    ) -> Result<Logs, RestartError> {
        let mut logs = Logs::default();
        let mut out = FewMap::new();
        for (at, left) in remains {
            // Records copied out of a log precede all records still in it.
            for (of, tag, record) in copied::left_by(left) {
                let added = logs.add(*at, tag, record, recovered);
                added.map_err(|why| damaged(of, *at, why.0))?;
            }
            for (segment, ring) in left.of_kind(SegmentId::RING) {
                if segment.lane() != LOG {
                    continue;
                }
                let of = MachineId(segment.number());
                let word = |left: Option<&RetainedMemory>, kind, number| {
                    let memory = left?.get(SegmentId::new(kind, LOG, number))?;
                    let mut word = [0];
                    memory.copy_out(0, &mut word).then_some(word[0])
                };
                let head = word(Some(left), SegmentId::RELEASED, of.0).unwrap_or(0);
                let sender = match remains.get(&of) {
                    Some(sender) => sender,
                    // The sender was evicted before; its memory has the head of this log.
                    None => out.entry(of).or_try_insert_with(|| after.retained(of))?,
                };
                let reported = word(Some(sender), SegmentId::HEAD, at.0).unwrap_or(head);
                let records = ring::left_in(ring, (head, reported), of);
                let records = records.map_err(|why| damaged(of, *at, &why.to_string()))?;
                for (tag, record) in records {
                    let added = logs.add(*at, tag, record, recovered);
                    added.map_err(|why| damaged(of, *at, why.0))?;
                }
            }
        }
        Ok(logs)
    }

    fn add(
        &mut self,
        at: MachineId,
        tag: u8,
        record: Vec<u64>,
        recovered: u64,
    ) -> Result<(), BadRecord> {
        let about = [
            record::LOCK,
            record::LOCK_OF_PARTS,
            record::LOCK_MOVED,
            record::COMMIT_BACKUP,
            record::COMMIT_BACKUP_PART,
            record::COMMIT_BACKUP_LAST,
            record::COMMIT_PRIMARY,
            record::ABORT,
        ];
        if !about.contains(&tag) {
            return Ok(());
        }
        let mut reader = WordReader(&record);
        let id = reader.id()?;
        if id.configuration < recovered {
            return Ok(());
        }
        let found = self.transactions.entry(id).or_default();
        match tag {
            record::LOCK | record::LOCK_OF_PARTS => {
                found.written.extend(regions(&mut reader)?);
                found.locks.entry(at).or_default().lock = record;
            }
            record::LOCK_MOVED => found.locks.entry(at).or_default().moved = record,
            record::COMMIT_BACKUP | record::COMMIT_BACKUP_PART | record::COMMIT_BACKUP_LAST => {
                found.w = Some(reader.timestamp()?);
                found.written.extend(regions(&mut reader)?);
                let backed = found.backups.entry(at).or_default();
                backed.whole |= tag != record::COMMIT_BACKUP_PART;
                backed.parts.push(record);
            }
            record::COMMIT_PRIMARY => {
                found.w = Some(reader.timestamp()?);
                found.committed = true;
            }
            _ => found.aborted = true,
        }
        Ok(())
    }
}

fn regions(reader: &mut WordReader<'_>) -> Result<Vec<u32>, BadRecord> {
    let number = |region: &u64| u32::try_from(*region);
    let regions: Result<Vec<u32>, _> = reader.counted()?.iter().map(number).collect();
    regions.map_err(|_| BadRecord("a region whose number is too large"))
}

/// Returns the value of an object in a LOCK-MOVED.
pub fn moved_value(
    moved: &[u64],
    addr: fencepost_storage::Addr,
) -> Result<Option<Value<'_>>, BadRecord> {
    if moved.is_empty() {
        return Ok(None);
    }
    let mut reader = WordReader(moved);
    reader.id()?;
    while let Some((at, value)) = reader.moved()? {
        if at == addr {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

fn damaged(of: MachineId, at: MachineId, why: &str) -> RestartError {
    RestartError::Damaged {
        of,
        at,
        why: why.into(),
    }
}
