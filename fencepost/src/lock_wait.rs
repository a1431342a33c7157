//! Waits of sessions for locks, as `log_lock_waits` reports them.

use std::sync::Arc;

use fencepost_sql::advisory::{self, LockKey, LockState};
use fencepost_sql::sessions::{self, RowQueueEntry, Sessions};
use fencepost_txn::intent::Strength;

use crate::database::Database;
use crate::sessions::Handle;

/// The lock that a session waits for, from [`Database::lock_wait`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockWait {
    /// A description of the lock: its mode and its object.
    pub lock: String,
    /// The sessions that hold conflicting locks, by their `pg_backend_pid()` and in ascending
    /// order.
    pub blockers: Vec<i32>,
}

impl Database {
    /// Returns the row, table or advisory lock that a session of this machine waits for. `session`
    /// is its `pg_backend_pid()`. Returns `None` if the session waits for none. Asks the other
    /// machines of a cluster, and ignores those that do not answer.
    pub async fn lock_wait(&self, session: i32) -> Option<LockWait> {
        let shared = self.shared();
        let register = Handle(Arc::clone(&shared.register));
        let rows = register.row_queue_entries().await.unwrap_or_default();
        if let Some(wait) = of_rows(&rows, session) {
            return Some(wait);
        }
        // While the lock manager changes, its locks are unknown.
        let locks = shared.advisory.states().await.unwrap_or_default();
        of_locks(&locks, session)
    }
}

fn of_rows(rows: &[RowQueueEntry], session: i32) -> Option<LockWait> {
    let waits = |entry: &&RowQueueEntry| entry.session == Some(session) && !entry.granted;
    let entry = rows.iter().find(waits)?;
    let mode = match entry.strength {
        Strength::KeyShare => "FOR KEY SHARE",
        Strength::Share => "FOR SHARE",
        Strength::NoKeyUpdate => "FOR NO KEY UPDATE",
        Strength::Update => "FOR UPDATE",
    };
    Some(LockWait {
        lock: format!("{mode} on row {:x}", entry.row),
        blockers: sorted(sessions::waited_for(rows, session)),
    })
}

fn of_locks(locks: &[LockState], session: i32) -> Option<LockWait> {
    let waits = |lock: &&LockState| lock.session == session && !lock.granted;
    let wanted = locks.iter().find(waits)?;
    let on = match wanted.key {
        LockKey::Table(database, table) => format!("relation {table} of database {database}"),
        LockKey::One(..) | LockKey::Two(..) => {
            let (class, object, kind) = wanted.key.parts();
            let database = wanted.key.database();
            format!("advisory lock [{database},{class},{object},{kind}]")
        }
        LockKey::NotifyCommit => "the turn to commit notifications".to_owned(),
    };
    Some(LockWait {
        lock: format!("{} on {on}", wanted.mode.name()),
        blockers: sorted(advisory::waited_for(locks, session)),
    })
}

fn sorted(mut sessions: Vec<i32>) -> Vec<i32> {
    sessions.sort_unstable();
    sessions.dedup();
    sessions
}
