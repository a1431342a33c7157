//! The request to run statements for another machine's session, and the request to end them.
//!
//! ```text
//! request    number | session's number | user | database | settings | number of statements
//!            | each of them | 0, or 1 and part
//! statement  NEW | shape of the result | text | types of parameters | row of values
//!            AS_BEFORE | row of values
//! part       R | start of the transaction, and of the statement | fingerprint of the plan
//!            | number of partitions | each
//! settings   start-up value or not | name | value | …
//! end        number | reason
//! ```
//! # Failure
//! Messages come from peers: an invalid message decodes to `None`, and never panics.

use std::hash::{BuildHasher, Hash, Hasher};

use fencepost_sql::row::RowLayout;
use fencepost_sql::settings::Settings;
use fencepost_sql::types::{Type, TypeKind};
use fencepost_sql::value::Value;
use fencepost_txn::Timestamp;
use foldhash::fast::FixedState;

use super::bytes::{MessageDecoder, put_bytes, put_text, put_u32, put_u64, put_words};
use crate::prepared::Column;

const NEW: u8 = 1;
const AS_BEFORE: u8 = 2;
/// The largest number of parameters of a statement in the wire protocol.
const PARAMS_MAX: usize = 65_535;
/// The largest number of statements in a request.
pub(crate) const STATEMENTS_MAX: usize = 1024;

/// Shipped statements that form one transaction.
pub(super) struct Request<'a> {
    /// The sender's number for the request.
    pub number: u64,
    /// The number of the session.
    pub pid: i32,
    pub user: &'a str,
    /// The oid of the database.
    pub database: u32,
    /// The settings in the format of [`encode_settings`].
    pub settings: &'a [u8],
    pub statements: Vec<Statement<'a>>,
    /// The part to run, if the request is for a part of its single statement.
    pub part: Option<Part>,
}

/// A part of a statement, as requested from a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// The read timestamp of the statement.
    pub r: Timestamp,
    /// The value of `now()`.
    pub transaction_start: i64,
    pub statement_start: i64,
    /// Identifies the plan: equal plans have equal fingerprints.
    pub fingerprint: u64,
    /// The partitions to scan, in ascending order.
    pub partitions: Vec<u32>,
}

impl Part {
    fn encode(&self, out: &mut Vec<u8>) {
        put_u64(out, self.r.raw());
        put_u64(out, self.transaction_start as u64);
        put_u64(out, self.statement_start as u64);
        put_u64(out, self.fingerprint);
        put_u32(out, self.partitions.len() as u32);
        for partition in &self.partitions {
            put_u32(out, *partition);
        }
    }

    fn decode(reader: &mut MessageDecoder<'_>) -> Option<Part> {
        let r = Timestamp::from_raw(reader.u64()?);
        let (transaction_start, statement_start) = (reader.u64()? as i64, reader.u64()? as i64);
        let (fingerprint, count) = (reader.u64()?, reader.u32()?);
        let partitions = (0..count).map(|_| reader.u32());
        let partitions = partitions.collect::<Option<Vec<u32>>>()?;
        (r < Timestamp::MAX && partitions.is_sorted()).then_some(Part {
            r,
            transaction_start,
            statement_start,
            fingerprint,
            partitions,
        })
    }
}

/// A shipped statement.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Statement<'a> {
    /// A hash of the result's columns ([`shape`]).
    pub shape: u64,
    pub text: &'a str,
    /// The types of the parameters.
    pub types: Vec<Type>,
    pub params: Vec<Value>,
}

