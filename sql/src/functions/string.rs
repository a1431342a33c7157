//! Functions on text and bytea. Positions and lengths count characters.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use compact_str::CompactString;

use super::library::{pure, stable_variadic};
use super::{ScalarFunction, mismatch};
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};
use crate::types::TypeKind::{BpChar, Bytea, Int4, Int8, Text, Unknown};
use crate::value::Value;

/// The maximum length of a text that a function creates, in bytes.
const TEXT_BYTES_MAX: usize = 256 << 20;

type Outcome = Result<Value, SqlError>;

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[ScalarFunction] = &[
    pure("length", &[Text], Int4, |a, _| Ok(int(text(a, 0)?.chars().count()))),
    pure("length", &[BpChar], Int4, |a, _| Ok(int(text(a, 0)?.chars().count()))),
    pure("length", &[Bytea], Int4, |a, _| Ok(int(bytes(a, 0)?.len()))),
    pure("char_length", &[Text], Int4, |a, _| Ok(int(text(a, 0)?.chars().count()))),
    pure("character_length", &[Text], Int4, |a, _| Ok(int(text(a, 0)?.chars().count()))),
    pure("octet_length", &[Text], Int4, |a, _| Ok(int(text(a, 0)?.len()))),
    pure("octet_length", &[Bytea], Int4, |a, _| Ok(int(bytes(a, 0)?.len()))),
    pure("bit_length", &[Text], Int4, |a, _| Ok(int(text(a, 0)?.len() * 8))),
    pure("bit_length", &[Bytea], Int4, |a, _| Ok(int(bytes(a, 0)?.len() * 8))),
    pure("lower", &[Text], Text, |a, _| Ok(Value::Text(text(a, 0)?.to_lowercase().into()))),
    pure("upper", &[Text], Text, |a, _| Ok(Value::Text(text(a, 0)?.to_uppercase().into()))),
    pure("initcap", &[Text], Text, initcap),
    pure("substr", &[Text, Int4], Text, substring),
    pure("substr", &[Text, Int4, Int4], Text, substring),
    pure("substring", &[Text, Int4], Text, substring),
    pure("substring", &[Text, Int4, Int4], Text, substring),
    pure("substr", &[Bytea, Int4], Bytea, byte_substring),
    pure("substr", &[Bytea, Int4, Int4], Bytea, byte_substring),
    pure("substring", &[Bytea, Int4], Bytea, byte_substring),
    pure("substring", &[Bytea, Int4, Int4], Bytea, byte_substring),
    pure("btrim", &[Text], Text, |a, _| Ok(Value::text(text(a, 0)?.trim_matches(' ')))),
    pure("ltrim", &[Text], Text, |a, _| Ok(Value::text(text(a, 0)?.trim_start_matches(' ')))),
    pure("rtrim", &[Text], Text, |a, _| Ok(Value::text(text(a, 0)?.trim_end_matches(' ')))),
    pure("btrim", &[Text, Text], Text, |a, _| {
        let set = text(a, 1)?;
        Ok(Value::text(text(a, 0)?.trim_matches(|c| set.contains(c))))
    }),
    pure("ltrim", &[Text, Text], Text, |a, _| {
        let set = text(a, 1)?;
        Ok(Value::text(text(a, 0)?.trim_start_matches(|c| set.contains(c))))
    }),
    pure("rtrim", &[Text, Text], Text, |a, _| {
        let set = text(a, 1)?;
        Ok(Value::text(text(a, 0)?.trim_end_matches(|c| set.contains(c))))
    }),
    pure("btrim", &[Bytea, Bytea], Bytea, |a, _| byte_trim(a, true, true)),
    pure("ltrim", &[Bytea, Bytea], Bytea, |a, _| byte_trim(a, true, false)),
    pure("rtrim", &[Bytea, Bytea], Bytea, |a, _| byte_trim(a, false, true)),
    pure("lpad", &[Text, Int4], Text, |a, _| pad(a, true)),
    pure("lpad", &[Text, Int4, Text], Text, |a, _| pad(a, true)),
    pure("rpad", &[Text, Int4], Text, |a, _| pad(a, false)),
    pure("rpad", &[Text, Int4, Text], Text, |a, _| pad(a, false)),
    pure("strpos", &[Text, Text], Int4, |a, _| strpos(text(a, 0)?, text(a, 1)?)),
    pure("position", &[Text, Text], Int4, |a, _| strpos(text(a, 0)?, text(a, 1)?)),
    pure("replace", &[Text, Text, Text], Text, replace),
    pure("translate", &[Text, Text, Text], Text, translate),
    pure("left", &[Text, Int4], Text, left),
    pure("right", &[Text, Int4], Text, right),
    pure("repeat", &[Text, Int4], Text, repeat),
    pure("reverse", &[Text], Text, |a, _| Ok(Value::Text(text(a, 0)?.chars().rev().collect()))),
    pure("split_part", &[Text, Text, Int4], Text, split_part),
    pure("starts_with", &[Text, Text], crate::types::TypeKind::Bool, |a, _| {
        Ok(Value::Bool(text(a, 0)?.starts_with(text(a, 1)?)))
    }),
    pure("chr", &[Int4], Text, chr),
    pure("ascii", &[Text], Int4, |a, _| {
        Ok(Value::Int4(text(a, 0)?.chars().next().map_or(0, |c| c as i32)))
    }),
    pure("to_hex", &[Int4], Text, |a, _| match a {
        [Value::Int4(v)] => Ok(Value::Text(format!("{v:x}").into())),
        _ => Err(mismatch("to_hex")),
    }),
    pure("to_hex", &[Int8], Text, |a, _| match a {
        [Value::Int8(v)] => Ok(Value::Text(format!("{v:x}").into())),
        _ => Err(mismatch("to_hex")),
    }),
    pure("md5", &[Text], Text, |a, _| Ok(hex(&super::md5::digest(text(a, 0)?.as_bytes())))),
    pure("md5", &[Bytea], Text, |a, _| Ok(hex(&super::md5::digest(bytes(a, 0)?)))),
    pure("quote_ident", &[Text], Text, |a, _| Ok(Value::Text(quote_ident(text(a, 0)?).into()))),
    pure("quote_literal", &[Text], Text, |a, _| {
        Ok(Value::Text(quote_literal(text(a, 0)?).into()))
    }),
    pure("textcat", &[Text, Text], Text, concat_two),
    pure("byteacat", &[Bytea, Bytea], Bytea, |a, _| {
        Ok(Value::Bytea([bytes(a, 0)?, bytes(a, 1)?].concat()))
    }),
    pure("encode", &[Bytea, Text], Text, encode),
    pure("decode", &[Text, Text], Bytea, decode),
    stable_variadic("concat", &[Unknown], Text, |a, _| joined(a, "")),
    stable_variadic("concat_ws", &[Text, Unknown], Text, |a, _| joined_with(a)),
];

