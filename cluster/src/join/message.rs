//! The messages of a join and their encoding.
//!
//! ```text
//! | kind 1 | fields in the order of their declaration |
//! ```

use fencepost_fabric::MachineId;

use super::JoinRefusal;
use super::secret::{Nonce, SecretProof};
use crate::codec::{wire_enum, wire_structs};
use crate::configuration::Configuration;
use crate::ids::{Address, ClusterId, FailureDomain};

/// The version of the protocol between machines; all members have the same.
pub const PROTOCOL_VERSION: u16 = 2;

/// The description of a machine that wants to join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinRequest {
    /// The protocol version of the machine.
    pub version: u16,
    /// The cluster of the machine's data; `None` for a machine without data.
    pub cluster: Option<ClusterId>,
    /// The address at which the fabric reaches the machine.
    pub address: Address,
    /// The failure domain of the machine.
    pub domain: FailureDomain,
    /// The data that the machine keeps beyond its process.
    pub keeps: DurableData,
}

/// The data that a joining machine keeps beyond its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DurableData {
    /// No data.
    Nothing,
    /// Data on a disk.
    Disk {
        /// The id offered to the machine, if the offer is on its disk.
        written: Option<MachineId>,
    },
}

/// A description of the members' data on disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskData {
    /// A number that identifies the data: data of different clusters differ, also on the same
    /// machines.
    pub incarnation: u64,
    /// The size of a region in bytes.
    pub region_bytes: u64,
}

/// An offer that a machine with a disk must write there before it is admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskOffer {
    /// The id that the machine is to have, without the regions of an earlier machine.
    pub machine: MachineId,
    /// The configuration that is in force, in which the machine is not a member.
    pub configuration: Configuration,
    /// The members' data.
    pub data: DiskData,
}

/// A message between a joining machine and a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinMessage {
    /// The joiner's first message.
    Hello {
        /// The protocol version of the joiner.
        version: u16,
        /// The nonce for the proof that the joiner expects.
        nonce: Nonce,
    },
    /// The CM's answer to HELLO.
    Challenge {
        /// The nonce for the proof that the CM expects.
        nonce: Nonce,
    },
    /// The joiner's request.
    Join {
        /// The machine that wants to join.
        request: JoinRequest,
        /// Proves that the joiner knows the secret.
        proof: SecretProof,
    },
    /// The CM's answer: the joiner is a member.
    Accepted {
        /// The configuration that contains the joiner.
        configuration: Configuration,
        /// The id of the joiner.
        machine: MachineId,
        /// Proves that the CM knows the secret.
        proof: SecretProof,
    },
    /// The CM's answer: the joiner must write the offer to its disk, then try again.
    Offered {
        /// The offer to write.
        offer: DiskOffer,
        /// Proves that the CM knows the secret.
        proof: SecretProof,
    },
    /// The CM's answer: the joiner is not admitted.
    Refused {
        /// The reason for the refusal.
        why: JoinRefusal,
    },
}

wire_enum!(JoinMessage, "message":
    0 Hello { version, nonce },
    1 Refused { why },
    2 Challenge { nonce },
    3 Join { request, proof },
    4 Accepted { configuration, machine, proof },
    5 Offered { offer, proof }
);

wire_enum!(DurableData, "kind of memory":
    0 Nothing,
    1 Disk { written }
);

wire_structs!(
    JoinRequest {
        version,
        cluster,
        address,
        domain,
        keeps
    },
    DiskData {
        incarnation,
        region_bytes
    },
    DiskOffer {
        machine,
        configuration,
        data
    }
);

wire_enum!(JoinRefusal, "refusal":
    0 Version { theirs, ours },
    1 WrongSecret,
    2 OtherCluster { theirs, ours },
    3 AddressInUse,
    4 NotManager { manager },
    5 Full,
    6 Busy,
    7 OtherTier
);
