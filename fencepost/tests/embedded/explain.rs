//! The access path of a statement, as EXPLAIN shows it: no full scan if an index serves the query.

use fencepost::{BlockingSession, Database, Row, Value};

fn session() -> BlockingSession {
    let db = Database::in_memory().expect("a database");
    let mut session = db.blocking();
    session
        .batch(
            "CREATE TABLE t (a int PRIMARY KEY, b int, c text);
             CREATE INDEX t_bc ON t (b, c DESC);
             CREATE TABLE h (k bigint PRIMARY KEY, v text) WITH (index = hash);
             CREATE TABLE u (x int, y int UNIQUE);
             CREATE TABLE z (n int)",
        )
        .expect("the schema");
    session
}

fn plan(session: &mut BlockingSession, sql: &str) -> String {
    let rows = session.query(&format!("EXPLAIN {sql}"), &[]).expect(sql);
    let lines: Vec<String> = rows.iter().map(|r| r.get(0).expect("text")).collect();
    lines.join("\n")
}

/// Statements, each with its plan.
const PLANS: &[(&str, &str)] = &[
    (
        "SELECT * FROM t WHERE a = 5",
        "Index Scan using t_pkey on t\n  Index Cond: (a = 5)",
    ),
    (
        "SELECT b, count(*) FROM t GROUP BY b ORDER BY b LIMIT 3",
        "Limit\n  ->  GroupAggregate\n        Group Key: b\n        \
             ->  Index Scan using t_bc on t",
    ),
    (
        "SELECT b, count(*) FROM t GROUP BY b ORDER BY b LIMIT 100",
        "Limit\n  ->  Sort\n        Sort Key: b\n        ->  HashAggregate\n              \
             Group Key: b\n              ->  Seq Scan on t",
    ),
    (
        "SELECT * FROM t WHERE a = 5 AND b > 1",
        "Index Scan using t_pkey on t\n  Index Cond: (a = 5)\n  Filter: (b > 1)",
    ),
    (
        "SELECT * FROM t WHERE a IN (1, 2)",
        "Index Scan using t_pkey on t\n  Index Cond: (a = ANY (1, 2))",
    ),
    (
        "SELECT * FROM t WHERE a = ANY ('{1,2}')",
        "Index Scan using t_pkey on t\n  Index Cond: (a = ANY ('{1,2}'::integer[]))",
    ),
    (
        "SELECT * FROM h WHERE k = ANY (ARRAY[1,2])",
        "Index Scan using h_pkey on h\n  Index Cond: (k = ANY ('{1,2}'::integer[]))",
    ),
    (
        "SELECT * FROM t WHERE a <> ALL ('{1,2}')",
        "Seq Scan on t\n  Filter: (a <> ALL ('{1,2}'::integer[]))",
    ),
    (
        "SELECT * FROM t WHERE a > 1 AND a <= 9",
        "Index Scan using t_pkey on t\n  Index Cond: ((a > 1) AND (a <= 9))",
    ),
    (
        "SELECT * FROM t WHERE a BETWEEN 1 AND 3 OR a > 9",
        "Index Scan using t_pkey on t\n  \
             Index Cond: (((a >= 1) AND (a <= 3)) OR (a > 9))",
    ),
    (
        "SELECT * FROM t WHERE a < 3 OR a > 9 ORDER BY a DESC LIMIT 2",
        "Limit\n  ->  Index Scan Backward using t_pkey on t\n        \
             Index Cond: ((a < 3) OR (a > 9))",
    ),
    (
        "SELECT * FROM t WHERE (b = 3 AND c < 'x') OR (b = 4 AND a = 1)",
        "Index Scan using t_bc on t\n  \
             Index Cond: (((b = 3) AND (c < 'x'::text)) OR (b = 4))\n  \
             Filter: (((b = 3) AND (c < 'x'::text)) OR ((b = 4) AND (a = 1)))",
    ),
    (
        "SELECT * FROM t WHERE a > 9 OR c = 'x'",
        "Seq Scan on t\n  Filter: ((a > 9) OR (c = 'x'::text))",
    ),
    (
        "SELECT * FROM t WHERE (a = 1 AND c = 'x') OR (a = 1 AND c = 'y')",
        "Index Scan using t_pkey on t\n  Index Cond: (a = 1)\n  \
             Filter: ((c = 'x'::text) OR (c = 'y'::text))",
    ),
    (
        "SELECT * FROM t, u WHERE (a = x AND y = 1) OR (a = x AND y = 2)",
        "Nested Loop\n  ->  Index Scan using u_y_key on u\n        \
             Index Cond: (u.y = ANY (1, 2))\n  \
             ->  Index Scan using t_pkey on t\n        \
             Index Cond: (t.a = u.x)",
    ),
    (
        "SELECT * FROM t WHERE b = 3 AND c < 'x'",
        "Index Scan using t_bc on t\n  Index Cond: ((b = 3) AND (c < 'x'::text))",
    ),
    (
        "SELECT * FROM t ORDER BY a DESC LIMIT 3",
        "Limit\n  ->  Index Scan Backward using t_pkey on t",
    ),
    (
        "SELECT * FROM t WHERE b = 3 ORDER BY c DESC LIMIT 3",
        "Limit\n  ->  Index Scan using t_bc on t\n        Index Cond: (b = 3)",
    ),
    (
        "SELECT * FROM t WHERE c = 'x'",
        "Seq Scan on t\n  Filter: (c = 'x'::text)",
    ),
    (
        "SELECT * FROM h WHERE k = 7",
        "Index Scan using h_pkey on h\n  Index Cond: (k = 7)",
    ),
    (
        "SELECT * FROM h WHERE k > 7",
        "Seq Scan on h\n  Filter: (k > 7)",
    ),
    (
        "SELECT * FROM u WHERE y = 1",
        "Index Scan using u_y_key on u\n  Index Cond: (y = 1)",
    ),
    (
        "SELECT * FROM z WHERE EXISTS (SELECT 1 FROM t WHERE t.a = z.n)",
        "Seq Scan on z\n  Filter: EXISTS(SubPlan 1)\n  SubPlan 1\n  \
             ->  Index Scan using t_pkey on t\n        \
             Index Cond: (a = :0)",
    ),
    (
        "SELECT * FROM z WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.x = z.n)",
        "Seq Scan on z\n  Filter: (NOT ((ANY SubPlan 1) IS TRUE))\n  SubPlan 1\n  \
             ->  Seq Scan on u",
    ),
    (
        "SELECT * FROM t WHERE a = (SELECT max(n) FROM z)",
        "Index Scan using t_pkey on t\n  Index Cond: (a = (SubPlan 1))\n  SubPlan 1\n  \
             ->  Aggregate\n        \
             ->  Seq Scan on z",
    ),
    (
        "DELETE FROM t WHERE a IN (SELECT n FROM z LIMIT 5)",
        "Delete on t\n  ->  Index Scan using t_pkey on t\n        \
             Index Cond: (a = (ANY SubPlan 1))\n  \
             SubPlan 1\n  ->  Limit\n        ->  Seq Scan on z",
    ),
    (
        "SELECT * FROM z, LATERAL (SELECT * FROM t WHERE t.a = z.n) s",
        "Nested Loop\n  ->  Seq Scan on z\n  ->  Subquery Scan on s\n        \
             ->  Index Scan using t_pkey on t\n              Index Cond: (a = :0)",
    ),
    (
        "WITH c AS (SELECT n FROM z) SELECT * FROM c",
        "Seq Scan on z",
    ),
    (
        "WITH c AS (SELECT n FROM z) SELECT * FROM c, c d",
        "Nested Loop\n  ->  CTE Scan on c\n        Rows of: SubPlan 1\n  \
             ->  CTE Scan on c d\n        \
             Rows of: SubPlan 1\n  SubPlan 1\n  ->  Seq Scan on z",
    ),
    (
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT n FROM r \
             LIMIT 3",
        "Limit\n  ->  Recursive Union\n        ->  Result\n        \
             ->  WorkTable Scan on r",
    ),
    (
        "SELECT n FROM z UNION SELECT a FROM t",
        "HashAggregate\n  ->  Append\n        ->  Seq Scan on z\n        ->  Seq Scan on t",
    ),
    (
        "SELECT n FROM z EXCEPT ALL SELECT a FROM t",
        "HashSetOp Except All\n  ->  Seq Scan on z\n  ->  Seq Scan on t",
    ),
    (
        "SELECT rank() OVER (ORDER BY n) FROM z",
        "WindowAgg\n  ->  Seq Scan on z",
    ),
    (
        "SELECT DISTINCT ON (n) n FROM z ORDER BY n",
        "Unique\n  ->  Subquery Scan on unique\n        ->  Sort\n              \
             Sort Key: n\n              \
             ->  Seq Scan on z",
    ),
    (
        "SELECT n, count(*) FROM z GROUP BY ROLLUP (n)",
        "HashAggregate\n  Group Key: n\n  Group Key: ()\n  ->  Seq Scan on z",
    ),
    (
        "SELECT * FROM z JOIN t ON t.a = z.n",
        "Nested Loop\n  ->  Seq Scan on z\n  ->  Index Scan using t_pkey on t\n        \
             Index Cond: (t.a = z.n)",
    ),
    (
        "SELECT * FROM z JOIN u ON u.x = z.n",
        "Hash Join\n  Hash Cond: (z.n = u.x)\n  ->  Seq Scan on z\n  ->  Hash\n        \
             ->  Seq Scan on u",
    ),
    (
        "SELECT * FROM t JOIN u ON u.x = t.b WHERE t.a = 1",
        "Hash Join\n  Hash Cond: (u.x = t.b)\n  ->  Seq Scan on u\n  ->  Hash\n        \
             ->  Index Scan using t_pkey on t\n              Index Cond: (t.a = 1)",
    ),
    (
        "SELECT b, count(*) FROM t GROUP BY b ORDER BY b",
        "Sort\n  Sort Key: b\n  ->  HashAggregate\n        Group Key: b\n        \
             ->  Seq Scan on t",
    ),
    (
        "UPDATE t SET b = b + 1 WHERE a = 1",
        "Update on t\n  ->  Index Scan using t_pkey on t\n        Index Cond: (a = 1)",
    ),
    (
        "DELETE FROM t WHERE b = 1",
        "Delete on t\n  ->  Index Scan using t_bc on t\n        Index Cond: (b = 1)",
    ),
    (
        "INSERT INTO t VALUES (1, 2, 'x')",
        "Insert on t\n  ->  Result",
    ),
];

