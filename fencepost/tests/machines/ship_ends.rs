//! Shipped statements that are ended early: by a cancel, a closed machine, or a broken connection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fencepost::{Error, Session, SqlState};
use pollster::FutureExt;

use crate::between::{number, over_both, seen, sent, shipping, staying, until};

#[test]
fn cancel_ends_shipped_statement() {
    over_both(6, |machines| {
        let mut holder = staying(&machines[1]);
        holder
            .batch("CREATE TABLE t (a int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0)")
            .expect("a table");
        seen(machines);
        holder
            .batch("BEGIN; UPDATE t SET n = 5 WHERE a = 1")
            .expect("holds the row");
        let add = "UPDATE t SET n = n + 1 WHERE a = 1";
        for cancelled in [true, false] {
            let mut session = machines[0].session();
            let token = session.cancel_token();
            let over = AtomicBool::new(false);
            let served = machines[1].shipped().served;
            thread::scope(|scope| {
                let waits = scope.spawn(|| {
                    let ship = "SET fencepost.ship = always";
                    session.batch(ship).block_on().expect("a setting");
                    if !cancelled {
                        let limit = "SET statement_timeout = '100ms'";
                        session.batch(limit).block_on().expect("a setting");
                    }
                    let ended = timed(&mut session, add);
                    over.store(true, Ordering::Release);
                    ended
                });
                until(|| machines[1].shipped().served > served || over.load(Ordering::Acquire));
                if cancelled {
                    assert!(!over.load(Ordering::Acquire), "it waits");
                    thread::sleep(Duration::from_millis(20));
                    token.cancel();
                }
                let error = waits.join().expect("no panic").expect_err("is ended");
                assert_eq!(error.code(), SqlState::QUERY_CANCELED);
                let why = if cancelled {
                    "user request"
                } else {
                    "statement timeout"
                };
                assert!(error.to_string().contains(why), "{error}");
            });
        }
        // Dropping the future ends the statement, too.
        let mut session = machines[0].session();
        let ship = "SET fencepost.ship = always";
        session.batch(ship).block_on().expect("a setting");
        let before = machines[1].shipped().served;
        let mut statement = Box::pin(session.execute(add, &[]));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        until(|| {
            assert!(statement.as_mut().poll(&mut cx).is_pending());
            machines[1].shipped().served > before
        });
        drop(statement);
        until(|| machines[0].machine().is_at_rest());
        holder.batch("COMMIT").expect("lets go");
        let n = number(
            &mut staying(&machines[2]),
            "SELECT n::bigint FROM t WHERE a = 1",
        );
        assert_eq!(n, 5, "none of them took effect");
    });
}

/// Runs a statement like a caller with a timer: it is polled repeatedly.
fn timed(session: &mut Session, sql: &str) -> Result<u64, Error> {
    let statement = session.execute(sql, &[]);
    let mut statement = std::pin::pin!(statement);
    let polled = std::future::poll_fn(|cx| {
        let done = statement.as_mut().poll(cx);
        if done.is_pending() {
            thread::sleep(Duration::from_millis(1));
            cx.waker().wake_by_ref();
        }
        done
    });
    polled.block_on()
}

#[test]
fn closing_machine_ends_waiting_shipped_statements() {
    over_both(7, |machines| {
        let mut holder = staying(&machines[1]);
        holder
            .batch("CREATE TABLE t (a int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0), (2, 0)")
            .expect("a table");
        seen(machines);
        holder
            .batch("BEGIN; UPDATE t SET n = 5 WHERE a = 2")
            .expect("holds the row");
        let closed = AtomicBool::new(false);
        let mut waiter = machines[2].session();
        let token = waiter.cancel_token();
        thread::scope(|scope| {
            let busy = scope.spawn(|| {
                let mut session = shipping(&machines[0]);
                let mut done = 0;
                while !closed.load(Ordering::Acquire) {
                    let read = session.query("SELECT n FROM t WHERE a = 1", &[]);
                    assert_eq!(read.expect("reads").len(), 1);
                    done += 1;
                }
                done
            });
            let waits = scope.spawn(|| {
                timed(&mut waiter, "SET fencepost.ship = always").expect("a setting");
                timed(&mut waiter, "SELECT n FROM t WHERE a = 2 FOR UPDATE")
            });
            until(|| machines[1].shipped().served > 20 && sent(&machines[2]) == 1);
            machines[1].clone().close().expect("closes");
            closed.store(true, Ordering::Release);
            assert!(busy.join().expect("no panic") > 0);
            // The waiting statement was ended there, and runs here. If it waits for its turn here,
            // it is cancelled.
            until(|| machines[2].shipped().returned == 1);
            thread::sleep(Duration::from_millis(20));
            token.cancel();
            if let Err(ended) = waits.join().expect("no panic") {
                assert_eq!(ended.code(), SqlState::QUERY_CANCELED);
            }
        });
        let before = machines[0].shipped();
        let read = shipping(&machines[0]).query("SELECT n FROM t WHERE a = 1", &[]);
        assert_eq!(read.expect("runs here").len(), 1);
        let after = machines[0].shipped();
        assert_eq!(after.returned, before.returned + 1);
    });
}

#[test]
fn where_the_line_breaks_reads_run_here_and_writes_are_in_doubt() {
    over_both(8, |machines| {
        let mut holder = staying(&machines[1]);
        holder
            .batch("CREATE TABLE t (a int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0)")
            .expect("a table");
        seen(machines);
        holder
            .batch("BEGIN; UPDATE t SET n = 5 WHERE a = 1")
            .expect("holds the row");
        thread::scope(|scope| {
            let writes = scope.spawn(|| {
                let mut session = shipping(&machines[0]);
                session.execute("UPDATE t SET n = n + 1 WHERE a = 1", &[])
            });
            until(|| machines[1].shipped().served == 1);
            // Only the underlying machine is closed, so it cannot report the outcome.
            machines[1].machine().close().expect("closes");
            let error = writes.join().expect("no panic").expect_err("is not known");
            assert_eq!(error.code(), SqlState::TRANSACTION_RESOLUTION_UNKNOWN);
            assert!(error.to_string().contains("machine m2"), "{error}");
        });
        let read = shipping(&machines[0]).query("SELECT n FROM t WHERE a = 1", &[]);
        assert_eq!(read.expect("runs here").len(), 1);
    });
}
