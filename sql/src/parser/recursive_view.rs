//! `CREATE RECURSIVE VIEW v (a, b) AS query`. It means `CREATE VIEW v AS WITH RECURSIVE v (a, b) AS
//! (query) SELECT a, b FROM v`.

use super::cursor::Cursor;
use super::lexer::{Kind, Token};
use crate::error::SqlError;
use crate::functions::quote_ident;

/// Rewrites the statement without RECURSIVE; returns `None` for any other statement.
pub(super) fn plain(text: &str, tokens: &[Token]) -> Result<Option<String>, SqlError> {
    let mut c = Cursor::new(text, tokens);
    if !c.accept("create") {
        return Ok(None);
    }
    c.accept_all(&["or", "replace"]);
    let _ = c.accept("temp") || c.accept("temporary");
    let Some(recursive) = c.peek().filter(|_| c.sees_all(&["recursive", "view"])) else {
        return Ok(None);
    };
    c.accept_all(&["recursive", "view"]);
    let first = c.peek().map_or(recursive.end, |token| token.start);
    let (_, name) = c.qualified()?;
    let behind = c.peek().map_or(text.len(), |token| token.start);
    c.expect_kind(Kind::Open)?;
    let mut columns = Vec::new();
    loop {
        columns.push(quote_ident(&c.identifier()?));
        if c.accept_kind(Kind::Comma).is_none() {
            break;
        }
    }
    c.expect_kind(Kind::Close)?;
    c.expect("as")?;
    let (columns, name) = (columns.join(", "), quote_ident(&name));
    let query = c.peek().and_then(|token| text.get(token.start..));
    let Some(query) = query else {
        return Err(c.unexpected());
    };
    let start = text.get(..recursive.start).unwrap_or("");
    let view = text.get(first..behind).unwrap_or("");
    Ok(Some(format!(
        "{start}VIEW {view} AS WITH RECURSIVE {name} ({columns}) AS ({query}) SELECT {columns} \
         FROM {name}"
    )))
}
