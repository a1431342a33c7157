//! What a backup does with COMMIT-BACKUP (SOSP'15 §4): keeps it, and applies it when the transaction is
//! truncated.
//!
//! # Invariants
//! * BACKUP-1: the order of truncations does not matter. A whole object applies to any older version. Ranges apply
//!   to the version that they name and wait for it, the transaction's records with them. It comes: whoever
//!   overwrote it had seen it at the primary, so its COMMIT-PRIMARY was written, so this backup had acknowledged its
//!   COMMIT-BACKUP (SPREAD-1), which is in a log here until its own truncation applies it; and that waits for nothing
//!   but older versions. One that a newer whole object has overtaken is passed over, and so is what waits for it.
//! * BACKUP-2: nothing applies to a block that serves another size class since. A block gets another class
//!   once all that was in it is gone, for every reader too: so each write of a life of a block has a lower
//!   timestamp than any of the next one, and a life that was noticed here has at least one. Ranges begin no life.
//! * BACKUP-4: who becomes the primary of a region goes on applying what it is told as its backup, until all of that
//!   has come and its free slots are looked for; what comes later is there already.
//! * BACKUP-3: writes are applied one after the other ([`Changed`] is locked meanwhile): those of peers' and of
//!   this machine's own transactions are applied by different threads.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use fencepost_fabric::Kept;
use fencepost_storage::classes::{CLASSES, Class};
use fencepost_storage::header::{Header, Link, OldPlace};
use fencepost_storage::region::{BlockId, Regions};
use fencepost_storage::{Addr, ObjectCopy, ObjectRef, RegionId, Timestamp};
use foldhash::fast::FixedState;
use parking_lot::Mutex;

use super::evidence::{self, Found};
use super::message::{self, Kind, Reader, Write};
use super::restart::copied::Copied;
use crate::changes;
use crate::planted::{self, Planted};
use crate::record::{BadRecord, TxnId};
use crate::recovery::Evidence;

/// What is asked of the processor of each object ahead of its change.
const PREFETCH_BYTES: usize = 64;

/// The lives of the blocks of backups.
#[derive(Default)]
pub(super) struct Changed {
    lives: Mutex<Lives>,
    /// Writes that were applied.
    applied: AtomicU64,
}

type Lives = HashMap<BlockId, Life, FixedState>;

/// What was applied to a block since it has the class that it has.
#[derive(Clone, Copy)]
struct Life {
    /// The first and the last timestamp.
    since: Timestamp,
    newest: Timestamp,
    /// The last one before, when the block had another class.
    until: Timestamp,
}

impl Changed {
    /// What there is in backups that were loaded: the lives of their blocks are those of the objects in them.
    pub fn of(regions: &Regions) -> Changed {
        let mut lives = Lives::default();
        for (id, class) in regions.replica_blocks() {
            let slots = (0..class.slots()).map(|slot| id.slot(class, slot));
            let objects = slots.filter_map(|addr| regions.backup(addr));
            let written = objects.map(|object| object.header());
            let written = written.filter(|header| *header != Header(0));
            for w in written.map(|header| header.timestamp()) {
                let life = lives.entry(id).or_insert_with(|| Life::after(None, w));
                life.since = life.since.min(w);
                life.newest = life.newest.max(w);
            }
        }
        Changed {
            lives: Mutex::new(lives),
            applied: AtomicU64::new(0),
        }
    }

    /// What is written to a region is none of a backup any more.
    pub fn forget(&self, region: RegionId) {
        self.lives.lock().retain(|block, _| block.region != region);
    }
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
    waiting: HashMap<TxnId, Waiting, FixedState>,
    /// Transactions that are truncated and wait for versions that others' truncations bring, the first of them each.
    due: Vec<(Awaited, Vec<Held>)>,
    /// [`Changed::applied`] when they were looked at last.
    looked: u64,
}

/// A transaction that is not truncated.
#[derive(Default)]
struct Waiting {
    parts: Vec<Held>,
    /// Whether all parts are there: then it can be committed from here.
    whole: bool,
}

/// The version that ranges of a write at `w` apply to.
#[derive(Clone, Copy)]
struct Awaited {
    addr: Addr,
    class: Class,
    base: Timestamp,
    w: Timestamp,
}

impl Awaited {
    /// What a write waits for; `None` where it is whole.
    fn by(write: &Write<'_>, change: &Change<'_>, w: Timestamp) -> Option<Awaited> {
        match change {
            Change::Ranges(base, _) => Some(Awaited {
                addr: write.addr,
                class: Class(write.class),
                base: *base,
                w,
            }),
            Change::Freed | Change::Whole(_) => None,
        }
    }

    /// Whether it is not there yet, and nothing has overtaken it.
    fn lacks(&self, regions: &Regions, lives: &Lives) -> bool {
        let block = BlockId::of(self.addr);
        let same = regions.backup_class(block) == Some(self.class);
        let life = lives.get(&block);
        if life.is_some_and(|life| life.has_outlived(self.w, same)) {
            return false;
        }
        let object = regions.backup(self.addr).filter(|_| same);
        object.is_none_or(|object| object.header().timestamp() < self.base)
    }
}

