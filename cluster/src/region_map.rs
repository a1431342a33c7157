//! The map from regions to machines: complete at the CM, a partial cache on every other machine.
//!
//! *Invariants.*
//! 1. MAP-1: the mapping of a region never goes back: a mapping of an older configuration is
//!    ignored.
//! 2. MAP-2: in one configuration the regions of a group are on the same machines.
//!
//! *Concurrency.* A map has one owner. Two states of the map have different [`MapVersion`]s, also
//! across changes of the CM.

use crate::codec::wire_structs;
use crate::few::FewMap;
use crate::ids::ConfigurationId;
use crate::region::{GroupId, Mapping, RegionId};

/// The version of the CM's map; later states have greater versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MapVersion {
    /// The configuration in which the map has this state.
    pub configuration: ConfigurationId,
    /// The number of changes since that configuration began.
    pub changes: u64,
}

wire_structs!(MapVersion {
    configuration,
    changes
});

/// The mappings of regions that this machine knows.
#[derive(Clone, Debug)]
pub struct RegionMap {
    version: MapVersion,
    mappings: FewMap<RegionId, Mapping>,
}

impl RegionMap {
    /// Returns an empty map.
    pub fn new(configuration: ConfigurationId) -> Self {
        Self {
            version: MapVersion {
                configuration,
                changes: 0,
            },
            mappings: FewMap::new(),
        }
    }

    /// Returns the newest version of the CM's map that this map has learned.
    pub fn version(&self) -> MapVersion {
        self.version
    }

    /// Returns the mapping of a region; `None` if this map does not know it.
    pub fn get(&self, region: RegionId) -> Option<&Mapping> {
        self.mappings.get(&region)
    }

    /// Returns all known mappings, ordered by region.
    pub fn mappings(&self) -> impl Iterator<Item = &Mapping> {
        self.mappings.values()
    }

    /// Returns the mappings of `region` and of all regions with greater numbers.
    pub fn from(&self, region: RegionId) -> impl Iterator<Item = &Mapping> {
        self.mappings.range(region..).map(|(_, mapping)| mapping)
    }

    /// Returns the known mappings of a group's regions.
    pub fn of_group(&self, group: GroupId) -> impl Iterator<Item = &Mapping> {
        self.mappings()
            .filter(move |mapping| mapping.group == group)
    }

    /// Returns the mappings whose replicas changed after `last_drained`. A machine that last
    /// drained its logs in that configuration must be told of them.
    pub fn changed_since(&self, last_drained: ConfigurationId) -> impl Iterator<Item = &Mapping> {
        self.mappings()
            .filter(move |mapping| mapping.last_replica_change > last_drained)
    }

    /// Adds the mapping of a new region and counts the change; only the CM calls this.
    pub fn add(&mut self, mapping: Mapping) {
        self.version.changes += 1;
        self.mappings.insert(mapping.region, mapping);
    }

    /// Removes a deallocated region; the version stays.
    pub fn forget(&mut self, region: RegionId) {
        self.mappings.remove(&region);
    }

    /// Learns mappings that the CM sent when its map was at `version`. Ignores mappings that are
    /// older than the known ones (MAP-1).
    pub fn learn(&mut self, version: MapVersion, mappings: impl IntoIterator<Item = Mapping>) {
        self.version = self.version.max(version);
        for mapping in mappings {
            let known = self.get(mapping.region);
            if known.is_none_or(|known| known.last_replica_change < mapping.last_replica_change) {
                self.mappings.insert(mapping.region, mapping);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fencepost_fabric::MachineId;

    use super::*;
    use crate::region::Replicas;

    fn mapping(region: u32, primary: u32, since: u64) -> Mapping {
        Mapping {
            region: RegionId(region),
            group: GroupId(RegionId(region)),
            replicas: Replicas::new(MachineId(primary), Vec::new()).unwrap(),
            last_primary_change: ConfigurationId(since),
            last_replica_change: ConfigurationId(since),
        }
    }

    fn version(configuration: u64, changes: u64) -> MapVersion {
        let configuration = ConfigurationId(configuration);
        MapVersion {
            configuration,
            changes,
        }
    }

    #[test]
    fn mapping_never_goes_back() {
        let mut map = RegionMap::new(ConfigurationId(1));
        map.learn(version(3, 7), [mapping(1, 3, 3)]);
        map.learn(version(2, 9), [mapping(1, 2, 2), mapping(2, 2, 2)]);
        assert_eq!(map.version(), version(3, 7));
        assert_eq!(map.get(RegionId(1)), Some(&mapping(1, 3, 3)));
        assert_eq!(map.get(RegionId(2)), Some(&mapping(2, 2, 2)));
        map.learn(version(4, 0), [mapping(1, 4, 4)]);
        assert_eq!(map.get(RegionId(1)), Some(&mapping(1, 4, 4)));
    }

    #[test]
    fn changes_since_a_version_are_listed() {
        let mut map = RegionMap::new(ConfigurationId(5));
        map.add(mapping(1, 1, 4));
        let before = map.version();
        map.add(mapping(2, 2, 5));
        assert!(map.version() > before && before > version(4, 100));
        let changed = |since| -> Vec<RegionId> {
            map.changed_since(ConfigurationId(since))
                .map(|m| m.region)
                .collect()
        };
        assert_eq!(changed(3), [RegionId(1), RegionId(2)]);
        assert_eq!(changed(4), [RegionId(2)]);
        assert!(changed(5).is_empty());
    }
}
