//! Cryptographically secure random bytes for keys, salts and identifiers.

use ring::rand::{SecureRandom, SystemRandom};

use crate::error::{SqlError, SqlState};

/// Fills `bytes` with random bytes.
///
/// # Errors
/// XX000 if the system provides none.
pub fn fill(bytes: &mut [u8]) -> Result<(), SqlError> {
    SystemRandom::new().fill(bytes).map_err(|_| {
        let message = "could not generate random bytes";
        SqlError::new(SqlState::INTERNAL_ERROR, message)
    })
}
