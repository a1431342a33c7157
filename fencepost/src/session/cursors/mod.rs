//! Cursors: the portals of a session that have names, whether DECLARE made them or a client's Bind.
//!
//! ```text
//!   DECLARE, Bind ──▶ Running ──all rows are made──▶ Over ──COMMIT, WITH HOLD──▶ held
//!                        └──an error──▶ Failed: cannot be run
//! ```
//!
//! Invariants
//! - CUR-1: a cursor gives the rows of the moment of its DECLARE, its transaction's own changes up to then included: its
//!   rows are made as they are fetched, and all that are left before the transaction changes anything
//!   ([`Session::settle_cursors`]). What others commit it sees as the transaction does, with whose read set it goes.
//! - CUR-2: what is not held ends with its transaction, and what was made since a savepoint when that is gone back to.
//!
//! Rows that a cursor may come back to are kept in memory and count against the limit ([`Kept`]).

mod cursor;
mod fetch;
mod named;

use std::sync::Arc;

use fencepost_planner::{Keeping, Kept, RowSink, Tag};
use fencepost_sql::bound::{Fetch, Statement};
use fencepost_sql::cursors::CursorInfo;
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::stop::Halt;
use fencepost_sql::types::Type;
use fencepost_txn::Work;
use foldhash::HashMap;

use super::protocol::Completion;
use super::{Block, Session};
use crate::prepared::{Body, Column, Declared, Portal, Prepared};
use cursor::Cursor;

/// The cursors of a session, by name.
#[derive(Default)]
pub(super) struct Cursors {
    named: HashMap<Box<str>, Cursor>,
    /// How many there have been.
    made: u64,
}

impl Cursors {
    /// How many there have been; those made from now on come later.
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

/// 34000
fn no_cursor(name: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_CURSOR_NAME,
        format!("cursor \"{name}\" does not exist"),
    )
}

impl Session {
    /// DECLARE … CURSOR.
    pub(super) fn declare_cursor<'a>(
        &'a mut self,
        declared: &'a Arc<Declared>,
        portal: &'a Portal,
        last: bool,
    ) -> Work<'a, Result<Completion, Halt>> {
        Box::pin(async move {
            if !declared.options.hold {
                self.in_block("DECLARE CURSOR")?;
            }
            self.check_cursor_free(&declared.name)?;
            self.enter();
            let inner = Portal::new(
                Prepared::new(Arc::clone(&declared.planned), Vec::new()),
                portal.params.clone(),
            );
            let mut cursor = Cursor::declared(declared, inner, Kept::new(&self.db.machine));
            cursor.created = self.eval.statement_start;
            if self.block == Block::Implicit {
                // It is all that its transaction does, and may be run again.
                let mut sink = Keeping::of(&mut cursor.kept);
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
                // The rows are those of now, whenever they are fetched.
                cursor.portal.transaction = Some(self.transaction);
            }
            self.add_cursor(&declared.name, cursor);
            Ok(Completion::Complete(Tag::plain("DECLARE CURSOR")))
        })
    }

    /// 42P03 where there is a cursor `name` already.
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

    /// FETCH or MOVE.
    pub(super) async fn fetch(
        &mut self,
        fetch: &Fetch,
        prepared: &Prepared,
        sink: &mut dyn RowSink,
    ) -> Result<Completion, Halt> {
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

    /// The columns that FETCH gives of a cursor, if it is there.
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

    /// FETCH or MOVE of a cursor that a routine has opened.
    async fn fetch_of_routine(
        &mut self,
        fetch: &Fetch,
        sink: &mut dyn RowSink,
    ) -> Result<u64, Halt> {
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

    /// Does the statement fetch from a cursor whose rows are sent in binary?
    pub fn fetches_binary(&self, prepared: &Prepared) -> bool {
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

    /// CLOSE; `None` is ALL.
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

    /// The transaction is about to change something: cursors that are on their way have their rows first (CUR-1).
    pub(super) async fn settle_cursors(&mut self) -> Result<(), Halt> {
        self.finish_cursors(Cursor::is_on_its_way).await
    }

    /// The transaction is about to commit: what is to outlive it has its rows first.
    pub(super) async fn hold_cursors(&mut self) -> Result<(), Halt> {
        self.finish_cursors(|cursor| cursor.is_to_be_held()).await
    }

    async fn finish_cursors(&mut self, which: fn(&Cursor) -> bool) -> Result<(), Halt> {
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

    /// The transaction has ended.
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
            // What another transaction holds has nothing to do with the end of this one.
            cursor.held && (committed || cursor.transaction != ended)
        });
        self.cursors_changed();
    }

    /// A savepoint is gone back to: what came after `mark` is no more.
    pub(super) fn take_cursors_back(&mut self, (mark, portals): (u64, u64)) {
        self.scratch.routines.portals.back_to(portals);
        self.note_portals();
        let before = self.cursors.named.len();
        self.cursors.named.retain(|_, cursor| cursor.serial <= mark);
        if self.cursors.named.len() != before {
            self.cursors_changed();
        }
    }

    /// The cursors there have been, for a savepoint.
    pub(super) fn cursors_mark(&self) -> (u64, u64) {
        (self.cursors.mark(), self.scratch.routines.portals.mark())
    }

    /// Tells `pg_cursors` of the cursors of routines, where those have changed.
    #[inline]
    pub(super) fn note_portals(&mut self) {
        if self.scratch.routines.portals.take_changed() {
            self.cursors_changed();
        }
    }

    /// Tells `pg_cursors`.
    fn cursors_changed(&mut self) {
        let all = self.cursors.named.iter();
        let of_routines = self.scratch.routines.portals.shown();
        let all = all.map(|(name, cursor)| cursor.shown(name));
        let mut shown: Vec<CursorInfo> = all.chain(of_routines).collect();
        shown.sort_by_key(|cursor| cursor.created);
        self.eval.cursors = shown.into();
    }
}
