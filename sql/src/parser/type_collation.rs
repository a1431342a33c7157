//! `ALTER COLUMN … TYPE … COLLATE name`, which sqlparser does not read. It is blanked out and later
//! found again by the column's name.

use std::ops::Range;

use super::cursor::Cursor;
use super::lexer::{self, Kind, Token};

/// The COLLATE of a column's new type.
pub(super) struct TypeCollation {
    pub(super) tokens: Range<usize>,
    column: String,
    name: (Option<String>, String),
}

/// Returns all such clauses of an ALTER TABLE.
pub(super) fn found(text: &str, tokens: &[Token]) -> Vec<TypeCollation> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let mut all = Vec::new();
    if !(is(0, "alter") && is(1, "table")) {
        return all;
    }
    for i in (3..tokens.len()).filter(|i| is(*i, "type")) {
        let data = is(i - 1, "data") && is(i - 2, "set");
        let at = if data { i - 3 } else { i - 1 };
        let mut behind = i + 1..tokens.len();
        let ends = |i: usize| tokens[i].kind == Kind::Comma || is(i, "using");
        // A comma in parentheses belongs to a type modifier.
        let mut depth = 0usize;
        let collate = behind.find(|i| {
            match tokens[*i].kind {
                Kind::Open => depth += 1,
                Kind::Close => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0 && (ends(*i) || is(*i, "collate"))
        });
        let Some(collate) = collate.filter(|i| is(*i, "collate")) else {
            continue;
        };
        let column = Cursor::new(text, &tokens[at..]).identifier();
        let name = Cursor::new(text, &tokens[collate + 1..]).qualified();
        if let (Ok(column), Ok(name)) = (column, name) {
            let length = if name.0.is_some() { 4 } else { 2 };
            all.push(TypeCollation {
                tokens: collate..collate + length,
                column,
                name,
            });
        }
    }
    all
}

/// Returns the collation of a column's new type in an ALTER TABLE: schema and name.
pub(crate) fn type_collation(sql: &str, column: &str) -> Option<(Option<String>, String)> {
    let tokens = lexer::tokens(sql).ok()?;
    let mut all = found(sql, &tokens).into_iter();
    all.find(|of| of.column == column).map(|of| of.name)
}
