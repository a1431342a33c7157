//! Advisory locks, as functions ask for them, and those of tables: who keeps the locks of a session is behind
//! [`AdvisoryLocks`].
//!
//! A lock is of a session or of a transaction, shared or exclusive, and a session does not stand in its own way.
//! Who waits for a lock stands in line, first come first served.
//!
//! # Failure
//! 40P01 for whoever closes a circle of waits, 55P03 after `lock_timeout`, and what a cancel or the statement's
//! deadline make of it; the lock is not had then, and all that was had before is.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;

use crate::error::{SqlError, SqlState};
pub use crate::lock_mode::LockMode;
use crate::table_locks::TableUse;

/// What a lock is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LockKey {
    /// One number, in a database.
    One(u32, i64),
    /// Two numbers, in a database; not the same as any one.
    Two(u32, i32, i32),
    /// A table, by the oids of its database and its own.
    Table(u32, u32),
    /// No client's: whose turn it is to commit with something to tell.
    Turn,
}

impl LockKey {
    /// The oid of the database that it is of; 0 where it is of all.
    pub fn database(self) -> u32 {
        match self {
            LockKey::Turn => 0,
            LockKey::One(database, _)
            | LockKey::Two(database, ..)
            | LockKey::Table(database, _) => database,
        }
    }

    /// The key as `pg_locks` shows it: class, object and kind.
    pub fn parts(self) -> (u32, u32, i16) {
        match self {
            LockKey::Turn => (1262, 0, 0),
            LockKey::One(_, key) => ((key >> 32) as u32, key as u32, 1),
            LockKey::Two(_, class, object) => (class as u32, object as u32, 2),
            LockKey::Table(_, table) => (1259, table, 0),
        }
    }
}

/// How long a lock is had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockScope {
    /// Until it is given back, or the session ends.
    Session,
    /// Until the transaction ends.
    Transaction,
}

/// A lock that somebody has, or waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockState {
    /// What it is about.
    pub key: LockKey,
    /// How.
    pub mode: LockMode,
    /// The session's number.
    pub session: i32,
    /// It is had, not waited for.
    pub granted: bool,
}

impl LockState {
    fn stands_in_the_way_of(&self, other: &LockState) -> bool {
        self.session != other.session && self.key == other.key && self.mode.conflicts(other.mode)
    }
}

/// Whom a session waits for, by all locks, those of a key that are waited for in the order of their line.
pub fn waited_for(locks: &[LockState], session: i32) -> Vec<i32> {
    let mut all = Vec::new();
    for (at, wanted) in locks.iter().enumerate() {
        if wanted.granted || wanted.session != session {
            continue;
        }
        let of_key = |lock: &&LockState| lock.key == wanted.key;
        let has_it = |lock: &LockState| lock.granted && lock.session == session;
        // Who has the lock already, in another mode, does not stand in line.
        let stands = !locks.iter().filter(of_key).any(has_it);
        let before = locks.iter().enumerate().filter(|(place, lock)| {
            lock.stands_in_the_way_of(wanted) && (lock.granted || stands && *place < at)
        });
        all.extend(before.map(|(_, lock)| lock.session));
    }
    all
}

/// What becomes of a request.
pub type Asked<'a, T> = Pin<Box<dyn Future<Output = Result<T, SqlError>> + Send + 'a>>;

/// The advisory locks of a session.
pub trait AdvisoryLocks: Debug + Send + Sync {
    /// Takes a lock once more; whether it is had. Where others stand in the way, it `waits` or is not had.
    fn lock(&self, key: LockKey, mode: LockMode, scope: LockScope, waits: bool) -> Asked<'_, bool>;

    /// Takes the locks of a statement on tables of `database` until the transaction ends, if none of them has to be
    /// waited for. Returns whether the session has them all; if not, [`Self::use_tables`] takes them.
    fn use_at_once(&self, database: u32, uses: &[TableUse]) -> bool;

    /// Takes the locks of a statement on tables of `database` until the transaction ends.
    ///
    /// The future fails with 40P01 if it closes a circle of waits, and with 55P03 after `lock_timeout`.
    fn use_tables<'a>(&'a self, database: u32, uses: &'a [TableUse]) -> Asked<'a, ()>;

    /// Gives a lock of the session back that was taken once; whether there was one.
    fn unlock(&self, key: LockKey, mode: LockMode) -> Asked<'_, bool>;

    /// Gives all locks of the session back.
    fn unlock_all(&self) -> Asked<'_, ()>;

    /// All locks of the database; of a key those that are had come first, then those that are waited for, in line.
    fn all(&self) -> Asked<'_, Vec<LockState>>;
}

/// 55P03: a lock was waited for longer than `lock_timeout`.
#[cold]
pub fn lock_timed_out() -> SqlError {
    let message = "canceling statement due to lock timeout";
    SqlError::new(SqlState::LOCK_NOT_AVAILABLE, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_waits_for_holders_and_for_those_before_it_in_line() {
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
