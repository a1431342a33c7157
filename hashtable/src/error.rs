//! What a hash table operation can answer besides its result.

use fencepost_txn::Stop;

/// Why an operation did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// The transaction stopped; see [`Stop`].
    #[error(transparent)]
    Stop(#[from] Stop),
    /// The key does not fit a slot (SQLSTATE 54000).
    #[error("hash key of {length} bytes is longer than the {limit} bytes that fit a slot")]
    KeyTooLong {
        /// Bytes of the key.
        length: usize,
        /// Bytes of the longest key that fits.
        limit: usize,
    },
}
