//! Statements that run on the machine that has their data.

use std::thread;

use fencepost::{Row, SqlState, Value, params, types};

use crate::between::{
    Interconnect, MACHINES, number, over_both, seen, sent, shipping, staying, until,
};

#[test]
fn statements_run_at_their_data() {
    over_both(1, |machines| {
        let mut there = staying(&machines[1]);
        there
            .batch("CREATE TABLE t (a int PRIMARY KEY, b text)")
            .expect("a table");
        seen(machines);
        let mut session = shipping(&machines[0]);
        for key in 0..20 {
            let changed = session.execute(
                "INSERT INTO t VALUES ($1, $2)",
                params![key, format!("row {key}")],
            );
            assert_eq!(changed.expect("inserts"), 1);
            let row = session.query_one("SELECT b FROM t WHERE a = $1", params![key]);
            let text: String = row.expect("its own").get("b").expect("a text");
            assert_eq!(text, format!("row {key}"));
        }
        let rows = session.query("UPDATE t SET b = b || '!' WHERE a = 7 RETURNING b, a", &[]);
        let rows = rows.expect("updates");
        assert_eq!(rows[0].values(), [Value::text("row 7!"), Value::Int4(7)]);
        let deleted = session.execute("DELETE FROM t WHERE a = 8", &[]);
        assert_eq!(deleted.expect("deletes"), 1);
        let none = session.query("SELECT b FROM t WHERE a = 8", &[]);
        assert!(none.expect("reads").is_empty());
        assert_eq!(sent(&machines[0]), 43);
        assert_eq!(machines[1].shipped().served, 43);
        // Every machine sees the rows, on any machine that reads them.
        for db in machines {
            assert_eq!(number(&mut staying(db), "SELECT count(*) FROM t"), 19);
        }
        // None of these statements can be shipped: each is not about one key, or depends on its
        // session.
        for sql in [
            "SELECT count(*) FROM t",
            "SELECT 1",
            "SELECT random(), b FROM t WHERE a = 1",
            "UPDATE t SET b = set_config('my.own', 'set', false) WHERE a = 1",
            "BEGIN",
            "SELECT b FROM t WHERE a = 1",
            "ROLLBACK",
        ] {
            session.query(sql, &[]).expect("runs");
        }
        let own = session.query_one("SHOW my.own", &[]).expect("a row");
        assert_eq!(own.get::<String>(0).expect("a text"), "set");
        assert_eq!(sent(&machines[0]), 43);
        // The home machine itself ships nothing; by default nothing is shipped.
        let mut home = shipping(&machines[1]);
        home.query("SELECT b FROM t WHERE a = 1", &[])
            .expect("runs");
        let mut by_default = machines[2].blocking();
        by_default
            .query("SELECT b FROM t WHERE a = 1", &[])
            .expect("runs");
        assert_eq!((sent(&machines[1]), sent(&machines[2])), (0, 0));
    });
}

#[test]
fn shipped_errors_keep_all_fields() {
    over_both(2, |machines| {
        let mut there = staying(&machines[1]);
        there
            .batch(
                "CREATE TABLE t (a int PRIMARY KEY, b int NOT NULL, c varchar(3));
                 INSERT INTO t VALUES (1, 1, 'x')",
            )
            .expect("a table");
        seen(machines);
        let (mut session, mut local) = (shipping(&machines[0]), staying(&machines[0]));
        for (sql, code) in [
            ("INSERT INTO t VALUES (1, 2)", SqlState::UNIQUE_VIOLATION),
            (
                "INSERT INTO t VALUES (2, NULL)",
                SqlState::NOT_NULL_VIOLATION,
            ),
            (
                "UPDATE t SET c = c || 'long' WHERE a = 1",
                SqlState::STRING_DATA_RIGHT_TRUNCATION,
            ),
            (
                "UPDATE t SET b = b / (b - 1) WHERE a = 1",
                SqlState::DIVISION_BY_ZERO,
            ),
            (
                "SELECT 1 / (b - 1) FROM t WHERE a = 1",
                SqlState::DIVISION_BY_ZERO,
            ),
        ] {
            let before = sent(&machines[0]);
            let shipped = session.query(sql, &[]).expect_err("fails");
            assert_eq!(sent(&machines[0]), before + 1, "{sql}");
            let stayed = local.query(sql, &[]).expect_err("fails");
            assert_eq!(shipped.code(), code, "{sql}");
            assert_eq!(shipped.report(), stayed.report(), "{sql}");
        }
        let unique = session.query("INSERT INTO t VALUES (1, 2)", &[]);
        let unique = unique.expect_err("is there");
        let fields = unique.report().fields();
        assert_eq!(fields.constraint.as_deref(), Some("t_pkey"));
        assert!(
            fields
                .detail
                .as_deref()
                .is_some_and(|text| text.contains("(a)=(1)"))
        );
        assert_eq!(number(&mut local, "SELECT count(*) FROM t"), 1);
        // A statement that has no plan on the home machine any more runs here, and fails here.
        let statement = session
            .prepare("SELECT b FROM t WHERE a = 1")
            .expect("prepares");
        there.batch("DROP TABLE t").expect("ddl");
        let error = session.query(&statement, &[]).expect_err("is gone");
        assert_eq!(error.code(), SqlState::UNDEFINED_TABLE);
    });
}

