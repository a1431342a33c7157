//! The table against a `HashMap`: random operations in several transactions, with tiny shards,
//! aborts and savepoints, growth, readers of the past; and the cost of a lookup.

mod common;

use std::collections::BTreeMap;

use common::{Numbers, check, commit, everything, machine, table};
use fencepost_hashtable::{HashOptions, HashTable, IndexError, Insert, counters};
use fencepost_txn::{Mode, Stop, Transaction};

type Model = BTreeMap<Vec<u8>, u64>;

fn tiny() -> HashOptions {
    HashOptions {
        key_bytes: 24,
        value_words: 2,
        slots: 2,
        shard_buckets: 8,
        ..HashOptions::default()
    }
}

fn key(numbers: &mut Numbers, space: u64) -> Vec<u8> {
    let n = numbers.below(space);
    if n.is_multiple_of(5) {
        format!("key-{n}-{}", "z".repeat(n as usize % 9)).into_bytes()
    } else {
        n.to_be_bytes().to_vec()
    }
}

async fn step(
    table: HashTable,
    tx: &mut Transaction,
    model: &mut Model,
    numbers: &mut Numbers,
    space: u64,
) -> Result<(), Stop> {
    let key = key(numbers, space);
    let value = numbers.below(1 << 40);
    match numbers.below(10) {
        0..5 => match (table.insert(tx, &key, &[value, 9]).await, model.get(&key)) {
            (Err(IndexError::Stop(stop)), _) => return Err(stop),
            (found, Some(there)) => assert_eq!(found, Ok(Insert::Exists([*there, 9]))),
            (found, None) => {
                assert_eq!(found, Ok(Insert::Done));
                model.insert(key, value);
            }
        },
        5..8 => assert_eq!(table.remove(tx, &key).await?, model.remove(&key).is_some()),
        8 => {
            assert_eq!(
                table.replace(tx, &key, &[value, 9]).await?,
                model.contains_key(&key)
            );
            if let Some(there) = model.get_mut(&key) {
                *there = value;
            }
        }
        _ => {
            let expected = model.get(&key).map(|value| [*value, 9]);
            assert_eq!(table.get(tx, &key).await?, expected);
        }
    }
    Ok(())
}

/// One transaction's worth of steps, some of them within a savepoint.
async fn steps(
    table: HashTable,
    tx: &mut Transaction,
    model: &mut Model,
    numbers: &mut Numbers,
) -> Result<(), Stop> {
    let space = 20 + numbers.below(400);
    for _ in 0..numbers.below(120) {
        step(table, tx, model, numbers, space).await?;
    }
    if numbers.below(2) == 0 {
        let savepoint = tx.savepoint();
        let mut inside = model.clone();
        for _ in 0..numbers.below(120) {
            step(table, tx, &mut inside, numbers, space).await?;
        }
        if numbers.below(2) == 0 {
            tx.rollback_to(&savepoint);
        } else {
            *model = inside;
        }
        tx.release(savepoint);
        for _ in 0..numbers.below(40) {
            step(table, tx, model, numbers, space).await?;
        }
    }
    Ok(())
}

fn all(table: HashTable, tx: &mut Transaction) -> Model {
    let found = pollster::block_on(everything(table, tx)).expect("a snapshot can be read");
    let len = found.len();
    let found: Model = found.into_iter().collect();
    assert_eq!(found.len(), len, "a scan met a key twice");
    found
}

#[test]
fn transactions_aborts_and_savepoints_agree_with_a_model() {
    for seed in 0..24 {
        let mut numbers = Numbers(seed);
        let machine = machine();
        let mut session = machine.coordinator();
        let options = HashOptions {
            guard_hits: seed % 2 == 0,
            ..tiny()
        };
        let table = table(&mut session, &options);
        let mut committed = Model::new();
        let mut past: Vec<(Transaction, Model)> = Vec::new();
        let mut reader = machine.coordinator();
        let mut retries = 0;
        for round in 0..40 {
            let mut tx = session.begin(Mode::ReadWrite);
            let mut model = committed.clone();
            match pollster::block_on(steps(table, &mut tx, &mut model, &mut numbers)) {
                Ok(()) => {}
                // The shard grew under something that the transaction had read and guards.
                Err(Stop::Retry(_)) => {
                    retries += 1;
                    continue;
                }
                Err(stop) => panic!("stopped: {stop}"),
            }
            assert!(all(table, &mut tx) == model, "seed {seed} round {round}");
            if numbers.below(4) == 0 {
                tx.abort();
            } else {
                assert!(commit(tx), "one writer; seed {seed} round {round}");
                committed = model;
            }
            if round % 10 == 0 {
                past.push((reader.begin(Mode::ReadOnly), committed.clone()));
            }
            let report = check(&mut session, table);
            assert_eq!(report.entries, committed.len() as u64);
        }
        assert!(retries <= 8, "{retries} retries; seed {seed}");
        for (mut tx, model) in past {
            assert!(
                all(table, &mut tx) == model,
                "a reader of the past; seed {seed}"
            );
            for (key, value) in &model {
                let found = pollster::block_on(table.get(&mut tx, key)).expect("the past is kept");
                assert_eq!(found, Some([*value, 9]));
            }
        }
        for (key, value) in &committed {
            let mut found = [0; 2];
            assert!(
                pollster::block_on(table.get_lockfree(&machine, key, &mut found)).expect("reached")
            );
            assert_eq!(found, [*value, 9]);
        }
        assert!(
            !pollster::block_on(table.get_lockfree(&machine, b"absent", &mut [0; 2]))
                .expect("reached")
        );
    }
}

