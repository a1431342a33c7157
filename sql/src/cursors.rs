//! The information on a session's cursors that evaluation needs.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::{SqlError, SqlState};
use crate::value::Value;

/// The function that `WHERE CURRENT OF` calls to get the position of a cursor. Users cannot name
/// it.
pub(crate) const CURRENT_OF: &str = "$current of";

/// A cursor, as `pg_cursors` shows it.
#[derive(Clone, Debug)]
pub struct CursorInfo {
    /// The name.
    pub name: Box<str>,
    /// The statement that declared the cursor.
    pub statement: Box<str>,
    /// Whether it was declared WITH HOLD.
    pub is_holdable: bool,
    /// Whether it was declared BINARY.
    pub is_binary: bool,
    /// Whether it can be read backward.
    pub is_scrollable: bool,
    /// The time of its creation: microseconds from 2000-01-01 UTC.
    pub created: i64,
    /// The origin of its rows.
    pub rows_of: RowsOf,
    /// The position of the current row; `None` if the cursor is not on a row.
    pub place: Arc<Mutex<Option<Value>>>,
    /// Whether a routine opened it.
    pub is_routines: bool,
}

/// The origin of a cursor's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsOf {
    /// The table with this oid, whose rows can be changed through the cursor.
    Table(u32),
    /// No single table.
    Nothing,
    /// Another transaction: the rows were materialized (WITH HOLD).
    Held,
    /// A portal of the extended protocol, which records no positions.
    Portal,
}

/// Returns the position of the row of `table` (name and oid) that the cursor `name` is on.
///
/// # Errors
/// 34000 if the cursor does not exist, 24000 if it is on no such row.
pub fn current_of(
    cursors: &[CursorInfo],
    name: &str,
    table: (&str, u32),
) -> Result<Value, SqlError> {
    let cursor = cursors.iter().find(|cursor| *cursor.name == *name);
    let cursor = cursor.ok_or_else(|| {
        let message = format!("cursor \"{name}\" does not exist");
        SqlError::new(SqlState::INVALID_CURSOR_NAME, message)
    })?;
    match cursor.rows_of {
        RowsOf::Table(of) => place_of(
            (of == table.1).then(|| cursor.place.lock().clone()),
            name,
            table.0,
        ),
        RowsOf::Nothing => place_of(None, name, table.0),
        RowsOf::Held => {
            let message = format!("cursor \"{name}\" is held from a previous transaction");
            Err(SqlError::new(SqlState::INVALID_CURSOR_STATE, message))
        }
        RowsOf::Portal => Err(SqlError::unsupported("WHERE CURRENT OF a portal of Bind")),
    }
}

/// Returns the position of the cursor `name`. `place` is `Some(None)` if the cursor is on no row.
/// It is `None` if the rows of the cursor are not rows of `table`.
///
/// # Errors
/// 24000 if there is no position.
pub fn place_of(place: Option<Option<Value>>, name: &str, table: &str) -> Result<Value, SqlError> {
    let message = match place {
        Some(Some(place)) => return Ok(place),
        Some(None) => format!("cursor \"{name}\" is not positioned on a row"),
        None => format!("cursor \"{name}\" is not a simply updatable scan of table \"{table}\""),
    };
    Err(SqlError::new(SqlState::INVALID_CURSOR_STATE, message))
}
