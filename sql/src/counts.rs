//! Statistics counters of relations and of the database, as `pg_stat_database` and similar views
//! show them.
//!
//! ```text
//! Counting ─► a page for each relation: cells that one session adds to ◄─ any reader, at any time
//! ```
//! Each session owns its pages, and each page has its own cache lines. Counting is an addition to
//! memory that no other thread writes: it needs no lock, and no work at the end of a statement. A
//! reader adds up the pages of all sessions.
//!
//! Invariants
//! - COUNT-1: only the owner of a page's [`SessionCounters`] writes the page.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use fencepost_txn::Machine;
use foldhash::fast::FixedState;
use parking_lot::Mutex;

use crate::lock_future::LockFuture;

/// The number of counters in a page.
pub const CELLS: usize = 8;
/// The key of the page of the database as a whole; no relation has this oid.
pub const DATABASE: u32 = 0;
/// The maximum number of pages of one session. Further relations share one page that is not shown.
const PAGES_MAX: usize = 16 * 1024;
/// The key of the page that is not shown.
const NOT_SHOWN: u32 = u32::MAX;
/// The number of most recent commits that a session remembers.
const COMMITS: usize = 8;

/// A counter of a table or an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Scans begun: sequential scans of a table, or scans of an index.
    Scans = 0,
    /// Rows of a table, or entries of an index, that those scans passed.
    Returned = 1,
    /// Rows that were fetched through an index.
    Fetched = 2,
    /// Rows inserted.
    Inserted = 3,
    /// Rows updated.
    Updated = 4,
    /// Rows deleted.
    Deleted = 5,
}

/// A counter of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Transactions that have committed.
    Commits = 0,
    /// Transactions that were rolled back.
    Rollbacks = 1,
    /// Deadlocks that were reported to a client.
    Deadlocks = 2,
    /// Sessions that were opened.
    Sessions = 3,
    /// Nanoseconds that statements were active.
    ActiveNs = 4,
    /// Microseconds that ended sessions lasted.
    SessionUs = 5,
    /// Sessions that an administrator terminated.
    Killed = 6,
    /// Serializable blocks that were replayed after a conflict without the client's notice, per
    /// successful replay.
    Replays = 7,
}

/// The counters of a relation in one session.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Page([AtomicU64; CELLS]);

impl Page {
    #[inline]
    fn add_to(&self, cell: usize, more: u64) {
        // COUNT-1: no other thread writes the cell, so a load and a store suffice.
        let cell = &self.0[cell];
        cell.store(cell.load(Relaxed).wrapping_add(more), Relaxed);
    }

    /// Adds to a counter.
    #[inline]
    pub fn add(&self, what: Count, more: u64) {
        self.add_to(what as usize, more);
    }

    fn cells(&self) -> [u64; CELLS] {
        std::array::from_fn(|cell| self.0[cell].load(Relaxed))
    }
}

/// The part of one session's counters that other sessions can read.
#[derive(Debug, Default)]
pub struct Pages {
    pages: Mutex<Vec<(u32, Arc<Page>)>>,
    database: Page,
    commits: [Commit; COMMITS],
}

/// The commit timestamp and the statement that committed.
#[derive(Debug, Default)]
struct Commit {
    timestamp: AtomicU64,
    statement: AtomicU64,
}

impl Pages {
    /// Adds all counters of the session to `sums`.
    pub fn add_to(&self, sums: &mut Sums) {
        add(sums, DATABASE, self.database.cells());
        for (id, page) in &*self.pages.lock() {
            add(sums, *id, page.cells());
        }
    }

    /// Returns the number of the statement that committed at `timestamp`; `None` if the session no
    /// longer remembers the commit.
    pub fn statement_of(&self, timestamp: u64) -> Option<i64> {
        let mut commits = self.commits.iter();
        let found = commits.find(|commit| commit.timestamp.load(Relaxed) == timestamp)?;
        Some(found.statement.load(Relaxed) as i64)
    }
}

/// Counters of relations, by oid.
pub type Sums = HashMap<u32, [u64; CELLS], FixedState>;

/// Adds to the counters of a relation.
pub fn add(sums: &mut Sums, id: u32, cells: [u64; CELLS]) {
    let sum = sums.entry(id).or_default();
    for (sum, cell) in sum.iter_mut().zip(cells) {
        *sum = sum.wrapping_add(cell);
    }
}

/// The counters that one session writes. After the session ends, another session reuses them.
#[derive(Debug, Default)]
pub struct SessionCounters {
    shared: Arc<Pages>,
    pages: Vec<(u32, Arc<Page>)>,
    /// The index in `pages` by the oid of the relation.
    places: HashMap<u32, usize, FixedState>,
    /// The index in `pages` of the page used last.
    last: usize,
    /// The number of commits so far.
    commits: usize,
}

impl SessionCounters {
    /// Returns the part that other sessions can read.
    pub fn shared(&self) -> &Arc<Pages> {
        &self.shared
    }

