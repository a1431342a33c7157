//! Partitioned tables return the same results as other tables, and their rows and entries are in
//! the right partitions.

use std::fmt::Write as _;
use std::thread;

use fencepost::{BlockingSession, Database, Error, SqlState, params};
use fencepost_fabric::Random;
use pollster::FutureExt;

/// The columns of a table, and its partition key.
const SCHEMAS: [(&str, &str, &str); 5] = [
    ("a int PRIMARY KEY, b int, c text", "a", ""),
    ("a int NOT NULL, b int, c text", "a", ""),
    (
        "a int, b int NOT NULL, c text, PRIMARY KEY (b, a)",
        "b",
        "index = hash,",
    ),
    (
        "a int, b int, c text, PRIMARY KEY (b, a), UNIQUE (a, b)",
        "a",
        "",
    ),
    (
        "a int PRIMARY KEY, b int, c text, UNIQUE (c, a)",
        "a",
        "index = hash,",
    ),
];

fn one_whole_and_one_partitioned(session: &mut BlockingSession, schema: (&str, &str, &str)) {
    let (columns, by, options) = schema;
    let index = match options {
        "" => "",
        _ => "WITH (index = hash)",
    };
    session
        .batch(&format!(
            "CREATE TABLE whole ({columns}) {index};
             CREATE TABLE parted ({columns}) PARTITION BY HASH ({by}) \
               WITH ({options} partitions = 5);
             CREATE INDEX whole_bc ON whole (b, c DESC);
             CREATE INDEX parted_bc ON parted (b, c DESC);
             CREATE INDEX whole_a ON whole (a DESC, c);
             CREATE INDEX parted_a ON parted (a DESC, c)"
        ))
        .expect("the schema");
}

/// Runs a statement once for each table, and checks that the results are the same.
fn both(session: &mut BlockingSession, sql: &str, ordered: bool) {
    let mut answers = ["whole", "parted"].map(|table| {
        let result = session.query(&sql.replace("{t}", table), &[]);
        answer(result, ordered).replace(table, "{t}")
    });
    let [whole, parted] = &mut answers;
    assert_eq!(parted, whole, "{sql}");
}

fn answer(result: Result<Vec<fencepost::Row>, Error>, ordered: bool) -> String {
    let rows = match result {
        Ok(rows) => rows,
        Err(error) => return format!("{}: {error}", error.code()),
    };
    let mut lines: Vec<String> = rows.iter().map(|r| format!("{:?}", r.values())).collect();
    if !ordered {
        lines.sort();
    }
    lines.join("\n")
}

fn statement(random: &mut Random) -> (String, bool) {
    let mut n = |bound: u64| random.below(bound);
    let (a, b, c) = (n(60), n(9), n(5));
    let (from, to) = (n(60), n(60));
    let unordered = match n(24) {
        0..6 => format!("INSERT INTO {{t}} VALUES ({a}, {b}, 'v{c}')"),
        6 => format!(
            "INSERT INTO {{t}} VALUES ({a}, {b}, 'v{c}'), ({from}, {b}, NULL), ({to}, 1, 'x')"
        ),
        7 => format!(
            "INSERT INTO {{t}} VALUES ({a}, {b}, 'v{c}') ON CONFLICT DO NOTHING RETURNING *"
        ),
        8 => {
            format!("INSERT INTO {{t}} SELECT g, {b}, 'v{c}' FROM generate_series({from}, {to}) g")
        }
        9 => format!("UPDATE {{t}} SET c = 'w{c}' WHERE a = {a}"),
        10 => format!("UPDATE {{t}} SET a = a + 1 WHERE a = {a} RETURNING *"),
        11 => format!("UPDATE {{t}} SET a = {to} WHERE a = {a} AND b = {b}"),
        12 => format!(
            "UPDATE {{t}} SET b = b + 1, c = repeat('long', {to}) WHERE a BETWEEN {from} AND {to}"
        ),
        13 => format!("UPDATE {{t}} SET a = a + 100 WHERE b = {b}"),
        14 => "UPDATE {t} SET a = a - 100 WHERE a >= 100".to_owned(),
        15 => format!("DELETE FROM {{t}} WHERE a = {a} RETURNING a, b"),
        16 => format!("DELETE FROM {{t}} WHERE b = {b} AND a > {from}"),
        17 => format!("SELECT * FROM {{t}} WHERE a = {a}"),
        18 => format!("SELECT * FROM {{t}} WHERE a IN ({a}, {from}, {to}, {a}) AND b < 7"),
        19 => format!("SELECT * FROM {{t}} WHERE b = {b} AND c >= 'v2'"),
        20 => format!("SELECT x.a, y.b FROM {{t}} x JOIN {{t}} y ON y.a = x.b WHERE x.a < {to}"),
        21 => format!("SELECT b, count(*), min(a) FROM {{t}} WHERE a > {from} GROUP BY b"),
        22 => {
            let order = ["a, b, c", "a DESC, c, b", "b, c DESC, a", "b, a, c"][n(4) as usize];
            let sql = format!("SELECT * FROM {{t}} WHERE a > {from} ORDER BY {order} LIMIT {to}");
            return (sql, true);
        }
        _ => {
            let order = ["a", "a DESC"][n(2) as usize];
            return (format!("SELECT a FROM {{t}} ORDER BY {order}"), true);
        }
    };
    (unordered, false)
}

