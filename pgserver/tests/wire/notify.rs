//! LISTEN and NOTIFY, and sessions that terminate others.

use std::thread;
use std::time::Duration;

use crate::common::{Client, Message, error, eventually, query, server, tags};

/// Returns the sender, the channel and the payload of a NotificationResponse.
fn notification_of(message: &Message) -> (i32, String, String) {
    assert_eq!(message.tag, 'A');
    let (pid, rest) = message.body.split_first_chunk::<4>().expect("a number");
    let rest = String::from_utf8_lossy(rest).into_owned();
    let mut texts = rest.split('\0').map(str::to_owned);
    let (channel, payload) = (texts.next(), texts.next());
    let texts = channel.zip(payload).expect("two texts");
    (i32::from_be_bytes(*pid), texts.0, texts.1)
}

fn said(client: &Client, channel: &str, payload: &str) -> (i32, String, String) {
    (client.pid, channel.into(), payload.into())
}

#[test]
fn idle_listener_gets_only_committed_notifications() {
    let server = server();
    let mut listener = Client::start(server.local_addr());
    let mut other = Client::start(server.local_addr());
    listener.run("LISTEN a; LISTEN \"B b\"");
    other.run("NOTIFY c, 'not this'");
    other.run("BEGIN; NOTIFY a, 'never'; ROLLBACK");
    other.run("BEGIN");
    other.run("NOTIFY a, 'first'");
    other.run("SAVEPOINT s; NOTIFY a, 'taken back'; ROLLBACK TO s");
    other.run("SELECT pg_notify('B b', g::text) FROM generate_series(1, 2) g");
    other.run("NOTIFY a, 'first'");
    other.run("NOTIFY a");
    other.run("COMMIT");
    let wanted = [("a", "first"), ("B b", "1"), ("B b", "2"), ("a", "")];
    for (channel, payload) in wanted {
        let message = listener.read().expect("a notification");
        assert_eq!(notification_of(&message), said(&other, channel, payload));
    }
    listener.run("UNLISTEN a");
    other.run("NOTIFY a; NOTIFY \"B b\"");
    let message = listener.read().expect("a notification");
    assert_eq!(notification_of(&message), said(&other, "B b", ""));
    listener.run("UNLISTEN *");
    other.run("NOTIFY \"B b\"");
    assert_eq!(
        listener.value("SELECT count(*) FROM pg_listening_channels()"),
        "0"
    );
}

#[test]
fn listener_in_block_gets_notifications_at_its_end() {
    let server = server();
    let mut listener = Client::start(server.local_addr());
    let mut other = Client::start(server.local_addr());
    listener.run("LISTEN a");
    listener.run("BEGIN; NOTIFY a, 'own'");
    other.run("NOTIFY a, 'other'");
    assert_eq!(tags(&listener.run("SELECT 1")), "TDCZ");
    listener.send(&query("COMMIT"));
    let messages = listener.until('Z');
    assert_eq!(tags(&messages), "CAAZ");
    assert_eq!(notification_of(&messages[1]), said(&other, "a", "other"));
    assert_eq!(notification_of(&messages[2]), said(&listener, "a", "own"));
    // LISTEN takes effect at its commit; a rollback discards it.
    other.run("BEGIN; LISTEN a; ROLLBACK");
    listener.send(&query("BEGIN; LISTEN b; NOTIFY b; COMMIT; NOTIFY a"));
    assert_eq!(tags(&listener.until('Z')), "CCCCCAAZ");
    listener.run("DISCARD ALL");
    assert_eq!(tags(&listener.run("NOTIFY a")), "CZ");
    assert_eq!(tags(&other.run("NOTIFY a")), "CZ");
}

#[test]
fn many_sessions_are_notified_in_the_order_of_the_commits() {
    const WRITERS: usize = 4;
    const TIMES: usize = 25;
    let server = server();
    let address = server.local_addr();
    let mut listeners = [Client::start(address), Client::start(address)];
    listeners[0].run("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0)");
    for listener in &mut listeners {
        listener.run("LISTEN a");
    }
    let write = || {
        let mut client = Client::start(address);
        for _ in 0..TIMES {
            // The row records the order of the commits.
            client.run("BEGIN");
            client.run("UPDATE t SET n = n + 1 WHERE id = 1");
            client.run("SELECT pg_notify('a', n::text) FROM t");
            client.run("COMMIT");
        }
    };
    thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(write);
        }
    });
    for listener in &mut listeners {
        for n in 1..=WRITERS * TIMES {
            let message = listener.read().expect("a notification");
            assert_eq!(notification_of(&message).2, n.to_string());
        }
    }
}

