//! Sessions over the network, for any server with PostgreSQL's protocol.
//!
//! Each session has its own small runtime on the thread that uses it. So a client thread is one
//! connection, and no work moves between threads.

use std::error::Error;
use std::pin::pin;

use bytes::{Bytes, BytesMut};
use futures_util::SinkExt;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, NoTls, Statement};

use super::{Arg, Cell, Rows, SqlFailure, SqlSession, StatementHandle, numeric};
use crate::error::BenchError;

/// The number of bytes in one CopyData message.
const COPY_BYTES: usize = 64 << 10;

/// One connection.
pub struct PgSession {
    runtime: Runtime,
    client: Client,
    statements: Vec<Statement>,
}

impl PgSession {
    /// Connects, without TLS.
    ///
    /// # Errors
    /// A server that cannot be reached or that refuses.
    pub fn connect(url: &str) -> Result<PgSession, BenchError> {
        let failed = |reason: String| BenchError::Connect {
            url: url.to_string(),
            reason,
        };
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(|error| failed(error.to_string()))?;
        let connecting = tokio_postgres::connect(url, NoTls);
        let (client, connection) = runtime
            .block_on(connecting)
            .map_err(|error| failed(with_cause(&error)))?;
        // The statement that finds the connection closed returns the error.
        runtime.spawn(async move { drop(connection.await) });
        Ok(PgSession {
            runtime,
            client,
            statements: Vec::new(),
        })
    }
}

impl SqlSession for PgSession {
    fn prepare(&mut self, sql: &str) -> Result<StatementHandle, SqlFailure> {
        let statement = self
            .runtime
            .block_on(self.client.prepare(sql))
            .map_err(failure)?;
        self.statements.push(statement);
        Ok(StatementHandle(self.statements.len() - 1))
    }

    fn execute(&mut self, statement: StatementHandle, args: &[Arg<'_>]) -> Result<u64, SqlFailure> {
        let running = self.client.execute_raw(&self.statements[statement.0], args);
        self.runtime.block_on(running).map_err(failure)
    }

    fn query(&mut self, statement: StatementHandle, args: &[Arg<'_>]) -> Result<Rows, SqlFailure> {
        let args: Vec<&(dyn ToSql + Sync)> = args.iter().map(|arg| arg as _).collect();
        let running = self.client.query(&self.statements[statement.0], &args);
        let rows = self.runtime.block_on(running).map_err(failure)?;
        let row = |row: &tokio_postgres::Row| (0..row.len()).map(|at| row.try_get(at)).collect();
        rows.iter()
            .map(row)
            .collect::<Result<Rows, _>>()
            .map_err(failure)
    }

    fn script(&mut self, sql: &str) -> Result<(), SqlFailure> {
        self.runtime
            .block_on(self.client.batch_execute(sql))
            .map_err(failure)
    }

    fn copy_in(&mut self, sql: &str, text: &[u8]) -> Result<u64, SqlFailure> {
        self.runtime.block_on(async {
            let mut sink = pin!(
                self.client
                    .copy_in::<_, Bytes>(sql)
                    .await
                    .map_err(failure)?
            );
            for chunk in text.chunks(COPY_BYTES) {
                sink.send(Bytes::copy_from_slice(chunk))
                    .await
                    .map_err(failure)?;
            }
            sink.finish().await.map_err(failure)
        })
    }
}

/// Formats an error with its cause, which tokio-postgres omits.
fn with_cause(error: &tokio_postgres::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn failure(error: tokio_postgres::Error) -> SqlFailure {
    match error.as_db_error() {
        Some(db) => SqlFailure::new(db.code().code(), db.message()),
        None => SqlFailure::new("08006", with_cause(&error)),
    }
}

impl ToSql for Arg<'_> {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Arg::Int2(value) => value.to_sql(ty, out),
            Arg::Int4(value) => value.to_sql(ty, out),
            Arg::Int8(value) => value.to_sql(ty, out),
            Arg::Numeric(value) => {
                numeric::encode(*value, out);
                Ok(IsNull::No)
            }
            Arg::Text(value) => value.to_sql(ty, out),
        }
    }

    fn accepts(ty: &Type) -> bool {
        matches!(*ty, Type::INT2 | Type::INT4 | Type::INT8 | Type::NUMERIC)
            || <&str as ToSql>::accepts(ty)
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Cell {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Cell, Box<dyn Error + Sync + Send>> {
        Ok(match *ty {
            Type::INT2 => Cell::Int(i16::from_sql(ty, raw)?.into()),
            Type::INT4 => Cell::Int(i32::from_sql(ty, raw)?.into()),
            Type::NUMERIC => Cell::Numeric(numeric::decode(raw)?),
            Type::INT8 | Type::TIMESTAMP => Cell::Int(i64::from_sql(ty, raw)?),
            Type::DATE => Cell::Date(i32::from_sql(&Type::INT4, raw)?),
            _ => Cell::Text(String::from_sql(ty, raw)?),
        })
    }

    fn from_sql_null(_ty: &Type) -> Result<Cell, Box<dyn Error + Sync + Send>> {
        Ok(Cell::Null)
    }

    fn accepts(ty: &Type) -> bool {
        let number = matches!(*ty, Type::INT2 | Type::INT4 | Type::INT8 | Type::NUMERIC);
        let time = matches!(*ty, Type::TIMESTAMP | Type::DATE);
        number || time || <String as FromSql>::accepts(ty)
    }
}
