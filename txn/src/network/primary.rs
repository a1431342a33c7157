//! What a primary does with the records of a peer's transactions (SOSP'15 §4): LOCK takes the locks
//! and answers, COMMIT-PRIMARY puts the new versions in place, ABORT gives the locks back.
//!
//! # Invariants
//! * PRIMARY-1: a lock that was taken for a peer's transaction is held until its COMMIT-PRIMARY or
//!   ABORT has been processed; they come from the same log, in order.
//! * PRIMARY-2: the records stay in the log until the transaction is truncated; those of one whose
//!   COMMIT-BACKUP comes in parts are copied out of it.
//! * PRIMARY-3: a new object comes into a slot that was lent to the peer and is not allocated; it is locked as
//!   others are, so whoever finds a pointer to it before it is there waits.

use std::collections::HashMap;

use fencepost_fabric::Kept;
use fencepost_storage::header::{Header, Link, OldPlace};
use fencepost_storage::lanes::Lane;
use fencepost_storage::old_versions::Replaced;
use fencepost_storage::{Addr, Timestamp};
use foldhash::fast::FixedState;

use super::changes;
use super::lent::Lent;
use super::message::{Kind, LockReply, Reader, Slot, Value, Write};
use crate::machine::Machine;
use crate::record::{BadRecord, TxnId};
use crate::stop::AbortReason;

/// An object that is locked for a peer's transaction.
struct Held {
    addr: Addr,
    base: Header,
    kind: Kind,
    /// Of a new object: what it is split of, or null.
    split_of: Addr,
    /// Where the payload is in the LOCK record: first word and words.
    payload: (usize, usize),
}

/// A transaction that holds locks here.
struct Locked {
    held: Vec<Held>,
    record: Vec<u64>,
}

/// The transactions of one peer that write objects whose primary is this machine.
#[derive(Default)]
pub(super) struct Primary {
    locked: HashMap<TxnId, Locked, FixedState>,
    /// Records that stay until truncation.
    kept: HashMap<TxnId, Vec<Kept>, FixedState>,
    /// Slots for objects that they make.
    pub lent: Lent,
}

impl Primary {
    /// LOCK: takes all locks, or none.
    pub fn lock(
        &mut self,
        machine: &Machine,
        record: &[u64],
        kept: Option<Kept>,
    ) -> Result<(TxnId, LockReply, Option<Kept>), BadRecord> {
        let mut reader = Reader(record);
        let id = reader.id()?;
        reader.skip_regions()?;
        let (mut held, mut found) = (Vec::new(), Vec::new());
        let mut failed = None;
        while let Some(mut write) = reader.write()? {
            let mut split_of = Addr::NULL;
            if write.kind.is_new() {
                let (split, payload) = write.payload.split_first().ok_or(NO_SPLIT)?;
                (split_of, write.payload) = (Addr::from_raw(*split), payload);
            }
            match self.take_lock(machine, &write) {
                Ok(base) => {
                    let slot = Slot::of(machine.regions(), write.addr);
                    found.push(slot.map_or(0, Slot::word));
                    if write.kind == Kind::Patched {
                        found.push(base.0);
                    }
                    let end = record.len() - reader.0.len();
                    held.push(Held {
                        addr: write.addr,
                        base,
                        kind: write.kind,
                        split_of,
                        payload: (end - write.payload.len(), write.payload.len()),
                    });
                }
                Err(reason) => {
                    failed = Some((reason, write.addr));
                    break;
                }
            }
        }
        if let Some((reason, addr)) = failed {
            unlock(machine, &held);
            return Ok((id, LockReply::Failed(reason, addr), kept));
        }
        let record = record.to_vec();
        self.locked.insert(id, Locked { held, record });
        self.kept.entry(id).or_default().extend(kept);
        Ok((id, LockReply::Locked(found), None))
    }

    /// Takes the lock of an object that is to be written; of a new one, if the slot is the peer's for that.
    fn take_lock(&self, machine: &Machine, write: &Write<'_>) -> Result<Header, AbortReason> {
        match write.kind.is_new() && !self.lent.has(write.addr) {
            true => Err(AbortReason::WriteConflict),
            false => take_lock(machine, write),
        }
    }

    /// COMMIT-PRIMARY: old versions first, then the new ones in place of the locks.
    pub fn commit(
        &mut self,
        machine: &Machine,
        lane: usize,
        record: &[u64],
        kept: Kept,
    ) -> Result<(), BadRecord> {
        let mut reader = Reader(record);
        let (id, w) = (reader.id()?, reader.timestamp()?);
        let locked = self.locked.remove(&id);
        let Locked { held, record } = locked.ok_or(BadRecord("COMMIT-PRIMARY without a LOCK"))?;
        let mut lane = machine.lanes().enter(lane);
        let places: Vec<OldPlace> = held
            .iter()
            .map(|held| keep_old(machine, &mut lane, held, w))
            .collect();
        let before = Before::of(&held, &places);
        for (held, place) in held.iter().zip(&places) {
            let payload = &record[held.payload.0..held.payload.0 + held.payload.1];
            let value = match held.kind {
                Kind::Late | Kind::Patched | Kind::LateNew => {
                    late_value(machine, held, &mut reader)?
                }
                Kind::Ranges => Value::Ranges(payload),
                Kind::Whole | Kind::New | Kind::Freed => Value::Whole(payload),
            };
            let place = match held.kind.is_new() {
                true => {
                    self.lent.used(held.addr);
                    before.place(machine, held.split_of)
                }
                false => *place,
            };
            install(machine, held, value, place, w);
            if held.kind == Kind::Freed {
                lane.retire(held.addr, w);
            }
        }
        self.kept.entry(id).or_default().push(kept);
        Ok(())
    }

