//! Regions and the table of them: memory split into blocks, blocks into slots of one size class.
//!
//! # Picture
//! ```text
//! region  | block 0: header block | block 1 | block 2 | ...          1 MiB each
//! header  | word b: generation of block b (48) | its class + 1, or 0 while it is free (16) |
//! block   | slot | slot | slot | ... | rest |
//! ```
//! A region is reserved whole and populated as it is touched, so a new one costs next to nothing.
//! A machine among others has three kinds: those whose primary it is, those of peers, found when an
//! address first leads there and only ever read, and backups, which nobody reads by address. Those that it
//! has itself are given to it, in two steps: [`Regions::reserve`], and [`Regions::keep`] or
//! [`Regions::give_up`].
//! Block 0 of region 0 is followed by the root block, whose first slot is the database's root object.
//!
//! # Concurrency
//! A block's class is set by the thread that acquired it, before any address in it is known to
//! others, and changes again only after an epoch (see [`crate::lanes`]). Looking an address up takes
//! no lock.

use std::collections::HashMap;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::account::{Account, OutOfMemory};
use crate::addr::{Addr, RegionId};
use crate::backing::{Backing, Piece, Private};
use crate::classes::{CLASSES, Class, MAX_SLOT_WORDS};
use crate::header::{Link, OldPlace};
use crate::object::ObjectRef;
use crate::timestamp::Timestamp;
use fencepost_fabric::memory::{self, Memory, WORD_BYTES};
use fencepost_fabric::sync::{AtomicU64, Ordering, fence};

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 1 << 20;
/// The smallest region.
pub const MIN_REGION_BYTES: usize = 16 << 20;
/// The largest region; an address has 32 bits of offset and 2 GiB is the production size.
pub const MAX_REGION_BYTES: usize = 2 << 30;
/// Regions of a machine.
pub const MAX_REGIONS: usize = 4096;
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
    fn of(memory: Memory, own: bool) -> Self {
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

    #[inline]
    fn class_word(&self, block: usize) -> Option<&AtomicU64> {
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

    #[inline]
    fn object(&self, offset: usize) -> Option<ObjectRef<'_>> {
        let class = self.class(offset / BLOCK_BYTES)?;
        let from = offset / WORD_BYTES;
        let words = self.memory.words().get(from..from + class.slot_words())?;
        Some(ObjectRef::new(words, from))
    }
}

/// A block that any size class may take.
#[derive(Clone, Copy)]
struct FreeBlock {
    id: BlockId,
    /// What all readers must pass first.
    freed: Timestamp,
    /// Whether it may have pages.
    paged: bool,
}

impl FreeBlock {
    fn never_used(id: BlockId) -> FreeBlock {
        FreeBlock {
            id,
            freed: Timestamp::ZERO,
            paged: false,
        }
    }
}

struct Growth {
    /// Ids of the regions whose primary is this machine, in the order in which they were made.
    own: Vec<u32>,
    /// How many of them have blocks in use.
    begun: usize,
    /// Blocks whose every slot is free.
    free: Vec<FreeBlock>,
    /// Next never-used block of the region that was begun last.
    next: u32,
}

/// Memory of a region that this machine may come to have.
struct Spare {
    memory: Memory,
    /// Whether it is to be its primary.
    own: bool,
}

/// All regions of a machine.
pub struct Regions {
    table: Box<[OnceLock<Region>]>,
    backups: Box<[OnceLock<Region>]>,
    count: AtomicU32,
    region_bytes: usize,
    growth: Mutex<Growth>,
    /// Regions that are reserved and not kept yet.
    reserved: Mutex<HashMap<u32, Spare>>,
    backing: Arc<dyn Backing>,
}

impl Regions {
    /// An empty table for regions of `region_bytes`, a power of two between [`MIN_REGION_BYTES`] and
    /// [`MAX_REGION_BYTES`]; other values are brought to the nearest allowed one.
    pub fn new(region_bytes: usize) -> Self {
        Self::with(region_bytes, Arc::new(Private))
    }

    /// As [`Self::new`], with memory from `backing`.
    pub fn with(region_bytes: usize, backing: Arc<dyn Backing>) -> Self {
        let region_bytes = region_bytes
            .clamp(MIN_REGION_BYTES, MAX_REGION_BYTES)
            .next_power_of_two();
        Self {
            table: (0..MAX_REGIONS).map(|_| OnceLock::new()).collect(),
            backups: (0..MAX_REGIONS).map(|_| OnceLock::new()).collect(),
            count: AtomicU32::new(0),
            region_bytes,
            backing,
            growth: Mutex::new(Growth {
                own: Vec::new(),
                begun: 0,
                free: Vec::new(),
                next: 0,
            }),
            reserved: Mutex::default(),
        }
    }

