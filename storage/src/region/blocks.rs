//! One region: memory split into blocks, each of slots of one size class.
//!
//! ```text
//! region  | block 0: header block | block 1 | block 2 | ...          1 MiB each
//! header  | word b: generation of block b (48) | its class + 1, or 0 while it is free (16) |
//! block   | slot | slot | slot | ... | rest |
//! ```
//! Only who has taken a block writes its word of the header block ([`super`], Concurrency); everybody reads it. The
//! generation counts how often it has been given a class.

use std::sync::atomic::{self, AtomicU32};

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
    /// Number of the machine whose memory it is, where that is another one.
    machine: u32,
    /// The first block that nothing is handed out of yet: [`WHOLE`] in a region that was this machine's from its
    /// beginning, [`NOWHERE`] in one that is not its own.
    served: AtomicU32,
}

/// All blocks are.
const WHOLE: u32 = u32::MAX;
/// None ever is; of an own region that may be said of block 0 alone.
const NOWHERE: u32 = 0;

impl Region {
    fn of(memory: Memory, machine: u32, served: u32) -> Region {
        Region {
            memory,
            machine,
            served: AtomicU32::new(served),
        }
    }

    /// One whose primary this machine is from its beginning.
    pub(super) fn of_own(memory: Memory) -> Region {
        Region::of(memory, 0, WHOLE)
    }

    /// One whose primary this machine has become: nothing is handed out of it before its blocks have been looked
    /// through.
    pub(super) fn of_former_backup(backup: &Region) -> Region {
        Region::of(backup.memory.clone(), 0, NOWHERE + 1)
    }

    /// One whose primary a peer is.
    pub(super) fn of_peer(memory: Memory, machine: u32) -> Region {
        Region::of(memory, machine, NOWHERE)
    }

    /// A backup.
    pub(super) fn of_backup(memory: Memory) -> Region {
        Region::of(memory, 0, NOWHERE)
    }

    /// Whether its primary is this machine.
    #[inline]
    pub fn is_own(&self) -> bool {
        self.served.load(atomic::Ordering::Relaxed) != NOWHERE
    }

    /// Whether this machine has been its primary from its beginning.
    #[inline]
    pub(super) fn is_native(&self) -> bool {
        self.served.load(atomic::Ordering::Relaxed) == WHOLE
    }

    /// The machine whose memory it is, if that is another one.
    pub fn machine(&self) -> Option<u32> {
        (!self.is_own()).then_some(self.machine)
    }

    /// The first block that nothing is handed out of yet.
    pub(super) fn served(&self) -> u32 {
        self.served.load(atomic::Ordering::Acquire)
    }

    /// What is free in the blocks before `block` is handed out from now on.
    pub(super) fn serve(&self, block: u32) {
        self.served.store(block, atomic::Ordering::Release);
    }

    /// The word of the header block that says what a block is.
    #[inline]
    pub(super) fn class_word(&self, block: usize) -> Option<&AtomicU64> {
        if block == 0 || block >= self.blocks() {
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
    #[inline]
    pub fn blocks(&self) -> usize {
        self.memory.len() / MAX_SLOT_WORDS
    }

    /// The slot at an offset, as [`super::Regions::object`].
    #[inline]
    pub fn object(&self, offset: usize) -> Option<ObjectRef<'_>> {
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

    /// Gives the pages of a block from a word on back to the system.
    pub(super) fn discard(&self, block: u32, from: usize) {
        let start = block as usize * MAX_SLOT_WORDS;
        self.memory.discard(start + from..start + MAX_SLOT_WORDS);
    }
}
