//! Complete messages with a malformed body: the message fails and the session continues, as in
//! PostgreSQL. The expected replies are PostgreSQL 15's.

use crate::common::{Client, bind, error, execute, frame, parse, query, server, sync, tags};

/// Sends `bytes` in a new session, then a query that must succeed.
///
/// Returns the tags before that query's reply, and the SQLSTATE and text of the error among them.
fn answer(bytes: &[Vec<u8>]) -> (String, String, String) {
    let server = server();
    let mut client = Client::start(server.local_addr());
    client.send_all(bytes);
    client.send(&query("SELECT 'end'"));
    let mut messages = Vec::new();
    loop {
        messages.extend(client.until('Z'));
        let row = messages.iter().rfind(|message| message.tag == 'D');
        if row.is_some_and(|row| row.columns() == [Some("end".into())]) {
            break;
        }
    }
    messages.truncate(messages.len() - 4);
    let (state, text) = error(&messages);
    (tags(&messages), state, text)
}

/// Checks the reply to `message` after a Parse of a statement with one parameter and two columns.
#[track_caller]
fn fails_after_parse(message: &[u8], state: &str, text: &str) {
    let parsed = parse("", "SELECT $1::int4 AS a, 2 AS b");
    let found = answer(&[parsed, message.to_vec(), execute("", 0), sync()]);
    let expected = ("1EZ".into(), state.into(), text.into());
    assert_eq!(found, expected, "{}", String::from_utf8_lossy(message));
}

#[test]
fn malformed_bind_fails_up_to_sync() {
    let cut = "insufficient data left in message";
    for (body, state, text) in [
        (
            &b"\0\0\0\x01\0\x07\0\x01\0\0\0\x011\0\0"[..],
            "22023",
            "unsupported format code: 7",
        ),
        (
            b"\0\0\0\x01\xff\xff\0\x01\0\0\0\x011\0\0",
            "22023",
            "unsupported format code: -1",
        ),
        (
            b"\0\0\0\x01\0\x07\0\x01\xff\xff\xff\xff\0\0",
            "22023",
            "unsupported format code: 7",
        ),
        (
            b"\0\0\0\0\0\x01\0\0\0\x011\0\x01\0\x07",
            "22023",
            "unsupported format code: 7",
        ),
        (
            b"\0\0\0\x02\0\0\0\0\0\x01\0\0\0\x011\0\0",
            "08P01",
            "bind message has 2 parameter formats but 1 parameters",
        ),
        (
            b"\0\0\0\x02\0\0\0\0\0\0\0\0",
            "08P01",
            "bind message has 2 parameter formats but 0 parameters",
        ),
        (
            b"\0\0\0\0\0\x01\0\0\0\x011\0\x03\0\0\0\0\0\0",
            "08P01",
            "bind message has 3 result formats but query has 2 columns",
        ),
        (
            b"\0\0\0\0\0\0\0\0",
            "08P01",
            "bind message supplies 0 parameters, but prepared statement \"\" requires 1",
        ),
        (
            b"\0no\0\0\x01\0\x07\0\0\0\0",
            "26000",
            "prepared statement \"no\" does not exist",
        ),
        (b"\0\0\0\0\0\x01\xff\xff\xff\xfe\0\0", "08P01", cut),
        (b"\0\0\0\0\0\x01\0\0\0\x09ab\0\0", "08P01", cut),
        (b"\0\0\0\0\xff\xff", "08P01", cut),
        (b"\0\0\0\0\0\x01", "08P01", cut),
        (b"", "08P01", "invalid string in message"),
        (b"abc", "08P01", "invalid string in message"),
        (
            b"\0\0\0\0\0\x01\0\0\0\x011\0\0x",
            "08P01",
            "invalid message format",
        ),
    ] {
        fails_after_parse(&frame(b'B', body), state, text);
    }
}

#[test]
fn malformed_parse_describe_and_close_fail_up_to_sync() {
    let cut = "insufficient data left in message";
    for (tag, body, text) in [
        (b'P', &b"\0SELECT 1\0\0\x05\0\0\0\x17"[..], cut),
        (b'P', b"\0SELECT 1\0\xff\xff", cut),
        (b'P', b"\0SELECT 1\0", cut),
        (b'P', b"abc", "invalid string in message"),
        (b'P', b"\0SELECT 1\0\0\0x", "invalid message format"),
        (b'D', b"X\0", "invalid DESCRIBE message subtype 88"),
        (b'D', b"", "no data left in message"),
        (b'D', b"S", "invalid string in message"),
        (b'C', b"X\0", "invalid CLOSE message subtype 88"),
        (b'C', b"S\0x", "invalid message format"),
        (b'H', b"x", "invalid message format"),
    ] {
        fails_after_parse(&frame(tag, body), "08P01", text);
    }
}

