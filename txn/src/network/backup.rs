//! A backup's handling of COMMIT-BACKUP (SOSP'15 §4): it keeps the record, and applies it when the
//! transaction is truncated.
//!
//! # Invariants
//! * BACKUP-1: the order of truncations does not matter. A whole object applies to any older
//!   version. Ranges apply to the version that they name. They wait for that version, and the
//!   transaction's records wait with them. The awaited version arrives: the transaction of the
//!   ranges had read it at the primary, so its COMMIT-PRIMARY was written. Hence this backup had
//!   acknowledged the COMMIT-BACKUP of the awaited version (DISTRIBUTED-1). That record is in a log
//!   here until its own truncation applies it, and that truncation waits only for older versions. A
//!   version that a newer whole object has overtaken is skipped, and so are the ranges that wait
//!   for it.
//! * BACKUP-2: a write does not apply to a block that has another size class since. A block changes
//!   its class only after all its objects are freed, for every reader too. So each write of one use
//!   of a block has a lower timestamp than any write of the next use. A use that was recorded here
//!   has at least one write. Ranges begin no use.
//! * BACKUP-4: a backup that becomes the primary of a region continues to apply the records it
//!   received as a backup. It stops once all of them have arrived and its free slots are searched
//!   for. Writes that arrive later are already present.
//! * BACKUP-3: writes are applied one after the other ([`BlockUses`] is locked meanwhile):
//!   different threads apply the writes of peers' transactions and of this machine's own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use fencepost_fabric::HeldRecord;
use fencepost_storage::classes::{CLASSES, Class};
use fencepost_storage::header::{Header, LinkWord, OldVersionPtr};
use fencepost_storage::region::{BlockId, Regions};
use fencepost_storage::{Addr, ObjectCopy, ObjectRef, RegionId, Timestamp};
use foldhash::fast::FixedState;
use parking_lot::Mutex;

use super::evidence::{self, EvidenceByTransaction};
use super::message::{self, Kind, WordReader, Write};
use super::restart::copied::SegmentCopy;
use crate::changes;
use crate::fault::{self, Fault};
use crate::record::{BadRecord, TxnId};
use crate::recovery::Evidence;

/// Bytes of each object that are prefetched before it is changed.
const PREFETCH_BYTES: usize = 64;

/// The uses of the blocks of backup replicas: one use lasts from one change of size class to the
/// next.
#[derive(Default)]
pub(super) struct BlockUses {
    uses: Mutex<BlockUseMap>,
    /// The number of writes applied.
    applied: AtomicU64,
}

type BlockUseMap = HashMap<BlockId, BlockUse, FixedState>;

/// The timestamps of the writes applied to a block since it has its current size class.
#[derive(Clone, Copy)]
struct BlockUse {
    /// The smallest timestamp; the next field is the largest.
    since: Timestamp,
    newest: Timestamp,
    /// The largest timestamp of the previous use, when the block had another class.
    until: Timestamp,
}

impl BlockUses {
    /// Rebuilds the uses of blocks from the objects of backup replicas that were loaded.
    pub fn of(regions: &Regions) -> BlockUses {
        let mut uses = BlockUseMap::default();
        for (id, class) in regions.replica_blocks() {
            let slots = (0..class.slots()).map(|slot| id.slot(class, slot));
            let objects = slots.filter_map(|addr| regions.backup(addr));
            let written = objects.map(|object| object.header());
            let written = written.filter(|header| *header != Header(0));
            for w in written.map(|header| header.timestamp()) {
                let block_use = uses.entry(id).or_insert_with(|| BlockUse::after(None, w));
                block_use.since = block_use.since.min(w);
                block_use.newest = block_use.newest.max(w);
            }
        }
        BlockUses {
            uses: Mutex::new(uses),
            applied: AtomicU64::new(0),
        }
    }

    /// Drops the records of a region of which this machine is no backup any more.
    pub fn forget(&self, region: RegionId) {
        self.uses.lock().retain(|block, _| block.region != region);
    }
}

impl BlockUse {
    /// Returns the next use of a block, which a write at `w` begins.
    fn after(before: Option<&BlockUse>, w: Timestamp) -> BlockUse {
        BlockUse {
            since: w,
            newest: w,
            until: before.map_or(Timestamp::ZERO, |before| before.newest),
        }
    }

