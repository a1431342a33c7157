//! Split statements return the same results as on one machine.

use super::*;

const SPLIT: [&str; 52] = [
    "SELECT * FROM t",
    "SELECT a FROM t WHERE b = 3",
    "SELECT a + b, upper(e) FROM t WHERE c > 900000000000 AND e LIKE 'text 1%'",
    "SELECT a, f FROM t WHERE f >= '2024-01-10' AND h",
    "SELECT a FROM t WHERE h IS NULL",
    "SELECT a FROM t WHERE false",
    "SELECT e, 'literal', NULL, 1.5 FROM t WHERE a > 100 AND a < 120",
    "SELECT count(*) FROM t",
    "SELECT count(*), count(b), count(h), count(j) FROM t",
    "SELECT sum(b), sum(c), sum(d), sum(g) FROM t",
    "SELECT avg(b), avg(c), avg(d), avg(g) FROM t",
    "SELECT min(a), max(a), min(e), max(e), min(f), max(d), max(k), min(l), max(i) FROM t",
    "SELECT bool_and(h), bool_or(h), every(a > 0) FROM t",
    "SELECT sum(a + b) * 2, count(*) FILTER (WHERE b > 5) FROM t WHERE a % 2 = 0",
    "SELECT count(*), sum(b), min(e) FROM t WHERE a > 100000",
    "SELECT b, count(*) FROM t GROUP BY b",
    "SELECT b, h, sum(a), avg(d) FROM t GROUP BY b, h",
    "SELECT b % 2, count(*) FROM t GROUP BY b % 2 HAVING count(*) > 100",
    "SELECT e, max(a) FROM t GROUP BY e HAVING max(a) > 880 ORDER BY e DESC",
    "SELECT b, count(*) AS n FROM t GROUP BY b ORDER BY n DESC, b LIMIT 3 OFFSET 1",
    "SELECT i, sum(c) FROM t WHERE j = 'three' GROUP BY i ORDER BY i",
    "SELECT b FROM t WHERE a > 100000 GROUP BY b",
    "SELECT DISTINCT b FROM t",
    "SELECT DISTINCT b, h FROM t ORDER BY b, h NULLS FIRST",
    "SELECT DISTINCT e FROM t ORDER BY e LIMIT 5",
    "SELECT DISTINCT now() FROM t",
    "SELECT DISTINCT current_user, current_setting('TimeZone'), statement_timestamp() = now() \
     FROM t",
    "SELECT a, e FROM t ORDER BY e, a",
    "SELECT a, b FROM t ORDER BY b DESC, a LIMIT 10",
    "SELECT a, b FROM t ORDER BY b DESC NULLS LAST, a LIMIT 10 OFFSET 95",
    "SELECT e FROM t ORDER BY d DESC LIMIT 4",
    "SELECT a FROM t ORDER BY a",
    "SELECT a FROM t ORDER BY a LIMIT 7",
    "SELECT a, b FROM t ORDER BY a DESC LIMIT 5 OFFSET 3",
    "SELECT a, b FROM t WHERE b IS NULL ORDER BY a DESC",
    "SELECT a FROM t WHERE a BETWEEN 100 AND 500 AND b = 2 ORDER BY a OFFSET 30",
    "SELECT a, b FROM t ORDER BY a, b LIMIT 3",
    "SELECT a FROM t ORDER BY a LIMIT NULL",
    "SELECT l::text, i::text FROM t WHERE a > 4 AND a < 7",
    "SELECT a FROM none",
    "SELECT count(*), sum(b), min(a), avg(b) FROM none",
    "SELECT b, count(*) FROM none GROUP BY b",
    "SELECT a FROM none ORDER BY a LIMIT 1",
    "SELECT * FROM few",
    "SELECT count(b), sum(b) FROM few",
    "SELECT count(DISTINCT b) FROM t",
    "SELECT count(DISTINCT b), sum(c), min(e) FROM t WHERE a > 33",
    "SELECT string_agg(e, ',' ORDER BY a DESC) FROM t WHERE a % 20 = 3",
    "SELECT b, count(DISTINCT h), sum(DISTINCT a % 7) FROM t WHERE a > 10 GROUP BY b \
     HAVING count(DISTINCT e) > 1",
    "SELECT string_agg(DISTINCT j, '-') FROM t",
    "SELECT count(DISTINCT a) FROM none",
    "SELECT a FROM few ORDER BY a DESC",
];

