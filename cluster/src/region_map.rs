//! The map from regions to machines: whole at the CM, in parts and cached everywhere else.
//!
//! *Invariants.*
//! 1. MAP-1: the mapping of a region never goes back: one of an older configuration is not taken.
//! 2. MAP-2: in one configuration the regions of a group are on the same machines.
//!
//! *Concurrency.* A map has one owner. Its [`MapVersion`] tells two states of it apart, across
//! changes of the CM too.

use crate::codec::wire_structs;
use crate::few::FewMap;
use crate::ids::ConfigurationId;
use crate::region::{GroupId, Mapping, RegionId};

/// A state of the CM's map; later states are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MapVersion {
    /// The configuration it is of.
    pub configuration: ConfigurationId,
    /// Changes since that configuration began.
    pub changes: u64,
}

wire_structs!(MapVersion {
    configuration,
    changes
});

/// Where regions are, as far as it is known here.
#[derive(Clone, Debug)]
pub struct RegionMap {
    version: MapVersion,
    mappings: FewMap<RegionId, Mapping>,
}

impl RegionMap {
    /// A map that knows of no region.
    pub fn new(configuration: ConfigurationId) -> Self {
        Self {
            version: MapVersion {
                configuration,
                changes: 0,
            },
            mappings: FewMap::new(),
        }
    }

    /// The state of the CM's map that this one has been told of.
    pub fn version(&self) -> MapVersion {
        self.version
    }

    /// Where a region is; `None` where it is not known.
    pub fn get(&self, region: RegionId) -> Option<&Mapping> {
        self.mappings.get(&region)
    }

    /// All mappings that are known, by region.
    pub fn mappings(&self) -> impl Iterator<Item = &Mapping> {
        self.mappings.values()
    }

    /// The mappings of a region and of those behind it.
    pub fn from(&self, region: RegionId) -> impl Iterator<Item = &Mapping> {
        self.mappings.range(region..).map(|(_, mapping)| mapping)
    }

    /// The regions of a group that are known.
    pub fn of_group(&self, group: GroupId) -> impl Iterator<Item = &Mapping> {
        self.mappings()
            .filter(move |mapping| mapping.group == group)
    }

    /// What a machine must be told that last drained its logs in `last_drained`: the regions whose
    /// replicas have changed since.
    pub fn changed_since(&self, last_drained: ConfigurationId) -> impl Iterator<Item = &Mapping> {
        self.mappings()
            .filter(move |mapping| mapping.last_replica_change > last_drained)
    }

    /// The CM's own change: a region that is new.
    pub fn add(&mut self, mapping: Mapping) {
        self.version.changes += 1;
        self.mappings.insert(mapping.region, mapping);
    }

    /// A region is there no more.
    pub fn forget(&mut self, region: RegionId) {
        self.mappings.remove(&region);
    }

    /// Takes what the CM said when its map was at `version`; a mapping that is older than the known
    /// one is left aside (MAP-1).
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
    fn a_mapping_never_goes_back() {
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
    fn every_change_has_a_version_and_what_changed_since_is_told() {
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
