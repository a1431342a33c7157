//! TATP over SQL, for the embedded library and for any PostgreSQL server.

mod client;
mod load;
mod verify;

use std::ops::RangeInclusive;
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

/// TATP on an SQL database. The load drops and creates its tables.
pub struct TatpSql {
    source: SqlSource,
    population: Population,
    loaded: Mutex<Sizes>,
    forwardings: Forwardings,
}

/// The changes of the number of forwardings.
#[derive(Default)]
struct Forwardings {
    /// The number of forwardings that committed requests inserted, less those that they deleted.
    more: AtomicI64,
    /// The number of inserts with an unknown outcome.
    may_be_more: AtomicI64,
    /// The number of deletes with an unknown outcome.
    may_be_less: AtomicI64,
}

impl Forwardings {
    /// Returns the possible numbers of forwardings, given the number that were loaded.
    fn range(&self, loaded: i64) -> RangeInclusive<i64> {
        let of = |count: &AtomicI64| count.load(Ordering::Relaxed);
        let sure = loaded + of(&self.more);
        sure - of(&self.may_be_less)..=sure + of(&self.may_be_more)
    }
}

impl TatpSql {
    /// Creates the workload on sessions of `source`.
    pub fn new(source: SqlSource, subscribers: u32, seed: u64) -> TatpSql {
        TatpSql {
            source,
            population: Population {
                subscribers: subscribers.max(1),
                seed,
            },
            loaded: Mutex::default(),
            forwardings: Forwardings::default(),
        }
    }

    fn loaded(&self) -> Sizes {
        *self.loaded.lock().expect("no thread panics with the sizes")
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
        *self.loaded.lock().expect("no thread panics with the sizes") = sizes;
        Ok(())
    }

    fn client(&self, thread: usize) -> Result<TatpClient<'_>, BenchError> {
        TatpClient::new(self.source.session_of(thread)?, self)
    }

    fn verify(&self) -> Result<Option<String>, BenchError> {
        let forwardings = self.forwardings.range(self.loaded().forwardings as i64);
        let verify = |session: &mut dyn SqlSession| {
            verify::verify(session, &self.population, self.loaded(), &forwardings)
        };
        self.source.verify(verify)
    }
}
