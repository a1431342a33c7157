//! The locks of a session: how it takes them, waits for them, and releases them.
//!
//! Session-scope locks outlive transactions. When a statement is retried transparently, the locks
//! that its previous run took are released. Transaction-scope locks end with the transaction, or
//! with a rollback to a savepoint that is older than the lock.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use fencepost_sql::advisory::{
    AdvisoryLocks, LockFuture, LockKey, LockMode, LockScope, LockState, lock_timed_out,
};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::table_locks::TableUse;
use parking_lot::Mutex;

use super::Advisory;
use super::home::NotLockManager;
use super::own::{Lock, OwnLocks};
use super::table::{Owner, Verdict};
use super::wire::{LockRequest, RequestKind};
use crate::alarm::Alarm;

/// The waiting time after which a session looks for deadlocks that contain waits for rows.
const DEADLOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// The locks of a session.
pub(crate) struct SessionLocks {
    pub(super) advisory: Arc<Advisory>,
    pub(super) owner: Owner,
    /// True once the session has requested a lock.
    known: AtomicBool,
    /// True if the lock manager may know a lock of this session.
    pub(super) asked: AtomicBool,
    /// True after a release was sent, until the lock manager has confirmed that it has applied it.
    release_pending: AtomicBool,
    lock_timeout_ms: AtomicU64,
    pub(super) own: Mutex<OwnLocks>,
}

/// The number of locks a transaction had taken at some point; see [`SessionLocks::back_to`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LockMark(usize);

impl SessionLocks {
    /// Returns the locks of session `owner`: none.
    pub fn new(advisory: &Arc<Advisory>, owner: Owner) -> Arc<SessionLocks> {
        Arc::new(SessionLocks {
            advisory: Arc::clone(advisory),
            owner,
            known: AtomicBool::new(false),
            asked: AtomicBool::new(false),
            release_pending: AtomicBool::new(false),
            lock_timeout_ms: AtomicU64::new(0),
            own: Mutex::default(),
        })
    }

