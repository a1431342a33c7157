//! Marks: the tables on which a session of any machine holds or requests a lock that conflicts with
//! the locks of statements.
//!
//! ```text
//! statement                            LOCK TABLE, DDL
//!   its session notes the lock           every machine sets a mark on the table
//!   is there a mark on the table?        every session reports its locks of the table
//!     no:  the lock is held              the lock manager gets the request, knows all conflicts
//!     yes: ask the lock manager for it   the mark is removed with the lock
//! ```
//! # Invariants
//! * ADV-5: a session notes a lock before it looks for marks. A machine sets a mark before it looks
//!   at its sessions. Both happen under the session's mutex. So a statement sees the mark, or its
//!   lock is reported.
//!
//! # Failure
//! A mark whose session is lost without a message stays until the machine of that session is no
//! longer a member. Until then, statements on that table ask the lock manager.

use std::sync::atomic::{AtomicUsize, Ordering};

use fencepost_sql::advisory::LockKey;
use foldhash::HashMap;
use parking_lot::Mutex;

use super::own::Lock;
use super::table::Owner;

/// The marks that this machine knows.
pub(super) struct Marks {
    /// The number of marks, plus one while marks set before this machine joined may be unknown.
    count: AtomicUsize,
    known: Mutex<KnownMarks>,
}

struct KnownMarks {
    /// True once the marks that were set before this machine joined are known.
    all: bool,
    marks: HashMap<LockKey, Vec<Mark>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Mark {
    owner: Owner,
    lock: Lock,
}

impl Marks {
    /// Returns an empty set of marks. If there are other machines, their earlier marks are still
    /// unknown: `all` is false.
    pub fn new(others: OtherMachines) -> Marks {
        let all = others == OtherMachines::None;
        Marks {
            count: AtomicUsize::new(usize::from(!all)),
            known: Mutex::new(KnownMarks {
                all,
                marks: HashMap::default(),
            }),
        }
    }

    /// Returns whether there are no marks on any table.
    #[inline]
    pub fn are_none(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }

    /// Returns whether all marks that were set before are known.
    pub fn are_known(&self) -> bool {
        self.known.lock().all
    }

    /// Records that all marks that were set before are known.
    pub fn note_all(&self) {
        let mut known = self.known.lock();
        if !std::mem::replace(&mut known.all, true) {
            self.count.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Returns whether another session than `owner` has set a mark on `key`, or may have.
    pub fn are_on(&self, key: LockKey, owner: Owner) -> bool {
        let known = self.known.lock();
        let marks = known.marks.get(&key);
        !known.all || marks.is_some_and(|marks| marks.iter().any(|mark| mark.owner != owner))
    }

    /// Sets a mark.
    pub fn set(&self, owner: Owner, lock: Lock) {
        let mark = Mark { owner, lock };
        let mut known = self.known.lock();
        let marks = known.marks.entry(lock.0).or_default();
        if !marks.contains(&mark) {
            marks.push(mark);
            self.count.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Removes a mark.
    pub fn remove(&self, owner: Owner, lock: Lock) {
        self.retain(|mark| *mark != Mark { owner, lock });
    }

    /// Removes the marks of all owners for which `is_evicted` returns true.
    pub fn part_with(&self, is_evicted: impl Fn(Owner) -> bool) {
        self.retain(|mark| !is_evicted(mark.owner));
    }

    fn retain(&self, stays: impl Fn(&Mark) -> bool) {
        let mut known = self.known.lock();
        let mut removed = 0;
        known.marks.retain(|_, marks| {
            let before = marks.len();
            marks.retain(&stays);
            removed += before - marks.len();
            !marks.is_empty()
        });
        self.count.fetch_sub(removed, Ordering::SeqCst);
    }
}

/// The presence of other machines in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OtherMachines {
    None,
    Some,
}

#[cfg(test)]
mod tests {
    use fencepost_sql::advisory::LockMode::{Exclusive, Share};

    use super::*;

    const KEY: LockKey = LockKey::Table(5, 7);

    #[test]
    fn mark_counts_for_all_but_its_owner() {
        let marks = Marks::new(OtherMachines::None);
        assert!(marks.are_none());
        marks.set(1, (KEY, Share));
        marks.set(1, (KEY, Share));
        assert!(marks.are_on(KEY, 2) && !marks.are_on(KEY, 1));
        assert!(!marks.are_on(LockKey::Table(5, 8), 2));
        marks.set(2, (KEY, Exclusive));
        assert!(marks.are_on(KEY, 1));
        marks.remove(1, (KEY, Share));
        assert!(!marks.are_on(KEY, 2) && !marks.are_none());
        marks.part_with(|owner| owner == 2);
        assert!(marks.are_none());
    }

    #[test]
    fn joining_machine_assumes_marks_until_they_are_known() {
        let marks = Marks::new(OtherMachines::Some);
        assert!(!marks.are_none() && marks.are_on(KEY, 1));
        marks.note_all();
        marks.note_all();
        assert!(marks.are_none() && !marks.are_on(KEY, 1));
    }
}
