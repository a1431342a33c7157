//! `TABLE t`, which means `SELECT * FROM t`. It is replaced by `FROM t`, which sqlparser reads as
//! that query and which is no longer. A query that begins with FROM in the original text is
//! therefore rejected here.

use super::lexer::{Kind, Token, syntax_error};
use crate::error::SqlError;

/// Returns whether a query can begin at token `i`.
fn begins(text: &str, tokens: &[Token], i: usize) -> bool {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let Some(before) = i.checked_sub(1) else {
        return true;
    };
    // After a dot or AS, a word is a name.
    let is_name = |i: usize| i > 0 && (tokens[i - 1].kind == Kind::Dot || is(i - 1, "as"));
    let of_query = || (0..3).any(|first| is(first, "create") || is(first, "prepare"));
    match tokens[before].kind {
        // TRIM(FROM text) is an expression.
        Kind::Open => !(before > 0 && is(before - 1, "trim")),
        Kind::Close => is(0, "with"),
        _ => {
            // `UNION ALL`, but not `IS DISTINCT`.
            let quantified = before > 0 && (is(before, "all") || is(before, "distinct"));
            let before = before - usize::from(quantified);
            let operators = ["union", "intersect", "except"];
            let operates = operators.iter().any(|word| is(before, word)) && !is_name(before);
            operates || !quantified && is(before, "as") && of_query()
        }
    }
}

/// Returns the TABLE tokens that begin a query.
///
/// # Errors
/// 42601 if a query begins with FROM.
pub(super) fn tables(text: &str, tokens: &[Token]) -> Result<Vec<Token>, SqlError> {
    let mut found = Vec::new();
    let mut depth = 0usize;
    for (i, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::Open => depth += 1,
            Kind::Close => depth = depth.saturating_sub(1),
            Kind::Word if token.is(text, "from") => {
                let is_query =
                    begins(text, tokens, i) && tokens[i.saturating_sub(1)].kind != Kind::Close;
                if is_query {
                    return Err(syntax_error(text, Some(*token)));
                }
            }
            Kind::Word if token.is(text, "table") => {
                let inserted = depth == 0 && i > 2 && tokens[0].is(text, "insert");
                if inserted || begins(text, tokens, i) {
                    found.push(*token);
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

/// Returns whether the token is the TABLE of `INSERT INTO t TABLE …` without columns.
pub(super) fn is_inserted(text: &str, tokens: &[Token], table: &Token) -> bool {
    let Some(at) = tokens.iter().position(|token| token == table) else {
        return false;
    };
    let has_columns = at > 0 && tokens[at - 1].kind == Kind::Close;
    tokens[0].is(text, "insert") && !has_columns && !begins(text, tokens, at)
}
