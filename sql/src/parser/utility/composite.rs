//! CREATE TYPE … AS (…) and ALTER TYPE … ATTRIBUTE.

use sqlparser::ast;

use super::super::composite::{AttributeSyntax, CompositeAction, CompositeSyntax};
use super::super::cursor::Cursor;
use super::super::lexer::{self, Kind, Token};
use super::super::{Statement, syntax};
use crate::error::SqlError;

/// The words that end a type.
const ENDS: [&str; 3] = ["collate", "cascade", "restrict"];

/// Parses the statement after CREATE or ALTER, if it concerns a composite type.
pub(super) fn parse(word: &str, c: &mut Cursor<'_>) -> Result<Option<Statement>, SqlError> {
    if !c.sees("type") || !is_composite(word, c) {
        return Ok(None);
    }
    c.expect("type")?;
    let (schema, name) = c.qualified()?;
    let does = match word {
        "create" => CompositeAction::Create(create(c)?),
        _ => CompositeAction::Alter(alter(c)?),
    };
    c.end()?;
    let syntax = CompositeSyntax { schema, name, does };
    Ok(Some(Statement::Composite(Box::new(syntax))))
}

/// Returns whether attributes follow the name of the type.
fn is_composite(word: &str, c: &Cursor<'_>) -> bool {
    let kind = |n: usize, kind: Kind| c.peek_after(n).is_some_and(|t| t.kind == kind);
    let is = |n: usize, word: &str| c.peek_after(n).is_some_and(|t| t.is(c.sql, word));
    let behind = if kind(2, Kind::Dot) { 4 } else { 2 };
    match word {
        "create" => is(behind, "as") && kind(behind + 1, Kind::Open),
        "alter" => is(behind + 1, "attribute"),
        _ => false,
    }
}

fn create(c: &mut Cursor<'_>) -> Result<Vec<(String, ast::DataType)>, SqlError> {
    let mut attributes = Vec::new();
    c.expect("as")?;
    c.expect_kind(Kind::Open)?;
    if c.accept_kind(Kind::Close).is_some() {
        return Ok(attributes);
    }
    loop {
        attributes.push((c.identifier()?, data_type(c)?));
        if c.accept_kind(Kind::Comma).is_none() {
            break;
        }
    }
    c.expect_kind(Kind::Close)?;
    Ok(attributes)
}

/// Reads a type and its collation.
fn data_type(c: &mut Cursor<'_>) -> Result<ast::DataType, SqlError> {
    let ends = |sql: &str, token: &Token| {
        matches!(token.kind, Kind::Comma | Kind::Close)
            || ENDS.iter().any(|word| token.is(sql, word))
    };
    let unexpected = c.unexpected();
    let text = c.text_until(&ends);
    if text.is_empty() {
        return Err(unexpected);
    }
    if c.accept("collate") {
        let (_, name) = c.qualified()?;
        if !matches!(name.as_str(), "C" | "POSIX" | "default" | "ucs_basic") {
            return Err(SqlError::unsupported(format!("collation {name}")));
        }
    }
    syntax::data_type(text, &lexer::tokens(text)?)
}

fn alter(c: &mut Cursor<'_>) -> Result<Vec<AttributeSyntax>, SqlError> {
    let mut changes = Vec::new();
    loop {
        let change = if c.accept_all(&["add", "attribute"]) {
            AttributeSyntax::Add(c.identifier()?, data_type(c)?)
        } else if c.accept_all(&["drop", "attribute"]) {
            let if_exists = c.accept_all(&["if", "exists"]);
            AttributeSyntax::Drop(c.identifier()?, if_exists)
        } else if c.accept_all(&["alter", "attribute"]) {
            let name = c.identifier()?;
            c.accept_all(&["set", "data"]);
            c.expect("type")?;
            AttributeSyntax::Type(name, data_type(c)?)
        } else if changes.is_empty() && c.accept_all(&["rename", "attribute"]) {
            let from = c.identifier()?;
            c.expect("to")?;
            AttributeSyntax::Rename(from, c.identifier()?)
        } else {
            return Err(c.unexpected());
        };
        let renames = matches!(change, AttributeSyntax::Rename(..));
        changes.push(change);
        if !c.accept("cascade") {
            c.accept("restrict");
        }
        if renames || c.accept_kind(Kind::Comma).is_none() {
            return Ok(changes);
        }
    }
}
