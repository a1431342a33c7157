//! A primary in memory, whose answers arrive when a test lets them.

use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering;

use fencepost_fabric::{Completer, Memory};
use fencepost_storage::classes::{Class, MAX_SLOT_WORDS};
use fencepost_storage::header::{Header, LinkWord, OldVersionPtr};
use fencepost_storage::region::Regions;
use fencepost_storage::{Addr, ObjectCopy, ObjectRef, PrivateBacking, Timestamp};

use super::*;
use crate::network::backup::{self, BlockUses};
use crate::network::versions::digest;

const REGION: RegionId = RegionId(3);
const BYTES: usize = 16 << 20;
const SMALL: usize = 3;
/// A slot size so large that each slot is read alone.
const LARGE: usize = 3000;

type ReadHook = Box<dyn FnMut(&Memory, usize)>;
type HeldReads = RefCell<Vec<Completer<Box<[u64]>>>>;

struct Primary {
    memory: Memory,
    reads: Cell<usize>,
    /// Changes the memory before a read.
    ahead: RefCell<ReadHook>,
    /// Holds answers back until the test releases them.
    held: Option<HeldReads>,
}

fn class(words: usize) -> Class {
    Class::for_payload(words).expect("fits a block")
}

fn slot(block: u32, words: usize, at: usize) -> Addr {
    let region = REGION;
    BlockId { region, block }.slot(class(words), at)
}

fn object(memory: &Memory, addr: Addr, words: usize) -> ObjectRef<'_> {
    let from = addr.offset() as usize / 8;
    let slot = class(words).slot_words();
    ObjectRef::new(&memory.words()[from..from + slot], from)
}

fn write(memory: &Memory, addr: Addr, words: usize, w: u64) {
    let object = object(memory, addr, words);
    object.put(0, &vec![w; object.len()]);
    let header = object.header().succeed(Timestamp::from_raw(w), true);
    object.finish_install(header, LinkWord::new(4, OldVersionPtr::NONE));
}

impl Primary {
    /// Returns a primary with a block of small objects and one of large ones.
    fn new() -> Primary {
        let memory = Memory::anonymous(BYTES / 8).expect("memory");
        for (block, words) in [(2, SMALL), (5, LARGE)] {
            let word = (7 << 16) | (u64::from(class(words).0) + 1);
            memory.words()[block].store(word, Ordering::Relaxed);
        }
        Primary {
            memory,
            reads: Cell::new(0),
            ahead: RefCell::new(Box::new(|_, _| ())),
            held: None,
        }
    }

    fn read(&self, (word, words): (usize, usize)) -> Read {
        self.reads.set(self.reads.get() + 1);
        (self.ahead.borrow_mut())(&self.memory, self.reads.get());
        if let Some(held) = &self.held {
            let (completer, read) = Completion::pending();
            held.borrow_mut().push(completer);
            return read;
        }
        let words = &self.memory.words()[word..word + words];
        let words = words.iter().map(|word| word.load(Ordering::Relaxed));
        Completion::done(Ok(words.collect()))
    }
}

struct World {
    primary: Primary,
    regions: Regions,
    changed: BlockUses,
    readers: Readers,
    clock: Clock,
    data_recovery: DataRecovery,
    now: u64,
}

impl World {
    fn new(primary: Primary, replicas: usize) -> World {
        let regions = Regions::with(BYTES, Arc::new(PrivateBacking));
        regions.reserve(REGION, false).expect("memory");
        let mut refill = DataRecovery::new(1);
        let readers = Readers::default();
        refill.begin(lacking(1, replicas), &readers);
        World {
            primary,
            regions,
            changed: BlockUses::default(),
            readers,
            clock: Clock::default(),
            data_recovery: refill,
            now: 0,
        }
    }

