//! What sqlparser does not know of materialized views: REFRESH, ALTER, and `WITH [NO] DATA`, which CREATE TABLE AS may
//! say, too.

use std::ops::Range;

use super::cursor::Cursor;
use super::lexer::{self, Token};
use crate::error::SqlError;

/// REFRESH MATERIALIZED VIEW.
#[derive(Debug)]
pub struct RefreshSyntax {
    /// CONCURRENTLY.
    pub concurrently: bool,
    /// Its schema.
    pub schema: Option<String>,
    /// Its name.
    pub name: String,
    /// Not WITH NO DATA.
    pub with_data: bool,
}

/// Behind REFRESH.
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

/// The tokens of `WITH [NO] DATA` at the end of a CREATE … AS, and whether it is WITH DATA.
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

/// Whether a CREATE … AS says WITH DATA, or WITH NO DATA (false).
pub(crate) fn data_clause(sql: &str) -> Option<bool> {
    let tokens = lexer::tokens(sql).ok()?;
    data_clause_at(sql, &tokens).map(|(_, with_data)| with_data)
}

/// The words of ALTER MATERIALIZED VIEW behind the first: sqlparser is given ALTER TABLE.
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

/// Is it ALTER MATERIALIZED VIEW?
pub(crate) fn alters_materialized(sql: &str) -> bool {
    let tokens = lexer::tokens(sql);
    tokens.is_ok_and(|tokens| altered(sql, &tokens).is_some())
}
