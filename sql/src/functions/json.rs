//! Access to JSON: `-> ->> #> #>> @> <@ ? ?| ?&`, types, lengths, and set-returning functions.

use super::library::pure;
use super::rows::{RowsFunction, of_rows};
use super::{ScalarFunction, mismatch};
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};
use crate::types::TypeKind::{Array as ArrayKind, Bool, Int4, Json as JsonKind, Jsonb, Text};
use crate::types::json::{self, Json, Kind, parse};
use crate::types::{Element, TypeKind};
use crate::value::{Array, Value};

type Outcome = Result<Value, SqlError>;

const TEXTS: TypeKind = ArrayKind(Element::TEXT);

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[ScalarFunction] = &[
    pure("->", &[JsonKind, Text], JsonKind, |a, _| part(a, false)),
    pure("->", &[JsonKind, Int4], JsonKind, |a, _| part(a, false)),
    pure("->", &[Jsonb, Text], Jsonb, |a, _| part(a, false)),
    pure("->", &[Jsonb, Int4], Jsonb, |a, _| part(a, false)),
    pure("->>", &[JsonKind, Text], Text, |a, _| part(a, true)),
    pure("->>", &[JsonKind, Int4], Text, |a, _| part(a, true)),
    pure("->>", &[Jsonb, Text], Text, |a, _| part(a, true)),
    pure("->>", &[Jsonb, Int4], Text, |a, _| part(a, true)),
    pure("#>", &[JsonKind, TEXTS], JsonKind, |a, _| at_path(a, false)),
    pure("#>", &[Jsonb, TEXTS], Jsonb, |a, _| at_path(a, false)),
    pure("#>>", &[JsonKind, TEXTS], Text, |a, _| at_path(a, true)),
    pure("#>>", &[Jsonb, TEXTS], Text, |a, _| at_path(a, true)),
    pure("@>", &[Jsonb, Jsonb], Bool, |a, _| contained(a, 0, 1)),
    pure("<@", &[Jsonb, Jsonb], Bool, |a, _| contained(a, 1, 0)),
    pure("?", &[Jsonb, Text], Bool, |a, _| match a {
        [Value::Jsonb(text), Value::Text(key)] => Ok(Value::Bool(exists(&parse(text)?, key))),
        _ => Err(mismatch("?")),
    }),
    pure("?|", &[Jsonb, TEXTS], Bool,
        |a, _| exist(a, |keys, json| keys.iter().any(|k| exists(json, k)))),
    pure("?&", &[Jsonb, TEXTS], Bool,
        |a, _| exist(a, |keys, json| keys.iter().all(|k| exists(json, k)))),
    pure("json_typeof", &[JsonKind], Text, |a, _| Ok(Value::text(document(a)?.type_name()))),
    pure("jsonb_typeof", &[Jsonb], Text, |a, _| Ok(Value::text(document(a)?.type_name()))),
    pure("json_array_length", &[JsonKind], Int4, |a, _| length(a)),
    pure("jsonb_array_length", &[Jsonb], Int4, |a, _| length(a)),
];

#[rustfmt::skip]
pub(super) static ROWS: &[RowsFunction] = &[
    rows("json_array_elements", &[JsonKind], &[("value", JsonKind)], |a, _| elements(a, false)),
    rows("jsonb_array_elements", &[Jsonb], &[("value", Jsonb)], |a, _| elements(a, false)),
    rows("json_array_elements_text", &[JsonKind], &[("value", Text)], |a, _| elements(a, true)),
    rows("jsonb_array_elements_text", &[Jsonb], &[("value", Text)], |a, _| elements(a, true)),
    rows("json_object_keys", &[JsonKind], &[("", Text)], |a, _| keys(a)),
    rows("jsonb_object_keys", &[Jsonb], &[("", Text)], |a, _| keys(a)),
    rows("json_each", &[JsonKind], &[("key", Text), ("value", JsonKind)],
        |a, _| each(a, "json_each", false)),
    rows("jsonb_each", &[Jsonb], &[("key", Text), ("value", Jsonb)],
        |a, _| each(a, "jsonb_each", false)),
    rows("json_each_text", &[JsonKind], &[("key", Text), ("value", Text)], |a, _| each(a, "json_each_text", true)),
    rows("jsonb_each_text", &[Jsonb], &[("key", Text), ("value", Text)], |a, _| each(a, "jsonb_each_text", true)),
];

