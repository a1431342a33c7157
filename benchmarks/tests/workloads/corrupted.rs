//! Tests of the checks: the data is changed behind the workload's back, and the workload's own
//! check must report it.

use fencepost::Database;
use fencepost_benchmarks::harness::{Attempt, Client, Workload};
use fencepost_benchmarks::orw::{OrwOptions, OrwSql};
use fencepost_benchmarks::smallbank::SmallBankSql;
use fencepost_benchmarks::sql::{Embedded, Isolation, SqlSource};
use fencepost_benchmarks::tpcc::{RemoteShares, Scale, TpccOptions, TpccSql};
use fencepost_fabric::random::Random;
use pollster::FutureExt;

/// Opens a small database, and a source of its sessions for a workload.
fn database() -> (Database, SqlSource) {
    let options = Database::options().region_size(16 << 20);
    let database = options.open().expect("a database");
    let source = SqlSource::Embedded(Embedded::new(database.clone()));
    (database, source)
}

/// Loads and runs some requests on this thread; the check must pass before and after.
fn run_some<W: Workload>(workload: &W, requests: usize) {
    workload.prepare(&|_| ()).expect("it loads");
    assert_eq!(workload.verify().expect("it looks"), None, "after the load");
    let mut client = workload.client(0).expect("a client");
    let mut random = Random::new(11);
    for _ in 0..requests {
        let request = client.generate(&mut random);
        let ended = client.execute(&request).block_on().expect("it runs");
        assert!(!matches!(ended, Attempt::Aborted(_)), "alone: {ended:?}");
    }
    drop(client);
    assert_eq!(workload.verify().expect("it looks"), None, "after the run");
}

/// Runs `sql` and expects the check to fail; then runs `undo` and expects it to pass. Returns the
/// report of the check.
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
    let bank = SmallBankSql::new(source, Isolation::Serializable, 50);
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
    let orw = OrwSql::new(source, Isolation::Serializable, options);
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

#[test]
fn tpcc_finds_each_broken_condition() {
    let (database, source) = database();
    let options = TpccOptions {
        scale: Scale::small(1),
        remote: RemoteShares::SPECIFIED,
        threads: 1,
        seed: 3,
    };
    let tpcc = TpccSql::new((source, Isolation::RepeatableRead), options);
    run_some(&tpcc, 300);
    for (names, sql, undo) in [
        (
            ["3.3.2.1 ", "3.3.2.8 "],
            "UPDATE warehouse SET w_ytd = w_ytd + 0.01 WHERE w_id = 1",
            "UPDATE warehouse SET w_ytd = w_ytd - 0.01 WHERE w_id = 1",
        ),
        (
            ["3.3.2.9 ", "3.3.2.1 "],
            "UPDATE district SET d_ytd = d_ytd + 0.01 WHERE d_id = 2",
            "UPDATE district SET d_ytd = d_ytd - 0.01 WHERE d_id = 2",
        ),
        (
            ["3.3.2.2 ", "3.3.2.2 "],
            "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = 3",
            "UPDATE district SET d_next_o_id = d_next_o_id - 1 WHERE d_id = 3",
        ),
        (
            ["3.3.2.3 ", "3.3.2.5 "],
            "INSERT INTO new_order VALUES (1, 4, 1)",
            "DELETE FROM new_order WHERE no_w_id = 1 AND no_d_id = 4 AND no_o_id = 1",
        ),
        (
            ["3.3.2.4 ", "3.3.2.6 "],
            "INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number) VALUES (1, 5, 2, 20)",
            "DELETE FROM order_line WHERE ol_d_id = 5 AND ol_o_id = 2 AND ol_number = 20",
        ),
        (
            ["3.3.2.7 ", "3.3.2.7 "],
            "UPDATE order_line SET ol_delivery_d = NULL \
             WHERE ol_d_id = 6 AND ol_o_id = 3 AND ol_number = 1",
            "UPDATE order_line SET ol_delivery_d = localtimestamp \
             WHERE ol_d_id = 6 AND ol_o_id = 3 AND ol_number = 1",
        ),
        (
            ["3.3.2.10 ", "3.3.2.12 "],
            "UPDATE customer SET c_balance = c_balance + 0.01 WHERE c_d_id = 7 AND c_id = 5",
            "UPDATE customer SET c_balance = c_balance - 0.01 WHERE c_d_id = 7 AND c_id = 5",
        ),
        (
            ["3.3.2.11 ", "committed new orders "],
            "INSERT INTO orders (o_w_id, o_d_id, o_id, o_c_id, o_carrier_id, o_ol_cnt) \
             VALUES (1, 8, -1, 1, 1, 0)",
            "DELETE FROM orders WHERE o_d_id = 8 AND o_id = -1",
        ),
        (
            ["committed payments ", "committed payments "],
            "INSERT INTO history (h_c_w_id, h_c_d_id, h_c_id, h_w_id, h_d_id, h_amount) \
             VALUES (1, 9, 1, 1, 9, 0)",
            "DELETE FROM history WHERE h_d_id = 9 AND h_amount = 0",
        ),
    ] {
        let broken = corrupt(&tpcc, &database, sql, undo);
        for name in names {
            assert!(broken.contains(name), "{name} after {sql}: {broken}");
        }
    }
}
