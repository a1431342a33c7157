//! The secret that the machines of a cluster share, and proofs of knowing it. A proof is an
//! HMAC-SHA256 over the message and the nonces of both sides, so it is valid in one conversation
//! only.

use std::fmt;

use ring::hmac;
use thiserror::Error;

use super::message::{DiskOffer, JoinRequest};
use crate::codec::{Wire, Writer, wire_newtypes};
use crate::configuration::Configuration;
use fencepost_fabric::{MachineId, Random};

/// The smallest length of a secret.
const MIN_SECRET_BYTES: usize = 16;

/// The error for a secret that is short enough to be guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a cluster secret has at least {MIN_SECRET_BYTES} bytes")]
pub struct SecretTooShort;

/// The secret that only the machines of a cluster know.
#[derive(Clone)]
pub struct ClusterSecret(hmac::Key);

/// Thirty-two unpredictable bytes, drawn anew for each conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonce(pub [u8; 32]);

/// A proof that its sender knew the secret during this conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecretProof([u8; 32]);

/// The nonces of the two sides of a conversation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nonces {
    pub joiner: Nonce,
    pub cm: Nonce,
}

impl Nonce {
    /// Returns a nonce that differs from all earlier ones, if `random` is unpredictable.
    pub fn draw(random: &mut Random) -> Self {
        let mut bytes = [0; 32];
        for part in bytes.chunks_exact_mut(8) {
            part.copy_from_slice(&random.next_u64().to_le_bytes());
        }
        Self(bytes)
    }
}

impl ClusterSecret {
    /// Returns a secret with these bytes.
    ///
    /// # Errors
    /// [`SecretTooShort`] below 16 bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, SecretTooShort> {
        if bytes.len() < MIN_SECRET_BYTES {
            return Err(SecretTooShort);
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, bytes)))
    }

    pub(super) fn prove_request(&self, nonces: Nonces, request: &JoinRequest) -> SecretProof {
        self.prove(&said_by_joiner(nonces, request))
    }

    pub(super) fn has_proved_request(
        &self,
        nonces: Nonces,
        request: &JoinRequest,
        proof: &SecretProof,
    ) -> bool {
        hmac::verify(&self.0, &said_by_joiner(nonces, request), &proof.0).is_ok()
    }

    pub(super) fn prove_welcome(
        &self,
        nonces: Nonces,
        configuration: &Configuration,
        machine: MachineId,
    ) -> SecretProof {
        self.prove(&said_by_cm(nonces, configuration, machine))
    }

    pub(super) fn has_proved_welcome(
        &self,
        nonces: Nonces,
        configuration: &Configuration,
        machine: MachineId,
        proof: &SecretProof,
    ) -> bool {
        let said = said_by_cm(nonces, configuration, machine);
        hmac::verify(&self.0, &said, &proof.0).is_ok()
    }

    pub(super) fn prove_offer(&self, nonces: Nonces, offer: &DiskOffer) -> SecretProof {
        self.prove(&said_in_offer(nonces, offer))
    }

    pub(super) fn has_proved_offer(
        &self,
        nonces: Nonces,
        offer: &DiskOffer,
        proof: &SecretProof,
    ) -> bool {
        hmac::verify(&self.0, &said_in_offer(nonces, offer), &proof.0).is_ok()
    }

    fn prove(&self, said: &[u8]) -> SecretProof {
        let tag = hmac::sign(&self.0, said);
        SecretProof(
            tag.as_ref()
                .try_into()
                .expect("an HMAC-SHA256 has 32 bytes"),
        )
    }
}

fn said_by_joiner(nonces: Nonces, request: &JoinRequest) -> Vec<u8> {
    let mut said = saying(b"fencepost join\0", nonces);
    request.put(&mut said);
    said.into_bytes()
}

fn said_by_cm(nonces: Nonces, configuration: &Configuration, machine: MachineId) -> Vec<u8> {
    let mut said = saying(b"fencepost welcome\0", nonces);
    machine.put(&mut said);
    configuration.put(&mut said);
    said.into_bytes()
}

fn said_in_offer(nonces: Nonces, offer: &DiskOffer) -> Vec<u8> {
    let mut said = saying(b"fencepost offer\0", nonces);
    offer.put(&mut said);
    said.into_bytes()
}

/// Begins the proved text with the sender's role, so that a proof cannot be sent back to its maker.
fn saying(who: &[u8], nonces: Nonces) -> Writer {
    let mut said = Writer::default();
    said.raw(who);
    nonces.joiner.put(&mut said);
    nonces.cm.put(&mut said);
    said
}

impl fmt::Debug for ClusterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterSecret(..)")
    }
}

wire_newtypes!(Nonce: [u8; 32], SecretProof: [u8; 32]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_long_and_never_shown() {
        assert_eq!(ClusterSecret::new(&[7; 15]).err(), Some(SecretTooShort));
        let secret = ClusterSecret::new(b"open sesame open sesame").unwrap();
        assert_eq!(format!("{secret:?}"), "ClusterSecret(..)");
    }
}
