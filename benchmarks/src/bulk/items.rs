//! The tables and the items.

use std::fmt::Write;

use crate::compared::{ComparedItem, MeasuredWork};

/// The number of rows of one INSERT of the load.
const LOAD_ROWS: u64 = 100_000;
/// The number of executions of a short statement in one item.
const SHORT_EXECUTIONS: u64 = 200;
/// The number of ranges of `select_random_ranges`, and the width of each.
const RANGES: u64 = 10;
const RANGE_WIDTH: u64 = 5;
/// The rows of each multi-row INSERT, and the number of these statements.
const INSERTED_ROWS: u64 = 500;
const INSERTS: u64 = 40;

/// Returns the statements that create and fill the tables.
pub(super) fn load(rows: u64) -> Vec<String> {
    let mut all = vec![
        "DROP TABLE IF EXISTS big, one, changed, inserted, accounts".to_string(),
        "CREATE TABLE big (id int PRIMARY KEY, g int NOT NULL, v int NOT NULL, c text NOT NULL)"
            .to_string(),
    ];
    all.extend(fill("big", rows));
    all.extend([
        "CREATE INDEX big_v ON big (v)".to_string(),
        "CREATE TABLE one AS SELECT id FROM big WHERE id % 1000 = 0".to_string(),
        "VACUUM ANALYZE big".to_string(),
        "VACUUM ANALYZE one".to_string(),
    ]);
    all
}

/// Returns statements that fill a table with the columns of `big`.
fn fill(table: &str, rows: u64) -> impl Iterator<Item = String> {
    (0..rows.div_ceil(LOAD_ROWS)).map(move |nth| {
        let (first, last) = (nth * LOAD_ROWS + 1, rows.min((nth + 1) * LOAD_ROWS));
        format!(
            "INSERT INTO {table} SELECT i, i % 997, (i::bigint * 7919 % 1000003)::int, \
             'text ' || i::bigint * 31 % 100000 FROM generate_series({first}, {last}) i"
        )
    })
}

/// Returns all items for a large table with this number of rows.
pub(super) fn items(rows: u64) -> Vec<ComparedItem> {
    let mut all = queries();
    all.push(ranges(rows));
    all.extend(changes(rows));
    all.push(inserts());
    all
}

fn queries() -> Vec<ComparedItem> {
    let query = |name: &str, sql: &str, order_columns: &[usize]| ComparedItem {
        name: name.to_string(),
        before: Vec::new(),
        work: MeasuredWork::Query {
            sql: sql.to_string(),
            order_columns: order_columns.to_vec(),
        },
    };
    vec![
        query("count", "SELECT count(*) FROM big", &[]),
        query("sum", "SELECT count(*), sum(v) FROM big", &[]),
        query(
            "group",
            "SELECT g, count(*), sum(v) FROM big GROUP BY g ORDER BY g",
            &[0],
        ),
        query(
            "filter",
            "SELECT count(*), sum(v) FROM big WHERE g BETWEEN 10 AND 19 AND c LIKE '%7%'",
            &[],
        ),
        query(
            "percentile",
            "SELECT g, percentile_cont(0.5) WITHIN GROUP (ORDER BY v)::numeric FROM big \
             GROUP BY g ORDER BY g LIMIT 3",
            &[0],
        ),
        query(
            "top",
            "SELECT id, c FROM big ORDER BY c, id LIMIT 3",
            &[0, 1],
        ),
        query(
            "join",
            "SELECT count(*), sum(big.v) FROM one JOIN big ON big.id = one.id",
            &[],
        ),
        query(
            "self join",
            "SELECT count(*) FROM big a JOIN big b ON b.id = a.v",
            &[],
        ),
        query(
            "window",
            "SELECT id, rank() OVER (PARTITION BY g ORDER BY v, id) FROM big ORDER BY id LIMIT 3",
            &[0],
        ),
        query("distinct", "SELECT count(DISTINCT v) FROM big", &[]),
        query(
            "sort",
            "SELECT count(*) FROM (SELECT c FROM big ORDER BY c, id OFFSET 10) s",
            &[],
        ),
    ]
}

