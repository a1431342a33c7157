//! Generated queries over generated tables return the same on both executors: rows, their order
//! under ORDER BY, trailing digits, and errors.

use fencepost::{BlockingSession, Database, SqlState};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

/// The columns of every table, and their possible values beside NULL.
const COLUMNS: &[(&str, &str, &[&str])] = &[
    ("i2", "smallint", &["0", "1", "2", "3", "-32768"]),
    (
        "i4",
        "int",
        &["0", "1", "2", "3", "2147483647", "-2147483648"],
    ),
    (
        "i8",
        "bigint",
        &[
            "0",
            "1",
            "2",
            "3",
            "9223372036854775807",
            "-9223372036854775808",
        ],
    ),
    (
        "t",
        "text",
        &[
            "''",
            "'a'",
            "'b '",
            "'B'",
            "'ä'",
            "'a text that is longer than others'",
        ],
    ),
    ("v", "varchar(9)", &["''", "'a'", "'b '", "'ab'"]),
    ("p", "char(4)", &["''", "'a'", "'b '", "'ab'"]),
    ("b", "bool", &["true", "false"]),
    (
        "d",
        "date",
        &["'2000-01-01'", "'1999-12-31'", "'infinity'", "'-infinity'"],
    ),
    (
        "ts",
        "timestamp",
        &[
            "'2000-01-01'",
            "'1969-07-20 20:17'",
            "'infinity'",
            "'-infinity'",
        ],
    ),
    (
        "tz",
        "timestamptz",
        &["'2000-01-01'", "'2000-01-01 00:00+05'", "'-infinity'"],
    ),
    ("tm", "time", &["'00:00'", "'24:00'", "'12:34:56.789'"]),
    (
        "u",
        "uuid",
        &[
            "'00000000-0000-0000-0000-000000000001'",
            "'ffffffff-0000-0000-0000-000000000001'",
        ],
    ),
    (
        "n",
        "numeric(6,2)",
        &["0", "0.10", "-0.10", "9999.99", "-9999.99", "3"],
    ),
    ("f", "float8", &["0", "1.5", "'NaN'", "'infinity'"]),
    ("j", "jsonb", &["'1'", "'{\"a\": 1}'"]),
];

/// Expressions over a table `x` for GROUP BY and the select list.
const KEYS: &[&str] = &[
    "x.i2",
    "x.i4",
    "x.i8",
    "x.t",
    "x.v",
    "x.p",
    "x.b",
    "x.d",
    "x.ts",
    "x.tz",
    "x.tm",
    "x.u",
    "x.n",
    "x.i4 % 2",
    "upper(x.t)",
    "x.n * 2",
    "x.i2 IS NULL",
    "x.d - 3",
];
const AGGREGATES: &[&str] = &[
    "count(*)",
    "count(x.i4)",
    "count(x.j)",
    "count(x.f)",
    "sum(x.i2)",
    "sum(x.i4)",
    "sum(x.i8)",
    "sum(x.n)",
    "avg(x.i2)",
    "avg(x.i4)",
    "avg(x.i8)",
    "avg(x.n)",
    "min(x.i2)",
    "max(x.i4)",
    "min(x.i8)",
    "max(x.t)",
    "min(x.v)",
    "max(x.p)",
    "min(x.d)",
    "max(x.ts)",
    "min(x.tz)",
    "max(x.tm)",
    "min(x.n)",
    "max(x.n)",
    "sum(x.n * x.i2)",
    "avg(x.n - 0.125)",
    "sum(-x.n * 1.5)",
    "count(*) FILTER (WHERE x.b)",
    "sum(x.i4) FILTER (WHERE x.i2 > 1)",
    "max(x.i4 / x.i2)",
    "sum(x.i2 * 1000000)",
];
const CONDITIONS: &[&str] = &[
    "x.i4 > 0",
    "x.t LIKE 'a%'",
    "x.b",
    "NOT x.b",
    "x.d > '1999-12-31'",
    "x.n < 5",
    "x.i2 IN (1, 2, 3)",
    "x.f > 1",
    "x.u IS NOT NULL",
    "x.i4 / 2 <> 1",
    "x.i2 <> 0",
    "x.tz IS NULL",
];
/// Equalities between a table `x` and another table `y`.
const EQUALITIES: &[&str] = &[
    "x.i2 = y.i2",
    "x.i4 = y.i4",
    "x.i8 = y.i8",
    "x.i2 = y.i8",
    "x.i8 = y.i4",
    "x.t = y.t",
    "x.v = y.t",
    "x.p = y.p",
    "x.b = y.b",
    "x.d = y.d",
    "x.ts = y.ts",
    "x.tz = y.tz",
    "x.tm = y.tm",
    "x.u = y.u",
    "x.n = y.n",
];
const OUTPUTS: &[&str] = &[
    "x.i2",
    "x.i4",
    "x.i8",
    "x.t",
    "x.v",
    "x.p",
    "x.b",
    "x.d",
    "x.ts",
    "x.tz",
    "x.tm",
    "x.u",
    "x.n",
    "x.f",
    "x.i4 + 0.5",
    "coalesce(x.t, 'none')",
];

