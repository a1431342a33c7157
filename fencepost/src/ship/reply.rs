//! The reply for statements that ran for another machine's session.
//!
//! ```text
//! reply   RAN | number of statements | each: affected rows, rows of its result
//!         | 0, or 1 and the error of the next statement
//!         RUN_IT_YOURSELF
//! rows    each in the memory format of a table row
//! error   SQLSTATE | message | position | the other fields that are set, each with its index
//! ```
//! # Failure
//! Messages come from peers: an invalid message decodes to `None`, and never panics.

use fencepost_sql::error::{ErrorFields, SqlError, SqlState};
use fencepost_sql::row::RowLayout;
use fencepost_sql::value::Value;

use super::bytes::{MessageDecoder, put_bytes, put_text, put_u32, put_u64};
use super::request::STATEMENTS_MAX;

const RAN: u8 = 1;
const RUN_IT_YOURSELF: u8 = 2;

/// The outcome of shipped statements.
#[derive(Debug, PartialEq)]
pub(super) enum Reply {
    /// All statements have run and committed. With an error: the next statement has failed, and the
    /// transaction, with the listed ones, was rolled back.
    Ran(Vec<StatementResult>, Option<SqlError>),
    /// The statements were not run, or were rolled back. The sender has to run them.
    RunItYourself,
}

/// The result of one statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StatementResult {
    /// The number of affected rows.
    pub count: u64,
    /// The encoded rows of the result.
    pub rows: Vec<u8>,
}

impl Reply {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Reply::Ran(done, error) => {
                let rows: usize = done.iter().map(|done| done.rows.len() + 16).sum();
                out.reserve(rows + 8);
                out.push(RAN);
                put_u32(&mut out, done.len() as u32);
                for StatementResult { count, rows } in done {
                    put_u64(&mut out, *count);
                    put_bytes(&mut out, rows);
                }
                out.push(u8::from(error.is_some()));
                if let Some(error) = error {
                    encode_error(error.fields(), &mut out);
                }
            }
            Reply::RunItYourself => out.push(RUN_IT_YOURSELF),
        }
        out
    }

    pub fn decode(message: &[u8]) -> Option<Reply> {
        let mut reader = MessageDecoder(message);
        match reader.byte()? {
            RAN => {}
            RUN_IT_YOURSELF => return Some(Reply::RunItYourself),
            _ => return None,
        }
        let count = reader.u32()? as usize;
        if count > STATEMENTS_MAX {
            return None;
        }
        let done = (0..count).map(|_| {
            Some(StatementResult {
                count: reader.u64()?,
                rows: reader.bytes()?.to_vec(),
            })
        });
        let done = done.collect::<Option<Vec<_>>>()?;
        let error = match reader.byte()? {
            0 => None,
            _ => Some(decode_error(&mut reader)?),
        };
        Some(Reply::Ran(done, error))
    }
}

/// Decodes the rows of a reply and calls `each` for each. Returns `None` if they are invalid.
pub(super) fn for_each_row<E>(
    rows: &[u8],
    layout: &RowLayout,
    mut each: impl FnMut(&[Value]) -> Result<(), E>,
) -> Option<Result<(), E>> {
    let mut reader = MessageDecoder(rows);
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

fn decode_error(reader: &mut MessageDecoder<'_>) -> Option<SqlError> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ship::bytes::put_words;
    use fencepost_sql::types::TypeKind;

    #[test]
    fn reply_round_trips() {
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
        let done = |count, rows: &[u8]| StatementResult {
            count,
            rows: rows.to_vec(),
        };
        for reply in [
            Reply::Ran(vec![done(3, b"rows")], None),
            Reply::Ran(vec![done(1, b""), done(0, b"more")], Some(whole)),
            Reply::Ran(Vec::new(), Some(bare)),
            Reply::RunItYourself,
        ] {
            let message = reply.encode();
            assert_eq!(Reply::decode(&message), Some(reply));
        }
    }

    #[test]
    fn garbage_is_none_and_never_panics() {
        // Every message with one wrong byte, and every prefix of a message.
        let error = SqlError::new(SqlState::DIVISION_BY_ZERO, "by zero").detail("more");
        let layout = RowLayout::of_types([TypeKind::Text, TypeKind::Int8]);
        let mut words = Vec::new();
        let row = [Value::text("some text"), Value::Int8(4)];
        layout.encode(&row, &mut words).expect("fits");
        let mut rows = Vec::new();
        put_words(&mut rows, &words);
        let message = Reply::Ran(vec![StatementResult { count: 1, rows }], Some(error)).encode();
        for at in 0..message.len() {
            for bit in 0..8 {
                let mut message = message.clone();
                message[at] ^= 1 << bit;
                if let Some(Reply::Ran(done, _)) = Reply::decode(&message) {
                    for done in done {
                        let _ = for_each_row(&done.rows, &layout, |_| Ok::<(), ()>(()));
                    }
                }
                let _ = Reply::decode(&message[..at]);
            }
        }
    }
}