    /// Sets `lock_timeout`: how long the session waits for a lock. `None` means without limit.
    pub fn set_timeout(&self, timeout: Option<Duration>) {
        let ms = timeout.map_or(0, |t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX));
        self.lock_timeout_ms.store(ms, Ordering::Relaxed);
    }

    /// Starts a statement that may take locks.
    pub fn begin(&self) {
        if self.is_used() {
            self.own.lock().begin();
        }
    }

    /// Releases the session-scope locks of the current statement, because the statement is retried.
    pub fn give_back(&self) {
        if self.is_used() {
            let fresh = self.own.lock().take_fresh();
            self.drop_all(fresh, LockScope::Session);
        }
    }

    /// Returns the current position in the transaction's list of locks.
    pub fn mark(&self) -> LockMark {
        match self.is_used() {
            true => LockMark(self.own.lock().mark()),
            false => LockMark(0),
        }
    }

    /// Releases the locks that the transaction has taken since `mark`; all of them at its end.
    pub fn back_to(&self, mark: LockMark) {
        if self.is_used() {
            let known = self.own.lock().back_to(mark.0);
            if !known.is_empty() {
                self.drop_all(known, LockScope::Transaction);
            }
        }
    }

    fn is_used(&self) -> bool {
        self.known.load(Ordering::Relaxed)
    }

    /// Returns the locks that the lock manager has to know.
    pub(super) fn holdings(&self) -> Vec<LockState> {
        let own = self.own.lock();
        let state = |(key, mode): Lock| LockState {
            key,
            mode,
            session: self.owner,
            granted: true,
        };
        own.known().map(state).collect()
    }

    fn drop_all(&self, locks: Vec<Lock>, scope: LockScope) {
        for lock in locks {
            self.drop_one(lock, scope);
        }
    }

    /// Releases a lock once. Returns whether the session held it in this scope.
    fn drop_one(&self, (key, mode): Lock, scope: LockScope) -> bool {
        let (had, over) = self.advisory.tell_after(|| {
            let (had, over) = self.own.lock().remove((key, mode), scope);
            self.release_pending.fetch_or(over, Ordering::Relaxed);
            let release = over.then_some(self.ask(RequestKind::Release, key, mode));
            ((had, over), release)
        });
        if over {
            self.unmark((key, mode));
        }
        had
    }

    /// Removes the marks of a lock that the session no longer holds, if the lock has marks.
    fn unmark(&self, lock: Lock) {
        if is_marked(lock) {
            self.advisory.unmark_everywhere(self.owner, lock);
        }
    }

    pub(super) fn ask(&self, what: RequestKind, key: LockKey, mode: LockMode) -> LockRequest {
        LockRequest {
            what,
            owner: self.owner,
            key,
            mode,
        }
    }

    /// Takes a lock once more. Returns whether the session has it. If another session holds a
    /// conflicting lock, the session waits if `waits`; otherwise the request is refused.
    ///
    /// # Errors
    /// 40P01 if this request closes a cycle of waits; 55P03 after `lock_timeout`.
    pub(super) async fn lock(
        self: &Arc<Self>,
        lock: Lock,
        scope: LockScope,
        waits: bool,
    ) -> Result<bool, SqlError> {
        self.join();
        {
            let mut own = self.own.lock();
            if own.is_known(lock) {
                own.add(lock, scope);
                return Ok(true);
            }
        }
        self.take(lock, scope, waits).await
    }

    /// Takes a lock that the lock manager does not know.
    async fn take(&self, lock: Lock, scope: LockScope, waits: bool) -> Result<bool, SqlError> {
        self.asked.store(true, Ordering::Relaxed);
        let what = if waits {
            RequestKind::Wait
        } else {
            RequestKind::Try
        };
        let limit = self.lock_timeout_ms.load(Ordering::Relaxed);
        let deadline = (limit > 0).then(|| Instant::now() + Duration::from_millis(limit));
        let mut wanted = PendingLock {
            locks: self,
            lock,
            state: PendingState::Open,
        };
        loop {
            let asked = self.mark_and_ask(what, lock);
            let verdict = self.await_verdict(pin!(asked), deadline, lock).await?;
            match verdict {
                Ok(granted) if granted.is_outdated(&self.advisory) => {
                    // A machine has joined meanwhile, without a mark: release the lock and request
                    // it again.
                    let release = self.ask(RequestKind::Release, lock.0, lock.1);
                    self.advisory.tell_after(|| ((), Some(release)));
                }
                Ok(ManagerReply { verdict, home, .. }) => match verdict {
                    Verdict::Granted => {
                        let add = || self.own.lock().add(lock, scope);
                        if self.advisory.keep(home, add) {
                            wanted.state = PendingState::Granted;
                            return Ok(true);
                        }
                    }
                    Verdict::Refused => {
                        wanted.state = PendingState::Refused;
                        return Ok(false);
                    }
                    Verdict::Deadlock(other) => {
                        wanted.state = PendingState::Refused;
                        return Err(self.deadlock(lock, other));
                    }
                },
                Err(NotLockManager) => self.advisory.pause().await?,
            }
        }
    }

    /// Asks the lock manager for a lock. If the lock conflicts with statements, first sets the mark
    /// on all machines.
    async fn mark_and_ask(
        &self,
        what: RequestKind,
        lock: Lock,
    ) -> Result<ManagerReply, NotLockManager> {
        let marked_in = match is_marked(lock) {
            true => Some(self.advisory.mark_everywhere(self.owner, lock).await?),
            false => None,
        };
        let ask = self.ask(what, lock.0, lock.1);
        let (verdict, home) = self.advisory.ask(ask).await?;
        Ok(ManagerReply {
            verdict,
            home,
            marked_in,
        })
    }

    /// Waits for the verdict of the lock manager. Meanwhile checks `deadline` and looks for
    /// deadlocks.
    async fn await_verdict<T>(
        &self,
        mut asked: Pin<&mut impl Future<Output = T>>,
        deadline: Option<Instant>,
        lock: Lock,
    ) -> Result<T, SqlError> {
        loop {
            let look = Instant::now() + DEADLOCK_TIMEOUT;
            let until = deadline.map_or(look, |deadline| deadline.min(look));
            if let Some(verdict) = within(self.alarm(), until, asked.as_mut()).await {
                return Ok(verdict);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(lock_timed_out());
            }
            if let Some(other) = self.advisory.circle_through_rows(self.owner).await {
                return Err(self.deadlock(lock, other));
            }
        }
    }

    fn alarm(&self) -> &Alarm {
        &self.advisory.alarm
    }

    fn deadlock(&self, (key, mode): Lock, other: Owner) -> SqlError {
        let (class, object, kind) = key.parts();
        let database = key.database();
        let on = match key {
            LockKey::Table(_, table) => format!("relation {table} of database {database}"),
            _ => format!("advisory lock [{database},{class},{object},{kind}]"),
        };
        SqlError::new(SqlState::DEADLOCK_DETECTED, "deadlock detected")
            .detail(format!(
                "Process {} waits for {} on {on}; blocked by process {other}.",
                self.owner,
                mode.name(),
            ))
            .hint("See server log for query details.")
    }

    /// Registers this session, so that its locks are reported to a new lock manager.
    #[inline]
    pub(super) fn join(self: &Arc<Self>) {
        if !self.is_used() && !self.known.swap(true, Ordering::Relaxed) {
            let mut local = self.advisory.local.lock();
            local.sessions.insert(self.owner, Arc::downgrade(self));
        }
    }
}

/// Returns whether a lock needs marks on all machines, because it conflicts with those of
/// statements.
fn is_marked((key, mode): Lock) -> bool {
    matches!(key, LockKey::Table(..)) && mode.conflicts_with_statements()
}

