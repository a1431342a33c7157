//! Cursors: the named portals of a session, created by DECLARE or by a client's Bind.
//!
//! ```text
//!   DECLARE, Bind ──▶ Running ──all rows are made──▶ Over ──COMMIT, WITH HOLD──▶ held
//!                        └──an error──▶ Failed: cannot be run
//! ```
//!
//! Invariants
//! - CUR-1: a cursor returns the rows as of its DECLARE, including its transaction's own changes up
//!   to then. Its rows are produced as they are fetched. Before the transaction changes anything,
//!   all remaining rows are produced ([`Session::settle_cursors`]). The cursor shares the read set
//!   of its transaction, so it sees commits of others as the transaction does.
//! - CUR-2: a cursor without hold ends with its transaction. A rollback to a savepoint ends the
//!   cursors created since.
//!
//! Rows to which a cursor may return are kept in memory and count against the limit
//! ([`MaterializedRows`]).

mod cursor;
mod fetch;
mod named;

use std::sync::Arc;

use fencepost_planner::{MaterializedRows, MaterializedRowsSink, RowSink, Tag};
use fencepost_sql::bound::{Fetch, Statement};
use fencepost_sql::cursors::CursorInfo;
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::types::Type;
use fencepost_txn::Work;
use foldhash::HashMap;

use super::protocol::Completion;
use super::{Block, Session};
use crate::prepared::{Body, Column, DeclaredCursor, Portal, PreparedStatement};
use cursor::Cursor;

/// The cursors of a session, by name.
#[derive(Default)]
pub(super) struct Cursors {
    named: HashMap<Box<str>, Cursor>,
    /// The number of cursors created so far.
    made: u64,
}

impl Cursors {
    /// Returns the number of cursors created so far. Later cursors have greater serial numbers.
    pub fn mark(&self) -> u64 {
        self.made
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    pub fn get(&self, name: &str) -> Option<&Cursor> {
        self.named.get(name)
    }

    fn names(&self, wanted: impl Fn(&Cursor) -> bool) -> Vec<Box<str>> {
        let all = self.named.iter().filter(|(_, cursor)| wanted(cursor));
        all.map(|(name, _)| name.clone()).collect()
    }
}

/// Returns the error 34000.
fn no_cursor(name: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_CURSOR_NAME,
        format!("cursor \"{name}\" does not exist"),
    )
}

