//! The regions that a machine knows and holds, from one configuration to the next: how the actions
//! of a reconfiguration affect allocation.

use super::InitialManagerState;
use super::message::{NewConfig, RefusedReplica, RegionReport};
use crate::allocation::{
    Allocator, CacheEvent, RegionCache, RegionDecisions, RegionHost, RegionMessage, ReplicaRegions,
};
use crate::ids::ConfigurationId;
use crate::placement::Replication;
use crate::region::{Mapping, RegionId};
use crate::region_map::MapVersion;
use fencepost_fabric::MachineId;

/// The parts of allocation on one machine.
#[derive(Debug)]
pub struct Regions<'a> {
    /// The mappings that the machine knows.
    pub cache: &'a mut RegionCache,
    /// The regions that the machine holds.
    pub replica: &'a mut ReplicaRegions,
    /// The allocator; only at the CM.
    pub allocator: &'a mut Option<Allocator>,
    /// A number above those of all regions, received with the configuration;
    /// [`crate::allocation::REGIONS_A_CONFIGURATION`] in the first one.
    pub next_region: &'a mut RegionId,
}

/// The results of applying a configuration.
#[derive(Debug)]
pub struct ConfigurationEffects {
    /// The new replicas without memory, for [`super::Reconfiguration::applied`].
    pub refused: Vec<RefusedReplica>,
    /// The lookups that are answered now.
    pub events: Vec<CacheEvent>,
    /// The messages that repeat unanswered questions.
    pub questions: Vec<(MachineId, RegionMessage)>,
}

impl Regions<'_> {
    /// Carries out [`super::Action::ReportRegions`]: freezes the regions until the next
    /// configuration is applied.
    pub fn freeze_and_report(&mut self, last_drained: ConfigurationId) -> RegionReport {
        self.replica.freeze();
        self.cache.freeze();
        if let Some(allocator) = self.allocator {
            allocator.hold_back();
        }
        self.holdings(last_drained)
    }

    /// Describes the regions of this machine. The caller fills in leases and the time.
    pub fn holdings(&self, last_drained: ConfigurationId) -> RegionReport {
        let mut next_region = *self.next_region;
        let mut known: Vec<&Mapping> = self.cache.map().mappings().collect();
        if let Some(allocator) = &*self.allocator {
            next_region = allocator.next_region();
            known.extend(allocator.map().mappings());
        }
        let is_reported = |mapping: &&Mapping| {
            let held = self.replica.get(mapping.region);
            !held.is_some_and(|held| held.committed && held.mapping == **mapping)
        };
        known.retain(is_reported);
        known.sort_unstable_by_key(|mapping| (mapping.region, mapping.last_replica_change));
        known.dedup();
        RegionReport {
            last_drained,
            held: self.replica.held().cloned().collect(),
            known: known.into_iter().cloned().collect(),
            next_region,
            numbers: self.allocator.is_some(),
            granted_ns: u64::MAX,
            time_ns: None,
        }
    }

    /// Carries out [`super::Action::BecomeManager`]: makes the allocator, which allocates once the
    /// configuration is in force.
    pub fn become_manager(&mut self, leading: InitialManagerState, replication: Replication) {
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

    /// Carries out [`super::Action::Apply`].
    pub fn apply(&mut self, new: &NewConfig, host: &mut impl RegionHost) -> ConfigurationEffects {
        let configuration = &new.configuration;
        let version = MapVersion {
            configuration: configuration.id(),
            changes: 0,
        };
        let is_current = |allocator: &Allocator| {
            allocator.map().version().configuration == version.configuration
        };
        if !self.allocator.as_ref().is_some_and(is_current) {
            *self.allocator = None;
        }
        *self.next_region = new.next_region.max(*self.next_region);
        let decided = RegionDecisions {
            moved: &new.moved,
            given_up: &new.given_up,
            lost: &new.lost,
        };
        let refused = self.replica.apply(configuration, decided, host);
        let refused = refused
            .into_iter()
            .map(|(region, why)| RefusedReplica { region, why });
        let mappings = new.moved.iter().map(|moved| moved.mapping.clone());
        self.cache.forget(&new.lost);
        let (events, questions) = self.cache.apply(configuration, version, mappings);
        ConfigurationEffects {
            refused: refused.collect(),
            events,
            questions,
        }
    }

    /// Carries out [`super::Action::Commit`]: answers the requests that were held back, and returns
    /// the messages to send.
    pub fn commit(&mut self) -> Vec<(MachineId, RegionMessage)> {
        let allocator = self.allocator.as_mut();
        allocator.map(Allocator::take_up).unwrap_or_default()
    }
}
