//! The statements that are parsed without sqlparser: transaction control, settings, PREPARE, COPY,
//! EXPLAIN, DDL of many objects, and PostgreSQL's maintenance commands.

mod absent;
mod composite;
mod cursor;
mod database;
mod domain;
mod explain;
mod extension;
mod maintenance;
mod role;
mod routine;
mod schema;
mod security;
mod sequence;
mod settings;
mod transaction;
mod trigger;
mod user_type;

pub use maintenance::{MaintenanceCommand, MaintenanceSyntax, MaintenanceTarget};
pub(crate) use security::privilege_of;
pub(super) use sequence::{changed as changed_sequence, new_options as sequence_options};

use super::cursor::Cursor;
use super::lexer::{Kind, Token};
use super::{PrepareSyntax, Statement, copy, lexer, syntax};
use crate::bound::{self, DiscardKind};
use crate::error::{SqlError, SqlState};
use crate::notify::{ListenChange, Notification};

/// Parses the statement if it is one of these; otherwise returns `None`.
pub(super) fn parse(text: &str, tokens: &[Token]) -> Result<Option<Statement>, SqlError> {
    let Some(first) = tokens.first().filter(|t| t.kind == Kind::Word) else {
        return Ok(None);
    };
    let mut cursor = Cursor::new(text, tokens);
    let word = first.text(text).to_ascii_lowercase();
    cursor.next_token();
    let c = &mut cursor;
    if let Some(statement) = trigger::parse(&word, c)? {
        return Ok(Some(statement));
    }
    if let Some(statement) = security::parse(&word, c)? {
        return Ok(Some(statement));
    }
    if let Some(statement) = composite::parse(&word, c)? {
        return Ok(Some(statement));
    }
    if let Some(statement) = domain::parse(&word, c)? {
        return Ok(Some(statement));
    }
    if let Some(statement) = absent::parse(&word, c)? {
        return Ok(Some(Statement::Ready(Box::new(statement))));
    }
    if matches!(word.as_str(), "create" | "alter" | "drop")
        && let Some(statement) = routine::parse(&word, c)?
    {
        return Ok(Some(statement));
    }
    if let Some(command) = maintenance::parse(&word, c)? {
        return Ok(Some(Statement::Maintenance(Box::new(command))));
    }
    let statement = match word.as_str() {
        "begin" | "start" | "commit" | "end" | "rollback" | "abort" | "savepoint" | "release" => {
            transaction::parse(&word, c)?
        }
        "set" | "show" | "reset" => settings::parse(&word, c)?,
        "alter" if c.accept("system") => system(c)?,
        "create" | "alter" | "drop" => match definition(&word, c)? {
            Some(statement) => statement,
            None => return Ok(None),
        },
        "copy" => return Ok(Some(Statement::Copy(Box::new(copy::parse(c)?)))),
        "refresh" => {
            let syntax = super::materialized::refresh(c)?;
            return Ok(Some(Statement::Refresh(Box::new(syntax))));
        }
        "call" => return routine::call(c).map(Some),
        "do" => routine::anonymous(c)?,
        "explain" => return explain::parse(c).map(Some),
        "prepare" => {
            let syntax = prepare(c)?;
            cursor.end()?;
            return Ok(Some(Statement::Prepare(Box::new(syntax))));
        }
        "deallocate" => {
            c.accept("prepare");
            bound::Statement::Deallocate(all_or_name(c)?)
        }
        "discard" => discard(c)?,
        "declare" => return cursor::declare(c).map(Some),
        "fetch" | "move" => cursor::fetch(c, word == "move")?,
        "close" => bound::Statement::Close(all_or_name(c)?),
        "checkpoint" => bound::Statement::Checkpoint,
        "unlisten" => {
            let all = c.accept_operator("*");
            bound::Statement::Listen(match all {
                true => ListenChange::ToNothing,
                false => ListenChange::NoMore(c.identifier()?),
            })
        }
        "listen" => bound::Statement::Listen(ListenChange::To(c.identifier()?)),
        "notify" => {
            let channel = c.identifier()?;
            let payload = match c.accept_kind(Kind::Comma) {
                Some(_) => c.string()?,
                None => String::new(),
            };
            bound::Statement::Notify(Notification { channel, payload })
        }
        _ => return Ok(None),
    };
    cursor.end()?;
    Ok(Some(Statement::Ready(Box::new(statement))))
}

