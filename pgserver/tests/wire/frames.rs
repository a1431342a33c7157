//! Invalid bytes: the session that sent them ends with 08P01, and other sessions are not affected.
//! Complete messages with a malformed body are in `malformed`.

use crate::common::{
    Client, bind, error, execute, frame, packet, parse, query, server, startup, sync, tags,
};

/// Sends `bytes` in a new session. Returns the last error before the connection ends.
fn final_error(bytes: &[u8]) -> (String, String) {
    let server = server();
    let mut bystander = Client::start(server.local_addr());
    let mut client = Client::start(server.local_addr());
    client.send(bytes);
    let messages = client.rest();
    assert_eq!(tags(&messages), "E", "{messages:?}");
    assert_eq!(messages[0].field(b'S').as_deref(), Some("FATAL"));
    assert_eq!(bystander.value("SELECT 1"), "1");
    error(&messages)
}

#[test]
fn unknown_message_type_ends_session() {
    let (state, message) = final_error(b"?");
    assert_eq!(
        (state.as_str(), message.as_str()),
        ("08P01", "invalid frontend message type 63")
    );
}

#[test]
fn giant_length_is_refused_before_its_bytes_arrive() {
    assert_eq!(final_error(b"Q\x7f\xff\xff\xff").0, "08P01");
    assert_eq!(final_error(b"Q\xff\xff\xff\xff").0, "08P01");
    assert_eq!(final_error(b"S\0\0\x40\0").0, "08P01");
    assert_eq!(final_error(b"Q\0\0\0\0").0, "08P01");
}

#[test]
fn unexpected_password_message_ends_session() {
    assert_eq!(final_error(&frame(b'p', b"secret\0")).0, "08P01");
}

#[test]
fn text_that_is_not_utf8_fails_the_statement_only() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    client.send(&frame(b'Q', b"SELECT '\xff'\0"));
    let messages = client.until('Z');
    assert_eq!(
        (tags(&messages).as_str(), error(&messages).0.as_str()),
        ("EZ", "22021")
    );
    client.send_all(&[frame(b'P', b"\xfe\0SELECT 1\0\0\0"), execute("", 0), sync()]);
    assert_eq!(tags(&client.until('Z')), "EZ");
    client.send_all(&[
        parse("", "SELECT $1::text"),
        frame(b'B', b"\0\0\0\0\0\x01\0\0\0\x01\xff\0\0"),
        sync(),
    ]);
    let messages = client.until('Z');
    assert_eq!(
        (tags(&messages).as_str(), error(&messages).0.as_str()),
        ("1EZ", "22021")
    );
    assert_eq!(client.value("SELECT 1"), "1");
}

#[test]
fn messages_may_come_byte_by_byte() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    let messages = [
        parse("", "SELECT 1"),
        bind("", "", &[]),
        execute("", 0),
        sync(),
    ]
    .concat();
    for byte in messages {
        client.send(&[byte]);
    }
    assert_eq!(tags(&client.until('Z')), "12DCZ");
}

#[test]
fn long_query_grows_buffer() {
    let server = server();
    let mut client = Client::start(server.local_addr());
    let text = "x".repeat(1_000_000);
    assert_eq!(client.value(&format!("SELECT '{text}'")), text);
}

#[test]
fn announced_message_allocates_nothing_until_received() {
    let server = server();
    let mut clients: Vec<Client> = (0..50)
        .map(|_| Client::start(server.local_addr()))
        .collect();
    for client in &mut clients {
        client.send(b"Q\x3f\xff\xff\xf0select");
    }
    let mut client = Client::start(server.local_addr());
    assert_eq!(client.value("SELECT 1"), "1");
}

#[test]
fn start_up_packets_that_cannot_be_served() {
    let server = server();
    let refused = |bytes: &[u8]| {
        let mut client = Client::connect(server.local_addr());
        client.send(bytes);
        let messages = client.rest();
        assert!(tags(&messages).ends_with('E'), "{messages:?}");
        error(&messages).0
    };
    assert_eq!(refused(&30_000u32.to_be_bytes()), "08P01");
    assert_eq!(refused(b"GET / HTTP/1.1\r\n\r\n"), "08P01");
    assert_eq!(refused(&packet(2 << 16, b"user\0postgres\0\0")), "08P01");
    assert_eq!(refused(&packet(3 << 16, b"user\0postgres\0")), "08P01");
    assert_eq!(
        refused(&packet(3 << 16, b"database\0postgres\0\0")),
        "28000"
    );
    assert_eq!(refused(&startup("database\0nowhere\0")), "3D000");
    assert_eq!(
        refused(&packet(3 << 16, b"user\0nobody\0database\0postgres\0\0")),
        "28000"
    );
}

#[test]
fn newer_minor_protocol_version_is_negotiated_down() {
    let server = server();
    let mut client = Client::connect(server.local_addr());
    client.send(&packet(
        (3 << 16) | 2,
        b"user\0postgres\0_pq_.magic\0on\0\0",
    ));
    let welcome = client.until('Z');
    assert_eq!(welcome[0].tag, 'v');
    assert_eq!(welcome[0].body, b"\0\x03\0\0\0\0\0\x01_pq_.magic\0");
    client.send(&query("SELECT 1"));
    assert_eq!(tags(&client.until('Z')), "TDCZ");
}

#[test]
fn parameter_status_messages_are_in_order() {
    let server = server();
    let mut client = Client::connect(server.local_addr());
    client.send(&startup(
        "application_name\0test\0client_encoding\0'utf-8'\0options\0-c DateStyle=ISO\0",
    ));
    let welcome = client.until('Z');
    let parameters: Vec<(String, String)> = welcome
        .iter()
        .filter(|message| message.tag == 'S')
        .map(|message| {
            let text = String::from_utf8_lossy(&message.body).into_owned();
            let (name, value) = text.split_once('\0').expect("a name");
            (name.to_owned(), value.trim_end_matches('\0').to_owned())
        })
        .collect();
    let names: Vec<&str> = parameters.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names.join(" "),
        "application_name client_encoding DateStyle \
        default_transaction_read_only in_hot_standby integer_datetimes IntervalStyle is_superuser \
        server_encoding server_version session_authorization standard_conforming_strings TimeZone"
    );
    let value = |name: &str| {
        parameters
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.as_str())
    };
    assert_eq!(value("application_name"), Some("test"));
    assert_eq!(value("client_encoding"), Some("UTF8"));
    assert_eq!(value("DateStyle"), Some("ISO, MDY"));
    assert_eq!(value("integer_datetimes"), Some("on"));
    assert_eq!(value("session_authorization"), Some("postgres"));
    assert!(value("server_version").is_some_and(|version| version.starts_with("15.")));
}

#[test]
fn noise_ends_one_session_and_nothing_else() {
    let server = server();
    let mut bystander = Client::start(server.local_addr());
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as u8
    };
    for round in 0..300 {
        let tag = b"QPBDECSHdcf"[usize::from(random()) % 11];
        let body: Vec<u8> = (0..random() % 40).map(|_| random() % 4).collect();
        let mut client = match round % 2 {
            0 => Client::start(server.local_addr()),
            _ => Client::connect(server.local_addr()),
        };
        client.send_all(&[frame(tag, &body), frame(b'X', b"")]);
        client.rest();
    }
    assert_eq!(bystander.value("SELECT 1"), "1");
}
