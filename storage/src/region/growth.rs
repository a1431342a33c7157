//! The allocation of blocks: never-used blocks, one region after the other, and released blocks.
//!
//! ```text
//! own     | region | region | region begun last | made, and not begun |
//!                             ... used | next | never used ...
//! free    blocks whose slots are all free, each with the timestamp that readers must pass first
//! ```
//! One lock guards all of this; the thread that has taken a block under it owns the block. A
//! machine that is alone makes its next region here; in a cluster regions are assigned
//! ([`super::assigned`]).

use fencepost_fabric::memory::{Memory, WORD_BYTES};
use fencepost_fabric::sync::Ordering;

use super::Regions;
use super::blocks::{BLOCK_BYTES, BlockId, Region};
use crate::account::OutOfMemory;
use crate::addr::RegionId;
use crate::backing::Piece;
use crate::classes::Class;
use crate::timestamp::Timestamp;

/// A block that any size class may take.
#[derive(Clone, Copy)]
pub(super) struct FreeBlock {
    pub id: BlockId,
    /// The timestamp that all readers must pass first.
    freed: Timestamp,
    /// Whether it may have pages in memory.
    paged: bool,
}

impl FreeBlock {
    pub fn never_used(id: BlockId) -> FreeBlock {
        FreeBlock {
            id,
            freed: Timestamp::ZERO,
            paged: false,
        }
    }
}

/// The blocks that can be allocated.
#[derive(Default)]
pub(super) struct Growth {
    /// Ids of the regions whose primary is this machine, in the order in which they were made.
    pub own: Vec<u32>,
    /// Number of them that have blocks in use.
    pub begun: usize,
    /// Blocks whose slots are all free.
    pub free: Vec<FreeBlock>,
    /// Next never-used block of the region that was begun last.
    pub next: u32,
}

impl Growth {
    /// Adds a region of `blocks` blocks that has been scanned; its free blocks are in `free`
    /// already.
    pub fn take_on(&mut self, id: RegionId, blocks: u32) {
        // Inserted first, so that the begun regions stay together and the newest one stays the
        // last.
        self.own.insert(0, id.0);
        self.begun += 1;
        if self.begun == 1 {
            self.next = blocks;
        }
    }

    /// Removes a region that is no longer this machine's. Every region has `blocks` blocks.
    pub fn let_go(&mut self, id: RegionId, blocks: u32) {
        self.free.retain(|free| free.id.region != id);
        let Some(at) = self.own.iter().position(|own| *own == id.0) else {
            return;
        };
        self.own.remove(at);
        if at < self.begun {
            self.begun -= 1;
            if at == self.begun {
                self.next = blocks;
            }
        }
    }
}

impl Regions {
    /// Takes a block for slots of `class`: a released block whose timestamp `oldest` has passed, or
    /// a new one. Released blocks are used only if `may_again`. Charges nothing: a lane charges a
    /// block as it carves it.
    ///
    /// # Errors
    /// [`OutOfMemory`] when every region is full or the kernel gives no more address space. In a
    /// cluster it makes no region itself: ask the CM for one.
    pub fn acquire_block(
        &self,
        class: Class,
        oldest: Timestamp,
        may_again: bool,
    ) -> Result<BlockId, OutOfMemory> {
        let mut growth = self.growth.lock();
        let passed =
            |free: &FreeBlock| free.freed <= oldest && (may_again || free.freed.raw() == 0);
        if let Some(at) = growth.free.iter().position(passed) {
            let FreeBlock { id, .. } = growth.free.swap_remove(at);
            self.put_anew(id, class)?;
            return Ok(id);
        }
        if self.is_used_up(&growth) {
            if growth.begun == growth.own.len() {
                self.add_region(&mut growth)?;
            }
            growth.begun += 1;
            growth.next = 1;
        }
        let id = BlockId {
            region: RegionId(growth.own[growth.begun - 1]),
            block: growth.next,
        };
        growth.next += 1;
        self.set_class(id, class)?;
        Ok(id)
    }

