//! The types: their identity (OID, name, size), and the input and output of their values.
//!
//! `text_in`/`text_out` and `binary_in`/`binary_out` are the two wire forms; each type has its own
//! file with its input and output functions. Input functions accept any bytes that a client sends,
//! and report an error instead of panicking.

mod array;
mod array_in;
mod boolean;
mod bytea;
pub mod calendar;
pub mod citext;
pub mod composites;
mod datetime_in;
mod datetime_out;
pub mod domains;
mod element;
mod enclosed;
pub mod enums;
mod float;
mod integer;
pub mod interval;
mod interval_in;
pub mod json;
pub mod jsonpath;
mod kind;
mod kind_names;
mod kind_properties;
mod network;
pub mod numeric;
mod oid;
mod record;
mod string;
#[cfg(test)]
mod tests;
mod time;
mod typmod;
mod uuid;
pub mod zone;
pub(crate) mod zone_abbreviation;

pub use array::{DIMENSIONS_MAX, check_bounds, too_many_dimensions};
pub use citext::Citext;
pub use composites::{Composite, Fields};
pub use domains::{Domain, is_same};
pub use element::Element;
pub use enums::{Enum, EnumValue};
pub use kind::{Type, TypeCategory, TypeKind};
pub use network::Inet;
pub use string::check_utf8;
pub(crate) use string::{char_of_code, code_of_char};
pub use typmod::apply_typmod;

use crate::error::{SqlError, SqlState};
use crate::functions::too_long;
use crate::settings::Settings;
use crate::value::Value;

/// The minimum size of a long value, in bytes.
pub const LONG_BYTES: usize = 256 << 10;

/// Returns whether the input of a value of `bytes` bytes may take long. Types whose input only
/// copies the bytes are never slow.
#[inline]
pub fn reads_long(ty: &Type, bytes: usize) -> bool {
    let copies = matches!(
        ty.kind,
        TypeKind::Text | TypeKind::VarChar | TypeKind::Bytea
    );
    bytes >= LONG_BYTES && !copies
}

/// Reads a value from its text form and checks the type's length limit.
///
/// `now`, `today` and similar words need the clock, so they require [`text_in_at`].
pub fn text_in(ty: &Type, text: &str, settings: &Settings) -> Result<Value, SqlError> {
    text_in_at(ty, text, settings, None)
}

/// Reads a value from its text form; `now` is the start of the transaction.
pub fn text_in_at(
    ty: &Type,
    text: &str,
    settings: &Settings,
    now: Option<i64>,
) -> Result<Value, SqlError> {
    let value = match ty.kind {
        TypeKind::Bool => Value::Bool(boolean::parse(text)?),
        TypeKind::Int2 => Value::Int2(integer::parse(text)?),
        TypeKind::Int4 => Value::Int4(integer::parse(text)?),
        TypeKind::Int8 => Value::Int8(integer::parse(text)?),
        TypeKind::Float4 => Value::Float4(float::parse4(text)?),
        TypeKind::Float8 => Value::Float8(float::parse8(text)?),
        TypeKind::Numeric => Value::Numeric(numeric::parse(text)?),
        TypeKind::Text | TypeKind::VarChar | TypeKind::RefCursor | TypeKind::Unknown => {
            Value::text(text)
        }
        TypeKind::BpChar if ty.length().is_none() => Value::text(text.trim_end_matches(' ')),
        TypeKind::BpChar => Value::text(text),
        TypeKind::Name => Value::text(string::clip_name(text)),
        TypeKind::Bytea => Value::Bytea(bytea::parse(text)?),
        TypeKind::Date => Value::Date(datetime_in::date(text, settings, now)?),
        TypeKind::Timestamp => Value::Timestamp(datetime_in::timestamp(text, settings, now)?),
        TypeKind::TimestampTz => Value::TimestampTz(datetime_in::timestamptz(text, settings, now)?),
        TypeKind::Time => Value::Time(datetime_in::time(text, settings, now)?),
        TypeKind::TimeTz => Value::TimeTz(datetime_in::timetz(text, settings, now)?),
        TypeKind::Interval => Value::Interval(interval_in::parse(text, ty.typmod, settings)?),
        TypeKind::Uuid => Value::Uuid(uuid::parse(text)?),
        TypeKind::Inet => Value::Inet(network::parse(text, false)?),
        TypeKind::Cidr => Value::Inet(network::parse(text, true)?),
        TypeKind::MacAddr => Value::MacAddr(network::parse_mac(text)?),
        TypeKind::Oid | TypeKind::Xid => Value::Oid(oid::parse(text)?),
        TypeKind::Char => Value::text(string::clip_char(text)),
        kind @ (TypeKind::RegClass
        | TypeKind::RegType
        | TypeKind::RegProc
        | TypeKind::RegProcedure
        | TypeKind::RegOper
        | TypeKind::RegOperator
        | TypeKind::RegCollation
        | TypeKind::RegNamespace
        | TypeKind::RegRole) => return Err(oid::no_names(kind)),
        TypeKind::Json => Value::Json(json::check(text)?.into()),
        TypeKind::Jsonb => Value::Jsonb(json::normal(text)?.into()),
        TypeKind::JsonPath => Value::text(jsonpath::normal(text)?),
        TypeKind::Citext(_) => Value::Citext(text.into()),
        TypeKind::Enum(of) => of.named(text)?.into(),
        TypeKind::Domain(of) => text_in_at(&of.root(), text, settings, now)?,
        TypeKind::Composite(of) => record::parse(text, of, settings, now)?.into(),
        TypeKind::Record => return Err(record::no_input()),
        TypeKind::Array(element) => array_in::parse(text, element.kind(), settings, now)?.into(),
        TypeKind::Void
        | TypeKind::Any
        | TypeKind::AnyArray
        | TypeKind::AnyElement
        | TypeKind::AnyNonArray
        | TypeKind::AnyEnum
        | TypeKind::AnyCompatible
        | TypeKind::AnyCompatibleArray
        | TypeKind::AnyCompatibleNonArray => Value::Null,
    };
    match ty.typmod {
        -1 => Ok(value),
        _ => apply_typmod(value, ty, false),
    }
}

