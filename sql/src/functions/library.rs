//! The tables of named functions, and the lookup of a name's signatures.

use super::{
    ScalarFunction, WaitingFunction, advisory, array, array_search, bits, blocking, catalog,
    cursors, datetime, extract, format, interval, json, json_edit, json_make, jsonpath, make_time,
    math, math_degrees, math_more, network, normal_forms, notify, privileges, regex, sequence,
    server, session, signal, sizes, span_fields, statistics, string, string_more, texts_and_bytes,
};
use crate::bound::Volatility;
use crate::context::EvalContext;
use crate::error::SqlError;
use crate::types::TypeKind;
use crate::value::Value;

/// The implementation of a function.
pub(crate) type Body = fn(&[Value], &EvalContext) -> Result<Value, SqlError>;

/// Defines a strict, immutable function.
pub(crate) const fn pure(
    name: &'static str,
    args: &'static [TypeKind],
    result: TypeKind,
    eval: Body,
) -> ScalarFunction {
    ScalarFunction {
        name,
        args,
        variadic: false,
        result,
        strict: true,
        volatility: Volatility::Immutable,
        eval,
        wait: None,
    }
}

/// Defines a stable function: its result does not change within a statement.
pub(super) const fn stable(
    name: &'static str,
    args: &'static [TypeKind],
    result: TypeKind,
    eval: Body,
) -> ScalarFunction {
    ScalarFunction {
        volatility: Volatility::Stable,
        ..pure(name, args, result, eval)
    }
}

/// Defines a volatile function.
pub(crate) const fn volatile(
    name: &'static str,
    args: &'static [TypeKind],
    result: TypeKind,
    eval: Body,
) -> ScalarFunction {
    ScalarFunction {
        volatility: Volatility::Volatile,
        ..pure(name, args, result, eval)
    }
}

/// Defines a strict, volatile function that may have to wait.
pub(super) const fn waiting(
    name: &'static str,
    args: &'static [TypeKind],
    result: TypeKind,
    wait: WaitingFunction,
) -> ScalarFunction {
    ScalarFunction {
        wait: Some(wait),
        ..volatile(name, args, result, |_, _| {
            Err(SqlError::unsupported(
                "a function that may wait in this place",
            ))
        })
    }
}

/// Defines a function that is called for NULL arguments and takes its last argument any number of
/// times.
pub(super) const fn variadic(
    name: &'static str,
    args: &'static [TypeKind],
    result: TypeKind,
    eval: Body,
) -> ScalarFunction {
    ScalarFunction {
        variadic: true,
        strict: false,
        ..pure(name, args, result, eval)
    }
}

/// Defines a function like [`variadic`] whose result depends on settings.
pub(super) const fn stable_variadic(
    name: &'static str,
    args: &'static [TypeKind],
    result: TypeKind,
    eval: Body,
) -> ScalarFunction {
    ScalarFunction {
        volatility: Volatility::Stable,
        ..variadic(name, args, result, eval)
    }
}

static TABLES: [&[ScalarFunction]; 43] = [
    network::FUNCTIONS,
    math_more::FUNCTIONS,
    math_degrees::FUNCTIONS,
    server::FUNCTIONS,
    texts_and_bytes::FUNCTIONS,
    normal_forms::FUNCTIONS,
    make_time::FUNCTIONS,
    format::FUNCTIONS,
    string_more::FUNCTIONS,
    regex::FUNCTIONS,
    json::FUNCTIONS,
    json_edit::FUNCTIONS,
    json_make::FUNCTIONS,
    jsonpath::FUNCTIONS,
    array::FUNCTIONS,
    array_search::FUNCTIONS,
    string::FUNCTIONS,
    math::FUNCTIONS,
    datetime::FUNCTIONS,
    extract::FUNCTIONS,
    interval::FUNCTIONS,
    span_fields::FUNCTIONS,
    session::FUNCTIONS,
    advisory::FUNCTIONS,
    cursors::FUNCTIONS,
    notify::FUNCTIONS,
    signal::FUNCTIONS,
    sizes::FUNCTIONS,
    blocking::FUNCTIONS,
    statistics::FUNCTIONS,
    catalog::FUNCTIONS,
    bits::FUNCTIONS,
    sequence::FUNCTIONS,
    privileges::OF_TABLES,
    privileges::OF_ANY_COLUMNS,
    privileges::OF_COLUMNS,
    privileges::OF_COLUMNS_BY_OID,
    privileges::OF_SEQUENCES,
    privileges::OF_SCHEMAS,
    privileges::OF_FUNCTIONS,
    privileges::OF_TYPES,
    privileges::OF_DATABASES,
    privileges::OF_ROLES,
];

/// Returns all functions.
pub fn library() -> impl Iterator<Item = &'static ScalarFunction> {
    TABLES.iter().flat_map(|table| table.iter())
}

/// Returns all functions with a name.
pub fn candidates(name: &str) -> impl Iterator<Item = &'static ScalarFunction> {
    library().filter(move |f| f.name == name)
}
