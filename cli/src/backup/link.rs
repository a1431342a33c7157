//! The connection that a backup is taken or restored over.

use std::error::Error;

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls};

use crate::failure::Failure;

/// A session, and the runtime that its thread drives it with.
pub struct Link {
    runtime: Runtime,
    pub client: Client,
}

impl Link {
    /// Connects.
    pub fn connect(url: &str) -> Result<Link, Failure> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Failure::io("a runtime"))?;
        let connecting = tokio_postgres::connect(url, NoTls);
        let (client, connection) = runtime.block_on(connecting).map_err(refused)?;
        // What ends a connection is answered to the statement that meets it.
        runtime.spawn(async move { drop(connection.await) });
        Ok(Link { runtime, client })
    }

    /// Does something with the session.
    pub fn run<T>(
        &self,
        what: impl AsyncFnOnce(&Client) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.runtime.block_on(what(&self.client))
    }
}

/// What the server has said, with its code.
pub fn refused(error: tokio_postgres::Error) -> Failure {
    let why = match (error.as_db_error(), error.source()) {
        (Some(db), _) => format!("{} ({})", db.message(), db.code().code()),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    };
    Failure::Broken(why)
}
