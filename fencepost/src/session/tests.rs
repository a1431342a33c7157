//! Tests of SES-4: the end of a transaction is reported after its reads are durable. The disk holds
//! its syncs back.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use fencepost_fabric::{Disk, DiskOp, HeldSyncs, SimDisk};
use fencepost_sql::catalog::{CatalogView, GuardScope, Guards, guard_table};
use fencepost_sql::error::SqlState;
use fencepost_sql::value::Value;
use fencepost_storage::log::LogOptions;
use fencepost_storage::{Addr, RegionId};
use fencepost_txn::{DurableStorage, MachineOptions, Mode};
use pollster::FutureExt;

use super::{Session, TxStatus};
use crate::database::Database;
use crate::error::Error;
use crate::options::FirstPassword;
use crate::prepared::Body;

/// Polls a future once.
fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Returns a database with a row whose last change is committed but not durable. The change becomes
/// durable when the returned guard is dropped.
fn with_a_change_in_flight() -> (Database, SimDisk, HeldSyncs) {
    let disk = SimDisk::new(1);
    let db = Database::start(
        MachineOptions {
            region_bytes: 16 << 20,
            durable: Some(DurableStorage {
                disk: Arc::new(disk.clone()) as Arc<dyn Disk>,
                log: LogOptions::default(),
                checkpoint_bytes: u64::MAX,
            }),
            ..MachineOptions::default()
        },
        None,
        &FirstPassword::default(),
        None,
    )
    .expect("a database");
    let schema = "CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t VALUES (1, 1), (2, 2)";
    db.blocking().batch(schema).expect("the schema");
    // A flush records the durability of the commits before the one that it serves.
    let later = "CREATE TABLE u (a int)";
    db.blocking().batch(later).expect("another flush");
    let held = disk.hold_syncs();
    let mut writer = db.blocking();
    let off = "SET synchronous_commit = off";
    writer.execute(off, &[]).expect("a setting");
    let change = "UPDATE t SET b = 0 WHERE a = 1";
    assert_eq!(writer.execute(change, &[]).expect("returns at once"), 1);
    (db, disk, held)
}

/// Runs `before`, whose end is reported at once, and then `last`, whose end waits until the change
/// is durable.
fn waits(before: &[&str], last: &str) -> Result<u64, Error> {
    let (db, _, held) = with_a_change_in_flight();
    let mut session = db.session();
    for sql in before {
        // Some of them fail, so that the block has failed.
        let mut done = pin!(session.execute(*sql, &[]));
        assert!(poll(done.as_mut()).is_ready(), "{sql}");
    }
    let mut done = pin!(session.execute(last, &[]));
    assert!(poll(done.as_mut()).is_pending(), "{last}");
    drop(held);
    done.block_on()
}

fn state(result: Result<u64, Error>) -> SqlState {
    result.expect_err("it fails").code()
}

const SEE: &str = "SELECT b FROM t WHERE a = 1";

#[test]
fn rollback_waits_until_reads_are_durable() {
    waits(&["BEGIN", SEE], "ROLLBACK").expect("rolled back");
    waits(&["BEGIN", SEE], "COMMIT").expect("committed");
    // The wait is the same if the session changed the row itself, or if the block failed or was
    // closed by COMMIT.
    let change = "UPDATE t SET b = 5 WHERE a = 1";
    waits(&["BEGIN", change], "ROLLBACK").expect("rolled back");
    let broken = "SELECT 1 / b FROM t WHERE a = 1";
    waits(&["BEGIN", broken], "ROLLBACK").expect("rolled back");
    waits(&["BEGIN", broken], "COMMIT").expect("rolled back");
}

#[test]
fn error_waits_until_its_reads_are_durable() {
    let zero = waits(&[], "SELECT 1 / b FROM t WHERE a = 1");
    assert_eq!(state(zero), SqlState::DIVISION_BY_ZERO);
    let (db, _, held) = with_a_change_in_flight();
    let mut writer = db.blocking();
    let off = "SET synchronous_commit = off";
    writer.execute(off, &[]).expect("a setting");
    let insert = "INSERT INTO t VALUES (3, 3)";
    writer.execute(insert, &[]).expect("returns at once");
    let mut session = db.session();
    let mut twice = pin!(session.execute(insert, &[]));
    assert!(poll(twice.as_mut()).is_pending());
    drop(held);
    assert_eq!(state(twice.block_on()), SqlState::UNIQUE_VIOLATION);
}

