//! Concurrent transactions: some replace pointers to new objects on all machines, others follow the
//! pointers.

use std::sync::atomic::{AtomicBool, Ordering};

use fencepost_txn::{Addr, FatPtr, Mode, ObjectLocation, Outcome, Stop, Transaction};
use pollster::block_on;

use crate::world::{KINDS, World, commit, place, unless_conflict};

const CELLS: usize = 6;
const MACHINES: usize = 3;

fn draw(random: &mut u64, below: u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random % below
}

/// Follows all pointers and checks that each object exists, is not torn, and has the number of its
/// cell.
async fn follow(tx: &mut Transaction, cells: &[Addr]) -> Result<(), Stop> {
    let (mut cell, mut words) = (Vec::new(), Vec::new());
    for (number, addr) in cells.iter().enumerate() {
        assert!(tx.read(*addr, &mut cell).await?);
        let ptr = FatPtr::from_words([cell[0], cell[1]]);
        if ptr.is_null() {
            continue;
        }
        let snapshot = tx.read_timestamp();
        let there = tx.read(ptr.addr, &mut words).await?;
        if !there && tx.read_timestamp() != snapshot {
            return Err(Stop::Retry(fencepost_txn::AbortReason::ReadConflict));
        }
        assert!(there, "a cell leads nowhere");
        let count = ptr.size as usize / 8;
        assert_eq!(words[..count], vec![number as u64 + 1; count]);
    }
    Ok(())
}

/// Puts new objects behind some cells, on random machines.
async fn replace(tx: &mut Transaction, cells: &[Addr], random: &mut u64) -> Result<(), Stop> {
    for _ in 0..1 + draw(random, 3) {
        let number = draw(random, CELLS as u64) as usize;
        let mut cell = Vec::new();
        tx.read(cells[number], &mut cell).await?;
        let old = FatPtr::from_words([cell[0], cell[1]]);
        if !old.is_null() {
            match tx.free(old.addr).await {
                // Another transaction has freed it since.
                Err(Stop::Damaged) => {
                    return Err(Stop::Retry(fencepost_txn::AbortReason::WriteConflict));
                }
                done => done?,
            }
        }
        let words = [1, 3, 30][draw(random, 3) as usize];
        let near = match draw(random, 4) {
            0 => ObjectLocation::Own,
            1 => ObjectLocation::Object(cells[number]),
            _ => place(draw(random, MACHINES as u64) as usize),
        };
        let savepoint = tx.savepoint();
        let taken_back = tx.alloc(words, near).await?;
        tx.write_new(taken_back, &vec![77; words])?;
        if draw(random, 3) == 0 {
            tx.rollback_to(&savepoint);
        } else {
            tx.free(taken_back.addr).await?;
        }
        tx.release(savepoint);
        let new = tx.alloc(words, near).await?;
        tx.write_new(new, &vec![number as u64 + 1; words])?;
        tx.write(cells[number], &new.to_words()).await?;
    }
    Ok(())
}

#[test]
fn reader_of_pointer_finds_new_object() {
    for (kind, replicas) in [(KINDS[0], 1), (KINDS[0], 3), (KINDS[1], 2)] {
        let world = World::new(kind, MACHINES as u32, replicas);
        let cells: Vec<Addr> = (0..CELLS)
            .map(|number| world.object(0, number % MACHINES, 2, 0).addr)
            .collect();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (world, cells, stop) = (&world, &cells, &stop);
            let writers: Vec<_> = (0..MACHINES)
                .map(|machine| {
                    scope.spawn(move || {
                        let mut coordinator = world.machines[machine].coordinator();
                        let mut random = (machine as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                        let mut committed = 0;
                        for _ in 0..400 {
                            let mut tx = coordinator.begin(Mode::ReadWrite);
                            let done = block_on(replace(&mut tx, cells, &mut random));
                            if unless_conflict(done).is_none() || draw(&mut random, 8) == 0 {
                                continue;
                            }
                            let outcome = unless_conflict(block_on(tx.commit()));
                            committed += u32::from(matches!(outcome, Some(Outcome::Committed(_))));
                        }
                        committed
                    })
                })
                .collect();
            for machine in 0..MACHINES {
                scope.spawn(move || {
                    let mut coordinator = world.machines[machine].coordinator();
                    while !stop.load(Ordering::Relaxed) {
                        for mode in [Mode::ReadOnly, Mode::ReadWrite] {
                            let mut tx = coordinator.begin(mode);
                            unless_conflict(block_on(follow(&mut tx, cells)));
                        }
                    }
                });
            }
            let committed: Vec<u32> = writers
                .into_iter()
                .map(|writer| writer.join().expect("no panic"))
                .collect();
            stop.store(true, Ordering::Relaxed);
            assert!(committed.iter().sum::<u32>() > 50, "{committed:?}");
        });
        world.wait_until_idle();
        let mut tx = world.begin(1, Mode::ReadOnly);
        block_on(follow(&mut tx, &cells)).expect("no conflict");
        let mut behind = 0;
        for cell in &cells {
            let look = block_on(tx.view(*cell, None, |view| view.word(0)));
            behind += usize::from(look.expect("readable").is_some_and(|(word, _)| word != 0));
        }
        commit(tx);
        assert_eq!(world.objects(), CELLS + behind);
    }
}