/// Appends the text form of a value that is not NULL (NULL appends nothing).
pub fn text_out(value: &Value, ty: &Type, settings: &Settings, out: &mut Vec<u8>) {
    match value {
        Value::Null => {}
        Value::Bool(b) => out.push(if *b { b't' } else { b'f' }),
        Value::Int2(v) => integer::format(i64::from(*v), out),
        Value::Int4(v) => integer::format(i64::from(*v), out),
        Value::Int8(v) => integer::format(*v, out),
        Value::Float4(v) => float::format4(*v, settings.extra_float_digits, out),
        Value::Float8(v) => float::format8(*v, settings.extra_float_digits, out),
        Value::Numeric(v) => numeric::format(v, out),
        Value::Text(s) => {
            out.extend_from_slice(s.as_bytes());
            if ty.kind == TypeKind::BpChar {
                string::pad(s, ty, out);
            }
        }
        Value::Bytea(bytes) => bytea::format(bytes, settings.bytea_output, out),
        Value::Date(days) => datetime_out::date(*days, settings, out),
        Value::Timestamp(us) => datetime_out::timestamp(*us, settings, out),
        Value::TimestampTz(us) => datetime_out::timestamptz(*us, settings, out),
        Value::Time(us) => time::format(*us, out),
        Value::TimeTz(time) => time::format_tz(time, out),
        Value::Interval(span) => interval::format(span, settings.interval_style, out),
        Value::Uuid(bytes) => uuid::format(bytes, out),
        Value::Inet(inet) => network::format(inet, ty.kind == TypeKind::Cidr, out),
        Value::MacAddr(mac) => network::format_mac(mac, out),
        Value::Oid(oid) => integer::format(i64::from(*oid), out),
        Value::Object(object) => out.extend_from_slice(object.name.as_bytes()),
        Value::Citext(text) | Value::Json(text) | Value::Jsonb(text) => {
            out.extend_from_slice(text.as_bytes());
        }
        Value::Enum(value) => out.extend_from_slice(value.name().as_bytes()),
        Value::Array(array) => array::format(array, ty, settings, out),
        Value::Record(row) => record::format(row, settings, out),
    }
}

/// Appends the text form of a non-NULL value, for a client.
///
/// # Errors
/// 54000 if the text of a row or an array exceeds the maximum size of a value.
#[inline]
pub fn checked_text_out(
    value: &Value,
    ty: &Type,
    settings: &Settings,
    out: &mut Vec<u8>,
) -> Result<(), SqlError> {
    let start = out.len();
    text_out(value, ty, settings, out);
    let is_compound = matches!(value, Value::Array(_) | Value::Record(_));
    match is_compound && enclosed::is_oversized(out.len() - start) {
        true => Err(too_long()),
        false => Ok(()),
    }
}

