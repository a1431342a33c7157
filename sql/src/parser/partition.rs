//! `PARTITION BY` of CREATE TABLE, and ATTACH and DETACH PARTITION. PostgreSQL has PARTITION BY
//! before WITH, sqlparser after it. The clause is therefore parsed separately and blanked out for
//! the rest.

use std::ops::Range;

use sqlparser::ast;

use super::cursor::Cursor;
use super::lexer::{Kind, Token, syntax_error};
use super::syntax;
use crate::error::SqlError;

/// A schema and a name.
pub type Name = (Option<String>, String);

/// ATTACH or DETACH PARTITION.
#[derive(Debug)]
pub struct PartitionSyntax {
    /// The partitioned table or index.
    pub parent: Name,
    /// Whether it is an index.
    pub of_index: bool,
    /// IF EXISTS
    pub if_exists: bool,
    /// The partition.
    pub partition: Name,
    /// The change.
    pub change: PartitionChange,
}

/// The change of a partition.
#[derive(Debug)]
pub enum PartitionChange {
    /// ATTACH; an index has no bound.
    Attach(Option<ast::ForValues>),
    /// DETACH
    Detach,
}

/// Parses such a statement; returns `None` for any other.
pub(super) fn alter(text: &str, tokens: &[Token]) -> Result<Option<PartitionSyntax>, SqlError> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let changes = |i: &usize| (is(*i, "attach") || is(*i, "detach")) && is(i + 1, "partition");
    let of_index = is(1, "index");
    let Some(at) = (2..tokens.len()).find(changes) else {
        return Ok(None);
    };
    if !of_index && !is(1, "table") {
        return Ok(None);
    }
    let mut c = Cursor::new(text, &tokens[2..]);
    let if_exists = c.accept_all(&["if", "exists"]);
    c.accept("only");
    let parent = c.qualified()?;
    if c.accept_all(&["detach", "partition"]) {
        let partition = c.qualified()?;
        if c.peek()
            .is_some_and(|t| t.is(text, "concurrently") || t.is(text, "finalize"))
        {
            return Err(SqlError::unsupported("DETACH PARTITION CONCURRENTLY"));
        }
        nothing_left(&c, text)?;
        return Ok(Some(PartitionSyntax {
            parent,
            of_index,
            if_exists,
            partition,
            change: PartitionChange::Detach,
        }));
    }
    if !c.accept_all(&["attach", "partition"]) {
        return Err(syntax_error(text, tokens.get(at).copied()));
    }
    let partition = c.qualified()?;
    let bound = match c.peek() {
        None if of_index => None,
        None => return Err(syntax_error(text, None)),
        Some(first) if of_index => return Err(syntax_error(text, Some(first))),
        Some(first) => {
            let last = tokens.last().map_or(first.end, |last| last.end);
            Some(bound(text, first.start..last, tokens)?)
        }
    };
    Ok(Some(PartitionSyntax {
        parent,
        of_index,
        if_exists,
        partition,
        change: PartitionChange::Attach(bound),
    }))
}

fn nothing_left(c: &Cursor<'_>, text: &str) -> Result<(), SqlError> {
    match c.peek() {
        None => Ok(()),
        token => Err(syntax_error(text, token)),
    }
}

/// Parses `FOR VALUES …` or `DEFAULT` as the clause of a CREATE TABLE, whose text replaces the text
/// before it.
fn bound(text: &str, range: Range<usize>, tokens: &[Token]) -> Result<ast::ForValues, SqlError> {
    const CREATE: &str = "CREATE TABLE a PARTITION OF b ";
    let alone = only(text, range);
    // The blanks of the head, one for each character, keep the columns of errors.
    let head = alone.find(|c: char| !c.is_whitespace()).unwrap_or(0);
    let is_one_line = head >= CREATE.len() && !alone[..head].contains('\n');
    let rest = if is_one_line { CREATE.len() } else { 0 };
    let whole = CREATE.to_owned() + &alone[rest..];
    match syntax::plain_statement(&whole, text, tokens)? {
        ast::Statement::CreateTable(create) => create
            .for_values
            .ok_or_else(|| syntax_error(text, tokens.last().copied())),
        _ => Err(syntax_error(text, tokens.last().copied())),
    }
}

/// Returns the ONLY of a CREATE INDEX … ON ONLY.
pub(super) fn index_only(text: &str, tokens: &[Token]) -> Option<Token> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let creates = is(0, "create") && (is(1, "index") || is(1, "unique"));
    let at = (2..tokens.len()).find(|i| is(*i, "on"))?;
    (creates && is(at + 1, "only")).then(|| tokens[at + 1])
}

/// Returns the tokens of the clause `PARTITION BY strategy (…)`, if the statement has one.
pub(super) fn clause(text: &str, tokens: &[Token]) -> Option<Range<usize>> {
    let is = |i: usize, word: &str| tokens.get(i).is_some_and(|t: &Token| t.is(text, word));
    let creates_table = is(0, "create") && (1..4).any(|i| is(i, "table"));
    if !creates_table {
        return None;
    }
    let mut depth = 0usize;
    for (i, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::Open => depth += 1,
            Kind::Close => depth = depth.saturating_sub(1),
            _ if depth == 0 && is(i, "partition") && is(i + 1, "by") => {
                return Some(i..i + 3 + closed(tokens.get(i + 2..)?)?);
            }
            _ => {}
        }
    }
    None
}

/// Returns the index of the parenthesis that closes the first one.
fn closed(tokens: &[Token]) -> Option<usize> {
    let mut depth = 0usize;
    tokens.iter().position(|token| match token.kind {
        Kind::Open => {
            depth += 1;
            false
        }
        Kind::Close => {
            depth = depth.saturating_sub(1);
            depth == 0
        }
        _ => false,
    })
}

/// Replaces all of `text` except `kept` by blanks; lines and columns stay.
pub(super) fn only(text: &str, kept: Range<usize>) -> String {
    let blank = |part: &str| -> String {
        let of = |c: char| if c == '\n' { '\n' } else { ' ' };
        part.chars().map(of).collect()
    };
    let kept_text = &text[kept.clone()];
    blank(&text[..kept.start]) + kept_text + &blank(&text[kept.end..])
}
