//! More functions on text and bytea: `format`, `overlay`, quoting, digests, single bytes and bits.

use std::iter::Peekable;
use std::str::Chars;

use sha2::Digest;

use super::library::{pure, stable, stable_variadic};
use super::{ScalarFunction, mismatch};
use crate::encoding::Encoding;
use crate::error::{SqlError, SqlState};
use crate::types::TypeKind::{Bytea, Int4, Int8, Text};
use crate::types::{self, Type, to_text};
use crate::value::Value;

type Outcome = Result<Value, SqlError>;

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[ScalarFunction] = &[
    pure("overlay", &[Text, Text, Int4], Text, |a, _| overlay(a)),
    pure("overlay", &[Text, Text, Int4, Int4], Text, |a, _| overlay(a)),
    pure("overlay", &[Bytea, Bytea, Int4], Bytea, |a, _| byte_overlay(a)),
    pure("overlay", &[Bytea, Bytea, Int4, Int4], Bytea, |a, _| byte_overlay(a)),
    stable_variadic("format", &[Text], Text, |a, cx| formatted(a, &cx.settings)),
    ScalarFunction { strict: false, ..pure("quote_nullable", &[Text], Text, |a, _| match a {
        [Value::Text(text)] => Ok(Value::text(super::string::quote_literal(text))),
        _ => Ok(Value::text("NULL")),
    }) },
    pure("sha224", &[Bytea], Bytea, |a, _| match a {
        [Value::Bytea(bytes)] => Ok(Value::Bytea(sha2::Sha224::digest(bytes).to_vec())),
        _ => Err(mismatch("sha224")),
    }),
    pure("sha256", &[Bytea], Bytea, |a, _| digest(a, &ring::digest::SHA256)),
    pure("sha384", &[Bytea], Bytea, |a, _| digest(a, &ring::digest::SHA384)),
    pure("sha512", &[Bytea], Bytea, |a, _| digest(a, &ring::digest::SHA512)),
    pure("get_byte", &[Bytea, Int4], Int4, |a, _| match a {
        [Value::Bytea(bytes), Value::Int4(at)] =>
            Ok(Value::Int4(i32::from(bytes[index(i64::from(*at), bytes.len())?]))),
        _ => Err(mismatch("get_byte")),
    }),
    pure("set_byte", &[Bytea, Int4, Int4], Bytea, |a, _| match a {
        [Value::Bytea(bytes), Value::Int4(at), Value::Int4(new)] => {
            let mut bytes = bytes.clone();
            let at = index(i64::from(*at), bytes.len())?;
            bytes[at] = *new as u8;
            Ok(Value::Bytea(bytes))
        }
        _ => Err(mismatch("set_byte")),
    }),
    pure("get_bit", &[Bytea, Int8], Int4, |a, _| match a {
        [Value::Bytea(bytes), Value::Int8(at)] => {
            let at = index(*at, bytes.len() * 8)?;
            Ok(Value::Int4(i32::from(bytes[at / 8] >> (at % 8) & 1)))
        }
        _ => Err(mismatch("get_bit")),
    }),
    pure("strpos", &[Bytea, Bytea], Int4, |a, _| match a {
        [Value::Bytea(bytes), Value::Bytea(part)] => Ok(Value::Int4(position(bytes, part))),
        _ => Err(mismatch("position")),
    }),
    pure("position", &[Bytea, Bytea], Int4, |a, _| match a {
        [Value::Bytea(bytes), Value::Bytea(part)] => Ok(Value::Int4(position(bytes, part))),
        _ => Err(mismatch("position")),
    }),
    stable("convert_from", &[Bytea, Text], Text, |a, _| match a {
        [Value::Bytea(bytes), Value::Text(name)] => {
            let from = encoding("source", name)?;
            Ok(Value::text(from.decode(bytes)?))
        }
        _ => Err(mismatch("convert_from")),
    }),
    stable("convert_to", &[Text, Text], Bytea, |a, _| match a {
        [Value::Text(text), Value::Text(name)] => {
            let mut bytes = Vec::with_capacity(text.len());
            encoding("destination", name)?.encode(text, &mut bytes)?;
            Ok(Value::Bytea(bytes))
        }
        _ => Err(mismatch("convert_to")),
    }),
];

