//! Index keys: byte strings that sort as the values do.
//!
//! ```text
//! column   [marker]  value bytes, inverted when DESC
//! marker   00 NULL first   01 a value   02 NULL last     (left out where NULL cannot be)
//! int      big endian, sign flipped          bool     00 / 01
//! float    IEEE bits, sign folded, -0 = 0    date, timestamp   as their integers
//! time     as its integer                    timetz   as in UTC, then the offset
//! interval as microseconds, 16 bytes
//! array    each element marked, ends with 00, then dimensions, sizes and lower bounds
//! enum     the place of its label, a float64
//! inet     family, network, bits, address    macaddr  as it is
//! uuid     as it is                          text, bytea       00 -> 00 FF, ends with 00 01
//! numeric  sign, exponent, digit pairs + 1, ends with 00 (complemented when negative)
//! ```
//!
//! Invariants
//! - KEY-1: for two rows, `encode(a) < encode(b)` exactly when a sorts before b under the index's
//!   columns (text by bytes, `char(n)` without its trailing blanks).
//! - KEY-2: no encoded column is a proper prefix of another value of that column. A key of the
//!   first k columns is therefore a prefix of exactly the keys that agree in those columns.
//! - KEY-3: the row's address follows if an index can hold two rows with the same columns: a
//!   non-unique index, or a key with a NULL that equals no other. Every key of a tree is distinct.

use std::borrow::Cow;

use rust_decimal::Decimal;

use crate::bound::Expr;
use crate::catalog::{EXPRESSION, IndexDef, TableDef};
use crate::context::EvalContext;
use crate::error::SqlError;
use crate::functions;
use crate::types::TypeKind;
use crate::types::citext::folded;
use crate::value::{Array, Record, Value};

const NULL_FIRST: u8 = 0;
const NOT_NULL: u8 = 1;
const NULL_LAST: u8 = 2;

/// The size of the row address at the end of a key, in bytes.
pub const ADDRESS_BYTES: usize = 8;

/// The encoder of the keys of one index.
#[derive(Clone, Debug)]
pub struct KeyCodec {
    columns: Vec<KeyColumn>,
    unique: bool,
    /// NULLS NOT DISTINCT: keys that contain NULL are unique, too.
    nulls_equal: bool,
    /// The number of table columns; the values of index expressions follow them in a key row.
    width: usize,
    expressions: Vec<Expr>,
}

/// The encoding of one key column.
#[derive(Clone, Copy, Debug)]
struct KeyColumn {
    /// The position in the key row ([`KeyCodec::key_row`]).
    column: usize,
    desc: bool,
    nulls_first: bool,
    marked: bool,
    blank_padded: bool,
}

impl KeyCodec {
    /// Creates the encoder of `index` on `table`.
    pub fn new(table: &TableDef, index: &IndexDef) -> KeyCodec {
        let columns = index
            .columns
            .iter()
            .map(|c| KeyColumn {
                column: match c.column.checked_sub(EXPRESSION) {
                    Some(at) => table.columns.len() + at,
                    None => c.column,
                },
                desc: c.desc,
                nulls_first: c.nulls_first,
                marked: !index.primary,
                blank_padded: matches!(index.type_of(table, c.column).kind, TypeKind::BpChar),
            })
            .collect();
        KeyCodec {
            columns,
            unique: index.unique,
            nulls_equal: index.more.nulls_equal,
            width: table.columns.len(),
            expressions: index
                .more
                .expressions
                .iter()
                .map(|e| e.value.clone())
                .collect(),
        }
    }

