//! What machines of a cluster ask one another for, by number; all of them run the same program.

/// To cancel what a session runs (`cancels.rs`).
pub(crate) const CANCEL: u8 = 1;
/// To run a statement (`ship`).
pub(crate) const STATEMENT: u8 = 2;
/// To end such a statement.
pub(crate) const END_STATEMENT: u8 = 3;
/// For advisory locks (`advisory`).
pub(crate) const ADVISORY: u8 = 4;
/// To tell sessions what others have said (`channels.rs`).
pub(crate) const NOTIFY: u8 = 5;
/// To know what sessions do, and to end that (`sessions.rs`).
pub(crate) const SESSIONS: u8 = 6;
/// For what is counted (`counters.rs`).
pub(crate) const COUNTERS: u8 = 7;
