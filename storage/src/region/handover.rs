//! Region handover in a new configuration (SOSP'15 §5.2, §5.5).
//!
//! ```text
//! backup ── promote ─► own, no allocation ── take_up, block by block ─► own, with allocation
//! a peer's ── forget ─► looked up again, at its new primary
//! own or backup ── part_with ─► a peer's; peers with the old configuration still find the memory
//!                  release ─► they do not
//! ```
//! The *floor* of a promoted region is a timestamp that no write of an older configuration exceeds.
//! The previous primary had the old versions, so only the newest version below the floor is known.
//! Free slots are found by their allocated bits. So are slots that were freed at or below the
//! floor, regardless of the machine that frees them. A slot that is freed above the floor belongs
//! to the transaction that freed it, and waits until its block has been scanned.
//!
//! # Requirements on the caller
//! The code that applies configurations makes one call at a time for a region. A region is promoted
//! only if its backup is complete. It is taken up once no transaction of an older configuration
//! writes there any more. Until then writes to backups are applied to it as to a backup. Locked
//! slots are not free: the holder of the lock owns the slot. Locked objects in a region that its
//! machine hands over stay locked, and nothing is written there any more. A late reader sees the
//! old contents, or waits and looks the region up again. The region is released when all machines
//! look it up elsewhere.

use fencepost_fabric::sync::Ordering;

use super::Regions;
use super::blocks::{BLOCK_BYTES, BlockId, Region};
use super::growth::FreeBlock;
use crate::account::Account;
use crate::addr::{Addr, RegionId};
use crate::backing::Piece;
use crate::lanes::Lanes;
use crate::timestamp::Timestamp;

/// The treatment of a freed slot that all readers have passed.
pub(crate) enum SlotTreatment {
    /// It is reused.
    Serves,
    /// It waits until its block has been scanned.
    Waits,
    /// The scan of its block finds it, or it is not this machine's.
    Found,
}

impl Regions {
    /// Makes a backup of this machine a region of its own, without allocation at first. Returns
    /// whether there is such a backup, or the region was its own already.
    #[must_use]
    pub fn promote(&self, id: RegionId, floor: Timestamp) -> bool {
        let mut promoted = self.promoted.lock();
        // A reserved region is to be kept; that message is still on its way.
        self.keep(id);
        if self.table.get(id).is_some_and(Region::is_own) {
            return true;
        }
        let Some(backup) = self.backups.get(id) else {
            return false;
        };
        promoted.insert(id.0, floor);
        let region = Region::of_former_backup(backup);
        self.table.replace(id, Some(region));
        true
    }

    /// Forgets a peer's region whose primary has changed: it is looked up again.
    pub fn forget(&self, id: RegionId) {
        if !self.table.get(id).is_some_and(Region::is_own) {
            self.table.replace(id, None);
        }
    }

    /// Makes the free slots in the next `blocks` blocks of a promoted region available, by a scan
    /// of the blocks' allocated bits (SOSP'15 §5.5). No transaction reads below `oldest`. Returns
    /// whether all blocks are available. The caller calls it again, with pauses for other work,
    /// until then.
    pub fn take_up(
        &self,
        id: RegionId,
        (lanes, account): (&Lanes, &Account),
        oldest: Timestamp,
        blocks: usize,
    ) -> bool {
        // Held throughout: one call at a time.
        let promoted = self.promoted.lock();
        let region = self.table.get(id).filter(|region| region.is_own());
        let (Some(floor), Some(region)) = (promoted.get(&id.0).copied(), region) else {
            return true;
        };
        if self.has_backup(id) {
            self.backups.replace(id, None);
        }
        let all = region.blocks() as u32;
        let from = region.served();
        let upto = from.saturating_add(blocks as u32).min(all);
        for block in from..upto {
            let block = BlockId { region: id, block };
            match region.class(block.block as usize) {
                Some(class) => {
                    region.adopt((block, class), (lanes, account), (floor, oldest));
                }
                None => self.growth.lock().free.push(FreeBlock::never_used(block)),
            }
            region.serve(block.block + 1);
        }
        if from < all && upto == all {
            let mut growth = self.growth.lock();
            growth.take_on(id, all);
            self.count.store(growth.own.len() as u32, Ordering::Release);
        }
        upto == all
    }

    /// Returns the treatment of a slot that was `freed` at that time.
    #[inline]
    pub(crate) fn fate(&self, addr: Addr, freed: Timestamp) -> SlotTreatment {
        match self.region(addr.region()) {
            Some(region) if region.is_native() => SlotTreatment::Serves,
            Some(region) => self.fate_in_promoted(region, addr, freed),
            None => SlotTreatment::Found,
        }
    }

    #[cold]
    fn fate_in_promoted(&self, region: &Region, addr: Addr, freed: Timestamp) -> SlotTreatment {
        // Blocks are scanned in order.
        let served = region.served();
        let promoted = self.promoted.try_lock();
        let Some(promoted) = promoted else {
            return SlotTreatment::Waits;
        };
        match promoted.get(&addr.region().0) {
            Some(floor) if freed > *floor && region.is_own() => {
                match BlockId::of(addr).block < served {
                    true => SlotTreatment::Serves,
                    false => SlotTreatment::Waits,
                }
            }
            _ => SlotTreatment::Found,
        }
    }

    /// Hands a region over as [`Self::part_with`] does, and removes its memory from the reach of
    /// peers.
    pub fn release(&self, id: RegionId, with: (&Lanes, &Account)) {
        self.part_with(id, with);
        let mut parted = self.parted.lock();
        let found = parted.get_mut(&id.0);
        if found.is_some_and(std::mem::take) {
            self.backing.withdraw(Piece::Region(id.0));
        }
    }

    /// Returns whether this machine has handed a region over and does not have it now.
    pub fn has_parted_with(&self, id: RegionId) -> bool {
        self.parted.lock().contains_key(&id.0)
    }

    /// Removes a region or a backup from this machine, and its slots from the allocator. Late
    /// readers may still read its memory.
    pub fn part_with(&self, id: RegionId, (lanes, account): (&Lanes, &Account)) {
        if self.give_up(id) {
            return;
        }
        let own = self.table.get(id).is_some_and(Region::is_own);
        if !own && !self.has_backup(id) {
            return;
        }
        if own {
            self.promoted.lock().remove(&id.0);
            let mut growth = self.growth.lock();
            growth.let_go(id, (self.region_bytes / BLOCK_BYTES) as u32);
            self.count.store(growth.own.len() as u32, Ordering::Release);
            drop(growth);
            self.table.replace(id, None);
            lanes.forget(id, account);
        }
        if self.has_backup(id) {
            self.backups.replace(id, None);
        }
        self.parted.lock().insert(id.0, true);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
