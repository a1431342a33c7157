//! Anomalies that a hash table in transactions must not show, each with the threads that could
//! cause it: write skew over absent keys and over inline values, keys missed while they move, a
//! load that races with inserts, snapshots taken in the middle of growth.

mod common;

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Waker};

use common::{Numbers, check, commit, everything, machine, table};
use fencepost_hashtable::{HashOptions, HashTable, IndexError, Insert};
use fencepost_txn::{Coordinator, Machine, Mode, Stop, Transaction};

/// Shards so small that nearly every key is displaced or in an overflow chain.
fn tiny() -> HashOptions {
    HashOptions {
        key_bytes: 16,
        slots: 2,
        shard_buckets: 4,
        guard_hits: true,
        ..HashOptions::default()
    }
}

/// A lookup that meets a lock becomes a future: it waits for the lock, and other tasks run.
#[test]
fn lookup_waits_for_lock() {
    let machine = machine();
    let mut session = machine.coordinator();
    let table = table(&mut session, &tiny());
    insist(&mut session, async |tx| {
        put(table, tx, 7, [1, 2]).await.map(|_| ())
    });
    let root = machine.regions().object(table.root()).expect("there");
    let header = root.header();
    root.try_lock(header).expect("the root is not locked");
    let (key, mut value) = (7u64.to_be_bytes(), [0; 2]);
    let mut found = Box::pin(table.get_lockfree(&machine, &key, &mut value));
    let polled = found.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending());
    root.unlock(header);
    assert_eq!(pollster::block_on(found), Ok(true));
    assert_eq!(value, [1, 2]);
}

/// Runs `body` once; whether it committed.
fn once(
    session: &mut Coordinator,
    body: impl AsyncFnOnce(&mut Transaction) -> Result<(), Stop>,
) -> bool {
    let mut tx = session.begin(Mode::ReadWrite);
    match pollster::block_on(body(&mut tx)) {
        Ok(()) => commit(tx),
        Err(Stop::Retry(_)) => false,
        Err(stop) => panic!("stopped: {stop}"),
    }
}

/// Runs `body` until it commits.
fn insist(
    session: &mut Coordinator,
    mut body: impl AsyncFnMut(&mut Transaction) -> Result<(), Stop>,
) {
    for _ in 0..100_000 {
        if once(session, &mut body) {
            return;
        }
    }
    panic!("no progress");
}

async fn put(
    table: HashTable,
    tx: &mut Transaction,
    key: u64,
    value: [u64; 2],
) -> Result<Insert, Stop> {
    match table.insert(tx, &key.to_be_bytes(), &value).await {
        Ok(found) => Ok(found),
        Err(IndexError::Stop(stop)) => Err(stop),
        Err(error) => panic!("the key is short: {error}"),
    }
}

fn fill(session: &mut Coordinator, table: HashTable, keys: std::ops::Range<u64>) {
    for key in keys {
        insist(session, async |tx| {
            put(table, tx, key, [key, 0]).await.map(|_| ())
        });
    }
}

#[test]
fn crossed_absent_reads_do_not_both_insert() {
    const ROUNDS: u64 = 3000;
    let machine = machine();
    let mut session = machine.coordinator();
    let table = table(&mut session, &tiny());
    fill(&mut session, table, 1 << 32..(1 << 32) + 40);
    let gate = std::sync::Barrier::new(2);
    let committed: Vec<Vec<bool>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2u64)
            .map(|me| {
                let (machine, gate) = (&machine, &gate);
                scope.spawn(move || {
                    let mut session = machine.coordinator();
                    let mut round = async |round: u64| {
                        gate.wait();
                        let mut tx = session.begin(Mode::ReadWrite);
                        let other = table
                            .get(&mut tx, &(round * 2 + 1 - me).to_be_bytes())
                            .await;
                        let done = match other {
                            Ok(None) => put(table, &mut tx, round * 2 + me, [me, 0]).await.is_ok(),
                            _ => false,
                        };
                        done && commit(tx)
                    };
                    (0..ROUNDS).map(|n| pollster::block_on(round(n))).collect()
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a thread is content"))
            .collect()
    });
    for (round, (first, second)) in committed[0].iter().zip(&committed[1]).enumerate() {
        assert!(
            !(*first && *second),
            "round {round}: both saw the other's key absent"
        );
    }
    assert!(committed.concat().iter().any(|done| *done));
    check(&mut session, table);
}

#[test]
fn inline_values_show_no_write_skew() {
    // Each takes from either of two values if both together allow it: write skew would overdraw.
    let machine = machine();
    let mut session = machine.coordinator();
    let table = table(&mut session, &tiny());
    fill(&mut session, table, 1 << 32..(1 << 32) + 40);
    insist(&mut session, async |tx| {
        put(table, tx, 1, [50_000, 0]).await?;
        put(table, tx, 2, [50_000, 0]).await.map(|_| ())
    });
    let taken = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for me in 0..4u64 {
            let (machine, taken) = (&machine, &taken);
            scope.spawn(move || {
                let mut session = machine.coordinator();
                let mut numbers = Numbers(me);
                for _ in 0..3000 {
                    let wish = numbers.below(40);
                    let mut got = 0;
                    insist(&mut session, async |tx| {
                        let mut both = [[0; 2]; 2];
                        for (n, value) in both.iter_mut().enumerate() {
                            assert!(
                                table
                                    .get_into(tx, &(n as u64 + 1).to_be_bytes(), value)
                                    .await?
                            );
                        }
                        got = wish.min(both[0][0] + both[1][0]);
                        let from = usize::from(both[0][0] < got);
                        if both[from][0] < got {
                            got = 0;
                        }
                        let left = [both[from][0] - got, 0];
                        assert!(
                            table
                                .replace(tx, &(from as u64 + 1).to_be_bytes(), &left)
                                .await?
                        );
                        Ok(())
                    });
                    taken.fetch_add(got, Ordering::Relaxed);
                }
            });
        }
    });
    let mut left = 0;
    for key in [1u64, 2] {
        let mut value = [0; 2];
        assert!(
            pollster::block_on(table.get_lockfree(&machine, &key.to_be_bytes(), &mut value))
                .expect("reached")
        );
        left += value[0];
    }
    assert_eq!(left + taken.into_inner(), 100_000);
}

