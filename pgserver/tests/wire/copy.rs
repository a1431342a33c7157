//! COPY over the wire, both ways, and what goes wrong in the middle of it.

use crate::common::{Client, bind, error, execute, frame, parse, query, server, sync, tags};

fn table() -> (fencepost_pgserver::Server, Client) {
    let server = server();
    let mut client = Client::start(server.local_addr());
    client.run("CREATE TABLE t (id int PRIMARY KEY, name text)");
    (server, client)
}

fn data(text: &str) -> Vec<u8> {
    frame(b'd', text.as_bytes())
}

#[test]
fn rows_go_in_and_come_out() {
    let (_server, mut client) = table();
    client.send(&query("COPY t FROM STDIN"));
    let response = client.until('G');
    assert_eq!(response[0].body, b"\0\0\x02\0\0\0\0");
    client.send_all(&[data("1\ton"), data("e\n2\t\\N\n"), frame(b'c', b"")]);
    let messages = client.until('Z');
    assert_eq!(
        (tags(&messages).as_str(), messages[0].text().as_str()),
        ("CZ", "COPY 2")
    );
    client.send(&query("COPY t TO STDOUT"));
    let messages = client.until('Z');
    assert_eq!(tags(&messages), "HddcCZ");
    assert_eq!(messages[1].body, b"1\tone\n");
    assert_eq!(messages[2].body, b"2\t\\N\n");
}

#[test]
fn the_client_may_give_up() {
    let (_server, mut client) = table();
    client.send(&query("COPY t FROM STDIN"));
    client.until('G');
    client.send_all(&[data("1\tone\n"), frame(b'f', b"changed my mind\0")]);
    let messages = client.until('Z');
    assert_eq!(
        error(&messages),
        (
            "57014".into(),
            "COPY from stdin failed: changed my mind".into()
        )
    );
    assert_eq!(client.value("SELECT count(*) FROM t"), "0");
}

#[test]
fn data_behind_an_error_is_drained() {
    let (_server, mut client) = table();
    client.send(&query("COPY t FROM STDIN"));
    client.until('G');
    client.send(&data("not a number\tone\n"));
    for id in 0..1000 {
        client.send(&data(&format!("{id}\tone\n")));
    }
    client.send(&frame(b'c', b""));
    let messages = client.until('Z');
    assert_eq!(
        (tags(&messages).as_str(), error(&messages).0.as_str()),
        ("EZ", "22P02")
    );
    assert_eq!(client.value("SELECT count(*) FROM t"), "0");
}

#[test]
fn another_message_fails_the_copy() {
    let (_server, mut client) = table();
    client.send(&query("COPY t FROM STDIN"));
    client.until('G');
    client.send(&query("SELECT 1"));
    let messages = client.until('Z');
    assert_eq!(error(&messages).0, "08P01");
    assert_eq!(client.value("SELECT count(*) FROM t"), "0");
}

#[test]
fn an_extended_copy_ends_at_sync() {
    let (_server, mut client) = table();
    client.send_all(&[
        parse("", "COPY t FROM STDIN"),
        bind("", "", &[]),
        execute("", 0),
        sync(),
    ]);
    assert_eq!(tags(&client.until('G')), "12G");
    client.send_all(&[data("1\tone\n"), frame(b'c', b""), sync()]);
    assert_eq!(tags(&client.until('Z')), "CZ");
    client.send_all(&[
        parse("", "COPY t FROM STDIN"),
        bind("", "", &[]),
        execute("", 0),
    ]);
    client.until('G');
    client.send_all(&[data("1\ttwice\n"), data("x\n"), frame(b'c', b""), sync()]);
    assert_eq!(tags(&client.until('Z')), "EZ");
    assert_eq!(client.value("SELECT name FROM t"), "one");
}

#[test]
fn statements_behind_a_copy_run_after_it() {
    let (_server, mut client) = table();
    client.send(&query(
        "COPY t FROM STDIN; SELECT count(*) FROM t; COPY t FROM STDIN",
    ));
    client.until('G');
    client.send_all(&[data("1\tone\n"), frame(b'c', b"")]);
    assert_eq!(tags(&client.until('G')), "CTDCG");
    client.send_all(&[data("2\ttwo\n"), frame(b'c', b"")]);
    assert_eq!(tags(&client.until('Z')), "CZ");
    assert_eq!(client.value("SELECT count(*) FROM t"), "2");
}
