//! What a backup does with COMMIT-BACKUP (SOSP'15 §4): keeps it, and applies it when the transaction is
//! truncated.
//!
//! # Invariants
//! * BACKUP-1: a write applies only to an older version, so the order of truncations does not matter.
//! * BACKUP-2: nothing applies to a block that serves another size class since.

use std::collections::HashMap;

use fencepost_fabric::Kept;
use fencepost_storage::classes::{CLASSES, Class};
use fencepost_storage::header::{Link, OldPlace};
use fencepost_storage::region::{BlockId, Regions};
use foldhash::fast::FixedState;
use parking_lot::Mutex;

use fencepost_storage::Timestamp;

use super::message::{Kind, Reader, Write};
use crate::record::{BadRecord, TxnId};

/// When blocks of backups got the class that they have, and whether they had another before.
#[derive(Default)]
pub(super) struct Changed(Mutex<HashMap<BlockId, (Timestamp, bool), FixedState>>);

/// The transactions of one coordinator machine that write regions of which this machine has backups.
#[derive(Default)]
pub(super) struct Backup {
    waiting: HashMap<TxnId, Vec<Held>, FixedState>,
}

/// A record, and what keeps it in the log.
struct Held {
    record: Vec<u64>,
    kept: Option<Kept>,
}

impl Backup {
    /// COMMIT-BACKUP, or a part of it: keeps the record.
    pub fn hold(&mut self, record: &[u64], kept: Option<Kept>) -> Result<(), BadRecord> {
        let id = Reader(record).id()?;
        let record = record.to_vec();
        let parts = self.waiting.entry(id).or_default();
        parts.push(Held { record, kept });
        Ok(())
    }

    /// ABORT: forgets it; what may be released.
    pub fn abort(&mut self, id: TxnId) -> Vec<Kept> {
        let parts = self.waiting.remove(&id).unwrap_or_default();
        parts.into_iter().filter_map(|held| held.kept).collect()
    }

    /// TRUNCATE: applies it; what may be released.
    pub fn truncate(
        &mut self,
        regions: &Regions,
        changed: &Changed,
        id: TxnId,
    ) -> Result<Vec<Kept>, BadRecord> {
        let parts = self.waiting.remove(&id).unwrap_or_default();
        for held in &parts {
            let mut reader = Reader(&held.record);
            reader.id()?;
            let w = reader.timestamp()?;
            while let Some(write) = reader.write()? {
                apply(regions, changed, &write, w)?;
            }
        }
        Ok(parts.into_iter().filter_map(|held| held.kept).collect())
    }

    /// Transactions that were not truncated.
    pub fn left(&self) -> usize {
        self.waiting.len()
    }
}

fn apply(
    regions: &Regions,
    changed: &Changed,
    write: &Write<'_>,
    w: Timestamp,
) -> Result<(), BadRecord> {
    const NOWHERE: BadRecord = BadRecord("a write of a peer leads outside every block");
    if usize::from(write.class) >= CLASSES {
        return Err(BadRecord("unknown size class"));
    }
    let block = BlockId::of(write.addr);
    let mut changed = changed.0.lock();
    let there = regions.backup_class(block);
    let same = there == Some(Class(write.class));
    let outlived = |(since, again): &(Timestamp, bool)| *since >= w && (*again || !same);
    if changed.get(&block).is_some_and(outlived) {
        return Ok(());
    }
    if !same {
        let restored = regions.restore_backup(block, Class(write.class));
        restored.map_err(|_| BadRecord("a backup cannot be made"))?;
        changed.insert(block, (w, there.is_some()));
    }
    drop(changed);
    let object = regions.backup(write.addr).ok_or(NOWHERE)?;
    let header = object.header();
    if write.payload.len() > object.len() {
        return Err(NOWHERE);
    }
    if header.timestamp() >= w {
        return Ok(());
    }
    let freed = write.kind == Kind::Freed;
    object.begin_install();
    if !freed {
        object.put(0, write.payload);
    }
    let link = Link::new(write.about as u16, OldPlace::NONE);
    object.finish_install(header.succeed(w, !freed), link);
    Ok(())
}
