use std::collections::BTreeSet;
use std::sync::Arc;

use crate::backing::{Backing, PeerMemory};
use crate::classes::Class;
use crate::header::{Header, LinkWord, OldVersionPtr};
use crate::lanes::LaneResources;
use crate::object::ObjectRef;
use crate::region::MIN_REGION_BYTES;
use fencepost_fabric::memory::Memory;
use parking_lot::Mutex;

use super::*;

const MINE: RegionId = RegionId(4);
const CLASS: Class = Class(60);
const FLOOR: Timestamp = Timestamp::from_raw(100);
const LIMIT: u64 = 1 << 30;

/// The backing of a machine whose regions are assigned, and the memory of a peer.
#[derive(Default)]
struct TestBacking {
    made: Mutex<Vec<Piece>>,
    peers: Mutex<Option<PeerMemory>>,
}

impl Backing for TestBacking {
    fn make(&self, piece: Piece, words: usize) -> std::io::Result<Memory> {
        self.made.lock().push(piece);
        Memory::anonymous(words)
    }

    fn find(&self, _piece: Piece) -> Option<PeerMemory> {
        self.peers.lock().clone()
    }

    fn withdraw(&self, piece: Piece) {
        self.made.lock().retain(|made| *made != piece);
    }

    fn next_region(&self, _made: u32) -> Option<u32> {
        None
    }
}

struct World {
    backing: Arc<TestBacking>,
    regions: Regions,
    lanes: Lanes,
    account: Account,
}

impl World {
    /// Returns a world with a backup, of which a few blocks have been used.
    fn new() -> World {
        let backing = Arc::new(TestBacking::default());
        let regions = Regions::with(MIN_REGION_BYTES, Arc::clone(&backing) as _);
        regions.reserve(MINE, false).expect("memory");
        regions.keep(MINE);
        for block in [2, 5] {
            regions.restore_backup(at(block), CLASS).expect("there");
        }
        World {
            backing,
            regions,
            lanes: Lanes::new(2),
            account: Account::new(LIMIT),
        }
    }

    fn take_up(&self, oldest: u64, blocks: usize) -> bool {
        let oldest = Timestamp::from_raw(oldest);
        let with = (&self.lanes, &self.account);
        self.regions.take_up(MINE, with, oldest, blocks)
    }

    /// Returns all slots of the class that can be allocated; `oldest` is the timestamp that readers
    /// have passed.
    fn drain(&self, oldest: u64) -> BTreeSet<Addr> {
        let supply = LaneResources {
            regions: &self.regions,
            account: &self.account,
            oldest: &|| Timestamp::from_raw(oldest),
            may_reuse_blocks: &|| true,
        };
        let mut all = BTreeSet::new();
        for lane in 0..self.lanes.count() {
            let mut lane = self.lanes.enter(lane);
            while let Ok(addr) = lane.alloc(supply, CLASS, Addr::NULL) {
                assert!(all.insert(addr), "{addr} is handed out twice");
            }
        }
        all
    }

    fn slot(&self, block: u32, slot: usize) -> ObjectRef<'_> {
        let there = self.regions.object(at(block).slot(CLASS, slot));
        there.expect("a slot of the region")
    }
}

fn at(block: u32) -> BlockId {
    BlockId {
        region: MINE,
        block,
    }
}

/// Writes an object of a backup, or its tombstone.
fn install(object: ObjectRef<'_>, w: u64, stays: bool) {
    let header = object.header().succeed(Timestamp::from_raw(w), stays);
    object.put(0, &[w]);
    object.finish_install(header, LinkWord::new(1, OldVersionPtr::NONE));
}

fn backup(world: &World, block: u32, slot: usize) -> ObjectRef<'_> {
    let there = world.regions.backup(at(block).slot(CLASS, slot));
    there.expect("a slot of the backup")
}

#[test]
fn promoted_backup_finds_its_free_slots() {
    let world = World::new();
    let regions = &world.regions;
    install(backup(&world, 2, 0), 10, true);
    install(backup(&world, 2, 1), 20, false);
    install(backup(&world, 5, 0), 30, true);
    // Freed, but not passed by all readers.
    install(backup(&world, 5, 1), 90, false);
    let locked = backup(&world, 5, 2);
    locked.try_lock(Header(0)).expect("free");
    assert!(regions.region(MINE).is_none());
    assert!(regions.promote(MINE, FLOOR) && regions.promote(MINE, FLOOR));
    assert!(!regions.promote(RegionId(9), FLOOR), "nothing is there");
    let region = regions.region(MINE).expect("promoted");
    assert!(region.is_own() && region.machine().is_none());
    assert_eq!(world.slot(5, 0).word(0), 30);
    assert_eq!(regions.blocks(), [2, 5].map(|block| (at(block), CLASS)));
    assert_eq!(world.drain(50), BTreeSet::new());
    assert!(regions.is_full() && (regions.count(), regions.newest()) == (0, None));
    // A late write to the backup is still applied.
    install(backup(&world, 2, 2), 40, true);
    assert_eq!(world.slot(2, 2).word(0), 40);
    let steps = (0..).take_while(|_| !world.take_up(50, 4)).count();
    assert_eq!(steps, 3);
    assert!(world.take_up(50, 4), "that is so from now on");
    assert_eq!((regions.count(), regions.newest()), (1, Some(MINE)));
    assert!(!regions.has_backup(MINE) && regions.is_full());
    let slots = |blocks: &[u32]| -> BTreeSet<Addr> {
        let all = blocks
            .iter()
            .flat_map(|block| (0..CLASS.slots()).map(|slot| at(*block).slot(CLASS, slot)));
        all.collect()
    };
    let blocks: Vec<u32> = (1..16).collect();
    let mut expected = slots(&blocks);
    for (block, slot) in [(2, 0), (2, 2), (5, 0), (5, 1), (5, 2)] {
        expected.remove(&at(block).slot(CLASS, slot));
    }
    assert_eq!(world.drain(100), expected);
    assert_eq!(world.drain(101), BTreeSet::from([at(5).slot(CLASS, 1)]));
}

