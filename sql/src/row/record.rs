//! The encoding of a composite value in a row.
//!
//! ```text
//! byte 0..2   number of places
//!      2..    for each place the size (4; FFFFFFFF: NULL, or a dropped field), and the bytes as
//!             in a column
//! ```
//! A field that was added later has no place in the value, and is NULL (COMPOSITE-1).

use super::array::{get_one, put_one, value_bytes};
use super::value::{is_of, take};
use crate::types::{Composite, Fields};
use crate::value::{Record, Value};

/// Returns whether the values match the fields of the type.
pub(super) fn fits(record: &Record, of: Composite) -> bool {
    let fields = &of.definition().fields;
    let mut parts = record.typed().zip(fields);
    record.fields.len() == fields.len()
        && parts.all(|((value, _), field)| is_of(value, field.ty.plain().kind))
}

/// Returns the value at each place.
fn places(record: &Record) -> impl Iterator<Item = &Value> {
    let count = record.fields.iter().map(|field| field.place + 1).max();
    (0..count.unwrap_or(0)).map(|place| {
        let at = record.fields.iter().position(|field| field.place == place);
        at.map_or(&Value::Null, |at| record.get(at))
    })
}

/// Returns the size of a composite value, in bytes.
pub(super) fn bytes(record: &Record) -> usize {
    2 + places(record)
        .map(|value| 4 + value_bytes(value))
        .sum::<usize>()
}

/// Writes a composite value. Returns the number of bytes written.
pub(super) fn put(record: &Record, out: &mut [u8]) -> usize {
    out[..2].copy_from_slice(&(places(record).count() as u16).to_le_bytes());
    let mut at = 2;
    for value in places(record) {
        at += put_one(value, &mut out[at..]);
    }
    at
}

/// Reads a composite value from all of `bytes`; `None` if they are invalid.
pub(super) fn get(of: Composite, bytes: &[u8]) -> Option<Record> {
    let fields = &of.definition().fields;
    let count = u16::from_le_bytes(take(bytes)?);
    let mut rest = bytes.get(2..)?;
    let mut values = vec![Value::Null; fields.len()];
    for place in 0..count {
        let field = fields.iter().position(|field| field.place == place);
        let kind = field.map(|at| fields[at].ty.plain().kind);
        let value = get_one(kind, &mut rest)?;
        if let Some(at) = field {
            values[at] = value;
        }
    }
    rest.is_empty()
        .then(|| Record::new(Fields::Named(of), values))
}
