//! One region: memory split into blocks, each of slots of one size class.
//!
//! ```text
//! region  | block 0: header block | block 1 | block 2 | ...          1 MiB each
//! header  | word b: generation of block b (48) | its class + 1, or 0 while it is free (16) |
//! block   | slot | slot | slot | ... | rest |
//! ```
//! Only the thread that has acquired a block writes the block's word of the header block
//! ([`super`], Concurrency); any thread reads it. The generation counts how often the block was
//! given a class.

use std::sync::atomic::{self, AtomicU32};

use fencepost_fabric::memory::{self, Memory, WORD_BYTES};
use fencepost_fabric::sync::{AtomicU64, Ordering, fence};

use crate::account::OutOfMemory;
use crate::addr::{Addr, RegionId};
use crate::classes::{CLASSES, Class, MAX_SLOT_WORDS};
use crate::header::{LinkWord, OldVersionPtr};
use crate::object::ObjectRef;

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 1 << 20;
/// Bits of a block's header word that hold its class + 1; above them a generation.
const CLASS_MASK: u64 = 0xFFFF;
/// Blocks in use before a region asks for huge pages: small databases stay small.
const HUGE_PAGES_FROM_BLOCK: usize = 32;

/// The id of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId {
    /// The region of the block.
    pub region: RegionId,
    /// Number of the block, from 1.
    pub block: u32,
}

impl BlockId {
    /// Returns the block that contains `addr`.
    #[inline]
    pub const fn of(addr: Addr) -> BlockId {
        BlockId {
            region: addr.region(),
            block: addr.offset() / BLOCK_BYTES as u32,
        }
    }

    /// Returns the address of slot `slot` of the block, for slots of `class`.
    pub const fn slot(self, class: Class, slot: usize) -> Addr {
        let offset = self.block as usize * BLOCK_BYTES + slot * class.slot_words() * WORD_BYTES;
        Addr::new(self.region, offset as u32)
    }
}

/// Decodes the size class from a block's word of the header block; word `b` is that of block `b`.
#[inline]
pub fn class_of(word: u64) -> Option<Class> {
    let class = (word & CLASS_MASK).checked_sub(1)?;
    (class < CLASSES as u64).then_some(Class(class as u8))
}

/// One region: a primary, a peer's, or a backup.
pub struct Region {
    memory: Memory,
    /// Number of the machine that owns the memory, if that is another one.
    machine: u32,
    /// The first block whose slots are not allocated yet. [`WHOLE`] in a region that was this
    /// machine's from its beginning, [`NOWHERE`] in one that is not its own.
    served: AtomicU32,
}

/// Slots of all blocks may be allocated.
const WHOLE: u32 = u32::MAX;
/// No slots are ever allocated. In a region of this machine, only block 0 has no slots.
const NOWHERE: u32 = 0;

impl Region {
    fn of(memory: Memory, machine: u32, served: u32) -> Region {
        Region {
            memory,
            machine,
            served: AtomicU32::new(served),
        }
    }

    /// Returns a region whose primary is this machine from its beginning.
    pub(super) fn of_own(memory: Memory) -> Region {
        Region::of(memory, 0, WHOLE)
    }

    /// Returns a region whose primary this machine has become. No slots are allocated in it before
    /// its blocks have been scanned.
    pub(super) fn of_former_backup(backup: &Region) -> Region {
        Region::of(backup.memory.clone(), 0, NOWHERE + 1)
    }

    /// Returns a region whose primary is a peer.
    pub(super) fn of_peer(memory: Memory, machine: u32) -> Region {
        Region::of(memory, machine, NOWHERE)
    }

    /// Returns a backup.
    pub(super) fn of_backup(memory: Memory) -> Region {
        Region::of(memory, 0, NOWHERE)
    }

    /// Returns whether its primary is this machine.
    #[inline]
    pub fn is_own(&self) -> bool {
        self.served.load(atomic::Ordering::Relaxed) != NOWHERE
    }

    /// Returns whether this machine has been its primary from its beginning.
    #[inline]
    pub(super) fn is_native(&self) -> bool {
        self.served.load(atomic::Ordering::Relaxed) == WHOLE
    }

