//! Functions that search arrays, treat them as sets, or convert them from and to text.

use super::array::{array, equal, seeing_nulls};
use super::library::{pure, stable};
use super::{LikeEscape, ScalarFunction, like};
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};
use crate::types::TypeKind::{AnyArray, AnyElement, Array as ArrayKind, Bool, Int4, Text};
use crate::types::{Element, Type, text_out};
use crate::value::{Array, Value};

type Outcome = Result<Value, SqlError>;

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[ScalarFunction] = &[
    pure("@>", &[AnyArray, AnyArray], Bool,
        |a, _| Ok(Value::Bool(contains(array(a, 0)?, array(a, 1)?)))),
    pure("<@", &[AnyArray, AnyArray], Bool,
        |a, _| Ok(Value::Bool(contains(array(a, 1)?, array(a, 0)?)))),
    pure("&&", &[AnyArray, AnyArray], Bool, |a, _| {
        let (a, b) = (array(a, 0)?, array(a, 1)?);
        Ok(Value::Bool(a.values.iter().any(|v| !v.is_null() && has(b, v))))
    }),
    seeing_nulls("array_position", &[AnyArray, AnyElement], Int4, position),
    seeing_nulls("array_position", &[AnyArray, AnyElement, Int4], Int4, position),
    seeing_nulls("array_positions", &[AnyArray, AnyElement], ArrayKind(Element::INT4),
        |a, _| match a {
            [Value::Array(array), value] => {
                let lower = one_dimension(array)?;
                let places = array.values.iter().enumerate().filter(|(_, v)| equal(v, value));
                Ok(Array::of(places.map(|(i, _)| Value::Int4(lower + i as i32)).collect()).into())
            }
            _ => Ok(Value::Null),
        }),
    seeing_nulls("array_remove", &[AnyArray, AnyElement], AnyArray, |a, _| match a {
        [Value::Array(array), value] => {
            if array.dims.len() > 1 {
                return Err(SqlError::unsupported(
                    "removing elements from multidimensional arrays",
                ));
            }
            let kept = array.values.iter().filter(|v| !equal(v, value));
            let kept: Vec<Value> = kept.cloned().collect();
            let mut kept = Array::of(kept);
            if let (Some(dim), Some(was)) = (kept.dims.first_mut(), array.dims.first()) {
                dim.lower = was.lower;
            }
            Ok(kept.into())
        }
        _ => Ok(Value::Null),
    }),
    seeing_nulls("array_replace", &[AnyArray, AnyElement, AnyElement], AnyArray, |a, _| match a {
        [Value::Array(array), old, new] => {
            let mut array = Array::clone(array);
            for value in array.values.iter_mut().filter(|v| equal(v, old)) {
                *value = new.clone();
            }
            Ok(array.into())
        }
        _ => Ok(Value::Null),
    }),
    stable("array_to_string", &[AnyArray, Text], Text, to_string),
    ScalarFunction { strict: false,
        ..stable("array_to_string", &[AnyArray, Text, Text], Text, to_string) },
    seeing_nulls("string_to_array", &[Text, Text], ArrayKind(Element::TEXT), |a, _| pieces(a)),
    seeing_nulls("string_to_array", &[Text, Text, Text], ArrayKind(Element::TEXT),
        |a, _| pieces(a)),
    seeing_nulls("~~ ANY", &[Text, ArrayKind(Element::TEXT)], Bool,
        |a, _| like_some(a, false, false)),
    seeing_nulls("~~* ANY", &[Text, ArrayKind(Element::TEXT)], Bool,
        |a, _| like_some(a, true, false)),
    seeing_nulls("!~~ ANY", &[Text, ArrayKind(Element::TEXT)], Bool,
        |a, _| like_some(a, false, true)),
    seeing_nulls("!~~* ANY", &[Text, ArrayKind(Element::TEXT)], Bool,
        |a, _| like_some(a, true, true)),
];

fn has(array: &Array, value: &Value) -> bool {
    array.values.iter().any(|v| equal(v, value))
}