#[test]
fn error_outside_execute_waits_at_sync() {
    let (db, _, held) = with_a_change_in_flight();
    let mut session = db.session();
    let prepared = session.parse(SEE, &[]).expect("it binds");
    let mut portal = session.bind(&prepared, Vec::new()).expect("a portal");
    let mut sink = fencepost_planner::MemorySink::default();
    let run = poll(pin!(session.run(&mut portal, 0, &mut sink)));
    assert!(run.is_ready(), "the transaction goes on");
    assert!(session.parse("SELECT nothing", &[]).is_err());
    assert_eq!(session.status(), TxStatus::Idle);
    let mut sync = pin!(session.sync());
    assert!(poll(sync.as_mut()).is_pending());
    drop(held);
    sync.block_on().expect("durable");
}

#[test]
fn session_without_synchronous_commit_does_not_wait() {
    let (db, _, held) = with_a_change_in_flight();
    let returns_at_once = |session: &mut Session, sql: &str| {
        assert!(poll(pin!(session.execute(sql, &[]))).is_ready(), "{sql}");
    };
    let mut session = db.session();
    returns_at_once(&mut session, "SET synchronous_commit = off");
    for sql in ["BEGIN", SEE, "ROLLBACK", "SELECT 1 / b FROM t WHERE a = 1"] {
        returns_at_once(&mut session, sql);
    }
    // A session that has read no new data does not wait either.
    returns_at_once(&mut session, "SET synchronous_commit = on");
    for sql in ["BEGIN", "SELECT b FROM t WHERE a = 2", "ROLLBACK"] {
        returns_at_once(&mut session, sql);
    }
    drop(held);
}

#[test]
fn undurable_result_is_not_reported() {
    let (db, disk, held) = with_a_change_in_flight();
    let mut session = db.session();
    let sql = "SELECT 1 / b FROM t WHERE a = 1";
    let mut failed = pin!(session.execute(sql, &[]));
    assert!(poll(failed.as_mut()).is_pending());
    // The log may be allocating more space meanwhile.
    disk.fail_nth(DiskOp::SyncData, 1);
    drop(held);
    assert_eq!(state(failed.block_on()), SqlState::IO_ERROR);
}

#[test]
fn table_with_freed_memory_is_looked_up_again() {
    let db = Database::in_memory().expect("a database");
    let create = "CREATE TABLE t (a int PRIMARY KEY)";
    db.blocking().batch(create).expect("a table");
    let table = db.catalog().newest().table(None, "t");
    let table = table.expect("readable").expect("is there");
    let mut tx = db.machine().coordinator().begin(Mode::ReadOnly);
    let mut dropped = (*table).clone();
    assert_eq!(
        guard_table(&mut tx, &dropped, GuardScope::Commit)
            .block_on()
            .ok(),
        Some(true)
    );
    // The block of this address is not in use any more.
    let nothing = Addr::new(RegionId(0), 900 << 20).raw();
    dropped.guards = Guards::at([nothing]).expect("one");
    assert_eq!(
        guard_table(&mut tx, &dropped, GuardScope::Commit)
            .block_on()
            .ok(),
        Some(false)
    );
}

/// Returns the partition that a statement's data is in.
fn home(session: &mut Session, sql: &str, params: &[Value]) -> Option<u32> {
    let prepared = session.parse(sql, &[]).expect(sql);
    let Body::Plan(plan, _) = &prepared.planned.body else {
        panic!("{sql}: no plan");
    };
    plan.home(params).map(|home| home.partition)
}

