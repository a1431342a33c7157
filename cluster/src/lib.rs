//! Which machines there are and what each of them holds.
//!
//! *What.* A cluster moves through *configurations*: numbered lists of its machines with one of
//! them as the configuration manager (CM). They are agreed on through a store with
//! compare-and-swap, and never through messages among the machines.
//!
//! Within a configuration the CM alone decides which machines hold which region, and who joins.
//!
//! *Picture.*
//!
//! ```text
//!   lease ─────────► reconfiguration      who has failed, and what follows from it
//!                         │
//!   join ──────────► configuration ◄──── store (compare-and-swap: local, host, raft, zookeeper)
//!                         │
//!   allocation ──► placement ──► region_map      at the CM; others cache what they use of it
//! ```
//!
//! *Concurrency.* What is here are values and state machines: they take a message or an event and
//! say what to send. They know neither sockets nor clocks nor threads, so one thread can run a
//! whole cluster of them from a seed.

pub mod allocation;
pub mod codec;
pub mod configuration;
pub mod few;
pub mod format;
pub mod ids;
pub mod join;
pub mod lease;
pub mod placement;
pub mod reconfiguration;
pub mod region;
pub mod region_map;
pub mod seal;
pub mod store;
pub mod successors;
#[cfg(test)]
mod testing;

pub use codec::{DecodeError, Reader, Wire, Writer};
pub use configuration::{Configuration, ConfigurationError, MAX_MACHINES, Machine};
pub use fencepost_fabric::MachineId;
pub use ids::{Address, ClusterId, ConfigurationId, FailureDomain, NameError};
pub use placement::{Load, Placement, PlacementError, Replication};
pub use region::{GroupId, MAX_REPLICAS, Mapping, RegionId, Replicas};
pub use region_map::{MapVersion, RegionMap};
pub use store::host::{HostStore, Standing};
pub use store::local::LocalStore;
#[cfg(feature = "raft")]
pub use store::raft::{RaftMember, RaftPace, RaftPeer, RaftStore, RaftStranger, RaftTransport};
#[cfg(feature = "zookeeper")]
pub use store::zookeeper::{ZookeeperLetters, ZookeeperStore};
pub use store::{ConfigStore, StoreError, Swapped};
