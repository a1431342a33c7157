//! FOR UPDATE on rows whose line is at another machine.

use fencepost::{BlockingSession, Row, params};

use crate::between::{Between, number, until};

#[test]
fn rows_that_another_machines_session_has_locked_are_refused_or_left_out() {
    for between in [Between::memory(), Between::network(47)] {
        refused_or_left_out(&between);
    }
}

fn ids(session: &mut BlockingSession, sql: &str) -> Vec<i32> {
    let id = |row: &Row| row.get(0).expect("an integer");
    let rows = session.query(sql, &[]).expect(sql);
    rows.iter().map(id).collect()
}

fn refused_or_left_out(between: &Between) {
    const NEXT: &str =
        "SELECT id FROM jobs WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED";
    const LOCKED: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'tuple' AND granted";
    let machines = between.machines(1);
    machines[0]
        .blocking()
        .batch(
            "CREATE TABLE jobs (id int PRIMARY KEY, state text);
             INSERT INTO jobs SELECT g, 'new' FROM generate_series(1, 4) g",
        )
        .expect("jobs");
    let mut sessions: Vec<_> = machines.iter().map(|db| db.blocking()).collect();
    for (session, job) in sessions.iter_mut().zip(1..) {
        session.batch("BEGIN").expect("a block");
        assert_eq!(ids(session, NEXT), [job]);
        // Asked twice, it is still theirs.
        assert_eq!(
            ids(session, "SELECT id FROM jobs FOR UPDATE SKIP LOCKED").len(),
            5 - job as usize
        );
        session.batch("ROLLBACK; BEGIN").expect("a block");
        let mine = "SELECT id FROM jobs WHERE id = $1 FOR UPDATE NOWAIT";
        session.query(mine, params![job]).expect("a job");
        // What a block gives back at its end it tells the rows' machine, and does not wait for it.
        until(|| number(session, LOCKED) == i64::from(job));
    }
    let [first, second, _] = &mut sessions[..] else {
        panic!("three sessions");
    };
    for (session, job) in [(first, 2), (second, 1)] {
        session.batch("SAVEPOINT s").expect("a savepoint");
        let theirs = "SELECT id FROM jobs WHERE id = $1 FOR UPDATE NOWAIT";
        let refused = session.query(theirs, params![job]).expect_err("another's");
        assert_eq!(refused.code().as_str(), "55P03");
        session.batch("ROLLBACK TO s").expect("the savepoint");
    }
    for (session, job) in sessions.iter_mut().zip(1..) {
        let done = "UPDATE jobs SET state = 'done' WHERE id = $1";
        session.execute(done, params![job]).expect("the job's end");
        session
            .batch("COMMIT")
            .expect("a commit without a conflict");
    }
    for session in &mut sessions {
        // So does the end of a statement.
        until(|| ids(session, NEXT) == [4]);
    }
}
