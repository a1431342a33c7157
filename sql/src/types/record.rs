//! The text and binary forms of rows.
//!
//! ```text
//! text     (1,"a b",)  a NULL field is empty, an empty text is ""
//! binary   number of fields (4 bytes)
//!          for each field: OID of its type, its length or -1 (4 bytes each), its binary form
//! ```

use super::array::is_blank;
use super::composites::{Composite, Fields};
use super::enclosed::{enclose, is_oversized, nests_too_deep, oversize};
use super::{Type, TypeKind, binary_in, binary_out, invalid_binary, text_in_at, text_out};
use crate::error::{SqlError, SqlState};
use crate::settings::Settings;
use crate::value::{Record, Value};

pub(super) fn format(record: &Record, settings: &Settings, out: &mut Vec<u8>) {
    let begin = out.len();
    if nests_too_deep(record.values.iter()) {
        return oversize(out, begin);
    }
    out.push(b'(');
    for (at, (value, ty)) in record.typed().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        if value.is_null() || is_oversized(out.len() - begin) {
            continue;
        }
        let start = out.len();
        text_out(value, &ty, settings, out);
        let text = &out[start..];
        let special = |b: &u8| matches!(b, b'"' | b'\\' | b'(' | b')' | b',') || is_blank(*b);
        if !text.is_empty() && !text.iter().any(special) {
            continue;
        }
        enclose(out, start, |b| b);
    }
    out.push(b')');
}

pub(super) fn to_binary(record: &Record, out: &mut Vec<u8>) {
    out.extend_from_slice(&(record.fields.len() as i32).to_be_bytes());
    for (value, field) in record.all().zip(record.fields.iter()) {
        out.extend_from_slice(&field.ty.oid().to_be_bytes());
        let at = out.len();
        out.extend_from_slice(&(-1i32).to_be_bytes());
        if !value.is_null() {
            binary_out(value, &field.ty.plain(), out);
            let length = (out.len() - at - 4) as i32;
            out[at..at + 4].copy_from_slice(&length.to_be_bytes());
        }
    }
}

pub(super) fn from_binary(bytes: &[u8], of: Composite) -> Result<Record, SqlError> {
    let fields = &of.definition().fields;
    let mut rest = bytes;
    let count = word(&mut rest)?;
    if usize::try_from(count) != Ok(fields.len()) {
        return Err(SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!(
                "wrong number of columns: {count}, expected {}",
                fields.len()
            ),
        ));
    }
    let mut values = Vec::with_capacity(fields.len());
    for (at, field) in fields.iter().enumerate() {
        let oid = word(&mut rest)? as u32;
        if oid != field.ty.oid() {
            return Err(SqlError::new(
                SqlState::DATATYPE_MISMATCH,
                format!(
                    "binary data has type {oid} ({}) instead of expected {} ({}) in record column \
                     {}",
                    TypeKind::from_oid(oid).map_or("???", TypeKind::name),
                    field.ty.oid(),
                    field.ty.kind,
                    at + 1
                ),
            ));
        }
        values.push(match word(&mut rest)? {
            -1 => Value::Null,
            length => {
                let length = usize::try_from(length).map_err(|_| invalid_binary())?;
                let (value, behind) = rest.split_at_checked(length).ok_or_else(invalid_binary)?;
                rest = behind;
                binary_in(&field.ty, value)?
            }
        });
    }
    if !rest.is_empty() {
        return Err(invalid_binary());
    }
    Ok(Record::new(Fields::Named(of), values))
}

fn word(rest: &mut &[u8]) -> Result<i32, SqlError> {
    let (word, behind) = rest.split_first_chunk().ok_or_else(invalid_binary)?;
    *rest = behind;
    Ok(i32::from_be_bytes(*word))
}

