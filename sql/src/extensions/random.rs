//! Random bytes that nobody can foresee, for keys, salts and identifiers.

use ring::rand::{SecureRandom, SystemRandom};

use crate::error::{SqlError, SqlState};

/// Fills `bytes`.
pub fn fill(bytes: &mut [u8]) -> Result<(), SqlError> {
    SystemRandom::new().fill(bytes).map_err(|_| {
        let message = "could not generate random bytes";
        SqlError::new(SqlState::INTERNAL_ERROR, message)
    })
}