    /// Releases a block whose slots are all free. It is reused once all readers have passed the
    /// result of `freed`, which is called after the block's size class has been removed.
    pub fn release_block(&self, id: BlockId, freed: impl FnOnce() -> Timestamp) {
        let region = self.region(id.region);
        if region.is_some_and(|region| region.take_class(id.block)) {
            let freed = freed();
            self.growth.lock().free.push(FreeBlock {
                id,
                freed,
                paged: true,
            });
        }
    }

    /// Returns to the system the pages of free blocks that readers have `passed`.
    pub fn discard_free_blocks(&self, passed: Timestamp) {
        let mut growth = self.growth.lock();
        for free in &mut growth.free {
            if free.paged
                && free.freed <= passed
                && let Some(region) = self.region(free.id.region)
            {
                region.discard(free.id.block, 0);
                free.paged = false;
            }
        }
    }

    /// Returns the region of this machine that was made last.
    pub fn newest(&self) -> Option<RegionId> {
        self.growth.lock().own.last().copied().map(RegionId)
    }

    /// Returns whether all blocks of this machine's regions have been in use. Then a new block
    /// requires a new region or a released block.
    pub fn is_full(&self) -> bool {
        let growth = self.growth.lock();
        growth.begun == growth.own.len() && self.is_used_up(&growth)
    }

    /// Returns whether the region that was begun last has no never-used block left.
    fn is_used_up(&self, growth: &Growth) -> bool {
        growth.begun == 0 || growth.next as usize >= self.region_bytes / BLOCK_BYTES
    }

    /// Creates the next region of a machine that is alone.
    pub(super) fn add_region(&self, growth: &mut Growth) -> Result<(), OutOfMemory> {
        let made = growth.own.len() as u32;
        let id = self.backing.next_region(made).ok_or(OutOfMemory)?;
        if !self.table.has(RegionId(id)) {
            return Err(OutOfMemory);
        }
        let words = self.region_bytes / WORD_BYTES;
        let memory = self.backing.make(Piece::Region(id), words);
        self.add_own(growth, id, memory.map_err(|_| OutOfMemory)?);
        Ok(())
    }

    /// Adds a region of this machine.
    pub(super) fn add_own(&self, growth: &mut Growth, id: u32, memory: Memory) {
        // Only the holder of the growth lock gets here, once for each id, so the place is empty.
        self.table.put(RegionId(id), Region::of_own(memory));
        growth.own.push(id);
        self.count.store(growth.own.len() as u32, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::addr::Addr;
    use crate::region::MIN_REGION_BYTES;

    #[test]
    fn blocks_fill_regions_one_after_the_other_and_addresses_resolve() {
        let regions = Regions::new(MIN_REGION_BYTES);
        let class = Class::for_payload(10).expect("small");
        let ids: Vec<BlockId> = (0..20)
            .map(|_| {
                regions
                    .acquire_block(class, Timestamp::ZERO, true)
                    .expect("two regions are enough")
            })
            .collect();
        assert_eq!(regions.count(), 2);
        assert_eq!(
            (
                ids[0].region.0,
                ids[0].block,
                ids[15].region.0,
                ids[15].block
            ),
            (0, 1, 1, 1)
        );
        let addr = ids[3].slot(class, 5);
        assert!(regions.object(addr).is_some_and(|o| o.len() >= 10));
        assert!(regions.object(Addr::new(RegionId(0), 0)).is_none());
        assert!(regions.object(Addr::new(RegionId(9), 1 << 20)).is_none());
    }

    #[test]
    fn released_block_waits_for_readers() {
        let regions = Regions::new(MIN_REGION_BYTES);
        let (small, large) = (Class(0), Class(200));
        let id = regions
            .acquire_block(small, Timestamp::ZERO, true)
            .expect("first block");
        regions.release_block(id, || Timestamp::from_raw(50));
        assert_ne!(
            regions
                .acquire_block(large, Timestamp::from_raw(49), true)
                .expect("a new block"),
            id
        );
        assert_ne!(
            regions
                .acquire_block(large, Timestamp::from_raw(50), false)
                .expect("not again now"),
            id
        );
        assert_eq!(
            regions
                .acquire_block(large, Timestamp::from_raw(50), true)
                .expect("the old block"),
            id
        );
    }
}
