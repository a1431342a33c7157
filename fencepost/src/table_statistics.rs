//! The statistics of the tables of a database, as the planner reads them.
//!
//! The number of rows comes from the shape of the primary index, read at the time of planning. The
//! distributions of values come from ANALYZE: they are read from the catalog when a table is first
//! planned for, and again after some time, because another machine may have analyzed the table.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost_planner::rows_of_mapped_trees;
use fencepost_sql::catalog::{Catalog, TableDef};
use fencepost_sql::table_statistics::{StatisticsSource, TableStatistics};
use fencepost_txn::{Machine, Mode};
use foldhash::HashMap;
use parking_lot::RwLock;

use crate::patience::{CATALOG_PATIENCE, within};

/// The age at which statistics are read again.
const AGE_MAX: Duration = Duration::from_secs(60);

/// The number of tables whose statistics are kept in memory.
const TABLES_MAX: usize = 4096;

/// The statistics of tables, by the oids of the tables.
#[derive(Default)]
pub(crate) struct AnalyzedTables {
    tables: RwLock<HashMap<u32, Entry>>,
}

/// The statistics of a table; `None` if it has not been analyzed.
struct Entry {
    statistics: Option<Arc<TableStatistics>>,
    read: Instant,
}

impl AnalyzedTables {
    fn put(&self, table: u32, statistics: Option<Arc<TableStatistics>>) {
        let entry = Entry {
            statistics,
            read: Instant::now(),
        };
        let mut tables = self.tables.write();
        if tables.len() >= TABLES_MAX {
            // Many are of tables that no longer exist.
            tables.clear();
        }
        tables.insert(table, entry);
    }

    /// Returns the statistics of a table, and whether they are fresh.
    fn get(&self, table: u32) -> (Option<Arc<TableStatistics>>, bool) {
        match self.tables.read().get(&table) {
            Some(entry) => (entry.statistics.clone(), entry.read.elapsed() < AGE_MAX),
            None => (None, false),
        }
    }
}

/// The statistics that a session's statements are planned with.
pub(crate) struct SessionStatistics {
    machine: Arc<Machine>,
    catalog: Arc<Catalog>,
    analyzed: Arc<AnalyzedTables>,
}

impl SessionStatistics {
    /// Returns the statistics of a database, read by a machine.
    pub fn shared(
        machine: &Arc<Machine>,
        catalog: &Arc<Catalog>,
        analyzed: &Arc<AnalyzedTables>,
    ) -> Arc<dyn StatisticsSource> {
        Arc::new(SessionStatistics {
            machine: Arc::clone(machine),
            catalog: Arc::clone(catalog),
            analyzed: Arc::clone(analyzed),
        })
    }
}

impl fmt::Debug for SessionStatistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionStatistics").finish_non_exhaustive()
    }
}

impl StatisticsSource for SessionStatistics {
    fn rows(&self, table: &TableDef) -> Option<f64> {
        rows_of_mapped_trees(table, &self.machine)
    }

    fn statistics(&self, table: &TableDef) -> Option<Arc<TableStatistics>> {
        let (known, is_fresh) = self.analyzed.get(table.id);
        if is_fresh {
            return known;
        }
        let mut tx = self.machine.coordinator().begin(Mode::ReadOnly);
        let stored = self.catalog.statistics();
        let read = stored.get(&mut tx, self.catalog.database(), table);
        let statistics = match within(CATALOG_PATIENCE, read) {
            Some(Ok(read)) => read.map(Arc::new),
            // The machine that stores them cannot be reached now.
            Some(Err(_)) | None => known,
        };
        self.analyzed.put(table.id, statistics.clone());
        statistics
    }

    fn replace(&self, table: &TableDef, statistics: TableStatistics) {
        let (known, _) = self.analyzed.get(table.id);
        let statistics = match known {
            Some(earlier) => statistics.over(&earlier),
            None => statistics,
        };
        self.analyzed.put(table.id, Some(Arc::new(statistics)));
    }
}
