//! CREATE, ALTER and DROP SCHEMA.

use super::super::cursor::Cursor;
use super::super::lexer::{Kind, Token};
use super::role::role;
use crate::bound::{CreateSchema, DropSchema, RenameSchema, RoleRef, Statement};
use crate::error::{SqlError, SqlState};
use crate::order::StableSort;

/// The kinds of schema elements of CREATE SCHEMA, in the order of their creation.
const ELEMENTS: [&str; 6] = ["sequence", "table", "view", "index", "trigger", "grant"];

/// The words that can stand between CREATE and such a word.
const BETWEEN: [&str; 9] = [
    "or",
    "replace",
    "temp",
    "temporary",
    "local",
    "global",
    "unlogged",
    "unique",
    "recursive",
];

/// Parses the statement after CREATE, ALTER or DROP, if it concerns schemas.
pub(super) fn parse(word: &str, c: &mut Cursor<'_>) -> Result<Option<Statement>, SqlError> {
    if !c.accept("schema") {
        return Ok(None);
    }
    match word {
        "create" => create(c).map(Some),
        "drop" => drop(c).map(Some),
        _ => {
            let name = c.identifier()?;
            c.expect("rename")?;
            c.expect("to")?;
            let to = c.identifier()?;
            Ok(Some(Statement::RenameSchema(RenameSchema { name, to })))
        }
    }
}

fn create(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let if_not_exists = c.accept_all(&["if", "not", "exists"]);
    let mut name = None;
    if !c.sees("authorization") {
        name = Some(c.identifier()?);
    }
    let mut owner = None;
    if c.accept("authorization") {
        let role = role(c)?.0;
        if let RoleRef::Named(role) = &role {
            name.get_or_insert_with(|| role.clone());
        }
        owner = Some(role);
    }
    let mut elements = Vec::new();
    while c.peek().is_some() {
        elements.push(element(c)?);
    }
    if if_not_exists && !elements.is_empty() {
        let message = "CREATE SCHEMA IF NOT EXISTS cannot include schema elements";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    elements.order_by_key(|(place, _)| *place);
    Ok(Statement::CreateSchema(CreateSchema {
        name,
        if_not_exists,
        owner,
        elements: elements.into_iter().map(|(_, text)| text).collect(),
    }))
}

/// Reads one schema element up to the next, and returns its rank in the order of creation.
fn element(c: &mut Cursor<'_>) -> Result<(usize, String), SqlError> {
    let kind = match c.sees("grant") {
        true => c.peek(),
        false if c.sees("create") => {
            let between = |token: &Token| BETWEEN.iter().any(|word| token.is(c.sql, word));
            let mut behind = (1..).map_while(|n| c.peek_after(n));
            behind.find(|token| !between(token))
        }
        false => None,
    };
    let place = kind.and_then(|kind| ELEMENTS.iter().position(|word| kind.is(c.sql, word)));
    let Some(place) = place else {
        return Err(c.unexpected());
    };
    let first = c.next_token().map_or(0, |token| token.start);
    let mut before = "";
    let mut end = first;
    let mut depth = 0usize;
    while let Some(token) = c.peek() {
        // The GRANT of `WITH GRANT OPTION` begins no element.
        let begins = token.is(c.sql, "create")
            || (token.is(c.sql, "grant") && !before.eq_ignore_ascii_case("with"));
        if begins && depth == 0 {
            break;
        }
        match token.kind {
            Kind::Open => depth += 1,
            Kind::Close => depth = depth.saturating_sub(1),
            _ => {}
        }
        (before, end) = (token.text(c.sql), token.end);
        c.next_token();
    }
    Ok((place, c.sql.get(first..end).unwrap_or("").to_owned()))
}

fn drop(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let if_exists = c.accept_all(&["if", "exists"]);
    let mut names = vec![c.identifier()?];
    while c.accept_kind(Kind::Comma).is_some() {
        names.push(c.identifier()?);
    }
    let cascade = c.accept("cascade");
    if !cascade {
        c.accept("restrict");
    }
    Ok(Statement::DropSchema(DropSchema {
        names,
        if_exists,
        cascade,
    }))
}
