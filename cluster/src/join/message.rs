//! What is said when a machine joins, and its bytes.
//!
//! ```text
//! | kind 1 | fields in the order of their declaration |
//! ```

use fencepost_fabric::MachineId;

use super::JoinRefusal;
use super::secret::{Nonce, Proof};
use crate::codec::{DecodeError, Reader, Wire, Writer};
use crate::configuration::Configuration;
use crate::ids::{Address, ClusterId, FailureDomain};

/// The version of what machines say to each other; members all have the same.
pub const PROTOCOL_VERSION: u16 = 1;

/// Who wants to join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinRequest {
    /// What it speaks.
    pub version: u16,
    /// The cluster that its data is of; none for a machine without data.
    pub cluster: Option<ClusterId>,
    /// Where the fabric reaches it.
    pub address: Address,
    /// What it shares the fate of.
    pub domain: FailureDomain,
}

/// A message between a machine that joins and one that may let it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinMessage {
    /// From the joiner, first.
    Hello {
        /// What it speaks.
        version: u16,
        /// For the proof that it wants to see.
        nonce: Nonce,
    },
    /// From the CM.
    Challenge {
        /// For the proof that it wants to see.
        nonce: Nonce,
    },
    /// From the joiner.
    Join {
        /// What it wants.
        request: JoinRequest,
        /// That it knows the secret.
        proof: Proof,
    },
    /// From the CM: the joiner is a member.
    Accepted {
        /// The configuration that it is a member of.
        configuration: Configuration,
        /// Its name.
        machine: MachineId,
        /// That the CM knows the secret.
        proof: Proof,
    },
    /// From the CM: it is not.
    Refused {
        /// Why not.
        why: JoinRefusal,
    },
}

impl Wire for JoinMessage {
    fn put(&self, out: &mut Writer) {
        match self {
            Self::Hello { version, nonce } => {
                0u8.put(out);
                version.put(out);
                nonce.put(out);
            }
            Self::Refused { why } => {
                1u8.put(out);
                why.put(out);
            }
            Self::Challenge { nonce } => {
                2u8.put(out);
                nonce.put(out);
            }
            Self::Join { request, proof } => {
                3u8.put(out);
                request.put(out);
                proof.put(out);
            }
            Self::Accepted {
                configuration,
                machine,
                proof,
            } => {
                4u8.put(out);
                configuration.put(out);
                machine.put(out);
                proof.put(out);
            }
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match u8::take(from)? {
            0 => Self::Hello {
                version: Wire::take(from)?,
                nonce: Wire::take(from)?,
            },
            1 => Self::Refused {
                why: Wire::take(from)?,
            },
            2 => Self::Challenge {
                nonce: Wire::take(from)?,
            },
            3 => Self::Join {
                request: Wire::take(from)?,
                proof: Wire::take(from)?,
            },
            4 => Self::Accepted {
                configuration: Wire::take(from)?,
                machine: Wire::take(from)?,
                proof: Wire::take(from)?,
            },
            _ => return Err(DecodeError::Invalid("message")),
        })
    }
}

impl Wire for JoinRequest {
    fn put(&self, out: &mut Writer) {
        self.version.put(out);
        self.cluster.put(out);
        self.address.put(out);
        self.domain.put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            version: Wire::take(from)?,
            cluster: Wire::take(from)?,
            address: Wire::take(from)?,
            domain: Wire::take(from)?,
        })
    }
}

impl Wire for JoinRefusal {
    fn put(&self, out: &mut Writer) {
        match self {
            Self::Version { theirs, ours } => {
                0u8.put(out);
                theirs.put(out);
                ours.put(out);
            }
            Self::WrongSecret => 1u8.put(out),
            Self::OtherCluster { theirs, ours } => {
                2u8.put(out);
                theirs.put(out);
                ours.put(out);
            }
            Self::AddressInUse => 3u8.put(out),
            Self::NotManager { manager } => {
                4u8.put(out);
                manager.put(out);
            }
            Self::Full => 5u8.put(out),
            Self::Busy => 6u8.put(out),
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match u8::take(from)? {
            0 => Self::Version {
                theirs: Wire::take(from)?,
                ours: Wire::take(from)?,
            },
            1 => Self::WrongSecret,
            2 => Self::OtherCluster {
                theirs: Wire::take(from)?,
                ours: Wire::take(from)?,
            },
            3 => Self::AddressInUse,
            4 => Self::NotManager {
                manager: Wire::take(from)?,
            },
            5 => Self::Full,
            6 => Self::Busy,
            _ => return Err(DecodeError::Invalid("refusal")),
        })
    }
}
