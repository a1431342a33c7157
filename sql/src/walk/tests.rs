//! Tests: a walk visits every part of a statement exactly once.

use sqlparser::ast::{Expr, Ident, ObjectName, Query};

use super::{TreeMut, Visitor, VisitorMut, Walk};
use crate::error::SqlError;
use crate::parser::{Statement, parse};

/// The parts that a walk has visited.
#[derive(Debug, Default)]
struct VisitedParts {
    open: usize,
    relations: Vec<String>,
    names: Vec<String>,
}

impl Visitor for VisitedParts {
    fn query(&mut self, _: &Query) -> Result<(), SqlError> {
        self.open += 1;
        Ok(())
    }

    fn query_end(&mut self) {
        self.open -= 1;
    }

    fn relation(&mut self, name: &ObjectName) -> Result<(), SqlError> {
        self.relations.push(name.to_string());
        Ok(())
    }

    fn expr(&mut self, expr: &Expr) -> Result<(), SqlError> {
        if let Expr::Identifier(name) = expr {
            self.names.push(name.value.clone());
        }
        Ok(())
    }
}

/// A visitor that writes names in capitals.
struct Capitalizer;

impl VisitorMut for Capitalizer {
    fn expr_end(&mut self, expr: &mut Expr) {
        if let Expr::Identifier(name) = expr {
            *expr = Expr::Identifier(Ident::new(name.value.to_uppercase()));
        }
    }
}

