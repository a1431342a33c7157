//! Words that sqlparser accepts as names and PostgreSQL does not: `SELECT 1 FROM FROM`, `SELECT *
//! FORM t`, `DROP TABLE table`.

use super::is_reserved;
use super::lexer::{Kind, Token, syntax_error};
use crate::error::SqlError;

/// Reserved words that begin neither an expression nor a relation.
#[rustfmt::skip]
const NO_BEGINNING: [&str; 38] = [
    "and", "as", "asc", "asymmetric", "check", "collate", "column", "constraint", "create",
    "deferrable", "desc", "do", "else", "end", "except", "fetch", "for", "foreign", "from", "grant",
    "group", "having", "in", "initially", "intersect", "into", "limit", "offset", "on", "or", "order",
    "placing", "primary", "references", "returning", "union", "where", "window",
];

/// Checks that no such word is used as a name.
///
/// # Errors
/// 42601 at the first of them.
pub(super) fn check(text: &str, tokens: &[Token]) -> Result<(), SqlError> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let kind = |i: usize| tokens.get(i).map(|t: &Token| t.kind);
    for i in 1..tokens.len() {
        let token = tokens[i];
        if token.kind != Kind::Word {
            continue;
        }
        let reserved = |list: Option<&[&str]>| {
            let word = token.text(text).to_ascii_lowercase();
            is_reserved(&word) && list.is_none_or(|list| list.contains(&word.as_str()))
        };
        // After a dot or AS, any word is a name.
        let is_name = |i: usize| i > 0 && (kind(i - 1) == Some(Kind::Dot) || is(i - 1, "as"));
        let clause = ["from", "join", "where"].iter().any(|word| is(i - 1, word));
        let of_list = || {
            let before = i.checked_sub(2);
            tokens[i - 1].text(text) == "*"
                && before.is_some_and(|at| is(at, "select") || kind(at) == Some(Kind::Comma))
        };
        let misplaced = (clause && !is_name(i - 1) && reserved(Some(&NO_BEGINNING)))
            || (of_list() && !reserved(None))
            || (is_object(i, &is) && reserved(None));
        if misplaced {
            return Err(syntax_error(text, Some(token)));
        }
    }
    Ok(())
}

/// Returns whether the token is the name of a table that a statement creates, alters or drops.
fn is_object(i: usize, is: &dyn Fn(usize, &str) -> bool) -> bool {
    let verb = ["create", "alter", "drop"].iter().any(|word| is(0, word));
    let only = is(i, "only") || is(i, "if") || is(i, "all") || is(i, "from");
    verb && i == 2 && is(1, "table") && !only
}
