//! A primary's handling of a peer's transactions (SOSP'15 §4): LOCK takes the locks and answers,
//! COMMIT-PRIMARY installs the new versions, ABORT releases the locks.
//!
//! # Invariants
//! * PRIMARY-1: a lock that was taken for a peer's transaction is held until its COMMIT-PRIMARY or
//!   ABORT has been processed. They arrive in the same log, in order.
//! * PRIMARY-2: the records stay in the log until the transaction is truncated. Records of a
//!   transaction whose COMMIT-BACKUP is sent in parts are copied out of the log.
//! * PRIMARY-3: the new value of an object is here before any COMMIT-PRIMARY of the transaction is
//!   written. It is in the LOCK, or in the LOCK-MOVED that is acknowledged before. COMMIT-PRIMARY
//!   tells only that the transaction commits, and its timestamp. Recovery may commit a transaction
//!   whose LOCK-MOVED was lost: the values that backups have are supplied first.
//! * PRIMARY-4: a new object goes into a slot that is leased to the peer and is not allocated. The
//!   slot is locked like other objects, so a reader that finds a pointer to it too early waits.

use std::collections::HashMap;

use fencepost_cluster::few::FewSet;
use fencepost_fabric::{HeldRecord, MachineId};
use fencepost_storage::header::{Header, LinkWord, OldVersionPtr};
use fencepost_storage::lanes::Lane;
use fencepost_storage::old_versions::ReplacedVersion;
use fencepost_storage::{Addr, Timestamp};
use foldhash::fast::FixedState;

use super::evidence::{self, EvidenceByTransaction, put_content};
use super::message::{Kind, LockReply, Slot, Value, WordReader, Write};
use super::remote_lock_wait::holder_at_peer;
use super::slot_leases::SlotLeases;
use crate::changes;
use crate::fault::{self, Fault};
use crate::intent::Strength;
use crate::machine::Machine;
use crate::record::{BadRecord, TxnId};
use crate::recovery::Evidence;
use crate::stop::AbortReason;

/// Bytes of each object that are prefetched before the first is locked.
const PREFETCH_BYTES: usize = 64;

/// An object that is locked for a peer's transaction.
struct LockedObject {
    addr: Addr,
    base: Header,
    kind: Kind,
    /// The slot that the object has after the commit.
    slot: Slot,
    /// For a new object: the address of the object it is split from, or null.
    split_of: Addr,
    /// The index of the word that becomes the write timestamp.
    stamped: Option<usize>,
    payload: ValueLocation,
}

impl LockedObject {
    /// Describes the lock of a write: the slot and base version that were found, and the word of
    /// the record where its value ends.
    fn of(
        write: &Write<'_>,
        (mut slot, base): (Slot, Header),
        split_of: Addr,
        end: usize,
    ) -> LockedObject {
        let new = u16::from(write.kind == Kind::New);
        slot.incarnation = slot.incarnation.wrapping_add(new);
        let words = write.payload.len();
        // Ranges may be empty: then the object does not change.
        let follows = write.kind == Kind::Patched && words == 0;
        let moved = write.kind.is_patched() && base != Header(write.about).unlocked();
        LockedObject {
            addr: write.addr,
            base,
            kind: write.kind,
            slot,
            split_of,
            stamped: usize::from(write.class).checked_sub(1),
            payload: match moved || follows {
                true => ValueLocation::Awaited,
                false => ValueLocation::Locked(end - words, words),
            },
        }
    }
}

/// The place of an object's new value: first word and number of words.
#[derive(Clone, Copy)]
enum ValueLocation {
    /// In the LOCK record.
    Locked(usize, usize),
    /// In LOCK-MOVED, which has not arrived yet.
    Awaited,
    /// In LOCK-MOVED, as a whole value.
    Moved(usize, usize),
    /// In LOCK-MOVED, as ranges.
    MovedRanges(usize, usize),
}

/// A transaction that holds locks here.
struct LockingTransaction {
    held: Vec<LockedObject>,
    record: Vec<u64>,
    /// The LOCK-MOVED record, empty if none has arrived.
    moved: Vec<u64>,
}

/// The transactions of one peer that write objects whose primary is this machine.
#[derive(Default)]
pub(super) struct Primary {
    locked: HashMap<TxnId, LockingTransaction, FixedState>,
    /// Committed transactions that are not truncated, with their write timestamps.
    committed: HashMap<TxnId, (LockingTransaction, Timestamp), FixedState>,
    /// Log reservations of records that stay until truncation.
    held_records: HashMap<TxnId, Vec<HeldRecord>, FixedState>,
    /// Slots leased to the peer for new objects.
    pub slot_leases: SlotLeases,
}

