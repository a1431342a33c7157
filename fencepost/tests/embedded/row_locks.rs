//! FOR UPDATE in several sessions: waits, refusals, and the rows that SKIP LOCKED returns.

use std::collections::HashSet;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;

use fencepost::{BlockingSession, Database, Row, SqlState, params};

fn ids(rows: &[Row]) -> Vec<i32> {
    let id = |row: &Row| row.get(0).expect("an integer");
    rows.iter().map(id).collect()
}

fn database(jobs: i32) -> Database {
    let db = Database::in_memory().expect("a database in memory");
    let mut session = db.blocking();
    let table = "CREATE TABLE jobs (id int PRIMARY KEY, state text, prio int)";
    session.batch(table).expect("a table");
    let fill = "INSERT INTO jobs SELECT g, 'new', g % 7 FROM generate_series(1, $1) g";
    session.execute(fill, params![jobs]).expect("jobs");
    db
}

fn query(session: &mut BlockingSession, sql: &str) -> Vec<i32> {
    ids(&session.query(sql, &[]).expect(sql))
}

fn refused(session: &mut BlockingSession, sql: &str) -> String {
    let error = session.query(sql, &[]).expect_err(sql);
    error.code().as_str().to_owned()
}

#[test]
fn row_lock_wait_ends_at_lock_timeout() {
    let db = database(3);
    let (mut one, mut other) = (db.blocking(), db.blocking());
    let lock = "SELECT id FROM jobs WHERE id = 2 FOR UPDATE";
    one.batch("BEGIN").expect("a block");
    assert_eq!(query(&mut one, lock), [2]);
    other.batch("SET lock_timeout = '20ms'").expect("a setting");
    for sql in [
        lock,
        "UPDATE jobs SET state = 'done' WHERE id = 2 RETURNING id",
        "DELETE FROM jobs WHERE id > 0 RETURNING id",
    ] {
        assert_eq!(refused(&mut other, sql), "55P03", "{sql}");
    }
    one.batch("ROLLBACK").expect("the end");
    assert_eq!(query(&mut other, lock), [2]);
}

#[test]
fn rows_that_others_have_locked_are_refused_or_left_out() {
    let db = database(6);
    let (mut one, mut other) = (db.blocking(), db.blocking());
    one.batch("BEGIN").expect("a block");
    let two = "SELECT id FROM jobs WHERE state = 'new' ORDER BY id LIMIT 2 FOR UPDATE";
    assert_eq!(query(&mut one, two), [1, 2]);
    other.batch("BEGIN").expect("a block");
    let rest = "SELECT id FROM jobs WHERE prio > 0 ORDER BY id FOR UPDATE SKIP LOCKED";
    assert_eq!(query(&mut other, rest), [3, 4, 5, 6]);
    // Without an index for the order, and by keys.
    other.batch("ROLLBACK; BEGIN").expect("a block");
    let sorted =
        "SELECT id FROM jobs ORDER BY prio DESC, id LIMIT 3 OFFSET 1 FOR UPDATE SKIP LOCKED";
    assert_eq!(query(&mut other, sorted), [5, 4, 3]);
    let by_key = "SELECT id FROM jobs WHERE id IN (1, 3) FOR UPDATE SKIP LOCKED";
    assert_eq!(query(&mut other, by_key), [3]);
    let joined =
        "SELECT j.id FROM jobs j JOIN jobs k ON k.id = j.id + 3 WHERE j.prio > 0 AND j.id < 4
        FOR UPDATE OF k SKIP LOCKED";
    assert_eq!(query(&mut other, joined), [1, 2, 3]);
    for sql in [
        "SELECT id FROM jobs WHERE id = 1 FOR UPDATE NOWAIT",
        "SELECT id FROM jobs WHERE state = 'new' FOR SHARE NOWAIT",
        "SELECT id FROM jobs ORDER BY prio LIMIT 5 FOR UPDATE NOWAIT",
    ] {
        other.batch("SAVEPOINT s").expect("a savepoint");
        assert_eq!(refused(&mut other, sql), "55P03", "{sql}");
        other.batch("ROLLBACK TO s").expect("the savepoint");
    }
    other.batch("COMMIT").expect("a commit");
    one.batch("COMMIT").expect("a commit");
    assert_eq!(query(&mut other, two), [1, 2]);
}

#[test]
fn lock_waiter_sees_changed_row() {
    let db = database(3);
    let mut one = db.blocking();
    one.batch("BEGIN").expect("a block");
    let lock = "SELECT id FROM jobs WHERE state = 'new' ORDER BY id FOR UPDATE";
    assert_eq!(query(&mut one, lock), [1, 2, 3]);
    let (begun, has_begun) = channel();
    let waiter = thread::spawn({
        let db = db.clone();
        move || {
            let mut session = db.blocking();
            session.batch("BEGIN").expect("a block");
            begun.send(()).expect("the test");
            let got = query(&mut session, lock);
            session
                .execute("UPDATE jobs SET state = 'mine' WHERE state = 'new'", &[])
                .expect("rows that are locked");
            session
                .batch("COMMIT")
                .expect("a commit without a conflict");
            got
        }
    });
    has_begun.recv().expect("the waiter");
    one.execute("UPDATE jobs SET state = 'taken' WHERE id = 2", &[])
        .expect("a locked row");
    one.batch("COMMIT").expect("a commit");
    assert_eq!(waiter.join().expect("the waiter"), [1, 3]);
}