    /// Returns whether a write at `w` belongs to an earlier use; `same` tells whether it has the
    /// block's current class.
    fn has_outlived(&self, w: Timestamp, same: bool) -> bool {
        match same {
            true => w <= self.until,
            false => w < self.since,
        }
    }
}

/// The transactions of one coordinator machine that write regions of which this machine has
/// backups.
#[derive(Default)]
pub(super) struct Backup {
    waiting: HashMap<TxnId, UntruncatedTransaction, FixedState>,
    /// Truncated transactions that wait for a version, each with the first version it awaits.
    due: Vec<(BaseVersion, Vec<BackupRecord>)>,
    /// The value of [`BlockUses::applied`] at the last check.
    looked: u64,
}

/// A transaction that is not truncated.
#[derive(Default)]
struct UntruncatedTransaction {
    parts: Vec<BackupRecord>,
    /// Whether all parts have arrived, so that recovery can commit the transaction from here.
    whole: bool,
}

/// The version to which the ranges of a write at `w` apply.
#[derive(Clone, Copy)]
struct BaseVersion {
    addr: Addr,
    class: Class,
    base: Timestamp,
    w: Timestamp,
}

impl BaseVersion {
    /// Returns the version that a write waits for; `None` for a freed or whole object.
    fn by(write: &Write<'_>, change: &Change<'_>, w: Timestamp) -> Option<BaseVersion> {
        match change {
            Change::Ranges(base, _) => Some(BaseVersion {
                addr: write.addr,
                class: Class(write.class),
                base: *base,
                w,
            }),
            Change::Freed | Change::Whole(_) => None,
        }
    }

    /// Returns whether the version has not arrived yet and no newer write has overtaken it.
    fn lacks(&self, regions: &Regions, uses: &BlockUseMap) -> bool {
        let block = BlockId::of(self.addr);
        let same = regions.backup_class(block) == Some(self.class);
        let block_use = uses.get(&block);
        if block_use.is_some_and(|block_use| block_use.has_outlived(self.w, same)) {
            return false;
        }
        let object = regions.backup(self.addr).filter(|_| same);
        object.is_none_or(|object| object.header().timestamp() < self.base)
    }
}

/// A record, and its reservation in the log.
struct BackupRecord {
    record: Vec<u64>,
    held_record: Option<HeldRecord>,
    /// The copy of a record that has left the log and must survive the machine.
    _copied: Option<SegmentCopy>,
}

impl Backup {
    /// Keeps a COMMIT-BACKUP record or a part of it; `last` marks the part that completes it.
    pub fn hold(
        &mut self,
        regions: &Regions,
        record: &[u64],
        held_record: Option<HeldRecord>,
        last: bool,
    ) -> Result<(), BadRecord> {
        self.hold_copied(regions, record, (held_record, None), last)
    }

    /// Does the same for a record that may have been copied out of the log.
    pub fn hold_copied(
        &mut self,
        regions: &Regions,
        record: &[u64],
        (held_record, copied): (Option<HeldRecord>, Option<SegmentCopy>),
        last: bool,
    ) -> Result<(), BadRecord> {
        let mut reader = WordReader(record);
        let id = reader.id()?;
        reader.timestamp()?;
        reader.skip_regions()?;
        // The writes are applied soon, and would wait for memory then.
        while let Some(write) = reader.write()? {
            regions.prefetch(write.addr, PREFETCH_BYTES);
        }
        let record = record.to_vec();
        let waiting = self.waiting.entry(id).or_default();
        waiting.parts.push(BackupRecord {
            record,
            held_record,
            _copied: copied,
        });
        waiting.whole |= last;
        Ok(())
    }

    /// Handles ABORT: drops the records and returns the log reservations to release.
    pub fn abort(&mut self, id: TxnId) -> Vec<HeldRecord> {
        released(self.take(id)).collect()
    }

