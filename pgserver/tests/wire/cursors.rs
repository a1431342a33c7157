//! Cursors of DECLARE and portals of Bind are the same to a client.

use crate::common::{Client, bind, error, execute, named, parse, query, server, sync, tags};

#[test]
fn cursors_and_portals_are_interchangeable() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    client.run("CREATE TABLE t (id int PRIMARY KEY)");
    client.run("INSERT INTO t SELECT generate_series(1, 5)");
    client.run("BEGIN");
    client.run("DECLARE c CURSOR FOR SELECT id FROM t ORDER BY id");
    client.send_all(&[
        named(b'D', 'P', "c"),
        execute("c", 2),
        execute("c", 0),
        execute("c", 0),
        parse("p", "SELECT id FROM t ORDER BY id"),
        bind("p", "p", &[]),
        execute("p", 1),
        sync(),
    ]);
    let messages = client.until('Z');
    assert_eq!(tags(&messages), "TDDsDDDCC12DsZ");
    let ends = messages.iter().filter(|m| m.tag == 'C');
    let ends: Vec<String> = ends.map(|m| m.text()).collect();
    assert_eq!(ends, ["SELECT 3", "SELECT 0"]);
    assert_eq!(client.value("FETCH FROM p"), "2");
    client.send_all(&[execute("p", 0), sync()]);
    assert_eq!(tags(&client.until('Z')), "DDDCZ");
    let names = client.value("SELECT string_agg(name, ' ' ORDER BY name) FROM pg_cursors");
    assert_eq!(names, "c p");
    client.send_all(&[named(b'C', 'P', "c"), sync()]);
    assert_eq!(tags(&client.until('Z')), "3Z");
    client.run("CLOSE p");
    client.send_all(&[execute("p", 0), sync()]);
    assert_eq!(error(&client.until('Z')).0, "34000");
}

#[test]
fn cursor_and_portal_share_names() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    client.run("BEGIN");
    client.run("DECLARE c CURSOR FOR SELECT 1");
    client.send_all(&[parse("p", "SELECT 2"), bind("c", "p", &[]), sync()]);
    let messages = client.until('Z');
    assert_eq!(error(&messages).0, "42P03");
    client.run("ROLLBACK");
    client.run("BEGIN");
    client.send_all(&[bind("c", "p", &[]), sync()]);
    assert_eq!(tags(&client.until('Z')), "2Z");
    client.send(&query("DECLARE c CURSOR FOR SELECT 1"));
    assert_eq!(error(&client.until('Z')).0, "42P03");
}

#[test]
fn held_cursor_outlives_its_statement() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    client.send_all(&[
        parse(
            "",
            "DECLARE h CURSOR WITH HOLD FOR SELECT $1::int + g FROM generate_series(1, 3) g",
        ),
        bind("", "", &[Some("10")]),
        execute("", 0),
        sync(),
        named(b'D', 'P', "h"),
        execute("h", 1),
        sync(),
    ]);
    assert_eq!(tags(&client.until('Z')), "12CZ");
    let messages = client.until('Z');
    assert_eq!(tags(&messages), "TDsZ");
    assert_eq!(messages[1].columns(), [Some("11".into())]);
    assert_eq!(client.value("FETCH h"), "12");
}

#[test]
fn rows_of_a_binary_cursor_are_sent_in_binary() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    client.run("BEGIN");
    client.run("DECLARE c BINARY CURSOR FOR SELECT 258");
    client.send(&query("FETCH c"));
    let messages = client.until('Z');
    assert_eq!(tags(&messages), "TDCZ");
    assert_eq!(
        messages[0].body.last_chunk::<2>(),
        Some(&[0, 1]),
        "the format"
    );
    assert_eq!(messages[1].body.last_chunk::<4>(), Some(&[0, 0, 1, 2]));
}

#[test]
fn portal_draws_beyond_first_sequence_range() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    client.run("CREATE SEQUENCE s");
    client.run("BEGIN");
    client.send_all(&[
        parse("", "SELECT nextval('s') FROM generate_series(1, 200)"),
        bind("", "", &[]),
        sync(),
    ]);
    client.until('Z');
    let mut drawn = Vec::new();
    loop {
        client.send_all(&[execute("", 30), sync()]);
        let messages = client.until('Z');
        let rows = messages.iter().filter(|m| m.tag == 'D');
        drawn.extend(rows.map(|row| row.columns().remove(0).expect("a value")));
        match tags(&messages).contains('s') {
            true => {}
            false => break assert!(!tags(&messages).contains('E'), "{messages:?}"),
        }
    }
    let wanted: Vec<String> = (1..=200).map(|n: i32| n.to_string()).collect();
    assert_eq!(drawn, wanted);
}
