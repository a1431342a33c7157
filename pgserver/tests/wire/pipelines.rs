//! Pipelines: messages that arrive while an earlier one of the same connection still waits.

use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

use fencepost::{Database, Durability};
use fencepost_pgserver::{ListenOptions, listen};

use crate::common::{
    Client, Message, bind, error, eventually, execute, flush, frame, parse, query, read_message,
    server, startup, sync, tags,
};
use crate::login::{connect_in_tls, server_with_tls};

/// The time within which a sent message is certainly read.
const ARRIVAL: Duration = Duration::from_millis(100);
/// The number of queries in a pipeline.
const QUERIES: usize = 500;

fn inserts() -> Vec<u8> {
    let insert = |number| query(&format!("INSERT INTO t VALUES ({number})"));
    (0..QUERIES).flat_map(insert).collect()
}

/// Returns the messages of `stream` up to the `count`th ReadyForQuery.
fn requests(stream: &mut impl std::io::Read, count: usize) -> Vec<Message> {
    let mut messages = Vec::new();
    let mut done = 0;
    while done < count {
        let message = read_message(stream).expect("a message");
        done += usize::from(message.tag == 'Z');
        messages.push(message);
    }
    messages
}

#[test]
fn query_sent_during_a_sleep_is_answered() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    client.send(&query("SELECT pg_sleep(0.3)"));
    sleep(ARRIVAL);
    client.send_all(&[query("SELECT 1"), query("SELECT 2")]);
    assert_eq!(tags(&requests(&mut client.stream, 3)), "TDCZTDCZTDCZ");
}

#[test]
fn frame_cut_during_a_sleep_is_answered() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    let second = query("SELECT 2");
    for cut in [1, 4, 5, second.len() - 1] {
        client.send(&query("SELECT pg_sleep(0.3)"));
        sleep(ARRIVAL);
        client.send(&second[..cut]);
        sleep(ARRIVAL / 2);
        client.send(&second[cut..]);
        assert_eq!(tags(&requests(&mut client.stream, 2)), "TDCZTDCZ", "{cut}");
        // The rest of the frame arrives after the sleep.
        client.send(&query("SELECT pg_sleep(0.2)"));
        sleep(ARRIVAL);
        client.send(&second[..cut]);
        assert_eq!(tags(&client.until('Z')), "TDCZ");
        client.send(&second[cut..]);
        assert_eq!(tags(&client.until('Z')), "TDCZ", "{cut}");
    }
}

#[test]
fn frame_longer_than_the_read_ahead_is_answered() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    let text = "x".repeat(300_000);
    client.send(&query("SELECT pg_sleep(0.3)"));
    sleep(ARRIVAL);
    client.send_all(&[query(&format!("SELECT '{text}'")), query("SELECT 3")]);
    let messages = requests(&mut client.stream, 3);
    assert_eq!(tags(&messages), "TDCZTDCZTDCZ");
    assert_eq!(messages[5].columns(), [Some(text)]);
}

#[test]
fn pipeline_of_inserts_is_answered() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = Database::options().data_dir(directory.path());
    let durable = options.durability(Durability::Ssd).region_size(16 << 20);
    let database = durable.open().expect("opens");
    let server = listen(&database, ListenOptions::new("127.0.0.1:0")).expect("a free port");
    let mut client = Client::start(server.local_addr());
    client.run("CREATE TABLE t (a int)");
    client.send(&inserts());
    let messages = requests(&mut client.stream, QUERIES);
    assert_eq!(tags(&messages), "CZ".repeat(QUERIES));
    assert_eq!(client.value("SELECT count(*) FROM t"), QUERIES.to_string());
}

#[test]
fn pipeline_under_tls_is_answered() {
    let server = server_with_tls();
    let mut stream = connect_in_tls(&server);
    stream.write_all(&startup("")).expect("written");
    requests(&mut stream, 1);
    let first = [
        query("CREATE TABLE t (a int)"),
        query("SELECT pg_sleep(0.3)"),
    ];
    stream.write_all(&first.concat()).expect("written");
    sleep(ARRIVAL);
    stream.write_all(&inserts()).expect("written");
    let messages = requests(&mut stream, QUERIES + 2);
    assert_eq!(tags(&messages), format!("CZTDCZ{}", "CZ".repeat(QUERIES)));
}

#[test]
fn extended_batches_sent_during_a_sleep_are_answered() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    let batch = |sql| [parse("", sql), bind("", "", &[]), execute("", 0), sync()].concat();
    client.send(&batch("SELECT pg_sleep(0.3)"));
    sleep(ARRIVAL);
    client.send(&batch("SELECT 2"));
    client.send(&batch("SELECT 3")[..20]);
    sleep(ARRIVAL / 2);
    client.send(&batch("SELECT 3")[20..]);
    assert_eq!(tags(&requests(&mut client.stream, 3)), "12DCZ".repeat(3));
    // The Sync of a batch may also arrive while its Execute waits.
    client.send_all(&[
        parse("", "SELECT pg_sleep(0.3)"),
        bind("", "", &[]),
        execute("", 0),
    ]);
    sleep(ARRIVAL);
    client.send(&sync());
    assert_eq!(tags(&client.until('Z')), "12DCZ");
}

