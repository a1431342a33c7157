//! Rows longer than an object: they are stored in chunks, and leave nothing behind when they are
//! deleted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use fencepost::{CheckReport, Database, Error, SqlState, Value, check, params};
use pollster::FutureExt;

const MIB: usize = 1 << 20;

/// Returns text that differs at every position.
fn long(bytes: usize, seed: usize) -> String {
    let mut text = String::with_capacity(bytes + 16);
    let mut number = seed;
    while text.len() < bytes {
        number = number
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695);
        text.push_str(&(number >> 20).to_string());
    }
    text.truncate(bytes);
    text
}

fn memory() -> Database {
    let db = Database::in_memory().expect("a database");
    db.blocking()
        .batch("CREATE TABLE t (a int PRIMARY KEY, b text, c int)")
        .expect("a table");
    db
}

fn insert(db: &Database, a: i32, b: &str) -> Result<u64, Error> {
    let sql = "INSERT INTO t VALUES ($1, $2, 0)";
    db.blocking().execute(sql, params![a, b])
}

fn stored(db: &Database, a: i32) -> String {
    let row = db
        .blocking()
        .query_one("SELECT b FROM t WHERE a = $1", params![a])
        .expect("a row");
    row.get(0).expect("text")
}

/// Checks that the database is sound. Returns the number of its objects.
fn sound(db: &Database) -> u64 {
    let CheckReport {
        objects, problems, ..
    } = check(db);
    assert_eq!(problems, Vec::<String>::new());
    objects
}

#[test]
fn values_of_any_length_come_back() {
    let db = memory();
    let whole = 114_687 * 8 - 100;
    let sizes = [
        whole - 1000,
        whole,
        whole + 200,
        MIB,
        2 * whole,
        5 * MIB + 3,
        64 * MIB,
    ];
    for (a, size) in sizes.into_iter().enumerate() {
        let text = long(size, a);
        insert(&db, a as i32, &text).expect("it fits");
        assert!(stored(&db, a as i32) == text, "{size} bytes");
    }
    sound(&db);
    let mut session = db.blocking();
    let sql = "SELECT a, length(b) FROM t WHERE length(b) > 0 ORDER BY length(b)";
    let rows = session.query(sql, &[]).expect("a scan");
    let lengths: Vec<i32> = rows.iter().map(|r| r.get(1).expect("an int")).collect();
    assert_eq!(lengths, sizes.map(|size| size as i32));
    session
        .batch("CREATE INDEX t_c ON t (c); CREATE UNIQUE INDEX t_h ON t USING hash (a)")
        .expect("indexes over long rows");
    let rows = session.query("SELECT b FROM t WHERE c = 0", &[]);
    assert_eq!(rows.expect("by the index").len(), sizes.len());
    sound(&db);
}

#[test]
fn updates_and_deletes_leave_no_chunk_behind() {
    let db = memory();
    let mut session = db.blocking();
    insert(&db, 1, "short").expect("a row");
    insert(&db, 2, "short").expect("a row");
    let before = sound(&db);
    let set = "UPDATE t SET b = $2, c = c + 1 WHERE a = $1";
    for size in [3 * MIB, 10, 2 * MIB, 6 * MIB, 6 * MIB, MIB, 0] {
        let text = long(size, size);
        let count = session.execute(set, params![1, text.as_str()]);
        assert_eq!(count.expect("an update"), 1);
        assert!(stored(&db, 1) == text, "{size} bytes");
        sound(&db);
    }
    let (one, two) = (long(4 * MIB, 1), long(5 * MIB, 2));
    session
        .execute(set, params![1, one.as_str()])
        .expect("long");
    session
        .execute(set, params![2, two.as_str()])
        .expect("long");
    let chunks = sound(&db);
    session
        .execute("UPDATE t SET c = 77", &[])
        .expect("another column");
    assert!(stored(&db, 1) == one && stored(&db, 2) == two);
    assert_eq!(sound(&db), chunks);
    session
        .batch(
            "BEGIN; UPDATE t SET b = b || b; SAVEPOINT s; DELETE FROM t WHERE a = 1;
             UPDATE t SET b = 'x'; ROLLBACK TO s; UPDATE t SET b = b || 'y' WHERE a = 1; ROLLBACK",
        )
        .expect("a rollback");
    assert!(stored(&db, 1) == one && stored(&db, 2) == two);
    assert_eq!(sound(&db), chunks);
    session
        .batch(
            "BEGIN; UPDATE t SET b = b || b WHERE a = 1; SAVEPOINT s; DELETE FROM t; ROLLBACK TO s;
             UPDATE t SET b = b || 'y' WHERE a = 1; COMMIT",
        )
        .expect("a commit");
    assert!(stored(&db, 1) == format!("{one}{one}y"));
    sound(&db);
    session
        .execute("DELETE FROM t WHERE a = 1", &[])
        .expect("a point");
    session
        .execute("DELETE FROM t WHERE c = 77", &[])
        .expect("a scan");
    assert_eq!(sound(&db), before - 2);
}