/// Runs workers that take jobs with `take` until none is left. Each job is taken once, and no
/// worker meets a conflict.
fn drain(jobs: i32, take: &'static [&'static str]) {
    let db = database(jobs);
    let done = Arc::new(Mutex::new(Vec::new()));
    let workers: Vec<_> = (0..8)
        .map(|_| {
            let (db, done) = (db.clone(), Arc::clone(&done));
            thread::spawn(move || {
                let mut session = db.blocking();
                loop {
                    session.batch("BEGIN").expect("a block");
                    let rows = session.query(take[0], &[]).expect("a job, or none");
                    let Some(job) = ids(&rows).pop() else {
                        session.batch("COMMIT").expect("a commit");
                        let left = "SELECT count(*)::int FROM jobs WHERE state = 'new'";
                        match query(&mut session, left)[0] {
                            0 => return,
                            // Other workers hold the remaining jobs, and may still release them.
                            _ => continue,
                        }
                    };
                    for then in &take[1..] {
                        session.execute(*then, params![job]).expect("the job's end");
                    }
                    session
                        .batch("COMMIT")
                        .expect("a commit without a conflict");
                    done.lock().expect("the list").push(job);
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().expect("a worker");
    }
    let done = done.lock().expect("the list");
    let different: HashSet<i32> = done.iter().copied().collect();
    assert_eq!(
        (done.len(), different.len()),
        (jobs as usize, jobs as usize)
    );
}

#[test]
fn skip_locked_queue_takes_each_job_once_in_key_order() {
    drain(
        200,
        &[
            "SELECT id FROM jobs WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED",
            "UPDATE jobs SET state = 'done' WHERE id = $1",
        ],
    );
}

#[test]
fn skip_locked_queue_takes_each_job_once_without_index() {
    drain(
        100,
        &[
            "SELECT id FROM jobs WHERE state = 'new' ORDER BY prio DESC, id LIMIT 1 \
             FOR UPDATE SKIP LOCKED",
            "DELETE FROM jobs WHERE id = $1",
        ],
    );
}

#[test]
fn skip_locked_delete_takes_each_job_once() {
    drain(
        200,
        &["DELETE FROM jobs WHERE id =
            (SELECT id FROM jobs ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id"],
    );
}

#[test]
fn writer_waits_for_all_sharing_sessions() {
    let db = database(3);
    let share = "SELECT id FROM jobs WHERE id > 1 FOR SHARE";
    let mut sharing = [db.blocking(), db.blocking(), db.blocking()];
    for session in &mut sharing[..2] {
        session.batch("BEGIN").expect("a block");
        assert_eq!(query(session, share), [2, 3]);
    }
    let waits = || db.machine().counters().totals().intent_waits;
    let writer = thread::spawn({
        let db = db.clone();
        move || {
            let mut session = db.blocking();
            session.batch("BEGIN").expect("a block");
            let done = "UPDATE jobs SET state = 'done' WHERE id = 2";
            session.execute(done, &[]).expect("its turn");
            session.batch("COMMIT").expect("no conflict");
        }
    });
    while waits() == 0 {
        assert!(!writer.is_finished(), "it did not wait");
        thread::yield_now();
    }
    // A session that shares the row does not wait behind the writer.
    sharing[2].batch("BEGIN").expect("a block");
    assert_eq!(query(&mut sharing[2], share), [2, 3]);
    let blocked = "SELECT cardinality(pg_blocking_pids(pid)) FROM pg_stat_activity
        WHERE wait_event = 'tuple'";
    assert_eq!(query(&mut db.blocking(), blocked), [3]);
    let modes = "SELECT count(*)::int FROM pg_locks WHERE locktype = 'tuple'
        GROUP BY mode, granted ORDER BY mode, granted";
    assert_eq!(query(&mut db.blocking(), modes), [1, 6]);
    for session in &mut sharing {
        assert!(!writer.is_finished(), "it did not wait for all");
        session.batch("COMMIT").expect("nothing has changed");
    }
    writer.join().expect("the writer");
    let done = "SELECT count(*)::int FROM jobs WHERE state = 'done'";
    assert_eq!(query(&mut db.blocking(), done), [1]);
}

#[test]
fn two_writers_of_shared_row_deadlock() {
    let db = database(3);
    let mut sharing = [db.blocking(), db.blocking()];
    for session in &mut sharing {
        session.batch("BEGIN").expect("a block");
        let share = "SELECT id FROM jobs WHERE id = 1 FOR SHARE";
        assert_eq!(query(session, share), [1]);
    }
    let ends = thread::scope(|scope| {
        let write = |session: &mut BlockingSession| {
            let more = "UPDATE jobs SET prio = prio + 1 WHERE id = 1";
            let written = session.execute(more, &[]).map_err(|error| error.code());
            let end = if written.is_ok() {
                "COMMIT"
            } else {
                "ROLLBACK"
            };
            session.batch(end).expect("its end");
            written
        };
        let all = sharing.iter_mut();
        let all: Vec<_> = all
            .map(|session| scope.spawn(move || write(session)))
            .collect();
        let ends = all.into_iter().map(|one| one.join().expect("no panic"));
        ends.collect::<Vec<_>>()
    });
    let errors = ends.iter().filter_map(|end| end.as_ref().err());
    assert_eq!(errors.collect::<Vec<_>>(), [&SqlState::DEADLOCK_DETECTED]);
    let prio = "SELECT prio FROM jobs WHERE id = 1";
    assert_eq!(query(&mut db.blocking(), prio), [2]);
}