    /// Returns the key row: `row`, followed by the values of the index expressions.
    #[inline]
    pub fn key_row<'a>(
        &self,
        row: &'a [Value],
        eval: &EvalContext,
    ) -> Result<Cow<'a, [Value]>, SqlError> {
        if self.expressions.is_empty() {
            return Ok(Cow::Borrowed(row));
        }
        let mut whole = row[..self.width].to_vec();
        for expression in &self.expressions {
            whole.push(functions::eval(expression, row, &[], eval)?);
        }
        Ok(Cow::Owned(whole))
    }

    /// Returns the number of key columns.
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// Encodes the key of a [`Self::key_row`] into `out`, which is cleared, without an address.
    /// Returns whether the address has to follow (KEY-3).
    pub fn encode_row(&self, row: &[Value], out: &mut Vec<u8>) -> bool {
        out.clear();
        let mut has_null = false;
        for column in &self.columns {
            let value = &row[column.column];
            has_null |= value.is_null();
            column.encode(value, out);
        }
        (has_null && !self.nulls_equal) || !self.unique
    }

    /// Encodes the complete key of a [`Self::key_row`]; `address` is the address of the row.
    pub fn encode_entry(&self, row: &[Value], address: u64, out: &mut Vec<u8>) {
        if self.encode_row(row, out) {
            out.extend_from_slice(&address.to_be_bytes());
        }
    }

    /// Returns the slot size that these keys need in a hash table, in bytes. It is exact for types
    /// of bounded size, and the maximum slot size for others.
    pub fn slot_bytes(table: &TableDef, index: &IndexDef) -> usize {
        const NUMERIC_BYTES: usize = 20;
        /// The maximum size of a slot in bytes (see `HashOptions`).
        const SLOT_BYTES_MAX: usize = 256;
        // A marker, the end of the string, and up to four bytes a character.
        let text = |length: usize| length.saturating_mul(4).saturating_add(3);
        let bytes = index.columns.iter().map(|c| {
            let ty = index.type_of(table, c.column);
            match ty.kind {
                TypeKind::Numeric => NUMERIC_BYTES,
                // An enum value is encoded as its sort position, a float64.
                TypeKind::Enum(_) => 9,
                kind if kind.is_string() || kind.size() < 0 => {
                    ty.length().map_or(SLOT_BYTES_MAX, text)
                }
                kind => usize::try_from(kind.size()).unwrap_or(8) + 1,
            }
        });
        // A key that contains NULL is followed by the row's address (KEY-3).
        let address = if index.primary { 0 } else { ADDRESS_BYTES };
        bytes
            .fold(address, usize::saturating_add)
            .min(SLOT_BYTES_MAX)
    }

    /// Appends a value of key column `position`, to build search prefixes.
    pub fn push(&self, position: usize, value: &Value, out: &mut Vec<u8>) {
        self.columns[position].encode(value, out);
    }

    /// Returns whether a complete key of non-NULL values is unique without an address.
    pub fn is_unique(&self) -> bool {
        self.unique
    }

    /// Returns whether key column `position` has a NULL marker.
    pub fn is_marked(&self, position: usize) -> bool {
        self.columns[position].marked
    }

    /// Returns whether key column `position` is descending.
    pub fn is_desc(&self, position: usize) -> bool {
        self.columns[position].desc
    }

    /// Returns whether NULLs sort first in key column `position`.
    pub fn nulls_first(&self, position: usize) -> bool {
        self.columns[position].nulls_first
    }

    /// Appends the marker that all non-NULL values share in key column `position`.
    pub fn push_not_null(&self, position: usize, out: &mut Vec<u8>) {
        if self.columns[position].marked {
            out.push(NOT_NULL);
        }
    }
}

impl KeyColumn {
    fn encode(&self, value: &Value, out: &mut Vec<u8>) {
        if value.is_null() {
            out.push(if self.nulls_first {
                NULL_FIRST
            } else {
                NULL_LAST
            });
            return;
        }
        if self.marked {
            out.push(NOT_NULL);
        }
        let start = out.len();
        encode_value(value, self.blank_padded, out);
        if self.desc {
            for byte in &mut out[start..] {
                *byte = !*byte;
            }
        }
    }
}