/// Parses the statement after CREATE, ALTER or DROP, if it is one of these.
fn definition(word: &str, c: &mut Cursor<'_>) -> Result<Option<bound::Statement>, SqlError> {
    for parse in [
        role::parse,
        database::parse,
        sequence::parse,
        schema::parse,
        extension::parse,
        user_type::parse,
    ] {
        if let Some(statement) = parse(word, c)? {
            return Ok(Some(statement));
        }
    }
    Ok(None)
}

/// Skips all remaining tokens.
fn skip(cursor: &mut Cursor<'_>) {
    while cursor.next_token().is_some() {}
}

/// Parses `ALTER SYSTEM SET …`, `ALTER SYSTEM RESET …`, `ALTER SYSTEM DRAIN MACHINE n` and `ALTER
/// SYSTEM REMOVE MACHINE n`.
fn system(cursor: &mut Cursor<'_>) -> Result<bound::Statement, SqlError> {
    let statement = match () {
        () if cursor.accept("drain") => bound::Statement::DrainMachine,
        () if cursor.accept("remove") => bound::Statement::RemoveMachine,
        () if cursor.sees("set") || cursor.sees("reset") => return settings::system(cursor),
        () => return Err(cursor.unexpected()),
    };
    cursor.expect("machine")?;
    let number = cursor.expect_kind(Kind::Integer)?;
    let number = number.text(cursor.sql).parse();
    number.map(statement).map_err(|_| {
        SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "the number of a machine is a positive integer",
        )
    })
}

fn all_or_name(cursor: &mut Cursor<'_>) -> Result<Option<String>, SqlError> {
    if cursor.accept("all") {
        return Ok(None);
    }
    cursor.identifier().map(Some)
}

fn discard(cursor: &mut Cursor<'_>) -> Result<bound::Statement, SqlError> {
    for (word, kind) in [
        ("all", DiscardKind::All),
        ("plans", DiscardKind::Plans),
        ("sequences", DiscardKind::Sequences),
        ("temp", DiscardKind::Temp),
        ("temporary", DiscardKind::Temp),
    ] {
        if cursor.accept(word) {
            return Ok(bound::Statement::Discard(kind));
        }
    }
    Err(cursor.unexpected())
}

/// Parses `PREPARE name [(types)] AS statement`.
fn prepare(cursor: &mut Cursor<'_>) -> Result<PrepareSyntax, SqlError> {
    if cursor.sees("transaction") {
        return Err(SqlError::unsupported("PREPARE TRANSACTION"));
    }
    let name = cursor.identifier()?;
    let mut types = Vec::new();
    if cursor.peek().is_some_and(|t| t.kind == Kind::Open) {
        let (start, end) = cursor.bracketed()?;
        let list = cursor.sql.get(start..end).unwrap_or("");
        for text in top_level_parts(list)? {
            let tokens = lexer::tokens(text)?;
            types.push(syntax::data_type(text, &tokens)?);
        }
    }
    cursor.expect("as")?;
    let text = cursor.rest().to_owned();
    if text.is_empty() {
        return Err(cursor.unexpected());
    }
    skip(cursor);
    Ok(PrepareSyntax { name, types, text })
}

/// Splits a list at the commas outside parentheses.
pub(super) fn top_level_parts(list: &str) -> Result<Vec<&str>, SqlError> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0usize, 0);
    for token in lexer::tokens(list)? {
        match token.kind {
            Kind::Open => depth += 1,
            Kind::Close => depth = depth.saturating_sub(1),
            Kind::Comma if depth == 0 => {
                parts.push(&list[start..token.start]);
                start = token.end;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    Ok(parts)
}
