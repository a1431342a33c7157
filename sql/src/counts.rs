//! What sessions have done to relations, and to the database as a whole, as `pg_stat_database` and its kin show it.
//!
//! ```text
//! Counting ─► a page for each relation: cells that one session adds to ◄─ whoever looks, at any time
//! ```
//! A session has its pages to itself, each on cache lines of its own, so that counting is an addition to memory that
//! nobody else writes: no lock, and nothing to do at the end of a statement. Who looks adds up the pages of all.
//!
//! Invariants
//! - COUNT-1: a page is written by whoever has its [`Counting`], and by nobody else.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use fencepost_txn::Machine;
use foldhash::fast::FixedState;
use parking_lot::Mutex;

use crate::advisory::Asked;

/// Counters of a page.
pub const CELLS: usize = 8;
/// The page of the database as a whole; no relation has this oid.
pub const DATABASE: u32 = 0;
/// Pages of one session. What is used after them counts on one page that nobody shows.
const PAGES_MAX: usize = 16 * 1024;
/// That page.
const NOT_SHOWN: u32 = u32::MAX;
/// Commits that a session remembers.
const COMMITS: usize = 8;

/// What is counted of a table or an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Scans begun: of a table those of all of it, of an index those through it.
    Scans = 0,
    /// Rows of a table, or entries of an index, that those went by.
    Returned = 1,
    /// Rows that an index led to.
    Fetched = 2,
    /// Rows put in.
    Inserted = 3,
    /// Rows changed.
    Updated = 4,
    /// Rows taken out.
    Deleted = 5,
}

/// What is counted of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Transactions that have committed.
    Commits = 0,
    /// Transactions that were rolled back.
    Rollbacks = 1,
    /// Deadlocks that a client was told of.
    Deadlocks = 2,
    /// Sessions that were opened.
    Sessions = 3,
    /// Nanoseconds that statements took.
    ActiveNs = 4,
    /// Microseconds that sessions lasted which have ended.
    SessionUs = 5,
    /// Sessions that an administrator ended.
    Killed = 6,
    /// Serializable blocks that were run again unseen after a conflict, each time that went on well.
    Replays = 7,
}

/// The counters of a relation in one session.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Page([AtomicU64; CELLS]);

impl Page {
    #[inline]
    fn add_to(&self, cell: usize, more: u64) {
        // COUNT-1: nobody else writes it.
        let cell = &self.0[cell];
        cell.store(cell.load(Relaxed).wrapping_add(more), Relaxed);
    }

    /// Adds to a count.
    #[inline]
    pub fn add(&self, what: Count, more: u64) {
        self.add_to(what as usize, more);
    }

    fn cells(&self) -> [u64; CELLS] {
        std::array::from_fn(|cell| self.0[cell].load(Relaxed))
    }
}

/// What others see of one session's counting.
#[derive(Debug, Default)]
pub struct Pages {
    pages: Mutex<Vec<(u32, Arc<Page>)>>,
    database: Page,
    commits: [Commit; COMMITS],
}

/// Which statement made a commit.
#[derive(Debug, Default)]
struct Commit {
    timestamp: AtomicU64,
    statement: AtomicU64,
}

impl Pages {
    /// Adds all of it to `sums`.
    pub fn add_to(&self, sums: &mut Sums) {
        add(sums, DATABASE, self.database.cells());
        for (id, page) in &*self.pages.lock() {
            add(sums, *id, page.cells());
        }
    }

    /// The statement, by its number, whose commit had this timestamp, if that is not long ago.
    pub fn statement_of(&self, timestamp: u64) -> Option<i64> {
        let mut commits = self.commits.iter();
        let found = commits.find(|commit| commit.timestamp.load(Relaxed) == timestamp)?;
        Some(found.statement.load(Relaxed) as i64)
    }
}

/// Counts of relations, by oid.
pub type Sums = HashMap<u32, [u64; CELLS], FixedState>;

/// Adds to the counts of a relation.
pub fn add(sums: &mut Sums, id: u32, cells: [u64; CELLS]) {
    let sum = sums.entry(id).or_default();
    for (sum, cell) in sum.iter_mut().zip(cells) {
        *sum = sum.wrapping_add(cell);
    }
}

