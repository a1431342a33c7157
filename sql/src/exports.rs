//! Exported snapshots: `pg_export_snapshot()`.

use std::fmt::Debug;

use fencepost_txn::Transaction;

/// The snapshots that a session has exported in its transaction. Other sessions can import them
/// until the transaction ends.
pub trait Exports: Debug + Send + Sync {
    /// Reserves a snapshot and returns its name. [`Self::keep`] makes it available for import.
    fn announce(&self) -> String;

    /// Returns whether a snapshot is reserved and not yet available for import.
    fn is_announced(&self) -> bool;

    /// Makes the reserved snapshot available. It is the snapshot that `keeper` reads
    /// ([`Transaction::export_snapshot`]).
    fn keep(&self, keeper: Transaction);
}
