//! What goes between machines that ship: a statement, its reply, and the request to end one.
//!
//! ```text
//! statement  number | what its result looks like | session's number | user | settings | text | types | row of values
//! settings   start-up value or not | name | value | …
//! reply      DONE  | rows concerned | rows, each as its table's would lie in memory
//!            ERROR | SQLSTATE | the fields there are, each with its place
//!            RUN_IT_YOURSELF
//! end        number | why
//! ```
//! # Failure
//! Messages come from peers: what is none decodes to `None`, and never panics.

use std::hash::{BuildHasher, Hash, Hasher};

use fencepost_sql::error::{ErrorFields, SqlError, SqlState};
use fencepost_sql::row::RowLayout;
use fencepost_sql::settings::Settings;
use fencepost_sql::types::{Type, TypeKind};
use fencepost_sql::value::Value;
use foldhash::fast::FixedState;

use super::bytes::{Reader, put_bytes, put_text, put_u32, put_u64, put_words};
use crate::prepared::Column;

const DONE: u8 = 1;
const ERROR: u8 = 2;
const RUN_IT_YOURSELF: u8 = 3;
/// Parameters that a statement may have, as the wire protocol has it.
const PARAMS_MAX: usize = 65_535;

/// A statement on its way.
pub(super) struct Statement<'a> {
    /// The sender's number for it.
    pub number: u64,
    /// What its result looks like ([`shape`]).
    pub shape: u64,
    /// Number of the session.
    pub pid: i32,
    pub user: &'a str,
    /// As [`encode_settings`] has them.
    pub settings: &'a [u8],
    pub text: &'a str,
    /// Of the parameters.
    pub types: Vec<Type>,
    pub params: Vec<Value>,
}

impl<'a> Statement<'a> {
    /// `None` where a value is not of its parameter's type.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(128 + self.settings.len() + self.text.len());
        put_u64(&mut out, self.number);
        put_u64(&mut out, self.shape);
        put_u32(&mut out, self.pid as u32);
        put_text(&mut out, self.user);
        put_bytes(&mut out, self.settings);
        put_text(&mut out, self.text);
        put_u32(&mut out, self.types.len() as u32);
        for ty in &self.types {
            put_u32(&mut out, ty.oid());
        }
        let layout = RowLayout::of_types(self.types.iter().map(|ty| ty.kind));
        let mut words = Vec::new();
        layout.takes(&self.params).then_some(())?;
        layout.encode(&self.params, &mut words).ok()?;
        put_words(&mut out, &words);
        Some(out)
    }

    pub fn decode(message: &'a [u8]) -> Option<Statement<'a>> {
        let mut reader = Reader(message);
        let (number, shape) = (reader.u64()?, reader.u64()?);
        let pid = reader.u32()? as i32;
        let (user, settings, text) = (reader.text()?, reader.bytes()?, reader.text()?);
        let count = reader.u32()? as usize;
        if count > PARAMS_MAX {
            return None;
        }
        let ty = |_| Some(Type::of(TypeKind::from_oid(reader.u32()?)?));
        let types = (0..count).map(ty).collect::<Option<Vec<Type>>>()?;
        let layout = RowLayout::of_types(types.iter().map(|ty| ty.kind));
        let mut words = Vec::new();
        reader.row(&mut words)?;
        let mut params = vec![Value::Null; count];
        layout.decode(&words, &mut params).ok()?;
        Some(Statement {
            number,
            shape,
            pid,
            user,
            settings,
            text,
            types,
            params,
        })
    }
}

/// The number of a statement that is not looked into yet.
pub(super) fn number_of(message: &[u8]) -> Option<u64> {
    Reader(message).u64()
}

/// What tells results apart that a client would have to be told of: names and types of the columns.
pub(super) fn shape(columns: Option<&[Column]>) -> u64 {
    let mut hasher = FixedState::default().build_hasher();
    columns.map(<[Column]>::len).hash(&mut hasher);
    for column in columns.unwrap_or_default() {
        (&column.name, column.ty.oid(), column.ty.typmod).hash(&mut hasher);
    }
    hasher.finish()
}