fn sound(db: &Database) {
    let checked = fencepost::check(db);
    assert!(checked.problems.is_empty(), "{:?}", checked.problems);
}

/// Tables with declared partitions: columns, key, and bounds.
const HIERARCHIES: [(&str, &str, &[&str]); 4] = [
    (
        "a int PRIMARY KEY, b int, c text",
        "RANGE (a)",
        &[
            "FOR VALUES FROM (MINVALUE) TO (20)",
            "FOR VALUES FROM (20) TO (40)",
            "DEFAULT",
        ],
    ),
    (
        "a int NOT NULL, b int, c text",
        "HASH (a)",
        &[
            "FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
            "FOR VALUES WITH (MODULUS 4, REMAINDER 1)",
            "FOR VALUES WITH (MODULUS 4, REMAINDER 3)",
        ],
    ),
    (
        "a int, b int NOT NULL, c text",
        "LIST (b)",
        &["FOR VALUES IN (1, 3, 5)", "FOR VALUES IN (2)", "DEFAULT"],
    ),
    (
        "a int NOT NULL, b int NOT NULL, c text",
        "RANGE (a, b)",
        &[
            "FOR VALUES FROM (MINVALUE, MINVALUE) TO (10, 5)",
            "FOR VALUES FROM (10, 5) TO (10, 8)",
            "FOR VALUES FROM (10, 8) TO (MAXVALUE, MAXVALUE)",
        ],
    ),
];

#[test]
fn tables_of_partitions_answer_as_whole_ones() {
    for (number, (columns, key, bounds)) in HIERARCHIES.into_iter().enumerate() {
        let folder = tempfile::tempdir().expect("a folder");
        {
            let db = Database::open(folder.path()).expect("a database");
            let mut session = db.blocking();
            let mut schema = format!(
                "CREATE TABLE whole ({columns}); CREATE TABLE parted ({columns}) PARTITION BY {key};
                 CREATE INDEX ON whole (b, c DESC); CREATE INDEX ON parted (b, c DESC);"
            );
            for (at, bound) in bounds.iter().enumerate() {
                let _ = write!(schema, "CREATE TABLE p{at} PARTITION OF parted {bound};");
            }
            schema += "CREATE INDEX ON whole (a DESC, c); CREATE INDEX ON parted (a DESC, c)";
            session.batch(&schema).expect("the schema");
            let mut random = Random::new(number as u64);
            for step in 0..400 {
                let (sql, ordered) = statement(&mut random);
                if step % 50 == 0 {
                    session.batch("BEGIN").expect("a block");
                }
                let answers = ["whole", "parted"].map(|table| {
                    session.batch("SAVEPOINT s").ok();
                    let result = session.query(&sql.replace("{t}", table), &[]);
                    // The text of this error names the partition, so only the SQLSTATE is compared.
                    let result = result.map_err(|error| error.code().to_string());
                    if result.is_err() {
                        session.batch("ROLLBACK TO s").ok();
                    }
                    match result {
                        Ok(rows) => answer(Ok(rows), ordered),
                        Err(code) => code,
                    }
                });
                assert_eq!(answers[1], answers[0], "{key}: {sql}");
                if step % 50 == 20 {
                    session.batch("COMMIT").expect("the block's end");
                }
            }
            drop(session);
            sound(&db);
        }
        let db = Database::open(folder.path()).expect("the database again");
        let mut session = db.blocking();
        both(&mut session, "SELECT * FROM {t}", false);
        drop(session);
        sound(&db);
    }
}

