//! Ordering and equality of values.
//!
//! Text compares by bytes (the C collation, which for UTF-8 is code point order). NaN is equal to
//! itself and above all other floats.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use crate::types::citext::folded;
use crate::types::json;
use crate::value::{Array, Record, Value};

/// Compares two values of one type, or two integers of any width. NULLs are equal to each other and
/// above all other values. Values of types without an order are ordered by their type.
#[inline]
pub fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Int4(a), Value::Int4(b)) => a.cmp(b),
        (Value::Int8(a), Value::Int8(b)) => a.cmp(b),
        (Value::Text(a), Value::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        _ => compare_rest(a, b),
    }
}

fn compare_rest(a: &Value, b: &Value) -> Ordering {
    if let (Some(a), Some(b)) = (a.as_int(), b.as_int()) {
        return a.cmp(&b);
    }
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Float4(a), Value::Float4(b)) => float(f64::from(*a), f64::from(*b)),
        (Value::Float8(a), Value::Float8(b)) => float(*a, *b),
        (Value::Numeric(a), Value::Numeric(b)) => a.cmp(b),
        (Value::Bytea(a), Value::Bytea(b)) => a.cmp(b),
        (Value::Date(a), Value::Date(b)) => a.cmp(b),
        (Value::Timestamp(a), Value::Timestamp(b))
        | (Value::TimestampTz(a), Value::TimestampTz(b)) => a.cmp(b),
        (Value::Time(a), Value::Time(b)) => a.cmp(b),
        (Value::TimeTz(a), Value::TimeTz(b)) => (a.utc_us(), a.west).cmp(&(b.utc_us(), b.west)),
        (Value::Interval(a), Value::Interval(b)) => a.span().cmp(&b.span()),
        (Value::Uuid(a), Value::Uuid(b)) => a.cmp(b),
        (Value::Inet(a), Value::Inet(b)) => a.cmp(b),
        (Value::MacAddr(a), Value::MacAddr(b)) => a.cmp(b),
        (Value::Enum(a), Value::Enum(b)) => a.cmp(b),
        (Value::Citext(a), Value::Citext(b)) => folded(a).as_bytes().cmp(folded(b).as_bytes()),
        (Value::Array(a), Value::Array(b)) => arrays(a, b),
        (Value::Record(a), Value::Record(b)) => records(a, b),
        (Value::Jsonb(a), Value::Jsonb(b)) => json::compare(a, b),
        (Value::Json(a), Value::Json(b)) => a.as_bytes().cmp(b.as_bytes()),
        _ => rank(a).cmp(&rank(b)),
    }
}

/// Compares arrays element by element, then by number of elements, then by dimensions. NULL
/// elements are equal to each other and above the others.
fn arrays(a: &Array, b: &Array) -> Ordering {
    let lens = |array: &Array| array.dims.iter().map(|d| d.len).collect::<Vec<_>>();
    let lowers = |array: &Array| array.dims.iter().map(|d| d.lower).collect::<Vec<_>>();
    a.values
        .iter()
        .zip(&b.values)
        .map(|(a, b)| compare(a, b))
        .find(|ordering| ordering.is_ne())
        .unwrap_or_else(|| a.values.len().cmp(&b.values.len()))
        .then_with(|| a.dims.len().cmp(&b.dims.len()))
        .then_with(|| lens(a).cmp(&lens(b)))
        .then_with(|| lowers(a).cmp(&lowers(b)))
}

/// Compares records field by field, then by the number of fields. NULLs are equal to each other and
/// above the others.
fn records(a: &Record, b: &Record) -> Ordering {
    let fields = a.values.iter().zip(&b.values);
    let mut orders = fields.map(|(a, b)| compare(a, b));
    let first = orders.find(|ordering| ordering.is_ne());
    first.unwrap_or_else(|| a.values.len().cmp(&b.values.len()))
}

fn float(a: f64, b: f64) -> Ordering {
    match a.partial_cmp(&b) {
        Some(ordering) => ordering,
        None => a.is_nan().cmp(&b.is_nan()),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Bool(_) => 0,
        Value::Int2(_) | Value::Int4(_) | Value::Int8(_) | Value::Oid(_) | Value::Object(_) => 1,
        Value::Float4(_) => 2,
        Value::Float8(_) => 3,
        Value::Numeric(_) => 4,
        Value::Text(_) => 5,
        Value::Bytea(_) => 6,
        Value::Date(_) => 7,
        Value::Timestamp(_) => 8,
        Value::TimestampTz(_) => 9,
        Value::Uuid(_) => 10,
        Value::Time(_) => 11,
        Value::TimeTz(_) => 12,
        Value::Interval(_) => 13,
        Value::Json(_) => 14,
        Value::Jsonb(_) => 15,
        Value::Array(_) => 16,
        Value::Enum(_) => 17,
        Value::Record(_) => 18,
        Value::Inet(_) => 19,
        Value::MacAddr(_) => 20,
        Value::Citext(_) => 21,
        Value::Null => u8::MAX,
    }
}

/// Returns whether two values are not distinct: NULL is equal to NULL.
#[inline]
pub fn same(a: &Value, b: &Value) -> bool {
    compare(a, b) == Ordering::Equal
}