/// The settings that differ from those of a fresh session.
pub(super) fn encode_settings(settings: &Settings) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value, start_up) in settings.changed() {
        out.push(u8::from(start_up));
        put_text(&mut out, name);
        put_text(&mut out, value);
    }
    out
}

/// The settings of a session that has those.
pub(super) fn decode_settings(bytes: &[u8]) -> Option<Settings> {
    let mut settings = Settings::new();
    let mut reader = Reader(bytes);
    while !reader.0.is_empty() {
        let start_up = reader.byte()? != 0;
        let (name, value) = (reader.text()?, reader.text()?);
        settings.adopt(name, value, start_up).ok()?;
    }
    Some(settings)
}

/// What became of a statement.
#[derive(Debug, PartialEq)]
pub(super) enum Reply<'a> {
    /// It has committed: rows concerned, and the rows of its result.
    Done(u64, &'a [u8]),
    /// It has failed, and nothing of it is left.
    Error(SqlError),
    /// It was not run, or rolled back.
    RunItYourself,
}

impl<'a> Reply<'a> {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Reply::Done(count, rows) => {
                out.reserve(9 + rows.len());
                out.push(DONE);
                put_u64(&mut out, *count);
                out.extend_from_slice(rows);
            }
            Reply::Error(error) => {
                out.push(ERROR);
                encode_error(error.fields(), &mut out);
            }
            Reply::RunItYourself => out.push(RUN_IT_YOURSELF),
        }
        out
    }

    pub fn decode(message: &'a [u8]) -> Option<Reply<'a>> {
        let mut reader = Reader(message);
        Some(match reader.byte()? {
            DONE => Reply::Done(reader.u64()?, reader.0),
            ERROR => Reply::Error(decode_error(&mut reader)?),
            RUN_IT_YOURSELF => Reply::RunItYourself,
            _ => return None,
        })
    }
}

/// The rows of a reply, each given to `each`; `None` where these are no such rows.
pub(super) fn for_each_row<E>(
    rows: &[u8],
    layout: &RowLayout,
    mut each: impl FnMut(&[Value]) -> Result<(), E>,
) -> Option<Result<(), E>> {
    let mut reader = Reader(rows);
    let mut words = Vec::new();
    let mut row = vec![Value::Null; layout.width()];
    while !reader.0.is_empty() {
        reader.row(&mut words)?;
        layout.decode(&words, &mut row).ok()?;
        if let Err(error) = each(&row) {
            return Some(Err(error));
        }
    }
    Some(Ok(()))
}

fn encode_error(fields: &ErrorFields, out: &mut Vec<u8>) {
    put_text(out, fields.sqlstate.as_str());
    put_text(out, &fields.message);
    put_u32(out, fields.position.unwrap_or(0));
    for (place, text) in [
        &fields.detail,
        &fields.hint,
        &fields.context,
        &fields.schema,
        &fields.table,
        &fields.column,
        &fields.data_type,
        &fields.constraint,
    ]
    .into_iter()
    .enumerate()
    {
        if let Some(text) = text {
            out.push(place as u8);
            put_text(out, text);
        }
    }
}

fn decode_error(reader: &mut Reader<'_>) -> Option<SqlError> {
    let state = reader.text()?.as_bytes().try_into().ok()?;
    let message = reader.text()?;
    let mut fields = ErrorFields::new(SqlState::new(state), message);
    let position = reader.u32()?;
    fields.position = (position > 0).then_some(position);
    while !reader.0.is_empty() {
        let field = match reader.byte()? {
            0 => &mut fields.detail,
            1 => &mut fields.hint,
            2 => &mut fields.context,
            3 => &mut fields.schema,
            4 => &mut fields.table,
            5 => &mut fields.column,
            6 => &mut fields.data_type,
            7 => &mut fields.constraint,
            _ => return None,
        };
        *field = Some(reader.text()?.to_owned());
    }
    Some(SqlError::from(fields))
}

/// Why a statement that was shipped is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Why {
    /// Somebody asked for it.
    Cancelled = 1,
    /// It takes too long.
    TimedOut = 2,
}

