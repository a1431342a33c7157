//! The memory limit covers the rows that statements collect. A statement over the limit is refused,
//! the next one succeeds, and all counted memory is released.

use fencepost::{BlockingSession, Database, SqlState};

const ROWS: u32 = 30_000;

fn refused(session: &mut BlockingSession, sql: &str) {
    match session.query(sql, &[]) {
        Ok(rows) => panic!("{sql} gave {} rows", rows.len()),
        Err(error) => assert_eq!(error.code(), SqlState::OUT_OF_MEMORY, "{sql}"),
    }
}

#[test]
fn operators_stay_below_the_limit_or_write_temporary_files() {
    let db = Database::options()
        .memory_limit(24 << 20)
        .open()
        .expect("a database");
    let mut session = db.blocking();
    session
        .batch("CREATE TABLE t (a int PRIMARY KEY, b text)")
        .expect("a table");
    let fill = format!(
        "INSERT INTO t SELECT g, 'a text that is long enough to lie outside of the row itself ' || g
         FROM generate_series(1, {ROWS}) g"
    );
    session.execute(&fill, &[]).expect("rows");
    let before = db.machine().account().used();
    // The values of 700 letters add up to 20 MB.
    let wide = "b || repeat('x', 700)";
    let spilling = [
        format!("SELECT a FROM (SELECT a, {wide} AS w FROM t ORDER BY w DESC OFFSET 0) s"),
        format!("SELECT count(*) FROM t GROUP BY {wide}"),
        format!("SELECT length(w) FROM (SELECT DISTINCT {wide} AS w FROM t) s"),
        "SELECT x.a FROM t x, t y WHERE x.b || repeat('x', 700) = y.b || repeat('x', 700)"
            .to_owned(),
        format!("SELECT length(w) FROM (SELECT {wide} AS w FROM t UNION SELECT {wide} FROM t) s"),
        format!("SELECT length(b) FROM (SELECT b FROM t EXCEPT SELECT {wide} FROM t) s"),
    ];
    for sql in &spilling {
        let rows = session.query(sql, &[]).expect(sql).len();
        assert_eq!(rows, ROWS as usize, "{sql}");
        assert_eq!(db.machine().account().used(), before, "{sql}");
    }
    let statements = [
        format!("SELECT a, rank() OVER (ORDER BY w) FROM (SELECT a, {wide} AS w FROM t) s"),
        format!("WITH c AS (SELECT {wide} AS w FROM t) SELECT count(*) FROM c, c d LIMIT 1"),
        format!("SELECT count(*) FROM t WHERE b IN (SELECT {wide} FROM t)"),
        "WITH RECURSIVE r(n, w) AS (SELECT 1, repeat('x', 700)
           UNION SELECT n + 1, repeat('x', 700) || n FROM r WHERE n < 30000) SELECT count(*) FROM r"
            .to_owned(),
        format!("SELECT array_agg({wide}) FROM t"),
    ];
    for sql in &statements {
        refused(&mut session, sql);
        assert_eq!(db.machine().account().used(), before, "{sql}");
    }
    let few = "SELECT a, b FROM t ORDER BY b DESC LIMIT 3";
    assert_eq!(session.query(few, &[]).expect("a short sort").len(), 3);
    // A statement in a block also releases its memory.
    session.batch("BEGIN").expect("a block");
    for _ in 0..20 {
        let sorted = "SELECT a, b FROM t WHERE a < 15000 ORDER BY b";
        assert_eq!(session.query(sorted, &[]).expect("it fits").len(), 14_999);
    }
    session.batch("COMMIT").expect("a commit");
    assert_eq!(db.machine().account().used(), before);
}

#[test]
fn failed_statement_frees_its_collected_rows() {
    let db = Database::in_memory().expect("a database");
    let mut session = db.blocking();
    let schema = "CREATE TABLE t (a int PRIMARY KEY); BEGIN";
    session.batch(schema).expect("a block");
    let mut used = Vec::new();
    for _ in 0..4 {
        session.batch("SAVEPOINT s").expect("a savepoint");
        let twice = "INSERT INTO t SELECT g % 50000 FROM generate_series(1, 100000) g";
        let error = session.execute(twice, &[]).expect_err("keys come twice");
        assert_eq!(error.code(), SqlState::UNIQUE_VIOLATION);
        session.batch("ROLLBACK TO s").expect("back");
        used.push(db.machine().account().used());
    }
    assert_eq!(used[1], used[3], "{used:?}");
}

#[test]
fn reopened_database_uses_same_memory() {
    let directory = tempfile::tempdir().expect("a directory");
    let open = || {
        let options = Database::options().data_dir(directory.path());
        options.memory_limit(64 << 20).open().expect("a database")
    };
    let used = {
        let db = open();
        // Rows of many sizes, so that many blocks are allocated.
        let rows = "CREATE TABLE t (a int PRIMARY KEY, b text);
            INSERT INTO t SELECT g, repeat('x', g * 40) FROM generate_series(1, 100) g";
        db.blocking().batch(rows).expect("rows");
        db.machine().account().used()
    };
    let again = open();
    let used_again = again.machine().account().used();
    assert!(used_again <= used, "{used_again} of {used}");
}