/// Compares two values for ORDER BY.
#[inline]
pub fn sort_compare(a: &Value, b: &Value, desc: bool, nulls_first: bool) -> Ordering {
    match (a.is_null(), b.is_null()) {
        (false, false) => {
            let ordering = compare(a, b);
            if desc { ordering.reverse() } else { ordering }
        }
        (true, true) => Ordering::Equal,
        (true, false) if nulls_first => Ordering::Less,
        (true, false) => Ordering::Greater,
        (false, true) if nulls_first => Ordering::Greater,
        (false, true) => Ordering::Less,
    }
}

/// The direction of a key of ORDER BY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortDirection {
    /// DESC
    pub desc: bool,
    /// NULLS FIRST
    pub nulls_first: bool,
}

/// Returns two numbers for the keys of a row in ORDER BY. Of two rows with different numbers, the
/// one with the smaller first number, or else the smaller second one, comes first. Rows with equal
/// numbers must be compared.
#[inline]
pub fn sort_heads<'a>(mut keys: impl Iterator<Item = (&'a Value, SortDirection)>) -> [u64; 2] {
    let mut next = || {
        let head = keys.next().map(|(value, direction)| head(value, direction));
        head.unwrap_or((0, false))
    };
    let (first, is_whole) = next();
    let second = if is_whole { next().0 } else { 0 };
    [first, second]
}

/// Returns a number for a key, and whether keys with the same number are equal.
#[inline]
fn head(value: &Value, direction: SortDirection) -> (u64, bool) {
    if value.is_null() {
        let number = if direction.nulls_first { 0 } else { u64::MAX };
        return (number, false);
    }
    let (number, is_whole) = ascending_head(value);
    let number = if direction.desc { !number } else { number };
    // NULL has one of these numbers.
    (number, is_whole && number != 0 && number != u64::MAX)
}

fn ascending_head(value: &Value) -> (u64, bool) {
    const SIGN: u64 = 1 << 63;
    let integer = |v: i64| (v as u64 ^ SIGN, true);
    let float = |v: f64| {
        // Zeros with different signs are equal, and NaN is the largest number.
        let bits = match v {
            v if v.is_nan() => return (u64::MAX, false),
            0.0 => 0,
            v => v.to_bits(),
        };
        let number = if bits & SIGN == 0 { bits | SIGN } else { !bits };
        (number, true)
    };
    let first_bytes = |bytes: &[u8]| {
        let mut head = [0; 8];
        let len = bytes.len().min(8);
        head[..len].copy_from_slice(&bytes[..len]);
        u64::from_be_bytes(head)
    };
    match value {
        Value::Float4(v) => float(f64::from(*v)),
        Value::Float8(v) => float(*v),
        // A text has no zero bytes, so a short one is the only one with its number.
        Value::Text(v) => (first_bytes(v.as_bytes()), v.len() < 8),
        Value::Bytea(v) => (first_bytes(v), false),
        Value::Uuid(v) => (first_bytes(v), false),
        Value::Date(v) => integer(i64::from(*v)),
        Value::Timestamp(v) | Value::TimestampTz(v) | Value::Time(v) => integer(*v),
        other => other.as_int().map_or((0, false), integer),
    }
}

/// Hashes a value; values that are the `same` have equal hashes.
pub fn hash_value(value: &Value, hasher: &mut impl Hasher) {
    if let Some(v) = value.as_int() {
        return v.hash(hasher);
    }
    let float_bits = |v: f64| {
        if v.is_nan() {
            f64::NAN.to_bits()
        } else if v == 0.0 {
            0
        } else {
            v.to_bits()
        }
    };
    match value {
        Value::Bool(v) => v.hash(hasher),
        Value::Float4(v) => float_bits(f64::from(*v)).hash(hasher),
        Value::Float8(v) => float_bits(*v).hash(hasher),
        Value::Numeric(v) => v.hash(hasher),
        Value::Text(v) => v.as_bytes().hash(hasher),
        Value::Citext(v) => folded(v).as_bytes().hash(hasher),
        Value::Bytea(v) => v.hash(hasher),
        Value::Date(v) => v.hash(hasher),
        Value::Timestamp(v) | Value::TimestampTz(v) | Value::Time(v) => v.hash(hasher),
        Value::TimeTz(v) => (v.utc_us(), v.west).hash(hasher),
        Value::Interval(v) => v.span().hash(hasher),
        Value::Json(v) => v.as_bytes().hash(hasher),
        Value::Jsonb(v) => json::hash(v, hasher),
        Value::Array(v) => {
            v.dims.hash(hasher);
            v.values.iter().for_each(|value| hash_value(value, hasher));
        }
        Value::Record(v) => v.values.iter().for_each(|value| hash_value(value, hasher)),
        Value::Uuid(v) => v.hash(hasher),
        Value::Inet(v) => v.hash(hasher),
        Value::MacAddr(v) => v.hash(hasher),
        Value::Enum(v) => v.hash(hasher),
        Value::Null
        | Value::Int2(_)
        | Value::Int4(_)
        | Value::Int8(_)
        | Value::Oid(_)
        | Value::Object(_) => {
            rank(value).hash(hasher);
        }
    }
}
