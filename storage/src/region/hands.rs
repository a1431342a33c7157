//! Regions that change hands, as a new configuration says (SOSP'15 §5.2, §5.5).
//!
//! ```text
//! backup ── promote ─► own, nothing is handed out ── take_up, some blocks at a time ─► own as any other
//! a peer's ── forget ─► looked for anew, where its primary is by then
//! own or backup ── part_with ─► a peer's, or nobody's; peers that have not heard of it find the memory as it was
//!                  release ─► they do not
//! ```
//! The *floor* of a region that was promoted is a time that no write of an older configuration is above. Old versions
//! were with the primary before; so of what is below the floor only the newest is known. The free slots are found by
//! their allocated bits, and so is what was freed at or below the floor, whoever says it; what is freed above it is in
//! the hands of who freed it, and waits until its block has been looked through.
//!
//! # Who may
//! Who carries out configurations, one call at a time for a region. A region is promoted whose backup is whole. It is
//! taken up once no transaction of an older configuration is left that writes there: until then what backups are told
//! is applied to it as to a backup. Slots that are locked are not free: whoever holds the lock has the slot. What is
//! locked in a region that its machine parts with stays so, and nothing there is written any more: whoever looks there
//! still sees what was, or waits and looks again. It is released when everybody looks elsewhere.

use fencepost_fabric::sync::Ordering;

use super::Regions;
use super::blocks::{BLOCK_BYTES, BlockId, Region};
use super::growth::FreeBlock;
use crate::account::Account;
use crate::addr::{Addr, RegionId};
use crate::backing::Piece;
use crate::lanes::Lanes;
use crate::timestamp::Timestamp;

/// What becomes of a freed slot that all readers have passed.
pub(crate) enum Fate {
    /// It is handed out again.
    Serves,
    /// That is to be asked again once its block has been looked through.
    Waits,
    /// Who looks through its block finds it, or it is not this machine's.
    Found,
}

impl Regions {
    /// A backup of this machine is a region of its own from now on; nothing is handed out of it yet. Whether there is
    /// such a backup, or it was its own already.
    #[must_use]
    pub fn promote(&self, id: RegionId, floor: Timestamp) -> bool {
        let mut promoted = self.promoted.lock();
        // If it is reserved it is to be kept; that was on its way here.
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

    /// Another machine is the primary of a peer's region: it is looked for there from now on.
    pub fn forget(&self, id: RegionId) {
        if !self.table.get(id).is_some_and(Region::is_own) {
            self.table.replace(id, None);
        }
    }

    /// Makes what is free in the next `blocks` blocks of a promoted region available; `oldest` is what nobody reads
    /// below. Whether all of them are.
    pub fn take_up(
        &self,
        id: RegionId,
        (lanes, account): (&Lanes, &Account),
        oldest: Timestamp,
        blocks: usize,
    ) -> bool {
        // One at a time.
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

    /// What becomes of a slot that was `freed` then.
    #[inline]
    pub(crate) fn fate(&self, addr: Addr, freed: Timestamp) -> Fate {
        match self.region(addr.region()) {
            Some(region) if region.is_native() => Fate::Serves,
            Some(region) => self.fate_in_promoted(region, addr, freed),
            None => Fate::Found,
        }
    }

    #[cold]
    fn fate_in_promoted(&self, region: &Region, addr: Addr, freed: Timestamp) -> Fate {
        // Blocks are looked through in turn.
        let served = region.served();
        let promoted = self.promoted.try_lock();
        let Some(promoted) = promoted else {
            return Fate::Waits;
        };
        match promoted.get(&addr.region().0) {
            Some(floor) if freed > *floor && region.is_own() => {
                match BlockId::of(addr).block < served {
                    true => Fate::Serves,
                    false => Fate::Waits,
                }
            }
            _ => Fate::Found,
        }
    }

    /// As [`Self::part_with`], and peers do not find its memory here any more.
    pub fn release(&self, id: RegionId, with: (&Lanes, &Account)) {
        self.part_with(id, with);
        let mut parted = self.parted.lock();
        let found = parted.get_mut(&id.0);
        if found.is_some_and(std::mem::take) {
            self.backing.withdraw(Piece::Region(id.0));
        }
    }

    /// Whether this machine has had a region, and has it no more.
    pub fn has_parted_with(&self, id: RegionId) -> bool {
        self.parted.lock().contains_key(&id.0)
    }

    /// This machine has a region, or a backup of one, no more; what is in it is forgotten by the allocator, too.
    /// Whoever looks at it still may do so.
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