/// Returns whether every element of `part` is in `whole`; NULL is in no array.
fn contains(whole: &Array, part: &Array) -> bool {
    part.values.iter().all(|v| !v.is_null() && has(whole, v))
}

/// Returns the first subscript of an array of one dimension.
fn one_dimension(array: &Array) -> Result<i32, SqlError> {
    match array.dims.as_slice() {
        [] => Ok(1),
        [dim] => Ok(dim.lower),
        _ => Err(SqlError::unsupported(
            "searching for elements in multidimensional arrays",
        )),
    }
}

fn position(args: &[Value], _: &EvalContext) -> Outcome {
    let (array, value, from) = match args {
        [Value::Array(array), value] => (array, value, None),
        [Value::Array(_), _, Value::Null] => {
            return Err(SqlError::new(
                SqlState::NULL_VALUE_NOT_ALLOWED,
                "initial position must not be null",
            ));
        }
        [Value::Array(array), value, Value::Int4(from)] => (array, value, Some(*from)),
        _ => return Ok(Value::Null),
    };
    let lower = one_dimension(array)?;
    let skipped = from.map_or(0, |from| {
        (i64::from(from) - i64::from(lower)).max(0) as usize
    });
    let found = array.values.iter().enumerate().skip(skipped);
    let found = found.into_iter().find(|(_, v)| equal(v, value));
    Ok(found.map_or(Value::Null, |(i, _)| Value::Int4(lower + i as i32)))
}

fn to_string(args: &[Value], cx: &EvalContext) -> Outcome {
    let (array, separator) = match args {
        [Value::Array(array), Value::Text(separator), ..] => (array, separator),
        _ => return Ok(Value::Null),
    };
    let null = args.get(2).and_then(Value::as_text);
    let mut out = Vec::new();
    let mut first = true;
    for value in &array.values {
        if value.is_null() && null.is_none() {
            continue;
        }
        if !std::mem::take(&mut first) {
            out.extend_from_slice(separator.as_bytes());
        }
        match null {
            Some(null) if value.is_null() => out.extend_from_slice(null.as_bytes()),
            _ => text_out(value, &Type::TEXT, &cx.settings, &mut out),
        }
    }
    Ok(Value::text(String::from_utf8(out).unwrap_or_default()))
}

/// Splits a text at a separator; a NULL separator splits it into characters.
pub(super) fn pieces(args: &[Value]) -> Outcome {
    let Some(Value::Text(text)) = args.first() else {
        return Ok(Value::Null);
    };
    let null = args.get(2).and_then(Value::as_text);
    let one = |piece: &str| match null {
        Some(null) if null == piece => Value::Null,
        _ => Value::text(piece),
    };
    let pieces: Vec<Value> = match args.get(1) {
        _ if text.is_empty() => Vec::new(),
        Some(Value::Text(separator)) if separator.is_empty() => vec![one(text)],
        Some(Value::Text(separator)) => text.split(separator.as_str()).map(one).collect(),
        _ => text
            .chars()
            .map(|c| one(c.encode_utf8(&mut [0; 4])))
            .collect(),
    };
    Ok(Array::of(pieces).into())
}

/// Evaluates `text [NOT] [I]LIKE ANY (patterns)`.
fn like_some(args: &[Value], insensitive: bool, negated: bool) -> Outcome {
    let [text, Value::Array(patterns)] = args else {
        return Ok(Value::Null);
    };
    if patterns.values.is_empty() {
        return Ok(Value::Bool(false));
    }
    let Value::Text(text) = text else {
        return Ok(Value::Null);
    };
    let mut unknown = false;
    for pattern in &patterns.values {
        match pattern {
            Value::Text(pattern) => {
                if like(text, pattern, LikeEscape::BACKSLASH, insensitive)? != negated {
                    return Ok(Value::Bool(true));
                }
            }
            _ => unknown = true,
        }
    }
    Ok(if unknown {
        Value::Null
    } else {
        Value::Bool(false)
    })
}