#[test]
fn partitioned_tables_answer_as_whole_ones() {
    for (number, schema) in SCHEMAS.into_iter().enumerate() {
        let db = Database::in_memory().expect("a database");
        let mut session = db.blocking();
        one_whole_and_one_partitioned(&mut session, schema);
        let mut random = Random::new(number as u64);
        for step in 0..600 {
            let (sql, ordered) = statement(&mut random);
            if step % 50 == 0 {
                session.batch("BEGIN").expect("a block");
            }
            if step % 50 == 7 {
                session.batch("ROLLBACK").expect("the end of it");
            }
            if step % 50 < 7 {
                session.batch("SAVEPOINT s").expect("a savepoint");
                // An error in a block fails it, so the statement for each table has a savepoint of
                // its own.
                both_in_block(&mut session, &sql, ordered);
            } else {
                both(&mut session, &sql, ordered);
            }
        }
        both(&mut session, "SELECT * FROM {t}", false);
        drop(session);
        sound(&db);
    }
}

fn both_in_block(session: &mut BlockingSession, sql: &str, ordered: bool) {
    let answers = ["whole", "parted"].map(|table| {
        session.batch("SAVEPOINT s").expect("a savepoint");
        let result = session.query(&sql.replace("{t}", table), &[]);
        if result.is_err() {
            session.batch("ROLLBACK TO s").expect("back");
        }
        answer(result, ordered).replace(table, "{t}")
    });
    assert_eq!(answers[1], answers[0], "{sql}");
}

#[test]
fn loads_indexes_and_the_end_of_a_table() {
    for schema in SCHEMAS {
        let folder = tempfile::tempdir().expect("a folder");
        let db = Database::open(folder.path()).expect("a database");
        let mut session = db.blocking();
        one_whole_and_one_partitioned(&mut session, schema);
        let mut lines = String::new();
        for n in 0..6000 {
            writeln!(lines, "{}\t{}\tv{}", n * 7919 % 6000, n % 50, n % 7).expect("a line");
        }
        drop(session);
        let mut session = db.session();
        let again = ["whole", "parted"].map(|table| {
            let copy = format!("COPY {table} FROM STDIN");
            let copied = session.copy_in(&copy, lines.as_bytes()).block_on();
            assert_eq!(copied.expect("a load"), 6000);
            // Once more, when the index has entries already.
            let again = session.copy_in(&copy, b"7919\t1\tv1\n1919\t1\tv1\n");
            let again = again.block_on().map_err(|error| error.to_string());
            again.map_err(|error| error.replace(table, "{t}"))
        });
        assert_eq!(again[0], again[1]);
        drop(session);
        let mut session = db.blocking();
        let look = |session: &mut BlockingSession| {
            both(session, "SELECT count(*), sum(a), min(c) FROM {t}", true);
            both(
                session,
                "SELECT * FROM {t} WHERE a IN (4, 77, 5999, 6001)",
                false,
            );
            both(session, "SELECT * FROM {t} WHERE b = 7 AND c > 'v3'", false);
            both(session, "SELECT a FROM {t} ORDER BY a DESC LIMIT 20", true);
            both(
                session,
                "SELECT a FROM {t} WHERE a > 2990 ORDER BY a LIMIT 2000",
                true,
            );
        };
        look(&mut session);
        session
            .batch("CREATE INDEX whole_c ON whole (c, b); CREATE INDEX parted_c ON parted (c, b)")
            .expect("indexes over rows");
        session
            .batch("CREATE INDEX whole_ab ON whole (a, b); CREATE INDEX parted_ab ON parted (a, b)")
            .expect("indexes over rows");
        both(
            &mut session,
            "SELECT a FROM {t} WHERE c = 'v3' AND b = 3",
            false,
        );
        sound(&db);
        drop(session);
        db.close().expect("a clean end");
        let db = Database::open(folder.path()).expect("the database again");
        let mut session = db.blocking();
        look(&mut session);
        session
            .batch("DROP INDEX parted_ab; DROP INDEX parted_c")
            .expect("dropped");
        look(&mut session);
        sound(&db);
        session.batch("TRUNCATE whole, parted").expect("emptied");
        both(&mut session, "SELECT * FROM {t}", false);
        both(
            &mut session,
            "INSERT INTO {t} VALUES (1, 2, 'v3') RETURNING *",
            false,
        );
        both(&mut session, "SELECT * FROM {t} WHERE a = 1", false);
        sound(&db);
        session.batch("DROP TABLE parted").expect("dropped");
        assert!(partitions(&mut session).is_empty());
        sound(&db);
    }
}