impl Primary {
    /// Handles LOCK: takes all locks, or none.
    pub fn lock(
        &mut self,
        machine: &Machine,
        record: &[u64],
        held_record: Option<HeldRecord>,
    ) -> Result<(TxnId, LockReply, Option<HeldRecord>), BadRecord> {
        let mut reader = WordReader(record);
        let id = reader.id()?;
        reader.skip_regions()?;
        let mut ahead = WordReader(reader.0);
        while let Some(write) = ahead.write()? {
            machine.regions().prefetch(write.addr, PREFETCH_BYTES);
        }
        let (mut held, mut found) = (Vec::new(), Vec::new());
        let mut failed = None;
        while let Some(mut write) = reader.write()? {
            let mut split_of = Addr::NULL;
            if write.kind == Kind::New {
                let (split, payload) = write.payload.split_first().ok_or(NO_SPLIT)?;
                (split_of, write.payload) = (Addr::from_raw(*split), payload);
            }
            let slot = Slot::of(machine.regions(), write.addr);
            let slot = slot.ok_or(AbortReason::WriteConflict);
            match slot.and_then(|slot| Ok((slot, self.take_lock(machine, &write)?))) {
                Ok((slot, base)) => {
                    found.push(slot.word());
                    if write.kind.is_patched() {
                        found.push(base.0);
                    }
                    let end = record.len() - reader.0.len();
                    held.push(LockedObject::of(&write, (slot, base), split_of, end));
                    if gives_way(machine, id, &write) {
                        failed = Some((AbortReason::IntentHeld, write.addr));
                        break;
                    }
                }
                Err(reason) => {
                    failed = Some((reason, write.addr));
                    break;
                }
            }
        }
        if let Some((reason, addr)) = failed {
            unlock(machine, &held);
            return Ok((id, LockReply::Failed(reason, addr), held_record));
        }
        let record = record.to_vec();
        let moved = Vec::new();
        self.locked.insert(
            id,
            LockingTransaction {
                held,
                record,
                moved,
            },
        );
        self.held_records.entry(id).or_default().extend(held_record);
        Ok((id, LockReply::Locked(found), None))
    }

    /// Takes the lock of an object to be written. A new object needs a slot that is leased to the
    /// peer.
    fn take_lock(&self, machine: &Machine, write: &Write<'_>) -> Result<Header, AbortReason> {
        match write.kind == Kind::New && !self.slot_leases.has(write.addr) {
            true => Err(AbortReason::WriteConflict),
            false => take_lock(machine, write),
        }
    }

    /// Handles LOCK-MOVED: takes the new values of patched nodes whose values in LOCK cannot be
    /// used. Returns the log reservation if it may be released.
    pub fn lock_moved(
        &mut self,
        machine: &Machine,
        record: &[u64],
        held_record: HeldRecord,
    ) -> Result<Option<HeldRecord>, BadRecord> {
        let mut reader = WordReader(record);
        let id = reader.id()?;
        let locked = self.locked.get_mut(&id);
        let locked = locked.filter(|locked| locked.moved.is_empty());
        let locked = locked.ok_or(BadRecord(
            "LOCK-MOVED without a LOCK, or for the second time",
        ))?;
        while let Some((addr, value)) = reader.moved()? {
            let awaits = |held: &&mut LockedObject| held.addr == addr && held.kind.is_patched();
            let held = locked.held.iter_mut().find(awaits);
            let held = held.ok_or(BadRecord("LOCK-MOVED of what was not locked so"))?;
            let object = machine.regions().own_object(addr);
            let capacity = object.map_or(0, |object| object.len());
            let end = record.len() - reader.0.len();
            held.payload = match value {
                Value::Whole(words) if words.len() > capacity => {
                    return Err(BadRecord("a value that is longer than its object"));
                }
                Value::Whole(words) => ValueLocation::Moved(end - words.len(), words.len()),
                Value::Ranges(words) => {
                    changes::check(words, capacity)?;
                    ValueLocation::MovedRanges(end - words.len(), words.len())
                }
            };
        }
        locked.moved = record.to_vec();
        let with_lock = self
            .held_records
            .get_mut(&id)
            .filter(|records| !records.is_empty());
        let Some(records) = with_lock else {
            return Ok(Some(held_record));
        };
        records.push(held_record);
        Ok(None)
    }

