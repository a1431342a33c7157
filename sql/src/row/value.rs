//! The encoding of a value in a row: the sizes of fixed-size values, and the bytes of all values.
//!
//! `numeric` is one byte with the sign and scale, followed by the significant bytes of the
//! mantissa, lowest first.
//!
//! Failure: invalid bytes give `None`, never a panic. The writer must provide enough space.

use compact_str::CompactString;
use rust_decimal::Decimal;

use super::{array, record};
use crate::types::{Inet, TypeKind};
use crate::value::{Interval, TimeTz, Value};

/// Returns whether a value can be of a type.
pub(super) fn is_of(value: &Value, kind: TypeKind) -> bool {
    match value {
        Value::Null => true,
        Value::Text(_) => kind.is_string(),
        Value::Citext(_) => kind.is_citext(),
        Value::Bool(_) => kind == TypeKind::Bool,
        Value::Int2(_) => kind == TypeKind::Int2,
        Value::Int4(_) => kind == TypeKind::Int4,
        Value::Int8(_) => kind == TypeKind::Int8,
        Value::Float4(_) => kind == TypeKind::Float4,
        Value::Float8(_) => kind == TypeKind::Float8,
        Value::Numeric(_) => kind == TypeKind::Numeric,
        Value::Bytea(_) => kind == TypeKind::Bytea,
        Value::Date(_) => kind == TypeKind::Date,
        Value::Timestamp(_) => kind == TypeKind::Timestamp,
        Value::TimestampTz(_) => kind == TypeKind::TimestampTz,
        Value::Time(_) => kind == TypeKind::Time,
        Value::TimeTz(_) => kind == TypeKind::TimeTz,
        Value::Interval(_) => kind == TypeKind::Interval,
        Value::Uuid(_) => kind == TypeKind::Uuid,
        Value::Inet(_) => matches!(kind, TypeKind::Inet | TypeKind::Cidr),
        Value::MacAddr(_) => kind == TypeKind::MacAddr,
        Value::Oid(_) => matches!(kind, TypeKind::Oid | TypeKind::Xid),
        // No table has columns of these types.
        Value::Object(_) => false,
        Value::Json(_) => kind == TypeKind::Json,
        Value::Jsonb(_) => kind == TypeKind::Jsonb,
        // The oid determines whether the value belongs to this enum.
        Value::Enum(value) => {
            matches!(kind, TypeKind::Enum(of) if of.with_oid(value.oid()).is_some())
        }
        Value::Array(array) => match kind.element() {
            Some(element) => array.values.iter().all(|value| is_of(value, element)),
            None => false,
        },
        Value::Record(row) => match kind.as_composite() {
            Some(of) => row.fields.kind() == kind && record::fits(row, of),
            None => false,
        },
    }
}

pub(super) fn fixed_width(kind: TypeKind) -> Option<usize> {
    match kind {
        TypeKind::Bool => Some(1),
        TypeKind::Int2 => Some(2),
        TypeKind::Int4
        | TypeKind::Float4
        | TypeKind::Date
        | TypeKind::Oid
        | TypeKind::Xid
        | TypeKind::Enum(_) => Some(4),
        TypeKind::Int8
        | TypeKind::Float8
        | TypeKind::Timestamp
        | TypeKind::TimestampTz
        | TypeKind::Time => Some(8),
        TypeKind::Uuid | TypeKind::TimeTz | TypeKind::Interval => Some(16),
        _ => None,
    }
}