/// Returns the text form as a string, for a value that a statement creates.
///
/// # Errors
/// 54000 if the text of a row or an array exceeds the maximum size of a value.
pub fn checked_text(value: &Value, ty: &Type, settings: &Settings) -> Result<String, SqlError> {
    let mut out = Vec::new();
    checked_text_out(value, ty, settings, &mut out)?;
    Ok(String::from_utf8(out).unwrap_or_default())
}

/// Returns the text form as a string, for casts to text and messages.
pub fn to_text(value: &Value, ty: &Type, settings: &Settings) -> String {
    let mut out = Vec::new();
    text_out(value, ty, settings, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// Reads a value from its binary form and checks the type's length limit.
pub fn binary_in(ty: &Type, bytes: &[u8]) -> Result<Value, SqlError> {
    let value = match ty.kind {
        TypeKind::Bool => Value::Bool(fixed::<1>(bytes)?[0] != 0),
        TypeKind::Int2 => Value::Int2(i16::from_be_bytes(fixed(bytes)?)),
        TypeKind::Int4 => Value::Int4(i32::from_be_bytes(fixed(bytes)?)),
        TypeKind::Int8 => Value::Int8(i64::from_be_bytes(fixed(bytes)?)),
        TypeKind::Float4 => Value::Float4(f32::from_be_bytes(fixed(bytes)?)),
        TypeKind::Float8 => Value::Float8(f64::from_be_bytes(fixed(bytes)?)),
        TypeKind::Numeric => Value::Numeric(numeric::from_binary(bytes)?),
        TypeKind::Text | TypeKind::VarChar | TypeKind::RefCursor | TypeKind::Unknown => {
            Value::text(check_utf8(bytes)?)
        }
        TypeKind::BpChar if ty.length().is_none() => {
            Value::text(check_utf8(bytes)?.trim_end_matches(' '))
        }
        TypeKind::BpChar => Value::text(check_utf8(bytes)?),
        TypeKind::Name => Value::text(string::clip_name(check_utf8(bytes)?)),
        TypeKind::Bytea => Value::Bytea(bytes.to_vec()),
        TypeKind::Date => Value::Date(calendar::check_date(i32::from_be_bytes(fixed(bytes)?), "")?),
        TypeKind::Timestamp => Value::Timestamp(calendar::check_timestamp(i64::from_be_bytes(
            fixed(bytes)?,
        ))?),
        TypeKind::TimestampTz => Value::TimestampTz(calendar::check_timestamp(
            i64::from_be_bytes(fixed(bytes)?),
        )?),
        TypeKind::Time => Value::Time(time::check(i64::from_be_bytes(fixed(bytes)?))?),
        TypeKind::TimeTz => Value::TimeTz(time::from_binary(&fixed(bytes)?)?),
        TypeKind::Interval => Value::Interval(interval::from_binary(&fixed(bytes)?)),
        TypeKind::Uuid => Value::Uuid(fixed(bytes)?),
        TypeKind::Inet => Value::Inet(network::from_binary(bytes, false)?),
        TypeKind::Cidr => Value::Inet(network::from_binary(bytes, true)?),
        TypeKind::MacAddr => Value::MacAddr(fixed(bytes)?),
        TypeKind::Oid | TypeKind::Xid => Value::Oid(u32::from_be_bytes(fixed(bytes)?)),
        TypeKind::Char => Value::text(string::clip_char(check_utf8(bytes)?)),
        kind @ (TypeKind::RegClass
        | TypeKind::RegType
        | TypeKind::RegProc
        | TypeKind::RegProcedure
        | TypeKind::RegOper
        | TypeKind::RegOperator
        | TypeKind::RegCollation
        | TypeKind::RegNamespace
        | TypeKind::RegRole) => return Err(oid::no_names(kind)),
        TypeKind::JsonPath => match bytes.split_first() {
            Some((1, text)) => Value::text(jsonpath::normal(check_utf8(text)?)?),
            _ => return Err(invalid_binary()),
        },
        TypeKind::Json => Value::Json(json::check(check_utf8(bytes)?)?.into()),
        TypeKind::Jsonb => Value::Jsonb(json::from_binary(bytes)?.into()),
        TypeKind::Citext(_) => Value::Citext(check_utf8(bytes)?.into()),
        TypeKind::Enum(of) => of.named(check_utf8(bytes)?)?.into(),
        TypeKind::Domain(of) => binary_in(&of.root(), bytes)?,
        TypeKind::Composite(of) => record::from_binary(bytes, of)?.into(),
        TypeKind::Record => return Err(record::no_input()),
        TypeKind::Array(element) => array::from_binary(bytes, element.kind())?.into(),
        TypeKind::Void
        | TypeKind::Any
        | TypeKind::AnyArray
        | TypeKind::AnyElement
        | TypeKind::AnyNonArray
        | TypeKind::AnyEnum
        | TypeKind::AnyCompatible
        | TypeKind::AnyCompatibleArray
        | TypeKind::AnyCompatibleNonArray => Value::Null,
    };
    match ty.typmod {
        -1 => Ok(value),
        _ => apply_typmod(value, ty, false),
    }
}

/// Appends the binary form of a value that is not NULL (NULL appends nothing).
pub fn binary_out(value: &Value, ty: &Type, out: &mut Vec<u8>) {
    match value {
        Value::Null => {}
        Value::Bool(b) => out.push(u8::from(*b)),
        Value::Int2(v) => out.extend_from_slice(&v.to_be_bytes()),
        Value::Int4(v) => out.extend_from_slice(&v.to_be_bytes()),
        Value::Int8(v) => out.extend_from_slice(&v.to_be_bytes()),
        Value::Float4(v) => out.extend_from_slice(&v.to_be_bytes()),
        Value::Float8(v) => out.extend_from_slice(&v.to_be_bytes()),
        Value::Numeric(v) => numeric::to_binary(v, out),
        Value::Text(s) => {
            out.extend_from_slice(s.as_bytes());
            if ty.kind == TypeKind::BpChar {
                string::pad(s, ty, out);
            }
        }
        Value::Bytea(bytes) => out.extend_from_slice(bytes),
        Value::Date(days) => out.extend_from_slice(&days.to_be_bytes()),
        Value::Timestamp(us) | Value::TimestampTz(us) => out.extend_from_slice(&us.to_be_bytes()),
        Value::Time(us) => out.extend_from_slice(&us.to_be_bytes()),
        Value::TimeTz(time) => time::to_binary(time, out),
        Value::Interval(span) => interval::to_binary(span, out),
        Value::Uuid(bytes) => out.extend_from_slice(bytes),
        Value::Inet(inet) => network::to_binary(inet, ty.kind == TypeKind::Cidr, out),
        Value::MacAddr(mac) => out.extend_from_slice(mac),
        Value::Oid(oid) => out.extend_from_slice(&oid.to_be_bytes()),
        Value::Object(object) => out.extend_from_slice(&object.oid.to_be_bytes()),
        Value::Citext(text) | Value::Json(text) => out.extend_from_slice(text.as_bytes()),
        Value::Jsonb(text) => json::to_binary(text, out),
        Value::Enum(value) => out.extend_from_slice(value.name().as_bytes()),
        Value::Array(array) => array::to_binary(array, ty, out),
        Value::Record(row) => record::to_binary(row, out),
    }
}

fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N], SqlError> {
    bytes.try_into().map_err(|_| {
        if bytes.len() < N {
            SqlError::new(
                SqlState::PROTOCOL_VIOLATION,
                "insufficient data left in message",
            )
        } else {
            SqlError::new(
                SqlState::INVALID_BINARY_REPRESENTATION,
                "incorrect binary data format",
            )
        }
    })
}

/// Returns error 22P03 for an invalid binary form.
#[cold]
fn invalid_binary() -> SqlError {
    SqlError::new(
        SqlState::INVALID_BINARY_REPRESENTATION,
        "incorrect binary data format",
    )
}

/// Returns error 22007 for a date, time or interval.
#[cold]
fn invalid_datetime(type_name: &str, text: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_DATETIME_FORMAT,
        format!("invalid input syntax for type {type_name}: \"{text}\""),
    )
}

/// Returns error 22P02 with the message of all input functions.
#[cold]
fn invalid_input(type_name: &str, text: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for type {type_name}: \"{text}\""),
    )
}