    /// Handles TRUNCATE: applies the records and returns the log reservations to release. Returns
    /// `None` while the records wait for a version ([`Self::look_again`]).
    pub fn truncate(
        &mut self,
        regions: &Regions,
        changed: &BlockUses,
        id: TxnId,
    ) -> Result<Option<Vec<HeldRecord>>, BadRecord> {
        let parts = self.take(id);
        let Some(awaited) = apply_all(regions, changed, &parts)? else {
            return Ok(Some(released(parts).collect()));
        };
        self.due.push((awaited, parts));
        // Another thread may have applied the awaited version in the meantime: check again.
        self.looked = u64::MAX;
        Ok(None)
    }

    /// Adds the evidence of transactions that are not truncated to `found`.
    pub fn find(&self, found: &mut EvidenceByTransaction) {
        for (id, waiting) in self.waiting.iter().filter(|(_, waiting)| waiting.whole) {
            // The records were checked when they arrived.
            for held in &waiting.parts {
                let mut reader = WordReader(&held.record[TxnId::WORDS..]);
                let (Ok(w), Ok(written)) = (reader.timestamp(), evidence::written(&mut reader))
                else {
                    continue;
                };
                while let Ok(Some(write)) = reader.write() {
                    let of = (*id, write.addr.region().0);
                    found.add(of, Evidence::COMMIT_BACKUP, &written, Some(w));
                }
            }
        }
    }

    /// Returns the writes of one transaction to a region.
    pub fn content(&self, id: TxnId, region: u32) -> Option<Vec<u64>> {
        let waiting = self.waiting.get(&id).filter(|waiting| waiting.whole)?;
        let mut content = Vec::new();
        for held in &waiting.parts {
            let mut reader = WordReader(&held.record[TxnId::WORDS + 1..]);
            reader.skip_regions().ok()?;
            while let Some(write) = reader.write().ok()? {
                if write.addr.region().0 == region {
                    let about = (write.addr, write.kind, write.class, write.about);
                    let copy = |out: &mut [u64]| out.copy_from_slice(write.payload);
                    message::put_write(&mut content, about, write.payload.len(), copy);
                }
            }
        }
        (!content.is_empty()).then_some(content)
    }

    fn take(&mut self, id: TxnId) -> Vec<BackupRecord> {
        let waiting = self.waiting.remove(&id);
        waiting.map_or_else(Vec::new, |waiting| waiting.parts)
    }

    /// Applies the transactions whose awaited versions have arrived. Returns the log reservations
    /// to release.
    pub fn look_again(
        &mut self,
        regions: &Regions,
        changed: &BlockUses,
    ) -> Result<Vec<HeldRecord>, BadRecord> {
        let mut all = Vec::new();
        while !self.due.is_empty() {
            let applied = changed.applied.load(Ordering::Acquire);
            if std::mem::replace(&mut self.looked, applied) == applied {
                break;
            }
            let mut due = std::mem::take(&mut self.due);
            let may = {
                let uses = changed.uses.lock();
                let come = |(awaited, _): &mut (BaseVersion, _)| !awaited.lacks(regions, &uses);
                due.extract_if(.., come).collect::<Vec<_>>()
            };
            self.due = due;
            for (_, parts) in may {
                match apply_all(regions, changed, &parts)? {
                    None => all.extend(released(parts)),
                    Some(awaited) => self.due.push((awaited, parts)),
                }
            }
        }
        Ok(all)
    }

    /// Returns the transactions of configurations before `current` that are not truncated.
    pub fn before(&self, current: u64) -> Vec<TxnId> {
        let ids = self.waiting.keys().copied();
        ids.filter(|id| id.configuration < current).collect()
    }

    /// Returns whether a truncated transaction waits for a version in one of the regions that
    /// `among` accepts.
    pub fn awaits_versions(
        &self,
        regions: &Regions,
        changed: &BlockUses,
        among: &dyn Fn(RegionId) -> bool,
    ) -> bool {
        let mut due = self.due.iter();
        // A record that cannot be decoded waits for nothing.
        due.any(|(_, parts)| {
            let awaited = apply_among(regions, changed, parts, among);
            awaited.unwrap_or(None).is_some()
        })
    }

    /// Returns whether some transactions are truncated but not applied.
    pub fn is_late(&self) -> bool {
        !self.due.is_empty()
    }

    /// Returns the number of transactions that are not truncated or not applied.
    pub fn left(&self) -> usize {
        self.waiting.len() + self.due.len()
    }
}

