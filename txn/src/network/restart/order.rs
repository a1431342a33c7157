//! Installs the writes that take effect into regions of machines that have ended.
//!
//! In a primary's memory an object whose write was not installed is locked at its base version, or
//! is not allocated yet. An install that was interrupted is repeated. A backup has no locks: all
//! writes are applied by version, in order, as a running backup does ([`super::super::backup`]).

use fencepost_fabric::MachineId;
use fencepost_storage::header::{LinkWord, OldVersionPtr};
use fencepost_storage::region::Image;
use fencepost_storage::{ObjectRef, RegionId, Timestamp};

use super::Source;
use super::decide::{Change, DecidedWrites, Incarnation, NewValue};
use crate::changes;
use crate::record::BadRecord;

/// Installs all writes to a region that take effect.
pub fn install(
    decided: &DecidedWrites,
    region: RegionId,
    source: &Source<'_>,
) -> Result<(), (MachineId, BadRecord)> {
    let all = decided.changes.get(&region);
    for (w, machine, changes) in all.into_iter().flatten() {
        for change in changes {
            let done = match source.native {
                true => in_primary(source.image, change, *w),
                false => in_backup(source.image, change, *w),
            };
            done.map_err(|why| (*machine, why))?;
        }
    }
    Ok(())
}

fn in_primary(image: &Image, change: &Change, w: Timestamp) -> Result<(), BadRecord> {
    if change.is_installed(image, w) {
        return Ok(());
    }
    let waits = |object: &ObjectRef<'_>| {
        let header = object.header();
        // A coordinator does not lock a slot of its own machine while no pointer leads to it.
        header.is_locked() || change.new && !header.is_allocated()
    };
    let Some(object) = image.object(change.addr).filter(waits) else {
        return Ok(());
    };
    let held = object.link().incarnation();
    let incarnation = match change.incarnation {
        // If the slot has held other objects since, this write was installed before.
        Incarnation::Is(number)
            if held != number && !(change.new && held.wrapping_add(1) == number) =>
        {
            return Ok(());
        }
        Incarnation::Is(number) => number,
        Incarnation::Of { new } => held.wrapping_add(u16::from(new)),
    };
    put(object, change, w, incarnation)
}

fn in_backup(image: &Image, change: &Change, w: Timestamp) -> Result<(), BadRecord> {
    const NOWHERE: BadRecord = BadRecord("a write leads outside every block");
    let class = change.class.or_else(|| image.class_of(change.addr));
    let class = class.ok_or(NOWHERE)?;
    if image.class_of(change.addr) != Some(class) {
        // A block changes its class only after all its objects are freed.
        let before = image.newest_in_block(change.addr);
        if before > w || matches!(change.becomes, NewValue::Ranges(..)) {
            return Ok(());
        }
        image.put_anew(change.addr, class).map_err(|_| NOWHERE)?;
    }
    let object = image.object(change.addr).ok_or(NOWHERE)?;
    if object.header().timestamp() >= w {
        return Ok(());
    }
    let incarnation = match change.incarnation {
        Incarnation::Is(number) => number,
        Incarnation::Of { new } => object.link().incarnation().wrapping_add(u16::from(new)),
    };
    put(object, change, w, incarnation)
}

fn put(
    object: ObjectRef<'_>,
    change: &Change,
    w: Timestamp,
    incarnation: u16,
) -> Result<(), BadRecord> {
    let header = object.header().unlocked();
    match &change.becomes {
        NewValue::Unknown => return Err(BadRecord("the new value of an object is unknown")),
        NewValue::Freed => object.begin_install(),
        NewValue::Whole(words) if words.len() > object.len() => {
            return Err(BadRecord("a value that is longer than its object"));
        }
        NewValue::Whole(words) => {
            object.begin_install();
            object.put(0, words);
        }
        NewValue::Ranges(base, ranges) => {
            if header.timestamp() != *base {
                return Err(BadRecord("a change of a version that is not there"));
            }
            changes::check(ranges, object.len())?;
            object.begin_install();
            changes::install(object, ranges);
        }
    }
    let stays = change.becomes != NewValue::Freed;
    if let Some(word) = change.stamped.filter(|word| stays && *word < object.len()) {
        object.put(word, &[w.raw()]);
    }
    object.finish_install(
        header.succeed(w, stays),
        LinkWord::new(incarnation, OldVersionPtr::NONE),
    );
    Ok(())
}
