//! The advisory locks of a session: how often it has taken each, and until when.
//!
//! Locks of the session stay, however transactions end; a statement that is run again unseen gives back what its run
//! before had taken. Those of the transaction go with it, or with the savepoint that they were taken after.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use fencepost_sql::advisory::{
    AdvisoryLocks, Asked, LockKey, LockMode, LockScope, LockState, lock_timed_out,
};
use fencepost_sql::error::{SqlError, SqlState};
use foldhash::HashMap;
use parking_lot::Mutex;

use super::Advisory;
use super::home::NotHome;
use super::table::{Owner, Verdict};
use super::wire::{Ask, What};
use crate::alarm::Alarm;

/// How long a session has waited when it looks for circles that go through rows.
const DEADLOCK_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a session waits before it asks again where the home is.
const ASK_AGAIN: Duration = Duration::from_millis(20);

type Lock = (LockKey, LockMode);

/// The locks of a session.
pub(crate) struct SessionLocks {
    advisory: Arc<Advisory>,
    owner: Owner,
    /// It has asked for a lock before.
    known: AtomicBool,
    /// It has told the home of what it gives back, and not heard since that this is known.
    told: AtomicBool,
    lock_timeout_ms: AtomicU64,
    own: Mutex<Own>,
}

#[derive(Default)]
struct Own {
    had: HashMap<Lock, Count>,
    /// Those of the transaction, as they were taken.
    taken: Vec<Lock>,
    /// Those of the session that the statement has taken.
    fresh: Vec<Lock>,
}

/// How often a lock was taken.
#[derive(Clone, Copy, Default)]
struct Count {
    session: u32,
    transaction: u32,
}

/// Where a transaction stands with its locks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LockMark(usize);

impl Own {
    fn add(&mut self, lock: Lock, scope: LockScope) {
        let count = self.had.entry(lock).or_default();
        match scope {
            LockScope::Session => {
                count.session += 1;
                self.fresh.push(lock);
            }
            LockScope::Transaction => {
                count.transaction += 1;
                self.taken.push(lock);
            }
        }
    }

    /// Takes back one of the times that a lock was taken; whether there was one, and whether the lock is had no more.
    fn remove(&mut self, lock: Lock, scope: LockScope) -> (bool, bool) {
        let Some(count) = self.had.get_mut(&lock) else {
            return (false, false);
        };
        let times = match scope {
            LockScope::Session => &mut count.session,
            LockScope::Transaction => &mut count.transaction,
        };
        if *times == 0 {
            return (false, false);
        }
        *times -= 1;
        let over = count.session == 0 && count.transaction == 0;
        if over {
            self.had.remove(&lock);
        }
        (true, over)
    }
}

impl SessionLocks {
    /// None yet.
    pub fn new(advisory: &Arc<Advisory>, owner: Owner) -> Arc<SessionLocks> {
        Arc::new(SessionLocks {
            advisory: Arc::clone(advisory),
            owner,
            known: AtomicBool::new(false),
            told: AtomicBool::new(false),
            lock_timeout_ms: AtomicU64::new(0),
            own: Mutex::default(),
        })
    }

    /// How long it waits for a lock; `None`: as long as it takes.
    pub fn set_timeout(&self, timeout: Option<Duration>) {
        let ms = timeout.map_or(0, |t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX));
        self.lock_timeout_ms.store(ms, Ordering::Relaxed);
    }

    /// A statement that may take locks begins.
    pub fn begin(&self) {
        if self.is_used() {
            self.own.lock().fresh.clear();
        }
    }

    /// The statement is run again: what it has taken is given back.
    pub fn give_back(&self) {
        if self.is_used() {
            let fresh = std::mem::take(&mut self.own.lock().fresh);
            self.drop_all(fresh, LockScope::Session);
        }
    }

    /// Where the transaction stands.
    pub fn mark(&self) -> LockMark {
        match self.is_used() {
            true => LockMark(self.own.lock().taken.len()),
            false => LockMark(0),
        }
    }

    /// What the transaction has taken since is given back; all at its end.
    pub fn back_to(&self, mark: LockMark) {
        if self.is_used() {
            let mut own = self.own.lock();
            let at = mark.0.min(own.taken.len());
            let taken = own.taken.split_off(at);
            drop(own);
            self.drop_all(taken, LockScope::Transaction);
        }
    }

    fn is_used(&self) -> bool {
        self.known.load(Ordering::Relaxed)
    }

    /// What a home is to know.
    pub(super) fn holdings(&self) -> Vec<LockState> {
        let own = self.own.lock();
        let state = |(key, mode): &Lock| LockState {
            key: *key,
            mode: *mode,
            session: self.owner,
            granted: true,
        };
        own.had.keys().map(state).collect()
    }

    fn drop_all(&self, locks: Vec<Lock>, scope: LockScope) {
        // In the reverse order of taking.
        for lock in locks.into_iter().rev() {
            self.drop_one(lock, scope);
        }
    }

    /// Gives a lock back once; whether it was had.
    fn drop_one(&self, (key, mode): Lock, scope: LockScope) -> bool {
        self.advisory.tell_after(|| {
            let (had, over) = self.own.lock().remove((key, mode), scope);
            self.told.fetch_or(over, Ordering::Relaxed);
            (had, over.then_some(self.ask(What::Release, key, mode)))
        })
    }

    fn ask(&self, what: What, key: LockKey, mode: LockMode) -> Ask {
        Ask {
            what,
            owner: self.owner,
            key,
            mode,
        }
    }

    /// Takes a lock that it does not have.
    async fn take(
        &self,
        (key, mode): Lock,
        scope: LockScope,
        waits: bool,
    ) -> Result<bool, SqlError> {
        let what = if waits { What::Wait } else { What::Try };
        let limit = self.lock_timeout_ms.load(Ordering::Relaxed);
        let deadline = (limit > 0).then(|| Instant::now() + Duration::from_millis(limit));
        let mut wanted = Wanted {
            locks: self,
            lock: (key, mode),
            open: true,
        };
        loop {
            let asked = self.advisory.ask(self.ask(what, key, mode));
            let verdict = self
                .await_verdict(pin!(asked), deadline, (key, mode))
                .await?;
            match verdict {
                Ok((Verdict::Granted, home)) => {
                    let kept = self.advisory.keep(home, || {
                        self.own.lock().add((key, mode), scope);
                    });
                    if kept {
                        wanted.open = false;
                        return Ok(true);
                    }
                }
                Ok((Verdict::Refused, _)) => {
                    wanted.open = false;
                    return Ok(false);
                }
                Ok((Verdict::Deadlock(other), _)) => {
                    wanted.open = false;
                    return Err(self.deadlock((key, mode), other));
                }
                Err(NotHome) => self.alarm().sleep(Instant::now() + ASK_AGAIN).await,
            }
        }
    }

    /// Waits for what the home says, and now and then looks whether waiting makes sense.
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

    /// Others may ask what it has from now on.
    fn join(self: &Arc<Self>) {
        if !self.known.swap(true, Ordering::Relaxed) {
            let mut here = self.advisory.here.lock();
            here.sessions.insert(self.owner, Arc::downgrade(self));
        }
    }
}