impl Why {
    pub fn of(number: u8) -> Option<Why> {
        [Why::Cancelled, Why::TimedOut]
            .into_iter()
            .find(|why| *why as u8 == number)
    }
}

/// The request to end statement `number`.
pub(super) fn encode_end(number: u64, why: Why) -> Vec<u8> {
    let mut out = Vec::new();
    put_u64(&mut out, number);
    out.push(why as u8);
    out
}

pub(super) fn decode_end(message: &[u8]) -> Option<(u64, Why)> {
    let mut reader = Reader(message);
    Some((reader.u64()?, Why::of(reader.byte()?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_come_back_as_they_were() {
        let mut settings = Settings::new();
        settings
            .set_default("application_name", "tests")
            .expect("a name");
        settings.set("TimeZone", "Europe/Paris").expect("a zone");
        settings.set_fixed("session_authorization", "ada");
        let settings = encode_settings(&settings);
        let statement = Statement {
            number: 7,
            shape: 8,
            pid: -9,
            user: "ada",
            settings: &settings,
            text: "SELECT $1, $2",
            types: vec![Type::INT4, Type::TEXT, Type::NUMERIC],
            params: vec![Value::Int4(5), Value::text("zwölf"), Value::Null],
        };
        let message = statement.encode().expect("values of their types");
        let back = Statement::decode(&message).expect("whole");
        assert_eq!((back.number, back.shape, back.pid), (7, 8, -9));
        assert_eq!((back.user, back.text), ("ada", statement.text));
        assert_eq!(
            (back.types, back.params),
            (statement.types, statement.params)
        );
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
            assert!(Statement::decode(&message[..end]).is_none());
        }
    }

    #[test]
    fn values_of_other_types_are_not_sent() {
        let statement = Statement {
            number: 1,
            shape: 1,
            pid: 1,
            user: "",
            settings: &[],
            text: "",
            types: vec![Type::INT4],
            params: vec![Value::Int8(5)],
        };
        assert_eq!(statement.encode(), None);
    }

    #[test]
    fn replies_come_back_as_they_were() {
        let mut fields = ErrorFields::new(SqlState::UNIQUE_VIOLATION, "message");
        fields.position = Some(3);
        fields.data_type = Some("type".into());
        let whole = SqlError::from(fields)
            .detail("detail")
            .hint("hint")
            .context("context")
            .table("schema", "table")
            .column("column")
            .constraint("constraint");
        let bare = SqlError::new(SqlState::DIVISION_BY_ZERO, "");
        for reply in [
            Reply::Done(3, b"rows"),
            Reply::Error(whole),
            Reply::Error(bare),
            Reply::RunItYourself,
        ] {
            let message = reply.encode();
            assert_eq!(Reply::decode(&message), Some(reply));
        }
        assert_eq!(
            decode_end(&encode_end(5, Why::TimedOut)),
            Some((5, Why::TimedOut))
        );
    }

    #[test]
    fn garbage_is_none_and_never_panics() {
        // Every message that is one byte off, and every beginning of one.
        let error = SqlError::new(SqlState::DIVISION_BY_ZERO, "by zero").detail("more");
        let layout = RowLayout::of_types([TypeKind::Text, TypeKind::Int8]);
        let mut words = Vec::new();
        let row = [Value::text("some text"), Value::Int8(4)];
        layout.encode(&row, &mut words).expect("fits");
        let mut rows = Vec::new();
        put_words(&mut rows, &words);
        for message in [Reply::Error(error).encode(), Reply::Done(1, &rows).encode()] {
            for at in 0..message.len() {
                for bit in 0..8 {
                    let mut message = message.clone();
                    message[at] ^= 1 << bit;
                    if let Some(Reply::Done(_, rows)) = Reply::decode(&message) {
                        let _ = for_each_row(rows, &layout, |_| Ok::<(), ()>(()));
                    }
                    let _ = Reply::decode(&message[..at]);
                    let _ = decode_settings(&message[at..]);
                    let _ = Statement::decode(&message[at..]);
                    let _ = decode_end(&message[at..]);
                }
            }
        }
    }
}
