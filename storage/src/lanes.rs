//! The slab allocator: lanes of free slots (NSDI'14 §3.3).
//!
//! # Picture
//! ```text
//! lane   class 0: slab of block 7 [free slots, carve point], slab of block 9 ...
//!        class 1: ...
//!        retired slots, oldest first: (address, tombstone timestamp)
//! ```
//! A lane is the paper's thread-private set of free lists. There are a few lanes for each core, and
//! each coordinator stays on one. So a lane's lock is almost never contended, and a thread that
//! ends leaves no state behind.
//!
//! A freed slot is retired with the timestamp of its tombstone. It is reused when the oldest read
//! timestamp has passed that timestamp. Free slots are not stored anywhere: after a crash the lists
//! are rebuilt from the allocated bits. Slots that are freed in a former backup region
//! ([`crate::region::Regions::take_up`]) wait until their block's list has been rebuilt.
//!
//! # Failure
//! At the memory limit [`Lane::alloc`] returns [`OutOfMemory`]; slots already carved stay usable.

mod slabs;
#[cfg(all(test, not(loom)))]
pub(crate) mod tests;

use std::collections::{BTreeMap, VecDeque};

use parking_lot::{Mutex, MutexGuard};

pub(crate) use slabs::charge_of;
use slabs::{ClassSlabs, Slab};

use crate::account::{Account, OutOfMemory};
use crate::addr::{Addr, RegionId};
use crate::classes::{CLASSES, Class};
use crate::old_versions::OldVersionLane;
use crate::region::{BlockId, Regions, SlotTreatment};
use crate::timestamp::Timestamp;
use fencepost_fabric::memory::WORD_BYTES;

/// Capacity for retired slots that a lane always keeps.
const RETIRED_CAPACITY: usize = 4096;

/// One lane: free slots by size class, and retired slots.
pub struct Lane {
    classes: Vec<ClassSlabs>,
    retired: VecDeque<(Addr, Timestamp)>,
    /// The lane's blocks of old versions.
    pub old: OldVersionLane,
}

/// The resources that lanes allocate from.
#[derive(Clone, Copy)]
pub struct LaneResources<'a> {
    /// The regions in which blocks are acquired.
    pub regions: &'a Regions,
    /// The account that memory is charged to.
    pub account: &'a Account,
    /// A function that returns a timestamp below which no transaction reads, now or later.
    pub oldest: &'a dyn Fn() -> Timestamp,
    /// A function that returns whether blocks may get another class now (the durable log has to
    /// allow it).
    pub may_reuse_blocks: &'a dyn Fn() -> bool,
}

/// All lanes of a machine.
pub struct Lanes {
    lanes: Box<[Mutex<Lane>]>,
}

impl Lanes {
    /// Returns `count` empty lanes, at least one.
    pub fn new(count: usize) -> Self {
        let lane = || Lane {
            classes: (0..CLASSES).map(|_| ClassSlabs::default()).collect(),
            retired: VecDeque::new(),
            old: OldVersionLane::default(),
        };
        Self {
            lanes: (0..count.max(1)).map(|_| Mutex::new(lane())).collect(),
        }
    }

    /// Returns the number of lanes.
    pub fn count(&self) -> usize {
        self.lanes.len()
    }

