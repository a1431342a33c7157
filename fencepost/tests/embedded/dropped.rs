//! DROP TABLE and TRUNCATE take constant time, and the memory is freed later: also after a restart,
//! never under a reader, and in full.

use std::thread::sleep;
use std::time::{Duration, Instant};

use fencepost::{BlockingSession, Database, SqlState};

const ROWS: i64 = 20_000;
/// Takes a snapshot, without a lock on the table that is dropped.
const READER: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM other";
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Creates a table with a secondary index of each kind and some long rows.
fn fill(session: &mut BlockingSession) {
    session
        .batch(
            "CREATE TABLE t (a int PRIMARY KEY, b int, c text, UNIQUE (b, a));
             CREATE INDEX t_b ON t (b);
             CREATE INDEX t_hash ON t USING hash (a)",
        )
        .expect("a table");
    let rows = format!(
        "INSERT INTO t SELECT g, g % 10,
             g || repeat('x', CASE g % 1000 WHEN 0 THEN 50000 ELSE 3 END)
         FROM generate_series(1, {ROWS}) g"
    );
    session.execute(&rows, &[]).expect("rows");
}

fn number(session: &mut BlockingSession, sql: &str) -> i64 {
    let row = session.query_one(sql, &[]).expect("a row");
    row.get::<i64>(0).expect("a number")
}

/// Returns the number of allocated objects, after a check that finds no problem.
fn sound_objects(db: &Database) -> u64 {
    let report = fencepost::check(db);
    assert_eq!(report.problems, Vec::<String>::new());
    report.objects
}

/// Waits until there are at most `objects`. The catalog itself may have become smaller.
fn await_objects(db: &Database, objects: u64) {
    let until = Instant::now() + TIME_LIMIT;
    loop {
        let now = sound_objects(db);
        if now <= objects {
            return;
        }
        assert!(Instant::now() < until, "{now} objects, not {objects}");
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn dropped_table_is_freed_in_full() {
    let db = Database::in_memory().expect("a database");
    let mut session = db.blocking();
    session
        .batch("CREATE TABLE other (a int)")
        .expect("a table");
    let before = sound_objects(&db);
    for round in 0..2 {
        fill(&mut session);
        let ends = match round {
            0 => "DROP TABLE t",
            _ => {
                "BEGIN; TRUNCATE t; INSERT INTO t VALUES (1, 1, '1'); TRUNCATE t;
                 DROP TABLE t; COMMIT"
            }
        };
        session.batch(ends).expect("a drop");
        session
            .batch("VACUUM")
            .expect("VACUUM waits for the memory");
        // VACUUM does not wait for readers, and this session has just ended its own transaction.
        await_objects(&db, before);
    }
}

#[test]
fn indexes_and_old_rows_are_freed_in_full() {
    let db = Database::in_memory().expect("a database");
    let mut session = db.blocking();
    fill(&mut session);
    session.batch("DROP INDEX t_b, t_hash").expect("drops");
    session.batch("VACUUM").expect("VACUUM");
    session
        .batch("ALTER TABLE t ALTER b TYPE bigint USING b + 1")
        .expect("rewrites");
    assert_eq!(number(&mut session, "SELECT count(*) FROM t"), ROWS);
    session.batch("DROP TABLE t").expect("a drop");
    let empty = Database::in_memory().expect("a database");
    await_objects(&db, sound_objects(&empty));
}

#[test]
fn rolled_back_drop_keeps_rows() {
    let db = Database::in_memory().expect("a database");
    let mut session = db.blocking();
    fill(&mut session);
    for ends in ["DROP TABLE t", "TRUNCATE t", "DROP INDEX t_b"] {
        let block =
            format!("BEGIN; {ends}; ROLLBACK; BEGIN; SAVEPOINT s; {ends}; ROLLBACK TO s; COMMIT");
        session.batch(&block).expect("a rollback");
        assert_eq!(
            number(&mut session, "SELECT count(*) FROM t"),
            ROWS,
            "{ends}"
        );
        let by_index = "SELECT count(*) FROM t WHERE b = 3";
        assert_eq!(number(&mut session, by_index), ROWS / 10, "{ends}");
    }
    sound_objects(&db);
}

#[test]
fn older_snapshot_keeps_truncated_rows_until_its_end() {
    let db = Database::in_memory().expect("a database");
    let (mut session, mut reader) = (db.blocking(), db.blocking());
    fill(&mut session);
    session
        .batch("CREATE TABLE other (a int)")
        .expect("a table");
    reader.batch(READER).expect("a snapshot");
    let full = sound_objects(&db);
    session.batch("TRUNCATE t").expect("a truncate");
    session.batch("VACUUM").expect("VACUUM");
    sleep(Duration::from_millis(50));
    assert_eq!(number(&mut session, "SELECT count(*) FROM t"), 0);
    assert!(sound_objects(&db) >= full, "the snapshot keeps the rows");
    reader.batch("COMMIT").expect("the end of the reader");
    await_objects(&db, full - ROWS as u64);
}

#[test]
fn dropped_table_is_freed_after_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = || Database::open(folder.path()).expect("a database");
    let db = open();
    let (mut session, mut reader) = (db.blocking(), db.blocking());
    session
        .batch("CREATE TABLE other (a int)")
        .expect("a table");
    let before = sound_objects(&db);
    fill(&mut session);
    reader.batch(READER).expect("a reader");
    session.batch("DROP TABLE t").expect("a drop");
    assert!(sound_objects(&db) > before, "the reader keeps the table");
    drop((session, reader));
    db.close().expect("closes");
    await_objects(&open(), before);
}

#[test]
fn full_memory_waits_for_dropped_table() {
    let db = Database::options()
        .memory_limit(64 << 20)
        .open()
        .expect("a database");
    let mut session = db.blocking();
    for _ in 0..6 {
        session
            .batch("CREATE TABLE t (a int PRIMARY KEY, b text)")
            .expect("a table");
        let rows = "INSERT INTO t SELECT g, repeat('x', 1000) FROM generate_series(1, 30000) g";
        session
            .execute(rows, &[])
            .expect("the memory is there again");
        session.batch("DROP TABLE t").expect("a drop");
    }
    session
        .batch("CREATE TABLE t (a int PRIMARY KEY, b text)")
        .expect("a table");
    let rows = "INSERT INTO t SELECT g, repeat('x', 1000) FROM generate_series(1, 300000) g";
    let error = session.execute(rows, &[]).expect_err("too many rows");
    assert_eq!(error.code(), SqlState::OUT_OF_MEMORY);
}
