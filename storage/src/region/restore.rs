//! Restoring regions from a log or a checkpoint: blocks come in any order, with their classes.
//!
//! Blocks between the restored blocks are free, so that later allocations find them. Only the
//! restoring threads use the regions meanwhile.

use super::blocks::{BLOCK_BYTES, BlockId};
use super::growth::FreeBlock;
use super::{MAX_REGIONS, Regions};
use crate::account::OutOfMemory;
use crate::addr::RegionId;
use crate::classes::Class;

impl Regions {
    /// Ensures that block `id` exists with `class`, by a log record or a checkpoint.
    ///
    /// # Errors
    /// [`OutOfMemory`] when the region cannot be reserved, no region has such a block, or the block
    /// has another class already.
    pub fn restore_block(&self, id: BlockId, class: Class) -> Result<(), OutOfMemory> {
        let blocks = (self.region_bytes / BLOCK_BYTES) as u32;
        // Check before anything is made for it. Block 0 of a region is its header.
        if id.region.0 as usize >= MAX_REGIONS || !(1..blocks).contains(&id.block) {
            return Err(OutOfMemory);
        }
        if let Some(there) = self
            .region(id.region)
            .and_then(|r| r.class(id.block as usize))
        {
            return if there == class {
                Ok(())
            } else {
                Err(OutOfMemory)
            };
        }
        let mut growth = self.growth.lock();
        while self.count() <= id.region.0 {
            // The blocks of the region that was newest so far stay free for later.
            let skipped = self.count().checked_sub(1);
            if let Some(region) = skipped {
                for block in growth.next.max(1)..blocks {
                    growth.free.push(FreeBlock::never_used(BlockId {
                        region: RegionId(region),
                        block,
                    }));
                }
            }
            self.add_region(&mut growth)?;
            growth.begun = growth.own.len();
            growth.next = 1;
        }
        if id.region.0 + 1 == self.count() {
            for block in growth.next..id.block {
                growth.free.push(FreeBlock::never_used(BlockId {
                    region: id.region,
                    block,
                }));
            }
            growth.next = growth.next.max(id.block + 1);
        }
        growth.free.retain(|free| free.id != id);
        self.set_class(id, class)
    }

    /// Gives block `id` to `class` although it had another class before. By that position of the
    /// log all its objects had been freed.
    ///
    /// # Errors
    /// As [`Self::restore_block`].
    pub fn restore_block_anew(&self, id: BlockId, class: Class) -> Result<(), OutOfMemory> {
        let there = self
            .region(id.region)
            .and_then(|region| region.class(id.block as usize));
        if there.is_none_or(|there| there == class) {
            return self.restore_block(id, class);
        }
        self.put_anew(id, class)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::region::MIN_REGION_BYTES;
    use crate::timestamp::Timestamp;

    #[test]
    fn blocks_are_restored_in_any_order_and_the_gaps_stay_usable() {
        let regions = Regions::new(MIN_REGION_BYTES);
        let at = |region, block| BlockId {
            region: RegionId(region),
            block,
        };
        regions.restore_block(at(1, 4), Class(3)).expect("fits");
        regions.restore_block(at(0, 2), Class(1)).expect("fits");
        assert_eq!(regions.restore_block(at(0, 2), Class(1)), Ok(()));
        assert_eq!(regions.restore_block(at(0, 2), Class(2)), Err(OutOfMemory));
        let mut seen = vec![at(1, 4), at(0, 2)];
        for _ in 0..28 {
            let id = regions
                .acquire_block(Class(0), Timestamp::ZERO, true)
                .expect("30 blocks in two regions");
            assert!(!seen.contains(&id), "{id:?} handed out twice");
            seen.push(id);
        }
        assert_eq!(regions.count(), 2);
    }

    #[test]
    fn block_beyond_every_region_is_refused_and_nothing_is_made() {
        let regions = Regions::new(MIN_REGION_BYTES);
        let blocks = (MIN_REGION_BYTES / BLOCK_BYTES) as u32;
        for (region, block) in [
            (0, 0),
            (0, blocks),
            (0, u32::MAX),
            (MAX_REGIONS as u32, 1),
            (u32::MAX, 1),
        ] {
            let region = RegionId(region);
            let refused = regions.restore_block(BlockId { region, block }, Class(0));
            assert_eq!(refused, Err(OutOfMemory), "{region:?}, block {block}");
            assert_eq!(regions.count(), 0);
        }
        assert!(regions.growth.lock().free.is_empty());
    }
}
