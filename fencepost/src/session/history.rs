//! The statements of a serializable block and digests of their results, for a replay of the block ([`super::replay`]).
//!
//! ```text
//! statement ends well ──note──▶ entry: the statement, its parameters, a digest of its rows, its tag
//! anything else happens ─lose─▶ no entries until the transaction ends
//! ```
//!
//! # Invariants
//! * HIST-1: while the history is whole, its entries are all statements of the transaction that have read or written data.
//! * HIST-2: a history has at most [`STATEMENTS_MAX`] entries, [`BYTES_MAX`] bytes of parameters and values of sequences, and
//!   [`ROWS_MAX`] rows returned or changed.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use fencepost_planner::{RowSink, TablePlan, Tag};
use fencepost_sql::bound::Statement;
use fencepost_sql::context::EvalContext;
use fencepost_sql::digest::digest_row;
use fencepost_sql::error::SqlError;
use fencepost_sql::sequences::DrawnValues;
use fencepost_sql::settings::Settings;
use fencepost_sql::value::Value;
use fencepost_storage::Addr;
use foldhash::quality::RandomState;

use crate::prepared::{Body, Planned, Portal, Prepared};

/// Statements of a block that is run again.
const STATEMENTS_MAX: usize = 1000;
/// Bytes of parameters and values of sequences of a block that is run again.
const BYTES_MAX: usize = 1 << 20;
/// Rows that a block that is run again has returned or changed.
const ROWS_MAX: u64 = 100_000;
/// Consecutive replays with other results, after which the session reports some conflicts at once.
const VAIN_MAX: u32 = 8;
/// Conflicts reported at once between two replays, at most.
const PASSED_MAX: u32 = 31;

/// A statement that has ended well.
pub(super) struct Entry {
    pub prepared: Arc<Prepared>,
    /// The parameters, literals included.
    pub params: Vec<Value>,
    /// The `statement_timestamp()` of its first run.
    pub began: i64,
    /// A digest of its result.
    pub result: ResultDigest,
    /// The values of sequences that it has drawn.
    pub drawn: DrawnValues,
}

/// A digest of the rows and the command tag of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResultDigest {
    rows: u64,
    digest: u64,
    tag: Tag,
}

/// The statements of a transaction.
#[derive(Default)]
pub(super) struct History {
    entries: Vec<Entry>,
    bytes: usize,
    rows: u64,
    /// It has all of them.
    is_whole: bool,
    /// How often they were run again.
    replays: u32,
    /// The object of the conflict to report, where a replay has followed that conflict.
    conflict: Option<Addr>,
    /// The settings that all ran with.
    settings: Option<Arc<Settings>>,
    hash: RandomState,
    odds: Odds,
}

/// How likely it is that a block tells the same when it is run again: where the blocks of a session never do, as they read
/// what others change, running them again only takes time.
#[derive(Default)]
struct Odds {
    /// Runs in a row that were in vain.
    vain: u32,
    /// Conflicts to pass before the next run.
    passes: u32,
}

impl Odds {
    fn is_worth_a_run(&mut self) -> bool {
        let passes = self.passes > 0;
        self.passes = self.passes.saturating_sub(1);
        !passes
    }

    fn note(&mut self, same: bool) {
        self.vain = if same { 0 } else { self.vain.saturating_add(1) };
        let beyond = self.vain.saturating_sub(VAIN_MAX).min(5);
        self.passes = ((1 << beyond) - 1).min(PASSED_MAX);
    }
}

impl History {
    /// A transaction begins whose statements are not kept.
    #[inline]
    pub fn forget(&mut self) {
        self.lose();
        self.conflict = None;
    }

    /// A transaction begins that has done nothing yet.
    pub fn begin(&mut self) {
        self.forget();
        self.is_whole = true;
    }

    /// The transaction cannot be run again any more, or has ended.
    #[inline]
    pub fn lose(&mut self) {
        if self.is_whole {
            self.clear();
        }
    }

    #[cold]
    fn clear(&mut self) {
        self.entries.clear();
        (self.bytes, self.rows, self.replays) = (0, 0, 0);
        self.settings = None;
        self.is_whole = false;
    }

    /// As [`History::lose`]; the conflict over the object `conflict` is reported to the client.
    pub fn lose_over(&mut self, conflict: Option<Addr>) {
        self.lose();
        self.conflict = conflict;
    }

    /// Returns the object of the conflict to report, where a replay has followed that conflict.
    pub fn conflict(&self) -> Option<Addr> {
        self.conflict
    }

    /// Returns whether its entries are all that the transaction has done.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// How often the statements were run again.
    pub fn replays(&self) -> u32 {
        self.replays
    }

    /// Returns whether a conflict is worth a run of the statements; asked once for each conflict.
    pub fn is_worth_a_run(&mut self) -> bool {
        self.odds.is_worth_a_run()
    }

    /// Notes whether a replay gave the same results.
    pub fn note_run(&mut self, same: bool) {
        self.odds.note(same);
    }

    /// The statements are run again.
    pub fn count_replay(&mut self) {
        self.replays += 1;
    }

