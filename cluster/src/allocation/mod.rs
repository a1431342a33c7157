//! New regions, in two phases (SOSP'15 §3), and the mappings that machines ask for.
//!
//! *Picture.*
//!
//! ```text
//!  requester            CM (allocator)         replicas
//!  cache ── ALLOCATE ──►│── PREPARE ──────────►│ reserve memory
//!                       │◄── PREPARED ─────────│ ... or REFUSED: ABORT to the others,
//!                       │   from each of them      and once more with other machines
//!        ◄─ ALLOCATED ──│── COMMIT ───────────►│
//!  cache ── FETCH ─────►│
//!        ◄─ MAPPINGS ───│    LIST and LISTED ask for all there are
//! ```
//!
//! *Invariants.*
//! 1. ALLOC-1: nobody learns of a mapping before all replicas have prepared it.
//! 2. ALLOC-2: a request has one region, however often it is made.
//! 3. ALLOC-3: an attempt that fails leaves nothing behind at machines that can be reached. Its region
//!    id is used again only if all of its replicas have answered, so that no answer to it is on its way.
//!
//! *Concurrency.* Each part is a state machine with one owner. Between two machines messages arrive
//! in the order in which they were sent, or the connection is lost and told as such. Messages of
//! another configuration are dropped.
//!
//! *Failure.* When the CM is lost, its successor asks the replicas that are left: a region that all
//! of them have prepared or any has committed may be in use and is kept, with the request that it
//! was made for; one that any of them lacks, or holds as of another attempt, never was. A request without an answer is made again to
//! the new CM. From when replicas are asked until they apply the next configuration they are frozen, so that
//! nothing comes to be of which the new CM does not know; its own allocator holds requests back until all
//! have applied it. How it goes is in [`crate::reconfiguration`].

mod allocator;
mod cache;
mod message;
mod replica;
#[cfg(test)]
mod tests;

use fencepost_fabric::MachineId;
use thiserror::Error;

pub use self::allocator::Allocator;
pub use self::cache::{CacheEvent, Lookup, RegionCache, Wish};
pub use self::message::{MAX_FETCHED, RegionBody, RegionMessage};
pub use self::replica::{Decided, HeldRegion, MovedRegion, RegionHost, ReplicaRegions};
use crate::placement::PlacementError;
use crate::region::RegionId;

/// Regions that one CM numbers in one configuration at most. Everybody is told the first number beyond them, so
/// that a new CM gives none a second time, whoever is lost.
pub const REGIONS_A_CONFIGURATION: u32 = 1 << 10;

/// A request for a region: the machine that makes it, and its count of such requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId {
    /// Who asks.
    pub machine: MachineId,
    /// Counts up from 0 over the life of the machine.
    pub number: u64,
}

/// Why there is no new region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AllocationError {
    /// No choice of machines is left.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The region that this one was to be near does not exist.
    #[error("there is no region {0} to be near to")]
    NoSuchRegion(RegionId),
    /// All numbers of regions have been used that this configuration has.
    #[error("all region ids are used")]
    OutOfIds,
    /// No choice is left among the machines that can be reached; another may be once those are replaced that cannot.
    #[error("machines that are needed for a region cannot be reached")]
    Unreachable,
}

/// Why a machine does not take a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// It has no memory for a region.
    #[error("no memory is left for a region")]
    NoMemory,
    /// The request contradicts what it knows; one of the two machines is at fault.
    #[error("the request contradicts what is known here")]
    Contradiction,
}
