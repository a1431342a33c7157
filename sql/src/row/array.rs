//! The encoding of an array in a row.
//!
//! ```text
//! byte 0   number of dimensions
//!      1.. for each dimension the number of elements, the subscript of the first (4 bytes each)
//!          for each element its size (4; FFFFFFFF: NULL), and the bytes as in a column
//! ```

use super::value::{
    fixed_width, get_fixed, get_varying, put_fixed, put_varying, take, varying_bytes,
};
use crate::types::TypeKind;
use crate::value::{Array, Dimension, Value};

const NULL: u32 = u32::MAX;
/// The maximum size of a fixed-size value, in bytes.
const FIXED_BYTES_MAX: usize = 16;

/// Returns the size of a fixed-size value, in bytes.
fn width(value: &Value) -> Option<usize> {
    Some(match value {
        Value::Bool(_) => 1,
        Value::Int2(_) => 2,
        Value::Int4(_) | Value::Float4(_) | Value::Date(_) | Value::Oid(_) | Value::Enum(_) => 4,
        Value::Int8(_)
        | Value::Float8(_)
        | Value::Timestamp(_)
        | Value::TimestampTz(_)
        | Value::Time(_) => 8,
        Value::Uuid(_) | Value::TimeTz(_) | Value::Interval(_) => FIXED_BYTES_MAX,
        _ => return None,
    })
}

/// Returns the size of a value, in bytes.
pub(super) fn value_bytes(value: &Value) -> usize {
    width(value).unwrap_or_else(|| varying_bytes(value))
}

/// Returns the size of an array, in bytes.
pub(super) fn bytes(array: &Array) -> usize {
    let element = |value: &Value| 4 + value_bytes(value);
    1 + array.dims.len() * 8 + array.values.iter().map(element).sum::<usize>()
}

/// Writes the size of a value and the value. Returns the number of bytes written.
pub(super) fn put_one(value: &Value, out: &mut [u8]) -> usize {
    let length = match (value.is_null(), width(value)) {
        (true, _) => 0,
        (_, Some(width)) => {
            put_fixed(value, &mut out[4..4 + width]);
            width
        }
        (_, None) => put_varying(value, &mut out[4..]),
    };
    let stored_length = if value.is_null() { NULL } else { length as u32 };
    out[..4].copy_from_slice(&stored_length.to_le_bytes());
    4 + length
}

/// Reads the size of a value and the value; NULL if `kind` is `None`.
pub(super) fn get_one(kind: Option<TypeKind>, rest: &mut &[u8]) -> Option<Value> {
    let length = u32::from_le_bytes(take(rest)?);
    *rest = rest.get(4..)?;
    if length == NULL {
        return Some(Value::Null);
    }
    let (value, behind) = rest.split_at_checked(length as usize)?;
    *rest = behind;
    let Some(kind) = kind else {
        return Some(Value::Null);
    };
    match fixed_width(kind) {
        Some(_) => get_fixed(kind, value),
        None => get_varying(kind, value),
    }
}

/// Writes an array. Returns the number of bytes written.
pub(super) fn put(array: &Array, out: &mut [u8]) -> usize {
    out[0] = array.dims.len() as u8;
    let mut at = 1;
    for dim in &array.dims {
        out[at..at + 4].copy_from_slice(&dim.len.to_le_bytes());
        out[at + 4..at + 8].copy_from_slice(&dim.lower.to_le_bytes());
        at += 8;
    }
    for value in &array.values {
        at += put_one(value, &mut out[at..]);
    }
    at
}

/// Reads an array from all of `bytes`; `None` if they are invalid.
pub(super) fn get(element: TypeKind, bytes: &[u8]) -> Option<Array> {
    let (count, mut rest) = bytes.split_first()?;
    let mut dims = Vec::with_capacity(usize::from(*count).min(8));
    let mut elements = usize::from(*count > 0);
    for _ in 0..*count {
        let dim = Dimension {
            len: i32::from_le_bytes(take(rest)?),
            lower: i32::from_le_bytes(take(rest.get(4..)?)?),
        };
        elements = elements.checked_mul(usize::try_from(dim.len).ok()?)?;
        dims.push(dim);
        rest = rest.get(8..)?;
    }
    if elements > rest.len() / 4 {
        return None;
    }
    let mut values = Vec::with_capacity(elements);
    for _ in 0..elements {
        values.push(get_one(Some(element), &mut rest)?);
    }
    rest.is_empty().then_some(Array { dims, values })
}
