//! ROWS FROM, which sqlparser does not read. It becomes a function with a special name, whose
//! arguments are the calls.
//!
//! `SELECT rows FROM (VALUES (1)) AS v (rows)` is not ROWS FROM: its parentheses contain no call.

use std::ops::Range;

use super::lexer::{Kind, Token};
use super::patch::put_padded;
use crate::error::SqlError;

/// The function name that replaces ROWS FROM.
pub(crate) const ROWS_FROM: &str = "$rows";

/// Returns the byte range of each `ROWS FROM` before a parenthesis.
pub(super) fn words(text: &str, tokens: &[Token]) -> Result<Vec<Range<usize>>, SqlError> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let mut found = Vec::new();
    for i in 0..tokens.len() {
        let open = tokens.get(i + 2).is_some_and(|t| t.kind == Kind::Open);
        if !(is(i, "rows") && is(i + 1, "from") && open && is_call(text, &tokens[i + 3..])) {
            continue;
        }
        let mut depth = 0usize;
        for (at, token) in tokens.iter().enumerate().skip(i + 2) {
            match token.kind {
                Kind::Open => depth += 1,
                Kind::Close if depth <= 1 => break,
                Kind::Close => depth -= 1,
                _ if depth == 1 && is(at, "as") => {
                    return Err(SqlError::unsupported("column definitions in ROWS FROM"));
                }
                _ => {}
            }
        }
        found.push(tokens[i].start..tokens[i + 1].end);
    }
    Ok(found)
}

/// Returns whether a function call begins here.
fn is_call(text: &str, tokens: &[Token]) -> bool {
    let is_query = ["select", "values", "with", "table"]
        .into_iter()
        .any(|word| tokens.first().is_some_and(|t| t.is(text, word)));
    let mut behind = tokens.iter().skip_while(|token| {
        let name = matches!(token.kind, Kind::Word | Kind::QuotedIdent | Kind::Dot);
        name && !is_query
    });
    let named = tokens.first().is_some_and(|t| t.kind != Kind::Open);
    named && behind.next().is_some_and(|token| token.kind == Kind::Open)
}

/// Replaces the ranges by the function name, which is shorter.
pub(super) fn apply(patched: &mut String, words: &[Range<usize>]) {
    for range in words {
        put_padded(patched, range.clone(), &format!("\"{ROWS_FROM}\""));
    }
}
