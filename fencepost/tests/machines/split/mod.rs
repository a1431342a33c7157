//! Statements whose parts run on several machines.

mod alone;
mod explain;
mod one_snapshot;
mod results;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use fencepost::{BlockingSession, Database, Row, SqlState, Value, params};
use fencepost_txn::network::{PostKind, Traffic};
use pollster::FutureExt;

use crate::between::{Interconnect, MACHINES, seen, shipping, staying, until};

const ROWS: i32 = 900;

fn over_both(test: u32, run: impl Fn(&[Database])) {
    for between in [Interconnect::memory(), Interconnect::network(test)] {
        run(&between.machines(2));
    }
}

/// Returns the number of parts that this machine has sent to others, and how many of them it ran
/// itself in the end.
fn parts(db: &Database) -> (u64, u64) {
    let counts = db.shipped();
    (counts.parts_sent, counts.parts_returned)
}

/// Creates a table of many types over all machines, an empty table, and one with few rows.
fn tables(machines: &[Database]) {
    let mut session = staying(&machines[1]);
    session
        .batch(
            "CREATE TABLE t (a int PRIMARY KEY, b int, c bigint, d numeric, e text, f timestamp, \
             g float8, h bool,
                 i date, j varchar(9), k char(3), l timestamptz)
                 PARTITION BY HASH (a) WITH (partitions = 7);
             CREATE INDEX t_ab ON t (a, b);
             CREATE INDEX t_l ON t (l);
             CREATE TABLE none (a int PRIMARY KEY, b int) PARTITION BY HASH (a) \
               WITH (partitions = 4);
             CREATE TABLE few (a int PRIMARY KEY, b int) PARTITION BY HASH (a) \
               WITH (partitions = 64, index = hash);
             CREATE TABLE plain (a int PRIMARY KEY, b int);
             INSERT INTO few VALUES (1, 1), (2, NULL), (3, 7);
             INSERT INTO plain VALUES (1, 1), (2, 5)",
        )
        .expect("tables");
    seen(machines);
    let insert = format!(
        "INSERT INTO t SELECT n, CASE WHEN n % 7 = 0 THEN NULL \
         ELSE n % 10 END, n * 3000000000, n * 1.25,
             'text ' || (n % 37), (date '2024-01-01' + n % 40)::timestamp, n * 0.5,
             CASE WHEN n % 5 = 0 THEN NULL ELSE n % 2 = 0 END, date '2024-01-01' + n % 20,
             CASE WHEN n % 3 = 0 THEN 'three' END, 'k' || n % 4, timestamptz '2024-05-05 00:00+00'
         FROM generate_series(1, {ROWS}) n"
    );
    session.execute(&insert, &[]).expect("rows");
}

fn values(rows: &[Row], ordered: bool) -> Vec<Vec<Value>> {
    let mut values: Vec<_> = rows.iter().map(|row| row.values().to_vec()).collect();
    if !ordered {
        values.sort_by_key(|row| format!("{row:?}"));
    }
    values
}

/// Checks that the results of a statement in both sessions are the same, and whether the first
/// session has split it.
fn same(
    (db, session): (&Database, &mut BlockingSession),
    local: &mut BlockingSession,
    (sql, given): (&str, &[Value]),
    splits: bool,
) -> Vec<Vec<Value>> {
    let before = parts(db);
    let rows = session.query(sql, given).expect(sql);
    let after = parts(db);
    assert_eq!(after.1, before.1, "nothing comes back undone: {sql}");
    assert_eq!(after.0 > before.0, splits, "{sql}");
    let ordered = sql.contains("ORDER BY");
    let expected = local.query(sql, given).expect(sql);
    if let (Some(row), Some(expected)) = (rows.first(), expected.first()) {
        assert_eq!(row.columns(), expected.columns(), "{sql}");
    }
    let rows = values(&rows, ordered);
    assert_eq!(rows, values(&expected, ordered), "{sql}");
    rows
}

/// Returns a session that splits statements. With shared memory that has to be requested; over a
/// network it is the default.
fn splitting(db: &Database) -> BlockingSession {
    match db.machine().maps_peers() {
        true => shipping(db),
        false => db.blocking(),
    }
}
