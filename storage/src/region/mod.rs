//! Regions and their table: memory split into blocks, blocks into slots of one size class.
//!
//! # Picture
//! ```text
//! mod.rs      the table: the region of an address, and the slot there
//! table.rs    the table's entries, and how they are replaced
//! blocks.rs   one region: the header block, and blocks of slots
//! growth.rs   which block is used next          assigned.rs  assigned regions and backups
//! handover.rs backups that become regions       restore.rs  restoring from log or checkpoint
//! image.rs    the memory that ended machines have left
//! ```
//! A region is reserved whole and populated as it is touched, so a new one costs next to nothing. A
//! machine of a cluster has three kinds of regions. It is the primary of some. Regions of peers are
//! found when an address first leads there, and only read. Backups are not read by address.
//! Primaries and backups are assigned to a machine in two steps: [`Regions::reserve`], and
//! [`Regions::keep`] or [`Regions::release`]. A backup becomes a region of its own when the
//! machines that had it before are lost. Block 0 of region 0 is followed by the root block, whose
//! first slot is the database's root object.
//!
//! # Concurrency
//! A block's class is set by the thread that acquired it, before other threads know any address in
//! it. The class changes again only after an epoch (see [`crate::lanes`]). Looking an address up
//! takes no lock.

mod assigned;
mod blocks;
mod free_slots;
mod growth;
mod handover;
mod image;
mod restore;
mod table;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use fencepost_fabric::memory::WORD_BYTES;
use fencepost_fabric::sync::Ordering;
use parking_lot::Mutex;

use assigned::SpareMemory;
pub use blocks::{BLOCK_BYTES, BlockId, Region, class_of};
use growth::Growth;
pub(crate) use handover::SlotTreatment;
pub use image::Image;
use table::{RegionEntry, Table};

use crate::account::OutOfMemory;
use crate::addr::{Addr, RegionId};
use crate::backing::{Backing, Piece, PrivateBacking};
use crate::classes::Class;
use crate::object::ObjectRef;
use crate::timestamp::Timestamp;

/// The smallest region.
pub const MIN_REGION_BYTES: usize = 16 << 20;
/// The largest region; an address has 32 bits of offset and 2 GiB is the production size.
pub const MAX_REGION_BYTES: usize = 2 << 30;
/// Most regions of a machine.
pub const MAX_REGIONS: usize = 16384;

/// All regions of a machine.
pub struct Regions {
    table: Table,
    backups: Table,
    count: AtomicU32,
    region_bytes: usize,
    growth: Mutex<Growth>,
    /// Regions that are reserved and not kept yet.
    reserved: Mutex<HashMap<u32, SpareMemory>>,
    /// Regions that were backups here before, and their floors ([`handover`]).
    promoted: Mutex<HashMap<u32, Timestamp>>,
    /// Regions that this machine has handed over, and whether peers still find their memory here.
    parted: Mutex<HashMap<u32, bool>>,
    backing: Arc<dyn Backing>,
}

impl Regions {
    /// Returns an empty table for regions of `region_bytes`, a power of two between
    /// [`MIN_REGION_BYTES`] and [`MAX_REGION_BYTES`]. Other values are changed to the nearest
    /// allowed one.
    pub fn new(region_bytes: usize) -> Self {
        Self::with(region_bytes, Arc::new(PrivateBacking))
    }

    /// Returns a table as [`Self::new`] does, with memory from `backing`.
    pub fn with(region_bytes: usize, backing: Arc<dyn Backing>) -> Self {
        let region_bytes = region_bytes
            .clamp(MIN_REGION_BYTES, MAX_REGION_BYTES)
            .next_power_of_two();
        Self {
            table: Table::new(MAX_REGIONS),
            backups: Table::new(MAX_REGIONS),
            count: AtomicU32::new(0),
            region_bytes,
            backing,
            growth: Mutex::default(),
            reserved: Mutex::default(),
            promoted: Mutex::default(),
            parted: Mutex::default(),
        }
    }

    /// Returns the bytes of a region.
    pub fn region_bytes(&self) -> usize {
        self.region_bytes
    }

    /// Returns the number of regions whose primary is this machine, without promoted backups that
    /// are not scanned yet. On a machine that is alone, their ids are `0..count`.
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    /// Returns a region of this machine or of a peer. Takes no lock; the first look-up of a peer's
    /// region maps it. `None` if no machine that this one can map has such a region.
    #[inline]
    pub fn region(&self, id: RegionId) -> Option<&Region> {
        let place = self.table.last(id)?;
        place.get().or_else(|| self.find(id, place))
    }

