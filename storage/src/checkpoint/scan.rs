//! Copying one block: the newest committed version of each of its objects.
//!
//! *Concurrency.* Reads as the sequence lock of [`crate::object`] requires: waits for a locked
//! object, and copies a changed one again. In a backup nothing is locked, so half of a write in
//! progress may be copied, with the previous version in the header. A checkpoint of backups
//! therefore needs the log from before all writes that run during the scan.

use std::thread;
use std::time::Duration;

use super::error::CheckpointError;
use super::format::{ObjectHead, SECTION_HEADER_WORDS};
use crate::addr::Addr;
use crate::classes::Class;
use crate::header::Header;
use crate::object::ObjectRef;
use crate::region::{BlockId, Regions};

/// Checks of a locked object before the thread begins to sleep between checks.
const LOOKS: u32 = 200;
const POLL_INTERVAL: Duration = Duration::from_micros(50);
/// Sleeps before the lock counts as abandoned: about ten seconds.
const NAPS: u32 = 200_000;

/// The result of scanning a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ScannedBlock {
    pub class: Class,
    /// Entries that were written, including tombstones.
    pub entries: u64,
    /// Objects among the entries.
    pub objects: u64,
}

/// Copies a block to `words`, after the space for a section header. Returns `None` if the block is
/// not in use.
pub(super) fn block(
    regions: &Regions,
    id: BlockId,
    words: &mut Vec<u64>,
) -> Result<Option<ScannedBlock>, CheckpointError> {
    let class_now = || {
        let region = regions.replica(id.region);
        region.and_then(|region| region.class(id.block as usize))
    };
    while let Some(class) = class_now() {
        words.clear();
        words.resize(SECTION_HEADER_WORDS, 0);
        let mut scanned = ScannedBlock {
            class,
            entries: 0,
            objects: 0,
        };
        for slot in 0..class.slots() {
            let addr = id.slot(class, slot);
            let region = regions.replica(id.region);
            if let Some(object) = region.and_then(|region| region.object(addr.offset() as usize))
                && let Some(header) = entry(&object, addr, slot, words)?
            {
                scanned.entries += 1;
                scanned.objects += u64::from(header.is_allocated());
            }
        }
        if class_now() == Some(class) {
            return Ok(Some(scanned));
        }
    }
    Ok(None)
}

/// Copies one slot. Returns its header, or `None` for a slot that was never used.
fn entry(
    object: &ObjectRef<'_>,
    addr: Addr,
    slot: usize,
    words: &mut Vec<u64>,
) -> Result<Option<Header>, CheckpointError> {
    let start = words.len();
    loop {
        let header = unlocked(object, addr)?;
        if header == Header(0) {
            return Ok(None);
        }
        let payload = start + ObjectHead::WORDS;
        words.resize(payload, 0);
        if header.is_allocated() {
            words.resize(payload + object.len(), 0);
            object.copy(0, &mut words[payload..]);
        }
        let incarnation = object.link().incarnation();
        if !object.unchanged(header) {
            continue;
        }
        let used = words[payload..]
            .iter()
            .rposition(|word| *word != 0)
            .map_or(0, |last| last + 1);
        words.truncate(payload + used);
        let head = ObjectHead {
            header,
            incarnation,
            slot,
            words: used,
        };
        words[start..payload].copy_from_slice(&head.encode());
        return Ok(Some(header));
    }
}

fn unlocked(object: &ObjectRef<'_>, addr: Addr) -> Result<Header, CheckpointError> {
    for look in 0..LOOKS + NAPS {
        let header = object.header();
        if !header.is_locked() {
            return Ok(header);
        }
        if look < LOOKS {
            thread::yield_now();
        } else {
            thread::sleep(POLL_INTERVAL);
        }
    }
    Err(CheckpointError::Stuck(addr))
}
