//! TATP over SQL, for the embedded library and for any PostgreSQL server.

mod client;
mod load;
mod verify;

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use super::population::{Population, Sizes};
use crate::error::BenchError;
use crate::harness::Workload;
use crate::sql::{SqlSession, SqlSource};
use client::TatpClient;

/// The tables, children before parents.
const TABLES: [&str; 4] = [
    "call_forwarding",
    "special_facility",
    "access_info",
    "subscriber",
];

/// TATP on a database that speaks SQL. Its tables are dropped and made again by the load.
pub struct TatpSql {
    source: SqlSource,
    population: Population,
    loaded: Mutex<Sizes>,
    /// Forwardings that committed inserts made, less those that committed deletes took.
    more_forwardings: AtomicI64,
}

impl TatpSql {
    /// On sessions of `source`.
    pub fn new(source: SqlSource, subscribers: u32, seed: u64) -> TatpSql {
        TatpSql {
            source,
            population: Population {
                subscribers: subscribers.max(1),
                seed,
            },
            loaded: Mutex::default(),
            more_forwardings: AtomicI64::new(0),
        }
    }

    fn loaded(&self) -> Sizes {
        *self.loaded.lock().expect("nobody panics with the sizes")
    }
}

impl Workload for TatpSql {
    type Client<'a> = TatpClient<'a>;

    fn name(&self) -> &'static str {
        "tatp"
    }

    fn prepare(&self, say: &dyn Fn(&str)) -> Result<(), BenchError> {
        let mut session = self.source.session()?;
        let sizes = load::load(session.as_mut(), &self.population, say)?;
        *self.loaded.lock().expect("nobody panics with the sizes") = sizes;
        Ok(())
    }

    fn client(&self, thread: usize) -> Result<TatpClient<'_>, BenchError> {
        TatpClient::new(self.source.session_of(thread)?, self)
    }

    fn verify(&self) -> Result<Option<String>, BenchError> {
        let more = self.more_forwardings.load(Ordering::Relaxed);
        let verify = |session: &mut dyn SqlSession| {
            verify::verify(session, &self.population, self.loaded(), more)
        };
        self.source.verify(verify)
    }
}
