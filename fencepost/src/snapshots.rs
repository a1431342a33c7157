//! Snapshots that sessions of this machine have exported: `pg_export_snapshot()` and SET
//! TRANSACTION SNAPSHOT.
//!
//! ```text
//! exporting session ─► a name, and a read-only transaction at its snapshot: the keeper
//! importing session ─► begins at the keeper's snapshot, while the keeper is open
//! the exporting transaction ends ─► the keeper ends; importing transactions continue
//! ```
//! # Invariant
//! * EXPORT-1: an importing transaction begins while an open transaction of its own machine
//!   protects the snapshot, so its versions are not collected. A snapshot of another machine would
//!   not be protected, so it is not found.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::exports::Exports;
use fencepost_txn::{Coordinator, Transaction};
use foldhash::HashMap;
use parking_lot::Mutex;

/// The exported snapshots of all sessions.
#[derive(Default)]
pub(crate) struct Snapshots {
    open: Mutex<HashMap<String, ExportedSnapshot>>,
    names: AtomicU32,
}

struct ExportedSnapshot {
    database: u32,
    keeper: Transaction,
}

impl Snapshots {
    /// Begins a read-only transaction at the snapshot of that name.
    ///
    /// # Errors
    /// 22023 if there is no such snapshot, 0A000 if it belongs to another database.
    pub fn import(
        &self,
        name: &str,
        database: u32,
        coordinator: &mut Coordinator,
    ) -> Result<Transaction, SqlError> {
        let open = self.open.lock();
        let Some(exported) = open.get(name) else {
            let message = format!("invalid snapshot identifier: \"{name}\"");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        };
        if exported.database != database {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "cannot import a snapshot from a different database",
            ));
        }
        Ok(coordinator.begin_beside(&exported.keeper))
    }
}

/// The exported snapshots of one session.
pub(crate) struct SessionSnapshots {
    all: Arc<Snapshots>,
    machine: u32,
    database: u32,
    /// True if the transaction has announced a name. Most never do, and each transaction checks
    /// this at its end.
    used: AtomicBool,
    announced: Mutex<Option<String>>,
    own: Mutex<Vec<String>>,
}

impl SessionSnapshots {
    /// Returns an empty set.
    pub fn new(all: &Arc<Snapshots>, machine: u32, database: u32) -> Arc<SessionSnapshots> {
        Arc::new(SessionSnapshots {
            all: Arc::clone(all),
            machine,
            database,
            used: AtomicBool::new(false),
            announced: Mutex::default(),
            own: Mutex::default(),
        })
    }

    /// Ends the exports of the transaction. Other sessions no longer find them.
    pub fn end(&self) {
        if !self.used.load(Ordering::Relaxed) {
            return;
        }
        self.used.store(false, Ordering::Relaxed);
        *self.announced.lock() = None;
        let own = std::mem::take(&mut *self.own.lock());
        let mut open = self.all.open.lock();
        let ended: Vec<ExportedSnapshot> =
            own.iter().filter_map(|name| open.remove(name)).collect();
        drop(open);
        // Drop them without the lock, so that other sessions need not wait.
        drop(ended);
    }
}

impl Exports for SessionSnapshots {
    fn announce(&self) -> String {
        let number = self.all.names.fetch_add(1, Ordering::Relaxed);
        let name = format!("{:08X}-{number:08X}-1", self.machine);
        *self.announced.lock() = Some(name.clone());
        self.used.store(true, Ordering::Relaxed);
        name
    }

    fn is_announced(&self) -> bool {
        self.announced.lock().is_some()
    }

    fn keep(&self, keeper: Transaction) {
        let Some(name) = self.announced.lock().take() else {
            return;
        };
        let database = self.database;
        self.own.lock().push(name.clone());
        let exported = ExportedSnapshot { database, keeper };
        self.all.open.lock().insert(name, exported);
    }
}

impl fmt::Debug for SessionSnapshots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&*self.own.lock()).finish()
    }
}

impl Drop for SessionSnapshots {
    fn drop(&mut self) {
        self.end();
    }
}
