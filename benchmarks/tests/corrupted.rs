//! A check is worth something only if it fails: data are changed behind the workload's back, and its
//! own check must say so.

use fencepost::Database;
use fencepost_benchmarks::harness::{Attempt, Client, Workload};
use fencepost_benchmarks::orw::{OrwOptions, OrwSql};
use fencepost_benchmarks::smallbank::SmallBankSql;
use fencepost_benchmarks::sql::{Embedded, SqlSource};
use fencepost_fabric::random::Random;

/// A small database, and sessions of it for a workload.
fn database() -> (Database, SqlSource) {
    let options = Database::options().region_size(16 << 20);
    let database = options.open().expect("a database");
    let source = SqlSource::Embedded(Embedded::new(database.clone()));
    (database, source)
}

/// Loads and runs some requests on this thread; the check says "ok" before and after.
fn run_some<W: Workload>(workload: &W, requests: usize) {
    workload.prepare(&|_| ()).expect("it loads");
    assert_eq!(workload.verify().expect("it looks"), None, "after the load");
    let mut client = workload.client(0).expect("a client");
    let mut random = Random::new(11);
    for _ in 0..requests {
        let request = client.generate(&mut random);
        let ended = client.execute(&request).expect("it runs");
        assert!(!matches!(ended, Attempt::Aborted(_)), "alone: {ended:?}");
    }
    drop(client);
    assert_eq!(workload.verify().expect("it looks"), None, "after the run");
}

/// Runs `sql`, finds the check broken, undoes it and finds it whole.
fn corrupt<W: Workload>(workload: &W, database: &Database, sql: &str, undo: &str) -> String {
    let mut session = database.blocking();
    assert_eq!(session.execute(sql, &[]).expect("it runs"), 1, "{sql}");
    let broken = workload.verify().expect("it looks");
    assert_eq!(session.execute(undo, &[]).expect("it runs"), 1, "{undo}");
    assert_eq!(workload.verify().expect("it looks"), None, "after {undo}");
    broken.unwrap_or_else(|| panic!("not found: {sql}"))
}

#[test]
fn smallbank_finds_a_cent_from_nowhere() {
    let (database, source) = database();
    let bank = SmallBankSql::new(source, 50);
    run_some(&bank, 200);
    let more = "UPDATE smallbank_checking SET balance = balance + 1 WHERE customer = 17";
    let less = "UPDATE smallbank_checking SET balance = balance - 1 WHERE customer = 17";
    assert!(corrupt(&bank, &database, more, less).contains("total"));
}

#[test]
fn orw_finds_lost_updates_and_broken_values() {
    let (database, source) = database();
    let options = OrwOptions {
        keys: 60,
        reads: 4,
        writes: 2,
    };
    let orw = OrwSql::new(source, options);
    run_some(&orw, 100);
    let broken = corrupt(
        &orw,
        &database,
        "UPDATE orw SET rest_2 = rest_2 + 1 WHERE id = 17",
        "UPDATE orw SET rest_2 = rest_2 - 1 WHERE id = 17",
    );
    assert!(broken.contains("key 17"));
    let broken = corrupt(
        &orw,
        &database,
        "UPDATE orw SET id = -17 WHERE id = 17",
        "UPDATE orw SET id = 17 WHERE id = -17",
    );
    assert!(broken.contains("gone"));
}