pub(super) fn put_fixed(value: &Value, out: &mut [u8]) {
    match value {
        Value::Bool(b) => out[0] = u8::from(*b),
        Value::Int2(i) => out[..2].copy_from_slice(&i.to_le_bytes()),
        Value::Int4(i) | Value::Date(i) => out[..4].copy_from_slice(&i.to_le_bytes()),
        Value::Int8(i) | Value::Timestamp(i) | Value::TimestampTz(i) | Value::Time(i) => {
            out[..8].copy_from_slice(&i.to_le_bytes());
        }
        Value::Float4(f) => out[..4].copy_from_slice(&f.to_le_bytes()),
        Value::Float8(f) => out[..8].copy_from_slice(&f.to_le_bytes()),
        Value::TimeTz(time) => {
            out[..8].copy_from_slice(&time.us.to_le_bytes());
            out[8..12].copy_from_slice(&time.west.to_le_bytes());
        }
        Value::Interval(span) => {
            out[..8].copy_from_slice(&span.us.to_le_bytes());
            out[8..12].copy_from_slice(&span.days.to_le_bytes());
            out[12..16].copy_from_slice(&span.months.to_le_bytes());
        }
        Value::Uuid(u) => out[..16].copy_from_slice(u),
        Value::Oid(oid) => out[..4].copy_from_slice(&oid.to_le_bytes()),
        Value::Enum(value) => out[..4].copy_from_slice(&value.oid().to_le_bytes()),
        Value::Null
        | Value::Numeric(_)
        | Value::Text(_)
        | Value::Citext(_)
        | Value::Bytea(_)
        | Value::Inet(_)
        | Value::MacAddr(_)
        | Value::Object(_)
        | Value::Json(_)
        | Value::Jsonb(_)
        | Value::Record(_)
        | Value::Array(_) => {}
    }
}

#[inline]
pub(super) fn get_fixed(kind: TypeKind, bytes: &[u8]) -> Option<Value> {
    Some(match kind {
        TypeKind::Bool => Value::Bool(*bytes.first()? != 0),
        TypeKind::Int2 => Value::Int2(i16::from_le_bytes(take(bytes)?)),
        TypeKind::Int4 => Value::Int4(i32::from_le_bytes(take(bytes)?)),
        TypeKind::Date => Value::Date(i32::from_le_bytes(take(bytes)?)),
        TypeKind::Int8 => Value::Int8(i64::from_le_bytes(take(bytes)?)),
        TypeKind::Timestamp => Value::Timestamp(i64::from_le_bytes(take(bytes)?)),
        TypeKind::TimestampTz => Value::TimestampTz(i64::from_le_bytes(take(bytes)?)),
        TypeKind::Float4 => Value::Float4(f32::from_le_bytes(take(bytes)?)),
        TypeKind::Float8 => Value::Float8(f64::from_le_bytes(take(bytes)?)),
        TypeKind::Time => Value::Time(i64::from_le_bytes(take(bytes)?)),
        TypeKind::TimeTz => Value::TimeTz(TimeTz {
            us: i64::from_le_bytes(take(bytes)?),
            west: i32::from_le_bytes(take(bytes.get(8..)?)?),
        }),
        TypeKind::Interval => Value::Interval(Interval {
            us: i64::from_le_bytes(take(bytes)?),
            days: i32::from_le_bytes(take(bytes.get(8..)?)?),
            months: i32::from_le_bytes(take(bytes.get(12..)?)?),
        }),
        TypeKind::Uuid => Value::Uuid(take(bytes)?),
        TypeKind::Oid | TypeKind::Xid => Value::Oid(u32::from_le_bytes(take(bytes)?)),
        TypeKind::Enum(of) => of.with_oid(u32::from_le_bytes(take(bytes)?))?.into(),
        _ => return None,
    })
}

#[inline]
pub(super) fn take<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.get(..N)?.try_into().ok()
}

pub(super) fn varying_bytes(value: &Value) -> usize {
    match value {
        Value::Text(s) | Value::Citext(s) | Value::Json(s) | Value::Jsonb(s) => s.len(),
        Value::Array(array) => array::bytes(array),
        Value::Record(row) => record::bytes(row),
        Value::Bytea(b) => b.len(),
        Value::Inet(inet) => inet.row_bytes(),
        Value::MacAddr(mac) => mac.len(),
        Value::Numeric(d) => 1 + mantissa_bytes(d),
        _ => 0,
    }
}