    /// Locks lane `index` modulo the number of lanes; blocks while any thread is in that lane.
    #[inline]
    pub fn enter(&self, index: usize) -> MutexGuard<'_, Lane> {
        self.lanes[index % self.lanes.len()].lock()
    }

    /// Gives a lane the free slots of a block whose free list was rebuilt, and the slots from
    /// `carved` on to be carved. The carved part has been charged ([`charge_of`]).
    pub(crate) fn adopt(&self, (id, class): (BlockId, Class), free: Vec<u32>, carved: usize) {
        let mut lane = self.enter(id.block as usize + id.region.0 as usize);
        let slabs = &mut lane.classes[class.0 as usize];
        slabs.free += free.len();
        slabs.slabs.insert(
            id,
            Slab {
                free,
                carved,
                charged: charge_of(class, carved),
            },
        );
    }

    /// Forgets all slots of a region of which this machine is no longer the primary.
    pub(crate) fn forget(&self, region: RegionId, account: &Account) {
        for lane in &self.lanes {
            let mut lane = lane.lock();
            lane.retired.retain(|(addr, _)| addr.region() != region);
            for slabs in &mut lane.classes {
                slabs.forget(region, account);
            }
        }
    }

    /// Returns to the regions every block whose slots are all free and carved, across all lanes.
    /// They may be used for another class once readers have passed the result of `freed`, which is
    /// called after each of them ([`Regions::release_block`]). Locks all lanes meanwhile.
    pub fn release_empty_blocks(
        &self,
        regions: &Regions,
        account: &Account,
        freed: impl Fn() -> Timestamp,
    ) {
        let mut lanes: Vec<_> = self.lanes.iter().map(|lane| lane.lock()).collect();
        for class in 0..CLASSES {
            let slots = Class(class as u8).slots();
            let mut free: BTreeMap<BlockId, usize> = BTreeMap::new();
            for lane in &lanes {
                for (id, slab) in &lane.classes[class].slabs {
                    let uncarved = slots - slab.carved.min(slots);
                    *free.entry(*id).or_default() +=
                        slab.free.len() + if slab.carved > 0 { uncarved } else { 0 };
                }
            }
            for (id, _) in free.into_iter().filter(|(_, free)| *free == slots) {
                for lane in &mut lanes {
                    let slabs = &mut lane.classes[class];
                    if let Some(slab) = slabs.slabs.remove(&id) {
                        slabs.free -= slab.free.len();
                        account.release(slab.charged as u64);
                    }
                    // One lane carved the block, and its slots were returned to another.
                    account.release(slabs.full.remove(&id).unwrap_or(0) as u64);
                    if slabs.current == Some(id) {
                        slabs.current = None;
                    }
                }
                regions.release_block(id, &freed);
            }
        }
    }
}

impl LaneResources<'_> {
    fn block(&self, class: Class) -> Result<BlockId, OutOfMemory> {
        self.regions
            .acquire_block(class, (self.oldest)(), (self.may_reuse_blocks)())
    }
}

impl Lane {
    /// Takes a slot of `class`, near `near` if possible (NSDI'14 §3.3). The order of the search is:
    /// the block of `near`, then the slab of the last allocation, then the region of `near`, then
    /// any slab, then a new block.
    ///
    /// # Errors
    /// [`OutOfMemory`] if the account refuses a charge, or if no region has a block left.
    pub fn alloc(
        &mut self,
        supply: LaneResources<'_>,
        class: Class,
        near: Addr,
    ) -> Result<Addr, OutOfMemory> {
        let near_block = (!near.is_null()).then(|| BlockId::of(near));
        let slabs = &mut self.classes[class.0 as usize];
        for id in near_block.into_iter().chain(slabs.current) {
            // At the limit a slab that cannot be carved counts as full.
            if let Ok(Some(addr)) = slabs.take(supply.account, id, class) {
                return Ok(addr);
            }
        }
        self.alloc_elsewhere(supply, class, near_block)
    }

