//! Advisory locks, as functions ask for them: who keeps the locks of a session is behind [`AdvisoryLocks`].
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

/// What a lock is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LockKey {
    /// One number, in a database.
    One(u32, i64),
    /// Two numbers, in a database; not the same as any one.
    Two(u32, i32, i32),
    /// No client's: whose turn it is to commit with something to tell.
    Turn,
}

/// How a lock is had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LockMode {
    /// By nobody else.
    Exclusive,
    /// By nobody else exclusively.
    Shared,
}

impl LockKey {
    /// The oid of the database that it is of; 0 where it is of all.
    pub fn database(self) -> u32 {
        match self {
            LockKey::Turn => 0,
            LockKey::One(database, _) | LockKey::Two(database, ..) => database,
        }
    }

    /// The key as `pg_locks` shows it: class, object and kind.
    pub fn parts(self) -> (u32, u32, i16) {
        match self {
            LockKey::Turn => (1262, 0, 0),
            LockKey::One(_, key) => ((key >> 32) as u32, key as u32, 1),
            LockKey::Two(_, class, object) => (class as u32, object as u32, 2),
        }
    }
}

impl LockMode {
    /// As PostgreSQL calls it.
    pub fn name(self) -> &'static str {
        match self {
            LockMode::Exclusive => "ExclusiveLock",
            LockMode::Shared => "ShareLock",
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

/// What becomes of a request.
pub type Asked<'a, T> = Pin<Box<dyn Future<Output = Result<T, SqlError>> + Send + 'a>>;

/// The advisory locks of a session.
pub trait AdvisoryLocks: Debug + Send + Sync {
    /// Takes a lock once more; whether it is had. Where others stand in the way, it `waits` or is not had.
    fn lock(&self, key: LockKey, mode: LockMode, scope: LockScope, waits: bool) -> Asked<'_, bool>;

    /// Gives a lock of the session back that was taken once; whether there was one.
    fn unlock(&self, key: LockKey, mode: LockMode) -> Asked<'_, bool>;

    /// Gives all locks of the session back.
    fn unlock_all(&self) -> Asked<'_, ()>;

    /// All locks of the database.
    fn all(&self) -> Asked<'_, Vec<LockState>>;
}

/// 55P03: a lock was waited for longer than `lock_timeout`.
#[cold]
pub fn lock_timed_out() -> SqlError {
    let message = "canceling statement due to lock timeout";
    SqlError::new(SqlState::LOCK_NOT_AVAILABLE, message)
}
