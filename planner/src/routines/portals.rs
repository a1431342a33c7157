//! The cursors that routines have opened. They belong to the session, under their names, until
//! their transaction ends.
//!
//! All their rows are produced when they are opened, as CUR-1 requires for a transaction that may
//! write afterwards.

use std::sync::Arc;

use fencepost_sql::bound::Direction;
use fencepost_sql::context::EvalContext;
use fencepost_sql::cursors::{CursorInfo, RowsOf};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::types::Type;
use fencepost_sql::value::Value;
use fencepost_txn::Machine;
use foldhash::HashMap;
use parking_lot::Mutex;

use super::rows::Rows;
use crate::materialized_rows::MaterializedRows;

/// The cursors that routines of a session have opened, by name.
#[derive(Debug, Default)]
pub struct Portals {
    open: HashMap<Box<str>, OpenCursor>,
    /// The number of cursors opened so far.
    made: u64,
    /// The number of cursors with generated names so far.
    unnamed: u64,
    /// Whether the set of cursors has changed since it was last shown.
    changed: bool,
}

/// An open cursor.
#[derive(Debug)]
pub struct OpenCursor {
    /// The names and types of its columns.
    pub columns: Vec<(String, Type)>,
    rows: MaterializedRows,
    /// The table that its rows belong to, if WHERE CURRENT OF is possible, and their addresses.
    of: Option<u32>,
    places: Vec<Value>,
    /// The position: the number of rows up to the current row. 0 is before the first row; the row
    /// count plus one is after the last.
    at: u64,
    /// Whether it can move backward.
    scrolls: bool,
    text: Box<str>,
    created: i64,
    serial: u64,
    /// The address of the current row.
    place: Arc<Mutex<Option<Value>>>,
}

/// The result of a FETCH: rows by number, and the count that it reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FetchRange {
    /// The number of the first row.
    pub first: u64,
    /// The number of rows.
    pub rows: u64,
    /// Whether the rows are in descending order of their numbers.
    pub backward: bool,
    /// The row count for the command tag.
    pub count: u64,
}

impl FetchRange {
    /// Returns the numbers of its rows.
    pub fn numbers(self) -> impl Iterator<Item = u64> {
        (0..self.rows).map(move |nth| match self.backward {
            true => self.first - nth,
            false => self.first + nth,
        })
    }
}

impl Portals {
    /// Returns a mark of the current set of cursors.
    pub fn mark(&self) -> u64 {
        self.made
    }

    /// Closes the cursors that were opened after `mark`.
    pub fn back_to(&mut self, mark: u64) {
        if self.made > mark && !self.open.is_empty() {
            self.open.retain(|_, portal| portal.serial <= mark);
            self.changed = true;
        }
    }

    /// Closes all cursors, at the end of the transaction.
    pub fn clear(&mut self) {
        if !self.open.is_empty() {
            self.open.clear();
            self.changed = true;
        }
    }

    /// Returns whether the set of cursors has changed since the last call.
    #[inline]
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Returns a cursor for changes.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut OpenCursor> {
        self.open.get_mut(name)
    }

    /// Returns a cursor.
    pub fn get(&self, name: &str) -> Option<&OpenCursor> {
        self.open.get(name)
    }

    /// Closes a cursor. Returns false if it does not exist.
    pub fn close(&mut self, name: &str) -> bool {
        let closed = self.open.remove(name).is_some();
        self.changed |= closed;
        closed
    }

    /// Closes a cursor, unless another one has its name by now.
    pub fn close_one(&mut self, name: &str, serial: u64) {
        if self.get(name).is_some_and(|portal| portal.serial == serial) {
            self.close(name);
        }
    }

    /// Returns the cursors as `pg_cursors` shows them.
    pub fn infos(&self) -> impl Iterator<Item = CursorInfo> {
        self.open.iter().map(|(name, portal)| CursorInfo {
            name: name.clone(),
            statement: portal.text.clone(),
            is_holdable: false,
            is_binary: false,
            is_scrollable: portal.scrolls,
            created: portal.created,
            rows_of: portal.of.map_or(RowsOf::Nothing, RowsOf::Table),
            place: Arc::clone(&portal.place),
            is_routines: true,
        })
    }

    /// Counts an unnamed cursor. PostgreSQL also has one for a loop over a query, and numbers them
    /// together.
    pub fn count_unnamed(&mut self) {
        self.unnamed += 1;
    }

    /// Returns a generated name for a cursor.
    pub fn unnamed(&mut self) -> String {
        self.count_unnamed();
        format!("<unnamed portal {}>", self.unnamed)
    }

