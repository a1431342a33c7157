//! Numbers of the services that machines of a cluster offer each other. All machines run the same
//! program.

/// Cancels a session's statement (`cancels.rs`).
pub(crate) const CANCEL: u8 = 1;
/// Runs a statement (`ship`).
pub(crate) const STATEMENT: u8 = 2;
/// Ends such a statement.
pub(crate) const END_STATEMENT: u8 = 3;
/// Serves advisory and table locks (`advisory`).
pub(crate) const ADVISORY: u8 = 4;
/// Delivers notifications (`channels.rs`).
pub(crate) const NOTIFY: u8 = 5;
/// Shows sessions and signals them (`sessions.rs`).
pub(crate) const SESSIONS: u8 = 6;
/// Reads and resets counters (`counters.rs`).
pub(crate) const COUNTERS: u8 = 7;