    fn step(&mut self) -> Option<RegionId> {
        self.now = self
            .now
            .max(self.data_recovery.next_wake(self.now).min(1 << 60));
        let post = |machine, region, place| {
            assert_eq!((machine, region), (MachineId(1), REGION));
            self.primary.read(place)
        };
        let around = RecoveryContext {
            destination: CopyDestination {
                before: None,
                regions: &self.regions,
                changed: &self.changed,
            },
            readers: &self.readers,
            clock: &self.clock,
            post: &post,
            versions: &|_, _| None,
        };
        self.data_recovery.step(self.now, &around)
    }

    /// Returns whether the region is copied within some steps.
    fn fills(&mut self) -> bool {
        (0..2_000).any(|_| self.step() == Some(REGION))
    }

    fn there(&self, addr: Addr) -> Option<(u64, bool, u64)> {
        let object = self.regions.backup(addr)?;
        let header = object.header();
        let value = object.word(object.len() - 1);
        Some((header.timestamp().raw(), header.is_allocated(), value))
    }
}

fn lacking(primary: u32, replicas: usize) -> Vec<(RegionId, Replicas)> {
    let backups = (8..8 + replicas as u32 - 1).map(MachineId).collect();
    let replicas = Replicas::new(MachineId(primary), backups).expect("distinct");
    vec![(REGION, replicas)]
}

#[test]
fn backup_copies_newest_version_of_each_object() {
    let primary = Primary::new();
    let (freed, newer, unused) = (slot(2, SMALL, 1), slot(2, SMALL, 700), slot(2, SMALL, 9));
    for (addr, words, w) in [
        (slot(2, SMALL, 0), SMALL, 10),
        (freed, SMALL, 11),
        (newer, SMALL, 12),
        (slot(2, SMALL, 8000), SMALL, 13),
        (slot(5, LARGE, 0), LARGE, 14),
        (slot(5, LARGE, 7), LARGE, 15),
    ] {
        write(&primary.memory, addr, words, w);
    }
    let tombstone = object(&primary.memory, freed, SMALL);
    let header = tombstone.header().succeed(Timestamp::from_raw(21), false);
    tombstone.finish_install(header, tombstone.link());
    let mut world = World::new(primary, 2);
    // A commit that came before.
    let scratch = Memory::anonymous(64).expect("memory");
    let ahead = ObjectRef::new(&scratch.words()[..class(SMALL).slot_words()], 0);
    ahead.put(0, &vec![30; ahead.len()]);
    ahead.finish_install(
        Header(0).succeed(Timestamp::from_raw(30), true),
        ahead.link(),
    );
    let words = scratch.words()[..class(SMALL).slot_words()].iter();
    let words = words.map(|word| word.load(Ordering::Relaxed)).collect();
    let copy = ObjectCopy::of(words, 0).expect("whole");
    let applied = backup::apply_copy(&world.regions, &world.changed, (newer, class(SMALL)), &copy);
    applied.expect("there is such a backup");
    assert!(world.fills());
    assert_eq!(world.there(slot(2, SMALL, 0)), Some((10, true, 10)));
    assert_eq!(
        world.there(freed).map(|(w, there, _)| (w, there)),
        Some((21, false))
    );
    assert_eq!(world.there(newer), Some((30, true, 30)));
    assert_eq!(world.there(slot(2, SMALL, 8000)), Some((13, true, 13)));
    assert_eq!(world.there(slot(5, LARGE, 0)), Some((14, true, 14)));
    assert_eq!(world.there(slot(5, LARGE, 7)), Some((15, true, 15)));
    assert_eq!(world.there(unused).map(|(w, ..)| w), Some(0));
    assert_eq!(world.step(), None, "it is copied once");
    assert_eq!(world.data_recovery.next_wake(5), u64::MAX);
}

