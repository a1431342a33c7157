//! Isolation levels: the modes of a transaction, the underlying transaction, and statement
//! snapshots.
//!
//! ```text
//! a statement alone                  SERIALIZABLE, whatever the session is set to
//! a block, or several statements     the level of its modes
//!    READ COMMITTED: each statement that reads tables moves the snapshot to now (`renew_snapshot`)
//!    DDL: SERIALIZABLE while it runs
//! ```
//!
//! *Failure.* A snapshot that cannot move is a conflict of the statement that begins: data that a
//! constraint relies on has changed.

use fencepost_sql::bound::{Isolation, TransactionModes};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::stop::StatementStop;
use fencepost_txn::{self as txn, Mode, Transaction, Work};

use super::Session;

/// The modes of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Modes {
    pub isolation: Isolation,
    pub read_only: bool,
    pub deferrable: bool,
}

impl Modes {
    /// Returns the level of the underlying transaction.
    fn level(self) -> txn::Isolation {
        match self.isolation {
            Isolation::ReadCommitted | Isolation::ReadUncommitted => txn::Isolation::ReadCommitted,
            Isolation::RepeatableRead => txn::Isolation::RepeatableRead,
            Isolation::Serializable => txn::Isolation::Serializable,
        }
    }
}

impl Default for Modes {
    fn default() -> Modes {
        Modes {
            isolation: Isolation::ReadCommitted,
            read_only: false,
            deferrable: false,
        }
    }
}

impl Session {
    /// Returns the modes of a new transaction, according to the settings.
    pub(super) fn modes_of_settings(&self) -> Modes {
        let setting = |name| self.eval.settings.get(name).unwrap_or_default();
        let isolation = match &*setting("default_transaction_isolation") {
            "serializable" => Isolation::Serializable,
            "repeatable read" => Isolation::RepeatableRead,
            "read uncommitted" => Isolation::ReadUncommitted,
            _ => Isolation::ReadCommitted,
        };
        Modes {
            isolation,
            read_only: setting("default_transaction_read_only") == "on",
            deferrable: setting("default_transaction_deferrable") == "on",
        }
    }

    /// Begins the underlying transaction, if the block has none. A statement that forms a whole
    /// transaction is serializable at every level.
    pub(super) fn begin_transaction(&mut self, snapshot_read: bool, alone: bool) {
        if self.tx.is_some() {
            return;
        }
        let mode = match self.modes.read_only || snapshot_read {
            true => Mode::ReadOnly,
            false => Mode::ReadWrite,
        };
        let mut tx = self.coordinator.begin(mode);
        if !alone {
            tx.set_isolation(self.modes.level());
        }
        self.go_on_in(tx);
    }

    /// Begins the underlying transaction, or gives it a new snapshot if the level requires that.
    /// For a statement without a plan.
    pub(super) async fn begin_statement(&mut self, alone: bool) -> Result<(), StatementStop> {
        match self.has_old_snapshot() {
            true => self.renew_snapshot().await,
            false => {
                self.begin_transaction(false, alone);
                Ok(())
            }
        }
    }

    /// Returns whether the underlying transaction still has the snapshot of an earlier statement,
    /// and the next statement needs its own.
    #[inline]
    pub(super) fn has_old_snapshot(&self) -> bool {
        let tx = self.tx.as_ref();
        tx.is_some_and(|tx| tx.isolation() == txn::Isolation::ReadCommitted)
    }

    /// Moves the snapshot of the underlying transaction to now. Before that, cursors get all their
    /// rows of the old snapshot.
    pub(super) fn renew_snapshot(&mut self) -> Work<'_, Result<(), StatementStop>> {
        Box::pin(async move {
            if !self.cursors.is_empty() {
                self.settle_cursors().await?;
            }
            if let Some(tx) = &mut self.tx {
                tx.renew().await?;
            }
            Ok(())
        })
    }

    /// Executes SET TRANSACTION SNAPSHOT: begins the transaction at a snapshot that another
    /// transaction has exported.
    pub(super) fn import_snapshot(&mut self, name: &str) -> Result<(), SqlError> {
        if self.tx.is_some() || !self.savepoints.is_empty() {
            return Err(SqlError::new(
                SqlState::ACTIVE_SQL_TRANSACTION,
                "SET TRANSACTION SNAPSHOT must be called before any query",
            ));
        }
        let isolation = self.modes.isolation;
        if !matches!(
            isolation,
            Isolation::Serializable | Isolation::RepeatableRead
        ) {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "a snapshot-importing transaction must have isolation level SERIALIZABLE or \
                 REPEATABLE READ",
            ));
        }
        if !self.modes.read_only {
            return Err(SqlError::unsupported(
                "importing a snapshot into a transaction that may write",
            ));
        }
        let database = self.served.catalog.database();
        let snapshots = &self.db.snapshots;
        let tx = snapshots.import(name, database, &mut self.coordinator)?;
        self.go_on_in(tx);
        Ok(())
    }

    /// Makes `tx` the transaction of the following statements.
    fn go_on_in(&mut self, mut tx: Transaction) {
        tx.set_synchronous(self.eval.settings.synchronous_commit);
        if let Some(registered) = &self.registered {
            registered.set_coordinator(tx.number());
        }
        self.unsettled = false;
        for savepoint in &mut self.savepoints {
            savepoint.point = Some(tx.savepoint());
        }
        self.tx = Some(tx);
    }

    /// Sets the level of the underlying transaction. Returns the previous level.
    pub(super) fn set_isolation(&mut self, isolation: txn::Isolation) -> txn::Isolation {
        let Some(tx) = &mut self.tx else {
            return isolation;
        };
        let before = tx.isolation();
        tx.set_isolation(isolation);
        before
    }

    /// Executes SET TRANSACTION, or sets the modes of BEGIN.
    pub(super) fn set_modes(&mut self, modes: &TransactionModes) -> Result<(), SqlError> {
        let begun = self.tx.is_some();
        if let Some(isolation) = modes.isolation {
            if begun && isolation != self.modes.isolation {
                return Err(SqlError::new(
                    SqlState::ACTIVE_SQL_TRANSACTION,
                    "SET TRANSACTION ISOLATION LEVEL must be called before any query",
                ));
            }
            if isolation != self.modes.isolation && !self.savepoints.is_empty() {
                return Err(SqlError::new(
                    SqlState::ACTIVE_SQL_TRANSACTION,
                    "SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction",
                ));
            }
            self.modes.isolation = isolation;
        }
        if let Some(read_only) = modes.read_only {
            let was_reader = self
                .tx
                .as_ref()
                .is_some_and(|tx| tx.mode() == Mode::ReadOnly);
            let refused = match (
                read_only,
                self.modes.read_only && !self.savepoints.is_empty(),
            ) {
                (false, true) => {
                    "cannot set transaction read-write mode inside a read-only transaction"
                }
                (false, false) if was_reader => {
                    "transaction read-write mode must be set before any query"
                }
                _ => "",
            };
            if !refused.is_empty() {
                return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, refused));
            }
            self.modes.read_only = read_only;
        }
        self.modes.deferrable = modes.deferrable.unwrap_or(self.modes.deferrable);
        Ok(())
    }
}
