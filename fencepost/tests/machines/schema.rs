//! Constraints, sequences, views and ALTER TABLE, each on another machine than the one before.

use std::collections::HashSet;
use std::thread;

use fencepost::{Database, Error, SqlState, params};

use crate::between::{Interconnect, until};

/// Runs a statement, once its machine knows the objects. Over a busy network it may learn of them
/// late.
fn run(db: &Database, sql: &str) -> Result<u64, Error> {
    let mut done = Ok(0);
    until(|| {
        done = db.blocking().execute(sql, &[]);
        let unknown = [SqlState::UNDEFINED_TABLE, SqlState::UNDEFINED_COLUMN];
        !matches!(&done, Err(error) if unknown.contains(&error.code()))
    });
    done
}

fn state(result: Result<u64, Error>) -> String {
    match result {
        Ok(_) => "00000".to_owned(),
        Err(error) => error.code().to_string(),
    }
}

fn number(db: &Database, sql: &str) -> i64 {
    run(db, sql).expect("a query");
    let row = db.blocking().query_one(sql, &[]).expect("a row");
    row.get("n").expect("a number")
}

#[test]
fn definitions_count_on_all_machines() {
    for between in [Interconnect::memory(), Interconnect::network(41)] {
        let machines = between.machines(3);
        let [one, two, three] = &machines[..] else {
            panic!("three machines");
        };
        references(one, two, three);
        definitions(one, two, three);
        upserts(&machines);
        sequences(&machines);
    }
}

fn references(one: &Database, two: &Database, three: &Database) {
    let schema = "CREATE TABLE parent (id int PRIMARY KEY, v int);
        CREATE TABLE child (id int PRIMARY KEY, v int CHECK (v > 0),
            parent int REFERENCES parent ON DELETE CASCADE DEFERRABLE)";
    one.blocking().batch(schema).expect("the schema");
    assert_eq!(
        state(run(two, "INSERT INTO child VALUES (1, 1, 1)")),
        "23503"
    );
    run(three, "INSERT INTO parent VALUES (1), (2)").expect("parents");
    run(two, "INSERT INTO child VALUES (1, 1, 1), (2, 2, 2)").expect("children");
    assert_eq!(
        state(run(three, "INSERT INTO child VALUES (3, 0, 1)")),
        "23514"
    );
    let mut session = two.blocking();
    session.execute("BEGIN", &[]).expect("a block");
    let later = "SET CONSTRAINTS ALL DEFERRED";
    session.execute(later, &[]).expect("deferred");
    let insert = "INSERT INTO child VALUES (4, 4, 4)";
    session.execute(insert, &[]).expect("checked later");
    assert_eq!(state(session.execute("COMMIT", &[])), "23503");
    run(one, "DELETE FROM parent WHERE id = 1").expect("a parent");
    assert_eq!(number(three, "SELECT count(*) AS n FROM child"), 1);
    // One machine deletes a parent, while a transaction of another machine adds a child of it.
    session.execute("BEGIN", &[]).expect("a block");
    let insert = "INSERT INTO child VALUES (5, 5, 2)";
    session.execute(insert, &[]).expect("its parent is there");
    let delete = "DELETE FROM parent WHERE id = 2";
    let mut deleting = three.blocking();
    deleting.batch("SET lock_timeout = '100ms'").expect("set");
    assert_eq!(state(deleting.execute(delete, &[])), "55P03");
    session.execute("COMMIT", &[]).expect("a commit");
    assert_eq!(state(deleting.execute(delete, &[])), "00000");
    assert_eq!(number(two, "SELECT count(*) AS n FROM child"), 0);
    let orphans = "SELECT count(*) AS n FROM child LEFT JOIN parent ON parent = parent.id
        WHERE parent.id IS NULL";
    assert_eq!(number(one, orphans), 0);
}

fn definitions(one: &Database, two: &Database, three: &Database) {
    run(one, "CREATE TABLE t (id int PRIMARY KEY, v int)").expect("a table");
    run(two, "INSERT INTO t VALUES (1, 1), (2, 2)").expect("rows");
    run(
        three,
        "CREATE VIEW seen AS SELECT id AS n FROM t WHERE v > 1",
    )
    .expect("a view");
    assert_eq!(number(one, "SELECT n FROM seen"), 2);
    run(two, "ALTER TABLE t ADD COLUMN w int NOT NULL DEFAULT 7").expect("a column");
    assert_eq!(number(three, "SELECT sum(w) AS n FROM t"), 14);
    run(one, "INSERT INTO t VALUES (3, 3, 3)").expect("a row");
    assert_eq!(number(two, "SELECT sum(w) AS n FROM t"), 17);
    let replaced = "CREATE OR REPLACE VIEW seen AS SELECT id AS n FROM t WHERE v = 1";
    run(two, replaced).expect("another view");
    assert_eq!(number(one, "SELECT n FROM seen"), 1);
    run(three, "ALTER TABLE t ALTER w TYPE bigint USING w * 10").expect("another type");
    assert_eq!(number(one, "SELECT sum(w)::bigint AS n FROM t"), 170);
    run(one, "CREATE UNIQUE INDEX ON t (v) WHERE w > 100").expect("an index");
    run(two, "UPDATE t SET w = 200 WHERE id = 1").expect("one of them");
    let twice = run(three, "UPDATE t SET w = 300, v = 1 WHERE id = 2");
    assert_eq!(state(twice), "23505");
    run(two, "DROP VIEW seen").expect("dropped");
    until(|| three.blocking().query("SELECT * FROM seen", &[]).is_err());
}

fn upserts(machines: &[Database]) {
    run(
        &machines[0],
        "CREATE TABLE hits (k int PRIMARY KEY, n bigint)",
    )
    .expect("a table");
    let upsert =
        "INSERT INTO hits VALUES ($1, 1) ON CONFLICT (k) DO UPDATE SET n = hits.n + excluded.n";
    thread::scope(|scope| {
        for db in machines {
            scope.spawn(move || {
                let mut session = db.blocking();
                for round in 0..20 {
                    let done = session.execute(upsert, params![round % 2]);
                    done.expect("an upsert");
                }
            });
        }
    });
    let sum = number(&machines[1], "SELECT sum(n)::bigint AS n FROM hits");
    assert_eq!(sum, 60);
}

fn sequences(machines: &[Database]) {
    run(&machines[2], "CREATE SEQUENCE s").expect("a sequence");
    let mut drawn = HashSet::new();
    thread::scope(|scope| {
        let draw = |db: &Database| {
            number(db, "SELECT nextval('s') AS n");
            let mut session = db.blocking();
            let mut value = || {
                let row = session.query_one("SELECT nextval('s') AS n", &[]);
                row.expect("a value").get::<i64>("n").expect("a number")
            };
            (0..50).map(|_| value()).collect::<Vec<i64>>()
        };
        let drawing: Vec<_> = machines
            .iter()
            .map(|db| scope.spawn(move || draw(db)))
            .collect();
        for one in drawing {
            drawn.extend(one.join().expect("no panic"));
        }
    });
    assert_eq!(drawn.len(), 150);
}
