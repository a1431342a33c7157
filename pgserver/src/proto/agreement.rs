//! Compares this codec with pgwire's: a message must have the same bytes and the same values in
//! both. Messages that only pgwire writes are read back.
//!
//! Frames that this decoder refuses are not given to pgwire, whose decoders panic on some of them.

use bytes::{Bytes, BytesMut};
use pgwire::messages::cancel::CancelRequest;
use pgwire::messages::copy;
use pgwire::messages::data;
use pgwire::messages::extendedquery as extended;
use pgwire::messages::response::{CommandComplete, ReadyForQuery, TransactionStatus};
use pgwire::messages::simplequery::Query;
use pgwire::messages::startup::{self as pg_startup, Authentication, BackendKeyData, SecretKey};
use pgwire::messages::terminate::Terminate;
use pgwire::messages::{
    DecodeContext, Message, PgWireBackendMessage as Back, PgWireFrontendMessage, ProtocolVersion,
};
use proptest::prelude::*;

use super::backend::{self, string};
use super::client_message::{self, ClientMessage, Target};
use super::encode;
use super::encode::Column;
use super::startup::{self, FirstPacket};
use super::{ProtoError, frame};

const LIMIT: usize = 1 << 20;

fn pgwire_bytes(message: &impl Message) -> Vec<u8> {
    let mut out = BytesMut::new();
    message.encode(&mut out).expect("a small message");
    out.to_vec()
}

fn context() -> DecodeContext {
    let mut context = DecodeContext::new(ProtocolVersion::PROTOCOL3_0);
    context.awaiting_frontend_ssl = false;
    context.awaiting_frontend_startup = false;
    context
}

/// Returns a client's message as pgwire decodes it. A negative number of rows stands for all of
/// them.
fn read_by_pgwire(bytes: &[u8]) -> String {
    let mut rest = BytesMut::from(bytes);
    let read = PgWireFrontendMessage::decode(&mut rest, &context());
    let mut message = read.expect("well formed").expect("whole");
    if let PgWireFrontendMessage::Execute(execute) = &mut message {
        execute.max_rows = execute.max_rows.max(0);
    }
    format!("{message:?}")
}

/// Returns a client's message as this decoder reads it, in pgwire's types.
fn read_by_us(bytes: &[u8]) -> Result<String, ProtoError> {
    let frame = frame::split(bytes, LIMIT)?.ok_or(ProtoError::Length)?;
    Ok(format!("{:?}", as_pgwire(client_message::decode(&frame)?)))
}

fn name(name: &str) -> Option<String> {
    (!name.is_empty()).then(|| name.to_owned())
}

fn codes(formats: client_message::Formats<'_>) -> Vec<i16> {
    let count = formats.count();
    (0..count).map(|index| formats.code(index)).collect()
}

fn target(target: Target) -> u8 {
    match target {
        Target::Statement => extended::TARGET_TYPE_BYTE_STATEMENT,
        Target::Portal => extended::TARGET_TYPE_BYTE_PORTAL,
    }
}

fn as_pgwire(message: ClientMessage<'_>) -> PgWireFrontendMessage {
    use PgWireFrontendMessage as Pg;
    match message {
        ClientMessage::Query(sql) => Pg::Query(Query::new(sql.into())),
        ClientMessage::Parse {
            name: statement,
            sql,
            types,
        } => Pg::Parse(extended::Parse::new(
            name(statement),
            sql.into(),
            types.iter().collect(),
        )),
        ClientMessage::Bind(bind) => {
            let parameters = bind.parameters.iter();
            Pg::Bind(extended::Bind::new(
                name(bind.portal),
                name(bind.statement),
                codes(bind.parameter_formats),
                parameters
                    .map(|bytes| bytes.map(Bytes::copy_from_slice))
                    .collect(),
                codes(bind.result_formats),
            ))
        }
        ClientMessage::Describe(of, named) => {
            Pg::Describe(extended::Describe::new(target(of), name(named)))
        }
        ClientMessage::Execute { portal, rows_max } => {
            Pg::Execute(extended::Execute::new(name(portal), rows_max as i32))
        }
        ClientMessage::Close(of, named) => Pg::Close(extended::Close::new(target(of), name(named))),
        ClientMessage::Sync => Pg::Sync(extended::Sync::new()),
        ClientMessage::Flush => Pg::Flush(extended::Flush::new()),
        ClientMessage::CopyData(data) => {
            Pg::CopyData(copy::CopyData::new(Bytes::copy_from_slice(data)))
        }
        ClientMessage::CopyDone => Pg::CopyDone(copy::CopyDone::new()),
        ClientMessage::CopyFail(why) => Pg::CopyFail(copy::CopyFail::new(why.into())),
        ClientMessage::Password(body) => {
            let raw = pg_startup::PasswordMessageFamily::Raw(BytesMut::from(body));
            Pg::PasswordMessageFamily(raw)
        }
        ClientMessage::Terminate => Pg::Terminate(Terminate::new()),
        ClientMessage::FunctionCall => unreachable!("pgwire has no such message"),
    }
}

/// Generates texts that a zero-terminated string can hold.
fn text() -> impl Strategy<Value = String> {
    "[^\0]{0,12}"
}

