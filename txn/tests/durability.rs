//! The state of the disk after a crash: every acknowledged commit, and no part of any other.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use fencepost_fabric::{CrashLoss, Disk, SimDisk};
use fencepost_storage::log::LogOptions;
use fencepost_txn::DurableStorage;
use fencepost_txn::{
    Addr, Machine, MachineOptions, Mode, ObjectLocation, OpenError, Outcome, Stop,
};
use pollster::block_on;
use proptest::prelude::*;

fn open(disk: &SimDisk) -> Result<Arc<Machine>, OpenError> {
    let log = LogOptions {
        segment_bytes: 256 << 10,
        fill_ahead_bytes: 128 << 10,
        ..LogOptions::default()
    };
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Machine::open(MachineOptions {
        region_bytes: 16 << 20,
        durable: Some(DurableStorage {
            disk,
            log,
            checkpoint_bytes: u64::MAX,
        }),
        ..MachineOptions::default()
    })
}

/// Returns the addresses of the objects, which the root stores.
fn addresses(machine: &Arc<Machine>) -> Vec<Addr> {
    let mut tx = machine.coordinator().begin(Mode::ReadOnly);
    let mut words = Vec::new();
    assert_eq!(block_on(tx.read(machine.root(), &mut words)), Ok(true));
    words
        .iter()
        .take(60)
        .filter(|w| **w != 0)
        .map(|w| Addr::from_raw(*w))
        .collect()
}

fn value(machine: &Arc<Machine>, addr: Addr) -> Option<Vec<u64>> {
    let mut tx = machine.coordinator().begin(Mode::ReadOnly);
    let mut words = Vec::new();
    block_on(tx.read(addr, &mut words))
        .expect("readable")
        .then_some(words)
}

/// Adds an object of `words` words, all `value`, to the root's directory at `slot`.
fn add(machine: &Arc<Machine>, slot: usize, words: usize, value: u64) -> Result<Outcome, Stop> {
    let mut tx = machine.coordinator().begin(Mode::ReadWrite);
    let ptr = block_on(tx.alloc(words, ObjectLocation::Own))?;
    tx.write_new(ptr, &vec![value; words])?;
    let mut root = Vec::new();
    block_on(tx.read(machine.root(), &mut root))?;
    root[slot] = ptr.addr.raw();
    block_on(tx.write(machine.root(), &root))?;
    block_on(tx.commit())
}

fn set(machine: &Arc<Machine>, addr: Addr, word: usize, value: u64) -> Result<Outcome, Stop> {
    let mut tx = machine.coordinator().begin(Mode::ReadWrite);
    block_on(tx.update(addr, |image| image[word] = value))?;
    block_on(tx.commit())
}

