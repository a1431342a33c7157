//! Creation of JSON from values: `to_json`, `json_build_…`, `json_object`.

use std::borrow::Cow;

use super::json::{of_text, refused, text_of};
use super::library::{stable, variadic};
use super::long::{VALUE_BYTES_MAX, too_long};
use super::{ScalarFunction, mismatch};
use crate::bound::Volatility;
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};
use crate::settings::{DateStyle, Settings};
use crate::types::TypeKind::{
    self, Any, AnyArray, AnyElement, Array as ArrayKind, Bool, Json, Jsonb, Record,
};
use crate::types::{Element, Type, json, to_text};
use crate::value::{self, Array, Dimension, Value};

type Outcome = Result<Value, SqlError>;

const TEXTS: TypeKind = ArrayKind(Element::TEXT);

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[ScalarFunction] = &[
    stable("to_json", &[AnyElement], Json, |a, cx| single(a, false, cx)),
    stable("to_jsonb", &[AnyElement], Jsonb, |a, cx| single(a, true, cx)),
    stable("array_to_json", &[AnyArray], Json, |a, cx| single(a, false, cx)),
    stable("array_to_json", &[AnyArray, Bool], Json, |a, cx| match a {
        [_, Value::Bool(true)] => Err(SqlError::unsupported("array_to_json with line feeds")),
        _ => single(&a[..1], false, cx),
    }),
    stable("row_to_json", &[Record], Json, row),
    stable("row_to_json", &[Record, Bool], Json, row),
    built("json_build_array", Json, |a, cx| build_array(a, false, cx)),
    built("jsonb_build_array", Jsonb, |a, cx| build_array(a, true, cx)),
    built("json_build_object", Json, |a, cx| build_object(a, false, cx)),
    built("jsonb_build_object", Jsonb, |a, cx| build_object(a, true, cx)),
    stable("json_object", &[TEXTS], Json, |a, _| object(a, false)),
    stable("jsonb_object", &[TEXTS], Jsonb, |a, _| object(a, true)),
    stable("json_object", &[TEXTS, TEXTS], Json, |a, _| object(a, false)),
    stable("jsonb_object", &[TEXTS, TEXTS], Jsonb, |a, _| object(a, true)),
];

const fn built(name: &'static str, result: TypeKind, eval: super::library::Body) -> ScalarFunction {
    ScalarFunction {
        volatility: Volatility::Stable,
        ..variadic(name, &[Any], result, eval)
    }
}

/// Converts a generated text to json or jsonb.
fn made(text: String, binary: bool) -> Outcome {
    if text.len() > VALUE_BYTES_MAX {
        return Err(too_long());
    }
    match binary {
        true => Ok(Value::Jsonb(json::normal(&text)?.into())),
        false => Ok(Value::Json(text.into())),
    }
}

fn single(args: &[Value], binary: bool, cx: &EvalContext) -> Outcome {
    let [value] = args else {
        return Err(mismatch("to_json"));
    };
    let mut out = String::new();
    write(value, cx, &mut out);
    made(out, binary)
}

/// Appends a value as JSON.
fn write(value: &Value, cx: &EvalContext, out: &mut String) {
    if out.len() > VALUE_BYTES_MAX {
        // The caller rejects the oversized text.
        return;
    }
    let plain = |ty: Type| to_text(value, &ty, &cx.settings);
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Int2(_) | Value::Int4(_) | Value::Int8(_) | Value::Numeric(_) => {
            out.push_str(&plain(Type::TEXT));
        }
        Value::Float4(v) if v.is_finite() => out.push_str(&plain(Type::TEXT)),
        Value::Float8(v) if v.is_finite() => out.push_str(&plain(Type::TEXT)),
        Value::Json(text) | Value::Jsonb(text) => out.push_str(text),
        Value::Date(_) => json::quote(&to_text(value, &Type::TEXT, &in_iso(cx)), out),
        Value::Timestamp(_) | Value::TimestampTz(_) => {
            json::quote(&iso(&to_text(value, &Type::TEXT, &in_iso(cx))), out);
        }
        Value::Record(row) => write_row(row, false, cx, out),
        Value::Array(array) => {
            let mut values = array.values.iter();
            match array.dims.is_empty() {
                true => out.push_str("[]"),
                false => level(&array.dims, &mut values, cx, out),
            }
        }
        _ => json::quote(&plain(Type::TEXT), out),
    }
}

/// Returns the settings with the date style ISO.
fn in_iso(cx: &EvalContext) -> Cow<'_, Settings> {
    let settings = &*cx.settings;
    match settings.date_style {
        DateStyle::Iso => Cow::Borrowed(settings),
        _ => {
            let mut settings = settings.clone();
            settings.date_style = DateStyle::Iso;
            Cow::Owned(settings)
        }
    }
}

/// Converts a timestamp to ISO 8601: a T between date and time, and minutes in the offset.
fn iso(text: &str) -> String {
    let Some((date, rest)) = text.split_once(' ') else {
        return text.to_owned();
    };
    let (time, era) = rest.split_once(' ').unwrap_or((rest, ""));
    let mut timestamp = format!("{date}T{time}");
    if let Some(sign) = time.find(['+', '-'])
        && time.len() - sign == 3
    {
        timestamp.push_str(":00");
    }
    if !era.is_empty() {
        timestamp.push(' ');
        timestamp.push_str(era);
    }
    timestamp
}

