//! The databases of a machine, as its sessions use them.
//!
//! Everything is one catalog, one set of roles and one log; what sessions of different databases do not share is here.
//! A database is opened when the first session wants it, and stays open: who comes by its name is told by the catalog
//! of now whether it is there.

use std::sync::Arc;

use fencepost_sql::catalog::{Catalog, DatabaseDef};
use foldhash::HashMap;
use parking_lot::RwLock;

use crate::cache::PlanCache;
use crate::counters::Tallies;
use crate::statistics::Statistics;

/// What all sessions of a database share.
pub(crate) struct Served {
    pub catalog: Arc<Catalog>,
    pub plans: PlanCache,
    /// What statements have cost.
    pub statistics: Arc<Statistics>,
    /// What sessions have counted.
    pub tallies: Tallies,
}

impl Served {
    fn of(catalog: Catalog) -> Arc<Served> {
        Arc::new(Served {
            catalog: Arc::new(catalog),
            plans: PlanCache::default(),
            statistics: Arc::default(),
            tallies: Tallies::default(),
        })
    }
}

/// The databases that are open.
pub(crate) struct Databases {
    /// The one that there was first, which also tells of all others.
    pub first: Arc<Served>,
    others: RwLock<HashMap<u32, Arc<Served>>>,
}

impl Databases {
    /// Those that the first one's catalog tells of.
    pub fn new(first: Catalog) -> Databases {
        Databases {
            first: Served::of(first),
            others: RwLock::default(),
        }
    }

    /// The database with an oid, if it is open.
    pub fn known(&self, id: u32) -> Option<Arc<Served>> {
        match id == self.first.catalog.database() {
            true => Some(Arc::clone(&self.first)),
            false => self.others.read().get(&id).map(Arc::clone),
        }
    }

    /// The database, opened if it is not; what has been dropped since is not kept any more.
    pub fn open(&self, database: &DatabaseDef, all: &[Arc<DatabaseDef>]) -> Arc<Served> {
        if let Some(known) = self.known(database.id) {
            return known;
        }
        let mut others = self.others.write();
        others.retain(|id, _| all.iter().any(|of| of.id == *id));
        let of = || Served::of(self.first.catalog.of(database));
        Arc::clone(others.entry(database.id).or_insert_with(of))
    }
}
