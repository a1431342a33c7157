//! The locks of one session, with the number of times that it has taken each, and their scope.

use fencepost_sql::advisory::{LockKey, LockMode, LockScope};
use foldhash::HashMap;

pub(super) type Lock = (LockKey, LockMode);

/// The locks of one session.
#[derive(Default)]
pub(super) struct OwnLocks {
    /// The locks that the lock manager knows.
    known: HashMap<Lock, Count>,
    /// The locks of the transaction, in the order in which they were taken.
    taken: Vec<LockEntry>,
    /// The session-scope locks that the current statement has taken.
    fresh: Vec<Lock>,
}

/// The number of times that a lock was taken, for each scope.
#[derive(Clone, Copy, Default)]
struct Count {
    session: u32,
    transaction: u32,
}

struct LockEntry {
    lock: Lock,
    place: RecordedAt,
}

impl LockEntry {
    fn includes(&self, (key, mode): Lock) -> bool {
        self.lock.0 == key && self.lock.1.includes(mode)
    }
}

/// The place where a lock is recorded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RecordedAt {
    /// In the session alone.
    Session,
    /// At the lock manager, too.
    Home,
}

impl OwnLocks {
    /// Returns whether the lock manager knows that the session has this lock.
    pub fn is_known(&self, lock: Lock) -> bool {
        self.known.contains_key(&lock)
    }

    /// Returns all locks that the lock manager has to know.
    pub fn known(&self) -> impl Iterator<Item = Lock> {
        self.known.keys().copied()
    }

    /// Returns the session-scope locks, each as many times as it was taken.
    pub fn of_session(&self) -> Vec<Lock> {
        let times = |(lock, count): (&Lock, &Count)| vec![*lock; count.session as usize];
        self.known.iter().flat_map(times).collect()
    }

    /// Adds a lock that the lock manager has granted.
    pub fn add(&mut self, lock: Lock, scope: LockScope) {
        let count = self.known.entry(lock).or_default();
        match scope {
            LockScope::Session => {
                count.session += 1;
                self.fresh.push(lock);
            }
            LockScope::Transaction => {
                count.transaction += 1;
                let place = RecordedAt::Home;
                self.taken.push(LockEntry { lock, place });
            }
        }
    }

    /// Releases a lock once. Returns whether the session held it in this scope, and whether the
    /// session does not hold it any more.
    pub fn remove(&mut self, lock: Lock, scope: LockScope) -> (bool, bool) {
        let Some(count) = self.known.get_mut(&lock) else {
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
            self.known.remove(&lock);
        }
        (true, over)
    }

    /// Adds the locks of a statement, known to this session alone. Skips locks that the transaction
    /// holds.
    pub fn take_all_here(&mut self, mut locks: impl ExactSizeIterator<Item = Lock> + Clone) {
        let before = self.taken.len();
        // A repeated statement finds its locks in sequence, because its first run recorded them
        // together.
        if let Some(first) = locks.clone().next()
            && let Some(at) = self.taken.iter().position(|taken| taken.lock == first)
        {
            let run = self.taken[at..].iter().map(|taken| taken.lock);
            if locks.len() <= run.len() && run.zip(locks.clone()).all(|(a, b)| a == b) {
                return;
            }
        }
        let place = RecordedAt::Session;
        for lock in &mut locks {
            if !self.taken[..before].iter().any(|had| had.includes(lock)) {
                self.taken.push(LockEntry { lock, place });
            }
        }
    }

    /// Adds the lock of a statement, known to this session alone. Returns false if the transaction
    /// already holds it or a lock that includes it.
    pub fn take_here(&mut self, lock: Lock) -> bool {
        let before = self.taken.len();
        self.take_all_here(std::iter::once(lock));
        self.taken.len() > before
    }

    /// Removes the locks that were taken since `mark` and are known to this session alone.
    pub fn take_back_here(&mut self, mark: usize) {
        let mut at = 0;
        self.taken.retain(|taken| {
            at += 1;
            at <= mark || taken.place == RecordedAt::Home
        });
    }

