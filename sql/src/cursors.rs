//! What a session tells of its cursors.

/// A cursor, as `pg_cursors` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
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
}