/// Where a session counts. It outlives the session, and is another one's then.
#[derive(Debug, Default)]
pub struct Counting {
    shared: Arc<Pages>,
    pages: Vec<(u32, Arc<Page>)>,
    /// Where they are in `pages`.
    places: HashMap<u32, usize, FixedState>,
    /// The one that was used last.
    last: usize,
    /// Commits so far.
    commits: usize,
}

impl Counting {
    /// What others see of it.
    pub fn shared(&self) -> &Arc<Pages> {
        &self.shared
    }

    /// The page of a relation.
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

    /// Something has happened that is not about a relation.
    #[inline]
    pub fn event(&self, what: Event, more: u64) {
        self.shared.database.add_to(what as usize, more);
    }

    /// A transaction that wrote has committed, by a statement of this number.
    #[inline]
    pub fn committed(&mut self, timestamp: u64, statement: i64) {
        let commit = &self.shared.commits[self.commits % COMMITS];
        self.commits = self.commits.wrapping_add(1);
        commit.statement.store(statement as u64, Relaxed);
        commit.timestamp.store(timestamp, Relaxed);
    }
}

/// What machines have counted.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// By oid.
    pub counts: Sums,
    /// When they were begun anew last: microseconds from 2000-01-01 UTC.
    pub reset: Option<i64>,
}

impl Totals {
    /// The count of a relation.
    pub fn of(&self, id: u32, what: Count) -> i64 {
        self.cell(id, what as usize)
    }

    /// The counts of all relations.
    pub fn all(&self, what: Count) -> i64 {
        let relations = self.counts.iter().filter(|(id, _)| **id != DATABASE);
        relations
            .map(|(_, cells)| cells[what as usize] as i64)
            .sum()
    }

    /// What has happened.
    pub fn event(&self, what: Event) -> i64 {
        self.cell(DATABASE, what as usize)
    }

    fn cell(&self, id: u32, cell: usize) -> i64 {
        self.counts.get(&id).map_or(0, |cells| cells[cell] as i64)
    }
}

/// A kind of conflict that a statement has met on a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ConflictKey {
    /// The table's oid, 0 where that is not known.
    pub table: u32,
    /// What kind.
    pub kind: String,
    /// The statement that had to begin anew.
    pub statement: String,
    /// The statement that won; empty where that is not known.
    pub winner: String,
}

/// How often that was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConflictCount {
    /// In all.
    pub met: u64,
    /// Of those, what a client was told of; the others were run again unseen.
    pub told: u64,
    /// The last time: microseconds from 2000-01-01 UTC.
    pub last: i64,
}

/// What all machines have counted of each database.
pub trait Counters: Debug + Send + Sync {
    /// Of a database, on all machines that answer.
    fn totals(&self, database: u32) -> Asked<'_, Totals>;

    /// The conflicts in a database, of all machines that answer.
    fn conflicts(&self, database: u32) -> Asked<'_, Vec<(ConflictKey, ConflictCount)>>;

    /// The machine, by which trees are measured.
    fn machine(&self) -> Option<Arc<Machine>>;

    /// Begins anew everywhere: for these relations, or for all and the database and its conflicts.
    fn reset(&self, database: u32, relations: Option<Vec<u32>>) -> Asked<'_, ()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_seen_by_others_as_they_are_written() {
        let mut counting = Counting::default();
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
        let mut counting = Counting::default();
        for timestamp in 1..=COMMITS as u64 + 1 {
            counting.committed(timestamp, timestamp as i64 * 10);
        }
        assert_eq!(counting.shared().statement_of(1), None);
        assert_eq!(counting.shared().statement_of(2), Some(20));
    }

    #[test]
    fn pages_have_an_end() {
        let mut counting = Counting::default();
        for id in 1..=PAGES_MAX as u32 + 2 {
            counting.of(id).add(Count::Scans, 1);
        }
        assert_eq!(counting.pages.len(), PAGES_MAX + 1);
    }
}
