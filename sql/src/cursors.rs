//! What a session tells of its cursors.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::{SqlError, SqlState};
use crate::value::Value;

/// The function that `WHERE CURRENT OF` calls for the place of a row; nobody else names it.
pub(crate) const CURRENT_OF: &str = "$current of";

/// A cursor, as `pg_cursors` shows it.
#[derive(Clone, Debug)]
pub struct CursorInfo {
    /// Its name.
    pub name: Box<str>,
    /// The statement that made it.
    pub statement: Box<str>,
    /// WITH HOLD.
    pub is_holdable: bool,
    /// BINARY.
    pub is_binary: bool,
    /// It can be read backward.
    pub is_scrollable: bool,
    /// When it was made: microseconds from 2000-01-01 UTC.
    pub created: i64,
    /// What its rows are rows of.
    pub rows_of: RowsOf,
    /// The place of the row that it is on.
    pub place: Arc<Mutex<Option<Value>>>,
    /// A routine has opened it.
    pub is_routines: bool,
}

/// What the rows of a cursor are rows of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsOf {
    /// Of this table, whose rows can be changed through it.
    Table(u32),
    /// Of no one table.
    Nothing,
    /// They were made by another transaction.
    Held,
    /// It was made by a client's Bind, and knows no places.
    Portal,
}

/// The place of the row of `table`, by its name and oid, that the cursor `name` is on.
///
/// # Errors
/// 34000 without such a cursor, 24000 where it is on no such row.
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

/// The place of a row that the cursor `name` is on: none where it is on no row, and not even that where its rows are not those
/// of `table`.
///
/// # Errors
/// 24000 without a place.
pub fn place_of(place: Option<Option<Value>>, name: &str, table: &str) -> Result<Value, SqlError> {
    let message = match place {
        Some(Some(place)) => return Ok(place),
        Some(None) => format!("cursor \"{name}\" is not positioned on a row"),
        None => format!("cursor \"{name}\" is not a simply updatable scan of table \"{table}\""),
    };
    Err(SqlError::new(SqlState::INVALID_CURSOR_STATE, message))
}
