//! What is said when a machine joins, and its bytes.
//!
//! ```text
//! | kind 1 | fields in the order of their declaration |
//! ```

use fencepost_fabric::MachineId;

use super::JoinRefusal;
use super::secret::{Nonce, Proof};
use crate::codec::{wire_enum, wire_structs};
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

wire_enum!(JoinMessage, "message":
    0 Hello { version, nonce },
    1 Refused { why },
    2 Challenge { nonce },
    3 Join { request, proof },
    4 Accepted { configuration, machine, proof }
);

wire_structs!(JoinRequest {
    version,
    cluster,
    address,
    domain
});

wire_enum!(JoinRefusal, "refusal":
    0 Version { theirs, ours },
    1 WrongSecret,
    2 OtherCluster { theirs, ours },
    3 AddressInUse,
    4 NotManager { manager },
    5 Full,
    6 Busy
);
