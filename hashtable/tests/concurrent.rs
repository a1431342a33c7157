//! Several threads on one table of tiny shards: no key is lost while the table grows, and no
//! phantom is missed. Snapshots do not change, lock-free lookups are never torn, and a hot key
//! takes blind updates.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::{Numbers, check, commit, everything, machine, table};
use fencepost_hashtable::{HashOptions, HashTable, IndexError, Insert};
use fencepost_txn::{Coordinator, Machine, Mode, Stop, Transaction};

const THREADS: u64 = 4;

fn tiny() -> HashOptions {
    HashOptions {
        key_bytes: 16,
        slots: 2,
        shard_buckets: 8,
        guard_hits: true,
        ..HashOptions::default()
    }
}

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
    let table = table(&mut session, &tiny());
    in_threads(&machine, |thread, mut session| {
        let mut numbers = Numbers(thread);
        let mut mine: BTreeMap<u64, u64> = BTreeMap::new();
        for round in 0..1500 {
            let mut after = mine.clone();
            let seed = numbers.below(u64::MAX);
            until_committed(&mut session, async |tx| {
                let mut numbers = Numbers(seed);
                after = mine.clone();
                for _ in 0..1 + numbers.below(8) {
                    let key = numbers.below(300) * THREADS + thread;
                    let bytes = key.to_be_bytes();
                    if numbers.below(5) < 3 || round < 100 {
                        let found = table
                            .insert(tx, &bytes, &[round, thread])
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
                        assert_eq!(
                            table.remove(tx, &bytes).await?,
                            after.remove(&key).is_some()
                        );
                    }
                }
                Ok(())
            });
            mine = after;
        }
        let mut tx = session.begin(Mode::ReadOnly);
        for key in (0..300 * THREADS).filter(|key| key % THREADS == thread) {
            let expected = mine.get(&key).map(|round| [*round, thread]);
            let found =
                pollster::block_on(table.get(&mut tx, &key.to_be_bytes())).expect("a snapshot");
            assert_eq!(found, expected, "key {key}");
            let mut value = [0; 2];
            let found =
                pollster::block_on(table.get_lockfree(&machine, &key.to_be_bytes(), &mut value))
                    .expect("reached")
                    .then_some(value);
            assert_eq!(found, expected, "key {key}, lock-free");
        }
    });
    let report = check(&mut session, table);
    assert!(report.shards > 8, "{}", report.shards);
}

#[test]
fn concurrent_count_and_insert_see_no_phantom() {
    let machine = machine();
    let mut session = machine.coordinator();
    let table = table(&mut session, &tiny());
    in_threads(&machine, |thread, mut session| {
        let mut numbers = Numbers(100 + thread);
        for _ in 0..60 {
            let key = [numbers.below(u64::MAX).to_be_bytes(), [thread as u8; 8]].concat();
            until_committed(&mut session, async |tx| {
                let seen = everything(table, tx).await?.len() as u64;
                let found = table
                    .insert(tx, &key, &[seen, thread])
                    .await
                    .map_err(stop)?;
                assert_eq!(found, Insert::Done);
                Ok(())
            });
        }
    });
    let mut tx = session.begin(Mode::ReadOnly);
    let all = pollster::block_on(everything(table, &mut tx)).expect("a snapshot");
    let mut counts: Vec<u64> = all.iter().map(|(_, value)| *value).collect();
    counts.sort_unstable();
    assert_eq!(counts, (0..60 * THREADS).collect::<Vec<_>>());
    tx.abort();
    check(&mut session, table);
}

#[test]
fn concurrent_inserts_of_absent_key_conflict() {
    let machine = machine();
    let mut session = machine.coordinator();
    let table = table(&mut session, &tiny());
    let inserted = AtomicU64::new(0);
    in_threads(&machine, |thread, mut session| {
        for key in 0..1000u64 {
            let mut done = false;
            until_committed(&mut session, async |tx| {
                done = false;
                if key % 2 == 0 || table.get(tx, &key.to_be_bytes()).await?.is_none() {
                    let found = table
                        .insert(tx, &key.to_be_bytes(), &[thread, 0])
                        .await
                        .map_err(stop)?;
                    done = found == Insert::Done;
                }
                Ok(())
            });
            inserted.fetch_add(u64::from(done), Ordering::Relaxed);
        }
    });
    assert_eq!(inserted.into_inner(), 1000);
    assert_eq!(check(&mut session, table).entries, 1000);
}