#[test]
fn columns_that_the_first_chunk_has_are_read_from_there() {
    let db = memory();
    let mut session = db.blocking();
    session
        .batch("CREATE TABLE w (a text, b text, c text, d int)")
        .expect("a table");
    let (a, b) = (long(500_000, 1), long(3 * MIB, 2));
    let sql = "INSERT INTO w VALUES ($1, $2, $3, 4), (NULL, $2, NULL, NULL)";
    let values = params![a.as_str(), b.as_str(), "end"];
    session.execute(sql, values).expect("rows");
    for (wanted, first) in [
        ("d", "4"),
        ("length(a)", "500000"),
        ("length(b) + d", "3145732"),
        ("c", "end"),
    ] {
        let sql = format!("SELECT ({wanted})::text FROM w ORDER BY d NULLS LAST");
        let found = session.query(sql.as_str(), &[]).expect("rows");
        let found: Vec<Option<String>> =
            found.iter().map(|row| row.get(0).expect("text")).collect();
        assert_eq!(found, [Some(first.to_owned()), None], "{wanted}");
    }
    let count = session.query_one("SELECT count(*) FROM w", &[]);
    assert_eq!(count.expect("a row").get::<i64>(0).expect("a count"), 2);
    let deleted = session.execute("DELETE FROM w WHERE c IS NULL", &[]);
    assert_eq!(deleted.expect("a row"), 1);
    sound(&db);
}

#[test]
fn lost_chunk_is_reported() {
    let db = memory();
    insert(&db, 1, &long(3 * MIB, 1)).expect("a row");
    let regions = db.machine().regions();
    let chunk = regions
        .blocks()
        .into_iter()
        .flat_map(|(block, class)| (0..class.slots()).map(move |slot| block.slot(class, slot)))
        .find(|addr| {
            let object = regions.object(*addr);
            object.is_some_and(|o| o.header().is_allocated() && o.len() > 100_000)
        })
        .expect("a chunk");
    async {
        let mut tx = db.machine().system_transaction();
        tx.free(chunk).await?;
        tx.commit().await
    }
    .block_on()
    .expect("the chunk goes");
    let problems = check(&db).problems;
    let reports = |what: &str| problems.iter().any(|problem| problem.contains(what));
    assert!(
        reports("is not whole in memory") && reports("is not allocated"),
        "{problems:?}"
    );
    let lost = db.blocking().query("SELECT b FROM t WHERE a = 1", &[]);
    let lost = lost.expect_err("it cannot be read");
    assert_eq!(lost.code().as_str(), "XX001");
}

#[test]
fn dropped_table_frees_its_chunks() {
    let db = memory();
    let empty = sound(&db);
    for a in 0..4 {
        insert(&db, a, &long(3 * MIB, a as usize)).expect("a row");
    }
    db.blocking().execute("TRUNCATE t", &[]).expect("truncate");
    assert_eq!(sound(&db), empty);
    for a in 0..4 {
        insert(&db, a, &long(3 * MIB, a as usize)).expect("a row");
    }
    db.blocking().execute("DROP TABLE t", &[]).expect("drop");
    assert!(sound(&db) < empty);
}

#[test]
fn snapshot_keeps_its_chunks() {
    let db = memory();
    let old = long(3 * MIB, 1);
    insert(&db, 1, &old).expect("a row");
    insert(&db, 2, &old).expect("a row");
    let mut reader = db.blocking();
    reader
        .batch("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT count(*) FROM t")
        .expect("a snapshot");
    let new = long(3 * MIB, 2);
    let mut writer = db.blocking();
    writer
        .execute("UPDATE t SET b = $1 WHERE a = 1", params![new.as_str()])
        .expect("an update");
    writer
        .execute("DELETE FROM t WHERE a = 2", &[])
        .expect("a delete");
    let rows = reader.query("SELECT b FROM t ORDER BY a", &[]);
    let rows: Vec<String> = rows
        .expect("both rows")
        .iter()
        .map(|row| row.get(0).expect("text"))
        .collect();
    assert!(rows == [old.clone(), old], "as they were");
    reader.batch("COMMIT").expect("the end");
    assert!(stored(&db, 1) == new);
    sound(&db);
}

