//! The packets at the start of a connection: they have a length and no type byte.
//!
//! ```text
//!   SSLRequest | GSSENCRequest | CancelRequest pid secret | 3.minor name value … \0
//! ```
//!
//! The requests are pgwire's. The parameters of a session are decoded here: pgwire keeps neither
//! their order nor the end of the packet, and replaces bytes that are not UTF-8.
//!
//! Failure: a length outside 8..=10000 or another major version ends the connection.

use bytes::BytesMut;
use pgwire::messages::cancel::CancelRequest;
use pgwire::messages::startup::{GssEncRequest, SecretKey, SslRequest};
use pgwire::messages::{DecodeContext, Message, ProtocolVersion};

use super::ProtoError;
use super::reader::Reader;

/// The size limit of a packet before authentication, in bytes.
pub const STARTUP_BYTES_MAX: usize = 10_000;

/// The protocol version of the server: 3.0.
pub const PROTOCOL_VERSION: u32 = 3 << 16;

/// The first packet of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FirstPacket {
    /// Asks for TLS.
    Tls,
    /// Asks for GSSAPI encryption.
    Gss,
    /// Requests to cancel the statement of another session.
    Cancel {
        /// The number of that session.
        pid: i32,
        /// The secret of that session.
        secret: i32,
    },
    /// Opens a session.
    Startup(Startup),
}

/// The parameters of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Startup {
    /// The requested minor version.
    pub minor: u16,
    /// The role; empty if the client names none, which the server refuses.
    pub user: String,
    /// The database; the role's name if the client names none.
    pub database: String,
    /// Settings in their original order, after those of `options`.
    pub settings: Vec<(String, String)>,
    /// Unknown protocol options (`_pq_.…`).
    pub unknown_options: Vec<String>,
}

/// Returns the first packet in `input` and its size in bytes, or `None` while it is incomplete.
///
/// # Errors
/// [`ProtoError::Startup`] for a bad length or another protocol version; [`ProtoError::Format`] or
/// [`ProtoError::Encoding`] for a malformed body. The connection ends.
pub fn split(input: &[u8]) -> Result<Option<(FirstPacket, usize)>, ProtoError> {
    let Some(length) = input.first_chunk::<4>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*length) as usize;
    if !(8..=STARTUP_BYTES_MAX).contains(&length) {
        return Err(invalid_length());
    }
    match input.get(..length) {
        Some(packet) => Ok(Some((opening(packet)?, length))),
        None => Ok(None),
    }
}

fn invalid_length() -> ProtoError {
    ProtoError::Startup("invalid length of startup packet".into())
}

/// Decodes a complete packet with its length.
fn opening(packet: &[u8]) -> Result<FirstPacket, ProtoError> {
    let (opening, length) = if SslRequest::is_ssl_request_packet(packet) {
        (FirstPacket::Tls, SslRequest::BODY_SIZE)
    } else if GssEncRequest::is_gss_enc_request_packet(packet) {
        (FirstPacket::Gss, GssEncRequest::BODY_SIZE)
    } else if CancelRequest::is_cancel_request_packet(packet) {
        return cancel(packet);
    } else {
        let mut reader = Reader::new(&packet[4..]);
        let (major, minor) = (reader.u16()?, reader.u16()?);
        if major == 3 {
            return Ok(FirstPacket::Startup(parameters(&mut reader, minor)?));
        }
        return Err(ProtoError::Startup(format!(
            "unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.0"
        )));
    };
    if packet.len() != length {
        return Err(invalid_length());
    }
    Ok(opening)
}

fn cancel(packet: &[u8]) -> Result<FirstPacket, ProtoError> {
    let mut rest = BytesMut::from(packet);
    let context = DecodeContext::new(ProtocolVersion::PROTOCOL3_0);
    match CancelRequest::decode(&mut rest, &context) {
        Ok(Some(request)) if rest.is_empty() => match request.secret_key {
            SecretKey::I32(secret) => Ok(FirstPacket::Cancel {
                pid: request.pid,
                secret,
            }),
            SecretKey::Bytes(_) => Err(invalid_length()),
        },
        _ => Err(invalid_length()),
    }
}

fn parameters(reader: &mut Reader<'_>, minor: u16) -> Result<Startup, ProtoError> {
    let mut startup = Startup {
        minor,
        ..Startup::default()
    };
    let mut options = Vec::new();
    loop {
        let name = reader.cstring()?;
        if name.is_empty() {
            break;
        }
        let value = reader.cstring()?;
        match name {
            "user" => startup.user = value.into(),
            "database" => startup.database = value.into(),
            "options" => options = command_line(value)?,
            "replication" => refuse_replication(value)?,
            _ if name.starts_with("_pq_.") => startup.unknown_options.push(name.into()),
            _ => startup.settings.push((name.into(), unquoted(name, value))),
        }
    }
    reader.end().map_err(|_| {
        ProtoError::Startup(
            "invalid startup packet layout: expected terminator as last byte".into(),
        )
    })?;
    if startup.database.is_empty() {
        startup.database = startup.user.clone();
    }
    options.append(&mut startup.settings);
    startup.settings = options;
    Ok(startup)
}

