//! More functions on text and bytea: Unicode escapes, parts of identifiers, single bits.

use super::library::{pure, stable};
use super::string_more::encoding;
use super::{ScalarFunction, mismatch};
use crate::error::{SqlError, SqlState};
use crate::types::TypeKind::{Array as ArrayKind, Bool, Bytea, Int4, Int8, Name, Text};
use crate::types::{Element, TypeKind};
use crate::value::{Array, Value};

type Outcome = Result<Value, SqlError>;

const TEXTS: TypeKind = ArrayKind(Element::TEXT);

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[ScalarFunction] = &[
    pure("unistr", &[Text], Text, |a, _| unescaped(a)),
    pure("parse_ident", &[Text], TEXTS, |a, _| identifiers(a)),
    pure("parse_ident", &[Text, Bool], TEXTS, |a, _| identifiers(a)),
    pure("set_bit", &[Bytea, Int8, Int4], Bytea, |a, _| set_bit(a)),
    pure("bit_count", &[Bytea], Int8, |a, _| match a {
        [Value::Bytea(bytes)] =>
            Ok(Value::Int8(bytes.iter().map(|byte| i64::from(byte.count_ones())).sum())),
        _ => Err(mismatch("bit_count")),
    }),
    stable("convert", &[Bytea, Name, Name], Bytea, |a, _| match a {
        [Value::Bytea(bytes), Value::Text(from), Value::Text(to)] => {
            let from = encoding("source", from)?;
            let to = encoding("destination", to)?;
            let mut converted = Vec::with_capacity(bytes.len());
            to.encode(&from.decode(bytes)?, &mut converted)?;
            Ok(Value::Bytea(converted))
        }
        _ => Err(mismatch("convert")),
    }),
];

fn refused(message: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

/// Evaluates unistr: `\XXXX`, `\+XXXXXX`, `\uXXXX` and `\UXXXXXXXX` are characters, two backslashes
/// are one.
fn unescaped(args: &[Value]) -> Outcome {
    let [Value::Text(text)] = args else {
        return Err(mismatch("unistr"));
    };
    let wrong = || {
        refused("invalid Unicode escape")
            .hint("Unicode escapes must be \\XXXX, \\+XXXXXX, \\uXXXX, or \\UXXXXXXXX.")
    };
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    let mut high: Option<u32> = None;
    while let Some(at) = rest.find('\\') {
        let (before, behind) = (&rest[..at], &rest[at + 1..]);
        if high.is_some() && !before.is_empty() {
            return Err(refused("invalid Unicode surrogate pair"));
        }
        out.push_str(before);
        if let Some(behind) = behind.strip_prefix('\\') {
            if high.is_some() {
                return Err(refused("invalid Unicode surrogate pair"));
            }
            out.push('\\');
            rest = behind;
            continue;
        }
        let (skipped, digits) = match behind.as_bytes().first() {
            Some(b'+') => (1, 6),
            Some(b'u') => (1, 4),
            Some(b'U') => (1, 8),
            _ => (0, 4),
        };
        let hex = behind.get(skipped..skipped + digits).ok_or_else(wrong)?;
        if !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let code = u32::from_str_radix(hex, 16).map_err(|_| wrong())?;
        rest = &behind[skipped + digits..];
        let code = match (high.take(), code) {
            (Some(high), 0xdc00..=0xdfff) => 0x10000 + ((high - 0xd800) << 10) + (code - 0xdc00),
            (Some(_), _) | (None, 0xdc00..=0xdfff) => {
                return Err(refused("invalid Unicode surrogate pair"));
            }
            (None, 0xd800..=0xdbff) => {
                high = Some(code);
                continue;
            }
            (None, code) => code,
        };
        match char::from_u32(code) {
            Some(letter) if letter != '\0' => out.push(letter),
            _ => {
                return Err(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("invalid Unicode code point: {code:04X}"),
                ));
            }
        }
    }
    if high.is_some() {
        return Err(refused("invalid Unicode surrogate pair"));
    }
    out.push_str(rest);
    Ok(Value::text(out))
}

/// Evaluates parse_ident: the parts of a qualified name. Text after the name is an error in strict
/// mode.
fn identifiers(args: &[Value]) -> Outcome {
    let Some(Value::Text(text)) = args.first() else {
        return Err(mismatch("parse_ident"));
    };
    let strict = args.get(1).and_then(Value::as_bool) != Some(false);
    let invalid = |detail: Option<String>| {
        let error = SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("string is not a valid identifier: \"{text}\""),
        );
        match detail {
            Some(detail) => error.detail(detail),
            None => error,
        }
    };
    let mut parts = Vec::new();
    let mut rest = text.trim_start();
    loop {
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut name = String::new();
            let mut at = quoted.char_indices().peekable();
            let end = loop {
                match at.next() {
                    None => {
                        return Err(invalid(Some(
                            "String has unclosed double quotes.".to_owned(),
                        )));
                    }
                    Some((_, '"')) if at.next_if(|(_, c)| *c == '"').is_some() => name.push('"'),
                    Some((end, '"')) => break end,
                    Some((_, c)) => name.push(c),
                }
            };
            if name.is_empty() {
                return Err(invalid(Some(
                    "Quoted identifier must not be empty.".to_owned(),
                )));
            }
            parts.push(Value::text(name));
            rest = &quoted[end + 1..];
        } else {
            let begins = |c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii();
            let goes_on = |c: char| begins(c) || c.is_ascii_digit() || c == '$';
            let end = match rest.chars().next() {
                Some(c) if begins(c) => rest.find(|c| !goes_on(c)).unwrap_or(rest.len()),
                _ if rest.starts_with('.') => {
                    return Err(invalid(Some(
                        "No valid identifier before \".\".".to_owned(),
                    )));
                }
                _ if !parts.is_empty() => {
                    return Err(invalid(Some("No valid identifier after \".\".".to_owned())));
                }
                _ => return Err(invalid(None)),
            };
            parts.push(Value::text(rest[..end].to_ascii_lowercase()));
            rest = &rest[end..];
        }
        rest = rest.trim_start();
        match rest.strip_prefix('.') {
            Some(behind) => rest = behind.trim_start(),
            None if rest.is_empty() || !strict => break,
            None => return Err(invalid(None)),
        }
    }
    Ok(Array::of(parts).into())
}

fn set_bit(args: &[Value]) -> Outcome {
    let [Value::Bytea(bytes), Value::Int8(at), Value::Int4(new)] = args else {
        return Err(mismatch("set_bit"));
    };
    let at = super::string_more::index(*at, bytes.len() * 8)?;
    if *new != 0 && *new != 1 {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "new bit must be 0 or 1",
        ));
    }
    let mut bytes = bytes.clone();
    let mask = 1u8 << (at % 8);
    match new {
        0 => bytes[at / 8] &= !mask,
        _ => bytes[at / 8] |= mask,
    }
    Ok(Value::Bytea(bytes))
}