#[test]
fn long_rows_survive_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = |a: i32| long(2 * MIB + a as usize, a as usize);
    {
        let db = Database::open(folder.path()).expect("a database");
        let mut session = db.blocking();
        session
            .batch("CREATE TABLE t (a int PRIMARY KEY, b text, c int)")
            .expect("a table");
        for a in 0..3 {
            insert(&db, a, &text(a)).expect("a row");
        }
        session.batch("CHECKPOINT").expect("a checkpoint");
        let set = "UPDATE t SET b = $2 WHERE a = $1";
        session
            .execute(set, params![1, text(10).as_str()])
            .expect("an update");
        session
            .execute("DELETE FROM t WHERE a = 2", &[])
            .expect("a delete");
        insert(&db, 3, &text(3)).expect("a row");
        insert(&db, 4, &long(64 * MIB, 4)).expect("a row");
    }
    let db = Database::open(folder.path()).expect("the database again");
    assert!(stored(&db, 0) == text(0));
    assert!(stored(&db, 1) == text(10));
    assert!(stored(&db, 3) == text(3));
    assert!(stored(&db, 4) == long(64 * MIB, 4));
    sound(&db);
}

#[test]
fn row_beyond_memory_limit_is_refused() {
    let options = Database::options().memory_limit(48 << 20);
    let db = options.open().expect("a database");
    db.blocking()
        .batch("CREATE TABLE t (a int PRIMARY KEY, b text, c int)")
        .expect("a table");
    insert(&db, 1, "short").expect("a row");
    let refused = insert(&db, 2, &long(64 * MIB, 2)).expect_err("over the limit");
    assert_eq!(refused.code(), SqlState::OUT_OF_MEMORY);
    assert_eq!(stored(&db, 1), "short");
    insert(&db, 3, &long(4 * MIB, 3)).expect("it fits");
    sound(&db);
    let rows = db.blocking().query("SELECT a, b FROM t ORDER BY a", &[]);
    assert_eq!(rows.expect("two rows").len(), 2);
    for a in 4..9 {
        insert(&db, a, &long(5 * MIB, 4)).expect("it fits");
    }
    let all = db.blocking().execute("UPDATE t SET c = 1", &[]);
    let all = all.expect_err("what is gathered counts");
    assert_eq!(all.code(), SqlState::OUT_OF_MEMORY);
    let one = "UPDATE t SET c = 1 WHERE a = 4";
    assert_eq!(db.blocking().execute(one, &[]).expect("it fits"), 1);
    sound(&db);
    let bytes = Value::Bytea(vec![7; 5 * MIB]);
    let length = db
        .blocking()
        .query_one("SELECT length($1::bytea)", &[bytes])
        .expect("a value");
    assert_eq!(length.get::<i32>(0).expect("an int"), 5 * MIB as i32);
}

#[test]
fn memory_of_old_chunks_is_reused() {
    let options = Database::options().memory_limit(96 << 20);
    let db = options.open().expect("a database");
    db.blocking()
        .batch("CREATE TABLE t (a int PRIMARY KEY, b text, c int)")
        .expect("a table");
    insert(&db, 1, "short").expect("a row");
    let mut session = db.blocking();
    for round in 0..60 {
        let text = long(4 * MIB + 5 * round, round);
        let sql = match round % 3 {
            0 => "UPDATE t SET b = $1",
            1 => "INSERT INTO t VALUES (2, $1)",
            _ => "DELETE FROM t WHERE a = 2 OR b = $1",
        };
        let changed = session.execute(sql, params![text.as_str()]);
        assert_eq!(changed.expect("there is memory"), 1, "round {round}");
    }
    sound(&db);
}

#[test]
fn readers_never_see_chunks_of_two_versions() {
    let db = memory();
    let text = |round: usize| char::from(b'a' + (round % 26) as u8).to_string();
    insert(&db, 1, &text(0).repeat(3 * MIB)).expect("a row");
    insert(&db, 2, "").expect("a row");
    let done = AtomicBool::new(false);
    let whole = |b: &str| b.len() == 3 * MIB && b.bytes().all(|c| c == b.as_bytes()[0]);
    thread::scope(|scope| {
        for write in [false, true] {
            let (db, done) = (&db, &done);
            scope.spawn(move || {
                let mut session = db.blocking();
                while !done.load(Ordering::Relaxed) {
                    let seen = session.transaction(|tx| {
                        if write {
                            tx.execute("UPDATE t SET c = c + 1 WHERE a = 2", &[])?;
                        }
                        tx.query_one("SELECT b FROM t WHERE a = 1", &[])?.get(0)
                    });
                    let seen: String = seen.expect("a row");
                    assert!(whole(&seen), "torn");
                }
            });
        }
        let mut session = db.blocking();
        for round in 1..60 {
            let sql = "UPDATE t SET b = repeat($1, 3145728) WHERE a = 1";
            let changed = session.execute(sql, params![text(round).as_str()]);
            assert_eq!(changed.expect("an update"), 1);
        }
        done.store(true, Ordering::Relaxed);
    });
    sound(&db);
}