    /// Handles COMMIT-PRIMARY: keeps the old versions first, then installs the new ones in place of
    /// the locks.
    pub fn commit(
        &mut self,
        machine: &Machine,
        lane: usize,
        record: &[u64],
        held_record: HeldRecord,
    ) -> Result<(), BadRecord> {
        let mut reader = WordReader(record);
        let (id, w) = (reader.id()?, reader.timestamp()?);
        let locked = self.locked.remove(&id);
        let locked = locked.ok_or(BadRecord("COMMIT-PRIMARY without a LOCK"))?;
        self.put_in_place(machine, lane, &locked, w)?;
        self.held_records.entry(id).or_default().push(held_record);
        self.committed.insert(id, (locked, w));
        Ok(())
    }

    /// Supplies values that recovery has found on other machines, encoded as in
    /// [`super::evidence`]. LOCK-MOVED may be missing here although backups have COMMIT-BACKUP.
    pub fn supply(
        &mut self,
        machine: &Machine,
        id: TxnId,
        content: &[u64],
    ) -> Result<(), BadRecord> {
        let Some(locked) = self.locked.get_mut(&id) else {
            return Ok(());
        };
        let mut reader = WordReader(content);
        while let Some(write) = reader.write()? {
            let awaits = |held: &&mut LockedObject| {
                held.addr == write.addr && matches!(held.payload, ValueLocation::Awaited)
            };
            let Some(held) = locked.held.iter_mut().find(awaits) else {
                continue;
            };
            let object = machine.regions().object(held.addr);
            let capacity = object.map_or(0, |object| object.len());
            let (from, mut payload) = (locked.moved.len(), WordReader(write.payload));
            held.payload = match write.kind {
                // The coordinator that wrote the COMMIT-BACKUP knew which version was locked.
                Kind::Ranges if payload.timestamp()? != held.base.timestamp() => continue,
                Kind::Ranges => {
                    changes::check(payload.0, capacity)?;
                    ValueLocation::MovedRanges(from, payload.0.len())
                }
                _ if payload.0.len() > capacity => continue,
                _ => ValueLocation::Moved(from, payload.0.len()),
            };
            locked.moved.extend_from_slice(payload.0);
        }
        Ok(())
    }

    /// Carries out the decision of recovery: the transaction takes effect at `w`, or has no effect.
    /// Its records stay. Does nothing if the decision was carried out before.
    pub fn apply_decision(
        &mut self,
        machine: &Machine,
        lane: usize,
        id: TxnId,
        w: Option<Timestamp>,
    ) {
        let Some(locked) = self.locked.remove(&id) else {
            return;
        };
        // With a missing value the transaction cannot have committed: a value known on other
        // machines has been supplied.
        let whole = || locked.held.iter().all(|held| locked.value(held).is_ok());
        let Some(w) = w.filter(|_| whole()) else {
            return unlock(machine, &locked.held);
        };
        if self.put_in_place(machine, lane, &locked, w).is_ok() {
            self.committed.insert(id, (locked, w));
        }
    }

    fn put_in_place(
        &mut self,
        machine: &Machine,
        lane: usize,
        locked: &LockingTransaction,
        w: Timestamp,
    ) -> Result<(), BadRecord> {
        let held = &locked.held;
        let mut lane = machine.lanes().enter(lane);
        let places: Vec<OldVersionPtr> = held
            .iter()
            .map(|held| keep_old(machine, &mut lane, held, w))
            .collect();
        let before = OldVersionPtrs::of(held, &places);
        for (held, place) in held.iter().zip(&places) {
            let value = locked.value(held)?;
            let place = match held.kind == Kind::New {
                true => {
                    self.slot_leases.used(held.addr);
                    before.place(machine, held.split_of)
                }
                false => *place,
            };
            install(machine, held, value, place, w);
            if held.kind == Kind::Freed {
                lane.retire(held.addr, w);
            }
        }
        Ok(())
    }

    /// Handles ABORT: releases the locks and returns the log reservations to release.
    pub fn abort(&mut self, machine: &Machine, id: TxnId) -> Vec<HeldRecord> {
        if let Some(locked) = self.locked.remove(&id) {
            unlock(machine, &locked.held);
        }
        self.truncate(id)
    }

