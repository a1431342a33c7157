//! The errors of index operations.

use fencepost_txn::Stop;

/// The reason why an index operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// The transaction stopped; see [`Stop`].
    #[error(transparent)]
    Stop(#[from] Stop),
    /// The key does not fit a node (SQLSTATE 54000).
    #[error("index key of {length} bytes is longer than the {limit} bytes that fit a node")]
    KeyTooLong {
        /// Length of the key in bytes.
        length: usize,
        /// Length in bytes of the longest key that fits.
        limit: usize,
    },
}
