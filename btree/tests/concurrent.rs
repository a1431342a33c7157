//! Several threads on one tree of tiny nodes: no key is lost, no phantom is missed, snapshots hold
//! still, and the tree is whole afterwards.

mod common;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::{Numbers, check, commit, machine, rest, tree};
use fencepost_btree::{BTree, Direction, IndexError, Insert};
use fencepost_txn::{Coordinator, Machine, Mode, Stop, Transaction};

const THREADS: u64 = 4;

/// Runs `body` in transactions until one commits; answers how many did not.
fn until_committed(
    session: &mut Coordinator,
    mut body: impl AsyncFnMut(&mut Transaction) -> Result<(), Stop>,
) -> u64 {
    let mut failures = 0;
    loop {
        let mut tx = session.begin(Mode::ReadWrite);
        match pollster::block_on(body(&mut tx)) {
            Ok(()) if commit(tx) => return failures,
            Ok(()) | Err(Stop::Retry(_)) => failures += 1,
            Err(stop) => panic!("stopped: {stop}"),
        }
        assert!(failures < 100_000, "no progress");
    }
}

fn stop(error: IndexError) -> Stop {
    match error {
        IndexError::Stop(stop) => stop,
        IndexError::KeyTooLong { .. } => panic!("the key is short"),
    }
}

fn in_threads(machine: &Arc<Machine>, body: impl Fn(u64, Coordinator) + Sync) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (body, session) = (&body, machine.coordinator());
            scope.spawn(move || body(thread, session));
        }
    });
}

#[test]
fn inserts_and_removes_of_different_keys_all_take_effect() {
    let machine = machine();
    let mut session = machine.coordinator();
    let tree = tree(&mut session, 48);
    let retries = AtomicU64::new(0);
    in_threads(&machine, |thread, mut session| {
        let mut numbers = Numbers(thread);
        let mut mine: BTreeMap<u64, u64> = BTreeMap::new();
        let mut failures = 0;
        for round in 0..600 {
            let mut after = mine.clone();
            let seed = numbers.below(u64::MAX);
            failures += until_committed(&mut session, async |tx| {
                let mut numbers = Numbers(seed);
                after = mine.clone();
                for _ in 0..1 + numbers.below(8) {
                    let key = numbers.below(300) * THREADS + thread;
                    let bytes = key.to_be_bytes();
                    if numbers.below(5) < 3 || round < 100 {
                        let found = tree
                            .insert(tx, &bytes, [round, thread])
                            .await
                            .map_err(stop)?;
                        match after.get(&key) {
                            Some(value) => assert_eq!(found, Insert::Exists([*value, thread])),
                            None => {
                                assert_eq!(found, Insert::Done);
                                after.insert(key, round);
                            }
                        }
                    } else {
                        assert_eq!(tree.remove(tx, &bytes).await?, after.remove(&key).is_some());
                    }
                }
                Ok(())
            });
            mine = after;
        }
        retries.fetch_add(failures, Ordering::Relaxed);
        let mut tx = session.begin(Mode::ReadOnly);
        for key in 0..300 * THREADS {
            if key % THREADS == thread {
                let found =
                    pollster::block_on(tree.get(&mut tx, &key.to_be_bytes())).expect("a snapshot");
                assert_eq!(
                    found,
                    mine.get(&key).map(|round| [*round, thread]),
                    "key {key}"
                );
            }
        }
    });
    check(&mut session, tree);
    let retries = retries.into_inner();
    assert!(
        retries < 600 * THREADS / 2,
        "different keys should seldom conflict: {retries} retries"
    );
}

#[test]
fn concurrent_count_and_insert_see_no_phantom() {
    // Each transaction counts all entries and inserts one that says how many it saw: were a phantom
    // missed, two of them would say the same.
    let machine = machine();
    let mut session = machine.coordinator();
    let tree = tree(&mut session, 48);
    in_threads(&machine, |thread, mut session| {
        let mut numbers = Numbers(100 + thread);
        for round in 0..60 {
            let key = [numbers.below(u64::MAX).to_be_bytes(), [thread as u8; 8]].concat();
            until_committed(&mut session, async |tx| {
                let direction = if round % 2 == 0 {
                    Direction::Forward
                } else {
                    Direction::Backward
                };
                let mut cursor = tree.scan(Bound::Unbounded, Bound::Unbounded, direction);
                let seen = rest(&mut cursor, tx, 16).await?.len() as u64;
                let found = tree.insert(tx, &key, [seen, thread]).await.map_err(stop)?;
                assert_eq!(found, Insert::Done);
                Ok(())
            });
        }
    });
    let mut tx = session.begin(Mode::ReadOnly);
    let mut cursor = tree.scan(Bound::Unbounded, Bound::Unbounded, Direction::Forward);
    let all = pollster::block_on(rest(&mut cursor, &mut tx, 100)).expect("a snapshot");
    let mut counts: Vec<u64> = all.iter().map(|(_, value)| value[0]).collect();
    counts.sort_unstable();
    assert_eq!(counts, (0..60 * THREADS).collect::<Vec<_>>());
    tx.abort();
    check(&mut session, tree);
}

