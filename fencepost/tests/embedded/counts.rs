//! The counters of sessions and the conflicts of statements, as the statistics views show them.

use std::thread;

use fencepost::{BlockingSession, Database, SqlState};

fn database() -> Database {
    let db = Database::in_memory().expect("a database");
    let schema = "CREATE TABLE t (k int PRIMARY KEY, x int NOT NULL);
        INSERT INTO t SELECT g, 0 FROM generate_series(1, 4) g";
    db.blocking().batch(schema).expect("the schema");
    db
}

fn run(session: &mut BlockingSession, sql: &str) {
    if let Err(error) = session.batch(sql) {
        panic!("{sql}: {error}");
    }
}

fn number(session: &mut BlockingSession, sql: &str) -> i64 {
    let row = session.query_one(sql, &[]).expect("a row");
    row.get(0).expect("a number")
}

#[test]
fn conflict_counts_name_statements_and_table() {
    let db = database();
    let (mut first, mut second, mut looks) = (db.blocking(), db.blocking(), db.blocking());
    run(
        &mut first,
        "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT x FROM t WHERE k = 1",
    );
    run(&mut second, "UPDATE t SET x = x + 1 WHERE k = 1");
    let late = first
        .batch("UPDATE t SET x = x + 10 WHERE k = 2; COMMIT")
        .expect_err("what it read has changed");
    assert_eq!(late.code(), SqlState::SERIALIZATION_FAILURE);
    let sql = "SELECT relname, kind, query, winner, conflicts, reported FROM pg_stat_conflicts";
    let rows = looks.query(sql, &[]).expect("rows");
    assert_eq!(rows.len(), 1);
    let text = |at: usize| rows[0].get::<String>(at).expect("a text");
    assert_eq!(text(0), "t");
    assert_eq!(text(2), "COMMIT");
    assert!(text(3).starts_with("UPDATE t SET x = x +"), "{}", text(3));
    assert_eq!(rows[0].get::<i64>("conflicts").expect("a number"), 1);
    assert_eq!(rows[0].get::<i64>("reported").expect("a number"), 1);
    run(&mut looks, "SELECT pg_stat_reset()");
    assert!(looks.query(sql, &[]).expect("rows").is_empty());
}