pub(super) fn put_varying(value: &Value, out: &mut [u8]) -> usize {
    match value {
        Value::Array(array) => array::put(array, out),
        Value::Record(row) => record::put(row, out),
        Value::Text(s) | Value::Citext(s) | Value::Json(s) | Value::Jsonb(s) => {
            out[..s.len()].copy_from_slice(s.as_bytes());
            s.len()
        }
        Value::Bytea(b) => {
            out[..b.len()].copy_from_slice(b);
            b.len()
        }
        Value::Inet(inet) => {
            inet.put(out);
            inet.row_bytes()
        }
        Value::MacAddr(mac) => {
            out[..mac.len()].copy_from_slice(mac);
            mac.len()
        }
        Value::Numeric(d) => {
            let sign = if d.is_sign_negative() { 0x80 } else { 0 };
            out[0] = sign | d.scale() as u8;
            let count = mantissa_bytes(d);
            let mantissa = d.mantissa().unsigned_abs().to_le_bytes();
            out[1..=count].copy_from_slice(&mantissa[..count]);
            1 + count
        }
        _ => 0,
    }
}

pub(super) fn get_varying(kind: TypeKind, bytes: &[u8]) -> Option<Value> {
    if kind.is_string() {
        return Some(Value::Text(CompactString::from_utf8(bytes).ok()?));
    }
    match kind {
        TypeKind::Citext(_) => Some(Value::Citext(CompactString::from_utf8(bytes).ok()?)),
        TypeKind::Json => Some(Value::Json(CompactString::from_utf8(bytes).ok()?)),
        TypeKind::Jsonb => Some(Value::Jsonb(CompactString::from_utf8(bytes).ok()?)),
        TypeKind::Array(element) => array::get(element.kind(), bytes).map(Value::from),
        TypeKind::Composite(of) => record::get(of, bytes).map(Value::from),
        TypeKind::Bytea => Some(Value::Bytea(bytes.to_vec())),
        TypeKind::Inet | TypeKind::Cidr => Inet::get(bytes).map(Value::Inet),
        TypeKind::MacAddr => bytes.try_into().ok().map(Value::MacAddr),
        TypeKind::Numeric => get_numeric(bytes).map(Value::Numeric),
        _ => None,
    }
}

fn mantissa_bytes(d: &Decimal) -> usize {
    let bits = 128 - d.mantissa().unsigned_abs().leading_zeros() as usize;
    bits.div_ceil(8)
}

fn get_numeric(bytes: &[u8]) -> Option<Decimal> {
    let (digits, scale) = get_digits(bytes)?;
    let mut d = Decimal::try_from_i128_with_scale(digits, scale).ok()?;
    d.set_sign_negative(bytes.first()? & 0x80 != 0);
    Some(d)
}

/// Decodes a `numeric` as its digits and the number of decimal places.
#[inline]
pub(super) fn get_digits(bytes: &[u8]) -> Option<(i128, u32)> {
    let (&head, digits) = bytes.split_first()?;
    let mut mantissa = [0u8; 16];
    mantissa.get_mut(..digits.len())?.copy_from_slice(digits);
    let mantissa = i128::try_from(u128::from_le_bytes(mantissa)).ok()?;
    let is_negative = head & 0x80 != 0;
    let digits = if is_negative { -mantissa } else { mantissa };
    Some((digits, u32::from(head & 0x7F)))
}

/// Decodes a fixed-size value that is one integer.
#[inline]
pub(super) fn get_integer(kind: TypeKind, bytes: &[u8]) -> Option<i64> {
    Some(match kind {
        TypeKind::Int2 => i64::from(i16::from_le_bytes(take(bytes)?)),
        TypeKind::Int4 | TypeKind::Date => i64::from(i32::from_le_bytes(take(bytes)?)),
        TypeKind::Oid => i64::from(u32::from_le_bytes(take(bytes)?)),
        TypeKind::Int8 | TypeKind::Timestamp | TypeKind::TimestampTz | TypeKind::Time => {
            i64::from_le_bytes(take(bytes)?)
        }
        _ => return None,
    })
}

/// Returns the integer that encodes a value, as [`get_integer`] decodes it.
pub(super) fn integer_of(value: &Value) -> Option<i64> {
    Some(match *value {
        Value::Int2(value) => i64::from(value),
        Value::Int4(value) | Value::Date(value) => i64::from(value),
        Value::Oid(value) => i64::from(value),
        Value::Int8(value)
        | Value::Timestamp(value)
        | Value::TimestampTz(value)
        | Value::Time(value) => value,
        _ => return None,
    })
}