#[test]
fn statement_home_is_where_all_its_keys_are() {
    let db = Database::in_memory().expect("a database");
    db.blocking()
        .batch(
            "CREATE TABLE t (a int, b int, c text, PRIMARY KEY (a, b)) PARTITION BY HASH (a) \
             WITH (partitions = 16);
             CREATE TABLE u (a int NOT NULL, d int) PARTITION BY HASH (a) WITH (colocate_with = t);
             CREATE INDEX u_a ON u (a, d);
             CREATE TABLE w (a int PRIMARY KEY, b int) PARTITION BY HASH (a) WITH (partitions = 16);
             CREATE TABLE g (a int PRIMARY KEY, b int) PARTITION BY HASH (a) WITH (partitions = 16);
             CREATE INDEX g_b ON g (b);
             CREATE TABLE p (a int PRIMARY KEY, b int)",
        )
        .expect("the schema");
    let mut session = db.session();
    let at_home = [
        "SELECT * FROM t WHERE a = $1",
        "SELECT * FROM t WHERE a = $1::bigint AND b > 2 ORDER BY c",
        "SELECT * FROM t JOIN u ON u.a = t.a WHERE t.a = $1 AND t.b = 5",
        "SELECT * FROM (SELECT b FROM t WHERE a = $1) q JOIN u ON u.a = $1",
        "SELECT * FROM g WHERE a = $1",
        "INSERT INTO t VALUES ($1, 1, 'x'), ($1, 2, 'y')",
        "INSERT INTO u SELECT a, b FROM t WHERE a = $1",
        "UPDATE t SET c = 'x', b = b + 1 WHERE a = $1",
        "DELETE FROM t WHERE a = $1 AND b = 2",
    ];
    let zero = [Value::Int4(0)];
    for sql in at_home {
        assert_eq!(home(&mut session, sql, &zero), Some(12), "{sql}");
        assert_eq!(home(&mut session, sql, &[Value::Null]), None, "{sql}");
    }
    let anywhere = [
        "SELECT $1 + 1",
        "SELECT * FROM p WHERE a = $1",
        "SELECT * FROM t WHERE b = $1",
        "SELECT * FROM t WHERE a > $1",
        "SELECT * FROM t WHERE a IN ($1, 1)",
        "SELECT * FROM g WHERE b = $1",
        "SELECT * FROM t JOIN w ON w.a = t.a WHERE t.a = $1",
        "SELECT * FROM t JOIN p ON p.a = t.a WHERE t.a = $1",
        "SELECT * FROM t JOIN u ON u.a = t.b WHERE t.a = $1",
        "INSERT INTO t VALUES ($1 + 1, 1, 'x')",
        "INSERT INTO g VALUES ($1, 1)",
        "INSERT INTO u SELECT b, a FROM t WHERE a = $1",
        "UPDATE t SET a = a + 1 WHERE a = $1",
        "UPDATE g SET b = 1 WHERE a = $1",
        "DELETE FROM t WHERE b = $1",
    ];
    for sql in anywhere {
        assert_eq!(home(&mut session, sql, &zero), None, "{sql}");
    }
    let constant = "SELECT * FROM t WHERE a = 0 FOR UPDATE";
    assert_eq!(home(&mut session, constant, &[]), Some(12));
    let two = "INSERT INTO t VALUES ($1, 1, 'x'), ($2, 2, 'y')";
    let values = [Value::Int4(0), Value::Int4(-5)];
    assert_eq!(home(&mut session, two, &values), None);
    let values = [Value::Int4(-5), Value::Int4(-5)];
    assert_eq!(home(&mut session, two, &values), Some(15));
}

#[test]
fn tracked_transactions_record_their_outcome() {
    let db = Database::in_memory().expect("a database");
    let mut session = db.blocking();
    for set_up in [
        "CREATE TABLE t (k int)",
        "SET fencepost.track_outcomes = on",
    ] {
        session.batch(set_up).expect("done");
    }
    for (sql, word) in [
        ("INSERT INTO t VALUES (1)", 1),
        ("SELECT * FROM t", 1),
        ("UPDATE t SET k = 3 WHERE k = 2", 1),
        ("BEGIN; DELETE FROM t; INSERT INTO t VALUES (2); COMMIT", 2),
        ("BEGIN; DELETE FROM t; ROLLBACK", 2),
    ] {
        session.batch(sql).expect("no conflict");
        let mut tx = db.machine().coordinator().begin(Mode::ReadOnly);
        let tree = db.catalog().outcomes().tree();
        let report = tree.check(&mut tx).block_on().expect("sound");
        assert_eq!(report.entries, word, "{sql}");
    }
}