impl Session {
    /// Executes DECLARE … CURSOR.
    pub(super) fn declare_cursor<'a>(
        &'a mut self,
        declared: &'a Arc<DeclaredCursor>,
        portal: &'a Portal,
        last: bool,
    ) -> Work<'a, Result<Completion, StatementStop>> {
        Box::pin(async move {
            if !declared.options.hold {
                self.in_block("DECLARE CURSOR")?;
            }
            self.check_cursor_free(&declared.name)?;
            self.enter();
            let inner = Portal::new(
                PreparedStatement::new(Arc::clone(&declared.planned), Vec::new()),
                portal.params.clone(),
            );
            let mut cursor =
                Cursor::declared(declared, inner, MaterializedRows::new(&self.db.machine));
            cursor.created = self.eval.statement_start;
            if self.block == Block::Implicit {
                // The statement forms a whole transaction, and may be retried.
                let mut sink = MaterializedRowsSink::of(&mut cursor.materialized);
                Box::pin(self.run_plan(&mut cursor.portal, 0, &mut sink, last)).await?;
                cursor.end_run();
                cursor.held = self.block == Block::Idle;
            }
            if self.block == Block::Explicit {
                let begins = self.tx.is_none();
                self.begin_transaction(false, false);
                if begins || self.has_old_snapshot() {
                    self.renew_snapshot().await?;
                }
                // The rows are those of the current snapshot, even if they are fetched later.
                cursor.portal.transaction = Some(self.transaction);
            }
            self.add_cursor(&declared.name, cursor);
            Ok(Completion::Complete(Tag::plain("DECLARE CURSOR")))
        })
    }

    /// Fails with 42P03 if a cursor `name` exists.
    fn check_cursor_free(&self, name: &str) -> Result<(), SqlError> {
        let of_routines = self.scratch.routines.portals.get(name).is_some();
        match self.cursors.get(name).is_some() || of_routines {
            false => Ok(()),
            true => Err(SqlError::new(
                SqlState::DUPLICATE_CURSOR,
                format!("cursor \"{name}\" already exists"),
            )),
        }
    }

    fn add_cursor(&mut self, name: &str, mut cursor: Cursor) {
        self.cursors.made += 1;
        cursor.serial = self.cursors.made;
        cursor.transaction = self.transaction;
        self.cursors.named.insert(name.into(), cursor);
        self.cursors_changed();
    }

    /// Executes FETCH or MOVE.
    pub(super) async fn fetch(
        &mut self,
        fetch: &Fetch,
        prepared: &PreparedStatement,
        sink: &mut dyn RowSink,
    ) -> Result<Completion, StatementStop> {
        let columns = self.columns_of_cursor(&fetch.name);
        if !fetch.moves && columns.as_deref() != prepared.columns() {
            return Err(match columns {
                None if !self.has_cursor(&fetch.name) => no_cursor(&fetch.name),
                _ => SqlError::plan_changed(),
            }
            .into());
        }
        let count = match self.cursors.get(&fetch.name) {
            Some(_) => {
                let count = self.with_cursor(&fetch.name, fetch.direction, fetch.moves, sink);
                Box::pin(count).await?
            }
            None => Box::pin(self.fetch_of_routine(fetch, sink)).await?,
        };
        let command = if fetch.moves { "MOVE" } else { "FETCH" };
        Ok(Completion::Complete(Tag::counted(command, count)))
    }

    /// Returns the columns that FETCH returns for a cursor, if it exists.
    pub(super) fn columns_of_cursor(&self, name: &str) -> Option<Arc<[Column]>> {
        if let Some(cursor) = self.cursors.get(name) {
            return cursor.portal.prepared.planned.columns.clone();
        }
        let column = |(name, ty): &(String, Type)| Column {
            name: name.clone(),
            ty: *ty,
            table_oid: 0,
            attnum: 0,
        };
        let opened = self.scratch.routines.portals.get(name)?;
        Some(opened.columns.iter().map(column).collect())
    }

    fn has_cursor(&self, name: &str) -> bool {
        self.cursors.get(name).is_some() || self.scratch.routines.portals.get(name).is_some()
    }

    /// Executes FETCH or MOVE for a cursor that a routine has opened.
    async fn fetch_of_routine(
        &mut self,
        fetch: &Fetch,
        sink: &mut dyn RowSink,
    ) -> Result<u64, StatementStop> {
        let portals = &mut self.scratch.routines.portals;
        let open = portals.get_mut(&fetch.name);
        let open = open.ok_or_else(|| no_cursor(&fetch.name))?;
        let way = open.go(fetch.direction, fetch.moves)?;
        if !fetch.moves {
            for number in way.numbers() {
                if let Some(row) = open.row(number) {
                    sink.row(row)?;
                }
                if sink.should_flush() {
                    sink.flush().await?;
                }
            }
        }
        Ok(way.count)
    }

    /// Returns whether the statement fetches from a cursor whose rows are sent in binary.
    pub fn fetches_binary(&self, prepared: &PreparedStatement) -> bool {
        let Body::Utility(statement) = &prepared.planned.body else {
            return false;
        };
        let Statement::Fetch(fetch) = &**statement else {
            return false;
        };
        let declared = self
            .cursors
            .get(&fetch.name)
            .and_then(|c| c.declared.as_ref());
        declared.is_some_and(|declared| declared.options.binary)
    }

    /// Executes CLOSE; `None` means ALL.
    pub(super) fn close_cursors(&mut self, name: Option<&str>) -> Result<&'static str, SqlError> {
        let Some(name) = name else {
            self.cursors.named.clear();
            self.scratch.routines.portals.clear();
            self.cursors_changed();
            return Ok("CLOSE CURSOR ALL");
        };
        let closed = self.cursors.named.remove(name).is_some();
        if !closed && !self.scratch.routines.portals.close(name) {
            return Err(no_cursor(name));
        }
        self.cursors_changed();
        Ok("CLOSE CURSOR")
    }

    /// Produces the remaining rows of running cursors, because the transaction is about to change
    /// data (CUR-1).
    pub(super) async fn settle_cursors(&mut self) -> Result<(), StatementStop> {
        self.finish_cursors(Cursor::is_on_its_way).await
    }

    /// Produces the remaining rows of cursors WITH HOLD, because the transaction is about to
    /// commit.
    pub(super) async fn hold_cursors(&mut self) -> Result<(), StatementStop> {
        self.finish_cursors(|cursor| cursor.is_to_be_held()).await
    }

    async fn finish_cursors(&mut self, which: fn(&Cursor) -> bool) -> Result<(), StatementStop> {
        for name in self.cursors.names(which) {
            if let Some(mut cursor) = self.cursors.named.remove(&name) {
                let finished = Box::pin(self.pull(&mut cursor, 0)).await;
                cursor.failed |= finished.is_err();
                self.cursors.named.insert(name, cursor);
                finished?;
            }
        }
        Ok(())
    }

    /// Removes the cursors that end with the transaction.
    pub(super) fn end_cursors(&mut self, committed: bool) {
        self.scratch.routines.portals.clear();
        if self.cursors.named.is_empty() {
            return self.note_portals();
        }
        let ended = self.transaction;
        self.cursors.named.retain(|_, cursor| {
            if committed && cursor.is_to_be_held() && !cursor.failed {
                cursor.held = true;
            }
            // A cursor held since another transaction does not depend on this one.
            cursor.held && (committed || cursor.transaction != ended)
        });
        self.cursors_changed();
    }

    /// Removes the cursors created after `mark`, on a rollback to a savepoint.
    pub(super) fn take_cursors_back(&mut self, (mark, portals): (u64, u64)) {
        self.scratch.routines.portals.back_to(portals);
        self.note_portals();
        let before = self.cursors.named.len();
        self.cursors.named.retain(|_, cursor| cursor.serial <= mark);
        if self.cursors.named.len() != before {
            self.cursors_changed();
        }
    }

    /// Returns the current number of cursors, for a savepoint.
    pub(super) fn cursors_mark(&self) -> (u64, u64) {
        (self.cursors.mark(), self.scratch.routines.portals.mark())
    }

    /// Updates `pg_cursors` if cursors of routines have changed.
    #[inline]
    pub(super) fn note_portals(&mut self) {
        if self.scratch.routines.portals.take_changed() {
            self.cursors_changed();
        }
    }

    /// Updates `pg_cursors`.
    fn cursors_changed(&mut self) {
        let all = self.cursors.named.iter();
        let of_routines = self.scratch.routines.portals.infos();
        let all = all.map(|(name, cursor)| cursor.info(name));
        let mut infos: Vec<CursorInfo> = all.chain(of_routines).collect();
        infos.sort_by_key(|cursor| cursor.created);
        self.eval.cursors = infos.into();
    }
}
