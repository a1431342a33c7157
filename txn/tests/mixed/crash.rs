//! Tests with a disk that loses power during commits.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use fencepost_fabric::{CrashLoss, Disk, SimDisk};
use fencepost_storage::log::LogOptions;
use fencepost_txn::{DurableStorage, Machine, MachineOptions, Mode};
use pollster::block_on;

use crate::model::{TransactionRecord, check};
use crate::set;
use crate::world::{CELLS, Random, World};

const THREADS: usize = 3;

pub fn open(disk: &SimDisk) -> Arc<Machine> {
    let log = LogOptions {
        segment_bytes: 256 << 10,
        fill_ahead_bytes: 128 << 10,
        ..LogOptions::default()
    };
    // The crashed machine gets the disk as its process sees it.
    let disk: Arc<dyn Disk> = Arc::new(disk.boot());
    let durable = Some(DurableStorage {
        disk,
        log,
        checkpoint_bytes: u64::MAX,
    });
    Machine::open(MachineOptions {
        region_bytes: 16 << 20,
        durable,
        ..MachineOptions::default()
    })
    .expect("opens")
}

/// The record of one thread until the power loss: its finished stories, and the one whose outcome
/// was not reported.
type ThreadRecord = (Vec<TransactionRecord>, Option<TransactionRecord>);

/// Commits that must be reported before the power loss, however busy the host is.
const REPORTED_MIN: usize = 8;

/// Runs transactions until the power loss, with checkpoints meanwhile if requested.
fn run_until_crash(
    world: &World,
    disk: &SimDisk,
    seed: u64,
    first: u64,
    loss: CrashLoss,
) -> Vec<ThreadRecord> {
    let dead = AtomicBool::new(false);
    let reported = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (dead, reported) = (&dead, &reported);
        let run = |thread: usize| {
            scope.spawn(move || {
                let mut coordinator = world.machine.coordinator();
                let mut random = Random(seed ^ ((thread as u64 + 1) << 24));
                let mut stories = Vec::new();
                for number in first.. {
                    match world.attempt(&mut coordinator, (thread, number), &mut random) {
                        Ok(story) => {
                            reported.fetch_add(usize::from(story.w.is_some()), Ordering::Relaxed);
                            stories.push(story);
                        }
                        Err(unreported) => return (stories, Some(unreported)),
                    }
                    if dead.load(Ordering::Relaxed) && number > first + 10_000 {
                        break;
                    }
                }
                (stories, None)
            })
        };
        let handles: Vec<_> = (0..THREADS).map(run).collect();
        let mut random = Random(seed | 1);
        if random.below(2) == 0 {
            std::thread::sleep(Duration::from_millis(5));
            world.machine.checkpoint().expect("there is room");
        }
        std::thread::sleep(Duration::from_millis(5 + random.below(30)));
        while reported.load(Ordering::Relaxed) < REPORTED_MIN {
            std::thread::sleep(Duration::from_micros(200));
        }
        disk.crash(loss);
        dead.store(true, Ordering::Relaxed);
        handles
            .into_iter()
            .map(|handle| handle.join().expect("no panic"))
            .collect()
    })
}

/// Every acknowledged commit survives, and every other one survives completely or not at all,
/// through several crashes of one disk.
#[test]
fn acknowledged_commits_survive_crashes_and_no_commit_in_part() {
    for seed in 1..=6u64 {
        let disk = SimDisk::new(seed);
        disk.set_sync_delay(Duration::from_micros(200));
        let mut world = World::new(open(&disk));
        let mut history: Vec<TransactionRecord> = Vec::new();
        for incarnation in 0..4u64 {
            let loss = if (seed + incarnation) % 2 == 0 {
                CrashLoss::All
            } else {
                CrashLoss::Some
            };
            let random = (seed * 31 + incarnation).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let records = run_until_crash(&world, &disk, random, incarnation * 1_000_000 + 1, loss);
            drop(world);
            world = World::open(open(&disk));
            for (thread, (stories, unreported)) in records.into_iter().enumerate() {
                let (last, w) = world.thread(thread);
                let acknowledged = stories
                    .iter()
                    .filter(|story| story.w.is_some())
                    .map(|story| story.number)
                    .max();
                assert!(
                    acknowledged.is_none_or(|number| number <= last),
                    "seed {seed}: an acknowledged commit is lost"
                );
                history.extend(stories.into_iter().filter(|story| story.w.is_some()));
                if let Some(mut story) = unreported.filter(|story| story.number == last) {
                    story.w = Some(w);
                    history.push(story);
                }
            }
            let state = check(history.clone())
                .unwrap_or_else(|why| panic!("seed {seed} incarnation {incarnation}: {why}"));
            let keys: BTreeSet<u64> = set::at_rest(&world.machine, world.set.first())
                .into_iter()
                .collect();
            assert_eq!(keys, state.keys, "seed {seed} incarnation {incarnation}");
            let mut tx = world.machine.coordinator().begin(Mode::ReadOnly);
            for cell in 0..CELLS {
                let found = block_on(world.read(&mut tx, cell));
                assert_eq!(
                    found,
                    Ok(state.cells.get(&cell).copied()),
                    "seed {seed} incarnation {incarnation} cell {cell}"
                );
            }
            let inventory = world.machine.inventory();
            assert!(inventory.locked.is_empty() && inventory.torn.is_empty());
        }
        assert!(
            history.len() > 20,
            "too few commits to mean anything: {}",
            history.len()
        );
    }
}
