//! Syntax of materialized views that sqlparser does not read: REFRESH, ALTER, and `WITH [NO] DATA`,
//! which CREATE TABLE AS can have, too.

use std::ops::Range;

use super::cursor::Cursor;
use super::lexer::{self, Token};
use crate::error::SqlError;

/// REFRESH MATERIALIZED VIEW.
#[derive(Debug)]
pub struct RefreshSyntax {
    /// CONCURRENTLY
    pub concurrently: bool,
    /// The schema, if it is named.
    pub schema: Option<String>,
    /// The name.
    pub name: String,
    /// False for WITH NO DATA.
    pub with_data: bool,
}

/// Parses the statement after REFRESH.
pub(super) fn refresh(c: &mut Cursor<'_>) -> Result<RefreshSyntax, SqlError> {
    c.expect("materialized")?;
    c.expect("view")?;
    let concurrently = c.accept("concurrently");
    let (schema, name) = c.qualified()?;
    let with_data = !c.accept_all(&["with", "no", "data"]);
    if with_data {
        c.accept_all(&["with", "data"]);
    }
    c.end()?;
    Ok(RefreshSyntax {
        concurrently,
        schema,
        name,
        with_data,
    })
}

/// Returns the token range of `WITH [NO] DATA` at the end of a CREATE … AS, and true for WITH DATA.
pub(super) fn data_clause_at(text: &str, tokens: &[Token]) -> Option<(Range<usize>, bool)> {
    let ends = |words: &[&str]| {
        let start = tokens.len().checked_sub(words.len())?;
        let mut all = tokens[start..].iter().zip(words);
        all.all(|(token, word)| token.is(text, word))
            .then_some(start..tokens.len())
    };
    let creates = tokens.first().is_some_and(|first| first.is(text, "create"))
        && tokens.iter().any(|token| token.is(text, "as"));
    if !creates {
        return None;
    }
    let without = || ends(&["with", "no", "data"]).map(|at| (at, false));
    ends(&["with", "data"])
        .map(|at| (at, true))
        .or_else(without)
}

/// Returns true if a CREATE … AS ends with WITH DATA, false for WITH NO DATA.
pub(crate) fn data_clause(sql: &str) -> Option<bool> {
    let tokens = lexer::tokens(sql).ok()?;
    data_clause_at(sql, &tokens).map(|(_, with_data)| with_data)
}

/// Returns the words MATERIALIZED VIEW of an ALTER MATERIALIZED VIEW. sqlparser reads it as ALTER
/// TABLE.
pub(super) fn altered<'t>(text: &str, tokens: &'t [Token]) -> Option<[&'t Token; 2]> {
    match tokens {
        [alter, materialized, view, ..]
            if alter.is(text, "alter")
                && materialized.is(text, "materialized")
                && view.is(text, "view") =>
        {
            Some([materialized, view])
        }
        _ => None,
    }
}

/// Returns whether the statement is ALTER MATERIALIZED VIEW.
pub(crate) fn alters_materialized(sql: &str) -> bool {
    let tokens = lexer::tokens(sql);
    tokens.is_ok_and(|tokens| altered(sql, &tokens).is_some())
}
