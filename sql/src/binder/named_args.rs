//! Named arguments of the built-in functions for which PostgreSQL documents parameter names.

use sqlparser::ast;

use super::call::{no_function, plain_argument};
use super::names;
use crate::error::SqlError;

/// The name of a parameter, and its default if it has one.
type ParameterSpec = (&'static str, Option<&'static str>);

/// The functions with named parameters.
const KNOWN: [(&str, &[ParameterSpec]); 8] = [
    (
        "make_interval",
        &[
            ("years", Some("0")),
            ("months", Some("0")),
            ("weeks", Some("0")),
            ("days", Some("0")),
            ("hours", Some("0")),
            ("mins", Some("0")),
            ("secs", Some("0")),
        ],
    ),
    (
        "make_date",
        &[("year", None), ("month", None), ("day", None)],
    ),
    ("make_time", &[("hour", None), ("min", None), ("sec", None)]),
    (
        "make_timestamp",
        &[
            ("year", None),
            ("month", None),
            ("mday", None),
            ("hour", None),
            ("min", None),
            ("sec", None),
        ],
    ),
    ("parse_ident", &[("str", None), ("strict", Some("true"))]),
    (
        "jsonb_set",
        &[
            ("jsonb_in", None),
            ("path", None),
            ("replacement", None),
            ("create_if_missing", Some("true")),
        ],
    ),
    (
        "jsonb_set_lax",
        &[
            ("jsonb_in", None),
            ("path", None),
            ("replacement", None),
            ("create_if_missing", Some("true")),
            ("null_value_treatment", Some("use_json_null")),
        ],
    ),
    (
        "jsonb_insert",
        &[
            ("jsonb_in", None),
            ("path", None),
            ("replacement", None),
            ("insert_after", Some("false")),
        ],
    ),
];

/// The parameters of the jsonpath functions.
const OF_PATHS: &[ParameterSpec] = &[
    ("target", None),
    ("path", None),
    ("vars", Some("{}")),
    ("silent", Some("false")),
];

fn names_of(function: &str) -> Option<&'static [ParameterSpec]> {
    if function.starts_with("jsonb_path_") {
        return Some(OF_PATHS);
    }
    let found = KNOWN.iter().find(|(name, _)| *name == function);
    found.map(|(_, named)| *named)
}

/// An argument of a call.
pub(super) enum Argument<'a> {
    /// The expression that the call contains.
    Given(&'a ast::Expr),
    /// The default of an omitted argument, as a literal.
    Default(&'static str),
}

/// Returns the arguments in the order of the parameters. Omitted arguments after the last one given
/// are left out, unless the function has no form without them.
pub(super) fn in_order<'a>(
    function: &str,
    args: &'a [ast::FunctionArg],
) -> Result<Vec<Argument<'a>>, SqlError> {
    let named = |arg: &ast::FunctionArg| matches!(arg, ast::FunctionArg::Named { .. });
    let always_all = function == "make_interval";
    let Some(known) = names_of(function).filter(|_| always_all || args.iter().any(named)) else {
        let plain = args
            .iter()
            .map(|arg| plain_argument(arg).map(Argument::Given));
        return plain.collect();
    };
    let mut given = vec![None; known.len()];
    for (i, arg) in args.iter().enumerate() {
        let (place, expr) = match arg {
            ast::FunctionArg::Named {
                name,
                arg: ast::FunctionArgExpr::Expr(expr),
                ..
            } => {
                let name = names::fold(name);
                (known.iter().position(|(k, _)| *k == name), expr)
            }
            other => (Some(i), plain_argument(other)?),
        };
        match place.and_then(|place| given.get_mut(place)) {
            Some(slot @ None) => *slot = Some(expr),
            _ => return Err(no_function(function, &[])),
        }
    }
    let count = match always_all {
        true => known.len(),
        false => given
            .iter()
            .rposition(Option::is_some)
            .map_or(0, |at| at + 1),
    };
    let pairs = given.into_iter().zip(known).take(count);
    let arguments = pairs.map(|(given, (_, default))| match (given, default) {
        (Some(expr), _) => Ok(Argument::Given(expr)),
        (None, Some(default)) => Ok(Argument::Default(default)),
        (None, None) => Err(no_function(function, &[])),
    });
    arguments.collect()
}