/// Turns `prefix` into the exclusive upper bound of the keys that begin with it: increments the
/// last byte that can be incremented. Returns false if there is no bound (the prefix is all `FF`,
/// or empty).
pub fn successor(prefix: &mut Vec<u8>) -> bool {
    while let Some(last) = prefix.last_mut() {
        if *last < 0xFF {
            *last += 1;
            return true;
        }
        prefix.pop();
    }
    false
}

/// Encodes a value for hash tables and hash joins: the bytes are equal exactly if the values are.
/// NULL is the single byte 00; a caller for which NULLs are never equal must check for it.
pub fn encode_plain(value: &Value, blank_padded: bool, out: &mut Vec<u8>) {
    if value.is_null() {
        out.push(NULL_FIRST);
    } else {
        out.push(NOT_NULL);
        encode_value(value, blank_padded, out);
    }
}

fn encode_value(value: &Value, blank_padded: bool, out: &mut Vec<u8>) {
    match value {
        Value::Null => {}
        Value::Bool(b) => out.push(u8::from(*b)),
        Value::Int2(i) => out.extend_from_slice(&((*i as u16) ^ (1 << 15)).to_be_bytes()),
        Value::Int4(i) | Value::Date(i) => push_i32(*i, out),
        Value::Int8(i) | Value::Timestamp(i) | Value::TimestampTz(i) | Value::Time(i) => {
            push_i64(*i, out);
        }
        Value::TimeTz(time) => {
            push_i64(time.utc_us(), out);
            push_i32(time.west, out);
        }
        Value::Interval(span) => {
            out.extend_from_slice(&((span.span() as u128) ^ (1 << 127)).to_be_bytes());
        }
        Value::Float4(f) => out.extend_from_slice(&fold_f32(*f).to_be_bytes()),
        Value::Float8(f) => out.extend_from_slice(&fold_f64(*f).to_be_bytes()),
        Value::Numeric(d) => push_numeric(d, out),
        Value::Text(s) if blank_padded => push_bytes(s.trim_end_matches(' ').as_bytes(), out),
        Value::Text(s) => push_bytes(s.as_bytes(), out),
        Value::Citext(s) => push_bytes(folded(s).as_bytes(), out),
        Value::Bytea(b) => push_bytes(b, out),
        Value::Uuid(u) => out.extend_from_slice(u),
        Value::Inet(inet) => inet.push_key(out),
        Value::MacAddr(mac) => out.extend_from_slice(mac),
        Value::Oid(oid) => out.extend_from_slice(&oid.to_be_bytes()),
        Value::Object(object) => out.extend_from_slice(&object.oid.to_be_bytes()),
        Value::Enum(value) => out.extend_from_slice(&fold_f64(value.place()).to_be_bytes()),
        Value::Json(s) => push_bytes(s.as_bytes(), out),
        Value::Jsonb(s) => crate::types::json::push_key(s, out),
        Value::Array(array) => push_array(array, blank_padded, out),
        Value::Record(row) => push_record(row, out),
    }
}

fn push_i32(i: i32, out: &mut Vec<u8>) {
    out.extend_from_slice(&((i as u32) ^ (1 << 31)).to_be_bytes());
}

fn push_i64(i: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(&((i as u64) ^ (1 << 63)).to_be_bytes());
}

/// Maps a float to bits that sort as PostgreSQL sorts floats: -0 equals 0, NaN is above all others.
fn fold_f64(f: f64) -> u64 {
    let f = if f.is_nan() {
        f64::NAN.abs()
    } else if f == 0.0 {
        0.0
    } else {
        f
    };
    let bits = f.to_bits();
    if bits >> 63 == 1 {
        !bits
    } else {
        bits | (1 << 63)
    }
}