fn level(
    dims: &[Dimension],
    values: &mut std::slice::Iter<'_, Value>,
    cx: &EvalContext,
    out: &mut String,
) {
    let Some((dim, inner)) = dims.split_first() else {
        if let Some(value) = values.next() {
            write(value, cx, out);
        }
        return;
    };
    out.push('[');
    for i in 0..dim.len {
        if i > 0 {
            out.push(',');
        }
        level(inner, values, cx, out);
    }
    out.push(']');
}

/// Evaluates `row_to_json`.
fn row(args: &[Value], cx: &EvalContext) -> Outcome {
    let [Value::Record(row), pretty @ ..] = args else {
        return Err(mismatch("row_to_json"));
    };
    let mut out = String::new();
    write_row(row, pretty == [Value::Bool(true)], cx, &mut out);
    made(out, false)
}

/// Appends the fields of a row with their names, each on its own line if `pretty`.
fn write_row(row: &value::Record, pretty: bool, cx: &EvalContext, out: &mut String) {
    out.push('{');
    for (i, field) in row.fields.iter().enumerate() {
        if i > 0 {
            out.push_str(if pretty { ",\n " } else { "," });
        }
        json::quote(&field.name, out);
        out.push(':');
        match (row.get(i), field.ty.kind) {
            (value @ Value::Text(_), crate::types::TypeKind::BpChar) => {
                json::quote(&to_text(value, &field.ty, &cx.settings), out);
            }
            (value, _) => write(value, cx, out),
        }
    }
    out.push('}');
}

pub(super) fn build_array(args: &[Value], binary: bool, cx: &EvalContext) -> Outcome {
    let mut out = String::from("[");
    for (i, value) in args.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        write(value, cx, &mut out);
    }
    out.push(']');
    made(out, binary)
}

pub(super) fn build_object(args: &[Value], binary: bool, cx: &EvalContext) -> Outcome {
    if !args.len().is_multiple_of(2) {
        let name = if binary {
            "jsonb_build_object()"
        } else {
            "json_build_object()"
        };
        return Err(
            refused("argument list must have even number of elements").hint(format!(
                "The arguments of {name} must consist of alternating keys and values."
            )),
        );
    }
    let mut out = String::from("{");
    for (i, pair) in args.chunks_exact(2).enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        let key = match &pair[0] {
            Value::Null if binary => {
                return Err(refused(format!(
                    "argument {}: key must not be null",
                    2 * i + 1
                )));
            }
            Value::Null => {
                return Err(refused(format!("argument {} cannot be null", 2 * i + 1))
                    .hint("Object keys should be text."));
            }
            Value::Array(_) | Value::Record(_) | Value::Json(_) | Value::Jsonb(_) => {
                return Err(refused(
                    "key value must be scalar, not array, composite, or json",
                ));
            }
            // The key is the JSON text without quotes.
            Value::Bool(b) => b.to_string(),
            key => to_text(key, &Type::TEXT, &cx.settings),
        };
        json::quote(&key, &mut out);
        out.push_str(" : ");
        write(&pair[1], cx, &mut out);
    }
    out.push('}');
    made(out, binary)
}

/// Creates an object from keys and values in one or two arrays.
fn object(args: &[Value], binary: bool) -> Outcome {
    let wrong = || {
        SqlError::new(
            SqlState::ARRAY_SUBSCRIPT_ERROR,
            "wrong number of array subscripts",
        )
    };
    let pairs: Vec<(&Value, &Value)> = match args {
        [Value::Array(all)] => match all.dims.as_slice() {
            [] => Vec::new(),
            [one] if one.len.rem_euclid(2) != 0 => {
                return Err(SqlError::new(
                    SqlState::ARRAY_SUBSCRIPT_ERROR,
                    "array must have even number of elements",
                ));
            }
            [_, two] if two.len != 2 => {
                return Err(SqlError::new(
                    SqlState::ARRAY_SUBSCRIPT_ERROR,
                    "array must have two columns",
                ));
            }
            [_] | [_, _] => all.values.chunks_exact(2).map(|p| (&p[0], &p[1])).collect(),
            _ => return Err(wrong()),
        },
        [Value::Array(keys), Value::Array(values)] => {
            let one = |array: &Array| array.dims.len() <= 1;
            if !one(keys) || !one(values) {
                return Err(wrong());
            }
            if keys.values.len() != values.values.len() {
                return Err(SqlError::new(
                    SqlState::ARRAY_SUBSCRIPT_ERROR,
                    "mismatched array dimensions",
                ));
            }
            keys.values.iter().zip(&values.values).collect()
        }
        _ => return Err(mismatch("json_object")),
    };
    let mut out = String::from("{");
    for (i, (key, value)) in pairs.into_iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        let Value::Text(key) = key else {
            return Err(SqlError::new(
                SqlState::NULL_VALUE_NOT_ALLOWED,
                "null value not allowed for object key",
            ));
        };
        json::quote(key, &mut out);
        out.push_str(" : ");
        match value {
            Value::Text(text) => json::quote(text, &mut out),
            _ => out.push_str("null"),
        }
    }
    out.push('}');
    made(out, binary)
}

/// Converts a document to json, or to jsonb if `binary`.
pub(super) fn converted(value: &Value, binary: bool) -> Outcome {
    let (text, _) = text_of(Some(value))?;
    match binary {
        true => Ok(Value::Jsonb(json::normal(text)?.into())),
        false => Ok(of_text(text, false)),
    }
}
