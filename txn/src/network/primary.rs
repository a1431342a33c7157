//! What a primary does with the records of a peer's transactions (SOSP'15 §4): LOCK takes the locks
//! and answers, COMMIT-PRIMARY puts the new versions in place, ABORT gives the locks back.
//!
//! # Invariants
//! * PRIMARY-1: a lock that was taken for a peer's transaction is held until its COMMIT-PRIMARY or
//!   ABORT has been processed; they come from the same log, in order.
//! * PRIMARY-2: the records stay in the log until the transaction is truncated; those of one whose
//!   COMMIT-BACKUP comes in parts are copied out of it.

use std::collections::HashMap;

use fencepost_fabric::Kept;
use fencepost_storage::header::{Header, Link, OldPlace};
use fencepost_storage::lanes::Lane;
use fencepost_storage::old_versions::Replaced;
use fencepost_storage::{Addr, Timestamp};
use foldhash::fast::FixedState;

use super::message::{Kind, LockReply, Reader, Slot, Write};
use crate::machine::Machine;
use crate::record::{BadRecord, TxnId};
use crate::stop::AbortReason;

/// An object that is locked for a peer's transaction.
struct Held {
    addr: Addr,
    base: Header,
    kind: Kind,
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
        while let Some(write) = reader.write()? {
            match take_lock(machine, &write) {
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
        for (held, place) in held.iter().zip(places) {
            let payload = match held.kind {
                Kind::Late | Kind::Patched => match reader.late()? {
                    Some((addr, payload)) if addr == held.addr => payload,
                    _ => return Err(BadRecord("COMMIT-PRIMARY without a value")),
                },
                _ => &record[held.payload.0..held.payload.0 + held.payload.1],
            };
            install(machine, held, payload, place, w);
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

fn take_lock(machine: &Machine, write: &Write<'_>) -> Result<Header, AbortReason> {
    let own = machine.regions().is_own(write.addr);
    let object = machine.regions().object(write.addr).filter(|_| own);
    let object = object.ok_or(AbortReason::WriteConflict)?;
    if write.payload.len() > object.len() {
        return Err(AbortReason::WriteConflict);
    }
    let mut expected = match write.kind {
        Kind::Patched => object.header(),
        _ => Header(write.about).unlocked(),
    };
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
    let Some(object) = machine.regions().object(held.addr) else {
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

fn install(machine: &Machine, held: &Held, payload: &[u64], place: OldPlace, w: Timestamp) {
    let Some(object) = machine.regions().object(held.addr) else {
        return;
    };
    let incarnation = object.link().incarnation();
    object.begin_install();
    let freed = held.kind == Kind::Freed;
    if !freed {
        object.put(0, payload);
    }
    object.finish_install(held.base.succeed(w, !freed), Link::new(incarnation, place));
}
