//! The copy of one block from a region's primary to a backup.
//!
//! ```text
//! class ─► slots, several in a read ─► the same again ─┬─ equal, not locked ─► install by version
//!          nothing newer than here: done               └─ changing ─► read alone until steady
//! ```
//! For a block that this machine had before its eviction the primary first sends the versions
//! (`network/versions.rs`). Objects with equal versions are taken from the previous replica; the
//! others are read.
//!
//! A read of a single slot is consistent if its first word says so (FAB-7). A read of several slots
//! is not. There, slots that two successive reads return alike are consistent: a writer locks a
//! slot before it changes it and gives it a new version.
//!
//! *Invariant.* COPY-1: consider a copied block and the time since its copy began. This backup
//! then has of each object a version that the primary had, unlocked, at some point of that time, or
//! a later one. A lock may belong to a commit of an earlier configuration, which does not know this
//! backup. Such a commit is decided, but not yet carried out by its coordinator. This is also true
//! of a locked slot without an object.

use std::collections::VecDeque;

use fencepost_storage::classes::{Class, MAX_SLOT_WORDS};
use fencepost_storage::header::Header;
use fencepost_storage::region::{self, BlockId, Regions};
use fencepost_storage::{Addr, ObjectCopy, Timestamp};

use crate::fault::{self, Fault};
use crate::network::backup::{self, BlockUses};
use crate::network::retained_data::{RetainedData, RetainedPart};
use crate::network::versions::{digest, pieces, slots_of_piece};
use crate::record::BadRecord;

/// The destination of copies.
#[derive(Clone, Copy)]
pub(super) struct CopyDestination<'a> {
    pub regions: &'a Regions,
    /// The replicas that this machine had before its eviction, as backups.
    pub before: Option<&'a RetainedData>,
    pub changed: &'a BlockUses,
}

impl CopyDestination<'_> {
    /// Returns the timestamp of this backup's version of an object; zero if it has none.
    fn has(&self, addr: Addr, class: Class) -> Timestamp {
        let same = self.regions.backup_class(BlockId::of(addr)) == Some(class);
        let object = self.regions.backup(addr).filter(|_| same);
        object.map_or(Timestamp::ZERO, |object| object.header().timestamp())
    }
}

/// A read of a part of a block.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BlockRead {
    /// The versions at the primary, because this machine has had the block before.
    Versions,
    /// The block's word of the header block.
    Class,
    /// First slot and number of slots, and their words from the previous read.
    Slots(usize, usize, Option<Box<[u64]>>),
    /// A slot alone.
    Slot(usize),
}

/// A block that is being copied.
pub(super) struct BlockCopy {
    block: BlockId,
    class: Option<Class>,
    /// The first slot that was not requested yet.
    next: usize,
    /// Reads to repeat before further slots.
    again: VecDeque<BlockRead>,
    /// Bytes of objects taken from the previous replica.
    pub retained_bytes: u64,
}

impl BlockCopy {
    pub fn of(block: BlockId, destination: CopyDestination<'_>) -> BlockCopy {
        let had = destination.before.is_some_and(|before| before.has(block));
        BlockCopy {
            block,
            class: None,
            next: 0,
            again: VecDeque::from([match had {
                true => BlockRead::Versions,
                false => BlockRead::Class,
            }]),
            retained_bytes: 0,
        }
    }

    /// Returns the block.
    pub fn id(&self) -> BlockId {
        self.block
    }

    /// Returns the next read; `None` if all reads have been requested.
    pub fn next(&mut self) -> Option<BlockRead> {
        if let Some(wanted) = self.again.pop_front() {
            return Some(wanted);
        }
        let class = self.class?;
        let first = self.next;
        let count = slots_of_piece(class, first);
        self.next += count;
        match count {
            0 => None,
            1 => Some(BlockRead::Slot(first)),
            _ => Some(BlockRead::Slots(first, count, None)),
        }
    }

    /// Returns the place of a read in the region: the first word, and the number of words.
    pub fn place(&self, wanted: &BlockRead) -> (usize, usize) {
        let slot_words = self.class.map_or(0, Class::slot_words);
        let slot = |slot| self.block.block as usize * MAX_SLOT_WORDS + slot * slot_words;
        match wanted {
            BlockRead::Class | BlockRead::Versions => (self.block.block as usize, 1),
            BlockRead::Slots(first, count, _) => (slot(*first), count * slot_words),
            BlockRead::Slot(at) => (slot(*at), slot_words),
        }
    }

    /// Queues a failed read to be repeated.
    pub fn put_back(&mut self, wanted: BlockRead) {
        self.again.push_back(wanted);
    }

    /// Returns whether all reads have been requested.
    pub fn all_requested(&self) -> bool {
        let all = |class: Class| self.next >= class.slots();
        self.again.is_empty() && self.class.is_none_or(all)
    }

