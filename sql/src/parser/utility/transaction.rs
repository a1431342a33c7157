//! BEGIN, COMMIT, ROLLBACK, savepoints, and transaction modes.

use super::super::cursor::Cursor;
use super::super::lexer::Kind;
use crate::bound::{Isolation, Statement, TransactionModes};
use crate::error::SqlError;

pub(super) fn parse(word: &str, c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    match word {
        "start" => {
            c.expect("transaction")?;
            Ok(Statement::Begin {
                start: true,
                modes: modes(c)?,
            })
        }
        "begin" => {
            noise(c);
            Ok(Statement::Begin {
                start: false,
                modes: modes(c)?,
            })
        }
        "commit" | "end" => {
            if c.sees("prepared") {
                return Err(SqlError::unsupported("COMMIT PREPARED"));
            }
            noise(c);
            Ok(Statement::Commit { chain: chain(c)? })
        }
        "rollback" | "abort" => {
            if c.sees("prepared") {
                return Err(SqlError::unsupported("ROLLBACK PREPARED"));
            }
            noise(c);
            if word == "rollback" && c.accept("to") {
                c.accept("savepoint");
                return Ok(Statement::RollbackTo(c.identifier()?));
            }
            Ok(Statement::Rollback { chain: chain(c)? })
        }
        "savepoint" => Ok(Statement::Savepoint(c.identifier()?)),
        _ => {
            c.accept("savepoint");
            Ok(Statement::Release(c.identifier()?))
        }
    }
}

fn noise(c: &mut Cursor<'_>) {
    if !c.accept("work") {
        c.accept("transaction");
    }
}

fn chain(c: &mut Cursor<'_>) -> Result<bool, SqlError> {
    if !c.accept("and") {
        return Ok(false);
    }
    let no = c.accept("no");
    c.expect("chain")?;
    Ok(!no)
}

/// Reads transaction modes up to the end, with or without commas.
pub(super) fn modes(c: &mut Cursor<'_>) -> Result<TransactionModes, SqlError> {
    let mut modes = TransactionModes::default();
    while c.peek().is_some() {
        if c.accept_all(&["isolation", "level"]) {
            modes.isolation = Some(isolation(c)?);
        } else if c.accept_all(&["read", "only"]) {
            modes.read_only = Some(true);
        } else if c.accept_all(&["read", "write"]) {
            modes.read_only = Some(false);
        } else if c.accept("deferrable") {
            modes.deferrable = Some(true);
        } else if c.accept_all(&["not", "deferrable"]) {
            modes.deferrable = Some(false);
        } else {
            return Err(c.unexpected());
        }
        if c.accept_kind(Kind::Comma).is_some() && c.peek().is_none() {
            return Err(c.unexpected());
        }
    }
    Ok(modes)
}

fn isolation(c: &mut Cursor<'_>) -> Result<Isolation, SqlError> {
    if c.accept("serializable") {
        Ok(Isolation::Serializable)
    } else if c.accept_all(&["repeatable", "read"]) {
        Ok(Isolation::RepeatableRead)
    } else if c.accept_all(&["read", "committed"]) {
        Ok(Isolation::ReadCommitted)
    } else if c.accept_all(&["read", "uncommitted"]) {
        Ok(Isolation::ReadUncommitted)
    } else {
        Err(c.unexpected())
    }
}
