//! The statements of a serializable block and digests of their results, for a replay of the block
//! ([`super::replay`]).
//!
//! ```text
//! statement succeeds ───note──▶ entry: statement, parameters, digest of its rows, tag
//! anything else happens ─lose─▶ no entries until the transaction ends
//! ```
//!
//! # Invariants
//! * HIST-1: while the history is whole, its entries are all statements of the transaction that
//!   have read or written data.
//! * HIST-2: a history has at most [`STATEMENTS_MAX`] entries, [`BYTES_MAX`] bytes of parameters
//!   and sequence values, and [`ROWS_MAX`] rows returned or changed.

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

use crate::prepared::{Body, PlannedStatement, Portal, PreparedStatement};

/// The largest number of statements in a block that can be replayed.
const STATEMENTS_MAX: usize = 1000;
/// The largest size, in bytes, of parameters and sequence values in a block that can be replayed.
const BYTES_MAX: usize = 1 << 20;
/// The largest number of rows that a block that can be replayed has returned or changed.
const ROWS_MAX: u64 = 100_000;
/// The number of consecutive replays with other results after which some conflicts are reported
/// without a replay.
const VAIN_MAX: u32 = 8;
/// The largest number of conflicts between two replays that are reported at once.
const PASSED_MAX: u32 = 31;

/// A statement that has succeeded.
pub(super) struct Entry {
    pub prepared: Arc<PreparedStatement>,
    /// The parameters, literals included.
    pub params: Vec<Value>,
    /// The `statement_timestamp()` of the first run.
    pub began: i64,
    /// The digest of the result.
    pub result: ResultDigest,
    /// The sequence values that the statement has drawn.
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
    /// True while the history has all statements.
    is_whole: bool,
    /// The number of replays.
    replays: u32,
    /// The object of the conflict to report, if a replay was made because of that conflict.
    conflict: Option<Addr>,
    /// The settings with which all statements ran.
    settings: Option<Arc<Settings>>,
    hash: RandomState,
    odds: ReplayChance,
}

/// The chance that a replay returns the same results. If a session's blocks read rows that others
/// keep changing, their replays fail and only take time.
#[derive(Default)]
struct ReplayChance {
    /// The number of consecutive replays with other results.
    vain: u32,
    /// The number of conflicts to report before the next replay.
    passes: u32,
}

impl ReplayChance {
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
    /// Starts a transaction without a history.
    #[inline]
    pub fn forget(&mut self) {
        self.lose();
        self.conflict = None;
    }

    /// Starts the history of a new transaction.
    pub fn begin(&mut self) {
        self.forget();
        self.is_whole = true;
    }

    /// Drops the history: the transaction can no longer be replayed, or has ended.
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

    /// Does the same as [`History::lose`]; the conflict about the object `conflict` is reported to
    /// the client.
    pub fn lose_over(&mut self, conflict: Option<Addr>) {
        self.lose();
        self.conflict = conflict;
    }

    /// Returns the object of the conflict to report, if a replay was made because of that conflict.
    pub fn conflict(&self) -> Option<Addr> {
        self.conflict
    }

    /// Returns whether the entries are all statements of the transaction.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Returns the number of replays.
    pub fn replays(&self) -> u32 {
        self.replays
    }

    /// Returns whether a conflict is worth a replay. Call it once for each conflict.
    pub fn is_worth_a_run(&mut self) -> bool {
        self.odds.is_worth_a_run()
    }

    /// Records whether a replay returned the same results.
    pub fn note_run(&mut self, same: bool) {
        self.odds.note(same);
    }

    /// Counts a replay.
    pub fn count_replay(&mut self) {
        self.replays += 1;
    }

    /// Returns the statements, in the order of their execution.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the tables of the statements and of `more`, each once.
    pub fn tables(&self, more: Option<&PlannedStatement>) -> Vec<Arc<TablePlan>> {
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

    /// Returns whether the history can include a statement that runs with `settings`.
    pub fn runs_with(&self, settings: &Arc<Settings>) -> bool {
        let first = self.settings.as_ref();
        first.is_none_or(|first| Arc::ptr_eq(first, settings))
    }

    /// Adds a statement that has succeeded. Drops the history if the statement cannot be replayed.
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

    /// Returns an empty digest of rows.
    pub fn digest(&self) -> RowDigest {
        RowDigest {
            hash: self.hash.clone(),
            hasher: self.hash.build_hasher(),
            rows: 0,
        }
    }
}

/// Returns whether a statement returns the same rows and tag on the same data.
fn is_repeatable(prepared: &PreparedStatement) -> bool {
    prepared.planned.is_repeatable && prepared.copy_out_columns().is_none()
}

/// Returns whether the history stays whole after `body`, which does not touch the data.
pub(super) fn keeps_history(body: &Body) -> bool {
    let Body::Utility(statement) = body else {
        // A plan is recorded when it runs.
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

/// A digest of a statement's rows.
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

    /// Removes all rows from the digest.
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
    use super::{PASSED_MAX, ReplayChance, VAIN_MAX};

    /// Returns how many of `count` conflicts lead to a replay, if every replay has other results.
    fn runs(odds: &mut ReplayChance, count: u32) -> u32 {
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
        let mut odds = ReplayChance::default();
        assert_eq!(runs(&mut odds, VAIN_MAX + 1), VAIN_MAX + 1);
        assert!(runs(&mut odds, 100 * (PASSED_MAX + 1)) <= 105);
        odds.note(true);
        assert_eq!(runs(&mut odds, VAIN_MAX), VAIN_MAX);
    }
}