    /// Looks up a region that a peer has made.
    #[cold]
    fn find<'a>(&self, id: RegionId, place: &'a RegionEntry) -> Option<&'a Region> {
        let found = self.backing.find(Piece::Region(id.0))?;
        Some(place.get_or_init(|| Region::of_peer(found.memory, found.machine)))
    }

    /// Returns whether the primary of `addr` is this machine.
    #[inline]
    pub fn is_own(&self, addr: Addr) -> bool {
        self.region(addr.region()).is_some_and(Region::is_own)
    }

    /// Returns whether this machine is the primary of a region.
    pub fn has_own(&self, id: RegionId) -> bool {
        self.table.get(id).is_some_and(Region::is_own)
    }

    /// Returns the slot at `addr`; `None` for an address outside every block in use. A wrong
    /// address inside a block gives a slot of garbage, never a panic: code that stores addresses
    /// must check the objects.
    #[inline]
    pub fn object(&self, addr: Addr) -> Option<ObjectRef<'_>> {
        self.region(addr.region())?.object(addr.offset() as usize)
    }

    /// Returns the slot as [`Self::object`] does, if this machine is the primary, so that it may
    /// write there.
    #[inline]
    pub fn own_object(&self, addr: Addr) -> Option<ObjectRef<'_>> {
        let region = self.table.get(addr.region());
        let own = region.filter(|region| region.is_own())?;
        own.object(addr.offset() as usize)
    }

    /// Prefetches the first `bytes` at `addr`, which is about to be read.
    #[inline]
    pub fn prefetch(&self, addr: Addr, bytes: usize) {
        if let Some(region) = self.region(addr.region()) {
            region.prefetch(addr.offset() as usize, bytes);
        }
    }

    /// Returns the slot at `addr` and a number that changes whenever its block gets another class.
    /// Returns `None` where no slot begins. A reader without an epoch reads the slot, and checks by
    /// a second call that the number is unchanged.
    pub fn slot_at(&self, addr: Addr) -> Option<(ObjectRef<'_>, u64)> {
        let region = self.region(addr.region())?;
        let offset = addr.offset() as usize;
        let class = region
            .class_word(offset / BLOCK_BYTES)?
            .load(Ordering::Acquire);
        let bytes = class_of(class)?.slot_words() * WORD_BYTES;
        (offset % BLOCK_BYTES)
            .is_multiple_of(bytes)
            .then_some((region.object(offset)?, class))
    }

    /// Returns the size class of the block that contains `addr`.
    pub fn class_of(&self, addr: Addr) -> Option<Class> {
        self.region(addr.region())?
            .class(addr.offset() as usize / BLOCK_BYTES)
    }

    /// Returns every block in use of this machine's regions with its class, in address order.
    pub fn blocks(&self) -> Vec<(BlockId, Class)> {
        let mut own = self.growth.lock().own.clone();
        own.extend(self.promoted.lock().keys());
        self.blocks_of(own)
    }

    /// Returns the blocks as [`Self::blocks`] does, and those of backups on this machine.
    pub fn replica_blocks(&self) -> Vec<(BlockId, Class)> {
        let mut all = self.growth.lock().own.clone();
        all.extend(self.promoted.lock().keys());
        let has_backup = |id: &u32| self.has_backup(RegionId(*id));
        all.extend((0..MAX_REGIONS as u32).filter(has_backup));
        self.blocks_of(all)
    }

    /// Returns this machine's replica of a region, as primary or as backup.
    pub fn replica(&self, id: RegionId) -> Option<&Region> {
        let own = self.table.get(id).filter(|region| region.is_own());
        own.or_else(|| self.backups.get(id))
    }

    fn blocks_of(&self, mut regions: Vec<u32>) -> Vec<(BlockId, Class)> {
        let mut all = Vec::new();
        regions.sort_unstable();
        regions.dedup();
        for region in regions {
            let id = RegionId(region);
            let Some(there) = self.replica(id) else {
                continue;
            };
            for block in 1..there.blocks() {
                if let Some(class) = there.class(block) {
                    all.push((
                        BlockId {
                            region: id,
                            block: block as u32,
                        },
                        class,
                    ));
                }
            }
        }
        all
    }

    fn set_class(&self, id: BlockId, class: Class) -> Result<(), OutOfMemory> {
        let region = self.region(id.region).ok_or(OutOfMemory)?;
        region.set_class(id.block, class)
    }

    /// Gives to `class` a block that had another class before and has no objects left.
    fn put_anew(&self, id: BlockId, class: Class) -> Result<(), OutOfMemory> {
        let region = self.region(id.region).ok_or(OutOfMemory)?;
        region.clear(id.block, class);
        region.set_class(id.block, class)
    }
}