/// Returns table, partition, machine and region of each partition.
fn partitions(session: &mut BlockingSession) -> Vec<(String, i32, i32, i64)> {
    let sql = "SELECT table_name, partition, machine, region FROM pg_fencepost_partitions";
    let rows = session.query(sql, &[]).expect("partitions");
    let cell = |row: &fencepost::Row| {
        let read = (row.get(0), row.get(1), row.get(2), row.get(3));
        (
            read.0.expect("a name"),
            read.1.expect("a number"),
            read.2.expect("a machine"),
            read.3.expect("a region"),
        )
    };
    rows.iter().map(cell).collect()
}

#[test]
fn added_primary_key_replaces_hidden_index_if_compatible() {
    for (key, count) in [("a", 2), ("b, a", 3)] {
        let db = Database::in_memory().expect("a database");
        let mut session = db.blocking();
        session
            .batch(&format!(
                "CREATE TABLE t (a int NOT NULL, b int UNIQUE NOT NULL) ;
                 DROP TABLE t;
                 CREATE TABLE t (a int NOT NULL, b int NOT NULL, UNIQUE (b, a)) \
                   PARTITION BY HASH (a) WITH (partitions = 16);
                 INSERT INTO t SELECT g, g % 3 FROM generate_series(1, 100) g;
                 ALTER TABLE t ADD PRIMARY KEY ({key})"
            ))
            .expect("a key");
        let checked = fencepost::check(&db);
        assert_eq!((checked.problems, checked.indexes), (Vec::new(), count));
        let twice = session.execute("INSERT INTO t VALUES (5, 2)", &[]);
        let twice = twice.expect_err("it is there");
        assert_eq!(twice.code(), SqlState::UNIQUE_VIOLATION);
        let found = session.query("SELECT b FROM t WHERE a = 50", &[]);
        assert_eq!(found.expect("rows").len(), 1);
    }
}

#[test]
fn unique_keys_have_the_partition_column() {
    let db = Database::in_memory().expect("a database");
    let mut session = db.blocking();
    session
        .batch(
            "CREATE TABLE t (a int NOT NULL, b int NOT NULL) PARTITION BY HASH (a) \
             WITH (partitions = 16)",
        )
        .expect("a table");
    for (sql, what) in [
        ("CREATE UNIQUE INDEX ON t (b)", "UNIQUE"),
        ("ALTER TABLE t ADD UNIQUE (b)", "UNIQUE"),
        ("ALTER TABLE t ADD PRIMARY KEY (b)", "PRIMARY KEY"),
        (
            "CREATE TABLE t2 (a int NOT NULL, b int UNIQUE) PARTITION BY HASH (a) \
             WITH (partitions = 16)",
            "UNIQUE",
        ),
    ] {
        let error = session.batch(sql).expect_err(sql);
        assert_eq!(error.code(), SqlState::FEATURE_NOT_SUPPORTED, "{sql}");
        let text = format!("{error:?}");
        assert!(
            text.contains(&format!("{what} constraint on table")),
            "{text}"
        );
        assert!(text.contains("lacks column \\\"a\\\""), "{text}");
    }
    session
        .batch("CREATE UNIQUE INDEX ON t (b, a); ALTER TABLE t ADD PRIMARY KEY (a, b)")
        .expect("keys with it");
}

