//! LOCK TABLE: locks of tables until the transaction ends.
//!
//! They keep out others who lock the table, in a mode that conflicts, on any machine. Statements take none: the reads of a
//! transaction that keeps writers out are validated at its commit, at every level.

use crate::advisory::{LockKey, LockMode, LockScope};
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};

/// What LOCK TABLE asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableLocks {
    /// Oids and names of the tables, in the order in which they are locked.
    pub tables: Vec<(u32, String)>,
    /// How.
    pub mode: LockMode,
    /// Without NOWAIT.
    pub waits: bool,
}

impl TableLocks {
    /// Takes them, one after the other.
    ///
    /// # Errors
    /// 55P03 where somebody else has one and nobody is to wait, or waits for longer than `lock_timeout`; 40P01 for whoever
    /// closes a circle. The transaction has those that were taken before.
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
