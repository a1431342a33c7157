//! Random bytes that nobody can foresee, for nonces, salts and secrets.

use ring::rand::{SecureRandom, SystemRandom};
use thiserror::Error;

/// The system has no random bytes to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("could not generate random bytes")]
pub(crate) struct NoRandom;

/// Fresh random bytes.
pub(crate) fn bytes<const N: usize>() -> Result<[u8; N], NoRandom> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandom)?;
    Ok(bytes)
}
