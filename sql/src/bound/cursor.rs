//! Bound statements of cursors.

use super::statement::Statement;

/// DECLARE … CURSOR.
#[derive(Clone, Debug, PartialEq)]
pub struct Declare {
    /// The cursor's name.
    pub name: String,
    /// What was said of it.
    pub options: CursorOptions,
    /// It can be read backward without SCROLL, too.
    pub goes_back: bool,
    /// The query.
    pub query: Box<Statement>,
}

/// The options of DECLARE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CursorOptions {
    /// BINARY: its values are sent in binary.
    pub binary: bool,
    /// INSENSITIVE, which all are.
    pub insensitive: bool,
    /// SCROLL, or NO SCROLL (false).
    pub scroll: Option<bool>,
    /// WITH HOLD: it outlives its transaction.
    pub hold: bool,
}

/// FETCH, or MOVE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// The cursor's name.
    pub name: String,
    /// Where to.
    pub direction: Direction,
    /// MOVE: the rows are passed over.
    pub moves: bool,
}

/// Where FETCH goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// So many rows on, those before the row it is on where negative; 0 is that row again.
    Forward(i64),
    /// All that come.
    ForwardAll,
    /// All before, the last first.
    BackwardAll,
    /// To a row by its number, from the end where negative.
    Absolute(i64),
    /// To the row so many further on.
    Relative(i64),
}