pub const WHOLE: [&str; 12] = [
    "SELECT a FROM t LIMIT 0",
    "SELECT a, b FROM t WHERE l = '2024-05-05 00:00+00' AND a < 10",
    "SELECT string_agg(e, ',') FROM t WHERE a < 20",
    "SELECT t.a FROM t JOIN plain ON plain.a = t.a",
    "SELECT count(*) FROM t x JOIN t y ON x.a = y.a",
    "SELECT n FROM (SELECT count(*) AS n FROM t) s",
    "SELECT count(*) FROM plain",
    "SELECT count(*) FROM t WHERE random() < 2",
    "SELECT a FROM t WHERE a IN (1, 2, 3)",
    "SELECT a FROM t WHERE a = 4",
    "SELECT a FROM t WHERE a < 5 FOR UPDATE",
    "SELECT 1",
];

#[test]
fn split_results_match_single_machine() {
    over_both(41, |machines| {
        tables(machines);
        for db in machines {
            let (mut session, mut local) = (splitting(db), staying(db));
            for setting in ["SET TimeZone = 'Asia/Tokyo'", "SET DateStyle = 'ISO, DMY'"] {
                session.batch(setting).expect("a setting");
                local.batch(setting).expect("a setting");
            }
            for sql in SPLIT {
                if sql.contains("now()") {
                    assert_eq!(session.query(sql, &[]).expect(sql).len(), 1, "{sql}");
                    continue;
                }
                same((db, &mut session), &mut local, (sql, &[]), true);
            }
            // A complete key is different: the statement may be shipped, or its row is read from
            // here.
            for sql in WHOLE {
                same((db, &mut session), &mut local, (sql, &[]), false);
            }
            // Without an order any rows may be returned, each of them once.
            for (sql, rows) in [
                ("SELECT a FROM t WHERE b = 3 LIMIT 20", 20),
                ("SELECT DISTINCT b FROM t LIMIT 100", 11),
                ("SELECT a FROM t OFFSET 890", 10),
            ] {
                let mut found = values(&session.query(sql, &[]).expect(sql), false);
                found.dedup();
                assert_eq!(found.len(), rows, "{sql}");
            }
        }
    });
}