/// Generates the rows of a table, as the VALUES of an INSERT.
fn rows() -> impl Strategy<Value = String> {
    let value = |(_, _, values): &(&str, &str, &'static [&'static str])| prop_oneof![1 => Just("NULL"), 4 => select(*values)];
    let row: Vec<_> = COLUMNS.iter().map(value).collect();
    prop::collection::vec(row, 0..40).prop_map(|rows| {
        let rows = rows.iter().enumerate();
        let rows: Vec<String> = rows
            .map(|(id, row)| format!("({id}, {})", row.join(", ")))
            .collect();
        rows.join(", ")
    })
}

/// Generates a list of `texts`, each about one of the tables `names`. `count` is the range of its
/// length.
fn about(
    texts: &'static [&'static str],
    count: std::ops::Range<usize>,
    names: &'static [&'static str],
) -> impl Strategy<Value = Vec<String>> {
    let one = (select(texts), select(names));
    prop::collection::vec(one, count).prop_map(|chosen| {
        let texts = chosen.iter();
        texts
            .map(|(text, name)| text.replace("x.", &format!("{name}.")))
            .collect()
    })
}

/// Generates FROM, and the tables in it.
fn from() -> impl Strategy<Value = (String, &'static [&'static str])> {
    const ONE: &[&str] = &["a"];
    const TWO: &[&str] = &["a", "b"];
    const THREE: &[&str] = &["a", "b", "c"];
    let kind = || select(&["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"][..]);
    let on = || {
        prop_oneof![3 => subsequence(EQUALITIES, 1), 1 => subsequence(EQUALITIES, 2)]
            .prop_map(|equalities| equalities.join(" AND "))
    };
    let further = select(&["", " AND a.i4 <= b.i8", " AND b.b"][..]);
    let named = |on: &str, x: &str, y: &str| {
        on.replace("x.", &format!("{x}."))
            .replace("y.", &format!("{y}."))
    };
    prop_oneof![
        1 => Just(("a".to_owned(), ONE)),
        3 => (kind(), on(), further).prop_map(move |(kind, on, further)| {
            // Only inner joins have conditions that read both sides.
            let further = if kind == "JOIN" { further } else { "" };
            (format!("a {kind} b ON {}{further}", named(&on, "a", "b")), TWO)
        }),
        2 => (kind(), on(), kind(), on(), select(TWO))
            .prop_map(move |(first, on, second, and, of)| {
                let (on, and) = (named(&on, "a", "b"), named(&and, of, "c"));
                (format!("a {first} b ON {on} {second} c ON {and}"), THREE)
            }),
    ]
}

