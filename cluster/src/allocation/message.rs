//! The messages of allocation and of the region map, and their encoding.
//!
//! ```text
//! | configuration 8 | kind 1 | fields in the order of their declaration |
//! ```

use fencepost_fabric::MachineId;

use super::{AllocationError, HeldRegion, MovedRegion, Refusal, RequestId};
use crate::codec::{DecodeError, Reader, Wire, Writer, wire_enum, wire_structs};
use crate::ids::ConfigurationId;
use crate::placement::PlacementError;
use crate::region::{Mapping, RegionId};
use crate::region_map::MapVersion;

/// The largest number of regions in one FETCH and in one answer.
pub const MAX_FETCHED: usize = 128;

/// A message about regions, as the fabric carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionMessage {
    /// The configuration in which the message was sent; other configurations ignore it.
    pub configuration: ConfigurationId,
    /// The content of the message.
    pub body: RegionBody,
}

/// The content of a message about regions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegionBody {
    /// To the CM: allocate a region.
    Allocate {
        /// The request; when repeated it gives the same region.
        request: RequestId,
        /// All requests of this machine below this number have had their answers.
        answered: u64,
        /// The region on whose machines, in the same roles, the new one is placed.
        near: Option<RegionId>,
        /// The requested primary; ignored if `near` is given.
        primary: Option<MachineId>,
    },
    /// From the CM: the region exists.
    Allocated {
        /// The request that this answers.
        request: RequestId,
        /// The version of the CM's map at the time of the answer.
        version: MapVersion,
        /// The mapping of the new region.
        mapping: Mapping,
    },
    /// From the CM: the request failed. A repeated request is tried again.
    NotAllocated {
        /// The request that this answers.
        request: RequestId,
        /// The reason for the failure.
        why: AllocationError,
    },
    /// To a replica: reserve memory for a region, and keep its mapping.
    Prepare {
        /// The request that the region is for.
        request: RequestId,
        /// The region and all its replicas.
        mapping: Mapping,
    },
    /// From a replica: the memory is reserved.
    Prepared {
        /// The prepared region.
        region: RegionId,
    },
    /// From a replica: the region is refused, and nothing is kept.
    Refused {
        /// The refused region.
        region: RegionId,
        /// The reason for the refusal.
        why: Refusal,
    },
    /// To a replica: the region exists.
    Commit {
        /// The committed region.
        region: RegionId,
    },
    /// To a replica: the region never comes to exist.
    Abort {
        /// The aborted region.
        region: RegionId,
    },
    /// To the CM: request the mappings of these regions.
    Fetch {
        /// At most [`MAX_FETCHED`].
        regions: Vec<RegionId>,
    },
    /// From the CM: the requested mappings.
    Mappings {
        /// The version of the CM's map at the time of the answer.
        version: MapVersion,
        /// The mappings of the regions that exist.
        found: Vec<Mapping>,
        /// The regions that did not exist then.
        missing: Vec<RegionId>,
    },
    /// To the CM: request the mappings of all regions from this one on.
    List {
        /// The first requested region.
        from: RegionId,
    },
    /// From the CM: the mappings from the requested region on.
    Listed {
        /// The version of the CM's map at the time of the answer.
        version: MapVersion,
        /// The first requested region.
        from: RegionId,
        /// At most [`MAX_FETCHED`] mappings, ordered by region.
        found: Vec<Mapping>,
        /// Whether more regions follow.
        more: bool,
    },
}

impl Wire for RegionMessage {
    fn put(&self, out: &mut Writer) {
        self.configuration.put(out);
        self.body.put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (configuration, body) = (Wire::take(from)?, RegionBody::take(from)?);
        let many = match &body {
            RegionBody::Fetch { regions } => regions.len(),
            RegionBody::Mappings { found, missing, .. } => found.len().max(missing.len()),
            RegionBody::Listed { found, .. } => found.len(),
            _ => 0,
        };
        if many > MAX_FETCHED {
            return Err(DecodeError::Invalid("number of regions"));
        }
        Ok(Self {
            configuration,
            body,
        })
    }
}

wire_enum!(RegionBody, "message":
    0 Allocate { request, answered, near, primary },
    1 Allocated { request, version, mapping },
    2 NotAllocated { request, why },
    3 Prepare { request, mapping },
    4 Prepared { region },
    5 Refused { region, why },
    6 Commit { region },
    7 Abort { region },
    8 Fetch { regions },
    9 Mappings { version, found, missing },
    10 List { from },
    11 Listed { version, from, found, more }
);

wire_structs!(
    RequestId { machine, number },
    HeldRegion {
        mapping,
        request,
        committed,
        whole
    },
    MovedRegion { mapping, request }
);

wire_enum!(Refusal, "refusal": 0 NoMemory, 1 Contradiction);

impl Wire for AllocationError {
    fn put(&self, out: &mut Writer) {
        match self {
            Self::Placement(PlacementError::TooFewMachines { need, have }) => {
                0u8.put(out);
                need.put(out);
                have.put(out);
            }
            Self::Placement(PlacementError::TooFewDomains { need, have }) => {
                1u8.put(out);
                need.put(out);
                have.put(out);
            }
            Self::Placement(PlacementError::GroupUnavailable { group, machine }) => {
                2u8.put(out);
                group.put(out);
                machine.put(out);
            }
            Self::NoSuchRegion(region) => {
                3u8.put(out);
                region.put(out);
            }
            Self::OutOfIds => 4u8.put(out),
            Self::Unreachable => 6u8.put(out),
            Self::Placement(PlacementError::PrimaryUnavailable { machine }) => {
                5u8.put(out);
                machine.put(out);
            }
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match u8::take(from)? {
            0 => Self::Placement(PlacementError::TooFewMachines {
                need: Wire::take(from)?,
                have: Wire::take(from)?,
            }),
            1 => Self::Placement(PlacementError::TooFewDomains {
                need: Wire::take(from)?,
                have: Wire::take(from)?,
            }),
            2 => Self::Placement(PlacementError::GroupUnavailable {
                group: Wire::take(from)?,
                machine: Wire::take(from)?,
            }),
            3 => Self::NoSuchRegion(Wire::take(from)?),
            4 => Self::OutOfIds,
            6 => Self::Unreachable,
            5 => Self::Placement(PlacementError::PrimaryUnavailable {
                machine: Wire::take(from)?,
            }),
            _ => return Err(DecodeError::Invalid("allocation error")),
        })
    }
}
