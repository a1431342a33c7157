//! The databases of a machine, as its sessions use them.
//!
//! All databases share one catalog, one set of roles and one log. This module has the state that
//! sessions of different databases do not share. A database is opened for its first session, and
//! stays open. Whether a name still exists is decided by the current catalog.

use std::sync::Arc;

use fencepost_sql::catalog::{Catalog, DatabaseDef};
use fencepost_sql::table_statistics::StatisticsSource;
use fencepost_txn::Machine;
use foldhash::HashMap;
use parking_lot::RwLock;

use crate::cache::PlanCache;
use crate::counters::Tallies;
use crate::statistics::Statistics;
use crate::table_statistics::{AnalyzedTables, SessionStatistics};

/// The state that all sessions of a database share.
pub(crate) struct DatabaseState {
    pub catalog: Arc<Catalog>,
    pub plans: PlanCache,
    /// The cost statistics of statements.
    pub statistics: Arc<Statistics>,
    /// The statistics of tables.
    pub analyzed: Arc<AnalyzedTables>,
    /// The counters of the sessions.
    pub tallies: Tallies,
}

impl DatabaseState {
    /// Returns the statistics that the sessions of a machine plan with.
    pub fn table_statistics(&self, machine: &Arc<Machine>) -> Arc<dyn StatisticsSource> {
        SessionStatistics::shared(machine, &self.catalog, &self.analyzed)
    }

    fn of(catalog: Catalog) -> Arc<DatabaseState> {
        Arc::new(DatabaseState {
            catalog: Arc::new(catalog),
            plans: PlanCache::default(),
            statistics: Arc::default(),
            analyzed: Arc::default(),
            tallies: Tallies::default(),
        })
    }
}

/// The open databases.
pub(crate) struct Databases {
    /// The first database; its catalog also lists all others.
    pub first: Arc<DatabaseState>,
    others: RwLock<HashMap<u32, Arc<DatabaseState>>>,
}

impl Databases {
    /// Returns the databases that the first one's catalog lists; the others are not open yet.
    pub fn new(first: Catalog) -> Databases {
        Databases {
            first: DatabaseState::of(first),
            others: RwLock::default(),
        }
    }

    /// Returns the database with an oid, if it is open.
    pub fn known(&self, id: u32) -> Option<Arc<DatabaseState>> {
        match id == self.first.catalog.database() {
            true => Some(Arc::clone(&self.first)),
            false => self.others.read().get(&id).map(Arc::clone),
        }
    }

    /// Returns the database, and opens it if necessary. Databases that have been dropped meanwhile
    /// are closed.
    pub fn open(&self, database: &DatabaseDef, all: &[Arc<DatabaseDef>]) -> Arc<DatabaseState> {
        if let Some(known) = self.known(database.id) {
            return known;
        }
        let mut others = self.others.write();
        others.retain(|id, _| all.iter().any(|of| of.id == *id));
        let of = || DatabaseState::of(self.first.catalog.of(database));
        Arc::clone(others.entry(database.id).or_insert_with(of))
    }
}
