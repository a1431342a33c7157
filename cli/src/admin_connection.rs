//! A session of a command with a running database.

use std::error::Error;

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::failure::Failure;

/// A session, and the runtime that drives its connection.
pub struct AdminConnection {
    runtime: Runtime,
    pub client: Client,
}

impl AdminConnection {
    /// Connects to a database.
    pub fn connect(url: &str) -> Result<AdminConnection, Failure> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Failure::io("a runtime"))?;
        let connecting = tokio_postgres::connect(url, NoTls);
        let (client, connection) = runtime.block_on(connecting).map_err(refused)?;
        // The statement that fails with the connection reports its error.
        runtime.spawn(async move { drop(connection.await) });
        Ok(AdminConnection { runtime, client })
    }

    /// Runs an asynchronous function with the session.
    pub fn run<T>(
        &self,
        what: impl AsyncFnOnce(&Client) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.runtime.block_on(what(&self.client))
    }

    /// Runs a script, and returns the rows of its statements as text; NULL is empty.
    pub fn texts(&self, sql: &str) -> Result<Vec<Vec<String>>, Failure> {
        let said = self.runtime.block_on(self.client.simple_query(sql));
        let row = |said: SimpleQueryMessage| match said {
            SimpleQueryMessage::Row(row) => {
                let cell = |at| row.get(at).unwrap_or_default().to_owned();
                Some((0..row.len()).map(cell).collect())
            }
            _ => None,
        };
        Ok(said.map_err(refused)?.into_iter().filter_map(row).collect())
    }

    /// Returns the first cell of the first row; empty if there is none.
    pub fn text(&self, sql: &str) -> Result<String, Failure> {
        let rows = self.texts(sql)?;
        let cell = rows.into_iter().flatten().next();
        Ok(cell.unwrap_or_default())
    }
}

/// Converts an error of the server, with its code.
pub fn refused(error: tokio_postgres::Error) -> Failure {
    let why = match (error.as_db_error(), error.source()) {
        (Some(db), _) => format!("{} ({})", db.message(), db.code().code()),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    };
    Failure::Broken(why)
}
