//! FOR UPDATE on rows whose lock queue is on another machine.

use fencepost::{BlockingSession, Row, params};

use crate::between::{Interconnect, number, until};

#[test]
fn rows_that_another_machines_session_has_locked_are_refused_or_left_out() {
    for between in [Interconnect::memory(), Interconnect::network(47)] {
        refused_or_left_out(&between);
    }
}

fn ids(session: &mut BlockingSession, sql: &str) -> Vec<i32> {
    let id = |row: &Row| row.get(0).expect("an integer");
    let rows = session.query(sql, &[]).expect(sql);
    rows.iter().map(id).collect()
}

fn refused_or_left_out(between: &Interconnect) {
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
        // A second query keeps the lock.
        assert_eq!(
            ids(session, "SELECT id FROM jobs FOR UPDATE SKIP LOCKED").len(),
            5 - job as usize
        );
        session.batch("ROLLBACK; BEGIN").expect("a block");
        let mine = "SELECT id FROM jobs WHERE id = $1 FOR UPDATE NOWAIT";
        session.query(mine, params![job]).expect("a job");
        // A block releases its locks at its end with a message to the rows' machine, without
        // waiting for it.
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
        // The end of a statement releases its locks in the same way.
        until(|| ids(session, NEXT) == [4]);
    }
}

#[test]
fn single_statement_waits_for_row_locked_on_another_machine() {
    for between in [Interconnect::memory(), Interconnect::network(48)] {
        waited_for(&between);
    }
}

fn waited_for(between: &Interconnect) {
    let machines = between.machines(1);
    machines[0]
        .blocking()
        .batch(
            "CREATE TABLE jobs (id int PRIMARY KEY, state text);
             INSERT INTO jobs SELECT g, 'new' FROM generate_series(1, 6) g",
        )
        .expect("jobs");
    let mut sessions: Vec<_> = machines.iter().map(|db| db.blocking()).collect();
    for at in 0..sessions.len() {
        let [holder, ..] = &mut sessions[at..] else {
            panic!("a session");
        };
        holder.batch("BEGIN").expect("a block");
        let locked = "SELECT id FROM jobs ORDER BY id FOR UPDATE";
        assert_eq!(ids(holder, locked).len(), 6);
        let others = (0..sessions.len()).filter(|other| *other != at);
        for other in others.collect::<Vec<_>>() {
            let session = &mut sessions[other];
            session.batch("SET lock_timeout = 50").expect("a setting");
            for (sql, id) in [
                (
                    "UPDATE jobs SET state = 'taken' WHERE id = $1",
                    1 + other as i32,
                ),
                ("DELETE FROM jobs WHERE id = $1", 4 + other as i32),
            ] {
                let refused = session.execute(sql, params![id]).expect_err("it is locked");
                assert_eq!(refused.code().as_str(), "55P03", "{sql}");
            }
        }
        let holder = &mut sessions[at];
        let changed = "UPDATE jobs SET state = state || '.'";
        assert_eq!(holder.execute(changed, &[]).expect("its rows"), 6);
        holder.batch("COMMIT").expect("a commit without a conflict");
    }
}