fn released(parts: Vec<BackupRecord>) -> impl Iterator<Item = HeldRecord> {
    parts.into_iter().filter_map(|held| held.held_record)
}

/// Applies the writes of a transaction, except those already applied. Returns the version that the
/// first waiting write awaits.
fn apply_all(
    regions: &Regions,
    changed: &BlockUses,
    parts: &[BackupRecord],
) -> Result<Option<BaseVersion>, BadRecord> {
    apply_among(regions, changed, parts, &|_| true)
}

/// Does the same for the writes to regions that `among` accepts.
fn apply_among(
    regions: &Regions,
    changed: &BlockUses,
    parts: &[BackupRecord],
    among: &dyn Fn(RegionId) -> bool,
) -> Result<Option<BaseVersion>, BadRecord> {
    let mut first = None;
    for held in parts {
        let awaited = apply_each(regions, changed, &held.record, among)?;
        first = first.or(awaited);
    }
    Ok(first)
}

/// Applies the writes of a COMMIT-BACKUP, or of a part of one, to regions that `among` accepts,
/// except those already applied. Returns whether no write waits.
pub(super) fn apply_record(
    regions: &Regions,
    changed: &BlockUses,
    record: &[u64],
    among: &dyn Fn(RegionId) -> bool,
) -> Result<bool, BadRecord> {
    let awaited = apply_each(regions, changed, record, among)?;
    Ok(awaited.is_none())
}

/// Does the same. Returns the version that the first waiting write awaits.
fn apply_each(
    regions: &Regions,
    changed: &BlockUses,
    record: &[u64],
    among: &dyn Fn(RegionId) -> bool,
) -> Result<Option<BaseVersion>, BadRecord> {
    let (mut reader, mut first) = (WordReader(record), None);
    reader.id()?;
    let w = reader.timestamp()?;
    reader.skip_regions()?;
    while let Some(write) = reader.write()? {
        if among(write.addr.region()) {
            let awaited = apply(regions, changed, &write, w)?;
            first = first.or(awaited);
        }
    }
    Ok(first)
}

