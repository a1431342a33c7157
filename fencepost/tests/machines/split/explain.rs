//! The messages of a split statement, and its EXPLAIN output.

use super::results::WHOLE;
use super::*;

/// Returns the messages that each machine has posted since `before`, without background messages.
fn posted(machines: &[Database], before: &[Traffic]) -> Vec<Vec<(PostKind, u64)>> {
    let by_itself = [
        PostKind::Board,
        PostKind::Message,
        PostKind::Truncate,
        PostKind::Unreserve,
    ];
    let of = |(db, before): (&Database, &Traffic)| {
        let posted = db.machine().traffic().since(before);
        let counts = PostKind::ALL
            .into_iter()
            .map(|what| (what, posted.of(what)));
        let counts = counts.filter(|(what, count)| *count > 0 && !by_itself.contains(what));
        counts.collect()
    };
    machines.iter().zip(before).map(of).collect()
}

#[test]
fn split_count_sends_one_request_per_machine_and_no_reads() {
    const RUNS: u64 = 5;
    let between = Interconnect::network(44);
    let machines = between.machines(2);
    tables(&machines);
    let mut session = machines[0].blocking();
    for sql in [
        "SELECT count(*) FROM t",
        "SELECT b, sum(c) FROM t WHERE e LIKE '%1%' GROUP BY b",
        "SELECT a, e FROM t ORDER BY d DESC LIMIT 10",
        "SELECT a FROM t WHERE b = 4",
    ] {
        session.query(sql, &[]).expect("runs, and is planned");
        let before: Vec<Traffic> = machines.iter().map(|db| db.machine().traffic()).collect();
        for _ in 0..RUNS {
            session.query(sql, &[]).expect("runs");
        }
        let expected = [
            vec![(PostKind::Request, 2 * RUNS)],
            vec![(PostKind::Answer, RUNS)],
            vec![(PostKind::Answer, RUNS)],
        ];
        assert_eq!(posted(&machines, &before), expected, "{sql}");
    }
    // Without a split, rows that only one other machine has are read from here.
    let before: Vec<Traffic> = machines.iter().map(|db| db.machine().traffic()).collect();
    staying(&machines[0])
        .query("SELECT sum(c) FROM t", &[])
        .expect("runs");
    let reads = posted(&machines, &before)[0]
        .iter()
        .find(|(what, _)| *what == PostKind::Object)
        .map(|(_, n)| *n);
    assert!(reads > Some(ROWS as u64 / 2), "{reads:?}");
}

/// Returns the plan of a statement, without its time.
fn explained(session: &mut BlockingSession, sql: &str) -> Vec<String> {
    let rows = session.query(sql, &[]).expect(sql);
    let line = |row: &Row| row.get::<String>(0).expect("a line");
    let lines = rows.iter().map(line);
    lines
        .filter(|line| !line.starts_with("Execution Time"))
        .collect()
}

const GROUPED: &str =
    "SELECT b, count(*) FROM t WHERE a > 10 GROUP BY b HAVING count(*) > 1 ORDER BY b LIMIT 2";

#[test]
fn explain_shows_split_and_part_results() {
    over_both(50, |machines| {
        tables(machines);
        let mut session = splitting(&machines[0]);
        for (sql, plan) in [
            (
                GROUPED,
                "Limit
                   ->  Sort
                         Sort Key: b
                         ->  Finalize HashAggregate
                               Group Key: b
                               Filter: (count(*) > 1)
                               ->  Gather
                                     Machines: m1, m2, m3
                                     ->  Partial HashAggregate
                                           Group Key: b
                                           ->  Index Scan using t_pkey on t
                                                 Index Cond: (a > 10)
                                                 Partitions: 7 of 7",
            ),
            (
                "SELECT count(*) FROM t",
                "Finalize Aggregate
                   ->  Gather
                         Machines: m1, m2, m3
                         ->  Partial Aggregate
                               ->  Seq Scan on t
                                     Partitions: 7 of 7",
            ),
            (
                "SELECT a FROM t WHERE b = 4 ORDER BY d LIMIT 3",
                "Limit
                   ->  Sort
                         Sort Key: d
                         ->  Gather
                               Machines: m1, m2, m3
                               ->  Limit
                                     ->  Sort
                                           Sort Key: d
                                           ->  Seq Scan on t
                                                 Filter: (b = 4)
                                                 Partitions: 7 of 7",
            ),
            (
                "SELECT DISTINCT b FROM t ORDER BY b",
                "Sort
                   Sort Key: b
                   ->  HashAggregate
                         Group Key: b
                         ->  Gather
                               Machines: m1, m2, m3
                               ->  HashAggregate
                                     Group Key: b
                                     ->  Seq Scan on t
                                           Partitions: 7 of 7",
            ),
            (
                "SELECT a FROM t ORDER BY a DESC LIMIT 3",
                "Limit
                   ->  Gather Merge
                         Machines: m1, m2, m3
                         ->  Limit
                               ->  Index Scan Backward using t_pkey on t
                                     Partitions: 7 of 7",
            ),
        ] {
            let said = explained(&mut session, &format!("EXPLAIN {sql}"));
            let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(words(&said.join("\n")), words(plan), "{said:?}");
        }
        let said = explained(
            &mut session,
            "EXPLAIN SELECT count(DISTINCT b) FROM t WHERE b > 2",
        );
        let expected = [
            "Aggregate",
            "  ->  Gather",
            "        Machines: m1, m2, m3",
            "        ->  Seq Scan on t",
            "              Filter: (b > 2)",
            "              Partitions: 7 of 7",
        ];
        assert_eq!(said, expected);
        let said = explained(
            &mut session,
            "EXPLAIN ANALYZE SELECT b, count(*) FROM t WHERE b < 2 GROUP BY b",
        );
        assert_eq!(said[0], "Finalize HashAggregate (actual rows=2)");
        assert_eq!(said[3], "        Machines: m1, m2, m3");
        assert!(
            said[4].starts_with("        Returned: m2 rows=2 bytes="),
            "{said:?}"
        );
        assert_eq!(
            said.last().map(String::as_str),
            Some("Fabric: reads=0 messages=2")
        );
        // A result that is too long to be sent is shown, too.
        let said = explained(
            &mut session,
            "EXPLAIN ANALYZE SELECT repeat(e, 2000) FROM t",
        );
        assert_eq!(
            said[2], "  Returned: m2 none, run here, m3 none, run here",
            "{said:?}"
        );
        for sql in WHOLE {
            let said = explained(&mut session, &format!("EXPLAIN {sql}")).join("\n");
            assert!(
                !said.contains("Gather") || sql.contains("LIMIT 0"),
                "{said}"
            );
        }
        let analyze = "EXPLAIN ANALYZE SELECT count(*) FROM t";
        let gathers =
            |session: &mut BlockingSession| explained(session, analyze)[0].starts_with("Finalize");
        session.batch("BEGIN").expect("a block");
        assert!(!gathers(&mut session));
        session.batch("ROLLBACK; BEGIN READ ONLY").expect("a block");
        assert!(gathers(&mut session));
        session.batch("ROLLBACK").expect("ends");
        assert!(!gathers(&mut staying(&machines[0])));
        assert!(gathers(&mut session));
    });
}
