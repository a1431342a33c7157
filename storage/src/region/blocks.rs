//! One region: memory split into blocks, each of slots of one size class.
//!
//! ```text
//! region  | block 0: header block | block 1 | block 2 | ...          1 MiB each
//! header  | word b: generation of block b (48) | its class + 1, or 0 while it is free (16) |
//! block   | slot | slot | slot | ... | rest |
//! ```
//! Only who has taken a block writes its word of the header block ([`super`], Concurrency); everybody reads it. The
//! generation counts how often it has been given a class.

use fencepost_fabric::memory::{self, Memory, WORD_BYTES};
use fencepost_fabric::sync::{AtomicU64, Ordering, fence};

use crate::account::OutOfMemory;
use crate::addr::{Addr, RegionId};
use crate::classes::{CLASSES, Class, MAX_SLOT_WORDS};
use crate::header::{Link, OldPlace};
use crate::object::ObjectRef;

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 1 << 20;
/// Bits of a block's header word that hold its class + 1; above them a generation.
const CLASS_MASK: u64 = 0xFFFF;
/// Blocks in use before a region asks for huge pages: small databases stay small.
const HUGE_PAGES_FROM_BLOCK: usize = 32;

/// A block of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId {
    /// The region.
    pub region: RegionId,
    /// Number of the block, from 1.
    pub block: u32,
}

impl BlockId {
    /// The block that holds `addr`.
    #[inline]
    pub const fn of(addr: Addr) -> BlockId {
        BlockId {
            region: addr.region(),
            block: addr.offset() / BLOCK_BYTES as u32,
        }
    }

    /// Address of slot `slot` of the block, for slots of `class`.
    pub const fn slot(self, class: Class, slot: usize) -> Addr {
        let offset = self.block as usize * BLOCK_BYTES + slot * class.slot_words() * WORD_BYTES;
        Addr::new(self.region, offset as u32)
    }
}

/// Size class that a block's word of the header block says; word `b` is that of block `b`.
#[inline]
pub fn class_of(word: u64) -> Option<Class> {
    let class = (word & CLASS_MASK).checked_sub(1)?;
    (class < CLASSES as u64).then_some(Class(class as u8))
}

/// One region.
pub struct Region {
    memory: Memory,
    blocks: usize,
    /// Whether its primary is this machine.
    own: bool,
}

impl Region {
    pub(super) fn of(memory: Memory, own: bool) -> Self {
        Self {
            blocks: memory.len() * WORD_BYTES / BLOCK_BYTES,
            memory,
            own,
        }
    }

    /// Whether its primary is this machine.
    #[inline]
    pub fn is_own(&self) -> bool {
        self.own
    }

    /// The word of the header block that says what a block is.
    #[inline]
    pub(super) fn class_word(&self, block: usize) -> Option<&AtomicU64> {
        if block == 0 || block >= self.blocks {
            return None;
        }
        self.memory.words().get(block)
    }

    /// Size class of a block in use.
    #[inline]
    pub fn class(&self, block: usize) -> Option<Class> {
        class_of(self.class_word(block)?.load(Ordering::Acquire))
    }

    /// Blocks, the header block included.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// The slot at an offset, as [`super::Regions::object`].
    #[inline]
    pub(super) fn object(&self, offset: usize) -> Option<ObjectRef<'_>> {
        let class = self.class(offset / BLOCK_BYTES)?;
        let from = offset / WORD_BYTES;
        let words = self.memory.words().get(from..from + class.slot_words())?;
        Some(ObjectRef::new(words, from))
    }

    /// Asks the processor for the first `bytes` at an offset.
    #[inline]
    pub(super) fn prefetch(&self, offset: usize, bytes: usize) {
        let from = offset / WORD_BYTES;
        let words = self.memory.words().get(from..from + bytes / WORD_BYTES);
        if let Some(words) = words {
            memory::prefetch(words);
        }
    }

    /// Gives a block, which is free or empty, a class.
    ///
    /// # Errors
    /// [`OutOfMemory`] where there is no such block.
    pub(super) fn set_class(&self, block: u32, class: Class) -> Result<(), OutOfMemory> {
        let word = self.class_word(block as usize).ok_or(OutOfMemory)?;
        let generation = (word.load(Ordering::Relaxed) & !CLASS_MASK).wrapping_add(CLASS_MASK + 1);
        word.store(generation | (u64::from(class.0) + 1), Ordering::Release);
        if block as usize == HUGE_PAGES_FROM_BLOCK {
            self.memory.advise_huge_pages();
        }
        Ok(())
    }

    /// Takes a block's class; false where there is no such block.
    pub(super) fn take_class(&self, block: u32) -> bool {
        let word = self.class_word(block as usize);
        word.map(|word| word.fetch_and(!CLASS_MASK, Ordering::SeqCst))
            .is_some()
    }

    /// Empties a block for slots of `class`. Incarnations do not begin anew: each slot goes on from a
    /// number that its words had nothing to do with, so that a stale fat pointer does not fit.
    pub(super) fn clear(&self, block: u32, class: Class) {
        let from = block as usize * MAX_SLOT_WORDS;
        let Some(words) = self.memory.words().get(from..from + MAX_SLOT_WORDS) else {
            return;
        };
        // Whoever still looks at an object of the block finds its header gone.
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
            object.put_link(Link::new((salt >> 48) as u16, OldPlace::NONE));
        }
    }

    /// Gives the pages of a block back to the system.
    pub(super) fn discard(&self, block: u32) {
        let from = block as usize * MAX_SLOT_WORDS;
        self.memory.discard(from..from + MAX_SLOT_WORDS);
    }
}
