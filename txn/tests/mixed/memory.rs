//! Tests in the memory tier.

use std::collections::BTreeSet;

use fencepost_txn::{Machine, MachineOptions, Mode};
use pollster::block_on;

use crate::model::{Step, TransactionRecord, check};
use crate::set;
use crate::world::{CELLS, MAX_THREADS, Random, World};

/// Runs `each` transactions on each of `threads` threads.
pub fn run(world: &World, threads: usize, each: u64, seed: u64) -> Vec<TransactionRecord> {
    assert!(threads <= MAX_THREADS);
    std::thread::scope(|scope| {
        let run = |thread: usize| {
            scope.spawn(move || {
                let mut coordinator = world.machine.coordinator();
                let mut random =
                    Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ ((thread as u64 + 1) << 20));
                let mut stories = Vec::new();
                for number in 1..=each {
                    match world.attempt(&mut coordinator, (thread, number), &mut random) {
                        Ok(story) => stories.push(story),
                        Err(story) => panic!("failed: {story:?}"),
                    }
                }
                stories
            })
        };
        let handles: Vec<_> = (0..threads).map(run).collect();
        handles
            .into_iter()
            .flat_map(|handle| handle.join().expect("no panic"))
            .collect()
    })
}

#[test]
fn concurrent_transactions_fit_one_serial_order() {
    for seed in 1..=12u64 {
        let threads = 2 + seed as usize % 4;
        let options = MachineOptions {
            region_bytes: 16 << 20,
            lanes: 1 + seed as usize % 3,
            ..MachineOptions::default()
        };
        let world = World::new(Machine::open(options).expect("memory tier opens"));
        let stories = run(&world, threads, 400, seed);
        let committed = stories.iter().filter(|story| story.w.is_some()).count();
        assert!(committed > 100, "seed {seed}: only {committed} commits");
        let state = check(stories).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        let keys: BTreeSet<u64> = set::at_rest(&world.machine, world.set.first())
            .into_iter()
            .collect();
        assert_eq!(keys, state.keys, "seed {seed}");
        let mut tx = world.machine.coordinator().begin(Mode::ReadOnly);
        for cell in 0..CELLS {
            assert_eq!(
                block_on(world.read(&mut tx, cell)),
                Ok(state.cells.get(&cell).copied())
            );
        }
        let inventory = world.machine.inventory();
        assert!(inventory.locked.is_empty() && inventory.torn.is_empty());
        drop(tx);
        assert_eq!(world.machine.counters().totals().intent_waits, 0);
    }
}

#[test]
fn checker_finds_phantom_and_mixed_snapshot() {
    let at = fencepost_txn::Timestamp::from_raw;
    let record = |steps: Vec<Step>, r: u64, w: Option<u64>| TransactionRecord {
        number: 0,
        steps,
        r: at(r),
        w: w.map(at),
    };
    let insert = |w| {
        record(
            vec![Step::Insert(5, true), Step::Write(1, 7)],
            w - 1,
            Some(w),
        )
    };
    let phantom = record(
        vec![Step::Scan(0, 10, vec![]), Step::Write(2, 9)],
        2,
        Some(4),
    );
    assert!(check(vec![insert(3), phantom]).is_err());
    let mixed = record(
        vec![Step::Scan(0, 10, vec![5]), Step::Read(1, None)],
        3,
        None,
    );
    assert!(check(vec![insert(3), mixed]).is_err());
    let right = record(
        vec![Step::Scan(0, 10, vec![5]), Step::Read(1, Some(7))],
        3,
        None,
    );
    assert!(check(vec![insert(3), right]).is_ok());
}