#[test]
fn slot_freed_before_block_scan_is_allocated_once() {
    let world = World::new();
    for slot in 0..CLASS.slots() {
        install(backup(&world, 2, slot), 10, true);
        install(backup(&world, 5, slot), 10, true);
    }
    assert!(world.regions.promote(MINE, FLOOR));
    // All slots of one block, so that it could serve another class; and a slot that the scan finds
    // by its bit.
    for slot in 0..CLASS.slots() {
        install(world.slot(5, slot), 200, false);
        let addr = at(5).slot(CLASS, slot);
        world.lanes.enter(1).retire(addr, Timestamp::from_raw(200));
    }
    install(world.slot(2, 3), 90, false);
    let found = at(2).slot(CLASS, 3);
    world.lanes.enter(1).retire(found, Timestamp::from_raw(90));
    let release = || {
        let oldest = Timestamp::from_raw(300);
        world.lanes.enter(1).reuse_retired(&world.regions, oldest);
        let freed = || Timestamp::from_raw(400);
        world
            .lanes
            .release_empty_blocks(&world.regions, &world.account, freed);
    };
    release();
    assert_eq!(world.regions.class_of(at(5).slot(CLASS, 0)), Some(CLASS));
    assert!(!world.take_up(300, 3));
    release();
    assert_eq!(world.regions.class_of(at(5).slot(CLASS, 0)), Some(CLASS));
    assert!(world.take_up(300, 100));
    // The whole block is free now, and serves other classes after an epoch.
    release();
    assert_eq!(world.regions.class_of(at(5).slot(CLASS, 0)), None);
    let there = world.drain(300);
    assert!(there.contains(&found));
    assert!(there.iter().all(|addr| BlockId::of(*addr).block != 5));
    assert_eq!(there.len(), 13 * CLASS.slots() + 1);
    assert_eq!(world.drain(400).len(), CLASS.slots());
}

#[test]
fn released_region_leaves_nothing_in_allocator() {
    let world = World::new();
    let regions = &world.regions;
    let other = RegionId(7);
    regions.reserve(other, true).expect("memory");
    regions.keep(other);
    install(backup(&world, 2, 0), 10, true);
    assert!(regions.promote(MINE, FLOOR) && world.take_up(100, 100));
    assert_eq!((regions.count(), regions.newest()), (2, Some(other)));
    let held = world.slot(2, 0);
    let first = world.drain(100);
    assert_eq!(first.len(), 2 * 15 * CLASS.slots() - 1);
    for addr in &first {
        world.lanes.enter(1).give_back(regions, *addr);
    }
    let with = (&world.lanes, &world.account);
    regions.release(MINE, with);
    regions.release(MINE, with);
    assert_eq!(*world.backing.made.lock(), [Piece::Region(other.0)]);
    assert_eq!((regions.count(), regions.newest()), (1, Some(other)));
    assert!(!regions.has_backup(MINE) && regions.region(MINE).is_none());
    assert_eq!(held.word(0), 10, "who has it may look");
    let left = world.drain(100);
    assert!(left.iter().all(|addr| addr.region() == other));
    assert_eq!(left.len(), 15 * CLASS.slots());
    regions.release(other, with);
    assert_eq!(world.account.used(), 0);
    // The region may return, as a backup.
    regions.reserve(MINE, false).expect("memory");
    regions.restore_backup(at(2), CLASS).expect("there");
    assert_eq!(backup(&world, 2, 0).word(0), 0);
}

#[test]
fn peer_region_is_found_at_its_primary() {
    let world = World::new();
    let id = RegionId(1);
    let at = Addr::new(id, 1 << 20);
    let number = |machine: u32| {
        let memory = Memory::anonymous(MIN_REGION_BYTES / 8).expect("memory");
        let region = Region::of_peer(memory.clone(), machine);
        region.set_class(1, CLASS).expect("a block");
        install(
            region.object(1 << 20).expect("a slot"),
            machine.into(),
            true,
        );
        *world.backing.peers.lock() = Some(PeerMemory { memory, machine });
    };
    let seen = || {
        let region = world.regions.region(id)?;
        Some((region.machine()?, world.regions.object(at)?.word(0)))
    };
    assert_eq!(seen(), None);
    number(2);
    assert_eq!(seen(), Some((2, 2)));
    let before = world.regions.object(at).expect("there");
    number(3);
    assert_eq!(seen(), Some((2, 2)));
    world.regions.forget(id);
    assert_eq!((seen(), before.word(0)), (Some((3, 3)), 2));
    // A region of this machine is not looked up.
    assert!(world.regions.promote(MINE, FLOOR));
    world.regions.forget(MINE);
    assert!(world.regions.region(MINE).is_some_and(Region::is_own));
}
