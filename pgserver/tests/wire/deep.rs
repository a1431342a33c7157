//! Deeply nested statements: each gets a result or an error, and the server continues.

use crate::common::{Client, query, server};

/// The nesting depth.
const LEVELS: usize = 1_000;

/// Nested statements: their start, the opening of a level, the innermost part, the closing of a
/// level.
const NESTED: [(&str, &str, &str, &str); 34] = [
    ("SELECT ", "(", "1", ")"),
    ("SELECT ", "(1+", "1", ")"),
    ("SELECT ", "(SELECT ", "1", ")"),
    ("SELECT ", "EXISTS(SELECT ", "1", ")"),
    ("SELECT ", "1 IN (SELECT ", "1", ")"),
    ("SELECT ", "1 = ANY (SELECT ", "1", ")"),
    ("SELECT ", "ARRAY(SELECT ", "1", ")"),
    ("SELECT ", "abs(", "1", ")"),
    ("SELECT ", "ceil(", "1", ")"),
    ("SELECT ", "coalesce(", "1", ")"),
    ("SELECT ", "CAST(", "1", " AS int)"),
    ("SELECT ", "ARRAY[", "1", "]"),
    ("SELECT ", "CASE WHEN true THEN ", "1", " END"),
    ("SELECT ", "position(", "'a'", " IN 'b')::text"),
    ("SELECT ", "substring(", "'a'", " FROM 1)"),
    ("SELECT ", "overlay(", "'a'", " PLACING 'b' FROM 1)"),
    ("SELECT ", "trim(", "'a'", ")"),
    ("SELECT ", "'a' LIKE (", "'a'", ")::text"),
    ("SELECT ", "1 BETWEEN 0 AND (", "1", ")::int"),
    ("SELECT ", "count(*) OVER (ORDER BY ", "1", ")"),
    ("SELECT ", "count(*) FILTER (WHERE ", "true", ")"),
    ("", "(", "SELECT 1", ")"),
    ("", "(SELECT 1 UNION ALL ", "SELECT 2", ")"),
    ("SELECT * FROM ", "(SELECT * FROM ", "(VALUES (1)) t", ") t"),
    (
        "SELECT 1 FROM ",
        "(",
        "(VALUES (1)) t",
        " CROSS JOIN (VALUES (1)) u)",
    ),
    ("SELECT 1 FROM ", "unnest(", "ARRAY[1]", ")"),
    ("", "WITH a AS (", "SELECT 1", ") SELECT * FROM a"),
    (
        "SELECT 1 FROM (VALUES (1)) t(a) GROUP BY ",
        "GROUPING SETS (",
        "a",
        ")",
    ),
    ("INSERT INTO t VALUES (", "(", "1", ")"),
    ("UPDATE t SET a = ", "(", "1", ")"),
    ("CREATE TABLE u (a int DEFAULT ", "(", "1", ")"),
    ("DO $$ BEGIN ", "IF true THEN ", "NULL; ", "END IF; "),
    ("SELECT '", "[", "", "]"),
    ("SELECT '$ ? (@ > ", "(", "1", ")"),
];

/// Chained statements: their start, the repeated part, their end.
const CHAINED: [(&str, &str, &str); 19] = [
    ("SELECT 1", "+1", ""),
    ("SELECT a", "||a", " FROM (VALUES ('a')) t(a)"),
    ("SELECT true", " AND true", ""),
    ("SELECT true", " IS NOT NULL", ""),
    ("SELECT 1", " ISNULL", ""),
    ("SELECT 'a'", " COLLATE \"C\"", ""),
    ("SELECT now()", " AT TIME ZONE 'UTC'", ""),
    ("SELECT 1", "::int", ""),
    ("SELECT (ARRAY[1])", "[1:1]", ""),
    ("SELECT null::int", "[]", ""),
    ("SELECT ", "NOT ", "true"),
    ("SELECT ", "- ", "1"),
    ("SELECT ", "~ ", "1"),
    ("SELECT 1", " UNION ALL SELECT 1", ""),
    (
        "SELECT 1 FROM (VALUES (1)) t",
        " CROSS JOIN (VALUES (1)) u",
        "",
    ),
    ("", "EXPLAIN ", "SELECT 1"),
    ("SELECT 1 WHERE true", " OR true", ""),
    ("SELECT '{\"a\":1}'::jsonb", "->'a'", ""),
    ("SELECT null::", "array<", "int"),
];

