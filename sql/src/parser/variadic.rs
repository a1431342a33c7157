//! `VARIADIC` before the last argument of a call, which sqlparser does not read. The argument
//! becomes a named argument with a special name.
//!
//! ```text
//! f(a, VARIADIC b)   becomes   f(a, "$v"  => b)
//! ```

use std::ops::Range;

use sqlparser::ast;

use super::lexer::{Kind, Token, syntax_error};
use super::patch::put;
use crate::error::SqlError;

/// The name of such an argument.
const MARK: &str = "$v";

/// Returns the byte range of each VARIADIC before an argument.
pub(super) fn words(text: &str, tokens: &[Token]) -> Result<Vec<Range<usize>>, SqlError> {
    let mut found = Vec::new();
    for (i, token) in tokens.iter().enumerate() {
        if !token.is(text, "variadic") || i == 0 {
            continue;
        }
        let before = tokens[i - 1];
        if !matches!(before.kind, Kind::Open | Kind::Comma) || before.text(text) == "[" {
            continue;
        }
        let mut depth = 0usize;
        for behind in &tokens[i + 1..] {
            match behind.kind {
                Kind::Open => depth += 1,
                Kind::Close if depth == 0 => break,
                Kind::Close => depth -= 1,
                // Only the last argument can be VARIADIC.
                Kind::Comma if depth == 0 => return Err(syntax_error(text, Some(*behind))),
                _ => {}
            }
        }
        found.push(token.start..token.end);
    }
    Ok(found)
}

/// Replaces the ranges by the name.
pub(super) fn apply(patched: &mut String, words: &[Range<usize>]) {
    for range in words {
        put(patched, range.clone(), &format!("\"{MARK}\"  =>"));
    }
}

/// Returns the expression of a VARIADIC argument; `None` for other arguments.
pub(crate) fn variadic_argument(arg: &ast::FunctionArg) -> Option<&ast::Expr> {
    match arg {
        ast::FunctionArg::Named {
            name,
            arg: ast::FunctionArgExpr::Expr(expr),
            ..
        } if name.value == MARK => Some(expr),
        _ => None,
    }
}
