//! Regions, and the machines that hold their replicas.

use std::fmt;

use fencepost_fabric::MachineId;

use crate::codec::{DecodeError, Reader, Wire, Writer, wire_newtypes};
use crate::few::FewSet;
use crate::ids::ConfigurationId;

/// The largest number of replicas of one region.
pub const MAX_REPLICAS: usize = 16;

/// The number of a region, unique in the database for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionId(pub u32);

impl fmt::Display for RegionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

/// A group of regions with replicas on the same machines, named after its first region.
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
    /// Returns a primary with its backups; `None` if the machines are too many or not distinct.
    pub fn new(primary: MachineId, backups: Vec<MachineId>) -> Option<Self> {
        let distinct: FewSet<&MachineId> = backups.iter().chain([&primary]).collect();
        let valid = distinct.len() == backups.len() + 1 && distinct.len() <= MAX_REPLICAS;
        valid.then_some(Self { primary, backups })
    }

    /// Returns the machine that serves reads and writes of the region.
    pub fn primary(&self) -> MachineId {
        self.primary
    }

    /// Returns the machines that keep copies of the region.
    pub fn backups(&self) -> &[MachineId] {
        &self.backups
    }

    /// Returns all replicas, the primary first.
    pub fn all(&self) -> impl Iterator<Item = MachineId> + '_ {
        std::iter::once(self.primary).chain(self.backups.iter().copied())
    }

    /// Returns the number of replicas, the primary included.
    pub fn count(&self) -> usize {
        1 + self.backups.len()
    }

    /// Returns whether `machine` holds a replica.
    pub fn has(&self, machine: MachineId) -> bool {
        self.all().any(|replica| replica == machine)
    }
}

/// The replicas of a region, and the configurations in which they last changed (SOSP'15 §5.3). A
/// mapping does not change within one configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The region that is mapped.
    pub region: RegionId,
    /// The group whose regions have the same replicas.
    pub group: GroupId,
    /// The machines that hold the region.
    pub replicas: Replicas,
    /// LastPrimaryChange: the configuration in which the present primary became the primary.
    pub last_primary_change: ConfigurationId,
    /// LastReplicaChange: the configuration in which the set of replicas last changed.
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
        // A change of the primary is also a change of the replicas.
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
    fn mapping_with_impossible_times_is_refused() {
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
