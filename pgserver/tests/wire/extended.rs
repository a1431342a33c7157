//! The extended query protocol, message by message: pipelines, portals, Flush, errors and Sync.

use crate::common::{
    Client, bind, error, execute, flush, frame, named, parse, query, server, sync, tags,
};

#[test]
fn flush_answers_without_sync() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    client.send_all(&[
        parse("a", "SELECT $1::int4 AS n"),
        named(b'D', 'S', "a"),
        flush(),
    ]);
    let messages = client.until('T');
    assert_eq!(tags(&messages), "1tT");
    assert_eq!(messages[1].body, b"\0\x01\0\0\0\x17", "one int4 parameter");
    client.send_all(&[bind("", "a", &[Some("7")]), execute("", 0), flush()]);
    let messages = client.until('C');
    assert_eq!(tags(&messages), "2DC");
    assert_eq!(messages[1].columns(), [Some("7".into())]);
    client.send(&sync());
    assert_eq!(tags(&client.until('Z')), "Z");
}

#[test]
fn error_in_pipeline_skips_to_sync() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    client.run("CREATE TABLE t (id int PRIMARY KEY)");
    let insert = |id: &str| [bind("", "i", &[Some(id)]), execute("", 0)].concat();
    client.send_all(&[
        parse("i", "INSERT INTO t VALUES ($1)"),
        insert("1"),
        insert("1"),
        insert("2"),
        sync(),
        insert("3"),
        sync(),
    ]);
    let first = client.until('Z');
    assert_eq!(
        (tags(&first).as_str(), error(&first).0.as_str()),
        ("12C2EZ", "23505")
    );
    assert_eq!(tags(&client.until('Z')), "2CZ");
    assert_eq!(
        client.value("SELECT count(*) FROM t"),
        "1",
        "the first batch left nothing"
    );
    assert_eq!(client.value("SELECT id FROM t"), "3");
}

#[test]
fn client_mistake_is_error_until_sync() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    let mut fails = |messages: &[Vec<u8>], wanted: &str| {
        client.send_all(&[messages, &[query("SELECT 'skipped'"), sync()]].concat());
        let answer = client.until('Z');
        assert_eq!(error(&answer).0, wanted, "{answer:?}");
        assert!(!tags(&answer).contains('D'));
    };
    fails(&[bind("", "nothing", &[])], "26000");
    fails(&[execute("nothing", 0)], "34000");
    fails(&[named(b'D', 'S', "nothing")], "26000");
    fails(&[named(b'D', 'P', "nothing")], "34000");
    fails(&[parse("", "SELECT $1::int4"), bind("", "", &[])], "08P01");
    fails(
        &[parse("", "SELECT $1::int4"), bind("", "", &[Some("x")])],
        "22P02",
    );
    fails(&[parse("", "SELEC 1")], "42601");
    fails(&[parse("", "SELECT 1; SELECT 2")], "42601");
    fails(
        &[parse("twice", "SELECT 1"), parse("twice", "SELECT 2")],
        "42P05",
    );
    let both = frame(b'B', b"\0twice\0\0\0\0\0\0\x02\0\0\0\0");
    fails(&[both], "08P01");
    let portal = bind("p", "twice", &[]);
    fails(&[portal.clone(), portal], "42P03");
}

#[test]
fn sql_and_the_protocol_share_the_names_of_statements() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    let parsed = |client: &mut Client, name: &str, sql: &str| {
        client.send_all(&[parse(name, sql), sync()]);
        let messages = client.until('Z');
        (tags(&messages), error(&messages).0)
    };
    let bound = |client: &mut Client, name: &str| {
        client.send_all(&[bind("", name, &[Some("7")]), execute("", 0), sync()]);
        let messages = client.until('Z');
        (tags(&messages), error(&messages).0)
    };
    assert_eq!(parsed(&mut client, "p", "SELECT $1::int4 + 1").0, "1Z");
    client.run("PREPARE s (int) AS SELECT $1 + 2");
    assert_eq!(client.value("EXECUTE p (41)"), "42");
    assert_eq!(bound(&mut client, "s").0, "2DCZ");
    assert_eq!(parsed(&mut client, "s", "SELECT 1").1, "42P05");
    assert_eq!(client.fails("PREPARE p AS SELECT 1"), "42P05");
    client.run("DEALLOCATE p");
    assert_eq!(bound(&mut client, "p").1, "26000");
    client.send_all(&[named(b'C', 'S', "s"), sync()]);
    assert_eq!(tags(&client.until('Z')), "3Z");
    assert_eq!(client.fails("EXECUTE s (1)"), "26000");
    assert_eq!(client.fails("DEALLOCATE s"), "26000");
    for forget in ["DEALLOCATE ALL", "DISCARD ALL"] {
        assert_eq!(parsed(&mut client, "p", "SELECT $1::int4").0, "1Z");
        client.run(forget);
        assert_eq!(bound(&mut client, "p").1, "26000", "{forget}");
    }
}

