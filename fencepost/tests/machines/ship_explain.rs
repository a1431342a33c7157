//! The output of EXPLAIN for statements that run on the machine that has their data.

use fencepost::{BlockingSession, Database, Row};

use crate::between::{Interconnect, seen, shipping, staying};

#[test]
fn explain_analyze_counts_remote_operations() {
    // The statement reads a leaf and a row; mapped memory is read in place.
    for (between, reads) in [(Interconnect::memory(), 0), (Interconnect::network(29), 2)] {
        let machines = between.machines(2);
        staying(&machines[1])
            .batch("CREATE TABLE t (a int PRIMARY KEY, b text); INSERT INTO t VALUES (1, 'x')")
            .expect("a table");
        seen(&machines);
        let said = |db: &Database, sql: &str| -> String {
            let mut session = staying(db);
            let explain = format!("EXPLAIN (ANALYZE) {sql}");
            // The inner nodes above the leaf are cached from the second time on.
            session.query(&explain, &[]).expect("runs");
            let rows = session.query(&explain, &[]).expect("runs");
            let mut lines = rows.iter().map(|row| row.get::<String>(0).expect("a line"));
            let line = lines.find(|line| line.starts_with("Fabric: "));
            line.expect("a machine among others")
        };
        let by_key = "SELECT b FROM t WHERE a = 1";
        assert_eq!(
            said(&machines[0], by_key),
            format!("Fabric: reads={reads} messages=0")
        );
        assert_eq!(said(&machines[1], by_key), "Fabric: reads=0 messages=0");
        // An update in a block queues for its row.
        let update = "UPDATE t SET b = 'y' WHERE a = 1";
        assert_eq!(
            said(&machines[0], update),
            format!("Fabric: reads={reads} messages=1")
        );
        assert_eq!(said(&machines[1], update), "Fabric: reads=0 messages=0");
    }
}

#[test]
fn explain_says_where_a_statement_would_run() {
    let between = Interconnect::memory();
    let machines = between.machines(2);
    staying(&machines[1])
        .batch("CREATE TABLE t (a int PRIMARY KEY, b text)")
        .expect("a table");
    seen(&machines);
    let explained = |session: &mut BlockingSession, sql: &str| -> String {
        let rows = session.query(&format!("EXPLAIN {sql}"), &[]).expect("runs");
        let line = |row: &Row| row.get::<String>(0).expect("a line");
        rows.iter().map(line).collect::<Vec<_>>().join("\n")
    };
    let by_key = "SELECT b FROM t WHERE a = 1";
    let mut session = shipping(&machines[0]);
    for sql in [
        by_key,
        "INSERT INTO t VALUES (1, 'x')",
        "DELETE FROM t WHERE a = 1",
    ] {
        let said = explained(&mut session, sql);
        assert!(said.ends_with("Shipped to: m2"), "{said}");
    }
    for sql in [
        "SELECT b FROM t",
        "SELECT b FROM t WHERE a IN (1, 2)",
        "UPDATE t SET b = 'x' WHERE a > 1",
        "INSERT INTO t SELECT 1, 'x'",
        "SELECT random() FROM t WHERE a = 1",
        "DELETE FROM t WHERE a = 1 AND random() > 2",
        "INSERT INTO t VALUES (1, random()::text)",
        "UPDATE t SET b = 'x' WHERE a = 1 RETURNING set_config('my.own', b, false)",
    ] {
        let said = explained(&mut session, sql);
        assert!(!said.contains("Shipped"), "{said}");
    }
    session.batch("BEGIN").expect("a block");
    assert!(!explained(&mut session, by_key).contains("Shipped"));
    session.batch("ROLLBACK").expect("no block");
    assert!(!explained(&mut shipping(&machines[1]), by_key).contains("Shipped"));
    assert!(!explained(&mut staying(&machines[0]), by_key).contains("Shipped"));
    assert!(!explained(&mut machines[0].blocking(), by_key).contains("Shipped"));
}