#[test]
fn moving_key_is_never_missed() {
    const ALWAYS: u64 = 24;
    let machine = machine();
    let mut session = machine.coordinator();
    let table = table(
        &mut session,
        &HashOptions {
            shard_buckets: 16,
            ..tiny()
        },
    );
    fill(&mut session, table, 0..ALWAYS);
    let stopped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (machine, stopped) = (&machine, &stopped);
        let writers: Vec<_> = (0..2u64)
            .map(|me| {
                scope.spawn(move || {
                    let mut session = machine.coordinator();
                    let mut numbers = Numbers(me);
                    for _ in 0..4000 {
                        // Removes some keys and inserts them again in another order, among other
                        // keys that come and go. Every committed state has all of `0..ALWAYS`.
                        let seed = numbers.below(u64::MAX);
                        once(&mut session, async |tx| {
                            let mut numbers = Numbers(seed);
                            let mut keys = BTreeSet::new();
                            for _ in 0..4 {
                                keys.insert(numbers.below(ALWAYS));
                            }
                            for key in &keys {
                                assert!(table.remove(tx, &key.to_be_bytes()).await?);
                            }
                            for _ in 0..3 {
                                let other_key = 1000 + numbers.below(20);
                                if !table.remove(tx, &other_key.to_be_bytes()).await? {
                                    put(table, tx, other_key, [other_key, 0]).await?;
                                }
                            }
                            for key in keys.iter().rev() {
                                assert_eq!(put(table, tx, *key, [*key, 0]).await?, Insert::Done);
                            }
                            Ok(())
                        });
                    }
                })
            })
            .collect();
        let readers: Vec<_> = (0..2)
            .map(|_| scope.spawn(move || watch(machine, table, stopped, ALWAYS)))
            .collect();
        let ends: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        stopped.store(true, Ordering::Relaxed);
        ends.into_iter()
            .for_each(|end| end.expect("a writer is content"));
        readers
            .into_iter()
            .for_each(|reader| reader.join().expect("a reader is content"));
    });
    check(&mut session, table);
}

fn watch(machine: &Arc<Machine>, table: HashTable, stopped: &AtomicBool, always: u64) {
    let mut session = machine.coordinator();
    while !stopped.load(Ordering::Relaxed) {
        let mut tx = session.begin(Mode::ReadOnly);
        for key in 0..always {
            let mut value = [0; 2];
            assert!(
                pollster::block_on(table.get_lockfree(machine, &key.to_be_bytes(), &mut value))
                    .expect("reached"),
                "key {key}, lock-free"
            );
            assert_eq!(value, [key, 0]);
            let found =
                pollster::block_on(table.get(&mut tx, &key.to_be_bytes())).expect("a snapshot");
            assert_eq!(found, Some([key, 0]), "key {key}, in a snapshot");
        }
    }
}

#[test]
fn load_commits_despite_concurrent_inserts() {
    let machine = machine();
    let mut session = machine.coordinator();
    let table = table(
        &mut session,
        &HashOptions {
            shard_buckets: 16,
            ..tiny()
        },
    );
    let stopped = AtomicBool::new(false);
    let others = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut session = machine.coordinator();
            let mut key = 1u64 << 40;
            while !stopped.load(Ordering::Relaxed) {
                insist(&mut session, async |tx| {
                    put(table, tx, key, [key, 0]).await.map(|_| ())
                });
                key += 1;
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            key - (1 << 40)
        });
        let mut tries = 0;
        while !once(&mut session, async |tx| {
            for key in 0..300 {
                put(table, tx, key, [key, 0]).await?;
            }
            Ok(())
        }) {
            tries += 1;
            assert!(tries < 2000, "a load never gets through");
        }
        stopped.store(true, Ordering::Relaxed);
        other.join().expect("the other is content")
    });
    assert_eq!(check(&mut session, table).entries, 300 + others);
}

#[test]
fn snapshot_during_growth_keeps_its_entries() {
    let machine = machine();
    let mut session = machine.coordinator();
    let table = table(&mut session, &tiny());
    let mut sessions: Vec<Coordinator> = (0..30).map(|_| machine.coordinator()).collect();
    let mut past: Vec<(u64, Transaction)> = Vec::new();
    for (round, reader) in sessions.iter_mut().enumerate() {
        let upto = round as u64 * 40;
        past.push((upto, reader.begin(Mode::ReadOnly)));
        fill(&mut session, table, upto..upto + 40);
    }
    let report = check(&mut session, table);
    assert!(report.shards > 30, "{}", report.shards);
    for (upto, mut tx) in past {
        let seen = pollster::block_on(everything(table, &mut tx)).expect("the past is kept");
        let keys: Vec<u64> = seen.iter().map(|(_, value)| *value).collect();
        assert_eq!(
            keys,
            (0..upto).collect::<Vec<_>>(),
            "sorted by key, as it was when {upto} were there"
        );
        for key in 0..upto + 40 {
            let found = pollster::block_on(table.get(&mut tx, &key.to_be_bytes()))
                .expect("the past is kept");
            assert_eq!(found, (key < upto).then_some([key, 0]));
        }
    }
}