#[test]
fn acknowledged_commits_survive_losing_every_unsynced_byte() {
    let disk = SimDisk::new(1);
    let machine = open(&disk).expect("fresh");
    assert!(machine.is_fresh());
    for slot in 0..50 {
        assert!(matches!(
            add(&machine, slot, 10 + slot * 30, slot as u64),
            Ok(Outcome::Committed(_))
        ));
    }
    let all = addresses(&machine);
    for (i, addr) in all.iter().enumerate() {
        assert!(matches!(
            set(&machine, *addr, 9, 1000 + i as u64),
            Ok(Outcome::Committed(_))
        ));
    }
    let mut tx = machine.coordinator().begin(Mode::ReadWrite);
    block_on(tx.free(all[7])).expect("exists");
    assert!(matches!(block_on(tx.commit()), Ok(Outcome::Committed(_))));
    let before = machine.now();
    let crashed = disk.fork();
    crashed.crash(CrashLoss::All);
    drop(machine);
    let machine = open(&crashed).expect("recovers");
    assert!(!machine.is_fresh() && machine.now() >= before);
    assert_eq!(addresses(&machine), all);
    assert_eq!(value(&machine, all[7]), None);
    for (i, addr) in all.iter().enumerate().filter(|(i, _)| *i != 7) {
        let words = value(&machine, *addr).expect("there");
        assert_eq!(
            (words[0], words[9], words[8]),
            (i as u64, 1000 + i as u64, i as u64)
        );
    }
    // Slots in use are not allocated again, but the freed one is.
    let mut seen = Vec::new();
    for slot in 50..58 {
        assert!(matches!(
            add(&machine, slot, 220, 1),
            Ok(Outcome::Committed(_))
        ));
        seen = addresses(&machine);
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(
        seen.len(),
        57,
        "the freed slot, and no other, has two names"
    );
}

#[test]
fn large_transaction_survives_crash_whole_or_not_at_all() {
    let disk = SimDisk::new(2);
    let machine = open(&disk).expect("fresh");
    let mut tx = machine.coordinator().begin(Mode::ReadWrite);
    let mut first = Addr::NULL;
    for i in 0..20_000u64 {
        let ptr = block_on(tx.alloc(12, ObjectLocation::Own)).expect("memory");
        tx.write_new(ptr, &[i; 12]).expect("own");
        if i == 0 {
            first = ptr.addr;
        }
    }
    block_on(tx.update(machine.root(), |root| root[0] = first.raw())).expect("own");
    assert!(matches!(block_on(tx.commit()), Ok(Outcome::Committed(_))));
    let whole = disk.fork();
    // A second transaction aborts after its records went to the log.
    let mut tx = machine.coordinator().begin(Mode::ReadWrite);
    for i in 0..20_000u64 {
        let ptr = block_on(tx.alloc(12, ObjectLocation::Own)).expect("memory");
        tx.write_new(ptr, &[i; 12]).expect("own");
    }
    block_on(tx.update(machine.root(), |root| root[1] = 1)).expect("own");
    set(&machine, machine.root(), 2, 5).expect("no conflict");
    assert!(matches!(block_on(tx.commit()), Ok(Outcome::Aborted(_))));
    set(&machine, machine.root(), 3, 6).expect("no conflict");
    drop(machine);
    for (disk, second) in [(whole, 0), (disk, 6)] {
        let machine = open(&disk).expect("recovers");
        let root = value(&machine, machine.root()).expect("the root is always there");
        assert_eq!((root[0], root[1], root[3]), (first.raw(), 0, second));
        let blocks = machine.regions().blocks().into_iter();
        let objects: usize = blocks
            .map(|(id, class)| {
                (0..class.slots())
                    .filter(|slot| {
                        let object = machine.regions().object(id.slot(class, *slot));
                        object.is_some_and(|object| object.header().is_allocated())
                    })
                    .count()
            })
            .sum();
        assert_eq!(objects, 20_001);
    }
}

#[test]
fn full_disk_fails_only_the_commit() {
    let disk = SimDisk::new(3);
    let machine = open(&disk).expect("fresh");
    assert!(matches!(add(&machine, 0, 10, 1), Ok(Outcome::Committed(_))));
    let addr = addresses(&machine)[0];
    disk.set_free_bytes(Some(0));
    let stop = (0..100_000)
        .find_map(|i| set(&machine, addr, 0, i).err())
        .expect("the log fills up");
    assert_eq!(stop, Stop::DiskFull);
    let kept = value(&machine, addr).expect("reads go on");
    disk.set_free_bytes(None);
    let again = (0..1000).find(|_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        matches!(set(&machine, addr, 1, 77), Ok(Outcome::Committed(_)))
    });
    assert!(again.is_some(), "commits go on when there is room again");
    let crashed = disk.fork();
    crashed.crash(CrashLoss::All);
    let machine = open(&crashed).expect("recovers");
    let words = value(&machine, addr).expect("there");
    assert_eq!((words[0], words[1]), (kept[0], 77));
}

