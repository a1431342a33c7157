//! The cursors that routines have opened: they are the session's, by their names, until their transaction ends.
//!
//! All their rows are made when they are opened, as CUR-1 wants it of what a transaction that goes on to write sees.

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
use crate::kept::Kept;

/// The cursors that routines of a session have opened, by name.
#[derive(Debug, Default)]
pub struct Portals {
    open: HashMap<Box<str>, Opened>,
    /// How many there have been.
    made: u64,
    /// How many have had no name.
    unnamed: u64,
    /// They are others than when they were shown last.
    changed: bool,
}

/// A cursor that is open.
#[derive(Debug)]
pub struct Opened {
    /// Names and types of its columns.
    pub columns: Vec<(String, Type)>,
    rows: Kept,
    /// The table that they are rows of, and their places there.
    of: Option<u32>,
    places: Vec<Value>,
    /// How many rows lie before or under it: 0 before the first, one more than there are behind the last.
    at: u64,
    /// It can be read backward.
    scrolls: bool,
    text: Box<str>,
    created: i64,
    serial: u64,
    /// The place of the row that it is on.
    place: Arc<Mutex<Option<Value>>>,
}

/// What a FETCH gives: rows by their numbers, and how many it says that it has given or passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// The number of the first row.
    pub first: u64,
    /// How many.
    pub rows: u64,
    /// The rows before it, not behind.
    pub backward: bool,
    /// What is told.
    pub count: u64,
}

impl Way {
    /// The numbers of its rows.
    pub fn numbers(self) -> impl Iterator<Item = u64> {
        (0..self.rows).map(move |nth| match self.backward {
            true => self.first - nth,
            false => self.first + nth,
        })
    }
}

impl Portals {
    /// Where they stand; those that are opened from now on come later.
    pub fn mark(&self) -> u64 {
        self.made
    }

    /// What was opened since `mark` is no more.
    pub fn back_to(&mut self, mark: u64) {
        if self.made > mark && !self.open.is_empty() {
            self.open.retain(|_, portal| portal.serial <= mark);
            self.changed = true;
        }
    }

    /// The transaction has ended.
    pub fn clear(&mut self) {
        if !self.open.is_empty() {
            self.open.clear();
            self.changed = true;
        }
    }

    /// Are there others than when it was asked last?
    #[inline]
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// One of them.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Opened> {
        self.open.get_mut(name)
    }

    /// One of them.
    pub fn get(&self, name: &str) -> Option<&Opened> {
        self.open.get(name)
    }

    /// Ends one; false where there is none.
    pub fn close(&mut self, name: &str) -> bool {
        let closed = self.open.remove(name).is_some();
        self.changed |= closed;
        closed
    }

    /// Ends one, unless another has its name by now.
    pub fn close_one(&mut self, name: &str, serial: u64) {
        if self.get(name).is_some_and(|portal| portal.serial == serial) {
            self.close(name);
        }
    }

    /// As `pg_cursors` shows them.
    pub fn shown(&self) -> impl Iterator<Item = CursorInfo> {
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

    /// PostgreSQL has one for a loop over the rows of a query, too, and numbers them together.
    pub fn count_unnamed(&mut self) {
        self.unnamed += 1;
    }

    /// The name of the next one that is given none.
    pub fn unnamed(&mut self) -> String {
        self.count_unnamed();
        format!("<unnamed portal {}>", self.unnamed)
    }

    /// 42P03 where the session has a cursor of this name.
    pub fn check_free(&self, name: &str, eval: &EvalContext) -> Result<(), SqlError> {
        let mut others = eval.cursors.iter().filter(|other| !other.is_routines);
        if self.open.contains_key(name) || others.any(|other| *other.name == *name) {
            let message = format!("cursor \"{name}\" already in use");
            return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, message));
        }
        Ok(())
    }

    /// Opens a cursor over rows; its number.
    pub fn open(
        &mut self,
        name: &str,
        (rows, text): (Rows, &str),
        (machine, eval): (&Arc<Machine>, &EvalContext),
    ) -> Result<u64, SqlError> {
        let mut kept = Kept::new(machine);
        for row in &rows.rows {
            kept.push(row)?;
        }
        self.made += 1;
        self.changed = true;
        let portal = Opened {
            columns: rows.columns,
            rows: kept,
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

    /// The cursor that a routine means, or 34000; one of DECLARE or Bind is not for routines.
    pub fn named(&mut self, name: &str, eval: &EvalContext) -> Result<&mut Opened, SqlError> {
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

/// 34000
pub fn no_cursor(name: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_CURSOR_NAME,
        format!("cursor \"{name}\" does not exist"),
    )
}

impl Opened {
    /// The row of a number.
    pub fn row(&self, number: u64) -> Option<&[Value]> {
        self.rows.get(number)
    }

    /// The place of the row that it is on, in `table`: none where it is on no row, and not even that where its rows are
    /// others.
    pub fn place(&self, table: u32) -> Option<Option<Value>> {
        (self.of == Some(table)).then(|| self.place_at())
    }

    fn place_at(&self) -> Option<Value> {
        let at = usize::try_from(self.at.checked_sub(1)?).ok()?;
        self.places.get(at).cloned()
    }

    /// A loop has its rows, and goes on to the next one.
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

    /// Goes where FETCH, or MOVE, says.
    ///
    /// # Errors
    /// 55000 where that is back, and it goes only forward.
    pub fn go(&mut self, direction: Direction, moves: bool) -> Result<Way, SqlError> {
        let way = self.way(direction, moves)?;
        if self.of.is_some() {
            *self.place.lock() = self.place_at();
        }
        Ok(way)
    }

    fn way(&mut self, direction: Direction, moves: bool) -> Result<Way, SqlError> {
        let last = self.rows.last();
        let on_row = (1..=last).contains(&self.at);
        match direction {
            Direction::Forward(0) | Direction::Relative(0) => {
                if moves || !on_row {
                    return Ok(Way {
                        count: u64::from(on_row),
                        ..Way::default()
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
                Ok(Way {
                    count: passed,
                    ..Way::default()
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

    /// To the row of this number, if there is one.
    fn one(&mut self, to: u64) -> Way {
        self.at = to.min(self.rows.last() + 1);
        let given = u64::from((1..=self.rows.last()).contains(&self.at));
        Way {
            first: self.at,
            rows: given,
            backward: false,
            count: given,
        }
    }

    fn forward(&mut self, wanted: u64) -> Way {
        let left = self.rows.last().saturating_sub(self.at);
        let (first, given) = (self.at + 1, left.min(wanted));
        self.at = match given < wanted {
            true => self.rows.last() + 1,
            false => self.at + given,
        };
        Way {
            first,
            rows: given,
            backward: false,
            count: given,
        }
    }

    fn backward(&mut self, wanted: u64) -> Result<Way, SqlError> {
        self.check_backward()?;
        let before = self.at.saturating_sub(1);
        let given = before.min(wanted);
        self.at = match given < wanted {
            true => 0,
            false => self.at - given,
        };
        Ok(Way {
            first: before,
            rows: given,
            backward: true,
            count: given,
        })
    }
}
