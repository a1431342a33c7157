//! Table locks. A transaction holds them until it ends.
//!
//! ```text
//! a statement on rows   ACCESS SHARE, ROW SHARE, ROW EXCLUSIVE         TableUse
//! LOCK TABLE            the mode that it names                         TableLocks
//! DDL                   SHARE UPDATE EXCLUSIVE … ACCESS EXCLUSIVE      TableLocks
//! ```
//! The locks of all three conflict as in PostgreSQL, also across machines.

use crate::advisory::{LockKey, LockMode, LockScope};
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};

/// A table lock that a statement takes implicitly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableUse {
    /// The oid of the table.
    pub table: u32,
    /// The mode.
    pub mode: LockMode,
}

/// The locks that a LOCK TABLE statement takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableLocks {
    /// The oids and names of the tables, in the order in which they are locked.
    pub tables: Vec<(u32, String)>,
    /// The lock mode.
    pub mode: LockMode,
    /// Whether the statement waits for the locks; false for NOWAIT.
    pub waits: bool,
}

impl TableLocks {
    /// Takes the locks one after the other.
    ///
    /// # Errors
    /// 55P03 if another session holds a conflicting lock under NOWAIT or for longer than
    /// `lock_timeout`. 40P01 if a request closes a deadlock. The transaction keeps the locks that
    /// were taken before.
    pub async fn take(&self, cx: &EvalContext) -> Result<(), SqlError> {
        let locks = cx.advisory.as_deref();
        let locks = locks.ok_or_else(|| SqlError::unsupported("LOCK TABLE outside a session"))?;
        let database = cx.database_oid();
        for (table, name) in &self.tables {
            let key = LockKey::Table(database, *table);
            let had = locks.lock(key, self.mode, LockScope::Transaction, self.waits);
            if !had.await? {
                return Err(SqlError::new(
                    SqlState::LOCK_NOT_AVAILABLE,
                    format!("could not obtain lock on relation \"{name}\""),
                ));
            }
        }
        Ok(())
    }
}
