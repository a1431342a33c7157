//! CREATE and DROP SCHEMA.

use super::super::cursor::Cursor;
use super::super::lexer::Kind;
use super::role::role;
use crate::bound::{CreateSchema, DropSchema, RoleRef, Statement};
use crate::error::SqlError;

/// The statement behind CREATE, ALTER or DROP, if it is about schemas.
pub(super) fn parse(word: &str, c: &mut Cursor<'_>) -> Result<Option<Statement>, SqlError> {
    if !c.accept("schema") {
        return Ok(None);
    }
    match word {
        "create" => create(c).map(Some),
        "drop" => drop(c).map(Some),
        _ => Err(SqlError::unsupported("ALTER SCHEMA")),
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
    if c.peek().is_some_and(|token| token.kind == Kind::Word) {
        return Err(SqlError::unsupported("CREATE SCHEMA with what is in it"));
    }
    Ok(Statement::CreateSchema(CreateSchema {
        name,
        if_not_exists,
        owner,
    }))
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
