//! Commits that find the log's buffer full: they wait before LOCK, as futures, and hold no lock.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use fencepost_fabric::{CrashLoss, Disk, SimDisk};
use fencepost_storage::log::LogOptions;
use fencepost_txn::{
    Addr, DurableStorage, Machine, MachineOptions, Mode, ObjectLocation, Outcome, Stop, Transaction,
};
use pollster::block_on;

const WORDS: usize = 250;
/// Number of objects of a transaction that is large enough to be logged ahead of LOCK.
const MANY: u64 = 5000;

fn open(disk: &SimDisk) -> Arc<Machine> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Machine::open(MachineOptions {
        region_bytes: 16 << 20,
        durable: Some(DurableStorage {
            disk,
            log: LogOptions {
                segment_bytes: 256 << 10,
                fill_ahead_bytes: 256 << 10,
                buffer_bytes: 32 << 10,
            },
            checkpoint_bytes: u64::MAX,
        }),
        ..MachineOptions::default()
    })
    .expect("opens")
}

type Commit = Pin<Box<dyn Future<Output = Result<Outcome, Stop>>>>;

fn poll(commit: &mut Commit) -> Poll<Result<Outcome, Stop>> {
    commit
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
}

fn begin(machine: &Arc<Machine>) -> Transaction {
    let mut tx = machine.coordinator().begin(Mode::ReadWrite);
    tx.set_synchronous(false);
    tx
}

fn done(commit: Result<Outcome, Stop>) {
    assert!(matches!(commit, Ok(Outcome::Committed(_))), "{commit:?}");
}

/// Creates objects whose words are all 0.
fn objects(machine: &Arc<Machine>, count: u64, words: usize) -> Vec<Addr> {
    let mut tx = begin(machine);
    let made: Vec<Addr> = (0..count)
        .map(|_| {
            block_on(tx.alloc(words, ObjectLocation::Own))
                .expect("memory")
                .addr
        })
        .collect();
    done(block_on(tx.commit()));
    made
}

/// Sets all words of the objects, and returns the commit's future.
fn set(machine: &Arc<Machine>, addrs: &[Addr], value: u64) -> Commit {
    let mut tx = begin(machine);
    for addr in addrs {
        block_on(tx.update(*addr, |image| image.fill(value))).expect("no conflict");
    }
    Box::pin(tx.commit())
}

fn value(machine: &Arc<Machine>, addr: Addr) -> Option<u64> {
    let mut words = Vec::new();
    let mut tx = machine.coordinator().begin(Mode::ReadOnly);
    let found = block_on(tx.read(addr, &mut words)).expect("readable");
    found.then(|| words[0])
}

fn is_locked(machine: &Arc<Machine>, addr: Addr) -> bool {
    let object = machine.regions().object(addr).expect("an object");
    object.header().is_locked()
}

/// Commits changes of an object until a commit has to wait. Returns the number of finished commits,
/// and the waiting one.
fn until_full(machine: &Arc<Machine>, addr: Addr) -> (u64, Commit) {
    for value in 1.. {
        let mut commit = set(machine, &[addr], value);
        match poll(&mut commit) {
            Poll::Ready(committed) => done(committed),
            Poll::Pending => return (value - 1, commit),
        }
    }
    unreachable!("the buffer is bounded")
}

#[test]
fn commit_waits_for_log_space_before_locking() {
    let disk = SimDisk::new(1);
    let machine = open(&disk);
    let [first, second] = objects(&machine, 2, WORDS)[..] else {
        panic!("two objects");
    };
    let held = disk.hold_syncs();
    let (committed, mut waiting) = until_full(&machine, first);
    assert!(committed > 3, "the buffer takes some: {committed}");
    assert!(poll(&mut waiting).is_pending());
    assert!(!is_locked(&machine, first));
    assert_eq!(value(&machine, first), Some(committed), "read at once");
    // Others wait in the queue behind it, and may leave the queue.
    let mut other = set(&machine, &[second], 1);
    assert!(poll(&mut other).is_pending());
    drop(other);
    assert!(!is_locked(&machine, second));
    let mut other = set(&machine, &[second], 2);
    assert!(poll(&mut other).is_pending());
    drop(held);
    done(block_on(waiting));
    done(block_on(other));
    assert_eq!(value(&machine, first), Some(committed + 1));
    // No log space was lost.
    let held = disk.hold_syncs();
    drop(until_full(&machine, second));
    drop(held);
    let mut last = machine.coordinator().begin(Mode::ReadWrite);
    block_on(last.update(second, |image| image[0] = 7)).expect("no conflict");
    done(block_on(last.commit()));
    disk.crash(CrashLoss::All);
    drop(machine);
    assert_eq!(value(&open(&disk), second), Some(7));
}

#[test]
fn large_commit_waits_for_log_space_before_locking() {
    let disk = SimDisk::new(2);
    let machine = open(&disk);
    let many = objects(&machine, MANY, 40);
    let held = disk.hold_syncs();
    let mut waiting = set(&machine, &many, 1);
    assert!(poll(&mut waiting).is_pending());
    assert!(many.iter().all(|addr| !is_locked(&machine, *addr)));
    drop(waiting);
    let mut waiting = set(&machine, &many, 2);
    assert!(poll(&mut waiting).is_pending());
    drop(held);
    done(block_on(waiting));
    assert_eq!(value(&machine, many[0]), Some(2));

    let (freed, kept) = many.split_at(MANY as usize / 2);
    let mut tx = machine.coordinator().begin(Mode::ReadWrite);
    for addr in freed {
        block_on(tx.free(*addr)).expect("no conflict");
    }
    for addr in kept {
        block_on(tx.update(*addr, |image| image[7] = 9)).expect("no conflict");
    }
    done(block_on(tx.commit()));
    disk.crash(CrashLoss::All);
    drop(machine);
    let machine = open(&disk);
    assert!(freed.iter().all(|addr| value(&machine, *addr).is_none()));
    for addr in kept {
        let mut words = Vec::new();
        let mut tx = machine.coordinator().begin(Mode::ReadOnly);
        assert_eq!(block_on(tx.read(*addr, &mut words)), Ok(true));
        assert_eq!((words[0], words[7], words[39]), (2, 9, 2));
    }
}

#[test]
fn large_commit_overtaken_while_logging_has_no_effect() {
    let disk = SimDisk::new(3);
    let machine = open(&disk);
    let many = objects(&machine, MANY, 40);
    let mut late = set(&machine, &many, 1);
    done(block_on(set(&machine, &many[..1], 5)));
    let held = disk.hold_syncs();
    assert!(poll(&mut late).is_pending());
    drop(held);
    assert!(matches!(block_on(late), Ok(Outcome::Aborted(_))));
    done(block_on(set(&machine, &many[1..2], 6)));
    let mut last = machine.coordinator().begin(Mode::ReadWrite);
    block_on(last.update(many[2], |image| image[0] = 7)).expect("no conflict");
    done(block_on(last.commit()));
    disk.crash(CrashLoss::All);
    drop(machine);
    let machine = open(&disk);
    let seen: Vec<_> = many[..4]
        .iter()
        .map(|addr| value(&machine, *addr))
        .collect();
    assert_eq!(seen, [Some(5), Some(6), Some(7), Some(0)]);
}