    /// ABORT: the locks are given back; the records that may be released.
    pub fn abort(&mut self, machine: &Machine, id: TxnId) -> Vec<Kept> {
        if let Some(locked) = self.locked.remove(&id) {
            unlock(machine, &locked.held);
        }
        self.truncate(id)
    }

    /// TRUNCATE: the records that may be released.
    pub fn truncate(&mut self, id: TxnId) -> Vec<Kept> {
        self.kept.remove(&id).unwrap_or_default()
    }

    /// Transactions that hold locks, and that have records here.
    pub fn left(&self) -> (usize, usize) {
        (self.locked.len(), self.kept.len())
    }
}

/// Where old versions are that new objects of the same commit continue.
struct Before(HashMap<Addr, OldPlace, FixedState>);

impl Before {
    fn of(held: &[Held], places: &[OldPlace]) -> Before {
        let splits = held.iter().any(|held| !held.split_of.is_null());
        let all = held.iter().zip(places).filter(|_| splits);
        Before(all.map(|(held, place)| (held.addr, *place)).collect())
    }

    /// The place of the version before this commit of what an object is split of.
    fn place(&self, machine: &Machine, split_of: Addr) -> OldPlace {
        let lost = match split_of.is_null() || machine.regions().is_own(split_of) {
            true => OldPlace::NONE,
            // What was before at another machine cannot be found from here.
            false => OldPlace::LOST,
        };
        self.0.get(&split_of).copied().unwrap_or(lost)
    }
}

const NO_SPLIT: BadRecord = BadRecord("a new object does not say what it is split of");

fn take_lock(machine: &Machine, write: &Write<'_>) -> Result<Header, AbortReason> {
    let own = machine.regions().is_own(write.addr);
    let object = machine.regions().object(write.addr).filter(|_| own);
    let object = object.ok_or(AbortReason::WriteConflict)?;
    let fits = match write.kind {
        Kind::Ranges => changes::check(write.payload, object.len()).is_ok(),
        _ => write.payload.len() <= object.len(),
    };
    if !fits {
        return Err(AbortReason::WriteConflict);
    }
    let mut expected = match write.kind {
        Kind::Patched => object.header(),
        _ => Header(write.about).unlocked(),
    };
    if write.kind.is_new() && expected.is_allocated() {
        return Err(AbortReason::WriteConflict);
    }
    // A node that is gone is looked for elsewhere, and its slot may be another object's soon.
    if write.kind == Kind::Patched && !expected.is_allocated() {
        return Err(AbortReason::WriteConflict);
    }
    loop {
        match object.try_lock(expected.unlocked()) {
            Ok(()) => return Ok(expected.unlocked()),
            Err(there) if there.is_locked() => return Err(AbortReason::LockBusy),
            Err(there) if write.kind == Kind::Patched && there.is_allocated() => {
                expected = there;
            }
            Err(_) => return Err(AbortReason::WriteConflict),
        }
    }
}

fn unlock(machine: &Machine, held: &[Held]) {
    for held in held {
        if let Some(object) = machine.regions().object(held.addr) {
            object.unlock(held.base);
        }
    }
}

fn keep_old(machine: &Machine, lane: &mut Lane, held: &Held, w: Timestamp) -> OldPlace {
    let object = machine.regions().object(held.addr);
    let Some(object) = object.filter(|_| !held.kind.is_new()) else {
        return OldPlace::NONE;
    };
    let version = Replaced {
        header: held.base,
        before: object.link().place(),
        payload_words: object.len(),
        at: w,
    };
    machine.keep_old_version(lane, version, object)
}

/// What has come for an object with COMMIT-PRIMARY.
fn late_value<'a>(
    machine: &Machine,
    held: &Held,
    reader: &mut Reader<'a>,
) -> Result<Value<'a>, BadRecord> {
    let value = match reader.late()? {
        Some((addr, value)) if addr == held.addr => value,
        _ => return Err(BadRecord("COMMIT-PRIMARY without a value")),
    };
    if let Value::Ranges(ranges) = value {
        let object = machine.regions().object(held.addr);
        changes::check(ranges, object.map_or(0, |object| object.len()))?;
    }
    Ok(value)
}

fn install(machine: &Machine, held: &Held, value: Value<'_>, place: OldPlace, w: Timestamp) {
    let Some(object) = machine.regions().object(held.addr) else {
        return;
    };
    let new = u16::from(held.kind.is_new());
    let incarnation = object.link().incarnation().wrapping_add(new);
    object.begin_install();
    let freed = held.kind == Kind::Freed;
    match value {
        _ if freed => {}
        Value::Whole(payload) => object.put(0, payload),
        Value::Ranges(ranges) => changes::install(object, ranges),
    }
    object.finish_install(held.base.succeed(w, !freed), Link::new(incarnation, place));
}
