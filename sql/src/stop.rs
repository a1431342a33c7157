//! The reasons why a statement stops: an SQL error, or a conflict of the transaction below.

use fencepost_btree::IndexError;
use fencepost_txn::{AbortReason, Stop};

use crate::error::{SqlError, SqlState};

/// The reason why a statement stops.
#[derive(Clone, Debug)]
pub enum StatementStop {
    /// The transaction cannot continue. After a conflict it can be tried again from its start.
    Stop(Stop),
    /// The statement is wrong, or it reached a limit.
    Error(SqlError),
    /// A table has another version than the plan expects: the statement must be planned again.
    Stale,
}

impl From<Stop> for StatementStop {
    fn from(stop: Stop) -> StatementStop {
        StatementStop::Stop(stop)
    }
}

impl From<SqlError> for StatementStop {
    fn from(error: SqlError) -> StatementStop {
        StatementStop::Error(error)
    }
}

impl From<IndexError> for StatementStop {
    fn from(error: IndexError) -> StatementStop {
        match error {
            IndexError::Stop(stop) => StatementStop::Stop(stop),
            IndexError::KeyTooLong { length, limit } => StatementStop::Error(SqlError::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!("index row size {length} exceeds maximum {limit}"),
            )),
        }
    }
}

impl StatementStop {
    /// Returns the error for the client.
    pub fn into_error(self) -> SqlError {
        match self {
            StatementStop::Error(error) => error,
            StatementStop::Stop(stop) => stop_error(&stop),
            StatementStop::Stale => serialization_failure("The table's definition was changed."),
        }
    }

    /// Returns the error for the client, if the conflict is known to concern `what`.
    pub fn into_error_about(self, what: &str) -> SqlError {
        match self {
            StatementStop::Stop(Stop::Retry(reason)) => serialization_failure(&format!(
                "{what} was changed by a concurrent transaction. Reason: {}.",
                reason.name()
            )),
            StatementStop::Stop(Stop::Deadlock) => {
                let error = stop_error(&Stop::Deadlock);
                error.detail(format!(
                    "{what} is waited for. The transaction was chosen to end a circle of waits."
                ))
            }
            other => other.into_error(),
        }
    }

    /// Returns whether the same statements may succeed in a new transaction.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            StatementStop::Stale | StatementStop::Stop(Stop::Retry(_) | Stop::Deadlock)
        )
    }

    /// Returns whether the transaction gave way to another one that is queued for a row.
    pub fn is_held_by_intent(&self) -> bool {
        matches!(
            self,
            StatementStop::Stop(Stop::Retry(AbortReason::IntentHeld))
        )
    }
}

fn serialization_failure(detail: &str) -> SqlError {
    SqlError::new(
        SqlState::SERIALIZATION_FAILURE,
        "could not serialize access due to concurrent update",
    )
    .detail(detail)
    .hint("The transaction might succeed if retried.")
}

fn stop_error(stop: &Stop) -> SqlError {
    match stop {
        Stop::Retry(reason) => serialization_failure(&format!("Reason: {}.", reason.name())),
        Stop::Deadlock => SqlError::new(SqlState::DEADLOCK_DETECTED, "deadlock detected")
            .detail("The transaction was chosen to end a circle of waits for rows.")
            .hint("The transaction might succeed if retried."),
        Stop::OutOfMemory => SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory")
            .detail("The memory limit of the database is reached."),
        Stop::DiskFull => SqlError::new(
            SqlState::DISK_FULL,
            "could not write to the log: no space left on device",
        ),
        Stop::TooLarge(what) => SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, *what),
        Stop::ReadOnly => SqlError::new(
            SqlState::READ_ONLY_SQL_TRANSACTION,
            "cannot write in a read-only transaction",
        ),
        Stop::Failed => SqlError::new(SqlState::IO_ERROR, "the durable log failed"),
        Stop::NotMember => SqlError::new(
            SqlState::CANNOT_CONNECT_NOW,
            "this machine is no member of the cluster any more",
        )
        .detail("The others have taken it to have failed, and go on without it.")
        .hint("Connect to another machine."),
        Stop::InDoubt => SqlError::new(
            SqlState::TRANSACTION_RESOLUTION_UNKNOWN,
            "the cluster has lost a machine while the transaction committed",
        )
        .detail("Whether the transaction has taken effect is not known.")
        .hint("Look at the rows before running it again."),
        Stop::Damaged => SqlError::new(
            SqlState::new(b"XX001"),
            "an object of the database is missing or damaged",
        ),
    }
}
