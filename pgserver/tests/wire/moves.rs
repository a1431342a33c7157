//! Clients whose packets arrive at one processor after the other: their workers change, their
//! sessions do not.

use fencepost_fabric::processors::{pin, usable};

use crate::common::{Client, bind, execute, parse, query, server, sync, tags};

/// More than the number of requests after which a connection moves.
const REQUESTS: usize = 300;

fn asks_from_everywhere(client: &mut Client, statement: &str) {
    for processor in usable() {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                pin(processor).expect("it may be there");
                for _ in 0..REQUESTS {
                    client.send_all(&[bind("", statement, &[]), execute("", 0), sync()]);
                    assert_eq!(tags(&client.until('Z')), "2DCZ");
                }
            });
        });
    }
}

#[test]
fn moved_client_keeps_session() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    let mut other = Client::start(server.local_addr());
    client.run(
        "CREATE TEMP TABLE t (a int); INSERT INTO t VALUES (7); SET application_name = 'mover'",
    );
    client.run("LISTEN c; SELECT pg_advisory_lock(5)");
    client.send_all(&[parse("s", "SELECT 1"), parse("", "SELECT a FROM t"), sync()]);
    assert_eq!(tags(&client.until('Z')), "11Z");
    for _ in 0..3 {
        asks_from_everywhere(&mut client, "s");
        asks_from_everywhere(&mut client, "");
        assert_eq!(client.value("SHOW application_name"), "mover");
        assert_eq!(other.value("SELECT pg_try_advisory_lock(5)"), "f");
        other.run("NOTIFY c");
        assert_eq!(
            client.until('A').last().map(|message| message.tag),
            Some('A')
        );
        // The simple query has dropped the unnamed statement, so it is parsed again.
        client.send_all(&[parse("", "SELECT a FROM t"), sync()]);
        assert_eq!(tags(&client.until('Z')), "1Z");
    }
    client.send(&query("SELECT pg_sleep(600)"));
    std::thread::sleep(std::time::Duration::from_millis(50));
    client.cancel();
    assert_eq!(tags(&client.until('Z')), "TEZ");
    client.vanish();
    crate::common::eventually("the lock is free", || {
        other.value("SELECT pg_try_advisory_lock(5)") == "t"
    });
}

#[test]
fn all_clients_that_move_are_notified_of_a_shutdown() {
    let server = server();
    let mut clients: Vec<Client> = (0..6).map(|_| Client::start(server.local_addr())).collect();
    for client in &mut clients {
        client.send_all(&[parse("", "SELECT 1"), sync()]);
        assert_eq!(tags(&client.until('Z')), "1Z");
        asks_from_everywhere(client, "");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let end = server.shutdown(std::time::Duration::from_secs(5));
    runtime.expect("a runtime").block_on(end);
    for client in &mut clients {
        assert_eq!(crate::common::error(&client.rest()).0, "57P01");
    }
}
