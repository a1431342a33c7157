//! Calls with VARIADIC of functions that take any number of arguments: `format('%s', VARIADIC a)`.

use super::library::{Body, stable_variadic};
use super::{ScalarFunction, json_make, mismatch, server, string, string_more};
use crate::context::EvalContext;
use crate::error::SqlError;
use crate::types::TypeKind::{self, Any, Int4, Json, Jsonb, Text};
use crate::types::{Type, to_text};
use crate::value::Value;

type Outcome = Result<Value, SqlError>;

static FUNCTIONS: [ScalarFunction; 9] = [
    spread("concat", &[], Text, |a, cx| {
        texts(a, cx, false, |a, _| string::joined(a, ""))
    }),
    spread("concat_ws", &[Text], Text, |a, cx| {
        texts(a, cx, false, |a, _| string::joined_with(a))
    }),
    spread("format", &[Text], Text, |a, cx| {
        texts(a, cx, true, |a, cx| string_more::formatted(a, &cx.settings))
    }),
    spread("num_nulls", &[], Int4, |a, cx| {
        values(a, cx, |a, _| Ok(server::num_nulls(a)))
    }),
    spread("num_nonnulls", &[], Int4, |a, cx| {
        values(a, cx, |a, _| Ok(server::num_nonnulls(a)))
    }),
    spread("json_build_array", &[], Json, |a, cx| {
        values(a, cx, |a, cx| json_make::build_array(a, false, cx))
    }),
    spread("jsonb_build_array", &[], Jsonb, |a, cx| {
        values(a, cx, |a, cx| json_make::build_array(a, true, cx))
    }),
    spread("json_build_object", &[], Json, |a, cx| {
        values(a, cx, |a, cx| json_make::build_object(a, false, cx))
    }),
    spread("jsonb_build_object", &[], Jsonb, |a, cx| {
        values(a, cx, |a, cx| json_make::build_object(a, true, cx))
    }),
];

/// Returns the function for a VARIADIC call of this name. Its types are those of the arguments
/// before the array.
pub fn spread_candidate(name: &str) -> Option<&'static ScalarFunction> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

const fn spread(
    name: &'static str,
    args: &'static [TypeKind],
    result: TypeKind,
    eval: Body,
) -> ScalarFunction {
    ScalarFunction {
        args,
        ..stable_variadic(name, &[Any], result, eval)
    }
}

/// Converts the elements to texts. Without an array there are none if `without` is set; otherwise
/// the result is NULL.
fn texts(args: &[Value], cx: &EvalContext, without: bool, call: Body) -> Outcome {
    let text = |value: &Value| match value {
        Value::Null => Value::Null,
        value => Value::text(to_text(value, &Type::TEXT, &cx.settings)),
    };
    match args {
        [first @ .., Value::Array(array)] => {
            let elements = array.values.iter().map(text);
            let all: Vec<Value> = first.iter().cloned().chain(elements).collect();
            call(&all, cx)
        }
        [first @ .., Value::Null] if without => call(first, cx),
        [.., Value::Null] => Ok(Value::Null),
        _ => Err(mismatch("a call with VARIADIC")),
    }
}

/// Passes the elements unchanged. Without an array the result is NULL.
fn values(args: &[Value], cx: &EvalContext, call: Body) -> Outcome {
    match args {
        [Value::Array(array)] => call(&array.values, cx),
        [Value::Null] => Ok(Value::Null),
        _ => Err(mismatch("a call with VARIADIC")),
    }
}