/// Returns the encoding with a name. `role` describes the encoding in the error.
///
/// # Errors
/// 22023 for an unknown name, 0A000 for an encoding that is not converted.
pub(super) fn encoding(role: &str, name: &str) -> Result<Encoding, SqlError> {
    Encoding::named(name)?.ok_or_else(|| {
        SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("invalid {role} encoding name \"{name}\""),
        )
    })
}

fn digest(args: &[Value], algorithm: &'static ring::digest::Algorithm) -> Outcome {
    match args {
        [Value::Bytea(bytes)] => {
            let digest = ring::digest::digest(algorithm, bytes);
            Ok(Value::Bytea(digest.as_ref().to_vec()))
        }
        _ => Err(mismatch("a digest")),
    }
}

pub(super) fn index(at: i64, len: usize) -> Result<usize, SqlError> {
    usize::try_from(at)
        .ok()
        .filter(|at| *at < len)
        .ok_or_else(|| {
            SqlError::new(
                SqlState::new(b"2202E"),
                format!("index {at} out of valid range, 0..{}", len as i64 - 1),
            )
        })
}

fn position(bytes: &[u8], part: &[u8]) -> i32 {
    if part.is_empty() {
        return 1;
    }
    let found = bytes.windows(part.len()).position(|window| window == part);
    found.map_or(0, |at| at as i32 + 1)
}

/// Replaces characters of a text from a position on. By default it replaces as many as the new text
/// has.
fn overlay(args: &[Value]) -> Outcome {
    let [
        Value::Text(text),
        Value::Text(new),
        Value::Int4(start),
        rest @ ..,
    ] = args
    else {
        return Err(mismatch("overlay"));
    };
    let (before, behind) = overlaid(*start, rest, || new.chars().count())?;
    let mut out: String = text.chars().take(before).collect();
    out.push_str(new);
    out.extend(text.chars().skip(behind));
    Ok(Value::text(out))
}

/// Returns the length before the part that is replaced from `start` on, and the end of that part.
/// `new` returns the length of the part if `count` is not given.
fn overlaid(
    start: i32,
    count: &[Value],
    new: impl FnOnce() -> usize,
) -> Result<(usize, usize), SqlError> {
    let Ok(before) = usize::try_from(i64::from(start) - 1) else {
        let what = "negative substring length not allowed";
        return Err(SqlError::new(SqlState::SUBSTRING_ERROR, what));
    };
    let count = match count {
        [Value::Int4(count)] => *count,
        _ => i32::try_from(new()).unwrap_or(i32::MAX),
    };
    let end = start
        .checked_add(count)
        .ok_or_else(|| super::out_of_range("integer"))?;
    Ok((before, usize::try_from(i64::from(end) - 1).unwrap_or(0)))
}

fn byte_overlay(args: &[Value]) -> Outcome {
    let [
        Value::Bytea(bytes),
        Value::Bytea(new),
        Value::Int4(start),
        rest @ ..,
    ] = args
    else {
        return Err(mismatch("overlay"));
    };
    let (before, behind) = overlaid(*start, rest, || new.len())?;
    let mut out = bytes[..before.min(bytes.len())].to_vec();
    out.extend_from_slice(new);
    out.extend_from_slice(&bytes[behind.min(bytes.len())..]);
    Ok(Value::Bytea(out))
}

