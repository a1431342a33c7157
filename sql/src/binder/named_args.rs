//! Arguments by name, of the functions whose arguments are often left out.

use sqlparser::ast;

use super::call::plain_argument;
use super::names;
use crate::error::SqlError;

/// The names of a function's arguments, where each may be left out and is 0 then.
fn names_of(function: &str) -> Option<&'static [&'static str]> {
    match function {
        "make_interval" => Some(&["years", "months", "weeks", "days", "hours", "mins", "secs"]),
        _ => None,
    }
}

/// The arguments in the order of the function; `None` for one that is left out.
pub(super) fn in_order<'a>(
    function: &str,
    args: &'a [ast::FunctionArg],
) -> Result<Vec<Option<&'a ast::Expr>>, SqlError> {
    let Some(known) = names_of(function) else {
        return args.iter().map(|a| plain_argument(a).map(Some)).collect();
    };
    let mut ordered = vec![None; known.len()];
    for (i, arg) in args.iter().enumerate() {
        let (place, expr) = match arg {
            ast::FunctionArg::Named {
                name,
                arg: ast::FunctionArgExpr::Expr(expr),
                ..
            } => {
                let name = names::fold(name);
                let place = known.iter().position(|k| *k == name);
                (place, expr)
            }
            other => (Some(i), plain_argument(other)?),
        };
        match place.and_then(|place| ordered.get_mut(place)) {
            Some(slot @ None) => *slot = Some(expr),
            _ => return Err(super::call::no_function(function, &[])),
        }
    }
    Ok(ordered)
}