/// Reads a row of a composite type.
pub(super) fn parse(
    text: &str,
    of: Composite,
    settings: &Settings,
    now: Option<i64>,
) -> Result<Record, SqlError> {
    let malformed = |detail: &str| {
        SqlError::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("malformed record literal: \"{text}\""),
        )
        .detail(detail)
    };
    let fields = &of.definition().fields;
    let bytes = text.as_bytes();
    let blanks = |at: usize| bytes[at..].iter().take_while(|b| is_blank(**b)).count();
    let mut at = blanks(0);
    if bytes.get(at) != Some(&b'(') {
        return Err(malformed("Missing left parenthesis."));
    }
    at += 1;
    let mut values = Vec::with_capacity(fields.len());
    for (nth, field) in fields.iter().enumerate() {
        if nth > 0 {
            match bytes.get(at) {
                Some(b',') => at += 1,
                _ => return Err(malformed("Too few columns.")),
            }
        }
        let (part, behind) = one(bytes, at).ok_or_else(|| malformed("Unexpected end of input."))?;
        at = behind;
        values.push(match part {
            None => Value::Null,
            Some(part) => {
                let part = String::from_utf8(part).map_err(|_| malformed("Not a text."))?;
                text_in_at(&field.ty, &part, settings, now)?
            }
        });
    }
    if bytes.get(at) != Some(&b')') {
        return Err(malformed("Too many columns."));
    }
    at += 1;
    if at + blanks(at) != bytes.len() {
        return Err(malformed("Junk after right parenthesis."));
    }
    Ok(Record::new(Fields::Named(of), values))
}

/// Reads a field: its text (`None` for NULL) and its end. Returns `None` if the text ends within
/// the field.
fn one(bytes: &[u8], mut at: usize) -> Option<(Option<Vec<u8>>, usize)> {
    let mut part = Vec::new();
    let mut quoted = false;
    let mut seen = false;
    loop {
        let b = *bytes.get(at)?;
        if !quoted && matches!(b, b',' | b')') {
            return Some((seen.then_some(part), at));
        }
        seen = true;
        at += 1;
        match b {
            b'\\' => {
                part.push(*bytes.get(at)?);
                at += 1;
            }
            b'"' if quoted && bytes.get(at) == Some(&b'"') => {
                part.push(b'"');
                at += 1;
            }
            b'"' => quoted = !quoted,
            other => part.push(other),
        }
    }
}

/// Returns error 0A000: the fields of a `record` are unknown.
#[cold]
pub(super) fn no_input() -> SqlError {
    SqlError::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        "input of anonymous composite types is not implemented",
    )
}

impl Record {
    /// Returns each value, as many as there are fields.
    fn all(&self) -> impl Iterator<Item = &Value> {
        (0..self.fields.len()).map(|at| self.get(at))
    }

    /// Returns each value and its type.
    pub fn typed(&self) -> impl Iterator<Item = (&Value, Type)> {
        self.all()
            .zip(self.fields.iter().map(|field| field.ty.plain()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::composites::{CompositeDef, Field};

    fn pair() -> Composite {
        let field = |name: &str, ty, place| Field {
            name: name.to_owned(),
            ty,
            place,
        };
        let fields = vec![field("a", Type::INT4, 0), field("b", Type::TEXT, 1)];
        Composite::of(CompositeDef::named(
            (7_001, 7_002, 0),
            ("public", "pair"),
            fields,
        ))
    }

    fn read(text: &str) -> Result<Record, SqlError> {
        parse(text, pair(), &Settings::default(), None)
    }

    #[test]
    fn row_text_round_trips() {
        for (text, written) in [
            ("(1,a)", "(1,a)"),
            (" ( 2 ,\"a b\") ", "(2,\"a b\")"),
            ("(,)", "(,)"),
            ("(,\"\")", "(,\"\")"),
            (r#"(-3,"x""y\\z")"#, r#"(-3,"x""y\\z")"#),
            (r"(4,a\,b)", "(4,\"a,b\")"),
        ] {
            let record = read(text).expect(text);
            let mut out = Vec::new();
            format(&record, &Settings::default(), &mut out);
            assert_eq!(String::from_utf8_lossy(&out), written);
            let mut bytes = Vec::new();
            to_binary(&record, &mut bytes);
            assert_eq!(from_binary(&bytes, pair()).expect(text), record);
            for cut in 0..bytes.len() {
                assert!(from_binary(&bytes[..cut], pair()).is_err());
            }
        }
    }

    #[test]
    fn malformed_row_text_is_refused() {
        for (text, detail) in [
            ("1,a", "Missing left parenthesis."),
            ("(1)", "Too few columns."),
            ("(1,a,b)", "Too many columns."),
            ("(1,a", "Unexpected end of input."),
            ("(1,\"a)", "Unexpected end of input."),
            ("(1,a) b", "Junk after right parenthesis."),
        ] {
            let error = read(text).expect_err(text);
            assert_eq!(error.sqlstate(), SqlState::INVALID_TEXT_REPRESENTATION);
            assert_eq!(error.fields().detail.as_deref(), Some(detail), "{text}");
        }
    }
}