fn text(args: &[Value], i: usize) -> Result<&str, SqlError> {
    args.get(i)
        .and_then(Value::as_text)
        .ok_or_else(|| mismatch("a text function"))
}

fn bytes(args: &[Value], i: usize) -> Result<&[u8], SqlError> {
    match args.get(i) {
        Some(Value::Bytea(bytes)) => Ok(bytes),
        _ => Err(mismatch("a bytea function")),
    }
}

fn number(args: &[Value], i: usize) -> Result<i64, SqlError> {
    args.get(i)
        .and_then(Value::as_int)
        .ok_or_else(|| mismatch("a text function"))
}

fn int(count: usize) -> Value {
    Value::Int4(i32::try_from(count).unwrap_or(i32::MAX))
}

fn hex(bytes: &[u8]) -> Value {
    Value::Text(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

#[cold]
fn too_long() -> SqlError {
    SqlError::new(
        SqlState::PROGRAM_LIMIT_EXCEEDED,
        "requested length too large",
    )
}

fn concat_two(args: &[Value], _: &EvalContext) -> Outcome {
    let (a, b) = (text(args, 0)?, text(args, 1)?);
    if a.len() + b.len() > TEXT_BYTES_MAX {
        return Err(too_long());
    }
    let mut out = CompactString::with_capacity(a.len() + b.len());
    out.push_str(a);
    out.push_str(b);
    Ok(Value::Text(out))
}

/// Joins the texts after the first argument, with the first as the separator.
pub(super) fn joined_with(args: &[Value]) -> Outcome {
    match args {
        [Value::Text(separator), rest @ ..] => joined(rest, separator),
        _ => Ok(Value::Null),
    }
}

pub(super) fn joined(parts: &[Value], separator: &str) -> Outcome {
    let mut out = CompactString::default();
    let mut first = true;
    for part in parts.iter().filter_map(Value::as_text) {
        if out.len() + separator.len() + part.len() > TEXT_BYTES_MAX {
            return Err(too_long());
        }
        if !first {
            out.push_str(separator);
        }
        first = false;
        out.push_str(part);
    }
    Ok(Value::Text(out))
}

/// Returns the positions, from 0, that `substring(… from start for length)` covers.
fn window(args: &[Value]) -> Result<(usize, usize), SqlError> {
    let start = number(args, 1)? - 1;
    let end = match args.get(2) {
        None => i64::MAX,
        Some(_) => {
            let length = number(args, 2)?;
            if length < 0 {
                return Err(SqlError::new(
                    SqlState::SUBSTRING_ERROR,
                    "negative substring length not allowed",
                ));
            }
            start + length
        }
    };
    let at = |i: i64| usize::try_from(i.max(0)).unwrap_or(usize::MAX);
    Ok((at(start), at(end)))
}

fn substring(args: &[Value], _: &EvalContext) -> Outcome {
    let (start, end) = window(args)?;
    let text = text(args, 0)?;
    if text.is_ascii() {
        let end = end.min(text.len());
        return Ok(Value::text(text.get(start..end).unwrap_or("")));
    }
    let picked = text.chars().skip(start).take(end.saturating_sub(start));
    Ok(Value::Text(picked.collect()))
}

fn byte_substring(args: &[Value], _: &EvalContext) -> Outcome {
    let (start, end) = window(args)?;
    let bytes = bytes(args, 0)?;
    let end = end.min(bytes.len());
    Ok(Value::Bytea(
        bytes.get(start..end).unwrap_or_default().to_vec(),
    ))
}

fn initcap(args: &[Value], _: &EvalContext) -> Outcome {
    let mut out = CompactString::default();
    let mut inside = false;
    for c in text(args, 0)?.chars() {
        if inside {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
        inside = c.is_alphanumeric();
    }
    Ok(Value::Text(out))
}

fn pad(args: &[Value], on_left: bool) -> Outcome {
    let source = text(args, 0)?;
    let wanted = usize::try_from(number(args, 1)?).unwrap_or(0);
    let fill = match args.get(2) {
        None => " ",
        Some(_) => text(args, 2)?,
    };
    if wanted > TEXT_BYTES_MAX / 4 {
        return Err(too_long());
    }
    let have = source.chars().count();
    if have >= wanted {
        return Ok(Value::Text(source.chars().take(wanted).collect()));
    }
    let filling: String = fill.chars().cycle().take(wanted - have).collect();
    Ok(Value::Text(if on_left {
        (filling + source).into()
    } else {
        (source.to_owned() + &filling).into()
    }))
}

fn strpos(text: &str, wanted: &str) -> Outcome {
    Ok(match text.find(wanted) {
        Some(at) => int(text[..at].chars().count() + 1),
        None => Value::Int4(0),
    })
}

fn replace(args: &[Value], _: &EvalContext) -> Outcome {
    let (source, from, to) = (text(args, 0)?, text(args, 1)?, text(args, 2)?);
    if from.is_empty() {
        return Ok(Value::text(source));
    }
    let grown = source.matches(from).count().saturating_mul(to.len());
    if grown.saturating_add(source.len()) > TEXT_BYTES_MAX {
        return Err(too_long());
    }
    Ok(Value::Text(source.replace(from, to).into()))
}

fn translate(args: &[Value], _: &EvalContext) -> Outcome {
    let from: Vec<char> = text(args, 1)?.chars().collect();
    let to: Vec<char> = text(args, 2)?.chars().collect();
    let translated =
        text(args, 0)?
            .chars()
            .filter_map(|c| match from.iter().position(|f| *f == c) {
                Some(at) => to.get(at).copied(),
                None => Some(c),
            });
    Ok(Value::Text(translated.collect()))
}

fn left(args: &[Value], _: &EvalContext) -> Outcome {
    let (source, n) = (text(args, 0)?, number(args, 1)?);
    let kept = if n >= 0 {
        usize::try_from(n).unwrap_or(usize::MAX)
    } else {
        let drop = usize::try_from(-n).unwrap_or(usize::MAX);
        source.chars().count().saturating_sub(drop)
    };
    Ok(Value::Text(source.chars().take(kept).collect()))
}

fn right(args: &[Value], _: &EvalContext) -> Outcome {
    let (source, n) = (text(args, 0)?, number(args, 1)?);
    let skipped = if n >= 0 {
        let kept = usize::try_from(n).unwrap_or(usize::MAX);
        source.chars().count().saturating_sub(kept)
    } else {
        usize::try_from(-n).unwrap_or(usize::MAX)
    };
    Ok(Value::Text(source.chars().skip(skipped).collect()))
}

fn repeat(args: &[Value], _: &EvalContext) -> Outcome {
    let source = text(args, 0)?;
    let count = usize::try_from(number(args, 1)?).unwrap_or(0);
    if source.len().saturating_mul(count) > TEXT_BYTES_MAX {
        return Err(too_long());
    }
    Ok(Value::Text(source.repeat(count).into()))
}

fn split_part(args: &[Value], _: &EvalContext) -> Outcome {
    let (source, separator, n) = (text(args, 0)?, text(args, 1)?, number(args, 2)?);
    if n == 0 {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "field position must not be zero",
        ));
    }
    if separator.is_empty() {
        return Ok(Value::text(if n == 1 || n == -1 { source } else { "" }));
    }
    let index = |n: i64| usize::try_from(n - 1).unwrap_or(usize::MAX);
    let part = if n > 0 {
        source.split(separator).nth(index(n))
    } else {
        source.rsplit(separator).nth(index(-n))
    };
    Ok(Value::text(part.unwrap_or("")))
}

fn chr(args: &[Value], _: &EvalContext) -> Outcome {
    let code = number(args, 0)?;
    let refused = |message: String| SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message);
    if code == 0 {
        return Err(refused("null character not permitted".to_owned()));
    }
    if code < 0 {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "character number must be positive",
        ));
    }
    match u32::try_from(code).ok().and_then(char::from_u32) {
        Some(c) => Ok(Value::Text(CompactString::from_iter([c]))),
        None => {
            let is_surrogate = (0xd800..0xe000).contains(&code);
            let fault = if is_surrogate {
                "not valid"
            } else {
                "too large"
            };
            Err(refused(format!(
                "requested character {fault} for encoding: {code}"
            )))
        }
    }
}