#[test]
fn explain_shows_expected_plans() {
    let mut session = session();
    let mut failures = String::new();
    for &(sql, expected) in PLANS {
        let found = plan(&mut session, sql);
        if found != expected {
            failures.push_str(&format!(
                "{sql}\nexpected:\n{expected}\nfound:\n{found}\n\n"
            ));
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
}

fn document(row: &Row) -> String {
    match &row.values()[0] {
        Value::Json(text) | Value::Text(text) => text.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Checks the keys that sqlx reads to find out which columns may be NULL.
#[test]
fn json_plan_has_keys_of_postgresql() {
    let db = Database::in_memory().expect("a database");
    let mut session = db.blocking();
    session
        .batch(
            "CREATE TABLE a (id int PRIMARY KEY, v text); \
             CREATE TABLE b (id int PRIMARY KEY, a int, w text);
             PREPARE s (int) AS SELECT a.id, b.w FROM a LEFT JOIN b ON b.a = a.id WHERE a.v = 'x' \
               AND a.id > $1",
        )
        .expect("tables");
    let sql = "EXPLAIN (VERBOSE, FORMAT JSON) EXECUTE s (NULL)";
    let row = session.query_one(sql, &[]).expect("a plan");
    assert_eq!(row.columns()[0].ty.oid(), 114, "the type json");
    let plan = document(&row);
    for key in [
        "\"Node Type\": \"Hash Join\"",
        "\"Join Type\": \"Left\"",
        "\"Output\": [\"a.id\", \"b.w\"]",
        "\"Parent Relationship\": \"Inner\"",
        "\"Relation Name\": \"b\"",
        "\"Index Cond\"",
    ] {
        assert!(plan.contains(key), "{key}\n{plan}");
    }
    let ask = format!(
        "SELECT ('{}'::json #>> '{{0,Plan,Plans,0,Relation Name}}')",
        plan.replace('\'', "''")
    );
    let row = session.query_one(&ask, &[]).expect("JSON");
    assert_eq!(row.get::<String>(0).expect("a name"), "a");
    let explained = |session: &mut fencepost::BlockingSession, format: &str| {
        let sql = format!("EXPLAIN (ANALYZE, FORMAT {format}) SELECT * FROM a WHERE v < '<'");
        let row = session.query_one(&sql, &[]).expect("a plan");
        document(&row)
    };
    let json = explained(&mut session, "json");
    assert!(json.contains("\"Actual Rows\": 0") && json.contains("\"Execution Time\": "));
    let xml = explained(&mut session, "xml");
    assert!(
        xml.contains("<Node-Type>Seq Scan</Node-Type>") && xml.contains("(v &lt; '&lt;'"),
        "{xml}"
    );
    let yaml = explained(&mut session, "yaml");
    assert!(
        yaml.starts_with("- Plan: \n    Node Type: \"Seq Scan\"\n"),
        "{yaml}"
    );
}