    /// The statements, the first one first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The tables of its statements and of `more`, each once.
    pub fn tables(&self, more: Option<&Planned>) -> Vec<Arc<TablePlan>> {
        let own = self.entries.iter().map(|entry| &*entry.prepared.planned);
        let mut tables: Vec<Arc<TablePlan>> = Vec::new();
        for planned in own.chain(more) {
            let Body::Plan(_, used) = &planned.body else {
                continue;
            };
            for table in &used.plans {
                if !tables.iter().any(|known| known.def.id == table.def.id) {
                    tables.push(Arc::clone(table));
                }
            }
        }
        tables
    }

    /// Returns whether a run with `settings` continues it.
    pub fn runs_with(&self, settings: &Arc<Settings>) -> bool {
        let first = self.settings.as_ref();
        first.is_none_or(|first| Arc::ptr_eq(first, settings))
    }

    /// Notes a statement that has ended well, or loses the history where it is one that cannot be run again.
    pub fn note(&mut self, portal: &Portal, began: i64, result: ResultDigest, eval: &EvalContext) {
        if !self.is_whole {
            return;
        }
        let settings = &eval.settings;
        let Some(drawn) = eval.sequences.drawn() else {
            return self.lose();
        };
        let apart = portal.params.iter().map(Value::bytes_apart).sum::<usize>();
        self.bytes += apart + size_of_val(portal.params.as_slice()) + drawn.bytes();
        self.rows += result.rows.max(result.tag.rows());
        let fits =
            self.entries.len() < STATEMENTS_MAX && self.bytes <= BYTES_MAX && self.rows <= ROWS_MAX;
        if !fits || !is_repeatable(&portal.prepared) || !self.runs_with(settings) {
            return self.lose();
        }
        self.settings.get_or_insert_with(|| Arc::clone(settings));
        self.entries.push(Entry {
            prepared: Arc::clone(&portal.prepared),
            params: portal.params.clone(),
            began,
            result,
            drawn,
        });
    }

    /// An empty digest of rows.
    pub fn digest(&self) -> RowDigest {
        RowDigest {
            hash: self.hash.clone(),
            hasher: self.hash.build_hasher(),
            rows: 0,
        }
    }
}

/// Returns whether a statement tells the same on the same data, in rows and a tag.
fn is_repeatable(prepared: &Prepared) -> bool {
    prepared.planned.is_repeatable && prepared.copy_out_columns().is_none()
}

/// Returns whether the history of a transaction goes on after `body`, which does nothing to the data.
pub(super) fn keeps_history(body: &Body) -> bool {
    let Body::Utility(statement) = body else {
        // A plan is noted where it runs.
        return matches!(body, Body::Empty | Body::Plan(..));
    };
    matches!(
        **statement,
        Statement::Begin { .. }
            | Statement::Commit { .. }
            | Statement::Rollback { .. }
            | Statement::Savepoint(_)
            | Statement::Release(_)
            | Statement::SetTransaction(_)
            | Statement::Set(_)
            | Statement::Reset(_)
            | Statement::Show(_)
            | Statement::Prepare { .. }
            | Statement::Execute { .. }
            | Statement::Deallocate(_)
    )
}

/// A digest of the rows of a statement.
pub(super) struct RowDigest {
    hash: RandomState,
    hasher: <RandomState as BuildHasher>::Hasher,
    rows: u64,
}

impl RowDigest {
    /// Adds a row.
    pub fn add(&mut self, row: &[Value]) {
        digest_row(row, &mut self.hasher);
        self.rows += 1;
    }

    /// Forgets the rows.
    pub fn clear(&mut self) {
        self.hasher = self.hash.build_hasher();
        self.rows = 0;
    }

    /// Returns the digest of the rows with the command tag `tag`.
    pub fn result(&self, tag: Tag) -> ResultDigest {
        ResultDigest {
            rows: self.rows,
            digest: self.hasher.finish(),
            tag,
        }
    }
}

impl RowSink for RowDigest {
    fn row(&mut self, row: &[Value]) -> Result<(), SqlError> {
        self.add(row);
        Ok(())
    }

    fn copy_data(&mut self, _data: &[u8]) -> Result<(), SqlError> {
        Err(SqlError::internal("a COPY is run again"))
    }

    fn rewind(&mut self) -> bool {
        self.clear();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{Odds, PASSED_MAX, VAIN_MAX};

    /// Conflicts of `count` that are run again, where no run tells the same.
    fn runs(odds: &mut Odds, count: u32) -> u32 {
        let run = |_: &u32| {
            let runs = odds.is_worth_a_run();
            if runs {
                odds.note(false);
            }
            runs
        };
        u32::try_from((0..count).filter(run).count()).unwrap()
    }

    #[test]
    fn runs_in_vain_become_rare_and_one_that_is_not_makes_them_usual() {
        let mut odds = Odds::default();
        assert_eq!(runs(&mut odds, VAIN_MAX + 1), VAIN_MAX + 1);
        assert!(runs(&mut odds, 100 * (PASSED_MAX + 1)) <= 105);
        odds.note(true);
        assert_eq!(runs(&mut odds, VAIN_MAX), VAIN_MAX);
    }
}
