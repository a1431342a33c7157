//! The join protocol: a machine and the CM prove to each other that they know the cluster's secret,
//! then the machine becomes a member.
//!
//! *Picture.*
//!
//! ```text
//!  joiner                         CM (admission)             store
//!    │── HELLO version, nonce ────►│
//!    │◄─ CHALLENGE nonce ──────────│     or REFUSED: version
//!    │── JOIN request, proof ─────►│
//!    │                             │── compare-and-swap ─────►│
//!    │◄─ ACCEPTED configuration, ──│◄─────────────── won ─────│
//!    │   proof                     │     or REFUSED: why
//! ```
//!
//! *Invariants.*
//! 1. JOIN-1: a machine becomes a member, or learns the members, only after it has proved that it
//!    knows the secret. A proof is made for one challenge and cannot be used again.
//! 2. JOIN-2: a refusal changes no state.
//! 3. JOIN-3: a joiner accepts an answer only with the same proof.
//! 4. JOIN-4: a machine that keeps its data on a disk is admitted only after its id is on that
//!    disk. It first gets OFFERED instead of ACCEPTED, if a configuration is in force and no member
//!    has its address. It writes the offer to its disk and asks again. So no configuration has a
//!    machine with a disk that does not hold its id.
//!
//! The forms of HELLO and of the refusal of a version are the same in every version of the
//! protocol.
//!
//! The messages are exchanged through the cluster's [`JoinEndpoint`].
//!
//! *Concurrency.* One join at a time is stored; other joiners are refused as busy, and try again.
//!
//! *Failure.* When the store's answer is not known the joiner is told to try again. If the joiner
//! did become a member, its address is in use until the CM has detected that the machine never took
//! its lease.

mod admission;
mod endpoint;
mod joiner;
mod message;
mod secret;
#[cfg(test)]
mod tests;

use thiserror::Error;

pub use self::admission::{Admission, AdmissionAction, MAX_OUTSIDERS, Outsider};
pub use self::endpoint::{JoinAttempt, JoinEndpoint, JoinMessageStore, JoinOutcome, NotAdmitted};
pub use self::joiner::{Joiner, Progress};
pub use self::message::{
    DiskData, DiskOffer, DurableData, JoinMessage, JoinRequest, PROTOCOL_VERSION,
};
pub use self::secret::{ClusterSecret, Nonce, SecretProof, SecretTooShort};
use crate::ids::{Address, ClusterId};

/// The reason why a machine is not admitted, reported to the operator who started it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JoinRefusal {
    /// The machine's secret is not that of the cluster.
    #[error("the secret is not the cluster's")]
    WrongSecret,
    /// The machine's data are of another cluster.
    #[error("the machine belongs to cluster {theirs}, this is cluster {ours}")]
    OtherCluster {
        /// The cluster of the joiner.
        theirs: ClusterId,
        /// The cluster that the joiner asked.
        ours: ClusterId,
    },
    /// The machine runs another version of the protocol.
    #[error("the machine speaks protocol version {theirs}, the cluster version {ours}")]
    Version {
        /// The version of the joiner.
        theirs: u16,
        /// The version of the cluster.
        ours: u16,
    },
    /// A member has the machine's address: either the machine is a member already, or the address
    /// is wrong.
    #[error("a member of the cluster has this address")]
    AddressInUse,
    /// The asked machine is a member but not the CM: ask the CM.
    #[error("the configuration manager is at {manager}")]
    NotManager {
        /// The address of the CM.
        manager: Address,
    },
    /// The cluster has the largest number of machines.
    #[error("the cluster is full")]
    Full,
    /// The CM is changing the configuration: try again.
    #[error("the configuration is being changed")]
    Busy,
    /// Some machines would keep their data on disks, and others would not.
    #[error("either all machines keep their data on disks, or none of them")]
    OtherTier,
}