#[test]
fn sessions_are_cancelled_and_ended_by_others() {
    let server = server();
    let mut victim = Client::start(server.local_addr());
    let mut other = Client::start(server.local_addr());
    other.run("SELECT pg_advisory_lock(1)");
    victim.send(&query("SELECT pg_advisory_lock(1)"));
    let waits = format!(
        "SELECT wait_event FROM pg_stat_activity WHERE pid = {} AND state = 'active'",
        victim.pid
    );
    eventually("it waits", || {
        other
            .run(&waits)
            .iter()
            .any(|m| m.tag == 'D' && m.columns()[0].as_deref() == Some("advisory"))
    });
    let cancel = format!("SELECT pg_cancel_backend({})", victim.pid);
    assert_eq!(other.value(&cancel), "t");
    let (sqlstate, message) = error(&victim.until('Z'));
    assert_eq!(sqlstate, "57014");
    assert_eq!(message, "canceling statement due to user request");
    assert_eq!(victim.value("SELECT 1"), "1");
    // A session that waits for its client ends, too, and the caller may wait for that.
    let end = format!("SELECT pg_terminate_backend({}, 60000)", victim.pid);
    assert_eq!(other.value(&end), "t");
    let (sqlstate, message) = error(&victim.rest());
    assert_eq!(sqlstate, "57P01");
    assert_eq!(
        message,
        "terminating connection due to administrator command"
    );
    let there = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE pid = {}",
        victim.pid
    );
    assert_eq!(other.value(&there), "0");
    let mut victim = Client::start(server.local_addr());
    victim.send(&query("SELECT pg_advisory_lock(1)"));
    let end = format!("SELECT pg_terminate_backend({})", victim.pid);
    assert_eq!(other.value(&end), "t");
    assert_eq!(error(&victim.rest()).0, "57P01");
}

#[test]
fn idle_timeouts_end_session_with_error() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    client.run("SET idle_session_timeout = '50ms'");
    client.run("SET idle_in_transaction_session_timeout = '1h'; BEGIN");
    thread::sleep(Duration::from_millis(100));
    assert_eq!(client.value("SELECT 1"), "1", "it is in a block");
    client.run("COMMIT");
    let (sqlstate, message) = error(&client.rest());
    assert_eq!(sqlstate, "57P05");
    assert_eq!(
        message,
        "terminating connection due to idle-session timeout"
    );
}

#[test]
fn pg_stat_activity_shows_session_state() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    let mut other = Client::start(server.local_addr());
    let row = format!(
        "SELECT state, query, application_name, usename, datname, client_addr, backend_type, \
         xact_start IS NULL, backend_start <= query_start AND query_start <= state_change \
         FROM pg_stat_activity WHERE pid = {}",
        client.pid
    );
    let mut seen = |state: &str, text: &str, block: bool| {
        let wanted = [
            state,
            text,
            "me",
            "postgres",
            "postgres",
            "127.0.0.1",
            "client backend",
        ];
        let wanted = wanted
            .into_iter()
            .chain([if block { "f" } else { "t" }, "t"]);
        let wanted: Vec<_> = wanted.map(|text| Some(text.to_owned())).collect();
        eventually("it rests", || {
            let messages = other.run(&row);
            let row = messages.iter().find(|m| m.tag == 'D').expect("a row");
            row.columns() == wanted
        });
    };
    client.run("SET application_name = 'me'");
    client.run("SELECT 1, 'it''s'");
    seen("idle", "SELECT 1, 'it''s'", false);
    client.run("BEGIN");
    client.run("SELECT 2");
    seen("idle in transaction", "SELECT 2", true);
    client.fails("SELECT 1 / 0");
    seen("idle in transaction (aborted)", "SELECT 1 / 0", true);
    client.run("ROLLBACK");
    seen("idle", "ROLLBACK", false);
    let own = "SELECT state || ' ' || query FROM pg_stat_activity WHERE pid = pg_backend_pid()";
    assert_eq!(client.value(own), format!("active {own}"));
}