    /// Marks a lock on `key` that was known to this session alone as known to the lock manager.
    /// Returns the lock, if there is one.
    pub fn move_to_manager(&mut self, key: LockKey) -> Option<Lock> {
        let mut taken = self.taken.iter_mut();
        let is_wanted =
            |taken: &&mut LockEntry| taken.lock.0 == key && taken.place == RecordedAt::Session;
        let taken = taken.find(is_wanted)?;
        taken.place = RecordedAt::Home;
        self.known.entry(taken.lock).or_default().transaction += 1;
        Some(taken.lock)
    }

    /// Returns the number of locks that the transaction has taken.
    pub fn mark(&self) -> usize {
        self.taken.len()
    }

    /// Removes the transaction's locks since `mark`. Returns the ones that the lock manager knows,
    /// the last one first.
    pub fn back_to(&mut self, mark: usize) -> Vec<Lock> {
        if self.known.is_empty() {
            self.taken.truncate(mark);
            return Vec::new();
        }
        let mark = mark.min(self.taken.len());
        let at_home = |taken: &&LockEntry| taken.place == RecordedAt::Home;
        let taken = self.taken[mark..].iter().rev().filter(at_home);
        let known = taken.map(|taken| taken.lock).collect();
        self.taken.truncate(mark);
        known
    }

    /// Starts a new statement: clears the list of its session-scope locks.
    pub fn begin(&mut self) {
        self.fresh.clear();
    }

    /// Returns the session-scope locks that the statement has taken, the last one first.
    pub fn take_fresh(&mut self) -> Vec<Lock> {
        let mut fresh = std::mem::take(&mut self.fresh);
        fresh.reverse();
        fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use LockMode::{AccessShare, RowExclusive, Share};

    const KEY: LockKey = LockKey::Table(5, 7);
    const OTHER: LockKey = LockKey::Table(5, 8);

    #[test]
    fn statement_takes_its_lock_once() {
        let mut own = OwnLocks::default();
        assert!(own.take_here((KEY, RowExclusive)));
        assert!(!own.take_here((KEY, RowExclusive)));
        assert!(!own.take_here((KEY, AccessShare)), "it is included");
        assert!(own.take_here((OTHER, AccessShare)));
        assert!(own.take_here((OTHER, RowExclusive)), "it is stronger");
        assert_eq!((own.mark(), own.known().count()), (3, 0));
        assert_eq!(own.back_to(0), []);
        assert_eq!(own.mark(), 0);
    }

    #[test]
    fn repeated_statement_finds_its_locks() {
        let statement = [(OTHER, AccessShare), (KEY, RowExclusive)];
        let mut own = OwnLocks::default();
        own.take_here((KEY, AccessShare));
        for _ in 0..3 {
            own.take_all_here(statement.into_iter());
            assert_eq!(own.mark(), 3);
        }
        own.back_to(2);
        own.take_all_here(statement.into_iter());
        assert_eq!(own.mark(), 3, "only one of them is there still");
    }

    #[test]
    fn lock_moved_to_manager_is_released_there() {
        let mut own = OwnLocks::default();
        own.take_here((KEY, RowExclusive));
        own.take_here((OTHER, AccessShare));
        assert_eq!(own.move_to_manager(KEY), Some((KEY, RowExclusive)));
        assert_eq!(own.move_to_manager(KEY), None);
        assert!(own.is_known((KEY, RowExclusive)));
        own.take_back_here(1);
        assert_eq!(own.mark(), 1, "the home does not know the other one");
        assert_eq!(own.back_to(0), [(KEY, RowExclusive)]);
        let removed = own.remove((KEY, RowExclusive), LockScope::Transaction);
        assert_eq!(removed, (true, true));
    }

    #[test]
    fn rollback_to_savepoint_keeps_earlier_locks() {
        let mut own = OwnLocks::default();
        own.take_here((KEY, AccessShare));
        let mark = own.mark();
        own.take_here((OTHER, AccessShare));
        own.add((KEY, Share), LockScope::Transaction);
        own.move_to_manager(KEY);
        assert_eq!(own.back_to(mark), [(KEY, Share)]);
        assert_eq!(own.back_to(0), [(KEY, AccessShare)]);
    }
}
