//! Execution statistics of statements on this machine: number of runs, time, and rows.
//!
//! ```text
//! Planned ─► its tally: counters in lanes, shared by few sessions ─► pg_stat_statements sums
//! text ─► tally          at most [`STATEMENTS_MAX`]; the least used are removed first
//! ```
//! A session adds to counters that few other sessions use, and takes no lock.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use fencepost_sql::statements::{StatementTotals, Statements, number_of, stored_text};
use foldhash::HashMap;
use parking_lot::Mutex;

use crate::prepared::PlannedStatement;

/// The largest number of statements with statistics.
const STATEMENTS_MAX: usize = 1000;
/// The number of lanes in a tally.
const LANES: usize = 4;

/// The sums over the runs of one statement.
#[derive(Default)]
pub(crate) struct Tally {
    lanes: [CounterShard; LANES],
    /// True once the tally is removed from the statistics.
    removed: AtomicBool,
    /// The query identifier of the text.
    number: i64,
}

/// Counters on a cache line of their own.
#[derive(Default)]
#[repr(align(64))]
struct CounterShard {
    calls: AtomicU64,
    total_ns: AtomicU64,
    /// One more than the shortest time; 0 before the first run.
    min_ns: AtomicU64,
    max_ns: AtomicU64,
    squares_us: AtomicU64,
    rows: AtomicU64,
}

impl CounterShard {
    fn add(&self, ns: u64, rows: u64) {
        let us = ns / 1000;
        self.calls.fetch_add(1, Relaxed);
        self.total_ns.fetch_add(ns, Relaxed);
        self.squares_us.fetch_add(us.saturating_mul(us), Relaxed);
        if rows > 0 {
            self.rows.fetch_add(rows, Relaxed);
        }
        let min = self.min_ns.load(Relaxed);
        if min == 0 || ns < min - 1 {
            // If another session wins the race, one minimum among many is lost.
            let _ = self
                .min_ns
                .compare_exchange(min, ns.saturating_add(1), Relaxed, Relaxed);
        }
        if ns > self.max_ns.load(Relaxed) {
            self.max_ns.fetch_max(ns, Relaxed);
        }
    }
}

impl Tally {
    fn totals(&self, text: &str) -> StatementTotals {
        let mut totals = StatementTotals {
            text: text.to_owned(),
            min_ns: u64::MAX,
            ..StatementTotals::default()
        };
        for lane in &self.lanes {
            totals.calls += lane.calls.load(Relaxed);
            totals.total_ns += lane.total_ns.load(Relaxed);
            totals.squares_us += lane.squares_us.load(Relaxed) as f64;
            totals.rows += lane.rows.load(Relaxed);
            totals.max_ns = totals.max_ns.max(lane.max_ns.load(Relaxed));
            if let Some(min) = lane.min_ns.load(Relaxed).checked_sub(1) {
                totals.min_ns = totals.min_ns.min(min);
            }
        }
        totals
    }

    fn calls(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.calls.load(Relaxed)).sum()
    }
}

/// The tallies of a machine, by text.
#[derive(Default)]
pub(crate) struct Statistics {
    tallies: Mutex<HashMap<String, Arc<Tally>>>,
}

impl Statistics {
    /// Adds a completed run of a statement.
    #[inline]
    pub fn add(&self, planned: &PlannedStatement, session: i32, took: Duration, rows: u64) {
        let known = planned.tally.get_or_init(|| self.enter(&planned.text));
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let lane = session as usize % LANES;
        match known.removed.load(Relaxed) {
            false => known.lanes[lane].add(ns, rows),
            true => self.enter(&planned.text).lanes[lane].add(ns, rows),
        }
    }

    /// Returns the text of a statement by its query identifier, if it is kept.
    pub fn text_of(&self, number: i64) -> Option<String> {
        let tallies = self.tallies.lock();
        let mut tallies = tallies.iter();
        let found = tallies.find(|(_, tally)| tally.number == number);
        found.map(|(text, _)| text.clone())
    }

    /// Returns the tally of a text. If there are too many, removes the quarter with the fewest
    /// runs.
    #[cold]
    fn enter(&self, text: &str) -> Arc<Tally> {
        let text = stored_text(text);
        let mut tallies = self.tallies.lock();
        if let Some(known) = tallies.get(text) {
            return Arc::clone(known);
        }
        if tallies.len() >= STATEMENTS_MAX {
            let mut calls: Vec<u64> = tallies.values().map(|tally| tally.calls()).collect();
            calls.sort_unstable();
            let mut over = STATEMENTS_MAX / 4;
            let most = calls[over - 1];
            tallies.retain(|_, tally| {
                let goes = over > 0 && tally.calls() <= most;
                if goes {
                    over -= 1;
                    tally.removed.store(true, Relaxed);
                }
                !goes
            });
        }
        let tally = Arc::new(Tally {
            number: number_of(text),
            ..Tally::default()
        });
        tallies.insert(text.to_owned(), Arc::clone(&tally));
        tally
    }
}

impl fmt::Debug for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} statements", self.tallies.lock().len())
    }
}

impl Statements for Statistics {
    fn totals(&self) -> Vec<StatementTotals> {
        let tallies = self.tallies.lock();
        let totals = tallies.iter().map(|(text, tally)| tally.totals(text));
        totals.filter(|totals| totals.calls > 0).collect()
    }

    fn reset(&self) {
        for (_, tally) in self.tallies.lock().drain() {
            tally.removed.store(true, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(statistics: &Statistics, text: &str, session: usize, ns: u64) {
        statistics.enter(text).lanes[session % LANES].add(ns, 2);
    }

    #[test]
    fn runs_of_all_sessions_add_up() {
        let statistics = Statistics::default();
        for (session, ns) in [(1, 3000), (2, 1000), (1, 5000)] {
            add(&statistics, "SELECT $1", session, ns);
        }
        statistics.enter("never run");
        let totals = statistics.totals();
        let wanted = StatementTotals {
            text: "SELECT $1".into(),
            calls: 3,
            total_ns: 9000,
            min_ns: 1000,
            max_ns: 5000,
            squares_us: 35.0,
            rows: 6,
        };
        assert_eq!(totals, [wanted]);
        statistics.reset();
        assert!(statistics.totals().is_empty());
        add(&statistics, "SELECT $1", 1, 1);
        assert_eq!(statistics.totals()[0].calls, 1);
    }

    #[test]
    fn least_executed_statements_are_evicted_first() {
        let statistics = Statistics::default();
        for n in 0..STATEMENTS_MAX {
            let text = format!("SELECT {n}");
            add(&statistics, &text, n, 1);
            if n >= STATEMENTS_MAX / 2 {
                add(&statistics, &text, n, 1);
            }
        }
        let old = statistics.enter("SELECT 0");
        add(&statistics, "one more", 0, 1);
        let totals = statistics.totals();
        assert_eq!(totals.len(), STATEMENTS_MAX * 3 / 4 + 1);
        let often = totals.iter().filter(|totals| totals.calls == 2).count();
        assert_eq!(often, STATEMENTS_MAX / 2);
        let is_stored = totals.iter().any(|totals| totals.text == "SELECT 0");
        assert_eq!(old.removed.load(Relaxed), !is_stored);
        let long = "x".repeat(10_000);
        assert!(Arc::ptr_eq(
            &statistics.enter(&long),
            &statistics.enter(&long)
        ));
    }
}
