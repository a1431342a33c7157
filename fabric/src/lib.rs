//! The seam to the outside: clock, randomness and disk.
//!
//! *What.* Everything above reaches time, chance and storage only through the traits of this
//! crate, so that the same code runs over the operating system in production and over seeded,
//! faulty stand-ins in tests.
//!
//! *Picture.*
//!
//! ```text
//!   storage, txn, …          one code
//!        │
//!   Disk   MonotonicClock   Random
//!    │  │      │      │        │
//!  OsDisk SimDisk  SystemClock ManualClock
//! ```

pub mod clock;
pub mod disk;
pub mod os_disk;
pub mod random;
pub mod sim_disk;

pub use clock::{ManualClock, MonotonicClock, SystemClock, WallClock};
pub use disk::{Disk, DiskFile, DiskLock};
pub use os_disk::OsDisk;
pub use random::{Random, entropy_seed};
pub use sim_disk::{CrashLoss, DiskOp, HeldSyncs, SimDisk};
