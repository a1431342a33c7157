//! Regions in a reconfiguration: changes to the mappings and replicas of this machine.

use fencepost_cluster::allocation::{Allocator, CacheEvent, Lookup, MovedRegion, RegionMessage};
use fencepost_cluster::few::{FewMap, FewSet};
use fencepost_cluster::reconfiguration::{
    InitialManagerState, NewConfig, RefusedReplica, RegionReport, Regions, Report,
};
use fencepost_cluster::{ConfigurationId, Mapping, RegionMap, Replicas, Replication};
use fencepost_fabric::MachineId;
use fencepost_storage::{RegionId, Timestamp};

use super::super::Network;
use super::super::disk::RegionRecord;
use super::{RegionAllocationClient, State};
use crate::fault::{self, Fault};
use crate::machine::Machine;
use crate::recovery::RegionPrimary;

type Outgoing = Vec<(MachineId, RegionMessage)>;

impl State {
    pub(super) fn regions(&mut self) -> Regions<'_> {
        Regions {
            cache: &mut self.cache,
            replica: &mut self.replica,
            allocator: &mut self.allocator,
            next_region: &mut self.next_region,
        }
    }
}

impl RegionAllocationClient {
    /// Returns the state that a new CM needs; it does not change before the next configuration is
    /// applied.
    pub fn freeze_and_report(&self, last_drained: ConfigurationId) -> RegionReport {
        self.0.lock().regions().freeze_and_report(last_drained)
    }

    /// Makes this machine the CM of the next configuration.
    pub fn become_manager(&self, leading: InitialManagerState, replication: Replication) {
        let mut state = self.0.lock();
        state.regions().become_manager(leading, replication);
        // Region 0 existed before.
        state.root_requested = true;
    }

    /// Returns the messages that waited at the CM until the configuration is in force.
    pub fn take_up(&self) -> Outgoing {
        self.0.lock().regions().commit()
    }

    /// Returns the regions of which this machine was a replica when it applied the configuration,
    /// and their replicas. Newer regions have no transactions of earlier configurations, and their
    /// other replicas may not expect messages about them.
    pub fn to_recover(&self) -> Vec<(u32, Replicas)> {
        self.0.lock().to_recover.clone()
    }

    /// Returns whether all data of a region is here.
    pub fn is_whole(&self, region: RegionId) -> bool {
        let state = self.0.lock();
        state.replica.get(region).is_some_and(|held| held.whole)
    }

    /// Returns the regions whose backup this machine has become without having all data.
    pub fn lacking(&self) -> Vec<(RegionId, Replicas)> {
        let state = self.0.lock();
        let held = state.replica.held().filter(|held| !held.whole);
        held.map(|held| (held.mapping.region, held.mapping.replicas.clone()))
            .collect()
    }

    /// Returns whether some region has fewer than `most` replicas; `false` if not at the CM.
    pub fn has_too_few(&self, most: usize) -> bool {
        let state = self.0.lock();
        let map = state.allocator.as_ref().map(Allocator::map);
        let mut mappings = map.into_iter().flat_map(RegionMap::mappings);
        mappings.any(|mapping| mapping.replicas.count() < most)
    }

    /// Returns the regions of this machine, for its disk.
    pub fn held(&self) -> FewMap<RegionId, RegionRecord> {
        let state = self.0.lock();
        let held = state.replica.held().map(|held| {
            let (mapping, whole) = (held.mapping.clone(), held.whole);
            (mapping.region, RegionRecord { mapping, whole })
        });
        held.collect()
    }

    /// Returns whether this machine is a replica of no region.
    pub fn has_nothing(&self) -> bool {
        self.0.lock().replica.held().next().is_none()
    }

    /// Marks a region as complete. Returns whether that is in time for the next configuration, if
    /// one is being made.
    pub fn filled(&self, region: RegionId) -> bool {
        let mut state = self.0.lock();
        let filled = state.replica.filled(region);
        state.write_down();
        filled
    }

    /// Stores a report for operators.
    pub fn report(&self, report: Report) {
        self.0.lock().report = Some(report);
    }

    /// Returns the report on the regions of the machines that were lost last, if this machine was
    /// the CM that replaced them.
    fn last_report(&self) -> Option<Report> {
        self.0.lock().report.clone()
    }
}