    /// Handles TRUNCATE: returns the log reservations to release.
    pub fn truncate(&mut self, id: TxnId) -> Vec<HeldRecord> {
        self.committed.remove(&id);
        self.held_records.remove(&id).unwrap_or_default()
    }

    /// Adds the evidence of transactions that are not truncated to `found`.
    pub fn find(&self, found: &mut EvidenceByTransaction) {
        let locked = self.locked.iter().map(|(id, locked)| (id, locked, None));
        let committed = self.committed.iter();
        let committed = committed.map(|(id, (locked, w))| (id, locked, Some(*w)));
        for (id, locked, w) in locked.chain(committed) {
            // The record was checked when it arrived.
            let mut reader = WordReader(&locked.record[TxnId::WORDS..]);
            let Ok(written) = evidence::written(&mut reader) else {
                continue;
            };
            let evidence = match w {
                Some(_) => Evidence::LOCK.and(Evidence::COMMIT_PRIMARY),
                None => Evidence::LOCK,
            };
            let regions: FewSet<u32> = locked.held.iter().map(LockedObject::region).collect();
            for region in regions
                .into_iter()
                .filter(|region| locked.has_values(*region))
            {
                found.add((*id, region), evidence, &written, w);
            }
        }
    }

    /// Returns the writes of one transaction to a region.
    pub fn content(&self, id: TxnId, region: u32) -> Option<Vec<u64>> {
        let committed = self.committed.get(&id).map(|(locked, _)| locked);
        let locked = self.locked.get(&id).or(committed)?;
        let mut content = Vec::new();
        locked.put_content(&mut content, |held| held.region() == region)?;
        (!content.is_empty()).then_some(content)
    }

    /// Returns the id, all written regions and the local writes of a transaction that holds locks.
    /// `None` while some new value is missing.
    pub fn prepared(&self, id: TxnId) -> Option<Vec<u64>> {
        let locked = self.locked.get(&id)?;
        let mut reader = WordReader(&locked.record);
        reader.id().ok()?;
        reader.skip_regions().ok()?;
        let mut words = locked.record[..locked.record.len() - reader.0.len()].to_vec();
        locked.put_content(&mut words, |_| true)?;
        Some(words)
    }

    /// Returns the transactions of configurations before `current` that have state here.
    pub fn before(&self, current: u64) -> Vec<TxnId> {
        let ids = self.locked.keys().chain(self.held_records.keys());
        let ids = ids.chain(self.committed.keys()).copied();
        ids.filter(|id| id.configuration < current).collect()
    }

    /// Returns how many transactions hold locks, and how many have records here.
    pub fn left(&self) -> (usize, usize) {
        (self.locked.len(), self.held_records.len())
    }
}

impl LockedObject {
    fn region(&self) -> u32 {
        self.addr.region().0
    }
}

impl LockingTransaction {
    /// Returns whether the new values of all objects of a region are known.
    fn has_values(&self, region: u32) -> bool {
        let mut held = self.held.iter().filter(|held| held.region() == region);
        held.all(|held| !matches!(held.payload, ValueLocation::Awaited))
    }

    /// Appends the new values of the objects that `which` accepts; `None` if one is not known.
    fn put_content(&self, out: &mut Vec<u64>, which: impl Fn(&LockedObject) -> bool) -> Option<()> {
        for held in self.held.iter().filter(|held| which(held)) {
            let value = match held.kind {
                Kind::Freed => None,
                _ => Some(self.value(held).ok()?),
            };
            let about = (held.addr, held.kind, held.slot);
            let base = held.base.timestamp();
            put_content(out, about, base, value, held.stamped);
        }
        Some(())
    }

    /// Returns the new value of an object.
    fn value(&self, held: &LockedObject) -> Result<Value<'_>, BadRecord> {
        let (record, from, words, ranges) = match held.payload {
            ValueLocation::Awaited => return Err(BadRecord("COMMIT-PRIMARY without a value")),
            ValueLocation::Locked(from, words) => {
                (&self.record, from, words, held.kind.is_ranges())
            }
            ValueLocation::Moved(from, words) => (&self.moved, from, words, false),
            ValueLocation::MovedRanges(from, words) => (&self.moved, from, words, true),
        };
        // The range was checked when the record arrived.
        let value = record.get(from..from + words).unwrap_or_default();
        Ok(match ranges {
            true => Value::Ranges(value),
            false => Value::Whole(value),
        })
    }
}

