//! CREATE, ALTER and DROP EXTENSION.

use super::super::cursor::Cursor;
use super::super::lexer::Kind;
use crate::bound::{AlterExtension, CreateExtension, DropExtension, ExtensionChange, Statement};
use crate::error::{SqlError, SqlState};

/// Parses the statement after CREATE, ALTER or DROP, if it concerns extensions.
pub(super) fn parse(word: &str, c: &mut Cursor<'_>) -> Result<Option<Statement>, SqlError> {
    if !c.accept("extension") {
        return Ok(None);
    }
    match word {
        "create" => create(c),
        "drop" => drop(c),
        _ => alter(c),
    }
    .map(Some)
}

/// Reads a version, which is a string or a name.
fn version(c: &mut Cursor<'_>) -> Result<String, SqlError> {
    match c.peek() {
        Some(token) if token.kind == Kind::Word => c.identifier(),
        _ => c.string(),
    }
}

fn create(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let if_not_exists = c.accept_all(&["if", "not", "exists"]);
    let name = c.identifier()?;
    c.accept("with");
    let (mut schema, mut of_version, mut cascade) = (None, None, false);
    while let Some(token) = c.peek() {
        let twice = if c.accept("schema") {
            schema.replace(c.identifier()?).is_some()
        } else if c.accept("version") {
            of_version.replace(version(c)?).is_some()
        } else if c.accept("cascade") {
            // CASCADE has no effect: no extension requires another.
            std::mem::replace(&mut cascade, true)
        } else if c.accept("from") {
            return Err(SqlError::unsupported("CREATE EXTENSION ... FROM"));
        } else {
            break;
        };
        if twice {
            let message = "conflicting or redundant options";
            let error = SqlError::new(SqlState::SYNTAX_ERROR, message);
            return Err(error.at(u32::try_from(token.start + 1).unwrap_or(0)));
        }
    }
    Ok(Statement::CreateExtension(CreateExtension {
        name,
        if_not_exists,
        schema,
        version: of_version,
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
    Ok(Statement::DropExtension(DropExtension {
        names,
        if_exists,
        cascade,
    }))
}

fn alter(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let name = c.identifier()?;
    let change = if c.accept("update") {
        let to = c.accept("to").then(|| version(c)).transpose()?;
        ExtensionChange::Update(to)
    } else if c.accept_all(&["set", "schema"]) {
        ExtensionChange::Schema(c.identifier()?)
    } else if c.sees("add") || c.sees("drop") {
        return Err(SqlError::unsupported("ALTER EXTENSION ADD and DROP"));
    } else {
        return Err(c.unexpected());
    };
    Ok(Statement::AlterExtension(AlterExtension { name, change }))
}