/// The change of an object by a write.
enum Change<'a> {
    Freed,
    Whole(&'a [u64]),
    /// Ranges that apply to the version with this timestamp.
    Ranges(Timestamp, &'a [u64]),
}

impl<'a> Change<'a> {
    fn of(write: &Write<'a>) -> Result<Change<'a>, BadRecord> {
        let mut payload = WordReader(write.payload);
        Ok(match write.kind {
            Kind::Freed => Change::Freed,
            Kind::Ranges => Change::Ranges(payload.timestamp()?, payload.0),
            _ => Change::Whole(payload.0),
        })
    }
}

/// Applies the writes of a transaction, encoded as in [`super::evidence`], to regions that `among`
/// accepts, except those already applied. Returns whether no write waits.
pub(super) fn apply_content(
    regions: &Regions,
    changed: &BlockUses,
    content: &[u64],
    w: Timestamp,
    among: &dyn Fn(RegionId) -> bool,
) -> Result<bool, BadRecord> {
    let (mut reader, mut all) = (WordReader(content), true);
    while let Some(write) = reader.write()? {
        if !among(write.addr.region()) {
            continue;
        }
        let stamped = (write.about >> evidence::STAMPED_SHIFT) as u8;
        let stamped = usize::from(stamped).checked_sub(1);
        let awaited = apply_stamped(regions, changed, &write, (w, stamped))?;
        all &= awaited.is_none();
    }
    Ok(all)
}

/// Applies the primary's version of an object, unless this backup has the same version or a newer
/// one.
pub(super) fn apply_copy(
    regions: &Regions,
    changed: &BlockUses,
    (addr, class): (Addr, Class),
    copy: &ObjectCopy,
) -> Result<(), BadRecord> {
    let (header, about) = (copy.header(), copy.link().incarnation().into());
    let (kind, payload) = match header.is_allocated() {
        true => (Kind::New, copy.payload()),
        false => (Kind::Freed, &[][..]),
    };
    let write = Write {
        addr,
        kind,
        class: class.0,
        about,
        gives_way: false,
        payload,
    };
    // A whole object does not wait for another version.
    apply(regions, changed, &write, header.timestamp()).map(drop)
}

/// Does the same with an object that this machine retained from before and that no transaction
/// writes.
pub(super) fn apply_retained(
    regions: &Regions,
    changed: &BlockUses,
    (addr, class): (Addr, Class),
    object: ObjectRef<'_>,
) -> Result<(), BadRecord> {
    let header = object.header();
    let mut payload = Vec::new();
    if header.is_allocated() {
        payload.resize(object.len(), 0);
        object.copy(0, &mut payload);
    }
    let write = Write {
        addr,
        kind: match header.is_allocated() {
            true => Kind::New,
            false => Kind::Freed,
        },
        class: class.0,
        about: object.link().incarnation().into(),
        gives_way: false,
        payload: &payload,
    };
    apply(regions, changed, &write, header.timestamp()).map(drop)
}

/// Applies a write, unless it is skipped or waits. Returns the version that it awaits.
fn apply(
    regions: &Regions,
    changed: &BlockUses,
    write: &Write<'_>,
    w: Timestamp,
) -> Result<Option<BaseVersion>, BadRecord> {
    apply_stamped(regions, changed, write, (w, None))
}

/// Does the same; `stamped` is the index of the word that becomes the write timestamp, if any.
fn apply_stamped(
    regions: &Regions,
    changed: &BlockUses,
    write: &Write<'_>,
    (w, stamped): (Timestamp, Option<usize>),
) -> Result<Option<BaseVersion>, BadRecord> {
    const NOWHERE: BadRecord = BadRecord("a write of a peer leads outside every block");
    if usize::from(write.class) >= CLASSES {
        return Err(BadRecord("unknown size class"));
    }
    let change = Change::of(write)?;
    let block = BlockId::of(write.addr);
    if !regions.has_backup(block.region)
        && (regions.is_own(write.addr) || regions.has_parted_with(block.region))
    {
        // BACKUP-4. The new replicas of a region that this machine has given up apply its writes.
        return Ok(None);
    }
    let mut uses = changed.uses.lock();
    let awaited = BaseVersion::by(write, &change, w);
    if let Some(awaited) = awaited.filter(|awaited| awaited.lacks(regions, &uses))
        && !fault::injected(Fault::ApplyRangesAtOnce)
    {
        return Ok(Some(awaited));
    }
    let same = regions.backup_class(block) == Some(Class(write.class));
    let block_use = uses.get_mut(&block);
    match block_use {
        Some(block_use) if block_use.has_outlived(w, same) => return Ok(None),
        Some(block_use) if same => {
            block_use.since = block_use.since.min(w);
            block_use.newest = block_use.newest.max(w);
        }
        before => {
            let block_use = BlockUse::after(before.as_deref(), w);
            let restored = regions.restore_backup(block, Class(write.class));
            restored.map_err(|_| BadRecord("a backup cannot be made"))?;
            uses.insert(block, block_use);
        }
    }
    // The lock is still held (BACKUP-3).
    let object = regions.backup(write.addr).ok_or(NOWHERE)?;
    let header = object.header();
    if header.timestamp() >= w && !fault::injected(Fault::ApplyOlderVersion) {
        return Ok(None);
    }
    match change {
        Change::Freed => object.begin_install(),
        Change::Whole(payload) if payload.len() > object.len() => return Err(NOWHERE),
        Change::Whole(payload) => {
            object.begin_install();
            object.put(0, payload);
        }
        Change::Ranges(base, ranges) => {
            if header.timestamp() != base && !fault::injected(Fault::ApplyRangesAtOnce) {
                return Err(BadRecord("a change of a version that never was"));
            }
            changes::check(ranges, object.len())?;
            object.begin_install();
            changes::install(object, ranges);
        }
    }
    let stays = !matches!(change, Change::Freed);
    if let Some(word) = stamped.filter(|word| stays && *word < object.len()) {
        object.put(word, &[w.raw()]);
    }
    let link = LinkWord::new(write.about as u16, OldVersionPtr::NONE);
    object.finish_install(header.succeed(w, stays), link);
    changed.applied.fetch_add(1, Ordering::Release);
    Ok(None)
}

#[cfg(test)]
mod tests;
