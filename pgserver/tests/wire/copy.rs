//! COPY over the wire in both directions, and errors in the middle of it.

use crate::common::{
    Client, Message, bind, error, execute, frame, parse, query, server, sync, tags,
};

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
fn copy_to_sends_rows_of_returning() {
    let (_server, mut client) = table();
    for (statement, rows) in [
        (
            "INSERT INTO t VALUES (1, 'one'), (2, 'two') RETURNING id",
            2,
        ),
        (
            "UPDATE t SET name = name || '!' WHERE id = 1 RETURNING *",
            1,
        ),
        ("DELETE FROM t WHERE id = 2 RETURNING name", 1),
    ] {
        client.send(&query(&format!("COPY ({statement}) TO STDOUT")));
        let messages = client.until('Z');
        let lines = messages.iter().filter(|message| message.tag == 'd');
        assert_eq!(lines.count(), rows, "{statement}: {messages:?}");
    }
    assert_eq!(client.value("SELECT string_agg(name, ',') FROM t"), "one!");
    client.send(&query("COPY (DELETE FROM t) TO STDOUT"));
    assert_eq!(error(&client.until('Z')).0, "0A000");
}

#[test]
fn client_may_fail_copy() {
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
fn extended_copy_ends_at_sync() {
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
fn statements_after_copy_run_after_copy_ends() {
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

const BINARY_HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// Returns a tuple of COPY in binary.
fn tuple(fields: &[Option<&[u8]>]) -> Vec<u8> {
    let mut out = (fields.len() as i16).to_be_bytes().to_vec();
    for field in fields {
        let length = field.map_or(-1, |bytes| bytes.len() as i32);
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(field.unwrap_or_default());
    }
    out
}

/// Copies binary data in, in pieces, up to ReadyForQuery.
fn copy_binary(client: &mut Client, bytes: &[u8], piece: usize) -> Vec<Message> {
    client.send(&query("COPY t FROM STDIN (FORMAT binary)"));
    client.until('G');
    for data in bytes.chunks(piece) {
        client.send(&frame(b'd', data));
    }
    client.send(&frame(b'c', b""));
    client.until('Z')
}

#[test]
fn binary_rows_go_in_and_come_out() {
    let (_server, mut client) = table();
    client.send(&query("COPY t (name, id) FROM STDIN WITH BINARY"));
    assert_eq!(client.until('G')[0].body, b"\x01\0\x02\0\x01\0\x01");
    let rows = [
        tuple(&[Some("žluť".as_bytes()), Some(&[0, 0, 0, 1])]),
        tuple(&[None, Some(&[0xFF; 4])]),
    ];
    client.send_all(&[
        frame(b'd', BINARY_HEADER),
        frame(b'd', &rows.concat()),
        frame(b'd', b"\xff\xff"),
        frame(b'c', b""),
    ]);
    assert_eq!(client.until('Z')[0].text(), "COPY 2");
    client.send(&query(
        "COPY (SELECT name, id FROM t ORDER BY id DESC) TO STDOUT (FORMAT binary)",
    ));
    let messages = client.until('Z');
    assert_eq!(tags(&messages), "HdddcCZ");
    assert_eq!(messages[0].body, b"\x01\0\x02\0\x01\0\x01");
    // One row for each message: drivers that read row by row rely on it.
    assert_eq!(messages[1].body, [BINARY_HEADER, &rows[0]].concat());
    assert_eq!(messages[2].body, rows[1]);
    assert_eq!(messages[3].body, b"\xff\xff");
    client.send(&query(
        "COPY (SELECT 1 WHERE false) TO STDOUT (FORMAT binary)",
    ));
    let messages = client.until('Z');
    assert_eq!(messages[1].body, [BINARY_HEADER, b"\xff\xff"].concat());
}

#[test]
fn values_of_many_types_come_back_from_binary() {
    let (_server, mut client) = table();
    let columns = "a int2, b int8, c float8, d numeric(9,2), e bool, f bytea, g date, \
                   h timestamptz, i interval, j uuid, k jsonb, l int4[], \
                   m char(4), n time, o varchar(3)";
    client.run(&format!(
        "CREATE TABLE kinds ({columns}); CREATE TABLE copied ({columns})"
    ));
    client.run(
        "INSERT INTO kinds VALUES (-5, 1::int8 << 40, 0.1, -1234.5, true, '\\x00ff', \
         '1815-12-10', '2020-02-03 04:05:06.7+00', '1 mon -2 days 03:04:05', \
         '12345678-1234-5678-1234-567812345678', '{\"a\": [1, null]}', '{1,NULL,3}', \
         'ab', '24:00', 'abc')",
    );
    client.run("INSERT INTO kinds (a) VALUES (NULL)");
    client.send(&query("COPY kinds TO STDOUT (FORMAT binary)"));
    let messages = client.until('Z');
    let rows = messages.iter().filter(|message| message.tag == 'd');
    client.send(&query("COPY copied FROM STDIN (FORMAT binary)"));
    client.until('G');
    rows.for_each(|row| client.send(&frame(b'd', &row.body)));
    client.send(&frame(b'c', b""));
    assert_eq!(client.until('Z')[0].text(), "COPY 2");
    let both = "SELECT count(*) FROM (TABLE kinds UNION TABLE copied) both_of_them";
    assert_eq!(client.value(both), "2");
}

#[test]
fn wrong_binary_data_gets_errors_of_postgresql() {
    let (_server, mut client) = table();
    let good = tuple(&[Some(&[0, 0, 0, 1]), Some(b"x")]);
    let behind = |tuples: &[&[u8]]| [BINARY_HEADER, &tuples.concat()].concat();
    let none = "";
    for (bytes, state, message, context) in [
        (
            b"1\tx\n".to_vec(),
            "22P04",
            "COPY file signature not recognized",
            none,
        ),
        (
            Vec::new(),
            "22P04",
            "COPY file signature not recognized",
            none,
        ),
        (
            BINARY_HEADER[..17].to_vec(),
            "22P04",
            "invalid COPY file header (missing length)",
            none,
        ),
        (
            behind(&[&good, &tuple(&[Some(b"x")])]),
            "22P04",
            "row field count is 1, expected 2",
            "COPY t, line 2",
        ),
        (
            behind(&[&good, &good[..11]]),
            "22P04",
            "unexpected EOF in COPY data",
            "COPY t, line 2, column name",
        ),
        (
            behind(&[&good, b"\xff\xff", &good]),
            "22P04",
            "received copy data after EOF marker",
            "COPY t, line 2",
        ),
        (
            behind(&[b"\0\x02\xff\xff\xff\xfe"]),
            "22P04",
            "invalid field size",
            "COPY t, line 1, column id",
        ),
        (
            behind(&[b"\0\x02\0\0\0\x08"]),
            "22P04",
            "unexpected EOF in COPY data",
            "COPY t, line 1, column id",
        ),
        (
            behind(&[&tuple(&[Some(&[0; 8]), None])]),
            "22P03",
            "incorrect binary data format",
            "COPY t, line 1, column id",
        ),
        (
            behind(&[&tuple(&[Some(&[0; 4]), Some(b"\xff")])]),
            "22021",
            "invalid byte sequence for encoding \"UTF8\": 0xff",
            "COPY t, line 1, column name",
        ),
        (
            behind(&[&tuple(&[None, Some(b"x")])]),
            "23502",
            "null value in column \"id\" of relation \"t\" violates not-null constraint",
            "COPY t, line 1",
        ),
        (
            behind(&[&good, &good]),
            "23505",
            "duplicate key value violates unique constraint \"t_pkey\"",
            "COPY t, line 2",
        ),
    ] {
        for piece in [1, 1000] {
            let messages = copy_binary(&mut client, &bytes, piece);
            let reply = messages.iter().find(|message| message.tag == 'E');
            let found = reply.and_then(|message| message.field(b'W'));
            assert_eq!(error(&messages), (state.into(), message.into()));
            assert_eq!(found.unwrap_or_default(), context, "{message}");
        }
    }
    // A length field alone does not cause an allocation.
    let messages = copy_binary(&mut client, &behind(&[b"\0\x02\x7f\xff\xff\xff"]), 1000);
    assert_eq!(error(&messages).0, "54000");
    assert_eq!(client.value("SELECT count(*) FROM t"), "0");
    // In a transaction, a savepoint preserves earlier changes.
    client.run("BEGIN; INSERT INTO t VALUES (5, 'before'); SAVEPOINT s");
    assert_eq!(error(&copy_binary(&mut client, b"PGCOPY", 1000)).0, "22P04");
    assert_eq!(client.fails("SELECT 1"), "25P02");
    client.run("ROLLBACK TO s");
    let messages = copy_binary(&mut client, &behind(&[&good]), 1000);
    assert_eq!(messages[0].text(), "COPY 1");
    client.run("COMMIT");
    assert_eq!(client.value("SELECT count(*) FROM t"), "2");
}

#[test]
fn binary_takes_no_options_of_texts() {
    let (_server, mut client) = table();
    for (option, state) in [
        ("HEADER", "0A000"),
        ("DELIMITER ','", "42601"),
        ("NULL 'x'", "42601"),
        ("QUOTE '\"'", "0A000"),
        ("FORCE_QUOTE *", "0A000"),
    ] {
        let sql = format!("COPY t TO STDOUT (FORMAT binary, {option})");
        assert_eq!(client.fails(&sql), state, "{option}");
    }
}