fn fold_f32(f: f32) -> u32 {
    let f = if f.is_nan() {
        f32::NAN.abs()
    } else if f == 0.0 {
        0.0
    } else {
        f
    };
    let bits = f.to_bits();
    if bits >> 31 == 1 {
        !bits
    } else {
        bits | (1 << 31)
    }
}

fn push_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    let mut rest = bytes;
    while let Some(zero) = rest.iter().position(|b| *b == 0) {
        out.extend_from_slice(&rest[..zero]);
        out.extend_from_slice(&[0, 0xFF]);
        rest = &rest[zero + 1..];
    }
    out.extend_from_slice(rest);
    out.extend_from_slice(&[0, 1]);
}

/// Encodes a record: each field follows a marker, and NULL sorts above other values. The end and
/// all trailing NULL fields are one marker above NULL. A stored record therefore keeps its key if
/// the composite type gets another field.
fn push_record(record: &Record, out: &mut Vec<u8>) {
    const REST_IS_NULL: u8 = NULL_LAST + 1;
    let mut end = out.len();
    for (value, ty) in record.typed() {
        if value.is_null() {
            out.push(NULL_LAST);
            continue;
        }
        out.push(NOT_NULL);
        encode_value(value, ty.kind == TypeKind::BpChar, out);
        end = out.len();
    }
    out.truncate(end);
    out.push(REST_IS_NULL);
}

fn push_array(array: &Array, blank_padded: bool, out: &mut Vec<u8>) {
    const END: u8 = 0;
    for value in &array.values {
        if value.is_null() {
            out.push(NULL_LAST);
        } else {
            out.push(NOT_NULL);
            encode_value(value, blank_padded, out);
        }
    }
    out.push(END);
    out.push(array.dims.len() as u8);
    array.dims.iter().for_each(|dim| push_i32(dim.len, out));
    array.dims.iter().for_each(|dim| push_i32(dim.lower, out));
}

/// Encodes a number as `0.d1d2d3… × 10^e` with d1 ≠ 0, so 1.0 and 1.00 give the same bytes.
fn push_numeric(d: &Decimal, out: &mut Vec<u8>) {
    const ZERO: u8 = 0x80;
    if d.is_zero() {
        out.push(ZERO);
        return;
    }
    let mut mantissa = d.mantissa().unsigned_abs();
    while mantissa.is_multiple_of(10) {
        mantissa /= 10;
    }
    let mut digits = [0u8; 40];
    let mut count = 0;
    let mut rest = mantissa;
    while rest > 0 {
        digits[count] = (rest % 10) as u8;
        rest /= 10;
        count += 1;
    }
    digits[..count].reverse();
    let exponent = exponent_of(d);
    let negative = d.is_sign_negative();
    out.push(if negative { ZERO - 1 } else { ZERO + 1 });
    let start = out.len();
    out.push((exponent + 64) as u8);
    for pair in digits[..count + count % 2].chunks_exact(2) {
        out.push(pair[0] * 10 + pair[1] + 1);
    }
    out.push(0);
    if negative {
        for byte in &mut out[start..] {
            *byte = !*byte;
        }
    }
}

