//! Allocation of regions in two phases (SOSP'15 §3), and the lookup of mappings.
//!
//! *Picture.*
//!
//! ```text
//!  requester            CM (allocator)         replicas
//!  cache ── ALLOCATE ──►│── PREPARE ──────────►│ reserve memory
//!                       │◄── PREPARED ─────────│ ... or REFUSED: ABORT to the others,
//!                       │   from each of them      and another attempt with other machines
//!        ◄─ ALLOCATED ──│── COMMIT ───────────►│
//!  cache ── FETCH ─────►│
//!        ◄─ MAPPINGS ───│    LIST and LISTED give all regions
//! ```
//!
//! *Invariants.*
//! 1. ALLOC-1: no machine learns of a mapping before all replicas have prepared it.
//! 2. ALLOC-2: a request gets one region, however often it is repeated.
//! 3. ALLOC-3: a failed attempt leaves no memory reserved on reachable machines. Its region id is
//!    used again only if all of its replicas have answered, so that no answer to it is in flight.
//!
//! *Concurrency.* Each part is a state machine with one owner. Messages between two machines arrive
//! in the order in which they were sent, or the connection is lost and reported. Messages of
//! another configuration are ignored.
//!
//! *Failure.* When the CM is lost, its successor asks the remaining replicas. A region that all of
//! them have prepared, or any has committed, may be in use. It is kept, with the request that it
//! was made for. A region that any of them lacks, or holds as of another attempt, never existed. A
//! request without an answer is repeated to the new CM. Replicas are frozen from the time at which
//! they are asked until they apply the next configuration, so that the new CM knows all regions.
//! Its own allocator holds requests back until all machines have applied the configuration.
//! [`crate::reconfiguration`] describes the procedure.

mod allocator;
mod cache;
mod message;
mod replica;
#[cfg(test)]
mod tests;

use fencepost_fabric::MachineId;
use thiserror::Error;

pub use self::allocator::Allocator;
pub use self::cache::{CacheEvent, Lookup, RegionCache, RequestedPlacement};
pub use self::message::{MAX_FETCHED, RegionBody, RegionMessage};
pub use self::replica::{HeldRegion, MovedRegion, RegionDecisions, RegionHost, ReplicaRegions};
use crate::placement::PlacementError;
use crate::region::RegionId;

/// The largest number of regions that one CM numbers in one configuration. All machines know the
/// first number beyond it, so a new CM never assigns a number twice, whichever machines are lost.
pub const REGIONS_A_CONFIGURATION: u32 = 1 << 10;

/// The identity of a request for a region: the requesting machine and the number of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId {
    /// The requesting machine.
    pub machine: MachineId,
    /// The number of the request; it counts up from 0 in each incarnation of the machine.
    pub number: u64,
}

/// The reason why no region is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AllocationError {
    /// No placement is possible.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The region near which the new one is to be placed does not exist.
    #[error("there is no region {0} to be near to")]
    NoSuchRegion(RegionId),
    /// The configuration has used all of its region numbers.
    #[error("all region ids are used")]
    OutOfIds,
    /// The reachable machines allow no placement; one may be possible once unreachable machines are
    /// replaced.
    #[error("machines that are needed for a region cannot be reached")]
    Unreachable,
}

/// The reason why a machine refuses a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The machine has no memory for a region.
    #[error("no memory is left for a region")]
    NoMemory,
    /// The request contradicts the machine's state; one of the two machines is at fault.
    #[error("the request contradicts what is known here")]
    Contradiction,
}
