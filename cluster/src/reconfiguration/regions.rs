//! What a machine knows and holds of regions, from one configuration to the next: what the actions of a
//! reconfiguration mean to allocation.

use super::Leading;
use super::message::{Holdings, NewConfig, Refused};
use crate::allocation::{
    Allocator, CacheEvent, Decided, RegionCache, RegionHost, RegionMessage, ReplicaRegions,
};
use crate::ids::ConfigurationId;
use crate::placement::Replication;
use crate::region::{Mapping, RegionId};
use crate::region_map::MapVersion;
use fencepost_fabric::MachineId;

/// The parts of allocation at one machine.
#[derive(Debug)]
pub struct Regions<'a> {
    /// The mappings that it knows.
    pub cache: &'a mut RegionCache,
    /// The regions that it holds.
    pub replica: &'a mut ReplicaRegions,
    /// At the CM, who makes regions.
    pub allocator: &'a mut Option<Allocator>,
    /// Below this are the numbers of all regions, as it was told with the configuration;
    /// [`crate::allocation::REGIONS_A_CONFIGURATION`] in the first.
    pub next_region: &'a mut RegionId,
}

/// What applying a configuration led to.
#[derive(Debug)]
pub struct Applied {
    /// New replicas without room; for [`super::Reconfiguration::applied`].
    pub refused: Vec<Refused>,
    /// Questions that are answered now.
    pub events: Vec<CacheEvent>,
    /// Questions to be put again; to be sent.
    pub questions: Vec<(MachineId, RegionMessage)>,
}

impl Regions<'_> {
    /// [`super::Action::Survey`]: what is here stays as it is until the next configuration is applied.
    pub fn survey(&mut self, last_drained: ConfigurationId) -> Holdings {
        self.replica.freeze();
        self.cache.freeze();
        if let Some(allocator) = self.allocator {
            allocator.hold_back();
        }
        self.holdings(last_drained)
    }

    /// What is here, but for leases and the time, which are put in by whoever knows of them.
    pub fn holdings(&self, last_drained: ConfigurationId) -> Holdings {
        let mut next_region = *self.next_region;
        let mut known: Vec<&Mapping> = self.cache.map().mappings().collect();
        if let Some(allocator) = &*self.allocator {
            next_region = allocator.next_region();
            known.extend(allocator.map().mappings());
        }
        let told = |mapping: &&Mapping| {
            let held = self.replica.get(mapping.region);
            !held.is_some_and(|held| held.committed && held.mapping == **mapping)
        };
        known.retain(told);
        known.sort_unstable_by_key(|mapping| (mapping.region, mapping.last_replica_change));
        known.dedup();
        Holdings {
            last_drained,
            held: self.replica.held().cloned().collect(),
            known: known.into_iter().cloned().collect(),
            next_region,
            numbers: self.allocator.is_some(),
            granted_ns: u64::MAX,
            time_ns: None,
        }
    }

    /// [`super::Action::Lead`]: this machine makes regions, once the configuration is in force.
    pub fn lead(&mut self, leading: Leading, replication: Replication) {
        let mut allocator = Allocator::new(
            &leading.configuration,
            replication,
            leading.map,
            leading.requests,
            leading.next_region,
        );
        allocator.hold_back();
        *self.allocator = Some(allocator);
    }

    /// [`super::Action::Apply`].
    pub fn apply(&mut self, new: &NewConfig, host: &mut impl RegionHost) -> Applied {
        let configuration = &new.configuration;
        let version = MapVersion {
            configuration: configuration.id(),
            changes: 0,
        };
        let leads = |allocator: &Allocator| {
            allocator.map().version().configuration == version.configuration
        };
        if !self.allocator.as_ref().is_some_and(leads) {
            *self.allocator = None;
        }
        *self.next_region = new.next_region.max(*self.next_region);
        let decided = Decided {
            moved: &new.moved,
            given_up: &new.given_up,
            lost: &new.lost,
        };
        let refused = self.replica.apply(configuration, decided, host);
        let refused = refused
            .into_iter()
            .map(|(region, why)| Refused { region, why });
        let mappings = new.moved.iter().map(|moved| moved.mapping.clone());
        self.cache.forget(&new.lost);
        let (events, questions) = self.cache.apply(configuration, version, mappings);
        Applied {
            refused: refused.collect(),
            events,
            questions,
        }
    }

    /// [`super::Action::Commit`]: requests that were held back are answered; to be sent.
    pub fn commit(&mut self) -> Vec<(MachineId, RegionMessage)> {
        let allocator = self.allocator.as_mut();
        allocator.map(Allocator::take_up).unwrap_or_default()
    }
}
