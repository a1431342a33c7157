//! The bytes of a client: every decoder of the protocol, and a connection to a real server.
//!
//! ```text
//! input   form (1) | the bytes of the client
//! form 0  all bytes, starting with the first packet
//! form 1  the bytes after a valid start-up packet
//! form 2  messages after a valid start-up packet: type (1) | length (2) | body, with valid lengths
//! ```
//!
//! The client writes all bytes and closes its direction. Then it reads until the server closes the
//! other direction.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use fencepost::Database;
use fencepost_pgserver::proto::startup::PROTOCOL_VERSION;
use fencepost_pgserver::proto::{client_message, frame, startup};
use fencepost_pgserver::{ListenOptions, LocalOptions, Server, listen};
use parking_lot::Mutex;

use super::bytes::Bytes;
use super::database;

/// The maximal number of bytes that a client sends.
const INPUT_BYTES_MAX: usize = 32 << 10;

/// The longest message that the server accepts, in bytes.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// The longest time until the server closes a connection whose client has closed its direction.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// The number of inputs after which a new server is started, to limit the state that they leave
/// behind.
const INPUTS_MAX: u32 = 5_000;

/// Tables for the statements of inputs. The timeout ends long statements.
const TABLES: &str = "
    CREATE TABLE t (a int PRIMARY KEY, b text);
    INSERT INTO t SELECT n, 'row ' || n FROM generate_series(1, 20) n;
    ALTER ROLE postgres SET statement_timeout = '200ms'";

/// A server, and the number of its inputs so far.
struct WireTarget {
    // Fields are dropped in this order.
    _server: Server,
    _database: Database,
    socket: PathBuf,
    _folder: tempfile::TempDir,
    inputs: u32,
}

static SERVING: Mutex<Option<WireTarget>> = Mutex::new(None);

/// Runs one input.
///
/// # Panics
/// If the server sends an internal error or a malformed message, or does not close the connection.
pub fn run(input: &[u8]) {
    let mut rest = Bytes(input);
    let form = rest.below(3);
    let rest = rest.take(INPUT_BYTES_MAX);
    let sent = match form {
        0 => rest.to_vec(),
        1 => [&opening(), rest].concat(),
        _ => [opening(), framed(rest)].concat(),
    };
    decode(&sent);
    let reply = exchange(&sent);
    check_reply(&reply);
}

/// Returns the start-up packet of the superuser.
fn opening() -> Vec<u8> {
    packet(PROTOCOL_VERSION, b"user\0postgres\0database\0postgres\0\0")
}

/// Returns a packet without a type.
fn packet(code: u32, body: &[u8]) -> Vec<u8> {
    let length = (body.len() + 8) as u32;
    [&length.to_be_bytes(), &code.to_be_bytes(), body].concat()
}

/// Returns a message.
fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() + 4) as u32;
    [&[tag][..], &length.to_be_bytes(), body].concat()
}

/// Returns the messages of form 2.
fn framed(input: &[u8]) -> Vec<u8> {
    let (mut rest, mut out) = (Bytes(input), Vec::new());
    while !rest.is_empty() {
        let (tag, length) = (rest.byte(), rest.short());
        out.extend(message(tag, rest.take(usize::from(length))));
    }
    out
}

/// Decodes the packets and messages, including the lists in the messages.
fn decode(sent: &[u8]) {
    let first = startup::split(sent);
    let behind = first.ok().flatten().map_or(0, |(_, size)| size);
    // The bytes are also decoded as later messages, whatever the first packet is.
    for from in [0, behind] {
        let mut rest = &sent[from.min(sent.len())..];
        while let Ok(Some(frame)) = frame::split(rest, MESSAGE_BYTES_MAX) {
            if let Ok(client_message) = client_message::decode(&frame) {
                walk(&client_message);
            }
            rest = &rest[frame.size()..];
        }
    }
}

/// Iterates over the lists of a message, which must have the announced number of items.
fn walk(client_message: &client_message::ClientMessage<'_>) {
    match client_message {
        client_message::ClientMessage::Parse { types, .. } => {
            let oids = types.iter().map(u64::from);
            assert!(oids.sum::<u64>() < u64::MAX, "types of {client_message:?}");
        }
        client_message::ClientMessage::Bind(bind) => {
            let parameters = bind.parameters.iter().count();
            assert_eq!(
                parameters,
                bind.parameters.count(),
                "parameters of {bind:?}"
            );
            for formats in [&bind.parameter_formats, &bind.result_formats] {
                let codes = (0..formats.count()).map(|at| formats.code(at));
                assert_eq!(codes.count(), formats.count(), "formats of {bind:?}");
            }
        }
        _ => {}
    }
}