#[test]
fn messages_sent_during_a_lock_wait_are_answered() {
    let server = server();
    let mut holder = Client::start(server.local_addr());
    let mut client = Client::start(server.local_addr());
    holder.run("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1)");
    holder.run("BEGIN; SELECT * FROM t FOR UPDATE");
    client.send(&query("BEGIN; SELECT * FROM t FOR UPDATE"));
    sleep(ARRIVAL);
    client.send(&query("COMMIT"));
    client.send_all(&[
        parse("", "SELECT 1"),
        bind("", "", &[]),
        execute("", 0),
        sync(),
    ]);
    sleep(ARRIVAL);
    holder.run("COMMIT");
    assert_eq!(tags(&requests(&mut client.stream, 3)), "CTDCZCZ12DCZ");
}

#[test]
fn copy_data_sent_while_the_copy_waits_is_taken() {
    let server = server();
    let mut holder = Client::start(server.local_addr());
    let mut client = Client::start(server.local_addr());
    holder.run("CREATE TABLE t (a int PRIMARY KEY)");
    holder.run("BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE");
    client.send(&query(
        "SET lock_timeout = 10000; SELECT pg_sleep(0.2); COPY t FROM STDIN",
    ));
    sleep(ARRIVAL);
    let data = |text: &[u8]| frame(b'd', text);
    client.send_all(&[data(b"1\n"), data(b"2\n"), frame(b'c', b"")]);
    client.send(&query("SELECT count(*) FROM t"));
    sleep(ARRIVAL);
    holder.run("COMMIT");
    let messages = requests(&mut client.stream, 2);
    assert_eq!(tags(&messages), "CTDCGCZTDCZ", "{:?}", error(&messages));
    assert_eq!(messages[8].columns(), [Some("2".into())]);
}

#[test]
fn replies_to_finished_requests_leave_while_a_later_one_waits() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    client.send_all(&[
        query("SELECT 1"),
        query("SELECT 2"),
        query("SELECT pg_sleep(600)"),
    ]);
    assert_eq!(tags(&requests(&mut client.stream, 2)), "TDCZTDCZ");
    client.cancel();
    assert_eq!(tags(&client.until('Z')), "TEZ");
    // Flush requests the available replies, without the end of a request.
    let parsed = [
        parse("", "SELECT pg_sleep(600)"),
        bind("", "", &[]),
        flush(),
    ]
    .concat();
    client.send_all(&[query("SELECT 1"), parsed, execute("", 0), sync()]);
    assert_eq!(tags(&client.until('2')), "TDCZ12");
    client.cancel();
    assert_eq!(tags(&client.until('Z')), "EZ");
}

#[test]
fn replies_stay_in_order_before_a_large_result() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    let large = "SELECT g, repeat('x', 2000) FROM generate_series(1, 5000) g";
    client.send_all(&[
        query("SELECT 1"),
        query(large),
        query("SELECT 3"),
        query(large),
    ]);
    // The server finds the socket full.
    sleep(ARRIVAL * 3);
    let messages = requests(&mut client.stream, 4);
    let result = format!("T{}CZ", "D".repeat(5000));
    assert_eq!(tags(&messages), format!("TDCZ{result}TDCZ{result}"));
    let numbers = messages.iter().filter(|message| message.tag == 'D');
    let numbers: Vec<usize> = numbers
        .map(|row| row.columns()[0].as_deref().map(str::parse))
        .map(|number| number.expect("a value").expect("a number"))
        .collect();
    let expected = [1].into_iter().chain(1..=5000).chain([3]).chain(1..=5000);
    assert_eq!(numbers, expected.collect::<Vec<_>>());
}

#[test]
fn terminate_sent_during_a_statement_ends_the_session_after_it() {
    let server = server();
    let mut other = Client::start(server.local_addr());
    other.run("CREATE TABLE t (a int)");
    let mut client = Client::start(server.local_addr());
    client.send(&query("INSERT INTO t SELECT 1 FROM pg_sleep(0.3)"));
    sleep(ARRIVAL);
    client.send(&frame(b'X', b""));
    let began = Instant::now();
    assert_eq!(tags(&client.rest()), "CZ");
    assert!(began.elapsed() < Duration::from_secs(5));
    assert_eq!(other.value("SELECT count(*) FROM t"), "1");
}

#[test]
fn cancel_reaches_the_statement_that_runs() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    client.send(&query("SELECT pg_sleep(600)"));
    sleep(ARRIVAL);
    client.send(&query("SELECT 2"));
    sleep(ARRIVAL);
    client.cancel();
    let messages = requests(&mut client.stream, 2);
    assert_eq!(tags(&messages), "TEZTDCZ");
    assert_eq!(error(&messages).0, "57014");
}

#[test]
fn client_that_vanishes_runs_nothing_more() {
    let server = server();
    let mut other = Client::start(server.local_addr());
    other.run("CREATE TABLE t (a int)");
    let mut client = Client::start(server.local_addr());
    client.send(&query("SELECT pg_sleep(600)"));
    sleep(ARRIVAL);
    client.send(&query("INSERT INTO t VALUES (1)"));
    sleep(ARRIVAL);
    client.vanish();
    eventually("the session has ended", || {
        other.value("SELECT count(*) FROM pg_stat_activity WHERE state IS NOT NULL") == "1"
    });
    assert_eq!(other.value("SELECT count(*) FROM t"), "0");
}