/// A lock that is asked for; dropped while that is so, it is neither wanted nor had.
struct Wanted<'a> {
    locks: &'a SessionLocks,
    lock: Lock,
    open: bool,
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        if self.open {
            let (key, mode) = self.lock;
            let abandon = self.locks.ask(What::Abandon, key, mode);
            self.locks.told.store(true, Ordering::Relaxed);
            self.locks.advisory.tell_after(|| ((), Some(abandon)));
        }
    }
}

impl Drop for SessionLocks {
    fn drop(&mut self) {
        if self.is_used() {
            self.advisory.here.lock().sessions.remove(&self.owner);
            let end = self.ask(What::End, LockKey::Turn, LockMode::Exclusive);
            self.advisory.tell_after(|| ((), Some(end)));
        }
    }
}

impl AdvisoryLocks for Handle {
    fn lock(&self, key: LockKey, mode: LockMode, scope: LockScope, waits: bool) -> Asked<'_, bool> {
        Box::pin(async move {
            self.0.join();
            {
                let mut own = self.0.own.lock();
                if own.had.contains_key(&(key, mode)) {
                    own.add((key, mode), scope);
                    return Ok(true);
                }
            }
            self.0.take((key, mode), scope, waits).await
        })
    }

    fn unlock(&self, key: LockKey, mode: LockMode) -> Asked<'_, bool> {
        Box::pin(async move {
            self.0.join();
            Ok(self.0.drop_one((key, mode), LockScope::Session))
        })
    }

    fn unlock_all(&self) -> Asked<'_, ()> {
        Box::pin(async move {
            self.0.unlock_session().await;
            Ok(())
        })
    }

    fn all(&self) -> Asked<'_, Vec<LockState>> {
        Box::pin(async move {
            loop {
                match self.0.advisory.states().await {
                    Ok(states) => return Ok(states),
                    Err(NotHome) => self.0.alarm().sleep(Instant::now() + ASK_AGAIN).await,
                }
            }
        })
    }
}

impl SessionLocks {
    /// Gives all locks of the session back, and waits until others can have them.
    pub async fn unlock_session(&self) {
        if !self.is_used() {
            return;
        }
        let all: Vec<Lock> = {
            let own = self.own.lock();
            let times = |(lock, count): (&Lock, &Count)| vec![*lock; count.session as usize];
            own.had.iter().flat_map(times).collect()
        };
        self.drop_all(all, LockScope::Session);
        self.settle().await;
    }

    /// Whether others may not know yet of something that was given back.
    #[inline]
    pub fn owes(&self) -> bool {
        self.told.load(Ordering::Relaxed)
    }

    /// Waits until others can have all that was given back.
    pub async fn settle(&self) {
        if self.told.swap(false, Ordering::Relaxed) {
            let nothing = self.ask(What::Settle, LockKey::Turn, LockMode::Exclusive);
            // An answer of the home's comes after all that it was told. A new one is told what is still had.
            let _ = self.advisory.ask(nothing).await;
        }
    }
}

/// The locks of a session, as functions know them.
#[derive(Clone)]
pub(crate) struct Handle(pub(crate) Arc<SessionLocks>);

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the advisory locks of session {}", self.0.owner)
    }
}

/// What `work` gives by `until`.
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