impl Network {
    /// Returns the regions whose primary changes, as far as this machine knows. They may not be
    /// used before all regions are active. A primary may have changed in a configuration that this
    /// machine never applied; then this machine cannot know that its recovery has ended.
    pub(in crate::network) fn regions_that_move(
        &self,
        new: &NewConfig,
        last_drained: ConfigurationId,
    ) -> FewSet<RegionId> {
        let id = new.configuration.id();
        self.with_state(|state, _| {
            let missed = |mapping: &Mapping| {
                let unheld = || state.replica.get(mapping.region).is_none();
                match self.region_map.primary(mapping.region) {
                    Some(known) => known != mapping.replicas.primary(),
                    None => mapping.last_primary_change > last_drained && unheld(),
                }
            };
            let moves = |mapping: &&Mapping| {
                let overlooks = fault::injected(Fault::OverlookMissedMoves);
                mapping.last_primary_change == id || !overlooks && missed(mapping)
            };
            let moved = new.moved.iter().map(|moved| &moved.mapping);
            moved.filter(moves).map(|mapping| mapping.region).collect()
        })
    }

    /// Applies a configuration in which the primaries of `moved` change; see
    /// [`Self::regions_that_move`]. Returns new replicas without memory, requests to send, and
    /// regions that this machine no longer has.
    pub(in crate::network) fn apply_to_regions(
        &self,
        machine: &Machine,
        new: &NewConfig,
        moved: &FewSet<RegionId>,
    ) -> (Vec<RefusedReplica>, Outgoing, Vec<RegionId>) {
        self.with_state(|state, deliveries| {
            state.cm = new.configuration.cm();
            state.writing.is_in(new.configuration.id());
            state.outbox.retain(|(to, _)| new.configuration.has(*to));
            for region in moved {
                self.region_map.suspend(*region);
            }
            state.inactive.extend(moved.iter().copied());
            let mut host = self.host(machine);
            // The regions are written to the disk together, with the configuration.
            host.writes = false;
            let applied = state.regions().apply(new, &mut host);
            let held = state.replica.held().map(|held| &held.mapping);
            let of = |mapping: &Mapping| (mapping.region.0, mapping.replicas.clone());
            state.to_recover = held.map(of).collect();
            for region in &new.lost {
                self.region_map.forget(*region);
                machine.release_region(*region);
                state.lost_regions.insert(*region);
                state.inactive.remove(region);
                state.found(*region, false, deliveries);
            }
            for MovedRegion { mapping, .. } in &new.moved {
                if !moved.contains(&mapping.region) && self.knows(mapping.region) {
                    let _ =
                        machine.begin_handover(mapping.region, &mapping.replicas, Timestamp::ZERO);
                }
            }
            let mut questions = applied.questions;
            // Answers to earlier requests are not accepted any more.
            let lists = state.lists.keys();
            questions.extend(lists.map(|from| state.cache.list(*from)));
            for event in applied.events {
                questions.extend(state.see(&host, event, deliveries));
            }
            (applied.refused, questions, host.parted)
        })
    }

    /// Returns the primary of a region, even if the region is not active.
    pub(in crate::network) fn replicas_in_force(&self, region: RegionId) -> RegionPrimary {
        self.with_state(|state, _| {
            if state.lost_regions.contains(&region) {
                return RegionPrimary::Lost;
            }
            let held = state.replica.get(region).map(|held| &held.mapping);
            let led = || state.allocator.as_ref()?.map().get(region);
            let known = held.or_else(led).or_else(|| state.cache.map().get(region));
            match known {
                Some(mapping) => RegionPrimary::Primary(mapping.replicas.primary()),
                None => {
                    if let Lookup::Ask(cm, question) = state.cache.lookup(region) {
                        state.outbox.push((cm, question));
                    }
                    RegionPrimary::Unknown
                }
            }
        })
    }

    /// Sends messages, or handles those to this machine itself.
    pub(in crate::network) fn send_regions(&self, machine: &Machine, outgoing: Outgoing) {
        self.with_state(|state, deliveries| {
            let mut host = self.host(machine);
            for (to, message) in outgoing {
                state.send(&mut host, to, message, deliveries);
            }
        });
    }

    /// Activates regions whose primary has changed, and wakes their waiters.
    pub(in crate::network) fn activate(&self, machine: &Machine, moved: &[MovedRegion]) {
        let (_, floor) = machine.interval();
        for MovedRegion { mapping, .. } in moved {
            // The regions of this machine are promoted by now.
            let _ = machine.begin_handover(mapping.region, &mapping.replicas, floor);
        }
        self.with_state(|state, deliveries| {
            state.writing.has_recovered();
            for moved in moved {
                let mapping = &moved.mapping;
                state.inactive.remove(&mapping.region);
                let found = CacheEvent::Found(mapping.region);
                let _ = state.see(&self.host(machine), found, deliveries);
            }
        });
    }
}

impl Machine {
    /// Returns the regions that were lost with the machines that failed last, and those with too
    /// few replicas since. `None` if this machine was not the CM that replaced the machines.
    pub fn last_report(&self) -> Option<Report> {
        self.network()?.region_allocation.last_report()
    }
}
