//! One cursor: its query, and its position.

use std::sync::Arc;

use fencepost_planner::{Execution, MaterializedRows, Plan, row_address};
use fencepost_sql::cursors::{CursorInfo, RowsOf};
use fencepost_sql::value::Value;
use fencepost_storage::Addr;
use fencepost_txn::Transaction;
use foldhash::HashSet;
use parking_lot::Mutex;

use crate::prepared::{Body, DeclaredCursor, Portal};

/// The position of a cursor, with rows numbered from 1. After the last row, `row` stays at that
/// row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) struct Position {
    pub row: u64,
    pub at_start: bool,
    pub at_end: bool,
}

/// A portal with a name.
pub(in crate::session) struct Cursor {
    /// The portal that produces the rows.
    pub portal: Portal,
    /// The definition by DECLARE; `None` for a client's Bind.
    pub declared: Option<Arc<DeclaredCursor>>,
    /// For each column, whether it is sent in binary.
    pub binary: Box<[bool]>,
    /// Rows that have been produced and may be fetched.
    pub materialized: MaterializedRows,
    pub position: Position,
    /// True once all rows have been produced.
    pub over: bool,
    /// True if the query has failed.
    pub failed: bool,
    /// True if the transaction of the cursor has committed.
    pub held: bool,
    /// The transaction that created the cursor.
    pub transaction: u64,
    /// The serial number of the cursor in its session.
    pub serial: u64,
    /// The creation time.
    pub created: i64,
    /// The address of the current row, for WHERE CURRENT OF.
    pub place: Arc<Mutex<Option<Value>>>,
    /// For a cursor with row locks: the rows that its transaction had written before they were
    /// produced.
    written: HashSet<Addr>,
}

impl Cursor {
    pub fn declared(
        declared: &Arc<DeclaredCursor>,
        portal: Portal,
        materialized: MaterializedRows,
    ) -> Cursor {
        let columns = declared.planned.columns.as_deref().unwrap_or_default();
        let mut cursor = Cursor::bound(portal, materialized);
        cursor.binary = match declared.options.binary {
            true => columns.iter().map(|_| true).collect(),
            false => Box::default(),
        };
        cursor.declared = Some(Arc::clone(declared));
        cursor
    }

    pub fn bound(portal: Portal, materialized: MaterializedRows) -> Cursor {
        Cursor {
            portal,
            declared: None,
            binary: Box::default(),
            materialized,
            position: Position {
                row: 0,
                at_start: true,
                at_end: false,
            },
            over: false,
            failed: false,
            held: false,
            transaction: 0,
            serial: 0,
            created: 0,
            place: Arc::default(),
            written: HashSet::default(),
        }
    }

    /// Returns whether the cursor can be read backward.
    pub fn scrolls(&self) -> bool {
        let by_default = |declared: &DeclaredCursor| declared.goes_back;
        let declared = self.declared.as_deref();
        declared.is_some_and(|d| d.options.scroll.unwrap_or_else(|| by_default(d)))
    }

    fn is_holdable(&self) -> bool {
        self.declared.as_ref().is_some_and(|d| d.options.hold)
    }

    /// Returns whether the cursor will outlive its transaction, and so needs all its rows at
    /// COMMIT.
    pub fn is_to_be_held(&self) -> bool {
        self.is_holdable() && !self.held
    }

    /// Returns whether the portal is run as a whole, or returns no rows.
    pub fn is_read_as_one(&self, max_rows: usize) -> bool {
        let untouched = self.position.at_start && self.materialized.last() == 0;
        self.declared.is_none() && (!self.portal.is_select() || max_rows == 0 && untouched)
    }

    /// Returns whether the query has started, and still has rows to produce from its transaction's
    /// snapshot.
    pub fn is_on_its_way(&self) -> bool {
        let begun = self.declared.is_some() || self.portal.execution.has_begun();
        begun && !self.over && !self.failed && self.portal.is_select()
    }

    /// Records that all rows have been produced.
    pub fn end_run(&mut self) {
        self.over = true;
        self.portal.execution = Execution::default();
    }

    pub fn info(&self, name: &str) -> CursorInfo {
        CursorInfo {
            name: name.into(),
            statement: match &self.declared {
                Some(declared) => declared.planned.text.as_str().into(),
                None => self.portal.prepared.planned.text.as_str().into(),
            },
            is_holdable: self.is_holdable(),
            is_binary: self.declared.as_ref().is_some_and(|d| d.options.binary),
            is_scrollable: self.scrolls(),
            created: self.created,
            rows_of: self.rows_of(),
            place: Arc::clone(&self.place),
            is_routines: false,
        }
    }

    /// Sets the current row to this one, which was just fetched.
    pub fn stands_on(&self, row: &[Value]) {
        if self.places().is_some() {
            *self.place.lock() = row.last().cloned();
        }
    }

    /// Clears the current row if the position is before the first or after the last row.
    pub fn has_moved(&self) {
        if self.position.at_start || self.position.at_end {
            *self.place.lock() = None;
        }
    }

    /// Records which rows from number `from` on the transaction has written already.
    pub fn note_written(&mut self, from: u64, tx: &Transaction) {
        if !self.locks_rows() {
            return;
        }
        for number in from..=self.materialized.last() {
            let addr = self.materialized.get(number).and_then(address_of);
            self.written
                .extend(addr.filter(|addr| tx.has_written(*addr)));
        }
    }

    /// Returns whether the transaction has written a row since the cursor produced it. A cursor
    /// with row locks skips such a row, because PostgreSQL locks rows when they are fetched.
    pub fn has_lost(&self, row: &[Value], tx: &Transaction) -> bool {
        let addr = || address_of(row).filter(|addr| tx.has_written(*addr));
        self.locks_rows() && addr().is_some_and(|addr| !self.written.contains(&addr))
    }

    /// Returns whether the rows have addresses and are locked.
    fn locks_rows(&self) -> bool {
        let prepared = self.portal.prepared.current();
        let Body::Plan(plan, _) = &prepared.body else {
            return false;
        };
        matches!(&**plan, Plan::Select(select) if select.places.is_some() && select.lock.is_some())
    }

    /// Returns the table that the rows' addresses belong to.
    fn places(&self) -> Option<u32> {
        match &self.portal.prepared.current().body {
            Body::Plan(plan, _) => match &**plan {
                Plan::Select(select) => select.places,
                _ => None,
            },
            _ => None,
        }
    }

    fn rows_of(&self) -> RowsOf {
        match self.places() {
            _ if self.declared.is_none() => RowsOf::Portal,
            _ if self.held => RowsOf::Held,
            Some(table) => RowsOf::Table(table),
            None => RowsOf::Nothing,
        }
    }
}

/// Returns the address of the table row behind a cursor's row. It is the last value of the row.
fn address_of(row: &[Value]) -> Option<Addr> {
    row.last().and_then(row_address)
}