#[test]
fn portals_stop_at_the_row_limit_and_go_on() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    client.run("BEGIN");
    client.send_all(&[
        parse("s", "SELECT g FROM generate_series(1, 5) AS g"),
        bind("p", "s", &[]),
        bind("q", "s", &[]),
        execute("p", 2),
        execute("q", 3),
        execute("p", 2),
        sync(),
    ]);
    let messages = client.until('Z');
    assert_eq!(tags(&messages), "122DDsDDDsDDsZ");
    let rows: Vec<String> = messages
        .iter()
        .filter(|message| message.tag == 'D')
        .filter_map(|message| message.columns()[0].clone())
        .collect();
    assert_eq!(rows, ["1", "2", "1", "2", "3", "3", "4"]);
    client.send_all(&[execute("p", 100), execute("q", 2), execute("q", 2), sync()]);
    let messages = client.until('Z');
    assert_eq!(tags(&messages), "DCDDsCZ");
    client.send_all(&[named(b'C', 'P', "q"), execute("q", 0), sync()]);
    assert_eq!(tags(&client.until('Z')), "3EZ");
    assert_eq!(client.fails("SELECT 1"), "25P02");
    client.run("ROLLBACK");
}

#[test]
fn portals_close_at_transaction_end() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    client.send_all(&[
        parse("s", "SELECT g FROM generate_series(1, 5) AS g"),
        bind("p", "s", &[]),
        execute("p", 1),
        sync(),
        execute("p", 1),
        sync(),
    ]);
    assert_eq!(tags(&client.until('Z')), "12DsZ");
    let messages = client.until('Z');
    assert_eq!(
        (tags(&messages).as_str(), error(&messages).0.as_str()),
        ("EZ", "34000")
    );
}

#[test]
fn huge_row_limit_allocates_nothing() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    for rows_max in [i32::MAX, -1] {
        client.send_all(&[
            parse("", "SELECT g FROM generate_series(1, 3) AS g"),
            bind("", "", &[]),
            execute("", rows_max),
            sync(),
        ]);
        assert_eq!(tags(&client.until('Z')), "12DDDCZ");
    }
}

#[test]
fn formats_may_differ_by_column() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    let binary_second = frame(
        b'B',
        b"\0\0\0\x01\0\x01\0\x01\0\0\0\x04\0\0\0\x05\0\x02\0\0\0\x01",
    );
    client.send_all(&[
        parse("", "SELECT $1::int4, $1::int4 + 1"),
        binary_second,
        named(b'D', 'P', ""),
        execute("", 0),
        sync(),
    ]);
    let messages = client.until('Z');
    assert_eq!(tags(&messages), "12TDCZ");
    assert_eq!(messages[3].body, b"\0\x02\0\0\0\x015\0\0\0\x04\0\0\0\x06");
}

#[test]
fn empty_query_gets_empty_query_response() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    client.send(&query(""));
    assert_eq!(tags(&client.until('Z')), "IZ");
    client.send(&query(" ; -- nothing\n"));
    assert_eq!(tags(&client.until('Z')), "IZ");
    client.send_all(&[
        parse("", ""),
        bind("", "", &[]),
        named(b'D', 'P', ""),
        execute("", 0),
        sync(),
    ]);
    assert_eq!(tags(&client.until('Z')), "12nIZ");
}

#[test]
fn simple_query_may_have_several_statements() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    client.send(&query(
        "CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1); SELECT id FROM t",
    ));
    let messages = client.until('Z');
    assert_eq!(tags(&messages), "CCTDCZ");
    assert_eq!(messages[1].text(), "INSERT 0 1");
    client.send(&query(
        "INSERT INTO t VALUES (2); SELECT 1/0; INSERT INTO t VALUES (3)",
    ));
    let messages = client.until('Z');
    assert_eq!(error(&messages).0, "22012");
    assert_eq!(
        client.value("SELECT count(*) FROM t"),
        "1",
        "one transaction"
    );
}

#[test]
fn ready_status_follows_transaction_block() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    let mut status = |sql: &str| {
        client.send(&query(sql));
        client.until('Z').pop().map(|ready| ready.body)
    };
    assert_eq!(status("BEGIN"), Some(b"T".to_vec()));
    assert_eq!(status("SELECT 1"), Some(b"T".to_vec()));
    assert_eq!(status("SELECT 1/0"), Some(b"E".to_vec()));
    assert_eq!(status("SELECT 1"), Some(b"E".to_vec()));
    assert_eq!(status("COMMIT"), Some(b"I".to_vec()));
}

#[test]
fn error_response_has_all_fields() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    client.run("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)");
    client.send(&query("INSERT INTO t VALUES (1)"));
    let messages = client.until('Z');
    let fields: Vec<Option<String>> = b"CDstn"
        .iter()
        .map(|code| messages[0].field(*code))
        .collect();
    let wanted = [
        "23505",
        "Key (id)=(1) already exists.",
        "public",
        "t",
        "t_pkey",
    ];
    assert_eq!(fields, wanted.map(|text| Some(text.to_owned())));
    client.send(&query("SELECT nothing FROM t"));
    assert_eq!(client.until('Z')[0].field(b'P').as_deref(), Some("8"));
}

#[test]
fn changed_settings_are_reported() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    client.send(&query("SET application_name = 'changed'"));
    let messages = client.until('Z');
    let status = messages
        .iter()
        .find(|message| message.tag == 'S')
        .expect("a status");
    assert_eq!(status.body, b"application_name\0changed\0");
}

#[test]
fn large_result_is_streamed() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    client.send(&query("SELECT g FROM generate_series(1, 200000) AS g"));
    let messages = client.until('Z');
    assert_eq!(messages.len(), 200_003);
    assert_eq!(messages[200_000].columns(), [Some("200000".into())]);
}
