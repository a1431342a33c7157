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
use fencepost_storage::header::{Link, OldPlace};
use fencepost_storage::region::{BlockId, Regions};
use fencepost_storage::{Addr, ObjectCopy, RegionId, Timestamp};
use foldhash::fast::FixedState;
use parking_lot::Mutex;

use super::evidence::{self, Found};
use super::message::{self, Kind, Reader, Write};
use crate::changes;
use crate::record::{BadRecord, TxnId};
use crate::recovery::Evidence;

/// What is asked of the processor of each object ahead of its change.
const PREFETCH_BYTES: usize = 64;

/// The lives of the blocks of backups.
#[derive(Default)]
pub(super) struct Changed {
    lives: Mutex<HashMap<BlockId, Life, FixedState>>,
    /// Writes that were applied.
    applied: AtomicU64,
}

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
    /// Transactions that are truncated and wait for versions that others' truncations bring.
    due: Vec<Vec<Held>>,
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

/// A record, and what keeps it in the log.
struct Held {
    record: Vec<u64>,
    kept: Option<Kept>,
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
        waiting.parts.push(Held { record, kept });
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
        if apply_all(regions, changed, &parts)? {
            return Ok(Some(released(parts).collect()));
        }
        self.due.push(parts);
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
            for parts in std::mem::take(&mut self.due) {
                match apply_all(regions, changed, &parts)? {
                    true => all.extend(released(parts)),
                    false => self.due.push(parts),
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
        due.any(|parts| !apply_among(regions, changed, parts, among).unwrap_or(true))
    }

    /// Transactions that were not truncated, or not applied.
    pub fn left(&self) -> usize {
        self.waiting.len() + self.due.len()
    }
}

fn released(parts: Vec<Held>) -> impl Iterator<Item = Kept> {
    parts.into_iter().filter_map(|held| held.kept)
}

/// Applies the writes of a transaction, those that are applied already apart; whether none waits.
fn apply_all(regions: &Regions, changed: &Changed, parts: &[Held]) -> Result<bool, BadRecord> {
    apply_among(regions, changed, parts, &|_| true)
}

/// The same of those to some regions.
fn apply_among(
    regions: &Regions,
    changed: &Changed,
    parts: &[Held],
    among: &dyn Fn(RegionId) -> bool,
) -> Result<bool, BadRecord> {
    let mut all = true;
    for held in parts {
        let mut reader = Reader(&held.record);
        reader.id()?;
        let w = reader.timestamp()?;
        reader.skip_regions()?;
        while let Some(write) = reader.write()? {
            if among(write.addr.region()) {
                all &= apply(regions, changed, &write, w)?;
            }
        }
    }
    Ok(all)
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

/// Applies what a transaction writes to a region, as [`super::evidence`] has it, those writes that are applied already
/// apart; whether none waits.
pub(super) fn apply_content(
    regions: &Regions,
    changed: &Changed,
    content: &[u64],
    w: Timestamp,
) -> Result<bool, BadRecord> {
    let (mut reader, mut all) = (Reader(content), true);
    while let Some(write) = reader.write()? {
        let stamped = (write.about >> evidence::STAMPED_SHIFT) as u8;
        let stamped = usize::from(stamped).checked_sub(1);
        all &= apply_stamped(regions, changed, &write, (w, stamped))?;
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
        payload,
    };
    // What is whole waits for nothing.
    apply(regions, changed, &write, header.timestamp()).map(drop)
}

/// Applies a write, unless it is passed over; `false` where it waits for the version that it changes.
fn apply(
    regions: &Regions,
    changed: &Changed,
    write: &Write<'_>,
    w: Timestamp,
) -> Result<bool, BadRecord> {
    apply_stamped(regions, changed, write, (w, None))
}

/// The same of an object one of whose words may become the write timestamp.
fn apply_stamped(
    regions: &Regions,
    changed: &Changed,
    write: &Write<'_>,
    (w, stamped): (Timestamp, Option<usize>),
) -> Result<bool, BadRecord> {
    const NOWHERE: BadRecord = BadRecord("a write of a peer leads outside every block");
    if usize::from(write.class) >= CLASSES {
        return Err(BadRecord("unknown size class"));
    }
    let change = Change::of(write)?;
    let block = BlockId::of(write.addr);
    if !regions.has_backup(block.region) && regions.is_own(write.addr) {
        // BACKUP-4.
        return Ok(true);
    }
    let mut lives = changed.lives.lock();
    let there = regions.backup_class(block);
    let same = there == Some(Class(write.class));
    let life = lives.get_mut(&block);
    if let Change::Ranges(base, _) = change
        && !life.as_ref().is_some_and(|life| life.has_outlived(w, same))
    {
        let object = regions.backup(write.addr).filter(|_| same);
        if object.is_none_or(|object| object.header().timestamp() < base) {
            return Ok(false);
        }
    }
    match life {
        Some(life) if life.has_outlived(w, same) => return Ok(true),
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
    if header.timestamp() >= w {
        return Ok(true);
    }
    match change {
        Change::Freed => object.begin_install(),
        Change::Whole(payload) if payload.len() > object.len() => return Err(NOWHERE),
        Change::Whole(payload) => {
            object.begin_install();
            object.put(0, payload);
        }
        Change::Ranges(base, ranges) => {
            if header.timestamp() != base {
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
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fencepost_storage::Private;
    use proptest::strategy::Strategy;

    use super::*;
    use crate::network::message;

    const REGION: RegionId = RegionId(1);

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
        message::begin_backup(&mut record, id, Timestamp::from_raw(w), &[1]);
        let about = (slot(words, at), Kind::New, class.0, 1);
        message::put_write(&mut record, about, words, |out| out.fill(value));
        let mut backup = Backup::default();
        backup.hold(regions, &record, None, true).expect("whole");
        backup.truncate(regions, changed, id).expect("applies");
    }

    /// With a backup that is reserved.
    fn regions() -> Regions {
        let regions = Regions::with(16 << 20, Arc::new(Private));
        regions.reserve(REGION, false).expect("memory");
        regions
    }

    /// Every value has a slot of its own.
    fn slot(words: usize, value: u64) -> Addr {
        let block = BlockId {
            region: REGION,
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
        let regions = regions();
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

    /// A transaction of a chain: its timestamp, and which of two objects it overwrites, wholly or in ranges, or
    /// frees.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Whole(usize),
        Words(usize, usize, usize),
        Both(usize),
        Freed(usize),
    }

    const OBJECT_WORDS: usize = 60;

    /// The records of a chain, and what both objects are at its end.
    fn chain(steps: &[Step]) -> (Vec<Vec<u64>>, [Option<Vec<u64>>; 2]) {
        let class = Class::for_payload(OBJECT_WORDS).expect("fits a block");
        let mut objects: [(u64, Option<Vec<u64>>); 2] = [(0, None), (0, None)];
        let mut records = Vec::new();
        for (step, w) in steps.iter().zip(10u64..) {
            let mut record = Vec::new();
            message::begin_backup(&mut record, id_of(w), Timestamp::from_raw(w), &[1]);
            let (which, words) = match *step {
                Step::Whole(object) | Step::Freed(object) => (vec![object], 0..OBJECT_WORDS),
                Step::Words(object, from, count) => {
                    (vec![object], from..(from + count).min(OBJECT_WORDS))
                }
                Step::Both(from) => (vec![0, 1], from..from + 3),
            };
            for object in which {
                let (version, there) = &mut objects[object];
                let addr = slot(OBJECT_WORDS, object as u64);
                let about = |kind| (addr, kind, class.0, 1);
                let before = there.clone();
                let new = there.get_or_insert_with(|| vec![0; OBJECT_WORDS]);
                new[words.clone()].fill(w);
                let freed = matches!(step, Step::Freed(_)) && before.is_some();
                let ranges = |out: &mut Vec<u64>| {
                    out.push(*version);
                    let before = before.as_deref().filter(|_| !freed);
                    before.is_some_and(|before| {
                        changes::put_if_less(out, new, &fencepost_storage::View::Own(before))
                    })
                };
                if !message::put_write_of(&mut record, about(Kind::Ranges), ranges) {
                    match freed {
                        true => message::put_write(&mut record, about(Kind::Freed), 0, |_| ()),
                        false => {
                            let copy = |out: &mut [u64]| out.copy_from_slice(new);
                            message::put_write(&mut record, about(Kind::New), OBJECT_WORDS, copy);
                        }
                    }
                }
                if freed {
                    *there = None;
                }
                *version = w;
            }
            records.push(record);
        }
        (records, objects.map(|(_, there)| there))
    }

    fn id_of(w: u64) -> TxnId {
        TxnId {
            configuration: 1,
            machine: 2,
            thread: 0,
            local: w,
        }
    }

    proptest::proptest! {
        #[test]
        fn in_whatever_order_a_chain_is_truncated_its_end_is_there(
            steps in proptest::collection::vec(
                proptest::prop_oneof![
                    2 => (0..2usize).prop_map(Step::Whole),
                    8 => (0..2usize, 0..OBJECT_WORDS, 1..20usize).prop_map(|(o, f, c)| Step::Words(o, f, c)),
                    3 => (0..50usize).prop_map(Step::Both),
                    1 => (0..2usize).prop_map(Step::Freed),
                ],
                1..14,
            ),
            order in proptest::collection::vec(proptest::prelude::any::<u32>(), 14),
        ) {
            let (records, end) = chain(&steps);
            let regions = regions();
            let changed = Changed::default();
            // Every third transaction is of the same coordinator's machine.
            let mut backups: [Backup; 3] = Default::default();
            for (at, record) in records.iter().enumerate() {
                backups[at % 3].hold(&regions, record, None, true).expect("whole");
            }
            let mut turns: Vec<usize> = (0..records.len()).collect();
            turns.sort_by_key(|at| order[*at]);
            for at in turns {
                let id = id_of(10 + at as u64);
                backups[at % 3].truncate(&regions, &changed, id).expect("applies");
                for backup in &mut backups {
                    backup.look_again(&regions, &changed).expect("applies");
                }
            }
            // What one of them has applied another may have waited for.
            while backups.iter().any(|backup| backup.left() > 0) {
                let before = changed.applied.load(Ordering::Relaxed);
                for backup in &mut backups {
                    backup.look_again(&regions, &changed).expect("applies");
                }
                let after = changed.applied.load(Ordering::Relaxed);
                proptest::prop_assert!(after > before, "something waits for ever");
            }
            for (object, end) in end.iter().enumerate() {
                let there = regions.backup(slot(OBJECT_WORDS, object as u64));
                let there = there.filter(|there| there.header().is_allocated());
                let words = there.map(|there| (0..OBJECT_WORDS).map(|at| there.word(at)).collect());
                proptest::prop_assert_eq!(&words, end);
            }
        }
    }

    #[test]
    fn what_waits_for_a_version_keeps_its_records_until_that_comes() {
        let (records, end) = chain(&[Step::Whole(0), Step::Words(0, 5, 2), Step::Words(0, 9, 1)]);
        let regions = regions();
        let changed = Changed::default();
        let mut backup = Backup::default();
        for record in &records {
            backup.hold(&regions, record, None, true).expect("whole");
        }
        for w in [12, 11] {
            assert!(matches!(
                backup.truncate(&regions, &changed, id_of(w)),
                Ok(None)
            ));
            assert!(regions.backup(slot(OBJECT_WORDS, 0)).is_none());
        }
        assert_eq!(backup.left(), 3);
        let awaits =
            |among: &dyn Fn(RegionId) -> bool| backup.awaits_versions(&regions, &changed, among);
        assert!(awaits(&|region| region == REGION));
        assert!(!awaits(&|region| region != REGION), "no other region waits");
        assert!(matches!(
            backup.truncate(&regions, &changed, id_of(10)),
            Ok(Some(_))
        ));
        assert_eq!(backup.left(), 2);
        backup.look_again(&regions, &changed).expect("applies");
        assert_eq!(backup.left(), 0);
        let there = regions.backup(slot(OBJECT_WORDS, 0)).expect("a slot");
        let words: Vec<u64> = (0..OBJECT_WORDS).map(|at| there.word(at)).collect();
        assert_eq!(Some(words), end[0]);
    }

    #[test]
    fn ranges_of_a_version_that_never_was_are_refused() {
        let (records, _) = chain(&[Step::Whole(0), Step::Words(0, 5, 2)]);
        let regions = regions();
        let changed = Changed::default();
        let mut backup = Backup::default();
        let mut wrong = records[1].clone();
        // The base, one earlier than the first version.
        wrong[message::BACKUP_WORDS + 1 + message::WRITE_WORDS] = 9;
        for record in [&records[0], &wrong] {
            backup.hold(&regions, record, None, true).expect("whole");
        }
        backup
            .truncate(&regions, &changed, id_of(10))
            .expect("applies");
        assert!(backup.truncate(&regions, &changed, id_of(11)).is_err());
    }

    #[test]
    fn what_is_truncated_late_applies_to_its_own_life_of_a_block_alone() {
        const SMALL: usize = 3;
        const LARGE: usize = 40;
        let regions = regions();
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
