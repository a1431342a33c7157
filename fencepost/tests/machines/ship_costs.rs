//! The counted messages of a shipped statement: the request, a COMMIT-BACKUP to each backup, and
//! the reply.

use fencepost::{Database, Value, params};
use fencepost_txn::network::{PostKind, Traffic};

use crate::between::{Interconnect, seen, shipping};

const STATEMENTS: u64 = 20;

/// Returns the messages that each machine has posted since `before`, without background messages:
/// status pages, time, truncation.
fn posted(machines: &[Database], before: &[Traffic]) -> Vec<Vec<(PostKind, u64)>> {
    let by_itself = [PostKind::Board, PostKind::Message, PostKind::Truncate];
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
fn shipped_statement_sends_request_backups_and_reply_only() {
    for between in [Interconnect::memory(), Interconnect::network(31)] {
        let machines = between.machines(3);
        let mut session = shipping(&machines[2]);
        session
            .batch(
                "CREATE TABLE t (a int PRIMARY KEY, b int) PARTITION BY HASH (a) \
                 WITH (partitions = 4)",
            )
            .expect("a table");
        seen(&machines);
        session
            .batch("INSERT INTO t SELECT i, 0 FROM generate_series(1, 100) i")
            .expect("rows");
        for home in ["m1", "m2"] {
            let is_there = |key: &i32| {
                let plan =
                    session.query(&format!("EXPLAIN UPDATE t SET b = 1 WHERE a = {key}"), &[]);
                let plan = plan.expect("a plan");
                let line = format!("Shipped to: {home}");
                plan.iter().any(|row| row.values()[0] == Value::text(&line))
            };
            let key = (1..=100).find(is_there).expect("one of many");
            let mut update = |times: u64| {
                for _ in 0..times {
                    let done = session.execute("UPDATE t SET b = b + 1 WHERE a = $1", params![key]);
                    assert_eq!(done.expect("updates"), 1);
                }
            };
            // Warm up: make the plans and cache their data.
            update(3);
            let before: Vec<Traffic> = machines.iter().map(|db| db.machine().traffic()).collect();
            update(STATEMENTS);
            let at_home = [
                (PostKind::CommitBackup, 2 * STATEMENTS),
                (PostKind::Answer, STATEMENTS),
            ];
            let at_sender = [(PostKind::Request, STATEMENTS)];
            let expected = match home {
                "m1" => [at_home.to_vec(), Vec::new(), at_sender.to_vec()],
                _ => [Vec::new(), at_home.to_vec(), at_sender.to_vec()],
            };
            assert_eq!(posted(&machines, &before), expected, "{home}");
        }
    }
}
