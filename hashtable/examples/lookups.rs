//! Lookups a second at 90 % occupancy, on one thread and on two, and their one-sided cost:
//! `cargo run --release -p fencepost-hashtable --example lookups [keys]`.

use std::sync::Arc;
use std::time::Instant;

use fencepost_hashtable::{HashOptions, HashTable, Insert, counters};
use fencepost_txn::{Coordinator, Machine, MachineOptions, Mode};

/// Keys inserted by one transaction of the load.
const PIECE: u64 = 1000;
/// Lookups of one measurement.
const LOOKUPS: u64 = 4_000_000;

fn key(n: u64) -> [u8; 16] {
    let mut key = [7; 16];
    key[..8].copy_from_slice(&n.to_le_bytes());
    key
}

fn scatter(n: u64, keys: u64) -> u64 {
    let mixed = n
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .rotate_left(31)
        .wrapping_mul(0xBF58_476D_1CE4_E5B9);
    ((u128::from(mixed) * u128::from(keys)) >> 64) as u64
}

fn load(session: &mut Coordinator, table: HashTable, keys: u64) {
    for piece in 0..keys.div_ceil(PIECE) {
        let mut tx = session.begin(Mode::ReadWrite);
        pollster::block_on(async {
            for n in piece * PIECE..keys.min((piece + 1) * PIECE) {
                let found = table
                    .insert(&mut tx, &key(n), &[n, 1, 2, 3])
                    .await
                    .expect("there is memory");
                assert_eq!(found, Insert::Done);
            }
            tx.commit().await.expect("no other transaction writes");
        });
    }
}

fn lock_free(machine: &Machine, table: HashTable, keys: u64, from: u64) {
    let mut value = [0; 4];
    for n in from..from + LOOKUPS {
        let n = scatter(n, keys);
        assert!(
            pollster::block_on(table.get_lockfree(machine, &key(n), &mut value)).expect("reached")
                && value[0] == n
        );
    }
}

fn rate(what: &str, count: u64, started: Instant) {
    println!(
        "{what:<34} {:>8.2} M/s",
        count as f64 / started.elapsed().as_secs_f64() / 1e6
    );
}

fn main() {
    let keys = std::env::args()
        .nth(1)
        .and_then(|keys| keys.parse().ok())
        .unwrap_or(1_000_000);
    let machine: Arc<Machine> =
        Machine::open(MachineOptions::default()).expect("a database in memory opens");
    let mut session = machine.coordinator();
    let options = HashOptions {
        key_bytes: 16,
        value_words: 4,
        capacity: keys as usize,
        guard_hits: true,
        ..HashOptions::default()
    };
    let mut tx = session.begin(Mode::ReadWrite);
    let started = Instant::now();
    let table =
        pollster::block_on(HashTable::create_with(&mut tx, &options)).expect("there is memory");
    pollster::block_on(tx.commit()).expect("no other transaction writes");
    println!("created in {:?}", started.elapsed());
    let started = Instant::now();
    load(&mut session, table, keys);
    rate("inserts, 1000 a transaction", keys, started);
    let mut tx = session.begin(Mode::ReadOnly);
    let report = pollster::block_on(table.check(&mut tx)).expect("the table can be read");
    tx.abort();
    println!(
        "{} keys, {} shards, {} % occupied, {} in {} overflow blocks, {} problems, {} bytes a key",
        report.entries,
        report.shards,
        report.occupancy_percent,
        report.chained,
        report.blocks,
        report.problems.len(),
        machine.account().used() / keys
    );
    println!("{:?}", counters());
    let before = counters();
    let started = Instant::now();
    lock_free(&machine, table, keys, 0);
    rate("lock-free, one thread", LOOKUPS, started);
    let after = counters();
    let reads = (after.one_sided_reads - before.one_sided_reads) as f64;
    println!(
        "{:.4} one-sided reads a lookup",
        reads / (after.lookups - before.lookups) as f64
    );
    let started = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let machine = &machine;
            scope.spawn(move || lock_free(machine, table, keys, thread * LOOKUPS));
        }
    });
    rate("lock-free, two threads", 2 * LOOKUPS, started);
    let started = Instant::now();
    pollster::block_on(async {
        let mut value = [0; 4];
        for n in 0..LOOKUPS / 4 {
            let n = scatter(n, keys);
            let mut tx = session.begin(Mode::ReadOnly);
            assert!(
                table
                    .get_into(&mut tx, &key(n), &mut value)
                    .await
                    .expect("a snapshot")
                    && value[0] == n
            );
            tx.commit().await.expect("it only read");
        }
    });
    rate("read-only transactions of one get", LOOKUPS / 4, started);
    let started = Instant::now();
    pollster::block_on(async {
        for n in 0..LOOKUPS / 8 {
            let n = scatter(n, keys);
            let mut tx = session.begin(Mode::ReadWrite);
            assert!(
                table
                    .replace(&mut tx, &key(n), &[n, 5, 6, 7])
                    .await
                    .expect("one writer")
            );
            tx.commit().await.expect("one writer");
        }
    });
    rate("transactions of one replace", LOOKUPS / 8, started);
}
