//! The sessions of a database, as functions and views see them: their activity and how to signal
//! them.

use std::fmt::Debug;
use std::net::SocketAddr;

use fencepost_txn::Strength;

use crate::lock_future::LockFuture;

/// A signal to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Cancel the running statement.
    Cancel,
    /// End the session.
    Terminate,
}

/// The result of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalOutcome {
    /// The signal was delivered.
    Sent,
    /// The session does not exist.
    NoSession,
    /// The session belongs to another role.
    OfOthers,
    /// The session belongs to a superuser.
    OfSuperuser,
}

/// The activity of a session, as in `pg_stat_activity.state`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activity {
    /// The session runs a statement.
    Active,
    /// The session waits for the client, outside a transaction.
    #[default]
    Idle,
    /// The session waits for the client, in a transaction.
    IdleInTransaction,
    /// The session waits for the client, in a failed transaction.
    IdleInFailed,
}

impl Activity {
    /// All activities, in their order.
    pub const ALL: [Activity; 4] = [
        Activity::Active,
        Activity::Idle,
        Activity::IdleInTransaction,
        Activity::IdleInFailed,
    ];

    /// Returns the name in `pg_stat_activity`.
    pub fn name(self) -> &'static str {
        match self {
            Activity::Active => "active",
            Activity::Idle => "idle",
            Activity::IdleInTransaction => "idle in transaction",
            Activity::IdleInFailed => "idle in transaction (aborted)",
        }
    }
}

/// The state of a session; times are microseconds from 2000-01-01 UTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionState {
    /// The number of the session.
    pub session: i32,
    /// The role that opened the session.
    pub user: String,
    /// The database.
    pub database: String,
    /// The client's `application_name`.
    pub application: String,
    /// The address of the client; `None` for a client in this process.
    pub client: Option<SocketAddr>,
    /// The time when the session was opened.
    pub opened: i64,
    /// The time when the transaction began; `None` outside a transaction.
    pub transaction: Option<i64>,
    /// The time when the last statement began; `None` before the first one.
    pub statement: Option<i64>,
    /// The time when the current activity began.
    pub since: i64,
    /// The current activity.
    pub activity: Activity,
    /// The text of its last statement.
    pub text: String,
    /// The number that identifies its transaction in row-lock queues.
    pub coordinator: u32,
    /// The tables of its last statement, and whether the statement changes them.
    pub tables: Vec<(u32, bool)>,
}

/// An entry of a row-lock queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowQueueEntry {
    /// The address of the row.
    pub row: u64,
    /// The session; `None` if it is unknown.
    pub session: Option<i32>,
    /// The strength of the row lock that the session holds or waits for.
    pub strength: Strength,
    /// Whether the lock is granted; otherwise the session waits.
    pub granted: bool,
}

/// Returns the sessions that a session waits for in the row-lock queues: the holders with a
/// conflicting lock. A session that wants to write and holds no lock on the row also waits for the
/// entries before it.
pub fn waited_for(entries: &[RowQueueEntry], session: i32) -> Vec<i32> {
    let mut all = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        if entry.session != Some(session) || entry.granted {
            continue;
        }
        let before = || entries[..at].iter().filter(|other| other.row == entry.row);
        let stands = entry.strength >= Strength::NoKeyUpdate
            && !before().any(|other| other.session == entry.session && other.granted);
        let ahead = before().filter(|other| {
            other.session != entry.session
                && other.strength.conflicts(entry.strength)
                && (other.granted || stands)
        });
        all.extend(ahead.filter_map(|other| other.session));
    }
    all
}

/// The sessions of a database.
pub trait Sessions: Debug + Send + Sync {
    /// Returns the start time of this machine: microseconds from 2000-01-01 UTC.
    fn began(&self) -> i64;

    /// Sends a signal to a session on any machine. `by` is the calling role and whether it is a
    /// superuser.
    fn signal<'a>(
        &'a self,
        session: i32,
        signal: Signal,
        by: (&'a str, bool),
    ) -> LockFuture<'a, SignalOutcome>;

    /// Returns whether a session has ended; waits at most `within_ms` for it.
    fn has_ended(&self, session: i32, within_ms: u64) -> LockFuture<'_, bool>;

    /// Waits for `us` microseconds.
    fn sleep(&self, us: u64) -> LockFuture<'_, ()>;

    /// Returns the row-lock queues of all machines that reply. For each row, the granted entry
    /// precedes the waiting entries.
    fn row_queue_entries(&self) -> LockFuture<'_, Vec<RowQueueEntry>>;

    /// Returns all sessions of all machines that reply.
    fn all(&self) -> LockFuture<'_, Vec<SessionState>>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use Strength::{Share, Update};

    #[test]
    fn session_waits_for_conflicting_queue_entries() {
        let entry = |session, strength, granted| RowQueueEntry {
            row: 7,
            session: Some(session),
            strength,
            granted,
        };
        let mut entries = vec![
            entry(1, Share, true),
            entry(2, Share, true),
            entry(3, Update, false),
            entry(1, Update, false),
            entry(4, Update, false),
        ];
        assert_eq!(waited_for(&entries, 3), [1, 2]);
        assert_eq!(waited_for(&entries, 1), [2], "it has the row already");
        assert_eq!(waited_for(&entries, 4), [1, 2, 3, 1]);
        entries[0].row = 8;
        assert_eq!(waited_for(&entries, 3), [2]);
        let entries = [
            entry(1, Update, true),
            entry(2, Update, false),
            entry(3, Share, false),
        ];
        assert_eq!(waited_for(&entries, 3), [1], "it may overtake the second");
        assert_eq!(waited_for(&entries, 1), [0; 0]);
    }
}
