//! Snapshots that a session tells others of: `pg_export_snapshot()`.

use std::fmt::Debug;

use fencepost_txn::Transaction;

/// The snapshots that a session has exported in its transaction. Others find them until that ends.
pub trait Exports: Debug + Send + Sync {
    /// The name of the snapshot that is exported next.
    fn announce(&self) -> String;

    /// Whether one has been announced that nobody finds yet.
    fn is_announced(&self) -> bool;

    /// It is the one that `keeper` reads ([`Transaction::export_snapshot`]).
    fn keep(&self, keeper: Transaction);
}