    /// Takes the answer to a read.
    ///
    /// # Errors
    /// [`BadRecord`] if the answer does not fit this backup.
    pub fn take(
        &mut self,
        wanted: BlockRead,
        words: Box<[u64]>,
        destination: CopyDestination<'_>,
    ) -> Result<(), BadRecord> {
        match (wanted, self.class) {
            (BlockRead::Versions, _) => self.compare(&words, destination),
            (BlockRead::Class, _) => {
                self.class = words.first().and_then(|word| region::class_of(*word));
                Ok(())
            }
            (BlockRead::Slots(first, count, None), Some(class)) => {
                let mut slots = words.chunks_exact(class.slot_words()).zip(first..);
                let lacks = slots.any(|(slot, at)| self.lacks(at, slot, class, destination));
                if lacks {
                    let wanted = BlockRead::Slots(first, count, Some(words));
                    self.again.push_back(wanted);
                }
                Ok(())
            }
            (BlockRead::Slots(first, _, Some(before)), Some(class)) => {
                let now = words.chunks_exact(class.slot_words());
                let slots = before
                    .chunks_exact(class.slot_words())
                    .zip(now)
                    .zip(first..);
                for ((before, now), at) in slots {
                    if !self.lacks(at, now, class, destination) {
                        continue;
                    }
                    if before != now || !self.install(at, now.into(), class, destination)? {
                        self.again.push_back(BlockRead::Slot(at));
                    }
                }
                Ok(())
            }
            (BlockRead::Slot(at), Some(class)) => {
                let done = !self.lacks(at, &words, class, destination)
                    || self.install(at, words, class, destination)?;
                if !done {
                    self.again.push_back(BlockRead::Slot(at));
                }
                Ok(())
            }
            // Slots are not requested before the class is known.
            (_, None) => Ok(()),
        }
    }

    /// Takes all pieces whose versions are equal at the primary from the previous replica. Queues
    /// reads of the others.
    fn compare(
        &mut self,
        words: &[u64],
        destination: CopyDestination<'_>,
    ) -> Result<(), BadRecord> {
        let class = words.first().and_then(|word| region::class_of(*word));
        let before = destination.before.zip(class);
        let before = before.map(|(all, class)| (all.parts_with(self.block, class), class));
        let Some((parts, class)) = before.filter(|(parts, _)| !parts.is_empty()) else {
            self.again.push_back(BlockRead::Class);
            return Ok(());
        };
        self.class = class.into();
        self.next = class.slots();
        let mut theirs = words.iter().skip(1);
        for (first, count) in pieces(class) {
            let theirs = theirs.next();
            let is_same = |part: &&RetainedPart| {
                let of = ((self.block, class), (first, count));
                let ours = digest(of.0, of.1, |addr| part.object(addr));
                theirs == Some(&ours) || fault::injected(Fault::TakeOldVersions)
            };
            let Some(part) = parts.iter().copied().find(is_same) else {
                self.again.push_back(match count {
                    1 => BlockRead::Slot(first),
                    _ => BlockRead::Slots(first, count, None),
                });
                continue;
            };
            for addr in (first..first + count).map(|at| self.block.slot(class, at)) {
                let object = part.object(addr);
                let newer = object
                    .filter(|object| object.header().timestamp() > destination.has(addr, class));
                if let Some(object) = newer {
                    backup::apply_retained(
                        destination.regions,
                        destination.changed,
                        (addr, class),
                        object,
                    )?;
                }
            }
            self.retained_bytes += (count * class.slot_words() * 8) as u64;
        }
        Ok(())
    }

    /// Returns whether a slot of the primary has a later version than this backup, or is locked and
    /// may get one.
    fn lacks(
        &self,
        at: usize,
        slot: &[u64],
        class: Class,
        destination: CopyDestination<'_>,
    ) -> bool {
        let Some(header) = slot.first().map(|word| Header(*word)) else {
            return false;
        };
        if header.is_locked() {
            return true;
        }
        let version = header.timestamp();
        version > Timestamp::ZERO && version > destination.has(self.block.slot(class, at), class)
    }

    /// Installs the content of a slot. Returns whether the content was consistent.
    fn install(
        &self,
        at: usize,
        words: Box<[u64]>,
        class: Class,
        destination: CopyDestination<'_>,
    ) -> Result<bool, BadRecord> {
        let (first, _) = self.place(&BlockRead::Slot(at));
        let copy = ObjectCopy::of(words, first);
        // A locked object may be partly overwritten.
        let Some(copy) = copy.filter(|copy| !copy.header().is_locked()) else {
            return Ok(false);
        };
        let object = (self.block.slot(class, at), class);
        backup::apply_copy(destination.regions, destination.changed, object, &copy)?;
        Ok(true)
    }
}