    /// Returns the machine that owns the memory, if that is another one.
    pub fn machine(&self) -> Option<u32> {
        (!self.is_own()).then_some(self.machine)
    }

    /// Returns the first block whose slots are not allocated yet.
    pub(super) fn served(&self) -> u32 {
        self.served.load(atomic::Ordering::Acquire)
    }

    /// Allows allocation in the blocks before `block`.
    pub(super) fn serve(&self, block: u32) {
        self.served.store(block, atomic::Ordering::Release);
    }

    /// Returns the word of the header block with a block's generation and class.
    #[inline]
    pub(super) fn class_word(&self, block: usize) -> Option<&AtomicU64> {
        if block == 0 || block >= self.blocks() {
            return None;
        }
        self.memory.words().get(block)
    }

    /// Returns the size class of a block in use.
    #[inline]
    pub fn class(&self, block: usize) -> Option<Class> {
        class_of(self.class_word(block)?.load(Ordering::Acquire))
    }

    /// Returns the number of blocks, including the header block.
    #[inline]
    pub fn blocks(&self) -> usize {
        self.memory.len() / MAX_SLOT_WORDS
    }

    /// Returns the slot at an offset, as [`super::Regions::object`] does.
    #[inline]
    pub fn object(&self, offset: usize) -> Option<ObjectRef<'_>> {
        let class = self.class(offset / BLOCK_BYTES)?;
        let from = offset / WORD_BYTES;
        let words = self.memory.words().get(from..from + class.slot_words())?;
        Some(ObjectRef::new(words, from))
    }

    /// Prefetches the first `bytes` at an offset into the processor's cache.
    #[inline]
    pub(super) fn prefetch(&self, offset: usize, bytes: usize) {
        let from = offset / WORD_BYTES;
        let words = self.memory.words().get(from..from + bytes / WORD_BYTES);
        if let Some(words) = words {
            memory::prefetch(words);
        }
    }

    /// Gives a class to a block that is free or empty.
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is no such block.
    pub(super) fn set_class(&self, block: u32, class: Class) -> Result<(), OutOfMemory> {
        let word = self.class_word(block as usize).ok_or(OutOfMemory)?;
        let generation = (word.load(Ordering::Relaxed) & !CLASS_MASK).wrapping_add(CLASS_MASK + 1);
        word.store(generation | (u64::from(class.0) + 1), Ordering::Release);
        if block as usize == HUGE_PAGES_FROM_BLOCK {
            self.memory.advise_huge_pages();
        }
        Ok(())
    }

    /// Removes a block's class. Returns `false` if there is no such block.
    pub(super) fn take_class(&self, block: u32) -> bool {
        let word = self.class_word(block as usize);
        word.map(|word| word.fetch_and(!CLASS_MASK, Ordering::SeqCst))
            .is_some()
    }

    /// Empties a block for slots of `class`. Incarnations do not restart: each slot continues from
    /// a number that does not depend on its old words, so that a stale fat pointer does not match.
    pub(super) fn clear(&self, block: u32, class: Class) {
        let from = block as usize * MAX_SLOT_WORDS;
        let Some(words) = self.memory.words().get(from..from + MAX_SLOT_WORDS) else {
            return;
        };
        // A late reader of an object of the block finds its header gone.
        fence(Ordering::Release);
        let generation = self
            .class_word(block as usize)
            .map_or(0, |word| word.load(Ordering::Relaxed) / (CLASS_MASK + 1));
        let salt = generation.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        words
            .iter()
            .for_each(|word| word.store(0, Ordering::Relaxed));
        for slot in 0..class.slots() {
            let at = slot * class.slot_words();
            let object = ObjectRef::new(&words[at..at + class.slot_words()], at);
            object.put_link(LinkWord::new((salt >> 48) as u16, OldVersionPtr::NONE));
        }
    }

    /// Returns the pages of a block, from a word on, to the system.
    pub(super) fn discard(&self, block: u32, from: usize) {
        let start = block as usize * MAX_SLOT_WORDS;
        self.memory.discard(start + from..start + MAX_SLOT_WORDS);
    }
}
