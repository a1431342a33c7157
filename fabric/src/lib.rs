//! The interface to the outside: other machines, clocks, randomness and disks.
//!
//! *Purpose.* The other crates use peers, time, random numbers and disks only through the traits of
//! this crate. So the same code runs over the operating system in production, and over seeded,
//! faulty simulations in tests.
//!
//! *Picture.*
//!
//! ```text
//!   storage, txn, …          one code
//!        │
//!   Fabric    Disk   MonotonicClock   Random
//!     │        │  │      │      │        │
//!  local  OsDisk SimDisk  SystemClock ManualClock
//!   shm                   HostClock
//!   tcp
//!   sim
//! ```
//!
//! *Reading order.* [`fabric`] with [`segment`], [`memory`] and [`completion`] are the interface to
//! other machines. [`ring`] and [`bell`] are made of it: messages, and wake-ups. [`local`] is the
//! shortest implementation; [`shm`] and [`tcp`] are those of production, and [`nvram`] keeps their
//! memory. [`disk`], [`clock`] and [`random`] stand alone, each with its implementations.
//!
//! [`sends::BatchSender`] and [`processors::anywhere`] have examples.
//!
//! Only [`memory`] and [`sends`] have unsafe code. Under loom only [`memory`] and the modules that
//! need no others are compiled.

#[cfg(not(loom))]
pub mod bell;
pub mod clock;
#[cfg(not(loom))]
pub mod completion;
pub mod counters;
#[cfg(not(loom))]
mod direct;
pub mod disk;
#[cfg(not(loom))]
pub mod fabric;
#[cfg(not(loom))]
pub mod home;
#[cfg(not(loom))]
pub mod local;
pub mod machine;
pub mod memory;
#[cfg(not(loom))]
pub mod nvram;
pub mod os_disk;
pub mod priority;
pub mod processors;
pub mod random;
#[cfg(not(loom))]
mod registry;
#[cfg(not(loom))]
pub mod retained_memory;
#[cfg(not(loom))]
pub mod ring;
pub mod segment;
pub mod sends;
#[cfg(not(loom))]
pub mod shm;
#[cfg(feature = "sim")]
pub mod sim_disk;
#[cfg(all(feature = "sim", not(loom)))]
pub mod sim_net;
pub mod sync;
#[cfg(not(loom))]
pub mod tcp;
#[cfg(not(loom))]
mod waiting;

#[cfg(not(loom))]
pub use bell::{Bell, BellValue};
pub use clock::{HostClock, ManualClock, MonotonicClock, SystemClock, WallClock};
#[cfg(not(loom))]
pub use completion::{Completer, Completion};
pub use counters::{FabricCounters, FabricCounts};
pub use disk::{Disk, DiskFile, DiskLock};
#[cfg(not(loom))]
pub use fabric::{ArrivalHandler, Event, Fabric, FabricError};
#[cfg(not(loom))]
pub use home::MachineDirectory;
#[cfg(not(loom))]
pub use local::{LocalFabric, LocalNetwork};
pub use machine::{MachineId, Member};
pub use memory::Memory;
#[cfg(not(loom))]
pub use nvram::Nvram;
#[cfg(not(loom))]
pub use nvram::evicted::EvictedMemory;
#[cfg(not(loom))]
pub use nvram::saves::{LoadError, SaveOutcome};
pub use os_disk::OsDisk;
pub use priority::{ask_for_priority, stand_back};
pub use random::{Random, entropy_seed};
#[cfg(not(loom))]
pub use retained_memory::{MemoryStore, RetainedMemory};
#[cfg(not(loom))]
pub use ring::{HeldRecord, Malformed, RingFull, RingReader, RingWriter};
pub use segment::{Place, SegmentId, Writer};
#[cfg(not(loom))]
pub use shm::ShmFabric;
#[cfg(feature = "sim")]
pub use sim_disk::{CrashLoss, DiskOp, HeldSyncs, SimDisk};
#[cfg(all(feature = "sim", not(loom)))]
pub use sim_net::{Nic, SimFabric, SimKnobs, SimNet, SimStep, TapVerdict, WriteTap};
#[cfg(not(loom))]
pub use tcp::{
    CertificateFault, ControlClient, ControlService, HandshakeError, TcpConfig, TcpFabric, TcpTls,
    TlsError, cluster_id,
};
