//! Sessions of a database in this process.

use std::future::Future;

use fencepost::{Database, Error, Session, Statement, Value};
use pollster::block_on;

use super::{Arg, Cell, Rows, SqlFailure, SqlSession, StatementHandle};
use crate::error::BenchError;

/// A database in this process.
pub struct Embedded {
    database: Database,
}

impl Embedded {
    /// Creates a source of sessions of `database`.
    pub fn new(database: Database) -> Embedded {
        Embedded { database }
    }

    pub(super) fn session(&self) -> Result<EmbeddedSession, BenchError> {
        Ok(EmbeddedSession {
            session: self.database.session(),
            statements: Vec::new(),
        })
    }
}

/// One session.
pub(super) struct EmbeddedSession {
    session: Session,
    statements: Vec<Statement>,
}

impl SqlSession for EmbeddedSession {
    fn prepare(&mut self, sql: &str) -> Result<StatementHandle, SqlFailure> {
        let statement = self.session.prepare(sql).map_err(failure)?;
        self.statements.push(statement);
        Ok(StatementHandle(self.statements.len() - 1))
    }

    fn execute(&mut self, statement: StatementHandle, args: &[Arg<'_>]) -> Result<u64, SqlFailure> {
        wait(
            self.session
                .execute(&self.statements[statement.0], &values(args)),
        )
    }

    fn query(&mut self, statement: StatementHandle, args: &[Arg<'_>]) -> Result<Rows, SqlFailure> {
        let rows = wait(
            self.session
                .query(&self.statements[statement.0], &values(args)),
        )?;
        rows.iter()
            .map(|row| row.values().iter().map(cell).collect())
            .collect()
    }

    fn script(&mut self, sql: &str) -> Result<(), SqlFailure> {
        wait(self.session.batch(sql))
    }

    fn copy_in(&mut self, sql: &str, text: &[u8]) -> Result<u64, SqlFailure> {
        wait(self.session.copy_in(sql, text))
    }
}

fn wait<T>(running: impl Future<Output = Result<T, Error>>) -> Result<T, SqlFailure> {
    block_on(running).map_err(failure)
}

fn failure(error: Error) -> SqlFailure {
    SqlFailure::new(error.code().as_str(), error.to_string())
}

fn values(args: &[Arg<'_>]) -> Vec<Value> {
    let value = |arg: &Arg<'_>| match *arg {
        Arg::Int2(value) => Value::Int2(value),
        Arg::Int4(value) => Value::Int4(value),
        Arg::Int8(value) => Value::Int8(value),
        Arg::Numeric(value) => Value::Numeric(value),
        Arg::Text(value) => Value::text(value),
    };
    args.iter().map(value).collect()
}

fn cell(value: &Value) -> Result<Cell, SqlFailure> {
    match (value, value.as_int(), value.as_text()) {
        (Value::Null, ..) => Ok(Cell::Null),
        (Value::Numeric(number), ..) => Ok(Cell::Numeric(*number)),
        (Value::Timestamp(time), ..) => Ok(Cell::Int(*time)),
        (Value::Date(days), ..) => Ok(Cell::Date(*days)),
        (_, Some(number), _) => Ok(Cell::Int(number)),
        (_, _, Some(text)) => Ok(Cell::Text(text.to_string())),
        _ => Err(SqlFailure::new("42804", "neither a number nor a string")),
    }
}