#[test]
fn second_process_cannot_open_database() {
    let disk = SimDisk::new(4);
    let machine = open(&disk).expect("fresh");
    assert!(matches!(open(&disk), Err(OpenError::InUse(_))));
    drop(machine);
    assert!(open(&disk).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Random commits against a model, with checkpoints in between; then a crash that loses a
    /// random part of the unsynced bytes. The recovered state must be that of the model after a
    /// prefix of the commits that contains every acknowledged one. Here every commit is
    /// acknowledged, so the state must be exactly the model's.
    #[test]
    fn crash_keeps_acknowledged_commits(
        seed in any::<u64>(),
        steps in proptest::collection::vec((0usize..8, 1usize..400, any::<u64>(), 0u8..20), 1..120),
    ) {
        let disk = SimDisk::new(seed);
        let mut machine = open(&disk).expect("fresh");
        let mut model: Vec<Option<(Addr, u64)>> = vec![None; 8];
        for (slot, words, number, action) in steps {
            match (action, model[slot]) {
                (0, _) => { machine.checkpoint().expect("there is room"); }
                (1, _) => {
                    drop(machine);
                    machine = open(&disk).expect("restarts");
                }
                (2..6, Some((addr, _))) => {
                    let mut tx = machine.coordinator().begin(Mode::ReadWrite);
                    block_on(tx.free(addr)).expect("exists");
                    block_on(tx.update(machine.root(), |root| root[slot] = 0)).expect("root");
                    let committed = matches!(block_on(tx.commit()), Ok(Outcome::Committed(_)));
                    prop_assert!(committed);
                    model[slot] = None;
                }
                (_, Some((addr, _))) => {
                    let outcome = set(&machine, addr, 0, number);
                    prop_assert!(matches!(outcome, Ok(Outcome::Committed(_))));
                    model[slot] = Some((addr, number));
                }
                (_, None) => {
                    let outcome = add(&machine, slot, words, number);
                    prop_assert!(matches!(outcome, Ok(Outcome::Committed(_))));
                    let root = value(&machine, machine.root()).expect("root");
                    model[slot] = Some((Addr::from_raw(root[slot]), number));
                }
            }
        }
        let crashed = disk.fork();
        crashed.crash(CrashLoss::Some);
        drop(machine);
        let machine = open(&crashed).expect("recovers");
        let root = value(&machine, machine.root()).expect("root");
        for (slot, entry) in model.iter().enumerate() {
            match entry {
                None => prop_assert_eq!(root[slot], 0),
                Some((addr, number)) => {
                    prop_assert_eq!(root[slot], addr.raw());
                    prop_assert_eq!(value(&machine, *addr).expect("there")[0], *number);
                }
            }
        }
    }
}

/// Allocates `count` objects of `words` words in one transaction.
fn fill(machine: &Arc<Machine>, words: usize, count: usize) -> Vec<Addr> {
    let mut tx = machine.coordinator().begin(Mode::ReadWrite);
    let new = |tx: &mut fencepost_txn::Transaction| {
        let ptr = block_on(tx.alloc(words, ObjectLocation::Own)).expect("memory");
        tx.write_new(ptr, &vec![words as u64; words]).expect("own");
        ptr.addr
    };
    let addrs = (0..count).map(|_| new(&mut tx)).collect();
    assert!(matches!(block_on(tx.commit()), Ok(Outcome::Committed(_))));
    addrs
}

#[test]
fn recarved_block_recovers_its_last_size_class() {
    for checkpoint_before in [false, true] {
        let disk = SimDisk::new(5);
        let machine = open(&disk).expect("fresh");
        let small = fill(&machine, 30, 20_000);
        if checkpoint_before {
            machine.checkpoint().expect("there is room");
        }
        let before = machine.regions().blocks().len();
        let mut tx = machine.coordinator().begin(Mode::ReadWrite);
        for addr in &small {
            block_on(tx.free(*addr)).expect("exists");
        }
        assert!(matches!(block_on(tx.commit()), Ok(Outcome::Committed(_))));
        machine.release_empty_blocks();
        assert!(machine.regions().blocks().len() < before);
        let large = fill(&machine, 5000, 60);
        let blocks = |addrs: &[Addr]| -> std::collections::HashSet<u64> {
            addrs.iter().map(|a| a.raw() >> 20).collect()
        };
        assert!(
            !blocks(&small).is_disjoint(&blocks(&large)),
            "the blocks were used again"
        );
        let crashed = disk.fork();
        crashed.crash(CrashLoss::All);
        drop(machine);
        let machine = open(&crashed).expect("recovers");
        for addr in &large {
            assert_eq!(value(&machine, *addr).expect("there")[..5000], [5000; 5000]);
        }
        assert_eq!(machine.inventory().objects.len(), 61);
        assert!(machine.inventory().locked.is_empty() && machine.inventory().torn.is_empty());
    }
}

/// Polls a future once.
fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn abort_waits_until_its_reads_are_durable() {
    let disk = SimDisk::new(5);
    let machine = open(&disk).expect("fresh");
    for slot in 0..3 {
        let added = add(&machine, slot, 10, 1);
        assert!(matches!(added, Ok(Outcome::Committed(_))));
    }
    let [addr, other, _] = addresses(&machine)[..] else {
        panic!("three objects");
    };
    let held = disk.hold_syncs();
    let mut writer = machine.coordinator().begin(Mode::ReadWrite);
    writer.set_synchronous(false);
    block_on(writer.update(addr, |image| image[0] = 2)).expect("no conflict");
    assert!(matches!(
        block_on(writer.commit()),
        Ok(Outcome::Committed(_))
    ));

    let mut words = Vec::new();
    let mut coordinator = machine.coordinator();
    let mut careless = coordinator.begin(Mode::ReadWrite);
    careless.set_synchronous(false);
    assert_eq!(block_on(careless.read(addr, &mut words)), Ok(true));
    assert_eq!(poll(pin!(careless.rollback())), Poll::Ready(Ok(())));

    let mut blind = coordinator.begin(Mode::ReadWrite);
    assert_eq!(block_on(blind.read(other, &mut words)), Ok(true));
    assert_eq!(poll(pin!(blind.rollback())), Poll::Ready(Ok(())));

    let mut reader = coordinator.begin(Mode::ReadWrite);
    assert_eq!(block_on(reader.read(addr, &mut words)), Ok(true));
    assert_eq!(words[0], 2, "it sees what is not durable");
    reader.abort();
    assert!(
        poll(pin!(coordinator.wait_until_durable())).is_pending(),
        "by the coordinator that ran it"
    );
    let mut reader = machine.coordinator().begin(Mode::ReadWrite);
    assert_eq!(block_on(reader.read(addr, &mut words)), Ok(true));
    let mut outcome = pin!(reader.rollback());
    assert!(poll(outcome.as_mut()).is_pending());
    drop(held);
    assert_eq!(block_on(outcome), Ok(()));
    assert_eq!(block_on(coordinator.wait_until_durable()), Ok(()));
    disk.crash(CrashLoss::All);
    drop(machine);
    let machine = open(&disk).expect("whole");
    assert_eq!(value(&machine, addr).expect("there")[0], 2);
}