#[test]
fn locked_or_changing_object_is_read_again_until_stable() {
    let primary = Primary::new();
    let (locked, changing) = (slot(2, SMALL, 4), slot(2, SMALL, 5));
    write(&primary.memory, locked, SMALL, 10);
    write(&primary.memory, changing, SMALL, 11);
    let header = object(&primary.memory, locked, SMALL).header();
    object(&primary.memory, locked, SMALL)
        .try_lock(header)
        .expect("the lock is free");
    // Half of a new version.
    object(&primary.memory, locked, SMALL).put(0, &[99]);
    *primary.ahead.borrow_mut() = Box::new(move |memory, read| match read {
        // The reads: header block, class, the pieces for the first and the second time, at last the
        // slot alone. A later write would reach the backup from its coordinator.
        4..13 => write(memory, changing, SMALL, 100 + read as u64),
        300 => write(memory, locked, SMALL, 200),
        _ => {}
    });
    let mut world = World::new(primary, 2);
    while world.primary.reads.get() < 290 {
        assert_eq!(world.step(), None, "a lock is awaited");
        assert!(world.there(locked).is_none_or(|(w, ..)| w == 0));
    }
    assert!(world.fills());
    assert_eq!(world.there(locked), Some((200, true, 200)));
    let there = world.there(changing).expect("a slot");
    assert!(
        there.0 >= 11 && there.0 == there.2,
        "it was never whole: {there:?}"
    );
    assert_eq!(
        there.0,
        object(&world.primary.memory, changing, SMALL).word(0)
    );
}

/// Tests a commit of an earlier configuration that is decided and not installed yet.
#[test]
fn locked_slot_is_awaited_even_if_version_is_known_or_empty() {
    for at in [4, 5] {
        let primary = Primary::new();
        let (old, new) = (slot(2, SMALL, 4), slot(2, SMALL, 5));
        write(&primary.memory, old, SMALL, 10);
        let mut world = World::new(primary, 2);
        assert!(world.fills());
        let locked = slot(2, SMALL, at);
        let held = object(&world.primary.memory, locked, SMALL);
        held.try_lock(held.header()).expect("the lock is free");
        *world.primary.ahead.borrow_mut() = Box::new(move |memory, read| {
            if read == 300 {
                write(memory, locked, SMALL, 200);
            }
        });
        world.data_recovery.begin(lacking(1, 2), &world.readers);
        while world.primary.reads.get() < 290 {
            assert_eq!(world.step(), None, "a lock is awaited");
        }
        assert!(world.fills());
        assert_eq!(world.there(locked), Some((200, true, 200)));
        let (w, there, _) = world.there(new).expect("a slot");
        assert_eq!((w, there), if at == 5 { (200, true) } else { (0, false) });
    }
}

#[test]
fn locked_object_matches_no_retained_version() {
    let primary = Primary::new();
    let (old, new) = (slot(2, SMALL, 4), slot(2, SMALL, 5));
    write(&primary.memory, old, SMALL, 10);
    let block = BlockId::of(old);
    let versions = || {
        let at = |addr| Some(object(&primary.memory, addr, SMALL));
        digest((block, class(SMALL)), (0, 8), at)
    };
    let had = versions();
    for addr in [old, new] {
        let held = object(&primary.memory, addr, SMALL);
        let before = held.header();
        held.try_lock(before).expect("the lock is free");
        assert_ne!(versions(), had);
        held.unlock(before);
        assert_eq!(versions(), had);
    }
}