/// Sends the bytes of a client to the server, and returns its reply.
fn exchange(sent: &[u8]) -> Vec<u8> {
    let mut serving = SERVING.lock();
    if serving
        .as_ref()
        .is_none_or(|serving| serving.inputs >= INPUTS_MAX)
    {
        *serving = None;
    }
    let serving = serving.get_or_insert_with(serve);
    serving.inputs += 1;
    let mut reply = Vec::new();
    let mut talk = || -> std::io::Result<()> {
        let mut stream = UnixStream::connect(&serving.socket)?;
        stream.set_read_timeout(Some(TIME_LIMIT))?;
        stream.set_write_timeout(Some(TIME_LIMIT))?;
        // The server may close the connection before it has read all bytes.
        if stream.write_all(sent).is_ok() {
            let _ = stream.shutdown(Shutdown::Write);
        }
        stream.read_to_end(&mut reply).map(drop)
    };
    use std::io::ErrorKind::{ConnectionReset, TimedOut, WouldBlock};
    match talk() {
        Err(error) if matches!(error.kind(), TimedOut | WouldBlock) => {
            panic!("the server does not close the connection; reply so far: {reply:?}")
        }
        Err(error) if error.kind() != ConnectionReset => panic!("the socket: {error}"),
        _ => reply,
    }
}

fn serve() -> WireTarget {
    let database = database::open(TABLES);
    let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("a folder: {error}"));
    let server = listen(
        &database,
        ListenOptions {
            workers: 1,
            message_bytes_max: MESSAGE_BYTES_MAX,
            local: Some(LocalOptions {
                directory: folder.path().to_owned(),
                permissions: 0o700,
            }),
            ..ListenOptions::new("127.0.0.1:0")
        },
    );
    let server = server.unwrap_or_else(|error| panic!("the server: {error}"));
    let port = server.local_addr().port();
    WireTarget {
        _server: server,
        _database: database,
        socket: folder.path().join(format!(".s.PGSQL.{port}")),
        _folder: folder,
        inputs: 0,
    }
}

/// Panics if a reply is not a sequence of messages, or if one of them is an internal error.
fn check_reply(reply: &[u8]) {
    // Replies to requests for encryption: it is not available.
    let mut rest = reply;
    while let Some((b'N', behind)) = rest.split_first()
        && !is_notice(rest)
    {
        rest = behind;
    }
    while let Some((tag, behind)) = rest.split_first() {
        // The connection may be reset in the middle of a message.
        let Some((length, body)) = behind.split_first_chunk::<4>() else {
            return;
        };
        let length = u32::from_be_bytes(*length) as usize;
        assert!(length >= 4, "a message of {length} bytes in {reply:?}");
        let Some((body, next)) = body.split_at_checked(length - 4) else {
            return;
        };
        if *tag == b'E' {
            check_error(body);
        }
        rest = next;
    }
}

/// Returns whether the rest of a reply starts with a NoticeResponse: its first field is the
/// severity.
fn is_notice(rest: &[u8]) -> bool {
    rest.get(5) == Some(&b'S')
}

fn check_error(body: &[u8]) {
    let field = |code: u8| {
        let fields = body.split(|byte| *byte == 0);
        let mut values = fields.filter_map(|field| field.strip_prefix(&[code]));
        values
            .next()
            .map(|value| String::from_utf8_lossy(value).into_owned())
    };
    let (Some(state), Some(message)) = (field(b'C'), field(b'M')) else {
        panic!("an error without a state or a message: {body:?}");
    };
    let is_internal = database::is_internal(&state, &message);
    assert!(!is_internal, "{:?}", String::from_utf8_lossy(body));
}

/// Returns a message of form 2.
fn part(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = body.len() as u16;
    [&[tag][..], &length.to_le_bytes(), body].concat()
}

