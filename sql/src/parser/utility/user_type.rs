//! CREATE, ALTER and DROP TYPE.

use super::super::cursor::Cursor;
use super::super::lexer::Kind;
use crate::bound::{AlterType, AlterTypeAction, CreateEnum, DropType, Statement};
use crate::error::SqlError;

/// Parses the statement after CREATE, ALTER or DROP, if it concerns types.
pub(super) fn parse(word: &str, c: &mut Cursor<'_>) -> Result<Option<Statement>, SqlError> {
    if word == "drop" && c.accept("domain") {
        return drop(c, true).map(Some);
    }
    if !c.accept("type") {
        return Ok(None);
    }
    Ok(Some(match word {
        "create" => create(c)?,
        "alter" => alter(c)?,
        _ => drop(c, false)?,
    }))
}

fn create(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let (schema, name) = c.qualified()?;
    if !c.accept("as") {
        return Err(SqlError::unsupported("CREATE TYPE of a base type"));
    }
    if !c.accept("enum") {
        return Err(SqlError::unsupported(match c.accept("range") {
            true => "CREATE TYPE AS RANGE",
            false => "CREATE TYPE of a composite type",
        }));
    }
    let mut labels = Vec::new();
    c.expect_kind(Kind::Open)?;
    if c.accept_kind(Kind::Close).is_none() {
        labels.push(c.string()?);
        while c.accept_kind(Kind::Comma).is_some() {
            labels.push(c.string()?);
        }
        c.expect_kind(Kind::Close)?;
    }
    Ok(Statement::CreateEnum(CreateEnum {
        schema,
        name,
        labels,
    }))
}

fn alter(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let (schema, name) = c.qualified()?;
    let action = if c.accept_all(&["add", "value"]) {
        let if_not_exists = c.accept_all(&["if", "not", "exists"]);
        let label = c.string()?;
        let after = c.sees("after");
        let beside = match after || c.sees("before") {
            true => {
                c.next_token();
                Some((after, c.string()?))
            }
            false => None,
        };
        AlterTypeAction::AddValue {
            label,
            if_not_exists,
            beside,
        }
    } else if c.accept_all(&["rename", "value"]) {
        let from = c.string()?;
        c.expect("to")?;
        let to = c.string()?;
        AlterTypeAction::RenameValue { from, to }
    } else if c.accept_all(&["rename", "to"]) {
        AlterTypeAction::Rename(c.identifier()?)
    } else if c.accept_all(&["set", "schema"]) {
        AlterTypeAction::SetSchema(c.identifier()?)
    } else if c.sees("add") || c.sees("drop") || c.sees("alter") || c.sees_all(&["rename"]) {
        return Err(SqlError::unsupported("ALTER TYPE of a composite type"));
    } else {
        return Err(c.unexpected());
    };
    Ok(Statement::AlterType(AlterType {
        schema,
        name,
        action,
    }))
}

fn drop(c: &mut Cursor<'_>, domain: bool) -> Result<Statement, SqlError> {
    let if_exists = c.accept_all(&["if", "exists"]);
    let mut names = vec![c.qualified()?];
    while c.accept_kind(Kind::Comma).is_some() {
        names.push(c.qualified()?);
    }
    let cascade = c.accept("cascade");
    if !cascade {
        c.accept("restrict");
    }
    Ok(Statement::DropType(DropType {
        names,
        if_exists,
        cascade,
        domain,
    }))
}
