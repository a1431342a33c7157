//! Clients that disconnect, cancel, idle or are terminated.

use std::time::{Duration, Instant};

use crate::common::{Client, error, eventually, query, server, server_with, tags};
use fencepost_pgserver::ListenOptions;

/// Starts a server with one row, which `holder` has updated and not committed.
fn locked() -> (fencepost_pgserver::Server, Client) {
    let server = server();
    let mut holder = Client::start(server.local_addr());
    holder.run("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0)");
    holder.run("BEGIN");
    holder.run("UPDATE t SET v = v + 1 WHERE id = 1");
    (server, holder)
}

/// Returns a client in a block that waits for the row of [`locked`].
fn waiter(server: &fencepost_pgserver::Server) -> Client {
    let mut waiter = Client::start(server.local_addr());
    waiter.run("BEGIN");
    waiter.send(&query("UPDATE t SET v = v + 10 WHERE id = 1"));
    std::thread::sleep(Duration::from_millis(100));
    waiter
}

#[test]
fn vanished_client_releases_its_locks() {
    let (server, holder) = locked();
    let mut other = waiter(&server);
    holder.vanish();
    assert_eq!(tags(&other.until('Z')), "CZ");
    assert_eq!(other.value("SELECT v FROM t"), "10");
}

#[test]
fn vanished_waiter_leaves_lock_queue() {
    let (server, mut holder) = locked();
    let mut waiter = Client::start(server.local_addr());
    waiter.run("CREATE TABLE u (id int PRIMARY KEY); INSERT INTO u VALUES (1)");
    waiter.run("BEGIN; DELETE FROM u WHERE id = 1");
    waiter.send(&query("UPDATE t SET v = v + 10 WHERE id = 1"));
    std::thread::sleep(Duration::from_millis(100));
    waiter.vanish();
    let mut other = Client::start(server.local_addr());
    other.send(&query("DELETE FROM u WHERE id = 1"));
    assert_eq!(
        other.until('Z')[0].text(),
        "DELETE 1",
        "while the first lock is still held"
    );
    holder.run("COMMIT");
    assert_eq!(other.value("SELECT v FROM t"), "1");
}

#[test]
fn waiting_statement_can_be_cancelled() {
    let (server, mut holder) = locked();
    let mut waiter = waiter(&server);
    waiter.cancel();
    let messages = waiter.until('Z');
    let wanted = (
        "57014".into(),
        "canceling statement due to user request".into(),
    );
    assert_eq!(error(&messages), wanted);
    assert_eq!(waiter.fails("SELECT 1"), "25P02", "the session goes on");
    waiter.run("ROLLBACK");
    holder.run("COMMIT");
    assert_eq!(waiter.value("SELECT v FROM t"), "1");
}

#[test]
fn wrong_cancel_secret_has_no_effect() {
    let (server, mut holder) = locked();
    let mut waiter = waiter(&server);
    waiter.secret ^= 1;
    waiter.cancel();
    std::thread::sleep(Duration::from_millis(100));
    holder.run("COMMIT");
    assert_eq!(tags(&waiter.until('Z')), "CZ");
}

#[test]
fn cancel_of_idle_session_has_no_effect() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    client.cancel();
    assert_eq!(client.value("SELECT 1"), "1");
}

#[test]
fn statement_timeout_ends_lock_wait() {
    let (server, _holder) = locked();
    let mut waiter = Client::start(server.local_addr());
    waiter.run("SET statement_timeout = '100ms'; BEGIN");
    waiter.send(&query("UPDATE t SET v = v + 10 WHERE id = 1"));
    let wanted = (
        "57014".into(),
        "canceling statement due to statement timeout".into(),
    );
    assert_eq!(error(&waiter.until('Z')), wanted);
}

#[test]
fn client_that_stops_reading_blocks_no_other() {
    let server = server_with(ListenOptions {
        workers: 1,
        ..ListenOptions::new("127.0.0.1:0")
    });
    let mut lazy = Client::start(server.local_addr());
    lazy.send(&query("SELECT g FROM generate_series(1, 5000000) AS g"));
    std::thread::sleep(Duration::from_millis(300));
    let mut other = Client::start(server.local_addr());
    assert_eq!(other.value("SELECT 1"), "1");
    lazy.vanish();
    assert_eq!(other.value("SELECT 1"), "1");
}

#[test]
fn shutdown_ends_idle_sessions_and_lets_statements_finish() {
    let (server, mut holder) = locked();
    let mut idle = Client::start(server.local_addr());
    let mut waiter = waiter(&server);
    let address = server.local_addr();
    let stopper = std::thread::spawn(move || block_on(server.shutdown(Duration::from_secs(10))));
    for client in [&mut idle, &mut holder] {
        let messages = client.rest();
        assert_eq!(
            (tags(&messages).as_str(), error(&messages).0.as_str()),
            ("E", "57P01")
        );
    }
    let messages = waiter.rest();
    assert_eq!(
        tags(&messages),
        "CZE",
        "the lock was let go, the statement ran"
    );
    stopper.join().expect("shut down");
    assert!(std::net::TcpStream::connect(address).is_err());
}

#[test]
fn shutdown_cancels_unfinished_statements() {
    let server = server();
    let mut busy = Client::start(server.local_addr());
    busy.send(&query("SELECT g FROM generate_series(1, 50000000) AS g"));
    std::thread::sleep(Duration::from_millis(100));
    let start = Instant::now();
    block_on(server.shutdown(Duration::from_millis(200)));
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn connection_limit_refuses_further_clients() {
    let server = server_with(ListenOptions {
        connections_max: 2,
        ..ListenOptions::new("127.0.0.1:0")
    });
    let first = Client::start(server.local_addr());
    let _second = Client::start(server.local_addr());
    let mut third = Client::connect(server.local_addr());
    third.send(&crate::common::startup(""));
    assert_eq!(error(&third.rest()).0, "53300");
    first.vanish();
    eventually("a slot is free", || {
        let mut client = Client::connect(server.local_addr());
        client.send(&crate::common::startup(""));
        client.read().is_some_and(|message| message.tag == 'R')
    });
}

fn block_on(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(work);
}
