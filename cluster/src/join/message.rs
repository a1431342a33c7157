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
pub const PROTOCOL_VERSION: u16 = 2;

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
    /// What it keeps beyond its process.
    pub keeps: Keeps,
}

/// What a machine keeps that joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// Nothing.
    Nothing,
    /// Its data, on a disk.
    Disk {
        /// The machine that it is to be, where that has been offered and is on its disk.
        written: Option<MachineId>,
    },
}

/// What machines have on their disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskData {
    /// Tells apart what clusters have, also such of the same machines.
    pub life: u64,
    /// Bytes of a region.
    pub region_bytes: u64,
}

/// What a machine that keeps its data on a disk is to write there before it is let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Who it is to be, with nothing of what it had.
    pub machine: MachineId,
    /// The configuration that is in force, in which it is not.
    pub configuration: Configuration,
    /// What the others have.
    pub data: DiskData,
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
    /// From the CM: the joiner is to write this down, and to come again.
    Offered {
        /// What it is to write down.
        offer: Offer,
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
    4 Accepted { configuration, machine, proof },
    5 Offered { offer, proof }
);

wire_enum!(Keeps, "kind of memory":
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
    DiskData { life, region_bytes },
    Offer {
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
