//! How a machine becomes a member: it and the CM show each other that they know the cluster's
//! secret.
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
//! 1. JOIN-1: nobody becomes a member, or is told who the members are, without proof of the secret;
//!    a proof is made for one challenge and cannot be used again.
//! 2. JOIN-2: a refusal leaves everything as it was.
//! 3. JOIN-3: a joiner believes nobody without the same proof.
//! 4. JOIN-4: a machine that keeps its data on a disk is let in once that says who it is to be: it is OFFERED that instead of
//!    ACCEPTED, while a configuration is in force in which its address is nobody's, writes it down and comes again. So no
//!    configuration has a machine with a disk whose disk does not say so.
//!
//! The forms of HELLO and of the refusal of a version are the same in every version of the
//! protocol.
//!
//! What they say they leave at the cluster's [`Door`].
//!
//! *Concurrency.* One join at a time is stored; others are told that the CM is busy, and try again.
//!
//! *Failure.* When the store's answer is not known the joiner is told to try again. If it did
//! become a member, its address is in use until the CM has found that its lease was never taken.

mod admission;
mod door;
mod joiner;
mod message;
mod secret;
#[cfg(test)]
mod tests;

use thiserror::Error;

pub use self::admission::{Admission, Admitted, MAX_STRANGERS, Stranger};
pub use self::door::{Door, Heard, Knock, Letterbox, NotAdmitted};
pub use self::joiner::{Joiner, Progress};
pub use self::message::{DiskData, JoinMessage, JoinRequest, Keeps, Offer, PROTOCOL_VERSION};
pub use self::secret::{ClusterSecret, Nonce, Proof, SecretTooShort};
use crate::ids::{Address, ClusterId};

/// Why a machine is not admitted; for the person who started it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JoinRefusal {
    /// It was given another secret than the cluster.
    #[error("the secret is not the cluster's")]
    WrongSecret,
    /// Its data is another cluster's.
    #[error("the machine belongs to cluster {theirs}, this is cluster {ours}")]
    OtherCluster {
        /// Of the joiner.
        theirs: ClusterId,
        /// Of the cluster it asks.
        ours: ClusterId,
    },
    /// It runs another version of the program.
    #[error("the machine speaks protocol version {theirs}, the cluster version {ours}")]
    Version {
        /// Of the joiner.
        theirs: u16,
        /// Of the cluster it asks.
        ours: u16,
    },
    /// A member has its address: either it is one already, or the address is wrong.
    #[error("a member of the cluster has this address")]
    AddressInUse,
    /// The machine it asked is a member but not the CM: ask that one.
    #[error("the configuration manager is at {manager}")]
    NotManager {
        /// Where the CM is.
        manager: Address,
    },
    /// The cluster has as many machines as it can have.
    #[error("the cluster is full")]
    Full,
    /// The CM is changing the configuration: try again.
    #[error("the configuration is being changed")]
    Busy,
    /// Some keep their data on disks, and others do not.
    #[error("either all machines keep their data on disks, or none of them")]
    OtherTier,
}
