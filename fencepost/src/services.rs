//! What machines of a cluster ask one another for, by number; all of them run the same program.

/// To cancel what a session runs (`cancels.rs`).
pub(crate) const CANCEL: u8 = 1;
