//! The text and binary forms of arrays.
//!
//! ```text
//! text     {1,NULL,"a b"}   {{1,2},{3,4}}   [0:1]={a,b}
//! binary   dimensions, has NULLs, OID of the elements (4 bytes each)
//!          for each dimension: the number of elements, the subscript of the first
//!          for each element: its length or -1, and its binary form
//! ```

use super::enclosed::{enclose, is_oversized};
use super::{Type, TypeKind, binary_in, binary_out, invalid_binary, text_out};
use crate::error::{SqlError, SqlState};
use crate::settings::Settings;
use crate::value::{Array, Dimension, Value};

/// The maximum number of dimensions of an array.
pub const DIMENSIONS_MAX: usize = 6;

/// Returns error 54000 for an array of too many dimensions.
#[cold]
pub fn too_many_dimensions(count: usize) -> SqlError {
    SqlError::new(
        SqlState::new(b"54000"),
        format!(
            "number of array dimensions ({count}) exceeds the maximum allowed ({DIMENSIONS_MAX})"
        ),
    )
}

/// Checks that the subscript after the last one of each dimension fits into 32 bits.
///
/// # Errors
/// 54000 if one does not.
pub fn check_bounds(dims: &[Dimension]) -> Result<(), SqlError> {
    match dims
        .iter()
        .find(|dim| dim.lower.checked_add(dim.len).is_none())
    {
        None => Ok(()),
        Some(dim) => Err(SqlError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("array lower bound is too large: {}", dim.lower),
        )),
    }
}

pub(super) fn format(array: &Array, ty: &Type, settings: &Settings, out: &mut Vec<u8>) {
    let element = ty.element().unwrap_or(Type::TEXT);
    if ty.kind.is_vector() {
        for (at, value) in array.values.iter().enumerate() {
            if at > 0 {
                out.push(b' ');
            }
            text_out(value, &element, settings, out);
        }
        return;
    }
    if array.dims.iter().any(|d| d.lower != 1) {
        for dim in &array.dims {
            let upper = i64::from(dim.lower) + i64::from(dim.len) - 1;
            out.extend_from_slice(format!("[{}:{upper}]", dim.lower).as_bytes());
        }
        out.push(b'=');
    }
    if array.dims.is_empty() {
        out.extend_from_slice(b"{}");
        return;
    }
    let mut values = array.values.iter();
    level(&array.dims, &mut values, &element, settings, out);
}

fn level(
    dims: &[Dimension],
    values: &mut std::slice::Iter<'_, Value>,
    element: &Type,
    settings: &Settings,
    out: &mut Vec<u8>,
) {
    let Some((dim, inner)) = dims.split_first() else {
        if let Some(value) = values.next() {
            one(value, element, settings, out);
        }
        return;
    };
    let begin = out.len();
    out.push(b'{');
    for i in 0..dim.len {
        if i > 0 {
            out.push(b',');
        }
        // The caller rejects an oversized text, so the rest is not needed.
        if is_oversized(out.len() - begin) {
            break;
        }
        level(inner, values, element, settings, out);
    }
    out.push(b'}');
}

fn one(value: &Value, element: &Type, settings: &Settings, out: &mut Vec<u8>) {
    if value.is_null() {
        out.extend_from_slice(b"NULL");
        return;
    }
    let start = out.len();
    text_out(value, element, settings, out);
    let text = &out[start..];
    let special = |b: &u8| matches!(b, b'"' | b'\\' | b'{' | b'}' | b',') || is_blank(*b);
    let quoted = text.is_empty() || text.eq_ignore_ascii_case(b"null") || text.iter().any(special);
    if !quoted {
        return;
    }
    enclose(out, start, |_| b'\\');
}

/// Returns whether C's `isspace` accepts the byte.
pub(super) fn is_blank(b: u8) -> bool {
    b.is_ascii_whitespace() || b == 0x0b
}

pub(super) fn to_binary(array: &Array, ty: &Type, out: &mut Vec<u8>) {
    let element = ty.element().unwrap_or(Type::TEXT);
    let nulls = array.values.iter().any(Value::is_null);
    out.extend_from_slice(&(array.dims.len() as i32).to_be_bytes());
    out.extend_from_slice(&i32::from(nulls).to_be_bytes());
    out.extend_from_slice(&element.oid().to_be_bytes());
    for dim in &array.dims {
        out.extend_from_slice(&dim.len.to_be_bytes());
        out.extend_from_slice(&dim.lower.to_be_bytes());
    }
    for value in &array.values {
        let at = out.len();
        out.extend_from_slice(&(-1i32).to_be_bytes());
        if !value.is_null() {
            binary_out(value, &element, out);
            let length = (out.len() - at - 4) as i32;
            out[at..at + 4].copy_from_slice(&length.to_be_bytes());
        }
    }
}

pub(super) fn from_binary(bytes: &[u8], element: TypeKind) -> Result<Array, SqlError> {
    let mut rest = bytes;
    let count = usize::try_from(word(&mut rest)?).map_err(|_| invalid_binary())?;
    if count > DIMENSIONS_MAX {
        return Err(too_many_dimensions(count));
    }
    let flags = word(&mut rest)?;
    if flags != 0 && flags != 1 {
        return Err(SqlError::new(
            SqlState::INVALID_BINARY_REPRESENTATION,
            "invalid array flags",
        ));
    }
    let oid = word(&mut rest)? as u32;
    if oid != element.oid() {
        return Err(SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!(
                "binary data has array element type {oid} ({}) instead of expected {} ({element})",
                TypeKind::from_oid(oid).map_or("???", TypeKind::name),
                element.oid()
            ),
        ));
    }
    let mut dims = Vec::with_capacity(count);
    let mut elements = usize::from(count > 0);
    for _ in 0..count {
        let len = word(&mut rest)?;
        let lower = word(&mut rest)?;
        let size = usize::try_from(len).map_err(|_| invalid_binary())?;
        elements = elements
            .checked_mul(size)
            .filter(|_| lower.checked_add(len).is_some())
            .ok_or_else(invalid_binary)?;
        dims.push(Dimension { len, lower });
    }
    // Each element takes at least the four bytes of its length.
    if elements > rest.len() / 4 {
        return Err(invalid_binary());
    }
    let plain = Type::of(element);
    let mut values = Vec::with_capacity(elements);
    for _ in 0..elements {
        values.push(match word(&mut rest)? {
            -1 => Value::Null,
            length => {
                let length = usize::try_from(length).map_err(|_| invalid_binary())?;
                let (value, behind) = rest.split_at_checked(length).ok_or_else(invalid_binary)?;
                rest = behind;
                binary_in(&plain, value)?
            }
        });
    }
    if !rest.is_empty() {
        return Err(invalid_binary());
    }
    if values.is_empty() {
        dims.clear();
    }
    Ok(Array { dims, values })
}

fn word(rest: &mut &[u8]) -> Result<i32, SqlError> {
    let (word, behind) = rest.split_first_chunk().ok_or_else(invalid_binary)?;
    *rest = behind;
    Ok(i32::from_be_bytes(*word))
}