#[test]
fn values_of_all_types_come_back_as_if_nothing_was_shipped() {
    over_both(3, |machines| {
        let mut there = staying(&machines[1]);
        there
            .batch(
                "CREATE TABLE t (id int PRIMARY KEY, a bool, b int2, c int8, d float4, e float8,
                     f numeric(12, 4), g text, h varchar(9), i char(5), j bytea, k date,
                     l timestamp, m timestamptz, n uuid, o numeric);
                 INSERT INTO t VALUES (2)",
            )
            .expect("a table");
        seen(machines);
        let (mut session, mut local) = (shipping(&machines[0]), staying(&machines[0]));
        let row: Vec<Value> = [
            Value::Int4(1),
            Value::Bool(true),
            Value::Int2(-3),
            Value::Int8(i64::MIN),
            Value::Float4(1.1),
            Value::Float8(-2.5e300),
            Value::Numeric("-12345.67".parse().expect("a decimal")),
            Value::text("zwölf Boxkämpfer"),
            Value::text("ab"),
            Value::text("c"),
            Value::Bytea(vec![0, 1, 255]),
            Value::Date(8000),
            Value::Timestamp(1),
            Value::TimestampTz(i64::MAX),
            Value::Uuid([7; 16]),
            Value::Numeric("0.0001".parse().expect("a decimal")),
        ]
        .into();
        let numbers: Vec<String> = (1..=row.len()).map(|n| format!("${n}")).collect();
        let insert = format!("INSERT INTO t VALUES ({}) RETURNING *", numbers.join(", "));
        let given = session.query(&insert, &row).expect("inserts");
        let settings = fencepost::Settings::new();
        for key in [1, 2] {
            let select = "SELECT *, 'literal', NULL, a IS NULL, d + e, f * 2 FROM t WHERE id = $1";
            let before = sent(&machines[0]);
            let shipped = session.query_one(select, params![key]).expect("a row");
            assert_eq!(sent(&machines[0]), before + 1);
            let stayed = local.query_one(select, params![key]).expect("a row");
            assert_eq!(shipped.columns(), stayed.columns());
            assert_eq!(shipped.values(), stayed.values());
            if key == 1 {
                assert_eq!(given[0].values(), &stayed.values()[..row.len()]);
            }
            for (at, column) in shipped.columns().iter().enumerate() {
                let bytes = |row: &Row| {
                    let (mut text, mut binary) = (Vec::new(), Vec::new());
                    types::text_out(&row.values()[at], &column.ty, &settings, &mut text);
                    types::binary_out(&row.values()[at], &column.ty, &mut binary);
                    (text, binary)
                };
                assert_eq!(bytes(&shipped), bytes(&stayed));
            }
        }
    });
}

#[test]
fn shipped_statement_uses_session_settings_and_user() {
    let between = Interconnect::memory();
    let machines = between.machines(2);
    staying(&machines[1])
        .batch("CREATE TABLE t (a int PRIMARY KEY, b timestamptz, c text)")
        .expect("a table");
    seen(&machines);
    let mut session = shipping(&machines[0]);
    for zone in ["America/New_York", "Asia/Tokyo", "UTC"] {
        session
            .batch(&format!(
                "SET TimeZone = '{zone}'; SET DateStyle = 'ISO, DMY'"
            ))
            .expect("settings");
        let write = "UPDATE t SET b = '2024-01-02 03:04:05', c = current_setting('TimeZone')
            WHERE a = 1 RETURNING b::text, c, pg_backend_pid(), current_user";
        session.batch("INSERT INTO t VALUES (1)").expect("a row");
        let before = sent(&machines[0]);
        let shipped = session.query_one(write, &[]).expect("a row");
        assert_eq!(sent(&machines[0]), before + 1);
        assert_eq!(shipped.get::<String>(1).expect("a text"), zone);
        session
            .batch("SET fencepost.ship = off")
            .expect("a setting");
        let stayed = session.query_one(write, &[]).expect("a row");
        assert_eq!(shipped.values(), stayed.values());
        session
            .batch("DELETE FROM t; SET fencepost.ship = always; SET DateStyle = 'ISO, MDY'")
            .expect("settings");
    }
    session
        .batch("SET default_transaction_read_only = on")
        .expect("a setting");
    let read_only = session.execute("INSERT INTO t VALUES (1)", &[]);
    let read_only = read_only.expect_err("is refused").code();
    assert_eq!(read_only, SqlState::READ_ONLY_SQL_TRANSACTION);
}