/// A record, and what keeps it in the log.
struct Held {
    record: Vec<u64>,
    kept: Option<Kept>,
    /// Where it has left the log, and outlives the machine all the same.
    _copied: Option<Copied>,
}

impl Backup {
    /// COMMIT-BACKUP, or a part of it, maybe the last: keeps the record.
    pub fn hold(
        &mut self,
        regions: &Regions,
        record: &[u64],
        kept: Option<Kept>,
        last: bool,
    ) -> Result<(), BadRecord> {
        self.hold_copied(regions, record, (kept, None), last)
    }

    /// The same of a record that may have been copied out of the log.
    pub fn hold_copied(
        &mut self,
        regions: &Regions,
        record: &[u64],
        (kept, copied): (Option<Kept>, Option<Copied>),
        last: bool,
    ) -> Result<(), BadRecord> {
        let mut reader = Reader(record);
        let id = reader.id()?;
        reader.timestamp()?;
        reader.skip_regions()?;
        // It is applied soon, and would wait for memory then.
        while let Some(write) = reader.write()? {
            regions.prefetch(write.addr, PREFETCH_BYTES);
        }
        let record = record.to_vec();
        let waiting = self.waiting.entry(id).or_default();
        waiting.parts.push(Held {
            record,
            kept,
            _copied: copied,
        });
        waiting.whole |= last;
        Ok(())
    }

    /// ABORT: forgets it; what may be released.
    pub fn abort(&mut self, id: TxnId) -> Vec<Kept> {
        released(self.take(id)).collect()
    }

    /// TRUNCATE: applies it; what may be released. `None` where it waits for a version ([`Self::look_again`]).
    pub fn truncate(
        &mut self,
        regions: &Regions,
        changed: &Changed,
        id: TxnId,
    ) -> Result<Option<Vec<Kept>>, BadRecord> {
        let parts = self.take(id);
        let Some(awaited) = apply_all(regions, changed, &parts)? else {
            return Ok(Some(released(parts).collect()));
        };
        self.due.push((awaited, parts));
        // What it waits for may have come meanwhile, from whoever applies what others have written.
        self.looked = u64::MAX;
        Ok(None)
    }