#[test]
fn concurrent_row_moves_keep_every_row() {
    const ROWS: i32 = 40;
    let db = Database::in_memory().expect("a database");
    db.blocking()
        .batch(
            "CREATE TABLE t (k int PRIMARY KEY, v bigint) PARTITION BY HASH (k) \
             WITH (partitions = 7);
             CREATE INDEX t_v ON t (v);
             INSERT INTO t SELECT g, 100 FROM generate_series(0, 39) g",
        )
        .expect("the schema");
    thread::scope(|scope| {
        for seed in 0..3 {
            let db = &db;
            scope.spawn(move || {
                let mut session = db.blocking();
                let mut random = Random::new(seed);
                for _ in 0..150 {
                    let from = random.below(ROWS as u64) as i32;
                    let to = random.below(ROWS as u64) as i32;
                    let moved = session.transaction(|tx| {
                        tx.execute("UPDATE t SET v = v - 1 WHERE k = $1", params![from])?;
                        tx.execute("UPDATE t SET v = v + 1 WHERE k = $1", params![to])?;
                        // A row moves to another partition and back.
                        tx.execute("UPDATE t SET k = k + 1000 WHERE k = $1", params![from])?;
                        tx.execute(
                            "UPDATE t SET k = k - 1000 WHERE k = $1 + 1000",
                            params![from],
                        )?;
                        Ok(())
                    });
                    moved.expect("retried until it fits");
                }
            });
        }
    });
    let mut session = db.blocking();
    let total = session.query_one("SELECT sum(v), count(*) FROM t", &[]);
    let total = total.expect("a row");
    assert_eq!(total.get::<i64>(1).expect("a count"), i64::from(ROWS));
    let sum: String = format!("{:?}", total.values()[0]);
    assert!(sum.contains("4000"), "{sum}");
    drop(session);
    sound(&db);
}

fn plan(session: &mut BlockingSession, sql: &str) -> String {
    let rows = session.query(&format!("EXPLAIN {sql}"), &[]).expect(sql);
    let lines: Vec<String> = rows.iter().map(|r| r.get(0).expect("text")).collect();
    lines.join("\n")
}

#[test]
fn plan_lists_its_partitions() {
    let db = Database::in_memory().expect("a database");
    let mut session = db.blocking();
    session
        .batch(
            "CREATE TABLE t (a int, b int, c text, PRIMARY KEY (a, b)) PARTITION BY HASH (a) \
             WITH (partitions = 16);
             CREATE INDEX t_c ON t (c);
             CREATE TABLE u (a int NOT NULL, d int) PARTITION BY HASH (a) \
               WITH (colocate_with = 't');
             CREATE INDEX u_a ON u (a)",
        )
        .expect("the schema");
    let cases = [
        (
            "SELECT * FROM t WHERE a = 0 AND b = 2",
            "Index Scan using t_pkey on t\n  Index Cond: ((a = 0) AND (b = 2))\n  \
             Partitions: 1 of 16\n  Partition: 12 (m1)",
        ),
        (
            "SELECT * FROM t WHERE a IN (0, 1, 0)",
            "Index Scan using t_pkey on t\n  Index Cond: (a = ANY (0, 1, 0))\n  \
             Partitions: 2 of 16",
        ),
        (
            "SELECT * FROM t WHERE a > 5",
            "Index Scan using t_pkey on t\n  Index Cond: (a > 5)\n  Partitions: 16 of 16",
        ),
        (
            "SELECT * FROM t WHERE c = 'x'",
            "Index Scan using t_c on t\n  Index Cond: (c = 'x'::text)\n  Partitions: 16 of 16",
        ),
        ("SELECT * FROM u", "Seq Scan on u\n  Partitions: 16 of 16"),
        (
            "SELECT * FROM t ORDER BY a LIMIT 1",
            "Limit\n  ->  Seq Scan on t\n        Partitions: 16 of 16",
        ),
        (
            "SELECT * FROM t JOIN u ON u.a = t.a WHERE t.a = 0",
            "Nested Loop\n  ->  Index Scan using t_pkey on t\n        \
             Index Cond: (t.a = 0)\n        Partitions: 1 of 16\n        Partition: 12 (m1)\n  \
             ->  Index Scan using u_a on u\n        Index Cond: (u.a = 0)\n        \
             Partitions: 1 of 16\n        Partition: 12 (m1)",
        ),
        (
            "INSERT INTO u VALUES (0, 1)",
            "Insert on u\n  Partitions: 1 of 16\n  Partition: 12 (m1)\n  ->  Result",
        ),
        (
            "DELETE FROM t WHERE a = 99999999999",
            "Delete on t\n  ->  Index Scan using t_pkey on t\n        \
             Index Cond: (a = 99999999999)\n        Partitions: 0 of 16",
        ),
    ];
    let mut failures = String::new();
    for (sql, expected) in cases {
        let found = plan(&mut session, sql);
        if found != expected {
            write!(
                failures,
                "{sql}\nexpected:\n{expected}\nfound:\n{found}\n\n"
            )
            .expect("text");
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
}
