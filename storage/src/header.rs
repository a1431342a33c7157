//! The two header words of an object, encoded and decoded as pure functions.
//!
//! ```text
//! word 0  | 63 lock | 62 allocated | 61..54 write counter (8) | 53..0 timestamp (54) |
//! word 1  | 63..48 incarnation (16) | 47..0 place of the previous version (48)       |
//! place   | 47..36 generation (12) | 35..16 block (20) | 15..0 word offset (16)      |
//! ```
//! Word 0 is the version: it changes with every commit. A compare-and-swap of the whole word takes
//! the lock at exactly the version that was read. Each further cache line of a longer object
//! repeats the word (see [`crate::layout`]).

use crate::timestamp::Timestamp;

const LOCK: u64 = 1 << 63;
const ALLOCATED: u64 = 1 << 62;
const COUNTER_SHIFT: u32 = 54;
const COUNTER_MASK: u64 = 0xFF << COUNTER_SHIFT;
const TIMESTAMP_MASK: u64 = (1 << 54) - 1;

/// Word 0 of an object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Header(pub u64);

impl Header {
    /// Returns the header that a commit at `timestamp` writes over `self`: unlocked, counter
    /// incremented.
    pub const fn succeed(self, timestamp: Timestamp, allocated: bool) -> Header {
        let counter = (self.0 & COUNTER_MASK).wrapping_add(1 << COUNTER_SHIFT) & COUNTER_MASK;
        let bit = if allocated { ALLOCATED } else { 0 };
        Header(bit | counter | timestamp.raw() & TIMESTAMP_MASK)
    }

    /// Returns whether a committing transaction holds the lock.
    pub const fn is_locked(self) -> bool {
        self.0 & LOCK != 0
    }

    /// Returns whether the slot has an object, and is neither free nor a tombstone.
    pub const fn is_allocated(self) -> bool {
        self.0 & ALLOCATED != 0
    }

    /// Returns the same version, locked.
    pub const fn locked(self) -> Header {
        Header(self.0 | LOCK)
    }

    /// Returns the same version, unlocked.
    pub const fn unlocked(self) -> Header {
        Header(self.0 & !LOCK)
    }

    /// Returns the commit timestamp of this version; zero for a slot that was never used.
    pub const fn timestamp(self) -> Timestamp {
        Timestamp::from_raw(self.0 & TIMESTAMP_MASK)
    }

    /// Returns the 8-bit write counter.
    pub const fn write_counter(self) -> u8 {
        ((self.0 & COUNTER_MASK) >> COUNTER_SHIFT) as u8
    }
}

impl std::fmt::Debug for Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lock = if self.is_locked() { "locked " } else { "" };
        let free = if self.is_allocated() { "" } else { "free " };
        write!(
            f,
            "{lock}{free}@{}#{}",
            self.timestamp().raw(),
            self.write_counter()
        )
    }
}

/// The place of a previous version; `NONE` if there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldVersionPtr(pub u64);

impl OldVersionPtr {
    /// No previous version.
    pub const NONE: OldVersionPtr = OldVersionPtr(0);
    /// A previous version that could not be kept: block 0 is never used, so no reader finds it.
    pub const LOST: OldVersionPtr = OldVersionPtr(1);
    /// Number of generations before they wrap.
    pub const GENERATIONS: u32 = 1 << 12;
    /// Number of blocks that a place can name; block 0 is never used.
    pub const BLOCKS: u32 = 1 << 20;

    /// Returns the place at word `offset` of old-version block `block` while it is in `generation`.
    pub const fn new(block: u32, generation: u32, offset: u16) -> Self {
        let generation = (generation % Self::GENERATIONS) as u64;
        OldVersionPtr((generation << 36) | ((block as u64) << 16) | offset as u64)
    }

    /// Returns whether there is no previous version.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Returns the number of the block.
    pub const fn block(self) -> u32 {
        ((self.0 >> 16) as u32) & (Self::BLOCKS - 1)
    }

    /// Returns the generation that the block must still be in.
    pub const fn generation(self) -> u32 {
        ((self.0 >> 36) as u32) & (Self::GENERATIONS - 1)
    }

    /// Returns the word offset in the block.
    pub const fn offset(self) -> usize {
        (self.0 & 0xFFFF) as usize
    }
}

/// Word 1 of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkWord(pub u64);

impl LinkWord {
    /// Packs the slot's incarnation and the place of the previous version.
    pub const fn new(incarnation: u16, place: OldVersionPtr) -> Self {
        LinkWord(((incarnation as u64) << 48) | place.0)
    }

    /// Returns the number of objects that the slot has had, modulo 2^16.
    pub const fn incarnation(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// Returns the place of the previous version.
    pub const fn place(self) -> OldVersionPtr {
        OldVersionPtr(self.0 & ((1 << 48) - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn header_fields_do_not_touch_each_other(
            raw in any::<u64>(),
            ts in 0u64..1 << 54,
            live in any::<bool>(),
        ) {
            let before = Header(raw);
            let after = before.succeed(Timestamp::from_raw(ts), live);
            prop_assert!(!after.is_locked());
            prop_assert_eq!(after.is_allocated(), live);
            prop_assert_eq!(after.timestamp().raw(), ts);
            prop_assert_eq!(after.write_counter(), before.write_counter().wrapping_add(1));
            prop_assert_eq!(after.locked().unlocked(), after);
            prop_assert_eq!(after.locked().timestamp(), after.timestamp());
        }

        #[test]
        fn link_and_place_round_trip(
            inc in any::<u16>(),
            block in 1u32..OldVersionPtr::BLOCKS,
            gn in 0u32..OldVersionPtr::GENERATIONS,
            off in any::<u16>(),
        ) {
            let place = OldVersionPtr::new(block, gn, off);
            let link = LinkWord::new(inc, place);
            prop_assert_eq!(link.incarnation(), inc);
            let place = link.place();
            prop_assert_eq!(place.block(), block);
            prop_assert_eq!((place.generation(), place.offset()), (gn, off as usize));
            prop_assert!(!link.place().is_none());
        }
    }
}
