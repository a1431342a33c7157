//! Bound statements of cursors.

use super::statement::Statement;

/// DECLARE … CURSOR.
#[derive(Clone, Debug, PartialEq)]
pub struct Declare {
    /// The cursor's name.
    pub name: String,
    /// The options of the statement.
    pub options: CursorOptions,
    /// Whether the cursor can be read backward even without SCROLL.
    pub goes_back: bool,
    /// The query.
    pub query: Box<Statement>,
}

/// The options of DECLARE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CursorOptions {
    /// BINARY: values are sent in binary format.
    pub binary: bool,
    /// INSENSITIVE; every cursor is insensitive.
    pub insensitive: bool,
    /// SCROLL (true) or NO SCROLL (false); `None` without either.
    pub scroll: Option<bool>,
    /// WITH HOLD: the cursor outlives its transaction.
    pub hold: bool,
}

/// FETCH, or MOVE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// The cursor's name.
    pub name: String,
    /// The direction and the number of rows.
    pub direction: Direction,
    /// MOVE: the position changes, but no rows are returned.
    pub moves: bool,
}

/// The direction of a FETCH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The next `n` rows, or the previous ones if it is negative; 0 is the current row again.
    Forward(i64),
    /// All following rows.
    ForwardAll,
    /// All previous rows, in reverse order.
    BackwardAll,
    /// The row with this number; a negative number counts from the end.
    Absolute(i64),
    /// The row at this distance from the current one.
    Relative(i64),
}
