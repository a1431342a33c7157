//! Advisory locks and table locks, as functions request them. [`AdvisoryLocks`] hides the lock
//! manager.
//!
//! A lock belongs to a session or a transaction and is shared or exclusive. A session's own locks
//! never conflict with each other. Waiting requests are queued, first come, first served.
//!
//! # Failure
//! 40P01 for the request that closes a deadlock, 55P03 after `lock_timeout`, and the errors of a
//! cancel or of the statement's deadline. The requested lock is then not held; all earlier locks
//! still are.

use std::fmt::Debug;

use crate::error::{SqlError, SqlState};
pub use crate::lock_future::LockFuture;
pub use crate::lock_mode::LockMode;
use crate::table_locks::TableUse;

/// The key of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LockKey {
    /// A key of one `bigint`, in a database.
    One(u32, i64),
    /// A key of two `integer`s, in a database; it never equals a key of one number.
    Two(u32, i32, i32),
    /// A table, by the oid of its database and its own oid.
    Table(u32, u32),
    /// An internal lock that serializes the commits of transactions with notifications.
    NotifyCommit,
}

impl LockKey {
    /// Returns the oid of the key's database; 0 for a key of all databases.
    pub fn database(self) -> u32 {
        match self {
            LockKey::NotifyCommit => 0,
            LockKey::One(database, _)
            | LockKey::Two(database, ..)
            | LockKey::Table(database, _) => database,
        }
    }

    /// Returns the key as `pg_locks` shows it: class, object and kind.
    pub fn parts(self) -> (u32, u32, i16) {
        match self {
            LockKey::NotifyCommit => (1262, 0, 0),
            LockKey::One(_, key) => ((key >> 32) as u32, key as u32, 1),
            LockKey::Two(_, class, object) => (class as u32, object as u32, 2),
            LockKey::Table(_, table) => (1259, table, 0),
        }
    }
}

/// The duration of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockScope {
    /// Until the lock is released or the session ends.
    Session,
    /// Until the transaction ends.
    Transaction,
}

/// A lock that a session holds or waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockState {
    /// The key.
    pub key: LockKey,
    /// The mode.
    pub mode: LockMode,
    /// The number of the session.
    pub session: i32,
    /// Whether the session holds the lock; otherwise it waits.
    pub granted: bool,
}

impl LockState {
    fn stands_in_the_way_of(&self, other: &LockState) -> bool {
        self.session != other.session && self.key == other.key && self.mode.conflicts(other.mode)
    }
}

/// Returns the sessions that a session waits for, over all locks. `locks` lists the waiters of a
/// key in the order of its queue.
pub fn waited_for(locks: &[LockState], session: i32) -> Vec<i32> {
    let mut all = Vec::new();
    for (at, wanted) in locks.iter().enumerate() {
        if wanted.granted || wanted.session != session {
            continue;
        }
        let of_key = |lock: &&LockState| lock.key == wanted.key;
        let has_it = |lock: &LockState| lock.granted && lock.session == session;
        // A session that already holds the lock in another mode does not queue.
        let stands = !locks.iter().filter(of_key).any(has_it);
        let before = locks.iter().enumerate().filter(|(place, lock)| {
            lock.stands_in_the_way_of(wanted) && (lock.granted || stands && *place < at)
        });
        all.extend(before.map(|(_, lock)| lock.session));
    }
    all
}

/// The advisory locks and table locks of a session.
pub trait AdvisoryLocks: Debug + Send + Sync {
    /// Takes a lock once more and returns whether the session holds it. On a conflict, the request
    /// waits if `waits` is set and fails otherwise.
    fn lock(
        &self,
        key: LockKey,
        mode: LockMode,
        scope: LockScope,
        waits: bool,
    ) -> LockFuture<'_, bool>;

    /// Takes the table locks of a statement in `database` until the transaction ends, if none of
    /// them has to wait. Returns whether the session holds them all; if not, [`Self::use_tables`]
    /// takes them.
    fn use_at_once(&self, database: u32, uses: &[TableUse]) -> bool;

    /// Takes the table locks of a statement in `database` until the transaction ends.
    ///
    /// The future fails with 40P01 if it closes a deadlock, and with 55P03 after `lock_timeout`.
    fn use_tables<'a>(&'a self, database: u32, uses: &'a [TableUse]) -> LockFuture<'a, ()>;

    /// Releases a lock of the session once; returns whether the session held it.
    fn unlock(&self, key: LockKey, mode: LockMode) -> LockFuture<'_, bool>;

    /// Releases all locks of the session.
    fn unlock_all(&self) -> LockFuture<'_, ()>;

    /// Returns all locks of the database. For each key, the held locks precede the queued requests.
    fn all(&self) -> LockFuture<'_, Vec<LockState>>;
}

/// Returns error 55P03: a lock request waited longer than `lock_timeout`.
#[cold]
pub fn lock_timed_out() -> SqlError {
    let message = "canceling statement due to lock timeout";
    SqlError::new(SqlState::LOCK_NOT_AVAILABLE, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_waits_for_holders_and_earlier_waiters() {
        let lock = |session, mode, granted| LockState {
            key: LockKey::One(5, 7),
            mode,
            session,
            granted,
        };
        let (shared, exclusive) = (LockMode::Share, LockMode::Exclusive);
        let mut locks = vec![
            lock(1, shared, true),
            lock(2, shared, true),
            lock(3, exclusive, false),
            lock(4, shared, false),
            lock(1, exclusive, false),
        ];
        locks.push(LockState {
            key: LockKey::One(5, 8),
            ..lock(3, exclusive, true)
        });
        assert_eq!(waited_for(&locks, 3), [1, 2]);
        assert_eq!(waited_for(&locks, 4), [3]);
        assert_eq!(waited_for(&locks, 1), [2], "it has the lock already");
        assert_eq!(waited_for(&locks, 2), [0; 0]);
    }
}