fn binary() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..20)
}

fn formats() -> impl Strategy<Value = Vec<i16>> {
    prop::collection::vec(any::<i16>(), 0..4)
}

/// Generates the bytes of each message that a client may send, as pgwire writes it.
fn client_messages() -> impl Strategy<Value = Vec<u8>> {
    let oids = prop::collection::vec(any::<u32>(), 0..4);
    let parse = (text(), text(), oids)
        .prop_map(|(n, sql, oids)| pgwire_bytes(&extended::Parse::new(name(&n), sql, oids)));
    let parameters = prop::collection::vec(prop::option::of(binary()), 0..4);
    let bind = (text(), text(), formats(), parameters, formats()).prop_map(
        |(portal, statement, given, parameters, wanted)| {
            let parameters = parameters.into_iter().map(|bytes| bytes.map(Bytes::from));
            let (portal, statement) = (name(&portal), name(&statement));
            let parameters = parameters.collect();
            pgwire_bytes(&extended::Bind::new(
                portal, statement, given, parameters, wanted,
            ))
        },
    );
    let kind = || prop::sample::select(b"SP".to_vec());
    let describe = (kind(), text())
        .prop_map(|(kind, n)| pgwire_bytes(&extended::Describe::new(kind, name(&n))));
    let close =
        (kind(), text()).prop_map(|(kind, n)| pgwire_bytes(&extended::Close::new(kind, name(&n))));
    let execute = (text(), any::<i32>())
        .prop_map(|(n, rows)| pgwire_bytes(&extended::Execute::new(name(&n), rows)));
    let response =
        binary().prop_map(|data| pgwire_bytes(&pg_startup::SASLResponse::new(Bytes::from(data))));
    prop_oneof![
        bind,
        execute,
        parse,
        describe,
        close,
        response,
        text().prop_map(|sql| pgwire_bytes(&Query::new(sql))),
        text().prop_map(|why| pgwire_bytes(&copy::CopyFail::new(why))),
        binary().prop_map(|data| pgwire_bytes(&copy::CopyData::new(Bytes::from(data)))),
        prop::sample::select(vec![
            pgwire_bytes(&extended::Sync::new()),
            pgwire_bytes(&extended::Flush::new()),
            pgwire_bytes(&copy::CopyDone::new()),
            pgwire_bytes(&Terminate::new()),
        ]),
    ]
}

fn start_up(parameters: &[(String, String)]) -> Vec<u8> {
    let mut packet = pg_startup::Startup::new();
    packet.parameters.extend(parameters.iter().cloned());
    pgwire_bytes(&packet)
}

fn status() -> impl Strategy<Value = TransactionStatus> {
    prop::sample::select(vec![
        TransactionStatus::Idle,
        TransactionStatus::Transaction,
        TransactionStatus::Error,
    ])
}

/// Returns the bytes that `write` appends.
fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    // Bytes already in the buffer must not change the message.
    let mut out = b"before".to_vec();
    write(&mut out);
    out.split_off(6)
}

/// Returns the bytes that [`backend::append`] appends.
fn appended(message: &impl Message) -> Vec<u8> {
    written(|out| backend::append(out, message))
}

/// Checks that pgwire writes and reads a server's message in the same way as this codec.
#[track_caller]
fn check(ours: &[u8], message: Back) {
    let mut theirs = BytesMut::new();
    message.encode(&mut theirs).expect("a small message");
    assert_eq!(ours, &theirs[..], "{message:?}");
    let mut rest = BytesMut::from(ours);
    let read = Back::decode(&mut rest, &context()).expect("well formed");
    assert_eq!(
        format!("{:?}", read.expect("whole")),
        format!("{message:?}")
    );
    assert!(rest.is_empty());
}

#[test]
fn encryption_requests_agree_with_pgwire() {
    for (request, opening) in [
        (
            pgwire_bytes(&pg_startup::SslRequest::new()),
            FirstPacket::Tls,
        ),
        (
            pgwire_bytes(&pg_startup::GssEncRequest::new()),
            FirstPacket::Gss,
        ),
    ] {
        assert_eq!(startup::split(&request), Ok(Some((opening, 8))));
    }
}