const fn rows(
    name: &'static str,
    args: &'static [TypeKind],
    columns: &'static [(&'static str, TypeKind)],
    eval: fn(&[Value], &EvalContext) -> Outcome,
) -> RowsFunction {
    RowsFunction {
        // An array of rows has no type of its own.
        function: pure(name, args, TypeKind::Any, eval),
        columns,
    }
}

/// Returns the text of a json or jsonb document, and whether it is jsonb.
pub(super) fn text_of(value: Option<&Value>) -> Result<(&str, bool), SqlError> {
    match value {
        Some(Value::Json(text)) => Ok((text, false)),
        Some(Value::Jsonb(text)) => Ok((text, true)),
        _ => Err(mismatch("a JSON function")),
    }
}

/// Creates a json or jsonb document from a text.
pub(super) fn of_text(text: &str, binary: bool) -> Value {
    match binary {
        true => Value::Jsonb(text.into()),
        false => Value::Json(text.into()),
    }
}

/// Parses the first argument.
pub(super) fn document(args: &[Value]) -> Result<Json<'_>, SqlError> {
    parse(text_of(args.first())?.0)
}

/// Returns the found element, as a document or as text.
fn found(json: Option<&Json<'_>>, binary: bool, as_text: bool) -> Outcome {
    let Some(json) = json else {
        return Ok(Value::Null);
    };
    if !as_text {
        return Ok(of_text(json.raw, binary));
    }
    match json.text() {
        Some(text) if text.contains('\0') => Err(json::no_nul()),
        text => Ok(text.map_or(Value::Null, Value::text)),
    }
}

fn part(args: &[Value], as_text: bool) -> Outcome {
    let (text, binary) = text_of(args.first())?;
    let json = parse(text)?;
    let inner = match args.get(1) {
        Some(Value::Text(key)) => json.get(key),
        // As in PostgreSQL, a scalar jsonb is also an array of itself.
        Some(Value::Int4(0 | -1))
            if binary && !matches!(json.is, Kind::Array(_) | Kind::Object(_)) =>
        {
            Some(&json)
        }
        Some(Value::Int4(index)) => json.at(i64::from(*index)),
        _ => return Err(mismatch("->")),
    };
    found(inner, binary, as_text)
}

fn at_path(args: &[Value], as_text: bool) -> Outcome {
    let (text, binary) = text_of(args.first())?;
    let Some(Value::Array(path)) = args.get(1) else {
        return Err(mismatch("#>"));
    };
    let json = parse(text)?;
    let mut at = Some(&json);
    for step in &path.values {
        let Value::Text(step) = step else {
            return Ok(Value::Null);
        };
        at = at.and_then(|json| json.step(step));
    }
    found(at, binary, as_text)
}

fn length(args: &[Value]) -> Outcome {
    match document(args)?.is {
        Kind::Array(elements) => Ok(Value::Int4(elements.len() as i32)),
        Kind::Object(_) => Err(refused("cannot get array length of a non-array")),
        _ => Err(refused("cannot get array length of a scalar")),
    }
}

