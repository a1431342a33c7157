//! `LIKE table [INCLUDING …]` among the columns of CREATE TABLE. sqlparser reads it only as the
//! sole element.
//!
//! ```text
//! CREATE TABLE t (a int, LIKE u INCLUDING ALL)   becomes   CREATE TABLE t (a int, "$l" x    )
//! ```
//! The binder replaces a column of that name by the LIKE clause at its position.

use std::ops::Range;

use super::cursor::Cursor;
use super::lexer::{self, Kind, Token};
use super::patch::put_padded;
use crate::error::SqlError;

/// The column definition that replaces a LIKE; it is no longer than the shortest LIKE.
const COLUMN: &str = "\"$l\" x";

/// The name of that column.
pub(crate) const MARK: &str = "$l";

/// A LIKE clause: the table and the properties to copy.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LikeSyntax {
    /// The schema and name of the table.
    pub table: (Option<String>, String),
    /// INCLUDING COMMENTS
    pub comments: bool,
    /// INCLUDING CONSTRAINTS
    pub constraints: bool,
    /// INCLUDING DEFAULTS
    pub defaults: bool,
    /// INCLUDING GENERATED
    pub generated: bool,
    /// INCLUDING IDENTITY
    pub identity: bool,
    /// INCLUDING INDEXES
    pub indexes: bool,
}

/// Returns the byte ranges of all LIKE clauses.
pub(super) fn elements(text: &str, tokens: &[Token]) -> Vec<Range<usize>> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let mut found = Vec::new();
    if !is(0, "create") || !(1..4).any(|i| is(i, "table")) {
        return found;
    }
    let (mut depth, mut began) = (0usize, None);
    for (i, token) in tokens.iter().enumerate() {
        let begins = match token.kind {
            Kind::Open => {
                depth += 1;
                depth == 1
            }
            Kind::Close => {
                depth = depth.saturating_sub(1);
                false
            }
            _ => token.kind == Kind::Comma && depth == 1,
        };
        let ends = depth == 0 || (token.kind == Kind::Comma && depth == 1);
        if ends && let Some(from) = began.take() {
            found.push(from..tokens[i - 1].end);
        }
        let named = tokens.get(i + 2);
        let named = named.is_some_and(|t| matches!(t.kind, Kind::Word | Kind::QuotedIdent));
        if begins && is(i + 1, "like") && named {
            began = Some(tokens[i + 1].start);
        }
        // Only the list of columns has LIKE clauses.
        if depth == 0 && token.kind == Kind::Close {
            break;
        }
    }
    found
}

/// Replaces the LIKE clauses by columns.
pub(super) fn apply(patched: &mut String, elements: &[Range<usize>]) {
    for bytes in elements {
        put_padded(patched, bytes.clone(), COLUMN);
    }
}

/// Parses the LIKE clause at a character position of a statement.
pub(crate) fn like_at(sql: &str, position: u32) -> Result<LikeSyntax, SqlError> {
    let tokens = lexer::tokens(sql)?;
    let mut found = elements(sql, &tokens).into_iter();
    let found = found.find(|bytes| lexer::position(sql, bytes.start) == position);
    let bytes = found.ok_or_else(|| SqlError::internal("no LIKE stands there"))?;
    let within = tokens.into_iter().filter(|t| bytes.contains(&t.start));
    let mut c = Cursor::owning(sql, within.collect());
    c.expect("like")?;
    let mut like = LikeSyntax {
        table: c.qualified()?,
        ..LikeSyntax::default()
    };
    while c.peek().is_some() {
        let is = c.accept("including");
        if !is {
            c.expect("excluding")?;
        }
        let options = [
            ("comments", &mut like.comments),
            ("constraints", &mut like.constraints),
            ("defaults", &mut like.defaults),
            ("generated", &mut like.generated),
            ("identity", &mut like.identity),
            ("indexes", &mut like.indexes),
        ];
        if c.accept("all") {
            options.into_iter().for_each(|(_, of)| *of = is);
            continue;
        }
        let mut options = options.into_iter();
        match options.find(|(word, _)| c.accept(word)) {
            Some((_, of)) => *of = is,
            // STORAGE, COMPRESSION and STATISTICS have no effect here.
            None if ["storage", "compression", "statistics"]
                .iter()
                .any(|word| c.accept(word)) => {}
            None => return Err(c.unexpected()),
        }
    }
    Ok(like)
}