    /// Returns the page of a relation.
    #[inline]
    pub fn of(&mut self, id: u32) -> &Page {
        if !matches!(self.pages.get(self.last), Some((last, _)) if *last == id) {
            self.last = self.find(id);
        }
        &self.pages[self.last].1
    }

    fn find(&mut self, id: u32) -> usize {
        if let Some(place) = self.places.get(&id) {
            return *place;
        }
        self.begin(id)
    }

    #[cold]
    fn begin(&mut self, id: u32) -> usize {
        if self.pages.len() >= PAGES_MAX && id != NOT_SHOWN {
            return self.find(NOT_SHOWN);
        }
        let page: Arc<Page> = Arc::default();
        self.shared.pages.lock().push((id, Arc::clone(&page)));
        self.pages.push((id, page));
        self.places.insert(id, self.pages.len() - 1);
        self.pages.len() - 1
    }

    /// Counts an event that does not belong to a relation.
    #[inline]
    pub fn event(&self, what: Event, more: u64) {
        self.shared.database.add_to(what as usize, more);
    }

    /// Records a commit of a writing transaction and the number of the statement that committed.
    #[inline]
    pub fn committed(&mut self, timestamp: u64, statement: i64) {
        let commit = &self.shared.commits[self.commits % COMMITS];
        self.commits = self.commits.wrapping_add(1);
        commit.statement.store(statement as u64, Relaxed);
        commit.timestamp.store(timestamp, Relaxed);
    }
}

/// The counters of all machines, added up.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// The counters by oid.
    pub counts: Sums,
    /// The time of the last reset: microseconds from 2000-01-01 UTC.
    pub reset: Option<i64>,
}

impl Totals {
    /// Returns a counter of a relation.
    pub fn of(&self, id: u32, what: Count) -> i64 {
        self.cell(id, what as usize)
    }

    /// Returns the sum of a counter over all relations.
    pub fn all(&self, what: Count) -> i64 {
        let relations = self.counts.iter().filter(|(id, _)| **id != DATABASE);
        relations
            .map(|(_, cells)| cells[what as usize] as i64)
            .sum()
    }

    /// Returns a counter of the database.
    pub fn event(&self, what: Event) -> i64 {
        self.cell(DATABASE, what as usize)
    }

    fn cell(&self, id: u32, cell: usize) -> i64 {
        self.counts.get(&id).map_or(0, |cells| cells[cell] as i64)
    }
}

/// A kind of conflict that a statement met on a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ConflictKey {
    /// The table's oid; 0 if it is unknown.
    pub table: u32,
    /// The kind of conflict.
    pub kind: String,
    /// The statement that had to restart.
    pub statement: String,
    /// The statement that won; empty if it is unknown.
    pub winner: String,
}

/// How often a conflict occurred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConflictCount {
    /// All occurrences.
    pub met: u64,
    /// The occurrences that were reported to a client; the others were replayed without its notice.
    pub reported: u64,
    /// The last occurrence: microseconds from 2000-01-01 UTC.
    pub last: i64,
}

/// Access to the counters of all machines.
pub trait Counters: Debug + Send + Sync {
    /// Returns the totals of a database over all machines that reply.
    fn totals(&self, database: u32) -> LockFuture<'_, Totals>;

    /// Returns the conflicts in a database over all machines that reply.
    fn conflicts(&self, database: u32) -> LockFuture<'_, Vec<(ConflictKey, ConflictCount)>>;

    /// Returns the machine, which is used to measure the sizes of trees.
    fn machine(&self) -> Option<Arc<Machine>>;

    /// Resets counters on all machines: those of `relations`, or without a list those of all
    /// relations, the database and its conflicts.
    fn reset(&self, database: u32, relations: Option<Vec<u32>>) -> LockFuture<'_, ()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counter_pages_are_visible_to_readers() {
        let mut counting = SessionCounters::default();
        let seen = Arc::clone(counting.shared());
        for id in [5, 6, 5, 5] {
            counting.of(id).add(Count::Fetched, 2);
        }
        counting.event(Event::Commits, 3);
        let mut sums = Sums::default();
        seen.add_to(&mut sums);
        let totals = Totals {
            counts: sums,
            reset: None,
        };
        assert_eq!(totals.of(5, Count::Fetched), 6);
        assert_eq!(totals.of(6, Count::Fetched), 2);
        assert_eq!(totals.of(7, Count::Scans), 0);
        assert_eq!(totals.event(Event::Commits), 3);
    }

    #[test]
    fn commits_are_remembered_for_a_while() {
        let mut counting = SessionCounters::default();
        for timestamp in 1..=COMMITS as u64 + 1 {
            counting.committed(timestamp, timestamp as i64 * 10);
        }
        assert_eq!(counting.shared().statement_of(1), None);
        assert_eq!(counting.shared().statement_of(2), Some(20));
    }

    #[test]
    fn pages_have_an_end() {
        let mut counting = SessionCounters::default();
        for id in 1..=PAGES_MAX as u32 + 2 {
            counting.of(id).add(Count::Scans, 1);
        }
        assert_eq!(counting.pages.len(), PAGES_MAX + 1);
    }
}