/// The reply of the lock manager.
struct ManagerReply {
    verdict: Verdict,
    home: u32,
    /// The configuration whose members have the mark; `None` if the lock needs no mark.
    marked_in: Option<u64>,
}

impl ManagerReply {
    /// Returns whether the lock is granted, but machines may have joined without a mark.
    fn is_outdated(&self, advisory: &Advisory) -> bool {
        let marked_in = self.marked_in.unwrap_or_else(|| advisory.configuration());
        self.verdict == Verdict::Granted && marked_in != advisory.configuration()
    }
}

/// A lock request in progress. Dropping it before its end cancels the request and releases the
/// lock.
struct PendingLock<'a> {
    locks: &'a SessionLocks,
    lock: Lock,
    state: PendingState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PendingState {
    /// The lock manager may have received the request.
    Open,
    Granted,
    /// The lock manager has refused the request.
    Refused,
}

impl Drop for PendingLock<'_> {
    fn drop(&mut self) {
        let (key, mode) = self.lock;
        if self.state == PendingState::Open {
            let abandon = self.locks.ask(RequestKind::Abandon, key, mode);
            self.locks.release_pending.store(true, Ordering::Relaxed);
            self.locks.advisory.tell_after(|| ((), Some(abandon)));
        }
        if self.state != PendingState::Granted {
            self.locks.unmark(self.lock);
        }
    }
}

impl Drop for SessionLocks {
    fn drop(&mut self) {
        if self.is_used() {
            self.advisory.local.lock().sessions.remove(&self.owner);
        }
        if self.asked.load(Ordering::Relaxed) {
            let end = self.ask(RequestKind::End, LockKey::NotifyCommit, LockMode::Exclusive);
            self.advisory.tell_after(|| ((), Some(end)));
            let known: Vec<Lock> = self.own.get_mut().known().collect();
            known.into_iter().for_each(|lock| self.unmark(lock));
        }
    }
}

impl AdvisoryLocks for Handle {
    fn lock(
        &self,
        key: LockKey,
        mode: LockMode,
        scope: LockScope,
        waits: bool,
    ) -> LockFuture<'_, bool> {
        Box::pin(async move { self.0.lock((key, mode), scope, waits).await })
    }

    fn use_at_once(&self, database: u32, uses: &[TableUse]) -> bool {
        self.0.use_at_once(database, uses)
    }

    fn use_tables<'a>(&'a self, database: u32, uses: &'a [TableUse]) -> LockFuture<'a, ()> {
        Box::pin(async move { self.0.use_tables(database, uses).await })
    }

    fn unlock(&self, key: LockKey, mode: LockMode) -> LockFuture<'_, bool> {
        Box::pin(async move {
            self.0.join();
            Ok(self.0.drop_one((key, mode), LockScope::Session))
        })
    }

    fn unlock_all(&self) -> LockFuture<'_, ()> {
        Box::pin(async move {
            self.0.unlock_session().await;
            Ok(())
        })
    }

    fn all(&self) -> LockFuture<'_, Vec<LockState>> {
        Box::pin(async move {
            loop {
                match self.0.advisory.states().await {
                    Ok(states) => return Ok(states),
                    Err(NotLockManager) => self.0.advisory.pause().await?,
                }
            }
        })
    }
}

impl SessionLocks {
    /// Releases all session-scope locks, and waits until other sessions can take them.
    pub async fn unlock_session(&self) {
        if !self.is_used() {
            return;
        }
        let all = self.own.lock().of_session();
        self.drop_all(all, LockScope::Session);
        self.wait_until_released().await;
    }

    /// Returns whether the lock manager may not have applied a release yet.
    #[inline]
    pub fn owes(&self) -> bool {
        self.release_pending.load(Ordering::Relaxed)
    }

    /// Waits until other sessions can take all locks that were released.
    pub async fn wait_until_released(&self) {
        if self.release_pending.swap(false, Ordering::Relaxed) {
            // An error is harmless: a new lock manager gets the locks that are still held.
            let _ = self.advisory.wait_until_applied(self.owner).await;
        }
    }
}

/// The locks of a session, in the form that the functions of `fencepost_sql` use.
#[derive(Clone)]
pub(crate) struct Handle(pub(crate) Arc<SessionLocks>);

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the advisory locks of session {}", self.0.owner)
    }
}

/// Returns the result of `work`, or `None` if it is not ready by `until`.
async fn within<T>(
    alarm: &Alarm,
    until: Instant,
    mut work: Pin<&mut impl Future<Output = T>>,
) -> Option<T> {
    let mut late = pin!(alarm.sleep(until));
    poll_fn(|task| match work.as_mut().poll(task) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => late.as_mut().poll(task).map(|()| None),
    })
    .await
}