/// Generates a query, with or without groups.
fn query() -> impl Strategy<Value = String> {
    from().prop_flat_map(|(from, names)| {
        let conditions = about(CONDITIONS, 0..2, names);
        let grouped = (
            about(KEYS, 0..3, names),
            about(AGGREGATES, 1..5, names),
            any::<bool>(),
        );
        let plain = (about(OUTPUTS, 1..5, names), prop::option::of(0..20));
        let joined = names.len() > 1;
        let what = prop_oneof![
            3 => grouped.prop_map(|(keys, aggregates, having)| {
                let list = [&keys[..], &aggregates[..]].concat().join(", ");
                let mut tail = String::new();
                if !keys.is_empty() {
                    tail = format!(" GROUP BY {}", keys.join(", "));
                }
                if having {
                    tail.push_str(" HAVING count(*) > 1");
                }
                (list, tail)
            }),
            // An ungrouped query over one table never uses DataFusion.
            (if joined { 2 } else { 0 }) => plain.prop_map(|(outputs, limit)| {
                let places: Vec<String> = (1..=outputs.len()).map(|n| n.to_string()).collect();
                let tail = match limit {
                    Some(limit) => format!(" ORDER BY {} LIMIT {limit}", places.join(", ")),
                    None => String::new(),
                };
                (outputs.join(", "), tail)
            }),
        ];
        (conditions, what).prop_map(move |(conditions, (list, tail))| {
            let filter = match conditions.is_empty() {
                true => String::new(),
                false => format!(" WHERE {}", conditions.join(" AND ")),
            };
            format!("SELECT {list} FROM {from}{filter}{tail}")
        })
    })
}

fn set(session: &mut BlockingSession, setting: &str) {
    let sql = format!("SET fencepost.analytics = {setting}");
    session.execute(&sql, &[]).expect("a setting");
}

/// A query has failed. Which of several errors comes first depends on the order of rows.
#[derive(Debug, PartialEq)]
struct QueryFailure;

/// Returns the rows of a query as text, ordered only if the query orders them.
fn run(session: &mut BlockingSession, sql: &str) -> Result<Vec<String>, QueryFailure> {
    let rows = session.query(sql, &[]).map_err(|error| {
        let known = [
            SqlState::DIVISION_BY_ZERO,
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        ];
        assert!(known.contains(&error.code()), "{sql}: {error}");
        QueryFailure
    })?;
    let mut rows: Vec<String> = rows.iter().map(|r| format!("{:?}", r.values())).collect();
    if !sql.contains("ORDER BY") {
        rows.sort();
    }
    Ok(rows)
}

fn is_eligible(session: &mut BlockingSession, sql: &str) -> bool {
    let lines = session.query(&format!("EXPLAIN {sql}"), &[]).expect(sql);
    lines
        .iter()
        .any(|line| format!("{:?}", line.values()).contains("Executor: DataFusion"))
}

/// The number of cases, and of queries for each case.
const CASES: u32 = 40;
const QUERIES: usize = 12;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: CASES,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn both_executors_give_the_same(
        tables in [rows(), rows(), rows()],
        queries in prop::collection::vec(query(), QUERIES),
    ) {
        let db = Database::in_memory().expect("a database");
        let mut session = db.blocking();
        for (name, rows) in ["a", "b", "c"].iter().zip(&tables) {
            let columns = COLUMNS.iter().map(|(name, ty, _)| format!("{name} {ty}"));
            let columns: Vec<String> = columns.collect();
            let table = format!("CREATE TABLE {name} (id int PRIMARY KEY, {})", columns.join(", "));
            session.execute(&table, &[]).expect("a table");
            if !rows.is_empty() {
                session.execute(&format!("INSERT INTO {name} VALUES {rows}"), &[]).expect("rows");
            }
        }
        let mut eligible = 0;
        for sql in &queries {
            set(&mut session, "off");
            let ours = run(&mut session, sql);
            set(&mut session, "on");
            eligible += usize::from(is_eligible(&mut session, sql));
            let theirs = run(&mut session, sql);
            prop_assert_eq!(ours, theirs, "{}", sql);
        }
        prop_assert!(eligible > QUERIES / 2, "{} of {:?}", eligible, queries);
    }
}