fn refuse_replication(value: &str) -> Result<(), ProtoError> {
    match value {
        "false" | "off" | "no" | "0" => Ok(()),
        _ => Err(ProtoError::Startup(
            "replication connections are not supported".into(),
        )),
    }
}

/// Removes quotes, because asyncpg sends the encoding as an SQL literal.
fn unquoted(name: &str, value: &str) -> String {
    let inner = value.strip_prefix('\'').and_then(|v| v.strip_suffix('\''));
    match inner {
        Some(inner) if name == "client_encoding" => inner.into(),
        _ => value.into(),
    }
}

/// Parses the settings of `-c name=value`, `-cname=value` and `--name=value`. A backslash keeps a
/// space.
fn command_line(options: &str) -> Result<Vec<(String, String)>, ProtoError> {
    let mut settings = Vec::new();
    let mut words = words(options).into_iter();
    while let Some(word) = words.next() {
        let setting = match (word.strip_prefix("--"), word.strip_prefix("-c")) {
            (Some(long), _) => Some(long.to_owned()),
            (None, Some("")) => words.next(),
            (None, Some(short)) => Some(short.to_owned()),
            (None, None) => None,
        };
        let pair = setting.as_deref().and_then(|s| s.split_once('='));
        let Some((name, value)) = pair else {
            return Err(ProtoError::Startup(format!(
                "invalid command-line argument for server process: {word}"
            )));
        };
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut open = false;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                word.extend(chars.next());
                open = true;
            }
            c if c.is_ascii_whitespace() => {
                if open {
                    words.push(std::mem::take(&mut word));
                }
                open = false;
            }
            c => {
                word.push(c);
                open = true;
            }
        }
    }
    if open {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CANCEL_CODE: u32 = 80_877_102;
    const TLS_CODE: u32 = 80_877_103;
    const GSS_CODE: u32 = 80_877_104;

    fn packet(code: u32, rest: &[u8]) -> Vec<u8> {
        let mut out = (rest.len() as u32 + 8).to_be_bytes().to_vec();
        out.extend_from_slice(&code.to_be_bytes());
        out.extend_from_slice(rest);
        out
    }

    fn startup(rest: &[u8]) -> Startup {
        match split(&packet(PROTOCOL_VERSION, rest)) {
            Ok(Some((FirstPacket::Startup(startup), size))) if size == rest.len() + 8 => startup,
            other => panic!("not a start-up: {other:?}"),
        }
    }

    #[test]
    fn parameters_are_sorted_out() {
        let s = startup(
            b"user\0ann\0client_encoding\0'utf-8'\0options\0-c a=1 --b-c=x\\ y \
              -cd=2\0_pq_.x\x001\0\0",
        );
        assert_eq!((s.user.as_str(), s.database.as_str()), ("ann", "ann"));
        let settings: Vec<_> = s
            .settings
            .iter()
            .map(|(n, v)| (n.as_str(), v.as_str()))
            .collect();
        let wanted = [
            ("a", "1"),
            ("b_c", "x y"),
            ("d", "2"),
            ("client_encoding", "utf-8"),
        ];
        assert_eq!(settings, wanted);
        assert_eq!(s.unknown_options, ["_pq_.x"]);
    }

    #[test]
    fn startup_requests_are_distinguished() {
        assert_eq!(
            split(&packet(TLS_CODE, b"")),
            Ok(Some((FirstPacket::Tls, 8)))
        );
        assert_eq!(
            split(&packet(GSS_CODE, b"")),
            Ok(Some((FirstPacket::Gss, 8)))
        );
        let cancel = FirstPacket::Cancel { pid: 7, secret: 9 };
        assert_eq!(
            split(&packet(CANCEL_CODE, b"\0\0\0\x07\0\0\0\x09")),
            Ok(Some((cancel, 16)))
        );
    }

    #[test]
    fn bad_packets_are_refused() {
        assert!(split(&20_000u32.to_be_bytes()).is_err());
        assert!(split(&7u32.to_be_bytes()).is_err());
        assert!(split(&packet(2 << 16, b"")).is_err());
        for (code, rest) in [
            (CANCEL_CODE, &b"\0"[..]),
            (CANCEL_CODE, b"\0\0\0\x07\0\0\0\x09\0"),
            (TLS_CODE, b"\0"),
            (GSS_CODE, b"\0"),
        ] {
            assert_eq!(split(&packet(code, rest)), Err(invalid_length()));
        }
        assert!(split(&packet(PROTOCOL_VERSION, b"user\0ann\0")).is_err());
        assert!(split(&packet(PROTOCOL_VERSION, b"user\0ann\0\0more")).is_err());
        assert!(split(&packet(PROTOCOL_VERSION, b"user\0a\0options\0-x\0\0")).is_err());
        assert!(
            split(&packet(
                PROTOCOL_VERSION,
                b"user\0a\0replication\0database\0\0"
            ))
            .is_err()
        );
    }

    proptest! {
        #[test]
        fn random_packets_never_panic(
            code in any::<u32>(),
            rest in prop::collection::vec(any::<u8>(), 0..99),
        ) {
            let _ = split(&packet(code, &rest));
            let _ = split(&packet(PROTOCOL_VERSION, &rest));
            let _ = split(&rest);
        }
    }
}