#[test]
fn concurrent_inserts_of_absent_key_conflict() {
    let machine = machine();
    let mut session = machine.coordinator();
    let tree = tree(&mut session, 48);
    let inserted = AtomicU64::new(0);
    in_threads(&machine, |thread, mut session| {
        for key in 0..400u64 {
            let mut done = false;
            until_committed(&mut session, async |tx| {
                done = false;
                if key % 2 == 0 || tree.get(tx, &key.to_be_bytes()).await?.is_none() {
                    let value = [thread, 0];
                    done = tree
                        .insert(tx, &key.to_be_bytes(), value)
                        .await
                        .map_err(stop)?
                        == Insert::Done;
                }
                Ok(())
            });
            inserted.fetch_add(u64::from(done), Ordering::Relaxed);
        }
    });
    assert_eq!(inserted.into_inner(), 400);
    assert_eq!(check(&mut session, tree).entries, 400);
}

#[test]
fn absent_key_in_leaf_with_own_insert_conflicts_with_that_key_alone() {
    for (theirs, commits) in [(4u64, true), (3, false)] {
        let machine = machine();
        let (mut one, mut two) = (machine.coordinator(), machine.coordinator());
        let tree = tree(&mut one, 64);
        let insert = |tx: &mut Transaction, key: u64| {
            let done = pollster::block_on(tree.insert(tx, &key.to_be_bytes(), [key, 0]));
            assert_eq!(done.expect("it fits"), Insert::Done);
        };
        let mut tx = one.begin(Mode::ReadWrite);
        insert(&mut tx, 1);
        let found = pollster::block_on(tree.get(&mut tx, &3u64.to_be_bytes()));
        assert_eq!(found, Ok(None));
        let mut other = two.begin(Mode::ReadWrite);
        insert(&mut other, theirs);
        assert!(commit(other));
        let moved = pollster::block_on(tx.refresh());
        assert_eq!((moved.is_ok(), commit(tx)), (commits, commits), "{theirs}");
    }
}

#[test]
fn snapshots_hold_still_while_the_tree_grows_and_shrinks() {
    // Writers move tokens between keys; every snapshot must see each token exactly once.
    const TOKENS: u64 = 200;
    let machine = machine();
    let mut session = machine.coordinator();
    let tree = tree(&mut session, 48);
    let place = |n: u64, token: u64| [n.to_be_bytes(), token.to_be_bytes()].concat();
    let mut tx = session.begin(Mode::ReadWrite);
    pollster::block_on(async {
        for token in 0..TOKENS {
            tree.insert(&mut tx, &place(0, token), [token, 0])
                .await
                .expect("it fits");
        }
    });
    assert!(commit(tx));
    let stopped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (stopped, machine) = (&stopped, &machine);
        let writers: Vec<_> = (0..2u64)
            .map(|thread| {
                scope.spawn(move || {
                    let mut session = machine.coordinator();
                    let mut numbers = Numbers(thread);
                    let mut at = vec![0u64; TOKENS as usize];
                    for _ in 0..1500 {
                        let token = numbers.below(TOKENS / 2) * 2 + thread;
                        let to = numbers.below(50);
                        let from = at[token as usize];
                        until_committed(&mut session, async |tx| {
                            assert!(tree.remove(tx, &place(from, token)).await?);
                            let found = tree
                                .insert(tx, &place(to, token), [token, 0])
                                .await
                                .map_err(stop)?;
                            assert_eq!(found, Insert::Done);
                            Ok(())
                        });
                        at[token as usize] = to;
                    }
                })
            })
            .collect();
        let readers: Vec<_> = (0..2)
            .map(|reader| scope.spawn(move || watch(machine, tree, stopped, reader == 0, TOKENS)))
            .collect();
        writers
            .into_iter()
            .for_each(|writer| writer.join().expect("a writer is content"));
        stopped.store(true, Ordering::Relaxed);
        let scans: u64 = readers
            .into_iter()
            .map(|reader| reader.join().expect("a reader is content"))
            .sum();
        assert!(scans > 0);
    });
    check(&mut session, tree);
}

fn watch(
    machine: &Arc<Machine>,
    tree: BTree,
    stopped: &AtomicBool,
    forward: bool,
    tokens: u64,
) -> u64 {
    let mut session = machine.coordinator();
    let mut scans = 0;
    while !stopped.load(Ordering::Relaxed) || scans == 0 {
        let direction = if forward {
            Direction::Forward
        } else {
            Direction::Backward
        };
        let mut tx = session.begin(Mode::ReadOnly);
        let mut cursor = tree.scan(Bound::Unbounded, Bound::Unbounded, direction);
        let seen =
            pollster::block_on(rest(&mut cursor, &mut tx, 9)).expect("a snapshot can be read");
        let mut found: Vec<u64> = seen.iter().map(|(_, value)| value[0]).collect();
        found.sort_unstable();
        assert!(
            found == (0..tokens).collect::<Vec<_>>(),
            "a snapshot lost or doubled a token: {}",
            found.len()
        );
        scans += 1;
    }
    scans
}