#[test]
fn one_transaction_loads_and_grows_table() {
    for private in [false, true] {
        let machine = machine();
        let mut session = machine.coordinator();
        let options = HashOptions {
            shard_buckets: 32,
            ..HashOptions::default()
        };
        let mut tx = session.begin(Mode::ReadWrite);
        let mut table =
            pollster::block_on(HashTable::create_with(&mut tx, &options)).expect("there is memory");
        if !private {
            assert!(commit(tx));
            table = HashTable::open(table.root());
            tx = session.begin(Mode::ReadWrite);
        }
        pollster::block_on(async {
            for n in 0..20_000u64 {
                let found = table
                    .insert(&mut tx, &n.to_le_bytes(), &[n, 1])
                    .await
                    .expect("it fits");
                assert_eq!(found, Insert::Done);
            }
            for n in 0..20_000u64 {
                assert_eq!(
                    table.get(&mut tx, &n.to_le_bytes()).await.expect("own"),
                    Some([n, 1])
                );
            }
        });
        assert!(commit(tx));
        let report = check(&mut session, table);
        assert_eq!(report.entries, 20_000);
        assert!(report.shards > 64, "{}", report.shards);
        assert!(
            report.occupancy_percent >= 45,
            "{}",
            report.occupancy_percent
        );
    }
}

#[test]
fn lookup_at_ninety_percent_load_costs_about_one_read() {
    const KEYS: u64 = 100_000;
    let machine = machine();
    let mut session = machine.coordinator();
    let options = HashOptions {
        key_bytes: 16,
        value_words: 4,
        shard_buckets: 1024,
        capacity: KEYS as usize,
        ..HashOptions::default()
    };
    let table = table(&mut session, &options);
    let key = |n: u64| [n.to_le_bytes(), [7; 8]].concat();
    pollster::block_on(async {
        for batch in 0..KEYS / 100 {
            let mut tx = session.begin(Mode::ReadWrite);
            for n in batch * 100..batch * 100 + 100 {
                table
                    .insert(&mut tx, &key(n), &[n, 0, 0, n])
                    .await
                    .expect("it fits");
            }
            assert!(commit(tx));
        }
    });
    let report = check(&mut session, table);
    assert_eq!(report.entries, KEYS);
    assert!(
        (88..=90).contains(&report.occupancy_percent),
        "{}",
        report.occupancy_percent
    );
    // Counters are those of the process, and other tests look up too; chained keys tell the cost of
    // this table alone: a lookup reads one block more for each block before its key.
    let before = counters();
    let mut value = [0; 4];
    for n in 0..KEYS {
        assert!(
            pollster::block_on(table.get_lockfree(&machine, &key(n), &mut value)).expect("reached")
        );
        assert_eq!(value, [n, 0, 0, n]);
    }
    let after = counters();
    assert!(
        after.lookups - before.lookups >= KEYS && after.one_sided_reads > before.one_sided_reads
    );
    let cost = 1.0 + report.chained as f64 / KEYS as f64;
    assert!(
        cost <= 1.05,
        "{cost} reads a lookup, {} blocks",
        report.blocks
    );
}

#[test]
fn chains_collapse_when_keys_go() {
    let machine = machine();
    let mut session = machine.coordinator();
    let table = table(
        &mut session,
        &HashOptions {
            slots: 2,
            shard_buckets: 4,
            capacity: 0,
            ..tiny()
        },
    );
    let key = |n: u64| n.to_be_bytes();
    pollster::block_on(async {
        let mut tx = session.begin(Mode::ReadWrite);
        for n in 0..300 {
            table
                .insert(&mut tx, &key(n), &[n, 0])
                .await
                .expect("it fits");
        }
        assert!(commit(tx));
        assert!(check(&mut session, table).entries == 300);
        for n in 0..300 {
            let mut tx = session.begin(Mode::ReadWrite);
            assert!(table.remove(&mut tx, &key(n)).await.expect("one writer"));
            assert!(commit(tx));
        }
        let report = check(&mut session, table);
        assert_eq!((report.entries, report.blocks), (0, 0));
        let mut tx = session.begin(Mode::ReadWrite);
        table.drop_table(&mut tx).await.expect("no concurrent use");
        assert!(commit(tx));
    });
}

#[test]
fn keys_too_long_are_refused() {
    let machine = machine();
    let mut session = machine.coordinator();
    let table = table(&mut session, &tiny());
    let mut tx = session.begin(Mode::ReadWrite);
    pollster::block_on(async {
        let refused = table
            .insert(&mut tx, &[1; 25], &[0, 0])
            .await
            .expect_err("it does not fit");
        assert_eq!(
            refused,
            IndexError::KeyTooLong {
                length: 25,
                limit: 24
            }
        );
        assert!(table.insert(&mut tx, &[1; 257], &[0, 0]).await.is_err());
        assert_eq!(
            table
                .get(&mut tx, &[1; 257])
                .await
                .expect("it is just not there"),
            None
        );
        assert!(
            !table
                .remove(&mut tx, &[1; 25])
                .await
                .expect("it is just not there")
        );
    });
}