/// Returns the statements, each with `LEVELS` levels.
fn statements() -> Vec<String> {
    let mut all = Vec::new();
    for (first, open, inside, close) in NESTED {
        let (opened, closed) = (open.repeat(LEVELS), close.repeat(LEVELS));
        all.push(format!("{first}{opened}{inside}{closed}"));
        // A statement that is not closed must not take longer to parse.
        all.push(format!("{first}{opened}"));
    }
    for (first, more, last) in CHAINED {
        all.push(format!("{first}{}{last}", more.repeat(LEVELS)));
    }
    for (name, body, last) in [
        ("", "SELECT 1 AS x", ""),
        ("", "SELECT * FROM", ""),
        ("count(*) OVER", "", "FROM (VALUES (1)) t(a)"),
    ] {
        all.push(parts(name, body, last));
    }
    all
}

/// Returns a WITH whose parts each read the one before, or a WINDOW whose windows each extend the
/// one before.
fn parts(call: &str, body: &str, last: &str) -> String {
    let last_part = LEVELS - 1;
    match call {
        "" => {
            let part = |n: usize| match n {
                0 => "a0 AS (SELECT 1 AS x)".to_owned(),
                n if body.ends_with("FROM") => format!("a{n} AS ({body} a{})", n - 1),
                n => format!("a{n} AS ({body})"),
            };
            let all: Vec<String> = (0..LEVELS).map(part).collect();
            format!("WITH {} SELECT * FROM a{last_part}", all.join(", "))
        }
        call => {
            let window = |n: usize| match n {
                0 => "w0 AS (ORDER BY a)".to_owned(),
                n => format!("w{n} AS (w{})", n - 1),
            };
            let all: Vec<String> = (0..LEVELS).map(window).collect();
            format!(
                "SELECT {call} w{last_part} {last} WINDOW {}",
                all.join(", ")
            )
        }
    }
}

#[test]
fn deep_statements_are_answered() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    for statement in statements() {
        let beginning: String = statement.chars().take(60).collect();
        println!("{beginning}");
        client.send(&query(&statement));
        assert_eq!(client.until('Z').last().map(|m| m.tag), Some('Z'));
    }
    assert_eq!(client.value("SELECT 1"), "1");
}

#[test]
fn statements_run_to_same_depth_as_in_postgresql() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    let nested = |open: &str, inside: &str, close: &str, levels: usize| {
        open.repeat(levels) + inside + &close.repeat(levels)
    };
    assert_eq!(
        client.value(&format!("SELECT 1{}", "+1".repeat(3_999))),
        "4000"
    );
    let joined = format!(
        "SELECT length(a{}) FROM (VALUES ('a')) t(a)",
        "||a".repeat(3_999)
    );
    assert_eq!(client.value(&joined), "4000");
    let union = format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(999));
    let counted = format!("SELECT count(*) FROM ({union}) t");
    assert_eq!(client.value(&counted), "1000");
    let brackets = format!("SELECT {}", nested("(", "1", ")", 9_000));
    assert_eq!(client.value(&brackets), "1");
    let queries = nested("(SELECT * FROM ", "(VALUES (1)) t", ") t", 1_600);
    assert_eq!(client.value(&format!("SELECT * FROM {queries}")), "1");
}

#[test]
fn deep_definitions_are_usable_or_refused() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    let deep = |inside: &str| "abs(1 + ".repeat(LEVELS) + inside + &")".repeat(LEVELS);
    client.run("CREATE TABLE t (a int PRIMARY KEY, b int)");
    // Each thread reads the definitions of indexes and domains, with a stack of any size.
    for statement in [
        format!("CREATE INDEX ON t (({}))", deep("a")),
        format!("CREATE INDEX ON t (a) WHERE {} > 0", deep("a")),
        format!("CREATE DOMAIN d AS int CHECK ({} > 0)", deep("value")),
    ] {
        assert_eq!(client.fails(&statement), "54001");
    }
    client.run("CREATE DOMAIN d AS int");
    let check = format!("ALTER DOMAIN d ADD CHECK ({} > 0)", deep("value"));
    assert_eq!(client.fails(&check), "54001");
    client.run(&format!("ALTER TABLE t ADD CHECK ({} > 0)", deep("a")));
    let default = format!("ALTER TABLE t ALTER b SET DEFAULT {}", deep("0"));
    client.run(&default);
    client.run("INSERT INTO t VALUES (1)");
    assert_eq!(client.value("SELECT b FROM t"), LEVELS.to_string());
}