/// Evaluates `format('%s %I %L %1$s %-10s %%', …)`.
pub(super) fn formatted(args: &[Value], settings: &crate::settings::Settings) -> Outcome {
    let Some((Value::Text(format), values)) = args.split_first() else {
        return Ok(Value::Null);
    };
    let mut out = String::new();
    // The number of the last argument that was used.
    let mut last = 0;
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' || chars.next_if_eq(&'%').is_some() {
            out.push(c);
            continue;
        }
        let specifier = specifier(&mut chars)?;
        let mut argument = |nth: Option<i32>| {
            last = nth.map_or(last + 1, |nth| nth as usize);
            values.get(last - 1).ok_or_else(too_few)
        };
        let width = match specifier.width {
            Width::Fixed(width) => width,
            Width::Argument(nth) => width_of(argument(nth)?)?,
        };
        let value = argument(specifier.place)?;
        let text = (!value.is_null()).then(|| to_text(value, &Type::TEXT, settings));
        let formatted = match (specifier.kind, text) {
            ('s', text) => text.unwrap_or_default(),
            ('I', Some(text)) => super::string::quote_ident(&text),
            ('I', None) => {
                return Err(SqlError::new(
                    SqlState::NULL_VALUE_NOT_ALLOWED,
                    "null values cannot be formatted as an SQL identifier",
                ));
            }
            (_, Some(text)) => super::string::quote_literal(&text),
            (_, None) => "NULL".to_owned(),
        };
        let left = specifier.left || width < 0;
        let short = (width.unsigned_abs() as usize).saturating_sub(formatted.chars().count());
        if short > PADDING_MAX {
            return Err(too_wide());
        }
        let blanks = " ".repeat(short);
        let (before, behind) = if left { ("", &*blanks) } else { (&*blanks, "") };
        out.extend([before, &formatted, behind]);
    }
    Ok(Value::text(out))
}

/// The maximum number of blanks that `format` adds to a value.
const PADDING_MAX: usize = 256 << 20;

/// A specifier of `format`: `%[position$][-][width]kind`.
struct Specifier {
    /// The number of the argument, from 1.
    place: Option<i32>,
    /// Whether blanks follow the value.
    left: bool,
    width: Width,
    kind: char,
}

/// The minimum width of a value.
enum Width {
    Fixed(i32),
    /// The value of an argument, by default of the next one.
    Argument(Option<i32>),
}

/// Reads the rest of a specifier after `%`.
fn specifier(chars: &mut Peekable<Chars<'_>>) -> Result<Specifier, SqlError> {
    let wrong = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let position = |nth: i32| match nth {
        0 => Err(wrong(
            "format specifies argument 0, but arguments are numbered from 1".to_owned(),
        )),
        nth => Ok(nth),
    };
    let mut place = None;
    let mut width = number(chars)?;
    if let Some(nth) = width
        && chars.next_if_eq(&'$').is_some()
    {
        place = Some(position(nth)?);
        width = None;
    }
    let mut left = false;
    while width.is_none() && chars.next_if_eq(&'-').is_some() {
        left = true;
    }
    let width = match width {
        Some(width) => Width::Fixed(width),
        None if chars.next_if_eq(&'*').is_some() => match number(chars)? {
            Some(nth) if chars.next_if_eq(&'$').is_some() => Width::Argument(Some(position(nth)?)),
            Some(_) => {
                return Err(wrong(
                    "width argument position must be ended by \"$\"".to_owned(),
                ));
            }
            None => Width::Argument(None),
        },
        None => Width::Fixed(number(chars)?.unwrap_or(0)),
    };
    let refused = match chars.next() {
        Some(kind @ ('s' | 'I' | 'L')) => {
            return Ok(Specifier {
                place,
                left,
                width,
                kind,
            });
        }
        Some(kind) => format!("unrecognized format() type specifier \"{kind}\""),
        None => "unterminated format() type specifier".to_owned(),
    };
    Err(wrong(refused).hint("For a single \"%\" use \"%%\"."))
}

/// Reads the digits of a specifier, if there are any.
fn number(chars: &mut Peekable<Chars<'_>>) -> Result<Option<i32>, SqlError> {
    let mut digits = String::new();
    while let Some(digit) = chars.next_if(char::is_ascii_digit) {
        digits.push(digit);
    }
    if digits.is_empty() {
        return Ok(None);
    }
    digits.parse().map(Some).map_err(|_| too_wide())
}

/// Returns the width that an argument tells; NULL is no width.
fn width_of(value: &Value) -> Result<i32, SqlError> {
    // The arguments are converted to text before the call.
    let Some(text) = value.as_text() else {
        return Ok(0);
    };
    match types::text_in(&Type::INT4, text, &crate::settings::Settings::default())? {
        Value::Int4(i32::MIN) => Err(too_wide()),
        Value::Int4(width) => Ok(width),
        _ => Err(mismatch("format")),
    }
}

fn too_wide() -> SqlError {
    SqlError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        "number is out of range",
    )
}

fn too_few() -> SqlError {
    SqlError::new(
        SqlState::INVALID_PARAMETER_VALUE,
        "too few arguments for format()",
    )
}