    /// Returns error 42P03 if the session has a cursor of this name.
    pub fn check_free(&self, name: &str, eval: &EvalContext) -> Result<(), SqlError> {
        let mut others = eval.cursors.iter().filter(|other| !other.is_routines);
        if self.open.contains_key(name) || others.any(|other| *other.name == *name) {
            let message = format!("cursor \"{name}\" already in use");
            return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, message));
        }
        Ok(())
    }

    /// Opens a cursor over rows. Returns its serial number.
    pub fn open(
        &mut self,
        name: &str,
        (rows, text): (Rows, &str),
        (machine, eval): (&Arc<Machine>, &EvalContext),
    ) -> Result<u64, SqlError> {
        let mut materialized = MaterializedRows::new(machine);
        for row in &rows.rows {
            materialized.push(row)?;
        }
        self.made += 1;
        self.changed = true;
        let portal = OpenCursor {
            columns: rows.columns,
            rows: materialized,
            of: rows.of,
            places: rows.places,
            at: 0,
            scrolls: rows.goes_back,
            text: text.into(),
            created: eval.statement_start,
            serial: self.made,
            place: Arc::default(),
        };
        self.open.insert(name.into(), portal);
        Ok(self.made)
    }

    /// Returns the cursor with this name, or error 34000. Routines cannot use cursors of DECLARE or
    /// Bind.
    pub fn named(&mut self, name: &str, eval: &EvalContext) -> Result<&mut OpenCursor, SqlError> {
        let missing = || {
            let mut others = eval.cursors.iter().filter(|other| !other.is_routines);
            match others.any(|other| *other.name == *name) {
                true => SqlError::unsupported("a cursor of DECLARE or of Bind in a function"),
                false => no_cursor(name),
            }
        };
        self.open.get_mut(name).ok_or_else(missing)
    }
}

/// Returns error 34000.
pub fn no_cursor(name: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_CURSOR_NAME,
        format!("cursor \"{name}\" does not exist"),
    )
}

impl OpenCursor {
    /// Returns the row with this number.
    pub fn row(&self, number: u64) -> Option<&[Value]> {
        self.rows.get(number)
    }

    /// Returns the address of the current row if the cursor reads `table`: `Some(None)` if it is on
    /// no row, `None` if its rows belong to another table.
    pub fn place(&self, table: u32) -> Option<Option<Value>> {
        (self.of == Some(table)).then(|| self.place_at())
    }

    fn place_at(&self) -> Option<Value> {
        let at = usize::try_from(self.at.checked_sub(1)?).ok()?;
        self.places.get(at).cloned()
    }

    /// Moves to the next row, which a loop has read.
    pub fn step(&mut self) {
        self.at += 1;
    }

    fn check_backward(&self) -> Result<(), SqlError> {
        match self.scrolls {
            true => Ok(()),
            false => Err(SqlError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                "cursor can only scan forward",
            )
            .hint("Declare it with SCROLL option to enable backward scan.")),
        }
    }

    /// Moves as FETCH or MOVE requests.
    ///
    /// # Errors
    /// 55000 if it would move backward and is not scrollable.
    pub fn go(&mut self, direction: Direction, moves: bool) -> Result<FetchRange, SqlError> {
        let way = self.way(direction, moves)?;
        if self.of.is_some() {
            *self.place.lock() = self.place_at();
        }
        Ok(way)
    }

    fn way(&mut self, direction: Direction, moves: bool) -> Result<FetchRange, SqlError> {
        let last = self.rows.last();
        let on_row = (1..=last).contains(&self.at);
        match direction {
            Direction::Forward(0) | Direction::Relative(0) => {
                if moves || !on_row {
                    return Ok(FetchRange {
                        count: u64::from(on_row),
                        ..FetchRange::default()
                    });
                }
                self.check_backward()?;
                Ok(self.one(self.at))
            }
            Direction::Forward(n) if n > 0 => Ok(self.forward(n.unsigned_abs())),
            Direction::Forward(n) => self.backward(n.unsigned_abs()),
            Direction::ForwardAll => Ok(self.forward(u64::MAX)),
            Direction::BackwardAll if moves => {
                if self.at > 0 {
                    self.check_backward()?;
                }
                let passed = self.at.saturating_sub(1);
                self.at = 0;
                Ok(FetchRange {
                    count: passed,
                    ..FetchRange::default()
                })
            }
            Direction::BackwardAll => self.backward(u64::MAX),
            Direction::Absolute(n) if n >= 0 => {
                let to = n.unsigned_abs();
                if to <= self.at && self.at > 0 {
                    self.check_backward()?;
                }
                Ok(self.one(to))
            }
            Direction::Absolute(n) => {
                self.check_backward()?;
                Ok(self.one((last + 1).saturating_sub(n.unsigned_abs())))
            }
            Direction::Relative(n) if n > 0 => {
                Ok(self.one(self.at.saturating_add(n.unsigned_abs())))
            }
            Direction::Relative(n) => {
                self.check_backward()?;
                Ok(self.one(self.at.saturating_sub(n.unsigned_abs())))
            }
        }
    }

    /// Moves to the row with this number, if there is one.
    fn one(&mut self, to: u64) -> FetchRange {
        self.at = to.min(self.rows.last() + 1);
        let given = u64::from((1..=self.rows.last()).contains(&self.at));
        FetchRange {
            first: self.at,
            rows: given,
            backward: false,
            count: given,
        }
    }

    fn forward(&mut self, wanted: u64) -> FetchRange {
        let left = self.rows.last().saturating_sub(self.at);
        let (first, given) = (self.at + 1, left.min(wanted));
        self.at = match given < wanted {
            true => self.rows.last() + 1,
            false => self.at + given,
        };
        FetchRange {
            first,
            rows: given,
            backward: false,
            count: given,
        }
    }

    fn backward(&mut self, wanted: u64) -> Result<FetchRange, SqlError> {
        self.check_backward()?;
        let before = self.at.saturating_sub(1);
        let given = before.min(wanted);
        self.at = match given < wanted {
            true => 0,
            false => self.at - given,
        };
        Ok(FetchRange {
            first: before,
            rows: given,
            backward: true,
            count: given,
        })
    }
}
