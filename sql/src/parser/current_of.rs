//! `WHERE CURRENT OF cursor`, which sqlparser does not read.
//!
//! ```text
//! UPDATE t SET a = 1 WHERE CURRENT OF c   becomes   UPDATE t SET a = 1 WHERE "$of" = c
//! ```
//! It must be the whole WHERE clause. In other places it stays as it is and gives a syntax error.

use std::ops::Range;

use sqlparser::ast;

use super::lexer::{Kind, Token};
use super::patch::put_padded;

/// The column name that replaces CURRENT OF.
const MARK: &str = "$of";

/// Returns the byte range of each CURRENT OF.
pub(super) fn words(text: &str, tokens: &[Token]) -> Vec<Range<usize>> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let kind = |i: usize| tokens.get(i).map(|t: &Token| t.kind);
    let found = (0..tokens.len()).filter(|&i| {
        let named = matches!(kind(i + 3), Some(Kind::Word | Kind::QuotedIdent));
        let ends = matches!(kind(i + 4), None | Some(Kind::Close | Kind::Semicolon));
        is(i, "where")
            && is(i + 1, "current")
            && is(i + 2, "of")
            && named
            && (ends || is(i + 4, "returning"))
            && changes(text, &tokens[..i])
    });
    found
        .map(|i| tokens[i + 1].start..tokens[i + 2].end)
        .collect()
}

/// Returns whether the WHERE after these tokens belongs to an UPDATE or DELETE.
fn changes(text: &str, before: &[Token]) -> bool {
    let mut depth = 0usize;
    for token in before.iter().rev() {
        match token.kind {
            Kind::Close => depth += 1,
            Kind::Open if depth == 0 => return false,
            Kind::Open => depth -= 1,
            _ if depth > 0 => {}
            _ if token.is(text, "select") => return false,
            _ if token.is(text, "update") || token.is(text, "delete") => return true,
            _ => {}
        }
    }
    false
}

/// Replaces the ranges by the mark, padded with blanks so that later text keeps its position.
pub(super) fn apply(patched: &mut String, words: &[Range<usize>]) {
    for range in words {
        put_padded(patched, range.clone(), &format!("\"{MARK}\" ="));
    }
}

/// Returns the cursor that a WHERE clause names; `None` for any other condition.
pub(crate) fn cursor_of(filter: &ast::Expr) -> Option<&ast::Ident> {
    match filter {
        ast::Expr::BinaryOp {
            left,
            op: ast::BinaryOperator::Eq,
            right,
        } => match (&**left, &**right) {
            (ast::Expr::Identifier(mark), ast::Expr::Identifier(name)) if mark.value == MARK => {
                Some(name)
            }
            _ => None,
        },
        _ => None,
    }
}
