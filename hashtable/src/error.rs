//! The errors of hash table operations.

use fencepost_txn::Stop;

/// The reason why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// The transaction stopped; see [`Stop`].
    #[error(transparent)]
    Stop(#[from] Stop),
    /// The key does not fit a slot (SQLSTATE 54000).
    #[error("hash key of {length} bytes is longer than the {limit} bytes that fit a slot")]
    KeyTooLong {
        /// Length of the key in bytes.
        length: usize,
        /// Length in bytes of the longest key that fits.
        limit: usize,
    },
}