proptest! {
    #[test]
    fn client_messages_agree_with_pgwire(bytes in client_messages()) {
        let ours = read_by_us(&bytes);
        prop_assert_eq!(ours, Ok(read_by_pgwire(&bytes)));
    }

    #[test]
    fn accepted_frames_agree_with_pgwire(
        bytes in client_messages(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        length in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = bytes;
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(length) = length {
            bytes.truncate(5 + length.index(bytes.len() - 4));
            let length = (bytes.len() as u32 - 1).to_be_bytes();
            bytes[1..5].copy_from_slice(&length);
        }
        if bytes[0] != b'F' && let Ok(ours) = read_by_us(&bytes) {
            let size = frame::split(&bytes, LIMIT)?.map_or(0, |frame| frame.size());
            prop_assert_eq!(ours, read_by_pgwire(&bytes[..size]));
        }
    }

    #[test]
    fn start_up_packets_agree_with_pgwire(
        user in "[^\0]{1,9}",
        database in "[^\0]{1,9}",
        settings in prop::collection::btree_map("x[a-z]{0,6}", text(), 0..4),
    ) {
        let mut parameters: Vec<(String, String)> = settings.into_iter().collect();
        let sent = parameters.clone();
        parameters.push(("user".into(), user.clone()));
        parameters.push(("database".into(), database.clone()));
        let packet = start_up(&parameters);
        let Ok(Some((FirstPacket::Startup(read), size))) = startup::split(&packet) else {
            panic!("a start-up packet");
        };
        prop_assert_eq!((read.user, read.database, read.settings), (user, database, sent));
        prop_assert_eq!((read.minor, size), (0, packet.len()));
    }

    #[test]
    fn cancel_requests_agree_with_pgwire(pid in any::<i32>(), secret in any::<i32>()) {
        let packet = pgwire_bytes(&CancelRequest::new(pid, SecretKey::I32(secret)));
        let opening = FirstPacket::Cancel { pid, secret };
        prop_assert_eq!(startup::split(&packet), Ok(Some((opening, packet.len()))));
    }

    #[test]
    fn rows_agree_with_pgwire(values in prop::collection::vec(prop::option::of(binary()), 0..5)) {
        let ours = written(|out| {
            let row = encode::begin_row(out, values.len());
            for value in &values {
                match value {
                    Some(value) => encode::field(out, |out| out.extend_from_slice(value)),
                    None => encode::null(out),
                }
            }
            encode::end(out, row);
        });
        let mut fields = BytesMut::new();
        for value in &values {
            let length = value.as_ref().map_or(-1, |value| value.len() as i32);
            fields.extend_from_slice(&length.to_be_bytes());
            fields.extend_from_slice(value.as_deref().unwrap_or_default());
        }
        let row = data::DataRow::new(fields, values.len() as i16);
        check(&ours, Back::DataRow(row));
    }

    #[test]
    fn descriptions_agree_with_pgwire(
        columns in prop::collection::vec(
            (".{0,12}", any::<(u32, i16, u32, i16, i32, bool)>()),
            0..5,
        ),
    ) {
        let ours = written(|out| encode::row_description(out, columns.iter().map(|(name, of)| {
            let (table, attribute, type_oid, type_size, typmod, binary) = *of;
            Column { name, table, attribute, type_oid, type_size, typmod, binary }
        })));
        let theirs = columns.iter().map(|(name, of)| {
            let (table, attribute, type_oid, size, typmod, binary) = *of;
            let format = i16::from(binary);
            let name = string(name);
            let table = table as i32;
            data::FieldDescription::new(name, table, attribute, type_oid, size, typmod, format)
        });
        check(&ours, Back::RowDescription(data::RowDescription::new(theirs.collect())));
        let ours = written(encode::no_data);
        check(&ours, Back::NoData(data::NoData::new()));
    }

    #[test]
    fn completions_agree_with_pgwire(
        tag in "[A-Z0-9 ]{1,20}",
        status in status(),
        data in binary(),
    ) {
        let ours = written(|out| encode::command_complete(out, |out| out.extend(tag.bytes())));
        check(&ours, Back::CommandComplete(CommandComplete::new(tag)));
        let ours = written(|out| encode::ready_for_query(out, status));
        check(&ours, Back::ReadyForQuery(ReadyForQuery::new(status)));
        let ours = written(|out| encode::copy_data(out, &data));
        check(&ours, Back::CopyData(copy::CopyData::new(Bytes::from(data))));
        let ours = written(encode::bind_complete);
        check(&ours, Back::BindComplete(extended::BindComplete::new()));
    }

    #[test]
    fn appended_messages_are_read_back(
        (pid, secret) in any::<(i32, i32)>(),
        options in prop::collection::vec("_pq_[.][a-z]{0,6}", 0..3),
        (name, value) in (".{0,12}", ".{0,12}"),
        oids in prop::collection::vec(any::<u32>(), 0..4),
        (columns, binary) in (0_usize..9, any::<bool>()),
    ) {
        let key = || BackendKeyData::new(pid, SecretKey::I32(secret));
        check(&appended(&key()), Back::BackendKeyData(key()));
        let offer = || Authentication::SASL(vec![string("PLUS"), string("SHA")]);
        check(&appended(&offer()), Back::Authentication(offer()));
        let version = || backend::negotiate_protocol_version(options.clone());
        check(&appended(&version()), Back::NegotiateProtocolVersion(version()));
        let status = || backend::parameter_status(&name, &value);
        check(&appended(&status()), Back::ParameterStatus(status()));
        let notification = || backend::notification(pid, &name, &value);
        check(&appended(&notification()), Back::NotificationResponse(notification()));
        let types = || backend::parameter_description(oids.iter().copied());
        check(&appended(&types()), Back::ParameterDescription(types()));
        let copy_in = || backend::copy_in((columns, binary));
        check(&appended(&copy_in()), Back::CopyInResponse(copy_in()));
        let copy_out = || backend::copy_out((columns, binary));
        check(&appended(&copy_out()), Back::CopyOutResponse(copy_out()));
    }
}