impl<'a> Request<'a> {
    /// Encodes the request. Returns `None` if a value is not of its parameter's type.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(256);
        put_u64(&mut out, self.number);
        put_u32(&mut out, self.pid as u32);
        put_text(&mut out, self.user);
        put_u32(&mut out, self.database);
        put_bytes(&mut out, self.settings);
        put_u32(&mut out, self.statements.len() as u32);
        let mut before: Option<&Statement<'_>> = None;
        let mut words = Vec::new();
        for statement in &self.statements {
            match before.is_some_and(|before| before.is_like(statement)) {
                true => out.push(AS_BEFORE),
                false => statement.encode_text(&mut out),
            }
            let layout = RowLayout::of_types(statement.types.iter().map(|ty| ty.kind));
            layout.takes(&statement.params).then_some(())?;
            layout.encode(&statement.params, &mut words).ok()?;
            put_words(&mut out, &words);
            before = Some(statement);
        }
        out.push(u8::from(self.part.is_some()));
        if let Some(part) = &self.part {
            part.encode(&mut out);
        }
        Some(out)
    }

    pub fn decode(message: &'a [u8]) -> Option<Request<'a>> {
        let mut reader = MessageDecoder(message);
        let number = reader.u64()?;
        let pid = reader.u32()? as i32;
        let (user, database) = (reader.text()?, reader.u32()?);
        let settings = reader.bytes()?;
        let count = reader.u32()? as usize;
        if count == 0 || count > STATEMENTS_MAX {
            return None;
        }
        let mut statements: Vec<Statement<'a>> = Vec::with_capacity(count);
        let mut words = Vec::new();
        for _ in 0..count {
            let mut statement = match reader.byte()? {
                NEW => Statement::decode_text(&mut reader)?,
                AS_BEFORE => statements.last()?.without_values(),
                _ => return None,
            };
            let layout = RowLayout::of_types(statement.types.iter().map(|ty| ty.kind));
            reader.row(&mut words)?;
            statement.params = vec![Value::Null; statement.types.len()];
            layout.decode(&words, &mut statement.params).ok()?;
            statements.push(statement);
        }
        let part = match reader.byte()? {
            0 => None,
            _ => Some(Part::decode(&mut reader)?),
        };
        Some(Request {
            number,
            pid,
            user,
            database,
            settings,
            statements,
            part,
        })
    }
}

impl<'a> Statement<'a> {
    /// Returns whether the statements differ in their values only.
    fn is_like(&self, other: &Statement<'_>) -> bool {
        self.shape == other.shape && self.text == other.text && self.types == other.types
    }

    fn without_values(&self) -> Statement<'a> {
        Statement {
            shape: self.shape,
            text: self.text,
            types: self.types.clone(),
            params: Vec::new(),
        }
    }

    fn encode_text(&self, out: &mut Vec<u8>) {
        out.push(NEW);
        put_u64(out, self.shape);
        put_text(out, self.text);
        put_u32(out, self.types.len() as u32);
        for ty in &self.types {
            put_u32(out, ty.oid());
        }
    }

    fn decode_text(reader: &mut MessageDecoder<'a>) -> Option<Statement<'a>> {
        let (shape, text) = (reader.u64()?, reader.text()?);
        let count = reader.u32()? as usize;
        if count > PARAMS_MAX {
            return None;
        }
        let ty = |_| Some(Type::of(TypeKind::from_oid(reader.u32()?)?));
        Some(Statement {
            shape,
            text,
            types: (0..count).map(ty).collect::<Option<Vec<Type>>>()?,
            params: Vec::new(),
        })
    }
}

/// Returns the number of an encoded request.
pub(super) fn number_of(message: &[u8]) -> Option<u64> {
    MessageDecoder(message).u64()
}

/// Returns a hash of the column names and types. Results with equal hashes look the same to a
/// client.
pub(super) fn shape(columns: Option<&[Column]>) -> u64 {
    let mut hasher = FixedState::default().build_hasher();
    columns.map(<[Column]>::len).hash(&mut hasher);
    for column in columns.unwrap_or_default() {
        (&column.name, column.ty.oid(), column.ty.typmod).hash(&mut hasher);
    }
    hasher.finish()
}

/// Encodes the settings that differ from those of a fresh session.
pub(super) fn encode_settings(settings: &Settings) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value, start_up) in settings.changed() {
        out.push(u8::from(start_up));
        put_text(&mut out, name);
        put_text(&mut out, value);
    }
    out
}

/// Decodes the settings of a session.
pub(super) fn decode_settings(bytes: &[u8]) -> Option<Settings> {
    let mut settings = Settings::new();
    let mut reader = MessageDecoder(bytes);
    while !reader.0.is_empty() {
        let start_up = reader.byte()? != 0;
        let (name, value) = (reader.text()?, reader.text()?);
        settings.adopt(name, value, start_up).ok()?;
    }
    Some(settings)
}

