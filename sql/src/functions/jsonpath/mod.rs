//! Functions and operators of jsonpath.

mod compare;
mod item;
mod run;

use super::library::pure;
use super::rows::RowsFunction;
use super::{ScalarFunction, mismatch};
use crate::error::{SqlError, SqlState};
use crate::types::TypeKind::{Bool, JsonPath, Jsonb};
use crate::types::json::{Json, Kind, parse};
use crate::types::jsonpath;
use crate::value::{Array, Value};
pub use compare::check_path_regex;
use item::Item;
use run::{Fault, Run};

type Outcome = Result<Value, SqlError>;

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[ScalarFunction] = &[
    pure("jsonb_path_exists", &[Jsonb, JsonPath], Bool, |a, _| exists(a, false)),
    pure("jsonb_path_exists", &[Jsonb, JsonPath, Jsonb], Bool, |a, _| exists(a, false)),
    pure("jsonb_path_exists", &[Jsonb, JsonPath, Jsonb, Bool], Bool, |a, _| exists(a, silent(a))),
    pure("@?", &[Jsonb, JsonPath], Bool, |a, _| exists(a, true)),
    pure("jsonb_path_match", &[Jsonb, JsonPath], Bool, |a, _| matches(a, false)),
    pure("jsonb_path_match", &[Jsonb, JsonPath, Jsonb], Bool, |a, _| matches(a, false)),
    pure("jsonb_path_match", &[Jsonb, JsonPath, Jsonb, Bool], Bool, |a, _| matches(a, silent(a))),
    pure("@@", &[Jsonb, JsonPath], Bool, |a, _| matches(a, true)),
    pure("jsonb_path_query_array", &[Jsonb, JsonPath], Jsonb, |a, _| array(a)),
    pure("jsonb_path_query_array", &[Jsonb, JsonPath, Jsonb], Jsonb, |a, _| array(a)),
    pure("jsonb_path_query_array", &[Jsonb, JsonPath, Jsonb, Bool], Jsonb, |a, _| array(a)),
    pure("jsonb_path_query_first", &[Jsonb, JsonPath], Jsonb, |a, _| first(a)),
    pure("jsonb_path_query_first", &[Jsonb, JsonPath, Jsonb], Jsonb, |a, _| first(a)),
    pure("jsonb_path_query_first", &[Jsonb, JsonPath, Jsonb, Bool], Jsonb, |a, _| first(a)),
];

#[rustfmt::skip]
pub(super) static ROWS: &[RowsFunction] = &[
    RowsFunction { function: pure("jsonb_path_query", &[Jsonb, JsonPath], Jsonb,
        |a, _| rows(a)), columns: &[("", Jsonb)] },
    RowsFunction { function: pure("jsonb_path_query", &[Jsonb, JsonPath, Jsonb], Jsonb,
        |a, _| rows(a)), columns: &[("", Jsonb)] },
    RowsFunction { function: pure("jsonb_path_query", &[Jsonb, JsonPath, Jsonb, Bool], Jsonb,
        |a, _| rows(a)), columns: &[("", Jsonb)] },
];

/// Returns the `silent` argument; false if it is omitted.
fn silent(args: &[Value]) -> bool {
    args.get(3) == Some(&Value::Bool(true))
}

/// Evaluates a path and passes `f` the items, the error that ended the evaluation, and whether the
/// path is lax.
fn found<T>(
    args: &[Value],
    silent: bool,
    f: impl FnOnce(Vec<Item<'_>>, Result<(), Fault>, bool) -> Result<T, SqlError>,
) -> Result<T, SqlError> {
    let [Value::Jsonb(target), Value::Text(path), rest @ ..] = args else {
        return Err(mismatch("a jsonpath function"));
    };
    let target = parse(target)?;
    let path = jsonpath::parse(path)?;
    let vars = match rest.first() {
        Some(Value::Jsonb(text)) => Some(parse(text)?),
        _ => None,
    };
    if let Some(vars) = &vars
        && !matches!(vars.is, Kind::Object(_))
    {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "\"vars\" argument is not an object",
        )
        .detail("Jsonpath parameters should be encoded as key-value pairs of \"vars\" object."));
    }
    let run = Run::new(&path, &target, vars.as_ref());
    let mut items = Vec::new();
    let ended = match run.all(&mut items) {
        Err(Fault::Hard(error)) => return Err(error),
        Err(Fault::Soft(error)) if !silent => Err(Fault::Soft(error)),
        ended => ended,
    };
    f(items, ended, path.lax)
}

/// Passes `f` the items of a path. If the evaluation fails silently, there are none.
fn items<T>(
    args: &[Value],
    f: impl FnOnce(Vec<Item<'_>>) -> Result<T, SqlError>,
) -> Result<T, SqlError> {
    let silent = silent(args);
    found(args, silent, |items, ended, _| match ended {
        Err(fault) if !silent => Err(fault.into_error()),
        // After a failure the result is empty.
        Err(_) => f(Vec::new()),
        Ok(()) => f(items),
    })
}

fn exists(args: &[Value], silent: bool) -> Outcome {
    found(args, silent, |items, ended, lax| match ended {
        // In lax mode, one item is enough.
        _ if lax && !items.is_empty() => Ok(Value::Bool(true)),
        Err(fault) if !silent => Err(fault.into_error()),
        Err(_) => Ok(Value::Null),
        Ok(()) => Ok(Value::Bool(!items.is_empty())),
    })
}

fn matches(args: &[Value], silent: bool) -> Outcome {
    found(args, silent, |items, ended, _| {
        match ended {
            Err(fault) if !silent => return Err(fault.into_error()),
            Err(_) => return Ok(Value::Null),
            Ok(()) => {}
        }
        match items.as_slice() {
            [Item::Bool(value)] => Ok(Value::Bool(*value)),
            [Item::Null] => Ok(Value::Null),
            _ if silent => Ok(Value::Null),
            _ => Err(SqlError::new(
                SqlState::new(b"22038"),
                "single boolean result is expected",
            )),
        }
    })
}

fn array(args: &[Value]) -> Outcome {
    items(args, |items| {
        let mut text = String::from("[");
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                text.push_str(", ");
            }
            item.write(&mut text);
        }
        text.push(']');
        Ok(Value::Jsonb(text.into()))
    })
}

fn value(item: &Item<'_>) -> Value {
    let mut text = String::new();
    item.write(&mut text);
    Value::Jsonb(text.into())
}

fn first(args: &[Value]) -> Outcome {
    items(args, |items| Ok(items.first().map_or(Value::Null, value)))
}

fn rows(args: &[Value]) -> Outcome {
    items(args, |items| {
        Ok(Array::of(items.iter().map(value).collect()).into())
    })
}

/// Returns the elements of an array.
fn elements<'j>(json: &'j Json<'j>) -> &'j [Json<'j>] {
    match &json.is {
        Kind::Array(elements) => elements,
        _ => &[],
    }
}