/// Returns the e of `0.d1d2… × 10^e`: the number of digits before the decimal point, negative for
/// leading zeros.
fn exponent_of(d: &Decimal) -> i32 {
    let mantissa = d.mantissa().unsigned_abs();
    let digits = mantissa.checked_ilog10().map_or(0, |l| l as i32 + 1);
    digits - d.scale() as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Fields, Type};
    use crate::value::{Interval, TimeTz};

    fn key(value: &Value, desc: bool, nulls_first: bool) -> Vec<u8> {
        let column = KeyColumn {
            column: 0,
            desc,
            nulls_first,
            marked: true,
            blank_padded: false,
        };
        let mut out = Vec::new();
        column.encode(value, &mut out);
        out
    }

    fn ascending(values: &[Value]) {
        for pair in values.windows(2) {
            assert!(
                key(&pair[0], false, false) < key(&pair[1], false, false),
                "{pair:?}"
            );
            assert!(
                key(&pair[0], true, true) > key(&pair[1], true, true),
                "{pair:?}"
            );
        }
    }

    #[test]
    fn rows_are_in_order_field_by_field_and_a_further_field_changes_no_key() {
        let row = |fields: &[Option<i32>]| {
            let values = fields.iter().map(|of| of.map_or(Value::Null, Value::Int4));
            let shape = Fields::numbered(fields.iter().map(|_| Type::INT4));
            Value::from(Record::new(shape, values.collect()))
        };
        ascending(&[
            row(&[Some(1), Some(2)]),
            row(&[Some(1), Some(3)]),
            row(&[Some(1), None]),
            row(&[Some(2), Some(0)]),
            row(&[None, Some(1)]),
            row(&[None, None]),
        ]);
        for fields in [
            vec![Some(1), Some(2)],
            vec![Some(1), None],
            vec![None, Some(1)],
        ] {
            let mut wider = fields.clone();
            wider.push(None);
            let same = key(&row(&fields), false, false) == key(&row(&wider), false, false);
            assert!(same, "{fields:?}");
        }
    }

    fn numeric(s: &str) -> Value {
        Value::Numeric(s.parse().expect("a decimal"))
    }

    #[test]
    fn integers_and_floats_sort() {
        ascending(&[i32::MIN, -7, -1, 0, 1, 256, i32::MAX].map(Value::Int4));
        ascending(&[i64::MIN, -1, 0, 1, i64::MAX].map(Value::Int8));
        ascending(&[i16::MIN, -1, 0, 1, i16::MAX].map(Value::Int2));
        let floats = [
            f64::NEG_INFINITY,
            -1.5,
            -1e-300,
            0.0,
            1e-300,
            2.0,
            f64::INFINITY,
            f64::NAN,
        ];
        ascending(&floats.map(Value::Float8));
        assert_eq!(
            key(&Value::Float8(-0.0), false, false),
            key(&Value::Float8(0.0), false, false)
        );
    }

    #[test]
    fn numerics_sort_and_ignore_scale() {
        let values = [
            "-79228162514264337593543950335",
            "-100.01",
            "-100",
            "-99.9",
            "-1",
            "-0.5",
            "-0.05",
            "-0.0001",
            "0",
            "0.0001",
            "0.0010",
            "0.05",
            "0.5",
            "0.51",
            "1",
            "1.01",
            "9",
            "10",
            "10.5",
            "99",
            "100",
            "1234567890.123456789",
        ];
        ascending(&values.map(numeric));
        for (a, b) in [
            ("1.0", "1.000"),
            ("100", "100.00"),
            ("0", "0.00"),
            ("-0.50", "-0.5"),
        ] {
            assert_eq!(
                key(&numeric(a), false, false),
                key(&numeric(b), false, false)
            );
        }
    }

    #[test]
    fn text_sorts_by_bytes_with_zero_bytes_inside() {
        let texts = ["", "\0", "\0a", "a", "a\0", "a\0b", "aa", "b", "é"];
        ascending(&texts.map(|t| Value::Text(t.into())));
        ascending(&texts.map(|t| Value::Bytea(t.as_bytes().to_vec())));
    }

    #[test]
    fn nulls_go_where_asked() {
        let one = Value::Int4(1);
        assert!(key(&Value::Null, false, true) < key(&one, false, true));
        assert!(key(&Value::Null, false, false) > key(&one, false, false));
        assert!(key(&Value::Null, true, true) < key(&one, true, true));
        assert!(key(&Value::Null, true, false) > key(&one, true, false));
    }

    /// Returns a random value of one type. Values are often equal or adjacent.
    fn random_value(kind: usize, next: &mut impl FnMut() -> u64) -> Value {
        let small = |n: u64| (n % 7) as i64 - 3;
        let n = next();
        let wide = if n.is_multiple_of(3) {
            small(next())
        } else {
            next() as i64
        };
        match kind {
            15 => {
                let letters =
                    (0..next() % 5).map(|_| ['\0', 'a', 'A', 'É', 'é'][next() as usize % 5]);
                Value::Citext(letters.collect::<String>().into())
            }
            0 => Value::Int2(wide as i16),
            1 => Value::Int4(wide as i32),
            2 => Value::Int8(wide),
            3 => Value::Float8([0.0, -0.0, f64::NAN, f64::INFINITY, 1.5, -1.5][n as usize % 6]),
            4 => Value::Float8(f64::from_bits(next())),
            5 => Value::Float4(f32::from_bits(next() as u32)),
            6 => Value::Numeric(Decimal::new(wide, (next() % 20) as u32)),
            7 => {
                let letters =
                    (0..next() % 5).map(|_| ['\0', 'a', 'b', '\u{e9}'][next() as usize % 4]);
                Value::Text(letters.collect::<String>().into())
            }
            8 => Value::Bytea(
                (0..next() % 4)
                    .map(|_| [0, 1, 255][next() as usize % 3])
                    .collect(),
            ),
            9 => Value::Bool(n.is_multiple_of(2)),
            10 => Value::Date(wide as i32),
            11 => Value::Interval(Interval {
                months: small(n) as i32,
                days: small(next()) as i32 * 30,
                us: small(next()) * 86_400_000_000,
            }),
            13 => {
                let element = |next: &mut dyn FnMut() -> u64| match next() % 4 {
                    0 => Value::Null,
                    n => Value::Text(["", "\0", "a"][n as usize - 1].into()),
                };
                let values = (0..next() % 4).map(|_| element(next)).collect();
                Array::of(values).into()
            }
            14 => Value::Jsonb(
                [
                    "null",
                    "true",
                    "1",
                    "1.0",
                    "-2.5",
                    "10",
                    "\"a\"",
                    "[]",
                    "[1]",
                    "[1, 2]",
                    "{}",
                    "{\"a\": 1}",
                    "{\"b\": 1}",
                    "0.05",
                    "\"\"",
                ][n as usize % 15]
                    .into(),
            ),
            12 => Value::TimeTz(TimeTz {
                us: (3 + small(n)) * 3_600_000_000,
                west: small(next()) as i32 * 3600,
            }),
            _ => Value::Null,
        }
    }

    #[test]
    fn keys_sort_as_the_values_compare() {
        let mut state = 7u64;
        let mut next = move || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        for round in 0..20_000 {
            let kind = round % 16;
            let pick = |next: &mut dyn FnMut() -> u64| match next() % 10 {
                0 => Value::Null,
                _ => random_value(kind, &mut &mut *next),
            };
            let (a, b) = (pick(&mut next), pick(&mut next));
            for (desc, nulls_first) in [(false, false), (false, true), (true, false), (true, true)]
            {
                let by_value = crate::functions::sort_compare(&a, &b, desc, nulls_first);
                let by_key = key(&a, desc, nulls_first).cmp(&key(&b, desc, nulls_first));
                assert_eq!(
                    by_value, by_key,
                    "{a:?} {b:?} desc {desc} nulls first {nulls_first}"
                );
            }
        }
    }

    #[test]
    fn blanks_at_the_end_of_char_do_not_count() {
        let mut a = Vec::new();
        let mut b = Vec::new();
        encode_plain(&Value::Text("ab  ".into()), true, &mut a);
        encode_plain(&Value::Text("ab".into()), true, &mut b);
        assert_eq!(a, b);
    }

    #[test]
    fn successor_is_past_every_key_with_the_prefix() {
        let mut prefix = vec![1, 0xFF, 0xFF];
        assert!(successor(&mut prefix));
        assert_eq!(prefix, [2]);
        let mut all = vec![0xFF];
        assert!(!successor(&mut all));
    }
}