#[test]
fn read_rate_limits_reads_and_failed_read_is_repeated() {
    for (replicas, most) in [(2, 16), (3, 4)] {
        let mut primary = Primary::new();
        write(&primary.memory, slot(2, SMALL, 1), SMALL, 10);
        let copy: Vec<u64> = {
            let words = primary.memory.words()[..16].iter();
            words.map(|word| word.load(Ordering::Relaxed)).collect()
        };
        primary.held = Some(RefCell::default());
        let mut world = World::new(primary, replicas);
        let answer = |world: &World, with: &dyn Fn() -> Result<Box<[u64]>, FabricError>| {
            let held = world.primary.held.as_ref().expect("they are held");
            let held = held.take();
            let many = held.len();
            held.into_iter().for_each(|held| held.complete(with()));
            many
        };
        world.step();
        assert_eq!(answer(&world, &|| Err(FabricError::Lost)), 1);
        // The failure is noticed, and the read is not repeated at once.
        let before = world.now;
        world.step();
        while answer(&world, &|| Err(FabricError::Unsteady)) == 0 {
            world.step();
        }
        assert!(world.now >= before + AGAIN_NS);
        let mut rounds = 0;
        while answer(&world, &|| Ok(copy[1..].into())) == 0 {
            world.step();
            rounds += 1;
        }
        assert!(rounds > 0);
        while answer(&world, &|| Ok(copy[2..3].into())) == 0 {
            world.step();
        }
        let reader = world.readers.oldest(&world.clock);
        world.clock.count().expect("a counter");
        for _ in 0..40 {
            world.step();
        }
        assert_eq!(world.data_recovery.reads.len(), most);
        assert_eq!(world.readers.oldest(&world.clock), reader, "COPY-3");
        world.data_recovery.pause(&world.readers);
        assert!(world.readers.oldest(&world.clock) > reader);
        let asked = world.primary.reads.get();
        for _ in 0..10 {
            assert_eq!(world.step(), None);
        }
        assert_eq!(
            (world.primary.reads.get(), world.data_recovery.reads.len()),
            (asked, 0)
        );
    }
}

#[test]
fn recovery_continues_after_configuration_and_restarts_at_new_primary() {
    let primary = Primary::new();
    write(&primary.memory, slot(5, LARGE, 1), LARGE, 10);
    let mut world = World::new(primary, 2);
    while world
        .data_recovery
        .block
        .as_ref()
        .map(|copy| copy.id().block)
        != Some(5)
    {
        assert_eq!(world.step(), None);
    }
    world.data_recovery.begin(lacking(1, 2), &world.readers);
    assert!(
        world.data_recovery.block.is_none(),
        "it begins with the block again"
    );
    world.data_recovery.pause(&world.readers);
    world.data_recovery.begin(lacking(1, 3), &world.readers);
    let filling = &world.data_recovery.regions[0];
    assert_eq!(
        (filling.blocks.len(), filling.unlisted),
        (1, BYTES / BLOCK_BYTES)
    );
    assert!(!filling.pace.is_eager());
    let before = world.primary.reads.get();
    assert!(world.fills());
    let blocks = MAX_SLOT_WORDS / class(LARGE).slot_words();
    assert_eq!(
        world.primary.reads.get() - before,
        1 + blocks,
        "its class and slots"
    );
    world.data_recovery.begin(lacking(1, 2), &world.readers);
    world.step();
    world.data_recovery.pause(&world.readers);
    world.data_recovery.begin(lacking(2, 2), &world.readers);
    let filling = &world.data_recovery.regions[0];
    assert_eq!((filling.blocks.len(), filling.unlisted), (0, 1));
    // This machine is no replica of it any more.
    world.data_recovery.begin(Vec::new(), &world.readers);
    assert_eq!(world.data_recovery.next_wake(0), u64::MAX);
}

#[test]
fn region_without_backup_here_is_given_up() {
    let primary = Primary::new();
    write(&primary.memory, slot(2, SMALL, 1), SMALL, 10);
    let mut world = World::new(primary, 2);
    world.regions = Regions::with(BYTES, Arc::new(PrivateBacking));
    assert!(!world.fills());
    assert_eq!(world.data_recovery.next_wake(0), u64::MAX);
}

proptest::proptest! {
    #[test]
    fn garbage_never_panics(
        words in proptest::collection::vec(proptest::prelude::any::<u64>(), 1..200),
        class in 0u64..300,
    ) {
        let primary = Primary::new();
        primary.memory.words()[2].store(class, Ordering::Relaxed);
        let memory = &primary.memory.words()[2 * MAX_SLOT_WORDS..3 * MAX_SLOT_WORDS];
        for (word, value) in memory.iter().zip(words.iter().cycle()) {
            word.store(*value, Ordering::Relaxed);
        }
        let mut world = World::new(primary, 2);
        for _ in 0..40 {
            let _ = world.step();
        }
    }
}
