//! Replies of many clients, which are sent together: each client gets its own, complete and in
//! order.

use std::sync::Barrier;
use std::time::Duration;

use fencepost_pgserver::ListenOptions;
use socket2::SockRef;

use crate::common::{Client, frame, query, server, server_with, tags};

/// The number of clients of one worker, so that their replies are sent together.
const CLIENTS: usize = 8;
/// The number of requests that each client sends before it reads. Their replies exceed the capacity
/// of the connection.
const REQUESTS: usize = 400;
const REPLY_BYTES: usize = 40_000;

fn number(row: &str) -> usize {
    let digits = row.trim_end_matches('x');
    assert_eq!(row.len(), digits.len() + REPLY_BYTES);
    digits.parse().expect("a number")
}

#[test]
fn clients_that_do_not_read_get_all_replies_in_the_end() {
    let mut options = ListenOptions::new("127.0.0.1:0");
    options.workers = 1;
    let server = server_with(options);
    let together = Barrier::new(CLIENTS);
    std::thread::scope(|scope| {
        for place in 0..CLIENTS {
            let (server, together) = (&server, &together);
            scope.spawn(move || {
                let mut client = Client::start(server.local_addr());
                let socket = SockRef::from(&client.stream);
                socket.set_recv_buffer_size(16 << 10).expect("a size");
                for at in 0..REQUESTS {
                    together.wait();
                    // The server answers each request before it gets the next one.
                    std::thread::sleep(Duration::from_millis(1));
                    client.send(&query(&format!(
                        "SELECT {at} || repeat('x', {REPLY_BYTES})"
                    )));
                }
                if place % 4 == 3 {
                    return client.vanish();
                }
                for at in 0..REQUESTS {
                    let messages = client.until('Z');
                    assert_eq!(tags(&messages), "TDCZ");
                    let row = messages[1].columns()[0].clone().expect("a value");
                    assert_eq!(number(&row), at);
                }
                assert_eq!(client.value("SELECT 1"), "1");
            });
        }
    });
}

#[test]
fn batched_replies_reach_their_clients() {
    let server = server();
    std::thread::scope(|scope| {
        for place in 0..CLIENTS * 2 {
            let server = &server;
            scope.spawn(move || {
                let mut client = Client::start(server.local_addr());
                for at in 0..300 {
                    let expected = format!("{place} {at}");
                    // Sometimes two requests at once: the second may find the first reply still
                    // unsent.
                    let asked = query(&format!("SELECT '{expected}'"));
                    client.send(&asked);
                    if at % 5 == 0 {
                        client.send(&asked);
                        assert_eq!(tags(&client.until('Z')), "TDCZ");
                    }
                    let messages = client.until('Z');
                    assert_eq!(messages[1].columns()[0].as_ref(), Some(&expected));
                }
            });
        }
    });
}

#[test]
fn requests_before_terminate_are_answered() {
    let server = server();
    let mut clients: Vec<Client> = (0..CLIENTS)
        .map(|_| Client::start(server.local_addr()))
        .collect();
    for (place, client) in clients.iter_mut().enumerate() {
        let good_bye = frame(b'X', b"");
        match place % 2 {
            0 => client.send_all(&[query("SELECT 1"), good_bye]),
            _ => {
                client.send(&query("SELECT 1"));
                client.send(&good_bye);
            }
        }
    }
    for client in &mut clients {
        assert_eq!(tags(&client.rest()), "TDCZ");
    }
}