    #[cold]
    fn alloc_elsewhere(
        &mut self,
        supply: LaneResources<'_>,
        class: Class,
        near_block: Option<BlockId>,
    ) -> Result<Addr, OutOfMemory> {
        let account = supply.account;
        if self.classes[class.0 as usize].free == 0 && !self.retired.is_empty() {
            self.reuse_retired(supply.regions, (supply.oldest)());
        }
        let slabs = &mut self.classes[class.0 as usize];
        let in_region = near_block.and_then(|hint| {
            let from = BlockId {
                region: hint.region,
                block: 0,
            };
            let to = BlockId {
                region: hint.region,
                block: u32::MAX,
            };
            slabs
                .slabs
                .range(from..=to)
                .find(|(_, slab)| slab.has_free_slot(class))
                .map(|(id, _)| *id)
        });
        let any = || {
            slabs
                .slabs
                .iter()
                .find(|(_, slab)| slab.has_free_slot(class))
                .map(|(id, _)| *id)
        };
        let id = match in_region.or_else(any) {
            Some(id) => id,
            None => {
                slabs.drop_full(class);
                let id = supply.block(class)?;
                slabs.slabs.insert(id, Slab::default());
                id
            }
        };
        slabs.current = Some(id);
        slabs
            .take(account, id, class)
            .or_else(|full| {
                let free = slabs
                    .slabs
                    .iter()
                    .find(|(_, slab)| !slab.free.is_empty())
                    .map(|(id, _)| *id);
                free.map_or(Err(full), |id| slabs.take(account, id, class))
            })?
            .ok_or(OutOfMemory)
    }

    /// Takes `count` consecutive slots of one block, without gaps. Returns the first.
    ///
    /// # Errors
    /// As [`Self::alloc`], and if a block does not have so many slots ([`Class::slots`]).
    pub fn alloc_run(
        &mut self,
        supply: LaneResources<'_>,
        class: Class,
        count: usize,
    ) -> Result<Addr, OutOfMemory> {
        if count > class.slots() {
            return Err(OutOfMemory);
        }
        let slabs = &mut self.classes[class.0 as usize];
        let has_space = |slab: &Slab| class.slots() - slab.carved.min(class.slots()) >= count;
        let id = match slabs
            .slabs
            .iter()
            .find(|(_, slab)| has_space(slab))
            .map(|(id, _)| *id)
        {
            Some(id) => id,
            None => {
                let id = supply.block(class)?;
                slabs.slabs.insert(id, Slab::default());
                id
            }
        };
        let slab = slabs.slabs.get_mut(&id).ok_or(OutOfMemory)?;
        let first = slab.carved;
        slab.charge(
            supply.account,
            (first + count) * class.slot_words() * WORD_BYTES,
        )?;
        slab.carved += count;
        Ok(id.slot(class, first))
    }

    /// Returns a slot that no reader can know, because its transaction never committed.
    pub fn give_back(&mut self, regions: &Regions, addr: Addr) {
        // This machine no longer owns the slots of a region that it has handed over.
        if let Some(class) = regions.class_of(addr).filter(|_| regions.is_own(addr)) {
            let slabs = &mut self.classes[class.0 as usize];
            let id = BlockId::of(addr);
            slabs.free += 1;
            let charged = slabs.full.remove(&id).unwrap_or(0);
            let slab = slabs.slabs.entry(id).or_insert_with(|| Slab {
                free: Vec::new(),
                carved: class.slots(),
                charged,
            });
            slab.free.push(addr.offset());
        }
    }

    /// Retires a slot whose tombstone was committed at `freed`, until no reader is below that.
    pub fn retire(&mut self, addr: Addr, freed: Timestamp) {
        self.retired.push_back((addr, freed));
    }

    /// Moves retired slots that `oldest` has passed to the free lists.
    pub fn reuse_retired(&mut self, regions: &Regions, oldest: Timestamp) {
        for _ in 0..self.retired.len() {
            let Some((addr, freed)) = self.retired.front().copied() else {
                break;
            };
            if freed > oldest {
                break;
            }
            self.retired.pop_front();
            match regions.fate(addr, freed) {
                SlotTreatment::Serves => self.give_back(regions, addr),
                SlotTreatment::Waits => self.retired.push_back((addr, freed)),
                SlotTreatment::Found => {}
            }
        }
        if self.retired.capacity() > RETIRED_CAPACITY && self.retired.len() < RETIRED_CAPACITY {
            self.retired.shrink_to(RETIRED_CAPACITY);
        }
    }
}