/// The places of the old versions that new objects of the same commit continue.
struct OldVersionPtrs(HashMap<Addr, OldVersionPtr, FixedState>);

impl OldVersionPtrs {
    fn of(held: &[LockedObject], places: &[OldVersionPtr]) -> OldVersionPtrs {
        let splits = held.iter().any(|held| !held.split_of.is_null());
        let all = held.iter().zip(places).filter(|_| splits);
        OldVersionPtrs(all.map(|(held, place)| (held.addr, *place)).collect())
    }

    /// Returns the place of the version, before this commit, of the object that a new one is split
    /// from.
    fn place(&self, machine: &Machine, split_of: Addr) -> OldVersionPtr {
        let lost = match split_of.is_null() || machine.regions().is_own(split_of) {
            true => OldVersionPtr::NONE,
            // The old version at another machine cannot be reached from here.
            false => OldVersionPtr::LOST,
        };
        self.0.get(&split_of).copied().unwrap_or(lost)
    }
}

const NO_SPLIT: BadRecord = BadRecord("a new object does not say what it is split of");

/// Returns whether a write gives way to the intent of another transaction.
fn gives_way(machine: &Machine, id: TxnId, write: &Write<'_>) -> bool {
    let strength = match write.kind {
        Kind::Freed => Strength::Update,
        _ => Strength::NoKeyUpdate,
    };
    let holder = holder_at_peer(MachineId(id.machine), u64::from(id.thread));
    write.gives_way && machine.intents().is_others(write.addr, holder, strength)
}

fn take_lock(machine: &Machine, write: &Write<'_>) -> Result<Header, AbortReason> {
    let object = machine.regions().own_object(write.addr);
    let object = object.ok_or(AbortReason::WriteConflict)?;
    let fits = match write.kind.is_ranges() {
        true => changes::check(write.payload, object.len()).is_ok(),
        false => write.payload.len() <= object.len(),
    };
    if !fits || usize::from(write.class) > object.len() {
        return Err(AbortReason::WriteConflict);
    }
    let patched = write.kind.is_patched();
    let mut expected = match patched {
        true => object.header(),
        false => Header(write.about).unlocked(),
    };
    if write.kind == Kind::New && expected.is_allocated() {
        return Err(AbortReason::WriteConflict);
    }
    // A freed node must be looked up again, and its slot may soon hold another object.
    if patched && !expected.is_allocated() {
        return Err(AbortReason::WriteConflict);
    }
    loop {
        match object.try_lock(expected.unlocked()) {
            Ok(()) => return Ok(expected.unlocked()),
            Err(there) if there.is_locked() => return Err(AbortReason::LockBusy),
            Err(there)
                if (patched || fault::injected(Fault::LockAnyVersion)) && there.is_allocated() =>
            {
                expected = there;
            }
            Err(_) => return Err(AbortReason::WriteConflict),
        }
    }
}

fn unlock(machine: &Machine, held: &[LockedObject]) {
    for held in held {
        if let Some(object) = machine.regions().own_object(held.addr) {
            object.unlock(held.base);
        }
    }
}

fn keep_old(
    machine: &Machine,
    lane: &mut Lane,
    held: &LockedObject,
    w: Timestamp,
) -> OldVersionPtr {
    let object = machine.regions().own_object(held.addr);
    let Some(object) = object.filter(|_| held.kind != Kind::New) else {
        return OldVersionPtr::NONE;
    };
    let version = ReplacedVersion {
        header: held.base,
        before: object.link().place(),
        payload_words: object.len(),
        at: w,
    };
    machine.keep_old_version(lane, version, object)
}

fn install(
    machine: &Machine,
    held: &LockedObject,
    value: Value<'_>,
    place: OldVersionPtr,
    w: Timestamp,
) {
    let Some(object) = machine.regions().own_object(held.addr) else {
        return;
    };
    let new = u16::from(held.kind == Kind::New);
    let incarnation = object.link().incarnation().wrapping_add(new);
    object.begin_install();
    let freed = held.kind == Kind::Freed;
    match value {
        _ if freed => {}
        Value::Whole(payload) => object.put(0, payload),
        Value::Ranges(ranges) => changes::install(object, ranges),
    }
    if let Some(word) = held.stamped.filter(|_| !freed) {
        object.put(word, &[w.raw()]);
    }
    object.finish_install(
        held.base.succeed(w, !freed),
        LinkWord::new(incarnation, place),
    );
}