#[test]
fn increments_of_one_key_are_not_lost_and_blind_updates_do_not_conflict() {
    let machine = machine();
    let mut session = machine.coordinator();
    let table = table(&mut session, &tiny());
    let mut tx = session.begin(Mode::ReadWrite);
    pollster::block_on(async {
        for key in [b"counter", b"hot-key"] {
            table.insert(&mut tx, key, &[0, 0]).await.expect("it fits");
        }
    });
    assert!(commit(tx));
    let conflicts = AtomicU64::new(0);
    in_threads(&machine, |thread, mut session| {
        for round in 0..500 {
            until_committed(&mut session, async |tx| {
                let [value, _] = table.get(tx, b"counter").await?.expect("it is there");
                assert!(table.replace(tx, b"counter", &[value + 1, 0]).await?);
                Ok(())
            });
            let failures = until_committed(&mut session, async |tx| {
                assert!(table.replace(tx, b"hot-key", &[thread, round]).await?);
                Ok(())
            });
            conflicts.fetch_add(failures, Ordering::Relaxed);
        }
    });
    let mut value = [0; 2];
    assert!(
        pollster::block_on(table.get_lockfree(&machine, b"counter", &mut value)).expect("reached")
    );
    assert_eq!(value[0], 500 * THREADS);
    assert!(conflicts.into_inner() < 100, "blind updates are combined");
}

#[test]
fn snapshots_and_lock_free_readers_hold_still_while_the_table_grows() {
    // Keys come in pairs with values that must agree; some are always there.
    let machine = machine();
    let mut session = machine.coordinator();
    let table = table(&mut session, &tiny());
    const FIXED: u64 = 60;
    let mut tx = session.begin(Mode::ReadWrite);
    pollster::block_on(async {
        for key in 0..FIXED {
            table
                .insert(&mut tx, &key.to_be_bytes(), &[key, key])
                .await
                .expect("it fits");
        }
    });
    assert!(commit(tx));
    let stopped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (stopped, machine) = (&stopped, &machine);
        let writers: Vec<_> = (0..2u64)
            .map(|thread| scope.spawn(move || churn(machine, table, thread)))
            .collect();
        let readers: Vec<_> = (0..2)
            .map(|_| scope.spawn(move || watch(machine, table, stopped, FIXED)))
            .collect();
        writers
            .into_iter()
            .for_each(|writer| writer.join().expect("a writer is content"));
        stopped.store(true, Ordering::Relaxed);
        let looks: u64 = readers
            .into_iter()
            .map(|reader| reader.join().expect("a reader is content"))
            .sum();
        assert!(looks > 0);
    });
    check(&mut session, table);
}

fn churn(machine: &Arc<Machine>, table: HashTable, thread: u64) {
    let mut session = machine.coordinator();
    let mut numbers = Numbers(thread);
    for _ in 0..2000 {
        let key = (1 << 32) + numbers.below(2000) * 2 + thread;
        until_committed(&mut session, async |tx| {
            let partner = key | 1 << 40;
            if table.remove(tx, &key.to_be_bytes()).await? {
                assert!(table.remove(tx, &partner.to_be_bytes()).await?);
            } else {
                table
                    .insert(tx, &key.to_be_bytes(), &[key, key])
                    .await
                    .map_err(stop)?;
                table
                    .insert(tx, &partner.to_be_bytes(), &[partner, partner])
                    .await
                    .map_err(stop)?;
            }
            Ok(())
        });
    }
}

fn watch(machine: &Arc<Machine>, table: HashTable, stopped: &AtomicBool, fixed: u64) -> u64 {
    let mut session = machine.coordinator();
    let mut looks = 0;
    while !stopped.load(Ordering::Relaxed) || looks == 0 {
        for key in 0..fixed {
            let mut value = [0; 2];
            assert!(
                pollster::block_on(table.get_lockfree(machine, &key.to_be_bytes(), &mut value))
                    .expect("reached"),
                "key {key} was missed"
            );
            assert_eq!(value, [key, key]);
        }
        let mut tx = session.begin(Mode::ReadOnly);
        let seen = pollster::block_on(everything(table, &mut tx)).expect("a snapshot can be read");
        let keys: std::collections::BTreeSet<&[u8]> =
            seen.iter().map(|(key, _)| key.as_slice()).collect();
        assert_eq!(keys.len(), seen.len(), "a key was seen twice");
        assert_eq!(
            seen.len() as u64 % 2,
            fixed % 2,
            "half a transaction was seen"
        );
        assert!((0..fixed).all(|key| keys.contains(key.to_be_bytes().as_slice())));
        looks += 1;
    }
    looks
}
