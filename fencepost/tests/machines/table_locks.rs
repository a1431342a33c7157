//! Table locks of sessions on several machines: LOCK TABLE, statements and DDL.

use std::thread;

use fencepost::{SqlState, params};

use crate::between::{Interconnect, number, until};

const WAITING: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'relation' AND NOT granted";

fn check_table_lock_waiter_sees_changes(between: &Interconnect) {
    let machines = between.machines(1);
    let mut sessions: Vec<_> = machines.iter().map(|db| db.blocking()).collect();
    let [first, second, third] = &mut sessions[..] else {
        panic!("three sessions");
    };
    first
        .batch("CREATE TABLE a (n int); CREATE TABLE b (n int); INSERT INTO a VALUES (0)")
        .expect("tables");
    first
        .batch("BEGIN; LOCK TABLE a IN EXCLUSIVE MODE; UPDATE a SET n = n + 1")
        .expect("no other session has locked the table");
    let refused = third.batch("BEGIN; LOCK TABLE a IN ROW EXCLUSIVE MODE NOWAIT");
    assert_eq!(
        refused.expect_err("another's").code(),
        SqlState::LOCK_NOT_AVAILABLE
    );
    third
        .batch("ROLLBACK; BEGIN; LOCK TABLE a IN ACCESS SHARE MODE; LOCK TABLE b IN EXCLUSIVE MODE")
        .expect("it goes together");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            second
                .batch("BEGIN; SELECT count(*) FROM b; LOCK TABLE a IN SHARE ROW EXCLUSIVE MODE")
                .expect("its turn");
            second
                .batch("UPDATE a SET n = n * 10; COMMIT")
                .expect("no conflict");
        });
        until(|| number(third, WAITING) == 1);
        first.batch("COMMIT").expect("no conflict");
        waiting.join().expect("no panic");
    });
    assert_eq!(number(first, "SELECT n::bigint FROM a"), 10);
    // Each session holds one table lock and wants the other's.
    first
        .batch("BEGIN; LOCK TABLE a IN ROW EXCLUSIVE MODE")
        .expect("it goes together");
    thread::scope(|scope| {
        let other = scope.spawn(|| first.batch("LOCK TABLE b IN ROW EXCLUSIVE MODE"));
        until(|| number(second, WAITING) == 1);
        let closed = third.batch("LOCK TABLE a IN SHARE MODE");
        let error = closed.expect_err("a circle");
        assert_eq!(error.code(), SqlState::DEADLOCK_DETECTED, "{error}");
        third.batch("ROLLBACK").expect("its end");
        other.join().expect("no panic").expect("its turn");
    });
    let changed = first.execute("INSERT INTO b VALUES ($1)", params![1]);
    changed.expect("its table");
    first.batch("COMMIT").expect("no conflict");
    until(|| {
        number(
            third,
            "SELECT count(*) FROM pg_locks WHERE relation >= 16384",
        ) == 0
    });
}

#[test]
fn table_lock_waiter_sees_changes_over_shared_memory() {
    check_table_lock_waiter_sees_changes(&Interconnect::memory());
}

#[test]
fn table_lock_waiter_sees_changes_over_network() {
    check_table_lock_waiter_sees_changes(&Interconnect::network(59));
}

fn ddl_and_statements_wait_for_each_other(between: &Interconnect) {
    let machines = between.machines(1);
    let mut sessions: Vec<_> = machines.iter().map(|db| db.blocking()).collect();
    let [first, second, third] = &mut sessions[..] else {
        panic!("three sessions");
    };
    first
        .batch("CREATE TABLE t (k int PRIMARY KEY); INSERT INTO t VALUES (1)")
        .expect("a table");
    second
        .batch("BEGIN; SELECT count(*) FROM t")
        .expect("a reader");
    third
        .batch("BEGIN; INSERT INTO t VALUES (3)")
        .expect("a writer");
    thread::scope(|scope| {
        let ddl = scope.spawn(|| first.batch("ALTER TABLE t ADD COLUMN w int DEFAULT 7"));
        until(|| number(second, WAITING) == 1);
        second.batch("COMMIT").expect("the end of the reader");
        // The DDL still waits for the writer.
        let locked = "SELECT count(*) FROM pg_locks
            WHERE locktype = 'relation' AND granted AND mode = 'AccessExclusiveLock'";
        assert_eq!(number(second, locked), 0);
        third.batch("COMMIT").expect("the end of the writer");
        ddl.join().expect("no panic").expect("its turn");
    });
    assert_eq!(number(third, "SELECT count(*) FROM t WHERE w = 7"), 2);
    first
        .batch("BEGIN; ALTER TABLE t ALTER COLUMN w SET DEFAULT 8")
        .expect("no other uses it");
    thread::scope(|scope| {
        let insert = scope.spawn(|| second.batch("INSERT INTO t VALUES (4)"));
        until(|| number(third, WAITING) == 1);
        first.batch("COMMIT").expect("the end of the DDL");
        insert.join().expect("no panic").expect("its turn");
    });
    assert_eq!(number(third, "SELECT count(*) FROM t WHERE w = 8"), 1);
    // No session holds a lock any more.
    for session in sessions.iter_mut() {
        let alone = session.batch("BEGIN; LOCK TABLE t NOWAIT; ROLLBACK");
        alone.expect("no other has a lock");
    }
}

#[test]
fn ddl_and_statements_of_machines_that_share_memory_wait_for_each_other() {
    ddl_and_statements_wait_for_each_other(&Interconnect::memory());
}

#[test]
fn ddl_and_statements_of_machines_of_a_network_wait_for_each_other() {
    ddl_and_statements_wait_for_each_other(&Interconnect::network(61));
}
