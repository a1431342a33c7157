//! What a backup does with COMMIT-BACKUP (SOSP'15 §4): keeps it, and applies it when the transaction is
//! truncated.
//!
//! # Invariants
//! * BACKUP-1: a write applies only to an older version, so the order of truncations does not matter.
//! * BACKUP-2: nothing applies to a block that serves another size class since. A block gets another class
//!   once all that was in it is gone, for every reader too: so each write of a life of a block has a lower
//!   timestamp than any of the next one, and a life that was noticed here has at least one.
//! * BACKUP-3: writes are applied one after the other ([`Changed`] is locked meanwhile): those of peers' and of
//!   this machine's own transactions are applied by different threads.

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

/// The lives of the blocks of backups.
#[derive(Default)]
pub(super) struct Changed(Mutex<HashMap<BlockId, Life, FixedState>>);

/// What was applied to a block since it has the class that it has.
#[derive(Clone, Copy)]
struct Life {
    /// The first and the last timestamp.
    since: Timestamp,
    newest: Timestamp,
    /// The last one before, when the block had another class.
    until: Timestamp,
}

impl Life {
    /// The next life of a block, which a write at `w` begins.
    fn after(before: Option<&Life>, w: Timestamp) -> Life {
        Life {
            since: w,
            newest: w,
            until: before.map_or(Timestamp::ZERO, |before| before.newest),
        }
    }

    /// Whether a write at `w` belongs to an earlier life; `same` is whether it is of the same class.
    fn has_outlived(&self, w: Timestamp, same: bool) -> bool {
        match same {
            true => w <= self.until,
            false => w < self.since,
        }
    }
}

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
    match changed.get_mut(&block) {
        Some(life) if life.has_outlived(w, same) => return Ok(()),
        Some(life) if same => {
            life.since = life.since.min(w);
            life.newest = life.newest.max(w);
        }
        before => {
            let life = Life::after(before.as_deref(), w);
            let restored = regions.restore_backup(block, Class(write.class));
            restored.map_err(|_| BadRecord("a backup cannot be made"))?;
            changed.insert(block, life);
        }
    }
    // Still under the lock (BACKUP-3).
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fencepost_storage::{Addr, Private};

    use super::*;
    use crate::network::message;

    /// Truncates a transaction that wrote `value` at `w` into a slot of an object of `words` words.
    fn truncate(regions: &Regions, changed: &Changed, w: u64, words: usize, value: u64) {
        truncate_at(regions, changed, w, (words, value), value);
    }

    fn truncate_at(
        regions: &Regions,
        changed: &Changed,
        w: u64,
        (words, at): (usize, u64),
        value: u64,
    ) {
        let id = TxnId {
            configuration: 1,
            machine: 2,
            thread: 0,
            local: w,
        };
        let class = Class::for_payload(words).expect("fits a block");
        let mut record = Vec::new();
        message::begin_commit(&mut record, id, Timestamp::from_raw(w));
        let about = (slot(words, at), Kind::New, class.0, 1);
        message::put_write(&mut record, about, words, |out| out.fill(value));
        let mut backup = Backup::default();
        backup.hold(&record, None).expect("whole");
        backup.truncate(regions, changed, id).expect("applies");
    }

    /// Every value has a slot of its own.
    fn slot(words: usize, value: u64) -> Addr {
        let block = BlockId {
            region: fencepost_storage::RegionId(1),
            block: 1,
        };
        block.slot(Class::for_payload(words).expect("fits"), value as usize)
    }

    fn holds(regions: &Regions, words: usize, value: u64) -> bool {
        let object = regions.backup(slot(words, value)).expect("a slot");
        object.header().is_allocated() && object.word(0) == value
    }

    #[test]
    fn the_newest_version_stays_whoever_applies_it() {
        let regions = Regions::with(16 << 20, Arc::new(Private));
        let changed = Changed::default();
        const LAST: u64 = 20_000;
        std::thread::scope(|scope| {
            for first in [1, 2] {
                let (regions, changed) = (&regions, &changed);
                scope.spawn(move || {
                    for w in (first..=LAST).step_by(2) {
                        truncate_at(regions, changed, w, (3, 0), w);
                        let object = regions.backup(slot(3, 0)).expect("a slot");
                        assert!(object.header().timestamp().raw() >= w, "it went back");
                    }
                });
            }
        });
        let object = regions.backup(slot(3, 0)).expect("a slot");
        assert_eq!(object.header().timestamp().raw(), LAST);
        assert_eq!(object.word(0), LAST);
    }

    #[test]
    fn what_is_truncated_late_applies_to_its_own_life_of_a_block_alone() {
        const SMALL: usize = 3;
        const LARGE: usize = 40;
        let regions = Regions::with(16 << 20, Arc::new(Private));
        let changed = Changed::default();
        truncate(&regions, &changed, 10, SMALL, 1);
        truncate(&regions, &changed, 30, LARGE, 2);
        // Of the same life as the one before, though its timestamp is lower.
        truncate(&regions, &changed, 20, LARGE, 3);
        assert!(holds(&regions, LARGE, 2) && holds(&regions, LARGE, 3));
        // Of the first life.
        truncate(&regions, &changed, 11, SMALL, 4);
        assert!(holds(&regions, LARGE, 2) && holds(&regions, LARGE, 3));
        truncate(&regions, &changed, 50, SMALL, 5);
        truncate(&regions, &changed, 40, SMALL, 6);
        assert!(holds(&regions, SMALL, 5) && holds(&regions, SMALL, 6));
        // Of the first life and of the second one.
        truncate(&regions, &changed, 12, SMALL, 7);
        truncate(&regions, &changed, 21, LARGE, 8);
        assert!(holds(&regions, SMALL, 5) && !holds(&regions, SMALL, 7));
    }
}
