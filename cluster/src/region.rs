//! Regions and where their replicas are.

use std::fmt;

use fencepost_fabric::MachineId;

use crate::codec::{DecodeError, Reader, Wire, Writer, wire_newtypes};
use crate::few::FewSet;
use crate::ids::ConfigurationId;

/// Replicas a region has at most.
pub const MAX_REPLICAS: usize = 16;

/// Number of a region, unique in the database for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionId(pub u32);

impl fmt::Display for RegionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

/// Regions that are kept on the same machines; the group is called after the region that founded
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub RegionId);

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the group of {}", self.0)
    }
}

/// The machines that hold a region: at least one, at most [`MAX_REPLICAS`], no two the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replicas {
    primary: MachineId,
    backups: Vec<MachineId>,
}

impl Replicas {
    /// A primary and its backups; `None` when they are too many or not distinct.
    pub fn new(primary: MachineId, backups: Vec<MachineId>) -> Option<Self> {
        let distinct: FewSet<&MachineId> = backups.iter().chain([&primary]).collect();
        let valid = distinct.len() == backups.len() + 1 && distinct.len() <= MAX_REPLICAS;
        valid.then_some(Self { primary, backups })
    }

    /// Who serves the region.
    pub fn primary(&self) -> MachineId {
        self.primary
    }

    /// Who keeps copies of it.
    pub fn backups(&self) -> &[MachineId] {
        &self.backups
    }

    /// All of them, the primary first.
    pub fn all(&self) -> impl Iterator<Item = MachineId> + '_ {
        std::iter::once(self.primary).chain(self.backups.iter().copied())
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        1 + self.backups.len()
    }

    /// Whether a machine is one of them.
    pub fn has(&self, machine: MachineId) -> bool {
        self.all().any(|replica| replica == machine)
    }
}

/// Where a region is, and since when (SOSP'15 §5.3). Within one configuration it does not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The region.
    pub region: RegionId,
    /// The regions it is kept together with.
    pub group: GroupId,
    /// Who holds it.
    pub replicas: Replicas,
    /// LastPrimaryChange: the configuration since which the primary is the primary.
    pub last_primary_change: ConfigurationId,
    /// LastReplicaChange: the configuration since which all replicas are the replicas.
    pub last_replica_change: ConfigurationId,
}

wire_newtypes!(RegionId: u32, GroupId: RegionId);

impl Wire for Replicas {
    fn put(&self, out: &mut Writer) {
        self.primary.put(out);
        self.backups.put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (primary, backups) = (Wire::take(from)?, Wire::take(from)?);
        Self::new(primary, backups).ok_or(DecodeError::Invalid("replicas"))
    }
}

impl Wire for Mapping {
    fn put(&self, out: &mut Writer) {
        self.region.put(out);
        self.group.put(out);
        self.replicas.put(out);
        self.last_primary_change.put(out);
        self.last_replica_change.put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mapping = Self {
            region: Wire::take(from)?,
            group: Wire::take(from)?,
            replicas: Wire::take(from)?,
            last_primary_change: Wire::take(from)?,
            last_replica_change: Wire::take(from)?,
        };
        // A change of the primary is a change of a replica.
        if mapping.last_primary_change > mapping.last_replica_change {
            return Err(DecodeError::Invalid("mapping"));
        }
        Ok(mapping)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_distinct_and_few() {
        let machines = |n| (2..=n).map(MachineId).collect::<Vec<_>>();
        assert!(Replicas::new(MachineId(1), machines(16)).is_some());
        assert_eq!(Replicas::new(MachineId(1), machines(17)), None);
        assert_eq!(Replicas::new(MachineId(2), machines(3)), None);
        assert_eq!(
            Replicas::new(MachineId(1), [machines(2), machines(2)].concat()),
            None
        );
    }

    #[test]
    fn a_mapping_with_impossible_times_is_refused() {
        let mapping = |primary, replica| Mapping {
            region: RegionId(9),
            group: GroupId(RegionId(3)),
            replicas: Replicas::new(MachineId(1), vec![MachineId(2)]).unwrap(),
            last_primary_change: ConfigurationId(primary),
            last_replica_change: ConfigurationId(replica),
        };
        assert_eq!(Mapping::decode(&mapping(4, 5).encode()), Ok(mapping(4, 5)));
        let impossible = mapping(6, 5).encode();
        assert_eq!(
            Mapping::decode(&impossible),
            Err(DecodeError::Invalid("mapping"))
        );
    }
}