    /// Bytes of a region.
    pub fn region_bytes(&self) -> usize {
        self.region_bytes
    }

    /// Regions whose primary this machine is. Alone, their ids are `0..count`.
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    /// A region.
    #[inline]
    pub fn region(&self, id: RegionId) -> Option<&Region> {
        let cell = self.table.get(id.0 as usize)?;
        cell.get().or_else(|| self.find(id, cell))
    }

    /// A region that a peer has made.
    #[cold]
    fn find<'a>(&self, id: RegionId, cell: &'a OnceLock<Region>) -> Option<&'a Region> {
        let memory = self.backing.find(Piece::Region(id.0))?;
        Some(cell.get_or_init(|| Region::of(memory, false)))
    }

    /// Whether the primary of `addr` is this machine.
    #[inline]
    pub fn is_own(&self, addr: Addr) -> bool {
        self.region(addr.region()).is_some_and(Region::is_own)
    }

    /// The slot at `addr` of a backup that this machine keeps.
    pub fn backup(&self, addr: Addr) -> Option<ObjectRef<'_>> {
        let region = self.backups.get(addr.region().0 as usize)?.get()?;
        region.object(addr.offset() as usize)
    }

    /// Size class of a block of a backup, if it has one.
    pub fn backup_class(&self, id: BlockId) -> Option<Class> {
        let region = self.backups.get(id.region.0 as usize)?.get()?;
        region.class(id.block as usize)
    }

    /// Makes memory for a region that this machine is to be the primary of, if it is to be its `own`, or a
    /// backup. It is found by others, but has no blocks here before it is kept.
    ///
    /// # Errors
    /// [`OutOfMemory`] where there is none, or the id is too large.
    pub fn reserve(&self, id: RegionId, own: bool) -> Result<(), OutOfMemory> {
        if id.0 as usize >= self.table.len() {
            return Err(OutOfMemory);
        }
        let words = self.region_bytes / WORD_BYTES;
        let memory = self.backing.make(piece(id, own), words);
        let memory = memory.map_err(|_| OutOfMemory)?;
        self.reserved.lock().insert(id.0, Spare { memory, own });
        Ok(())
    }

    /// A region that was reserved is this machine's from now on.
    pub fn keep(&self, id: RegionId) {
        let Some(Spare { memory, own }) = self.reserved.lock().remove(&id.0) else {
            // A backup that was written to before.
            return;
        };
        match own {
            true => self.add_own(&mut self.growth.lock(), id.0, memory),
            false => {
                let cell = self.backups.get(id.0 as usize);
                let _ = cell.map(|cell| cell.set(Region::of(memory, false)));
            }
        }
    }

    /// A region that was reserved will not be this machine's.
    pub fn give_up(&self, id: RegionId) {
        if let Some(spare) = self.reserved.lock().remove(&id.0) {
            self.backing.withdraw(piece(id, spare.own));
        }
    }

    /// The region of this machine that was made last.
    pub fn newest(&self) -> Option<RegionId> {
        self.growth.lock().own.last().copied().map(RegionId)
    }

    /// Whether all blocks of this machine's regions have been in use, so that a new one needs a new region
    /// or what is free by then.
    pub fn is_full(&self) -> bool {
        let growth = self.growth.lock();
        growth.begun == growth.own.len() && self.is_used_up(&growth)
    }

    /// Whether the region that was begun last has no block left that was never used.
    fn is_used_up(&self, growth: &Growth) -> bool {
        growth.begun == 0 || growth.next as usize >= self.region_bytes / BLOCK_BYTES
    }

    /// Gives block `id` of a backup to `class`, as its primary did.
    ///
    /// # Errors
    /// [`OutOfMemory`] where this machine has no such backup, or it no such block.
    pub fn restore_backup(&self, id: BlockId, class: Class) -> Result<(), OutOfMemory> {
        let cell = self.backups.get(id.region.0 as usize).ok_or(OutOfMemory)?;
        if cell.get().is_none() {
            // Who writes there knows that it is to be kept; that is on its way here.
            self.keep(id.region);
        }
        let region = cell.get().ok_or(OutOfMemory)?;
        let there = region.class(id.block as usize);
        if there == Some(class) {
            return Ok(());
        }
        if there.is_some() {
            clear_block(region, id, class);
        }
        set_class(region, id, class)
    }

    /// The slot at `addr`; `None` for an address outside every block in use. A wrong address inside
    /// a block gives a slot of garbage, never a panic: whoever stores addresses checks its objects.
    #[inline]
    pub fn object(&self, addr: Addr) -> Option<ObjectRef<'_>> {
        self.region(addr.region())?.object(addr.offset() as usize)
    }

    /// Asks the processor for the first `bytes` at `addr`, which is about to be read.
    #[inline]
    pub fn prefetch(&self, addr: Addr, bytes: usize) {
        let from = addr.offset() as usize / WORD_BYTES;
        if let Some(words) = self
            .region(addr.region())
            .and_then(|region| region.memory.words().get(from..from + bytes / WORD_BYTES))
        {
            memory::prefetch(words);
        }
    }

    /// The slot at `addr` and a number that changes whenever its block gets another class. `None`
    /// where no slot begins.
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

    /// Size class of the block that holds `addr`.
    pub fn class_of(&self, addr: Addr) -> Option<Class> {
        self.region(addr.region())?
            .class(addr.offset() as usize / BLOCK_BYTES)
    }

    /// Takes a block for slots of `class`: one whose freeing `oldest` has passed, if blocks `may` be
    /// used `again` now, or a new one.
    ///
    /// # Errors
    /// [`OutOfMemory`] when every region is full or the kernel gives no more address space.
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
            self.clear_block(id, class);
            self.set_class(id, class)?;
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

    /// Makes sure that block `id` exists with `class`, as a log record or a checkpoint says.
    ///
    /// # Errors
    /// [`OutOfMemory`] when the region cannot be reserved or the block has another class already.
    pub fn restore_block(&self, id: BlockId, class: Class) -> Result<(), OutOfMemory> {
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
            let blocks = (self.region_bytes / BLOCK_BYTES) as u32;
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

    /// Gives block `id` to `class` although it had another class before, as the log says: by then all
    /// that was in it had been freed.
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
        self.clear_block(id, class);
        self.set_class(id, class)
    }

    fn clear_block(&self, id: BlockId, class: Class) {
        if let Some(region) = self.region(id.region) {
            clear_block(region, id, class);
        }
    }

    /// Gives a block back whose every slot is free; it is used again once all readers have passed
    /// what `freed` answers, which is asked when nobody finds the block's size class any more.
    pub fn release_block(&self, id: BlockId, freed: impl FnOnce() -> Timestamp) {
        if let Some(word) = self
            .region(id.region)
            .and_then(|r| r.class_word(id.block as usize))
        {
            word.fetch_and(!CLASS_MASK, Ordering::SeqCst);
            let freed = freed();
            self.growth.lock().free.push(FreeBlock {
                id,
                freed,
                paged: true,
            });
        }
    }

    /// Gives the pages of free blocks that readers have `passed` back to the system.
    pub fn discard_free_blocks(&self, passed: Timestamp) {
        let mut growth = self.growth.lock();
        for free in &mut growth.free {
            if free.paged
                && free.freed <= passed
                && let Some(region) = self.region(free.id.region)
            {
                let from = free.id.block as usize * MAX_SLOT_WORDS;
                region.memory.discard(from..from + MAX_SLOT_WORDS);
                free.paged = false;
            }
        }
    }

    /// Every block in use of this machine's regions with its class, in address order.
    pub fn blocks(&self) -> Vec<(BlockId, Class)> {
        let mut all = Vec::new();
        let mut own = self.growth.lock().own.clone();
        own.sort_unstable();
        for region in own {
            let id = RegionId(region);
            let Some(there) = self.region(id) else {
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

    /// Makes the next region of a machine that is alone.
    fn add_region(&self, growth: &mut Growth) -> Result<(), OutOfMemory> {
        let made = growth.own.len() as u32;
        let id = self.backing.next_region(made).ok_or(OutOfMemory)?;
        if id as usize >= self.table.len() {
            return Err(OutOfMemory);
        }
        let words = self.region_bytes / WORD_BYTES;
        let memory = self.backing.make(Piece::Region(id), words);
        self.add_own(growth, id, memory.map_err(|_| OutOfMemory)?);
        Ok(())
    }

    fn add_own(&self, growth: &mut Growth, id: u32, memory: Memory) {
        // Only the holder of the growth lock gets here, once for an id, so the cell is empty.
        let cell = self.table.get(id as usize);
        let _ = cell.map(|cell| cell.set(Region::of(memory, true)));
        growth.own.push(id);
        self.count.store(growth.own.len() as u32, Ordering::Release);
    }

    fn set_class(&self, id: BlockId, class: Class) -> Result<(), OutOfMemory> {
        set_class(self.region(id.region).ok_or(OutOfMemory)?, id, class)
    }

    /// Charges what loaded blocks hold, in full: recovery does not know which pages they touch.
    pub fn charge_restored(&self, account: &Account) {
        account.charge_unchecked((self.blocks().len() * MAX_SLOT_WORDS * WORD_BYTES) as u64);
    }
}

/// What a region of this machine, its `own` or a backup, is to the backing.
fn piece(id: RegionId, own: bool) -> Piece {
    match own {
        true => Piece::Region(id.0),
        false => Piece::Backup(id.0),
    }
}

/// Empties a block for slots of `class`. Incarnations do not begin anew: each slot goes on from a
/// number that its words had nothing to do with, so that a stale fat pointer does not fit.
fn clear_block(region: &Region, id: BlockId, class: Class) {
    let from = id.block as usize * BLOCK_BYTES / WORD_BYTES;
    let Some(words) = region.memory.words().get(from..from + MAX_SLOT_WORDS) else {
        return;
    };
    // Whoever still looks at an object of the block finds its header gone.
    fence(Ordering::Release);
    let generation = region
        .class_word(id.block as usize)
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

fn set_class(region: &Region, id: BlockId, class: Class) -> Result<(), OutOfMemory> {
    let word = region.class_word(id.block as usize).ok_or(OutOfMemory)?;
    let generation = (word.load(Ordering::Relaxed) & !CLASS_MASK).wrapping_add(CLASS_MASK + 1);
    word.store(generation | (u64::from(class.0) + 1), Ordering::Release);
    if id.block as usize == HUGE_PAGES_FROM_BLOCK {
        region.memory.advise_huge_pages();
    }
    Ok(())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

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
    fn a_released_block_waits_for_its_readers() {
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

    /// Memory of a machine that is given its regions.
    #[derive(Default)]
    struct Given(Mutex<Vec<Piece>>);

    impl Backing for Given {
        fn make(&self, piece: Piece, words: usize) -> std::io::Result<Memory> {
            let mut made = self.0.lock();
            if made.contains(&piece) {
                return Err(std::io::ErrorKind::AlreadyExists.into());
            }
            made.push(piece);
            Memory::anonymous(words)
        }

        fn find(&self, _piece: Piece) -> Option<Memory> {
            None
        }

        fn withdraw(&self, piece: Piece) {
            self.0.lock().retain(|made| *made != piece);
        }

        fn next_region(&self, _made: u32) -> Option<u32> {
            None
        }
    }

    #[test]
    fn regions_that_are_given_serve_once_they_are_kept() {
        let backing = Arc::new(Given::default());
        let regions = Regions::with(MIN_REGION_BYTES, Arc::clone(&backing) as _);
        let take = || regions.acquire_block(Class(0), Timestamp::ZERO, true);
        assert!(regions.is_full());
        assert_eq!(take(), Err(OutOfMemory));
        let (first, second) = (RegionId(7), RegionId(3));
        regions.reserve(first, true).expect("memory");
        assert_eq!(take(), Err(OutOfMemory), "it may yet be given up");
        regions.give_up(first);
        assert_eq!(*backing.0.lock(), []);
        for id in [first, second] {
            regions.reserve(id, true).expect("memory, again");
            regions.keep(id);
        }
        assert!(!regions.is_full());
        let mut last = None;
        for at in 0..30 {
            let id = take().expect("15 blocks in each of two regions");
            let of = if at < 15 { first } else { second };
            assert_eq!((id.region, id.block), (of, at % 15 + 1));
            last = Some(id);
        }
        assert!(regions.is_full() && regions.count() == 2);
        assert_eq!(take(), Err(OutOfMemory));
        let last = last.expect("thirty of them");
        regions.release_block(last, || Timestamp::ZERO);
        assert_eq!(take(), Ok(last), "what is free again serves");
        let beyond = RegionId(MAX_REGIONS as u32);
        assert_eq!(regions.reserve(beyond, true), Err(OutOfMemory));
    }

    #[test]
    fn a_backup_that_is_reserved_serves_whoever_writes_to_it() {
        let backing = Arc::new(Given::default());
        let regions = Regions::with(MIN_REGION_BYTES, Arc::clone(&backing) as _);
        let at = |region| BlockId {
            region: RegionId(region),
            block: 2,
        };
        assert_eq!(regions.restore_backup(at(1), Class(3)), Err(OutOfMemory));
        regions.reserve(RegionId(1), false).expect("memory");
        assert_eq!(*backing.0.lock(), [Piece::Backup(1)]);
        assert_eq!(regions.restore_backup(at(1), Class(3)), Ok(()));
        // That it is to be kept comes later.
        regions.keep(RegionId(1));
        assert_eq!(regions.backup_class(at(1)), Some(Class(3)));
        assert!(regions.is_full() && regions.region(RegionId(1)).is_none());
    }

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
}