#[test]
fn parameters_and_prepared_statements_go_along() {
    over_both(42, |machines| {
        tables(machines);
        let db = &machines[0];
        let (mut session, mut local) = (splitting(db), staying(db));
        let cases: [(&str, &[Value]); 6] = [
            ("SELECT a FROM t WHERE b = $1", params![3]),
            (
                "SELECT a, $2::text FROM t WHERE e = $1 ORDER BY a",
                params!["text 4", "two"],
            ),
            (
                "SELECT count(*), sum(a * $1) FROM t WHERE d < $2",
                params![2, 700],
            ),
            (
                "SELECT a FROM t ORDER BY a DESC LIMIT $1 OFFSET $2",
                params![4i64, 2i64],
            ),
            ("SELECT b + $1, count(*) FROM t GROUP BY b + $1", params![5]),
            (
                "SELECT count(*) FROM t WHERE f > $1",
                params!["2024-01-20 12:00"],
            ),
        ];
        for (sql, given) in cases {
            same((db, &mut session), &mut local, (sql, given), true);
        }
        let statement = session
            .prepare("SELECT sum(a) FROM t WHERE b = $1")
            .expect("prepares");
        for b in 0..10 {
            let before = parts(db).0;
            let sum: Option<i64> = session
                .query_one(&statement, params![b])
                .expect("a row")
                .get(0)
                .expect("a sum");
            assert!(parts(db).0 > before);
            let sum_of = |n: &i32| n % 7 != 0 && n % 10 == b;
            let expected: i32 = (1..=ROWS).filter(sum_of).sum();
            assert_eq!(sum, Some(i64::from(expected)));
        }
        let copy = "COPY (SELECT a, b FROM t WHERE a <= 20) TO STDOUT";
        let lines = |session: BlockingSession| {
            let text = session.into_inner().copy_out(copy).block_on();
            let text = String::from_utf8(text.expect("rows")).expect("a text");
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        let before = parts(db).0;
        let copied = lines(session);
        assert_eq!((copied.len(), parts(db).0), (20, before + 2));
        assert_eq!(copied, lines(local));
    });
}

/// Checks random combinations of conditions, keys and orders.
#[test]
fn random_split_statements_match_single_machine() {
    const TRIALS: u32 = 150;
    over_both(43, |machines| {
        tables(machines);
        let db = &machines[2];
        let (mut session, mut local) = (splitting(db), staying(db));
        let mut random = fencepost_fabric::Random::new(7);
        for _ in 0..TRIALS {
            let mut one_of =
                |list: &[&str]| list[random.below(list.len() as u64) as usize].to_owned();
            let conditions = [
                "b = 4",
                "b IS NULL",
                "h",
                "NOT h",
                "c > 1000000000000",
                "e LIKE '%1'",
                "d < 500.5",
                "g >= 100",
                "a % 3 = 1",
                "j IS NOT NULL",
                "a > 700",
                "a BETWEEN 50 AND 400",
                "i = '2024-01-05'",
                "k = 'k2'",
                "f < '2024-01-15'",
                "true",
            ];
            let between = [" AND ", " OR "];
            let condition = format!(
                "({}{}{}){}{}",
                one_of(&conditions),
                one_of(&between),
                one_of(&conditions),
                one_of(&between),
                one_of(&conditions)
            );
            let keys = ["b", "h", "e", "a % 10", "i", "j"];
            let sums = [
                "count(*)",
                "sum(c)",
                "avg(d)",
                "min(e)",
                "max(f)",
                "count(j)",
                "sum(d)",
                "bool_or(h)",
                "avg(b)",
                "sum(g)",
            ];
            let sql = match one_of(&["groups", "all", "rows", "first", "index", "distinct"])
                .as_str()
            {
                "groups" => {
                    let key = one_of(&keys);
                    format!(
                        "SELECT {key}, {}, {} FROM t WHERE {condition} GROUP BY {key}",
                        one_of(&sums),
                        one_of(&sums)
                    )
                }
                "all" => format!(
                    "SELECT {}, {}, {} FROM t WHERE {condition}",
                    one_of(&sums),
                    one_of(&sums),
                    one_of(&sums)
                ),
                "rows" => format!("SELECT a, {} FROM t WHERE {condition}", one_of(&keys)),
                "first" => format!(
                    "SELECT a, {} FROM t WHERE {condition} ORDER BY {} {}, a LIMIT {} OFFSET {}",
                    one_of(&keys),
                    one_of(&["b", "e", "d", "h", "f"]),
                    one_of(&["ASC", "DESC", "DESC NULLS LAST"]),
                    one_of(&["1", "10", "200"]),
                    one_of(&["0", "3", "100"])
                ),
                "index" => format!(
                    "SELECT a, e FROM t WHERE {condition} ORDER BY a {} LIMIT {}",
                    one_of(&["ASC", "DESC"]),
                    one_of(&["5", "100", "NULL"])
                ),
                _ => format!(
                    "SELECT DISTINCT {}, {} FROM t WHERE {condition}",
                    one_of(&keys),
                    one_of(&keys)
                ),
            };
            same((db, &mut session), &mut local, (&sql, &[]), true);
        }
    });
}
