//! Clients whose encoding is not UTF-8: they send and receive text in their own encoding.

use crate::common::{Client, Message, error, execute, frame, named, server, startup, sync, tags};

/// Starts a server and a client with this encoding.
fn client_of(encoding: &str) -> (fencepost_pgserver::Server, Client) {
    let server = server();
    let mut client = Client::connect(server.local_addr());
    client.send(&startup(&format!("client_encoding\0{encoding}\0")));
    client.until('Z');
    (server, client)
}

/// Returns a Query, of bytes.
fn query(sql: &[u8]) -> Vec<u8> {
    frame(b'Q', &[sql, b"\0"].concat())
}

/// Returns whether a message contains these bytes.
fn has(messages: &[Message], tag: char, bytes: &[u8]) -> bool {
    let mut of_tag = messages.iter().filter(|message| message.tag == tag);
    of_tag.any(|message| message.body.windows(bytes.len()).any(|part| part == bytes))
}

fn run(client: &mut Client, sql: &[u8]) -> Vec<Message> {
    client.send(&query(sql));
    client.until('Z')
}

#[test]
fn texts_and_names_are_converted() {
    let (_server, mut client) = client_of("LATIN1");
    let answer = run(
        &mut client,
        b"SELECT 'caf\xe9' AS \"\xe9t\xe9\", length('\xe9'), '\xe9'::bytea",
    );
    assert!(has(&answer, 'T', b"\xe9t\xe9\0"));
    let row = b"\0\x03\0\0\0\x04caf\xe9\0\0\0\x011\0\0\0\x06\\xc3a9";
    assert!(has(&answer, 'D', row));
    let answer = run(&mut client, b"SELECT no_\xe9");
    assert!(has(&answer, 'E', b"column \"no_\xe9\" does not exist\0"));
    let answer = run(&mut client, b"DO $$BEGIN RAISE NOTICE '\xe9'; END$$");
    assert!(has(&answer, 'N', b"M\xe9\0"));
    let answer = run(&mut client, b"LISTEN c; NOTIFY c, '\xe9'");
    assert!(has(&answer, 'A', b"c\0\xe9\0"));
}

#[test]
fn character_that_the_encoding_lacks_is_an_error() {
    let (_server, mut client) = client_of("LATIN1");
    let answer = run(&mut client, b"SELECT chr(8364)");
    assert_eq!(tags(&answer), "TEZ");
    let (state, message) = error(&answer);
    assert_eq!(state, "22P05");
    assert_eq!(
        message,
        "character with byte sequence 0xe2 0x82 0xac in encoding \"UTF8\" has no equivalent in \
         encoding \"LATIN1\""
    );
    let answer = run(&mut client, b"SELECT 1 AS U&\"\\20ac\"");
    assert_eq!(error(&answer).0, "22P05");
    run(&mut client, b"SET client_encoding = 'WIN1252'");
    let answer = run(&mut client, b"SELECT '\x80'::bytea");
    assert!(has(&answer, 'D', b"\\xe282ac"));
    let answer = run(&mut client, b"SELECT '\x81'");
    assert_eq!(error(&answer).0, "22P05");
    run(&mut client, b"SET NAMES 'SJIS'");
    let answer = run(&mut client, b"SELECT '\x95\x5c', length('\x95\x5c')");
    assert!(has(&answer, 'D', b"\0\0\0\x02\x95\x5c\0\0\0\x011"));
    let answer = run(&mut client, b"SELECT '\x81 '");
    assert_eq!(error(&answer).0, "22021");
    let answer = run(&mut client, b"RESET client_encoding");
    assert!(has(&answer, 'S', b"client_encoding\0LATIN1\0"));
}

#[test]
fn parameters_and_binary_texts_are_converted() {
    let (_server, mut client) = client_of("LATIN1");
    let mut parse = b"\xe9\0SELECT $1::text, length($1), $2::bytea\0".to_vec();
    parse.extend_from_slice(&[0, 0]);
    client.send(&frame(b'P', &parse));
    for code in [0, 1] {
        let mut bind = b"\0\xe9\0\0\x01\0".to_vec();
        bind.push(code);
        bind.extend_from_slice(b"\0\x02\0\0\0\x01\xe9\0\0\0\x01a\0\x01\0");
        bind.push(code);
        client.send(&frame(b'B', &bind));
        client.send(&execute("", 0));
        client.send(&sync());
        let answer = client.until('Z');
        assert!(has(&answer, 'D', b"\0\0\0\x01\xe9"), "{answer:?}");
    }
    // Names of statements are converted, too.
    client.send(&named(b'D', 'S', "\u{e9}"));
    client.send(&sync());
    assert_eq!(error(&client.until('Z')).0, "26000");
}

#[test]
fn copy_data_are_converted() {
    let (_server, mut client) = client_of("LATIN1");
    run(&mut client, b"CREATE TABLE t (a text)");
    client.send(&query(b"COPY t FROM STDIN"));
    for data in [&b"a\xe9\nb"[..], b"\xe8\n", b"c\xe7"] {
        client.send(&frame(b'd', data));
    }
    client.send(&frame(b'c', b""));
    client.until('Z');
    let answer = run(&mut client, b"SELECT string_agg(a, ',' ORDER BY a) FROM t");
    assert!(has(&answer, 'D', b"a\xe9,b\xe8,c\xe7"));
    let answer = run(&mut client, b"COPY t TO STDOUT");
    assert!(has(&answer, 'd', b"b\xe8\n"));
    run(&mut client, b"SET client_encoding = 'WIN1252'");
    client.send(&query(b"COPY t FROM STDIN"));
    client.send(&frame(b'd', b"\x81\n"));
    client.send(&frame(b'c', b""));
    assert_eq!(error(&client.until('Z')).0, "22P05");
}
