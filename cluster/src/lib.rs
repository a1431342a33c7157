//! The machines of a cluster and the regions that each machine holds.
//!
//! *Purpose.* A cluster moves through *configurations*: numbered lists of its machines with one of
//! them as the configuration manager (CM). The machines agree on a configuration through a store
//! with compare-and-swap, never through messages to each other.
//!
//! Within a configuration the CM alone decides which machines hold which region, and which machines
//! join.
//!
//! *Picture.*
//!
//! ```text
//!   lease ─────────► reconfiguration      failed machines, and the next configuration
//!                         │
//!   join ──────────► configuration ◄──── store (compare-and-swap: local, host, raft, zookeeper)
//!                         │
//!   allocation ──► placement ──► region_map      at the CM; others cache the parts they use
//! ```
//!
//! *Concurrency.* This crate has values and state machines: they take a message or an event and
//! return the messages to send. They use neither sockets nor clocks nor threads, so one thread can
//! run a whole cluster of them from a seed.

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
pub use store::host::{DirectoryUse, HostStore};
pub use store::local::LocalStore;
#[cfg(feature = "raft")]
pub use store::raft::{RaftMember, RaftOutsider, RaftPace, RaftPeer, RaftStore, RaftTransport};
#[cfg(feature = "zookeeper")]
pub use store::zookeeper::{ZookeeperJoinMessages, ZookeeperStore};
pub use store::{ConfigStore, StoreError, SwapOutcome};
