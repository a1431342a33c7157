//! Slabs: the free slots of a block, and the slabs of one size class in one lane.
//!
//! Slots of a block are carved in order. The block is charged to the account as it is carved.

use std::collections::BTreeMap;

use fencepost_fabric::memory::WORD_BYTES;

use crate::account::{Account, OutOfMemory};
use crate::addr::{Addr, RegionId};
use crate::classes::Class;
use crate::region::{BLOCK_BYTES, BlockId};

/// A block is charged in steps of this many bytes as it is carved.
const CHARGE_BYTES: usize = 64 << 10;

/// The free slots of one block in one lane.
#[derive(Default)]
pub(super) struct Slab {
    /// Byte offsets of the free slots in the region.
    pub free: Vec<u32>,
    /// First slot that was never handed out; the number of slots if the whole block is carved.
    pub carved: usize,
    /// Bytes of the block that have been charged.
    pub charged: usize,
}

/// One size class of a lane.
#[derive(Default)]
pub(super) struct ClassSlabs {
    pub slabs: BTreeMap<BlockId, Slab>,
    /// Bytes charged for carved blocks without a free slot, which have no slab.
    pub full: BTreeMap<BlockId, usize>,
    /// The slab that had a slot at the last allocation.
    pub current: Option<BlockId>,
    /// Number of free slots in all slabs.
    pub free: usize,
}

impl ClassSlabs {
    pub fn forget(&mut self, region: RegionId, account: &Account) {
        let there = |id: &BlockId| id.region == region;
        for (_, slab) in self.slabs.extract_if(.., |id, _| there(id)) {
            self.free -= slab.free.len();
            account.release(slab.charged as u64);
        }
        for (_, charged) in self.full.extract_if(.., |id, _| there(id)) {
            account.release(charged as u64);
        }
        self.current = self.current.filter(|id| !there(id));
    }

    /// Removes slabs without free slots from the search.
    pub fn drop_full(&mut self, class: Class) {
        let full = &mut self.full;
        self.slabs.retain(|id, slab| {
            let keep = slab.has_free_slot(class);
            if !keep {
                full.insert(*id, slab.charged);
            }
            keep
        });
    }

    pub fn take(
        &mut self,
        account: &Account,
        id: BlockId,
        class: Class,
    ) -> Result<Option<Addr>, OutOfMemory> {
        let Some(slab) = self.slabs.get_mut(&id) else {
            return Ok(None);
        };
        if let Some(offset) = slab.free.pop() {
            self.free -= 1;
            return Ok(Some(Addr::new(id.region, offset)));
        }
        if slab.carved >= class.slots() {
            return Ok(None);
        }
        slab.charge(account, (slab.carved + 1) * class.slot_words() * WORD_BYTES)?;
        slab.carved += 1;
        Ok(Some(id.slot(class, slab.carved - 1)))
    }
}

impl Slab {
    pub fn has_free_slot(&self, class: Class) -> bool {
        !self.free.is_empty() || self.carved < class.slots()
    }

    pub fn charge(&mut self, account: &Account, upto: usize) -> Result<(), OutOfMemory> {
        if upto > self.charged {
            let target = charge_up_to(upto);
            account.charge((target - self.charged) as u64)?;
            self.charged = target;
        }
        Ok(())
    }
}

/// Returns the bytes to charge for a block of which `bytes` are in use.
fn charge_up_to(bytes: usize) -> usize {
    bytes.next_multiple_of(CHARGE_BYTES).min(BLOCK_BYTES)
}

/// Returns the bytes to charge for a block of which `slots` slots are in use.
pub(crate) fn charge_of(class: Class, slots: usize) -> usize {
    charge_up_to(slots * class.slot_words() * WORD_BYTES)
}
