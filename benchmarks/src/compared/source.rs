//! The servers of a run.

use std::path::PathBuf;

use crate::error::BenchError;
use crate::named::{Interface, open_database};
use crate::sql::{Embedded, SqlSource};

/// The servers of a run, and how they are reached.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The interface to the database: embedded, or over the PostgreSQL protocol.
    pub via: Interface,
    /// The URLs of the server; several URLs are machines of one database, which answer in turn.
    pub urls: Vec<String>,
    /// The URL of a second server, which runs each item after the first one.
    pub beside: Option<String>,
    /// The data directory of an embedded database.
    pub data_dir: Option<PathBuf>,
    /// The memory limit of an embedded database in bytes.
    pub memory_limit: Option<u64>,
    /// The size of a region of an embedded database in bytes.
    pub region_bytes: Option<usize>,
}

impl ServerOptions {
    /// Returns the options of an embedded database in memory, without a second server.
    pub fn embedded() -> ServerOptions {
        ServerOptions {
            via: Interface::Embedded,
            urls: Vec::new(),
            beside: None,
            data_dir: None,
            memory_limit: None,
            region_bytes: None,
        }
    }

    /// Checks that the interface and the URLs fit.
    ///
    /// # Errors
    /// [`BenchError::Options`].
    pub(crate) fn check(&self) -> Result<(), BenchError> {
        let wrong = |why: &str| Err(BenchError::Options(why.to_string()));
        match (self.via, &self.urls[..]) {
            (Interface::Native, _) => wrong("this benchmark runs --via embedded or --via pg"),
            (Interface::Pg, []) => wrong("--via pg needs --url"),
            (Interface::Embedded, [_, ..]) => wrong("--url is for --via pg"),
            (Interface::Pg | Interface::Embedded, _) => Ok(()),
        }
    }

    /// Returns the server, and the second server if there is one.
    ///
    /// # Errors
    /// Those of opening an embedded database.
    pub(crate) fn sources(&self) -> Result<Vec<SqlSource>, BenchError> {
        let over_the_wire = |urls: Vec<String>| SqlSource::Pg {
            urls,
            may_go: false,
        };
        let first = match self.via {
            Interface::Pg => over_the_wire(self.urls.clone()),
            Interface::Embedded | Interface::Native => {
                let data_dir = self.data_dir.as_deref();
                let database = open_database(data_dir, self.memory_limit, self.region_bytes)?;
                SqlSource::Embedded(Embedded::new(database))
            }
        };
        let second = self.beside.iter().cloned();
        let second = second.map(|url| over_the_wire(vec![url]));
        Ok(std::iter::once(first).chain(second).collect())
    }
}
