//! The INCLUDE of `UNIQUE (a) INCLUDE (b)` and `PRIMARY KEY (a) INCLUDE (b)`. sqlparser does not
//! read it in constraints.

use std::ops::Range;

use super::lexer::{self, Kind, Token, position};
use super::search_cycle::opening;

/// Returns the token range of each `INCLUDE (…)` after the columns of a key.
pub(super) fn clauses(text: &str, tokens: &[Token]) -> Vec<Range<usize>> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let of_table = (is(0, "create") || is(0, "alter")) && (1..4).any(|i| is(i, "table"));
    let found = (4..tokens.len()).filter(|i| of_table && is(*i, "include"));
    let clause = |at: usize| {
        let columns = (tokens[at - 1].kind == Kind::Close).then(|| opening(tokens, at - 1))??;
        let before = columns.checked_sub(1)?;
        let of_key = ["key", "unique", "distinct"];
        let of_key = of_key.iter().any(|word| is(before, word));
        let opens = tokens.get(at + 1).is_some_and(|t| t.text(text) == "(");
        let close = (at + 2..tokens.len()).find(|i| tokens[*i].kind == Kind::Close)?;
        (of_key && opens).then_some(at..close + 1)
    };
    found.filter_map(clause).collect()
}

/// Returns the included columns of the key whose last column is at the given position.
pub(crate) fn included(sql: &str, last_column: u32) -> Vec<String> {
    let tokens = lexer::tokens(sql).unwrap_or_default();
    let behind = |clause: &Range<usize>| {
        let column = clause.start.checked_sub(2).and_then(|at| tokens.get(at));
        column.is_some_and(|column| position(sql, column.start) == last_column)
    };
    let Some(clause) = clauses(sql, &tokens).into_iter().find(behind) else {
        return Vec::new();
    };
    let inner = &tokens[clause.start + 2..clause.end - 1];
    let names = inner.iter().filter_map(|token| match token.kind {
        Kind::Word => Some(token.text(sql).to_lowercase()),
        Kind::QuotedIdent => {
            let text = token.text(sql);
            Some(text[1..text.len() - 1].replace("\"\"", "\""))
        }
        _ => None,
    });
    names.collect()
}