/// Checks a statement whose columns are x1, x2 and so on, and whose relations are r1, r2 and so on.
fn holds(sql: &str) {
    let parsed = parse(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    let Statement::Sql(tree) = parsed[0].statement() else {
        panic!("{sql}: not for sqlparser");
    };
    let mut met = VisitedParts::default();
    let walk = Walk(&mut met).statement(tree);
    walk.expect("nothing breaks it off");
    assert_eq!(met.open, 0, "{sql}");
    let written = |of: char| {
        let words = sql.split(|c: char| !c.is_alphanumeric());
        let numbered = |word: &&str| word.starts_with(of) && word[1..].parse::<u32>().is_ok();
        let mut found: Vec<&str> = words.filter(numbered).collect();
        found.sort_unstable();
        found
    };
    let mut names: Vec<&str> = met.names.iter().map(String::as_str).collect();
    names.retain(|name| name.starts_with('x'));
    names.sort_unstable();
    // A function in FROM also counts as a relation.
    met.relations.retain(|name| name.starts_with('r'));
    met.relations.sort_unstable();
    assert_eq!(names, written('x'), "{sql}");
    assert_eq!(met.relations, written('r'), "{sql}");
    let mut changed = tree.clone();
    let walk = changed.walk_mut(&mut Capitalizer);
    walk.expect("nothing breaks it off");
    let mut again = VisitedParts::default();
    let walk = Walk(&mut again).statement(&changed);
    walk.expect("nothing breaks it off");
    let capitals = met.names.iter().map(|name| name.to_uppercase());
    assert!(capitals.eq(again.names), "{sql}");
}

#[test]
fn every_part_of_an_expression_is_met() {
    for expr in [
        "x1 + x2 * -x3",
        "NOT x1 AND (x2 OR x3)",
        "x1 IS NULL OR x2 IS NOT NULL OR x3 IS TRUE OR x4 IS NOT TRUE OR x5 IS FALSE",
        "x1 IS NOT FALSE OR x2 IS UNKNOWN OR x3 IS NOT UNKNOWN OR x4 IS NORMALIZED",
        "x1 IS DISTINCT FROM x2 OR x3 IS NOT DISTINCT FROM x4",
        "x1 IN (x2, x3) OR x4 IN (SELECT x5 FROM r1)",
        "x1 BETWEEN x2 AND x3",
        "x1 LIKE x2 OR x3 ILIKE x4 OR x5 SIMILAR TO x6",
        "x1 = ANY(x2) OR x3 < ALL(x4) OR x5 = ANY(SELECT x6 FROM r1)",
        "x1::text || CAST(x2 AS text) || x3 COLLATE \"C\"",
        "x1 AT TIME ZONE x2",
        "extract(day FROM x1) + ceil(x2) + floor(x3)",
        "position(x1 IN x2) + length(substring(x3 FROM x4 FOR x5))",
        "trim(BOTH x1 FROM x2) || overlay(x3 PLACING x4 FROM x5 FOR x6)",
        "CASE x1 WHEN x2 THEN x3 ELSE x4 END",
        "EXISTS (SELECT x1 FROM r1) OR (SELECT x2 FROM r2)",
        "ARRAY[x1, x2] || ARRAY(SELECT x3 FROM r1)",
        "(x1)[x2] + (x3)[x4:x5]",
        "ROW(x1, x2) = (x3, x4)",
        "f(x1, a => x2)",
        "sum(x1 ORDER BY x2) FILTER (WHERE x3)",
        "percentile_cont(x1) WITHIN GROUP (ORDER BY x2)",
        "sum(x1) OVER (PARTITION BY x2 ORDER BY x3 ROWS BETWEEN x4 PRECEDING AND x5 FOLLOWING)",
    ] {
        holds(&format!("SELECT {expr}"));
        holds(&format!("SELECT 1 FROM r9 WHERE {expr}"));
    }
}

#[test]
fn every_part_of_a_query_is_met() {
    for sql in [
        "SELECT DISTINCT ON (x1) x2 AS a FROM r1 WHERE x3 GROUP BY x4 HAVING x5 ORDER BY x6 \
         LIMIT x7 OFFSET x8",
        "SELECT 1 FROM r1 GROUP BY ROLLUP (x1), CUBE (x2), GROUPING SETS ((x3), (x4))",
        "SELECT 1 FROM r1 WINDOW w AS (PARTITION BY x1 ORDER BY x2)",
        "SELECT x1 FROM r1 JOIN r2 ON x2 LEFT JOIN r3 ON x3 RIGHT JOIN r4 ON x4 FULL JOIN r5 ON x5",
        "SELECT x1 FROM r1 CROSS JOIN r2, (r3 JOIN r4 ON x2) JOIN LATERAL (SELECT x3 FROM r5) \
         AS s ON x4",
        "SELECT 1 FROM f(x1, x2), unnest(x3, x4) WITH ORDINALITY AS u, LATERAL g(x5) AS h",
        "SELECT 1 FROM r1 TABLESAMPLE bernoulli (x1)",
        "SELECT x1 FROM r1 UNION ALL SELECT x2 FROM r2 EXCEPT (SELECT x3 FROM r3 ORDER BY x4)",
        "VALUES (x1, x2), (x3, x4)",
        "WITH a AS (SELECT x1 FROM r1), b AS (INSERT INTO r2 VALUES (x2) RETURNING x3) SELECT x4 \
         FROM r3",
    ] {
        holds(sql);
    }
}

#[test]
fn every_part_of_a_statement_is_met() {
    for sql in [
        "INSERT INTO r1 (a) SELECT x1 FROM r2 ON CONFLICT (a) DO UPDATE SET a = x2 WHERE x3 \
         RETURNING x4",
        "UPDATE r1 SET a = x1, (b, c) = (x2, x3) FROM r2 JOIN r3 ON x4 WHERE x5 RETURNING x6",
        "DELETE FROM r1 USING r2 WHERE x1 RETURNING x2",
        "MERGE INTO r1 USING r2 ON x1 WHEN MATCHED AND x2 THEN UPDATE SET a = x3 WHEN NOT MATCHED \
         THEN INSERT (a) VALUES (x4)",
        "CREATE TABLE r1 (a int DEFAULT x1, b int CHECK (x2), c int GENERATED ALWAYS \
         AS (x3) STORED, CHECK (x4))",
        "CREATE TABLE r1 (a int) PARTITION BY RANGE (x1)",
        "CREATE TABLE r1 PARTITION OF r2 FOR VALUES FROM (x1) TO (x2)",
        "CREATE TABLE r1 PARTITION OF r2 FOR VALUES IN (x1, x2)",
        "CREATE TABLE r1 AS SELECT x1 FROM r2",
        "CREATE VIEW r1 AS SELECT x1 FROM r2",
        "CREATE INDEX i ON r1 (x1, (x2 + x3)) WHERE x4",
        "ALTER TABLE r1 ADD COLUMN a int DEFAULT x1",
        "ALTER TABLE r1 ADD CONSTRAINT c CHECK (x1)",
        "ALTER TABLE r1 ALTER COLUMN a SET DEFAULT x1",
        "ALTER TABLE r1 ALTER COLUMN a TYPE text USING x1",
        "TRUNCATE r1, r2",
        "EXECUTE p(x1, x2)",
    ] {
        holds(sql);
    }
}

#[test]
fn longest_chain_fits_small_stack() {
    let walked = || {
        let sql = format!("SELECT x1{}", " AND x1".repeat(3900));
        let parsed = parse(&sql).expect("it parses");
        let Statement::Sql(tree) = parsed[0].statement() else {
            panic!("not for sqlparser");
        };
        let mut met = VisitedParts::default();
        let walk = Walk(&mut met).statement(tree);
        walk.expect("nothing breaks it off");
        assert_eq!(met.names.len(), 3901);
    };
    let thread = std::thread::Builder::new().stack_size(2 << 20);
    let thread = thread.spawn(walked).expect("a thread starts");
    thread.join().expect("it fits");
}