#[test]
fn results_that_are_too_long_are_made_here() {
    over_both(4, |machines| {
        let mut there = staying(&machines[1]);
        there
            .batch("CREATE TABLE t (a int PRIMARY KEY, b text, n int DEFAULT 0)")
            .expect("a table");
        seen(machines);
        there
            .execute("INSERT INTO t VALUES (1, repeat('long ', 140000))", &[])
            .expect("a row");
        let mut session = shipping(&machines[0]);
        let row = session.query_one("SELECT b || b FROM t WHERE a = 1", &[]);
        let text: String = row.expect("a row").get(0).expect("a text");
        assert_eq!(text.len(), 1_400_000);
        let changed = "UPDATE t SET n = n + 1 WHERE a = 1 RETURNING b || b, n";
        let row = session.query_one(changed, &[]).expect("a row");
        assert_eq!(
            row.get::<i32>(1).expect("a number"),
            1,
            "it took effect once"
        );
        assert_eq!(machines[0].shipped().returned, 2);
        let row = session.query_one("SELECT n FROM t WHERE a = 1", &[]);
        assert_eq!(row.expect("a row").get::<i32>(0).expect("a number"), 1);
        assert_eq!(machines[0].shipped().returned, 2);
    });
}

#[test]
fn conflicts_are_dealt_with_there_and_sums_hold() {
    const EACH: i32 = 60;
    const ROWS: i32 = 3;
    over_both(5, |machines| {
        staying(&machines[1])
            .batch(
                "CREATE TABLE t (a int PRIMARY KEY, n bigint NOT NULL);
                 INSERT INTO t SELECT g, 0 FROM generate_series(0, 2) g",
            )
            .expect("a table");
        seen(machines);
        thread::scope(|scope| {
            for (index, db) in machines.iter().enumerate() {
                for client in 0..2 {
                    scope.spawn(move || {
                        let mut session = match client {
                            0 => shipping(db),
                            _ => staying(db),
                        };
                        for step in 0..EACH {
                            let row = params![(step + index as i32) % ROWS];
                            let add = "UPDATE t SET n = n + 1 WHERE a = $1";
                            assert_eq!(session.execute(add, row).expect("adds"), 1);
                        }
                    });
                }
            }
        });
        let all = i64::from(EACH) * 2 * i64::from(MACHINES);
        for db in machines {
            let total = number(&mut staying(db), "SELECT sum(n)::bigint FROM t");
            assert_eq!(total, all);
        }
        assert_eq!(sent(&machines[0]) + sent(&machines[2]), 2 * EACH as u64);
        until(|| machines.iter().all(|db| db.machine().is_at_rest()));
    });
}

#[test]
fn single_partition_statement_runs_at_its_machine() {
    over_both(9, |machines| {
        // The root object is on the first machine. Over a network, shipping is the default.
        let is_shared = !machines[1].machine().is_far(machines[0].machine().root());
        let mut session = match is_shared {
            true => shipping(&machines[0]),
            false => machines[0].blocking(),
        };
        session
            .batch(
                "CREATE TABLE p (a int PRIMARY KEY, b int) PARTITION BY HASH (a) \
                 WITH (partitions = 6);
                 CREATE TABLE q (a int, n int, PRIMARY KEY (a, n)) PARTITION BY HASH (a) \
                   WITH (colocate_with = 'p');",
            )
            .expect("tables");
        for key in 0..60 {
            for sql in [
                "INSERT INTO p VALUES ($1, 0)",
                "INSERT INTO q VALUES ($1, 1), ($1, 2)",
            ] {
                session.execute(sql, params![key]).expect("inserts");
            }
        }
        let mut local = 0;
        for key in 0..60 {
            let (changed, before) = (params![key], sent(&machines[0]));
            let update = session.execute("UPDATE p SET b = b + 1 WHERE a = $1", changed);
            assert_eq!(update.expect("updates"), 1);
            local += u32::from(sent(&machines[0]) == before);
            let join = "SELECT sum(n) FROM p JOIN q ON q.a = p.a WHERE p.a = $1 AND q.a = $1";
            let sum: i64 = session
                .query_one(join, params![key])
                .expect("a row")
                .get(0)
                .expect("a sum");
            assert_eq!(sum, 3);
        }
        // Partitions are assigned to the machines in turn, and keys to partitions by a hash.
        assert!((1..60).contains(&local), "{local} of 60 ran here");
        assert!(sent(&machines[0]) > 100);
        let all = sent(&machines[0]);
        assert_eq!(
            number(&mut session, "SELECT count(*) FROM p WHERE b = 1"),
            60
        );
        session
            .batch("BEGIN; UPDATE p SET b = 5 WHERE a = 1; ROLLBACK")
            .expect("a block");
        assert_eq!(
            number(&mut session, "SELECT count(*) FROM p WHERE b = 1"),
            60
        );
        assert_eq!(
            sent(&machines[0]),
            all,
            "neither is about one partition alone"
        );
        if is_shared {
            let mut staying = machines[0].blocking();
            for key in 0..10 {
                let update = staying.execute("UPDATE p SET b = 2 WHERE a = $1", params![key]);
                assert_eq!(update.expect("updates"), 1);
            }
            assert_eq!(
                sent(&machines[0]),
                all,
                "memory in common is reached faster"
            );
        }
    });
}
