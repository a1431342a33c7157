//! The statements we read ourselves: transaction control, settings, PREPARE, COPY, EXPLAIN, and
//! those that PostgreSQL has for maintenance, which are accepted.

mod role;
mod schema;
mod sequence;
mod settings;
mod transaction;

pub(super) use sequence::new_options as sequence_options;

use super::cursor::Cursor;
use super::lexer::{Kind, Token};
use super::{Statement, copy, lexer, parse_one, syntax};
use crate::bound::{self, DiscardKind};
use crate::error::{SqlError, SqlState};

/// The statement's tree if it is one of ours.
pub(super) fn parse(text: &str, tokens: &[Token]) -> Result<Option<Statement>, SqlError> {
    let Some(first) = tokens.first().filter(|t| t.kind == Kind::Word) else {
        return Ok(None);
    };
    let mut cursor = Cursor::new(text, tokens);
    let word = first.text(text).to_ascii_lowercase();
    cursor.next_token();
    let c = &mut cursor;
    let statement = match word.as_str() {
        "begin" | "start" | "commit" | "end" | "rollback" | "abort" | "savepoint" | "release" => {
            transaction::parse(&word, c)?
        }
        "set" | "show" | "reset" => settings::parse(&word, c)?,
        "alter" if c.accept("system") => machine(c)?,
        "create" | "alter" | "drop" => match role::parse(&word, c)? {
            Some(statement) => statement,
            None => match sequence::parse(&word, c)? {
                Some(statement) => statement,
                None => match schema::parse(&word, c)? {
                    Some(statement) => statement,
                    None => return Ok(None),
                },
            },
        },
        "copy" => return Ok(Some(Statement::Copy(Box::new(copy::parse(c)?)))),
        "explain" => return explain(c).map(Some),
        "prepare" => prepare(c)?,
        "deallocate" => {
            c.accept("prepare");
            bound::Statement::Deallocate(all_or_name(c)?)
        }
        "discard" => discard(c)?,
        "close" => bound::Statement::Close(all_or_name(c)?),
        "checkpoint" => bound::Statement::Checkpoint,
        "vacuum" => {
            skip(c);
            bound::Statement::Vacuum
        }
        "analyze" | "analyse" => {
            skip(c);
            bound::Statement::Analyze
        }
        "lock" => {
            skip(c);
            bound::Statement::LockTable
        }
        "unlisten" => {
            if !c.accept_operator("*") {
                c.identifier()?;
            }
            bound::Statement::Unlisten
        }
        "move" | "fetch" | "declare" | "do" | "listen" | "notify" | "reindex" | "cluster" => {
            return Err(SqlError::unsupported(word.to_ascii_uppercase()));
        }
        _ => return Ok(None),
    };
    cursor.end()?;
    Ok(Some(Statement::Ready(Box::new(statement))))
}

/// The options and tables of a statement that changes nothing here.
fn skip(cursor: &mut Cursor<'_>) {
    while cursor.next_token().is_some() {}
}

/// `ALTER SYSTEM DRAIN MACHINE n`, `ALTER SYSTEM REMOVE MACHINE n`
fn machine(cursor: &mut Cursor<'_>) -> Result<bound::Statement, SqlError> {
    let statement = match () {
        () if cursor.accept("drain") => bound::Statement::DrainMachine,
        () if cursor.accept("remove") => bound::Statement::RemoveMachine,
        () if cursor.sees("set") || cursor.sees("reset") => {
            return Err(SqlError::unsupported("ALTER SYSTEM SET"));
        }
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

/// `PREPARE name [(types)] AS statement`
fn prepare(cursor: &mut Cursor<'_>) -> Result<bound::Statement, SqlError> {
    if cursor.sees("transaction") {
        return Err(SqlError::unsupported("PREPARE TRANSACTION"));
    }
    let name = cursor.identifier()?;
    let mut param_types = Vec::new();
    if cursor.peek().is_some_and(|t| t.kind == Kind::Open) {
        let (start, end) = cursor.bracketed()?;
        let list = cursor.sql.get(start..end).unwrap_or("");
        for text in top_level_parts(list)? {
            let tokens = lexer::tokens(text)?;
            let data_type = syntax::data_type(text, &tokens)?;
            param_types.push(crate::binder::type_of(&data_type)?);
        }
    }
    cursor.expect("as")?;
    let text = cursor.rest().to_owned();
    if text.is_empty() {
        return Err(cursor.unexpected());
    }
    skip(cursor);
    Ok(bound::Statement::Prepare {
        name,
        param_types,
        text,
    })
}

/// The parts of a list between the commas outside of brackets.
fn top_level_parts(list: &str) -> Result<Vec<&str>, SqlError> {
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

/// `EXPLAIN [ANALYZE] [VERBOSE] statement` or `EXPLAIN (option [value], …) statement`
fn explain(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let (mut analyze, mut verbose, mut costs) = (false, false, true);
    if cursor.accept_kind(Kind::Open).is_some() {
        loop {
            let option = cursor.identifier()?;
            let value = match cursor.peek().map(|t| t.kind) {
                Some(Kind::Comma | Kind::Close) => None,
                Some(Kind::String) => Some(cursor.string()?),
                _ => {
                    let token = cursor.next_token();
                    token.map(|t| t.text(cursor.sql).to_ascii_lowercase())
                }
            };
            let on = value
                .as_deref()
                .is_none_or(|v| crate::settings::parse_bool(v).unwrap_or(false));
            match option.as_str() {
                "analyze" | "analyse" => analyze = on,
                "verbose" => verbose = on,
                "costs" => costs = on,
                "buffers" | "timing" | "summary" | "settings" | "wal" => {}
                "format" if value.as_deref() == Some("text") => {}
                "format" => return Err(SqlError::unsupported("EXPLAIN with another FORMAT")),
                other => {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        format!("unrecognized EXPLAIN option \"{other}\""),
                    ));
                }
            }
            if cursor.accept_kind(Kind::Comma).is_none() {
                cursor.expect_kind(Kind::Close)?;
                break;
            }
        }
    } else {
        analyze = cursor.accept("analyze") || cursor.accept("analyse");
        verbose = cursor.accept("verbose");
    }
    let rest = cursor.rest();
    let shift = cursor
        .peek()
        .map_or(0, |t| lexer::position(cursor.sql, t.start) - 1);
    let tokens = lexer::tokens(rest)?;
    let explainable = tokens.first().is_some_and(|t| {
        [
            "select", "insert", "update", "delete", "values", "execute", "with", "table",
        ]
        .iter()
        .any(|w| t.is(rest, w))
            || t.kind == Kind::Open
    });
    if !explainable {
        return Err(cursor.unexpected());
    }
    let statement = parse_one(rest, &tokens).map_err(|e| super::shifted(e, shift))?;
    Ok(Statement::Explain {
        analyze,
        verbose,
        costs,
        statement: Box::new(statement),
    })
}