#[test]
fn hidden_retry_is_counted_as_one_transaction() {
    let db = database();
    let mut looks = db.blocking();
    let commits = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()";
    let rollbacks = "SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()";
    let before = (number(&mut looks, commits), number(&mut looks, rollbacks));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let mut session = db.blocking();
            thread::spawn(move || {
                for _ in 0..100 {
                    run(&mut session, "UPDATE t SET x = x + 1 WHERE k = 1");
                }
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|one| one.join().expect("no panic"));
    // The previous query of `looks` has committed, too; the current one has not ended yet.
    let after = (number(&mut looks, commits), number(&mut looks, rollbacks));
    assert_eq!(after, (before.0 + 402, before.1));
    let reported = "SELECT coalesce(sum(reported), 0)::bigint FROM pg_stat_conflicts";
    assert_eq!(number(&mut looks, reported), 0);
    let others = "SELECT count(*) FROM pg_stat_conflicts WHERE relname <> 't'";
    assert_eq!(number(&mut looks, others), 0);
    let changed = "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 't'";
    assert!(number(&mut looks, changed) >= 400);
}

#[test]
fn counts_outlast_sessions_and_are_begun_anew() {
    let db = database();
    let mut looks = db.blocking();
    for _ in 0..3 {
        run(&mut db.blocking(), "SELECT x FROM t WHERE k = 3");
    }
    let scans = "SELECT idx_scan FROM pg_stat_user_indexes WHERE relname = 't'";
    let sessions = "SELECT sessions FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(number(&mut looks, scans), 3);
    assert_eq!(number(&mut looks, sessions), 5);
    run(
        &mut looks,
        "SELECT pg_stat_reset_single_table_counters('t_pkey'::regclass)",
    );
    assert_eq!(number(&mut looks, scans), 0);
    let put = "SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 't'";
    assert_eq!(number(&mut looks, put), 4);
    run(&mut looks, "SELECT pg_stat_reset()");
    assert_eq!(number(&mut looks, put), 0);
    let reset = "SELECT count(stats_reset) FROM pg_stat_database";
    assert_eq!(number(&mut looks, reset), 1);
}

#[test]
fn row_lock_waiter_is_shown_with_its_holder() {
    let db = database();
    let (mut first, mut looks) = (db.blocking(), db.blocking());
    run(&mut first, "BEGIN; UPDATE t SET x = 5 WHERE k = 1");
    let holder = number(&mut first, "SELECT pg_backend_pid()::bigint");
    let mut second = db.blocking();
    let waiter = number(&mut second, "SELECT pg_backend_pid()::bigint");
    let waits = thread::spawn(move || run(&mut second, "UPDATE t SET x = x + 1 WHERE k = 1"));
    let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'tuple' AND NOT granted";
    while number(&mut looks, waiting) == 0 {
        assert!(!waits.is_finished(), "it did not wait");
        thread::yield_now();
    }
    let pair = "SELECT w.pid::bigint * 1000000 + h.pid FROM pg_locks w JOIN pg_locks h
        ON h.locktype = w.locktype AND h.relation = w.relation AND h.page = w.page \
          AND h.objid = w.objid
        WHERE NOT w.granted AND h.granted AND w.relation = 't'::regclass \
          AND w.waitstart IS NOT NULL";
    assert_eq!(number(&mut looks, pair), waiter * 1_000_000 + holder);
    let blocking = format!("SELECT (pg_blocking_pids({waiter}))[1]::bigint");
    assert_eq!(number(&mut looks, &blocking), holder);
    let none = format!("SELECT cardinality(pg_blocking_pids({holder}))::bigint");
    assert_eq!(number(&mut looks, &none), 0);
    let state = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE pid = {waiter} AND wait_event_type = 'Lock' \
         AND wait_event = 'tuple'"
    );
    assert_eq!(number(&mut looks, &state), 1);
    let tables = format!(
        "SELECT count(*) FROM pg_locks WHERE pid = {holder} AND relation = 't'::regclass \
         AND locktype = 'relation'"
    );
    run(&mut first, "SELECT x FROM t WHERE k = 2");
    assert_eq!(number(&mut looks, &tables), 1);
    run(&mut first, "COMMIT");
    waits.join().expect("no panic");
    let left = "SELECT count(*) FROM pg_locks WHERE locktype = 'tuple'";
    assert_eq!(number(&mut looks, left), 0);
}

#[test]
fn relation_size_grows_with_its_rows() {
    let db = database();
    let mut looks = db.blocking();
    run(
        &mut looks,
        "CREATE TABLE u (k int PRIMARY KEY, v text, h int UNIQUE); CREATE TABLE b (v text)",
    );
    let table = "SELECT pg_table_size('u')";
    let all = "SELECT pg_total_relation_size('u')";
    let database = "SELECT pg_database_size(current_database())";
    assert_eq!(number(&mut looks, table), 0);
    let before = (number(&mut looks, all), number(&mut looks, database));
    let fill = "SELECT g, repeat('x', 1000), g FROM generate_series(1, 2000) g";
    run(&mut looks, &format!("INSERT INTO u {fill}"));
    run(&mut looks, "INSERT INTO b SELECT v FROM u");
    let taken = number(&mut looks, table);
    assert!((2_000_000..3_000_000).contains(&taken), "{taken}");
    let heap = number(&mut looks, "SELECT pg_relation_size('b')");
    assert!((2_000_000..3_000_000).contains(&heap), "{heap}");
    assert!(number(&mut looks, all) > before.0 + taken);
    assert!(number(&mut looks, database) > before.1 + taken + heap);
}
