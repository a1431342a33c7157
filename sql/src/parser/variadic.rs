//! `VARIADIC` before the last argument of a call, which sqlparser does not read: the argument becomes one with a name that
//! stands for it.
//!
//! ```text
//! f(a, VARIADIC b)   becomes   f(a, "$v"  => b)
//! ```

use std::ops::Range;

use sqlparser::ast;

use super::lexer::{Kind, Token, syntax_error};
use super::patch::put;
use crate::error::SqlError;

/// The name that stands for it.
const MARK: &str = "$v";

/// The bytes of each VARIADIC before an argument.
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
                // It is the last argument.
                Kind::Comma if depth == 0 => return Err(syntax_error(text, Some(*behind))),
                _ => {}
            }
        }
        found.push(token.start..token.end);
    }
    Ok(found)
}

/// Puts the mark in the place of the words.
pub(super) fn apply(patched: &mut String, words: &[Range<usize>]) {
    for range in words {
        put(patched, range.clone(), &format!("\"{MARK}\"  =>"));
    }
}

/// The expression of an argument behind VARIADIC.
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