/// Returns a Bind message of a statement, with all parameters in one format.
fn bind(statement: &[u8], format: u16, parameters: &[Option<&[u8]>]) -> Vec<u8> {
    let mut body = [b"\0", statement, b"\0\0\x01"].concat();
    body.extend(format.to_be_bytes());
    body.extend((parameters.len() as u16).to_be_bytes());
    for parameter in parameters {
        let length = parameter.map_or(-1, |parameter| parameter.len() as i32);
        body.extend(length.to_be_bytes());
        body.extend_from_slice(parameter.unwrap_or_default());
    }
    body.extend([0, 1, 0, format as u8]);
    part(b'B', &body)
}

/// Returns sessions in all forms.
pub fn seeds() -> Vec<Vec<u8>> {
    let query = |sql: &str| part(b'Q', format!("{sql}\0").as_bytes());
    let parse = |name: &str, sql: &str, types: &[u32]| {
        let mut body = format!("{name}\0{sql}\0").into_bytes();
        body.extend((types.len() as u16).to_be_bytes());
        types.iter().for_each(|oid| body.extend(oid.to_be_bytes()));
        part(b'P', &body)
    };
    let execute = |rows: u32| part(b'E', &[&[0], &rows.to_be_bytes()[..]].concat());
    let (sync, end) = (part(b'S', b""), part(b'X', b""));
    let select = "SELECT a, b FROM t WHERE a = $1";
    let sessions = [
        vec![query("SELECT 1; SELECT * FROM t"), end.clone()],
        vec![
            query("BEGIN"),
            query("SELECT 1/0"),
            query("COMMIT"),
            end.clone(),
        ],
        vec![
            parse("", select, &[23]),
            part(b'D', b"S\0"),
            bind(b"", 1, &[Some(&[0, 0, 0, 7])]),
            part(b'D', b"P\0"),
            execute(0),
            sync.clone(),
            end.clone(),
        ],
        vec![
            parse(
                "s",
                "SELECT $1::text, $2::numeric, $3::timestamp, $4::int[]",
                &[],
            ),
            part(b'H', b""),
            bind(b"s", 0, &[Some(b"x"), Some(b"1.5"), None, Some(b"{1,2}")]),
            execute(1),
            part(b'C', b"Ss\0"),
            sync.clone(),
        ],
        vec![
            parse(
                "n",
                "SELECT $1::numeric, $2::jsonb, $3::time, $4::interval",
                &[],
            ),
            bind(
                b"n",
                1,
                &[
                    Some(&[0, 1, 0, 0, 0, 0, 0, 0, 0, 7]),
                    Some(b"\x01{}"),
                    None,
                    None,
                ],
            ),
            execute(0),
            sync.clone(),
        ],
        vec![
            query("COPY t FROM STDIN"),
            part(b'd', b"100\tx\n101"),
            part(b'd', b"\t\\N\n"),
            part(b'c', b""),
            query("COPY t TO STDOUT (FORMAT csv)"),
            end.clone(),
        ],
        vec![
            query("COPY t FROM STDIN (FORMAT binary)"),
            part(b'f', b"no\0"),
            end.clone(),
        ],
        vec![
            query("DECLARE c CURSOR WITH HOLD FOR SELECT * FROM t"),
            query("FETCH 3 FROM c; CLOSE c; LISTEN x; NOTIFY x, 'y'"),
            part(b'F', &[0, 0, 0, 1, 0, 0, 0, 0, 0, 1]),
            sync,
            end,
        ],
    ];
    let framed_form = sessions
        .iter()
        .map(|parts| [vec![2], parts.concat()].concat());
    let raw_form = sessions
        .iter()
        .map(|parts| [vec![1], framed(&parts.concat())].concat());
    let mut seeds: Vec<Vec<u8>> = framed_form.chain(raw_form).collect();
    let options = b"user\0postgres\0options\0-c work_mem=4MB --search-path=a\\ b\0_pq_.x\x001\0\0";
    for first in [
        [packet(80_877_103, b""), opening()].concat(),
        [packet(80_877_104, b""), packet(80_877_103, b""), opening()].concat(),
        packet(80_877_102, b"\0\0\0\x07\0\0\0\x09"),
        packet(PROTOCOL_VERSION + 2, options),
    ] {
        seeds.push([&[0][..], &first, &message(b'Q', b"SELECT 1\0")].concat());
    }
    seeds
}