/// Quotes a text as a literal; a text with backslashes becomes an `E'…'` literal.
pub fn quote_literal(text: &str) -> String {
    let doubled = text.replace('\'', "''");
    match doubled.contains('\\') {
        true => format!("E'{}'", doubled.replace('\\', "\\\\")),
        false => format!("'{doubled}'"),
    }
}

/// Quotes an identifier if it needs quotes.
pub fn quote_ident(name: &str) -> String {
    let plain = name
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty();
    if plain && !super::catalog_rows::is_quoted(name) {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

fn byte_trim(args: &[Value], left: bool, right: bool) -> Outcome {
    let [Value::Bytea(bytes), Value::Bytea(set)] = args else {
        return Err(mismatch("btrim"));
    };
    let stays = |byte: &u8| !set.contains(byte);
    let end = bytes.len();
    let from = if left {
        bytes.iter().position(stays).unwrap_or(end)
    } else {
        0
    };
    let upto = match right {
        true => bytes.iter().rposition(stays).map_or(from, |at| at + 1),
        false => end,
    };
    Ok(Value::Bytea(bytes[from..upto].to_vec()))
}

fn encode(args: &[Value], cx: &EvalContext) -> Outcome {
    use crate::settings::ByteaOutput;
    use crate::types::{Type, to_text};
    let Some(Value::Bytea(bytes)) = args.first() else {
        return Err(mismatch("encode"));
    };
    let name = text(args, 1)?;
    match name.to_ascii_lowercase().as_str() {
        "hex" => {
            let mut settings = crate::settings::Settings::clone(&cx.settings);
            settings.bytea_output = ByteaOutput::Hex;
            let hex = to_text(&args[0], &Type::BYTEA, &settings);
            Ok(Value::text(&hex[2..]))
        }
        // This escapes fewer bytes than the output function of bytea.
        "escape" => {
            let mut escaped = String::with_capacity(bytes.len());
            for byte in bytes {
                match byte {
                    0 | 0x80.. => escaped += &format!("\\{byte:03o}"),
                    b'\\' => escaped += "\\\\",
                    _ => escaped.push(char::from(*byte)),
                }
            }
            Ok(Value::text(escaped))
        }
        "base64" => {
            const LINE: usize = 76;
            let whole = STANDARD.encode(bytes);
            let lines: Vec<&str> = (0..whole.len())
                .step_by(LINE)
                .map(|at| &whole[at..whole.len().min(at + LINE)])
                .collect();
            Ok(Value::text(lines.join("\n")))
        }
        _ => Err(unknown_encoding(name)),
    }
}

fn decode(args: &[Value], cx: &EvalContext) -> Outcome {
    use crate::types::{Type, text_in};
    let source = text(args, 0)?;
    let name = text(args, 1)?;
    match name.to_ascii_lowercase().as_str() {
        "hex" => text_in(&Type::BYTEA, &format!("\\x{source}"), &cx.settings),
        "escape" if !source.starts_with("\\x") => text_in(&Type::BYTEA, source, &cx.settings),
        "base64" => {
            let packed: String = source
                .chars()
                .filter(|c| !matches!(c, ' ' | '\t' | '\n' | '\r'))
                .collect();
            STANDARD.decode(packed).map(Value::Bytea).map_err(|_| {
                SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    "invalid base64 end sequence",
                )
                .hint("Input data is missing padding, is truncated, or is otherwise corrupted.")
            })
        }
        _ => Err(unknown_encoding(name)),
    }
}

fn unknown_encoding(name: &str) -> SqlError {
    match name.to_ascii_lowercase().as_str() {
        "escape" => SqlError::unsupported(format!("encoding \"{name}\"")),
        _ => SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("unrecognized encoding: \"{name}\""),
        ),
    }
}