/// Ten ranges of an indexed column by OR, as sysbench's `select_random_ranges`.
fn ranges(rows: u64) -> ComparedItem {
    let statement = |execution: u64| {
        let mut sql = "SELECT count(g) FROM big WHERE ".to_string();
        for range in 0..RANGES {
            let or = if range == 0 { "" } else { " OR " };
            let low = (execution * RANGES + range) * 104_729 % rows;
            let high = low + RANGE_WIDTH;
            write!(sql, "{or}v BETWEEN {low} AND {high}").expect("a string takes all text");
        }
        sql
    };
    ComparedItem {
        name: "ranges".to_string(),
        before: Vec::new(),
        work: MeasuredWork::Statements {
            statements: (0..SHORT_EXECUTIONS).map(statement).collect(),
            check: statement(0),
        },
    }
}

/// Changes of a copy of the large table.
fn changes(rows: u64) -> Vec<ComparedItem> {
    let copy = |indexed: bool| {
        let mut all = vec![
            "DROP TABLE IF EXISTS changed".to_string(),
            "CREATE TABLE changed (id int PRIMARY KEY, g int NOT NULL, v int NOT NULL, \
             c text NOT NULL)"
                .to_string(),
        ];
        all.extend(fill("changed", rows));
        if indexed {
            all.push("CREATE INDEX changed_v ON changed (v)".to_string());
        }
        all
    };
    let change = |name: &str, before: Vec<String>, sql: &str, check: &str| ComparedItem {
        name: name.to_string(),
        before,
        work: MeasuredWork::Statements {
            statements: vec![sql.to_string()],
            check: check.to_string(),
        },
    };
    let sums = "SELECT count(*), sum(v) FROM changed";
    vec![
        change(
            "delete",
            copy(true),
            "DELETE FROM changed WHERE id % 5 = 0",
            sums,
        ),
        change(
            "update",
            copy(true),
            "UPDATE changed SET g = g + 1 WHERE id % 5 = 0",
            "SELECT count(*), sum(g) FROM changed",
        ),
        change(
            "create index",
            copy(false),
            "CREATE INDEX changed_v ON changed (v)",
            sums,
        ),
        change(
            "insert select",
            vec![
                "DROP TABLE IF EXISTS changed".to_string(),
                "CREATE TABLE changed (id int PRIMARY KEY, g int, v int, c text)".to_string(),
            ],
            "INSERT INTO changed SELECT * FROM big WHERE id % 5 = 0",
            sums,
        ),
        change("truncate", copy(true), "TRUNCATE changed", sums),
        change(
            "drop",
            copy(true),
            "DROP TABLE changed",
            "SELECT count(*) FROM pg_class WHERE relname = 'changed'",
        ),
    ]
}

/// INSERT of many rows in a statement, as `sysbench prepare` loads.
fn inserts() -> ComparedItem {
    let statement = |nth: u64| {
        let mut sql = "INSERT INTO inserted (k, c, pad) VALUES ".to_string();
        for row in 0..INSERTED_ROWS {
            let comma = if row == 0 { "" } else { ", " };
            let k = (nth * INSERTED_ROWS + row) * 7_919 % 100_003;
            write!(sql, "{comma}({k}, '{k:0>119}', '{k:0>59}')").expect("a string takes all text");
        }
        sql
    };
    ComparedItem {
        name: "insert".to_string(),
        before: vec![
            "DROP TABLE IF EXISTS inserted".to_string(),
            "CREATE TABLE inserted (id serial PRIMARY KEY, k int NOT NULL DEFAULT 0, \
             c char(120) NOT NULL DEFAULT '', pad char(60) NOT NULL DEFAULT '')"
                .to_string(),
            "CREATE INDEX inserted_k ON inserted (k)".to_string(),
        ],
        work: MeasuredWork::Statements {
            statements: (0..INSERTS).map(statement).collect(),
            check: "SELECT count(*), sum(k), max(id) FROM inserted".to_string(),
        },
    }
}