/// The reason to end a shipped statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum EndReason {
    /// A cancel request.
    Cancelled = 1,
    /// A timeout.
    TimedOut = 2,
}

impl EndReason {
    pub fn of(number: u8) -> Option<EndReason> {
        [EndReason::Cancelled, EndReason::TimedOut]
            .into_iter()
            .find(|why| *why as u8 == number)
    }
}

/// Encodes the request to end statement `number`.
pub(super) fn encode_end(number: u64, why: EndReason) -> Vec<u8> {
    let mut out = Vec::new();
    put_u64(&mut out, number);
    out.push(why as u8);
    out
}

pub(super) fn decode_end(message: &[u8]) -> Option<(u64, EndReason)> {
    let mut reader = MessageDecoder(message);
    Some((reader.u64()?, EndReason::of(reader.byte()?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(text: &str, number: i32) -> Statement<'_> {
        Statement {
            shape: 8,
            text,
            types: vec![Type::INT4, Type::TEXT, Type::NUMERIC],
            params: vec![Value::Int4(number), Value::text("zwölf"), Value::Null],
        }
    }

    fn request<'a>(settings: &'a [u8], statements: Vec<Statement<'a>>) -> Request<'a> {
        Request {
            number: 7,
            pid: -9,
            user: "ada",
            database: 77,
            settings,
            statements,
            part: Some(Part {
                r: Timestamp::from_raw(77),
                transaction_start: -5,
                statement_start: i64::MAX,
                fingerprint: u64::MAX,
                partitions: vec![1, 5],
            }),
        }
    }

    #[test]
    fn request_round_trips() {
        let mut settings = Settings::new();
        settings
            .set_default("application_name", "tests")
            .expect("a name");
        settings.set("TimeZone", "Europe/Paris").expect("a zone");
        settings.set_fixed("session_authorization", "ada");
        let settings = encode_settings(&settings);
        let statements = [("SELECT $1, $2", 1), ("SELECT $1, $2", 2), ("SELECT $2", 3)];
        let statements = statements.map(|(text, number)| statement(text, number));
        let request = request(&settings, statements.to_vec());
        let message = request.encode().expect("values of their types");
        let back = Request::decode(&message).expect("whole");
        assert_eq!((back.number, back.pid, back.user), (7, -9, "ada"));
        assert_eq!(number_of(&message), Some(7));
        assert_eq!(back.statements, statements);
        assert_eq!(back.part, request.part);
        let settings = decode_settings(back.settings).expect("settings");
        for (name, value) in [
            ("application_name", "tests"),
            ("timezone", "Europe/Paris"),
            ("session_authorization", "ada"),
        ] {
            assert_eq!(settings.get(name).as_deref(), Some(value));
        }
        assert_eq!(encode_settings(&settings), back.settings);
        for end in 0..message.len() {
            assert!(Request::decode(&message[..end]).is_none());
        }
        assert_eq!(
            decode_end(&encode_end(5, EndReason::TimedOut)),
            Some((5, EndReason::TimedOut))
        );
    }

    #[test]
    fn texts_that_come_again_are_sent_once() {
        let text = "x".repeat(1000);
        let many = vec![statement(&text, 1); 10];
        let message = request(&[], many).encode().expect("values");
        assert!(message.len() < 2 * text.len());
    }

    #[test]
    fn values_of_other_types_are_not_sent() {
        let mut wrong = statement("SELECT $1", 1);
        wrong.params[0] = Value::Int8(5);
        assert_eq!(request(&[], vec![wrong]).encode(), None);
    }

    #[test]
    fn garbage_is_none_and_never_panics() {
        let statements = vec![statement("SELECT $1", 1), statement("SELECT $1", 2)];
        let whole = request(b"settings", statements);
        let message = whole.encode().expect("values of their types");
        for at in 0..message.len() {
            for bit in 0..8 {
                let mut message = message.clone();
                message[at] ^= 1 << bit;
                let _ = Request::decode(&message);
                let _ = decode_settings(&message[at..]);
                let _ = Request::decode(&message[at..]);
                let _ = decode_end(&message[at..]);
            }
        }
    }
}