#[test]
fn malformed_execute_fails_up_to_sync() {
    for (body, text) in [
        (&b"\0\0\0"[..], "insufficient data left in message"),
        (b"abc", "invalid string in message"),
        (b"\0\0\0\0\0x", "invalid message format"),
    ] {
        let bound = [parse("", "SELECT 1"), bind("", "", &[])];
        let found = answer(&[bound.concat(), frame(b'E', body), execute("", 0), sync()]);
        assert_eq!(found, ("12EZ".into(), "08P01".into(), text.into()));
    }
}

#[test]
fn malformed_message_outside_the_extended_protocol_is_answered_at_once() {
    for (tag, body, text) in [
        (b'Q', &b"no zero byte"[..], "invalid string in message"),
        (b'Q', b"", "invalid string in message"),
        (b'Q', b"SELECT 1\0x", "invalid message format"),
        (b'S', b"x", "invalid message format"),
    ] {
        let found = answer(&[frame(tag, body)]);
        assert_eq!(found, ("EZ".into(), "08P01".into(), text.into()));
    }
    let (found, state, _) = answer(&[frame(b'F', b"abc")]);
    assert_eq!((found.as_str(), state.as_str()), ("EZ", "0A000"));
}

#[test]
fn malformed_message_fails_the_transaction_block() {
    let malformed = frame(b'B', b"\0\0\0\x01\0\x07\0\x01\0\0\0\x011\0\0");
    let server = server();
    let mut client = Client::start(server.local_addr());
    client.run("BEGIN");
    client.send_all(&[parse("", "SELECT $1::int4"), malformed, sync()]);
    let messages = client.until('Z');
    assert_eq!(
        (tags(&messages).as_str(), messages[2].body.as_slice()),
        ("1EZ", &b"E"[..])
    );
    assert_eq!(client.fails("SELECT 1"), "25P02");
}

#[test]
fn formats_without_a_value_are_ignored() {
    // One format for no parameter; formats for the columns of a statement without rows.
    let formats = frame(b'B', b"\0\0\0\x01\0\x07\0\0\0\0");
    let found = answer(&[parse("", "SELECT 1"), formats, execute("", 0), sync()]);
    assert_eq!(found.0, "12DCZ");
    for formats in [
        &b"\0\0\0\0\0\0\0\x02\0\0\0\0"[..],
        b"\0\0\0\0\0\0\0\x01\0\x07",
    ] {
        let set = parse("", "SET application_name = 'x'");
        let found = answer(&[set, frame(b'B', formats), execute("", 0), sync()]);
        assert_eq!(found.0, "12CSZ", "{formats:?}");
    }
}

#[test]
fn stray_copy_messages_are_ignored() {
    for tag in [b'c', b'd', b'f'] {
        assert_eq!(answer(&[frame(tag, b"abc")]).0, "", "{tag}");
    }
}

#[test]
fn malformed_messages_before_sync_are_skipped() {
    let failed = [parse("", "SELECT 1"), frame(b'D', b"X\0")].concat();
    let skipped = [
        frame(b'B', b""),
        frame(b'P', b"x"),
        frame(b'Q', b"abc"),
        frame(b'F', b"zz"),
    ];
    assert_eq!(answer(&[failed, skipped.concat(), sync()]).0, "1EZ");
}

#[test]
fn malformed_message_fails_the_copy() {
    let copy = |message| {
        let begin = query("CREATE TEMP TABLE t (a int); COPY t FROM STDIN");
        answer(&[begin, message])
    };
    let failed = |state: &str, text: &str| ("CGEZ".into(), state.into(), text.into());
    assert_eq!(
        copy(frame(b'f', b"abc")),
        failed("08P01", "invalid string in message")
    );
    let encoding = "invalid byte sequence for encoding \"UTF8\": 0xff";
    assert_eq!(copy(frame(b'f', b"\xff\0")), failed("22021", encoding));
    assert_eq!(copy(frame(b'c', b"abc")).0, "CGCZ");
    let passed_over = [frame(b'S', b"x"), frame(b'H', b"x"), frame(b'c', b"")].concat();
    assert_eq!(copy(passed_over).0, "CGCZ");
}
