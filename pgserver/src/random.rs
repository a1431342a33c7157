//! Unpredictable random bytes, for nonces, salts and secrets.

use ring::rand::{SecureRandom, SystemRandom};
use thiserror::Error;

/// An error: the system has no random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("could not generate random bytes")]
pub(crate) struct NoRandom;

/// Returns new random bytes.
pub(crate) fn bytes<const N: usize>() -> Result<[u8; N], NoRandom> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandom)?;
    Ok(bytes)
}
