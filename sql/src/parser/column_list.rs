//! The column names of `CREATE TABLE name (a, b) AS …`. sqlparser reads them as column definitions
//! without types.

use std::ops::Range;

use super::cursor::Cursor;
use super::lexer::{self, Kind, Token};

/// Returns the token range of the list, including its parentheses.
pub(super) fn brackets(text: &str, tokens: &[Token]) -> Option<Range<usize>> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let kind = |i: usize| tokens.get(i).map(|token| token.kind);
    let creates_table = is(0, "create") && (1..4).any(|i| is(i, "table"));
    let open = (0..tokens.len()).find(|i| kind(*i) == Some(Kind::Open))?;
    // Parentheses after AS belong to the query.
    if (0..open).any(|i| is(i, "as")) {
        return None;
    }
    let close = (open..tokens.len()).find(|i| kind(*i) == Some(Kind::Close))?;
    let names = tokens[open + 1..close]
        .iter()
        .enumerate()
        .all(|(nth, token)| match nth % 2 {
            0 => matches!(token.kind, Kind::Word | Kind::QuotedIdent),
            _ => token.kind == Kind::Comma,
        });
    (creates_table && names && is(close + 1, "as")).then_some(open..close + 1)
}

/// Returns the column names; empty if there is no list.
pub(crate) fn column_list(sql: &str) -> Vec<String> {
    let tokens = lexer::tokens(sql).unwrap_or_default();
    let Some(range) = brackets(sql, &tokens) else {
        return Vec::new();
    };
    let mut cursor = Cursor::new(sql, &tokens[range.start + 1..range.end - 1]);
    let mut names = Vec::new();
    while let Ok(name) = cursor.identifier() {
        names.push(name);
        cursor.accept_kind(Kind::Comma);
    }
    names
}