    /// What there is of transactions that are not truncated.
    pub fn find(&self, found: &mut Found) {
        for (id, waiting) in self.waiting.iter().filter(|(_, waiting)| waiting.whole) {
            // They were looked at when they came.
            for held in &waiting.parts {
                let mut reader = Reader(&held.record[TxnId::WORDS..]);
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

    /// What one of them writes to a region.
    pub fn content(&self, id: TxnId, region: u32) -> Option<Vec<u64>> {
        let waiting = self.waiting.get(&id).filter(|waiting| waiting.whole)?;
        let mut content = Vec::new();
        for held in &waiting.parts {
            let mut reader = Reader(&held.record[TxnId::WORDS + 1..]);
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

    fn take(&mut self, id: TxnId) -> Vec<Held> {
        let waiting = self.waiting.remove(&id);
        waiting.map_or_else(Vec::new, |waiting| waiting.parts)
    }

    /// Applies what waited for versions that are there by now; what may be released.
    pub fn look_again(
        &mut self,
        regions: &Regions,
        changed: &Changed,
    ) -> Result<Vec<Kept>, BadRecord> {
        let mut all = Vec::new();
        while !self.due.is_empty() {
            let applied = changed.applied.load(Ordering::Acquire);
            if std::mem::replace(&mut self.looked, applied) == applied {
                break;
            }
            let mut due = std::mem::take(&mut self.due);
            let may = {
                let lives = changed.lives.lock();
                let come = |(awaited, _): &mut (Awaited, _)| !awaited.lacks(regions, &lives);
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

    /// Transactions of configurations before `current` that are not truncated.
    pub fn before(&self, current: u64) -> Vec<TxnId> {
        let ids = self.waiting.keys().copied();
        ids.filter(|id| id.configuration < current).collect()
    }

    /// Whether some that are truncated wait for versions of what is in one of these regions.
    pub fn awaits_versions(
        &self,
        regions: &Regions,
        changed: &Changed,
        among: &dyn Fn(RegionId) -> bool,
    ) -> bool {
        let mut due = self.due.iter();
        // What nobody writes waits for nothing.
        due.any(|(_, parts)| {
            let awaited = apply_among(regions, changed, parts, among);
            awaited.unwrap_or(None).is_some()
        })
    }

    /// Whether some are truncated, and not applied.
    pub fn is_late(&self) -> bool {
        !self.due.is_empty()
    }

    /// Transactions that were not truncated, or not applied.
    pub fn left(&self) -> usize {
        self.waiting.len() + self.due.len()
    }
}

fn released(parts: Vec<Held>) -> impl Iterator<Item = Kept> {
    parts.into_iter().filter_map(|held| held.kept)
}

/// Applies the writes of a transaction, those that are applied already apart; what the first that waits waits for.
fn apply_all(
    regions: &Regions,
    changed: &Changed,
    parts: &[Held],
) -> Result<Option<Awaited>, BadRecord> {
    apply_among(regions, changed, parts, &|_| true)
}

/// The same of those to some regions.
fn apply_among(
    regions: &Regions,
    changed: &Changed,
    parts: &[Held],
    among: &dyn Fn(RegionId) -> bool,
) -> Result<Option<Awaited>, BadRecord> {
    let mut first = None;
    for held in parts {
        let awaited = apply_each(regions, changed, &held.record, among)?;
        first = first.or(awaited);
    }
    Ok(first)
}

/// Applies those writes of a COMMIT-BACKUP, or of a part of one, that are to some regions, those that are applied already
/// apart; whether none waits.
pub(super) fn apply_record(
    regions: &Regions,
    changed: &Changed,
    record: &[u64],
    among: &dyn Fn(RegionId) -> bool,
) -> Result<bool, BadRecord> {
    let awaited = apply_each(regions, changed, record, among)?;
    Ok(awaited.is_none())
}

/// The same; what the first that waits waits for.
fn apply_each(
    regions: &Regions,
    changed: &Changed,
    record: &[u64],
    among: &dyn Fn(RegionId) -> bool,
) -> Result<Option<Awaited>, BadRecord> {
    let (mut reader, mut first) = (Reader(record), None);
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

/// What a write makes of an object.
enum Change<'a> {
    Freed,
    Whole(&'a [u64]),
    /// Of the version of that time.
    Ranges(Timestamp, &'a [u64]),
}

impl<'a> Change<'a> {
    fn of(write: &Write<'a>) -> Result<Change<'a>, BadRecord> {
        let mut payload = Reader(write.payload);
        Ok(match write.kind {
            Kind::Freed => Change::Freed,
            Kind::Ranges => Change::Ranges(payload.timestamp()?, payload.0),
            _ => Change::Whole(payload.0),
        })
    }
}

/// Applies what a transaction writes to some regions, as [`super::evidence`] has it, those writes that are applied already
/// apart; whether none waits.
pub(super) fn apply_content(
    regions: &Regions,
    changed: &Changed,
    content: &[u64],
    w: Timestamp,
    among: &dyn Fn(RegionId) -> bool,
) -> Result<bool, BadRecord> {
    let (mut reader, mut all) = (Reader(content), true);
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

/// Applies what the primary of a region has of an object, unless this backup has it, or something later.
pub(super) fn apply_copy(
    regions: &Regions,
    changed: &Changed,
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
    // What is whole waits for nothing.
    apply(regions, changed, &write, header.timestamp()).map(drop)
}

/// The same of an object that this machine had before, and that nobody writes.
pub(super) fn apply_kept(
    regions: &Regions,
    changed: &Changed,
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

/// Applies a write, unless it is passed over or waits for the version that it changes; which that is.
fn apply(
    regions: &Regions,
    changed: &Changed,
    write: &Write<'_>,
    w: Timestamp,
) -> Result<Option<Awaited>, BadRecord> {
    apply_stamped(regions, changed, write, (w, None))
}

/// The same of an object one of whose words may become the write timestamp.
fn apply_stamped(
    regions: &Regions,
    changed: &Changed,
    write: &Write<'_>,
    (w, stamped): (Timestamp, Option<usize>),
) -> Result<Option<Awaited>, BadRecord> {
    const NOWHERE: BadRecord = BadRecord("a write of a peer leads outside every block");
    if usize::from(write.class) >= CLASSES {
        return Err(BadRecord("unknown size class"));
    }
    let change = Change::of(write)?;
    let block = BlockId::of(write.addr);
    if !regions.has_backup(block.region)
        && (regions.is_own(write.addr) || regions.has_parted_with(block.region))
    {
        // BACKUP-4; and what this machine has parted with others apply.
        return Ok(None);
    }
    let mut lives = changed.lives.lock();
    let awaited = Awaited::by(write, &change, w);
    if let Some(awaited) = awaited.filter(|awaited| awaited.lacks(regions, &lives))
        && !planted::is(Planted::ApplyRangesAtOnce)
    {
        return Ok(Some(awaited));
    }
    let same = regions.backup_class(block) == Some(Class(write.class));
    let life = lives.get_mut(&block);
    match life {
        Some(life) if life.has_outlived(w, same) => return Ok(None),
        Some(life) if same => {
            life.since = life.since.min(w);
            life.newest = life.newest.max(w);
        }
        before => {
            let life = Life::after(before.as_deref(), w);
            let restored = regions.restore_backup(block, Class(write.class));
            restored.map_err(|_| BadRecord("a backup cannot be made"))?;
            lives.insert(block, life);
        }
    }
    // Still under the lock (BACKUP-3).
    let object = regions.backup(write.addr).ok_or(NOWHERE)?;
    let header = object.header();
    if header.timestamp() >= w && !planted::is(Planted::ApplyOlderVersion) {
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
            if header.timestamp() != base && !planted::is(Planted::ApplyRangesAtOnce) {
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
    let link = Link::new(write.about as u16, OldPlace::NONE);
    object.finish_install(header.succeed(w, stays), link);
    changed.applied.fetch_add(1, Ordering::Release);
    Ok(None)
}

#[cfg(test)]
mod tests;
