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

mod scalar;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use self::scalar::{fold_f32, fold_f64, push_bytes, push_i32, push_i64, push_numeric};
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