/// Returns error 22023.
#[cold]
pub(super) fn refused(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn contained(args: &[Value], whole: usize, part: usize) -> Outcome {
    let whole = parse(text_of(args.get(whole))?.0)?;
    let part = parse(text_of(args.get(part))?.0)?;
    // An array contains a scalar that is one of its elements, but only at the top level.
    let alone = !matches!(part.is, Kind::Array(_) | Kind::Object(_));
    Ok(Value::Bool(match &whole.is {
        Kind::Array(elements) if alone => elements.iter().any(|e| equal(e, &part)),
        _ => contains(&whole, &part),
    }))
}

fn contains(whole: &Json<'_>, part: &Json<'_>) -> bool {
    match (&whole.is, &part.is) {
        (Kind::Object(_), Kind::Object(pairs)) => pairs
            .iter()
            .all(|(key, value)| whole.get(key).is_some_and(|found| contains(found, value))),
        (Kind::Array(elements), Kind::Array(parts)) => parts
            .iter()
            .all(|part| elements.iter().any(|element| contains(element, part))),
        _ => equal(whole, part),
    }
}

fn equal(a: &Json<'_>, b: &Json<'_>) -> bool {
    json::compare(a.raw, b.raw).is_eq()
}

/// Returns whether the string is a key of an object or an element of an array.
fn exists(json: &Json<'_>, key: &str) -> bool {
    let is = |json: &Json<'_>| matches!(&json.is, Kind::Text(text) if text == key);
    match &json.is {
        Kind::Object(_) => json.get(key).is_some(),
        Kind::Array(elements) => elements.iter().any(is),
        _ => is(json),
    }
}

fn exist(args: &[Value], test: impl Fn(&[&str], &Json<'_>) -> bool) -> Outcome {
    let [Value::Jsonb(text), Value::Array(keys)] = args else {
        return Err(mismatch("?|"));
    };
    let keys: Vec<&str> = keys.values.iter().filter_map(Value::as_text).collect();
    Ok(Value::Bool(test(&keys, &parse(text)?)))
}

fn elements(args: &[Value], as_text: bool) -> Outcome {
    let (text, binary) = text_of(args.first())?;
    let json = parse(text)?;
    let elements = match &json.is {
        Kind::Array(elements) => elements,
        Kind::Object(_) if binary => return Err(refused("cannot extract elements from an object")),
        _ if binary => return Err(refused("cannot extract elements from a scalar")),
        Kind::Object(_) => {
            let name = if as_text {
                "json_array_elements_text"
            } else {
                "json_array_elements"
            };
            return Err(refused(format!("cannot call {name} on a non-array")));
        }
        _ => {
            let name = if as_text {
                "json_array_elements_text"
            } else {
                "json_array_elements"
            };
            return Err(refused(format!("cannot call {name} on a scalar")));
        }
    };
    let values = elements.iter().map(|e| found(Some(e), binary, as_text));
    Ok(Array::of(values.collect::<Result<_, _>>()?).into())
}

fn keys(args: &[Value]) -> Outcome {
    let (text, binary) = text_of(args.first())?;
    let name = if binary {
        "jsonb_object_keys"
    } else {
        "json_object_keys"
    };
    match parse(text)?.is {
        Kind::Object(pairs) => {
            let keys = pairs.iter().map(|(key, _)| Value::text(key)).collect();
            Ok(Array::of(keys).into())
        }
        Kind::Array(_) => Err(refused(format!("cannot call {name} on an array"))),
        _ => Err(refused(format!("cannot call {name} on a scalar"))),
    }
}

fn each(args: &[Value], name: &str, as_text: bool) -> Outcome {
    let (text, binary) = text_of(args.first())?;
    let json = parse(text)?;
    let Kind::Object(pairs) = &json.is else {
        return Err(match (&json.is, binary) {
            (Kind::Array(_), false) => refused("cannot deconstruct an array as an object"),
            (_, false) => refused("cannot deconstruct a scalar"),
            _ => refused(format!("cannot call {name} on a non-object")),
        });
    };
    let mut values = Vec::with_capacity(pairs.len() * 2);
    for (key, value) in pairs {
        values.push(Value::text(key));
        values.push(found(Some(value), binary, as_text)?);
    }
    Ok(of_rows(2, values))
}
