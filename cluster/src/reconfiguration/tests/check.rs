//! The safety checks of the simulated cluster, and the checks of its final state.

use fencepost_fabric::MachineId;

use super::node::options;
use super::world::World;
use crate::allocation::RequestId;
use crate::configuration::Configuration;
use crate::few::{FewMap, FewSet};
use crate::ids::ConfigurationId;
use crate::reconfiguration::InitialManagerState;
use crate::region::{GroupId, Mapping, RegionId};

pub struct Checks {
    /// The machines that have answered each machine's probes for each configuration.
    answers: FewMap<(MachineId, ConfigurationId), FewSet<MachineId>>,
    committed: ConfigurationId,
    led: ConfigurationId,
    first: ConfigurationId,
    /// The regions that a machine was told of.
    used: FewSet<RegionId>,
    /// The newest mappings that CMs have made.
    mapped: FewMap<RegionId, Mapping>,
    /// The newest mappings that have come into force.
    in_force: FewMap<RegionId, Mapping>,
    requests: FewMap<RequestId, RegionId>,
    pub lost: FewSet<RegionId>,
    applied: FewMap<MachineId, ConfigurationId>,
    pub seen: EventCounts,
}

/// The numbers of events in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCounts {
    pub committed: u64,
    pub new_cms: u64,
    pub joined: u64,
    pub removals: u64,
    /// The machines that were to leave, and those that have left without replicas.
    pub leaving: u64,
    pub parted: u64,
    /// The replicas that were given up.
    pub given_up: u64,
    pub evicted: u64,
    pub lost: u64,
    pub refused: u64,
    pub filled: u64,
    /// The runs in which no majority was left.
    pub stuck: u64,
    /// The configurations that were never committed.
    pub skipped: u64,
}

impl EventCounts {
    pub fn add(&mut self, other: &Self) {
        let pairs = [
            (&mut self.committed, other.committed),
            (&mut self.new_cms, other.new_cms),
            (&mut self.joined, other.joined),
            (&mut self.removals, other.removals),
            (&mut self.leaving, other.leaving),
            (&mut self.parted, other.parted),
            (&mut self.given_up, other.given_up),
            (&mut self.evicted, other.evicted),
            (&mut self.lost, other.lost),
            (&mut self.refused, other.refused),
            (&mut self.filled, other.filled),
            (&mut self.stuck, other.stuck),
            (&mut self.skipped, other.skipped),
        ];
        for (sum, more) in pairs {
            *sum += more;
        }
    }
}

impl Checks {
    pub fn new(configuration: &Configuration) -> Self {
        Self {
            answers: FewMap::new(),
            committed: configuration.id(),
            led: configuration.id(),
            first: configuration.id(),
            used: FewSet::new(),
            mapped: FewMap::new(),
            in_force: FewMap::new(),
            requests: FewMap::new(),
            lost: FewSet::new(),
            applied: FewMap::new(),
            seen: EventCounts::default(),
        }
    }

    pub fn answered(&mut self, initiator: MachineId, base: ConfigurationId, from: MachineId) {
        let answers = self.answers.entry((initiator, base)).or_default();
        answers.insert(from);
    }

    /// Checks RECONF-2, and that ids have no gaps.
    pub fn swapped(&mut self, by: MachineId, before: &Configuration, new: &Configuration) {
        assert_eq!(new.id(), before.id().next(), "no configuration is left out");
        assert_eq!(new.cm(), by);
        self.seen.new_cms += u64::from(before.cm() != by);
        let answers = self.answers.get(&(by, before.id()));
        let answers = answers.map(|a| a.iter().filter(|m| before.has(**m)).collect::<Vec<_>>());
        let answers = answers.unwrap_or_default();
        assert!(answers.len() >= before.majority(), "RECONF-2: {answers:?}");
        for machine in new.machines() {
            let answered = answers.contains(&&machine.id);
            assert!(
                answered || !before.has(machine.id),
                "{} has answered",
                machine.id
            );
        }
    }

    /// Checks RECONF-3.
    pub fn applies(&mut self, machine: MachineId, configuration: ConfigurationId) {
        let before = self.applied.insert(machine, configuration);
        assert!(before < Some(configuration), "RECONF-3");
    }

    /// Checks ALLOC-2 across all changes of the CM.
    pub fn allocated(&mut self, request: RequestId, mapping: Mapping) {
        let region = mapping.region;
        let before = self.requests.insert(request, region);
        assert!(before.is_none_or(|before| before == region), "ALLOC-2");
        let twice = self
            .requests
            .iter()
            .any(|(r, id)| *r != request && *id == region);
        assert!(!twice, "ALLOC-2: {region} was made for one request");
        self.used.insert(region);
        let newest = self.mapped.entry(region).or_insert_with(|| mapping.clone());
        if newest.last_replica_change < mapping.last_replica_change {
            *newest = mapping;
        }
    }
}

impl World {
    /// Checks RECONF-1: a machine that answers clients is in the newest configuration in force.
    pub fn check_acting(&self) {
        for (id, node) in &self.nodes {
            if node.acts(self.time) {
                let (applied, committed) = (node.applied(), self.checks.committed);
                assert!(
                    applied >= committed,
                    "RECONF-1: {id} acts in {applied} after {committed}"
                );
            }
        }
    }

    pub fn check_commit(&mut self, at: MachineId, id: ConfigurationId) {
        let configuration = self.nodes[&at].reconfiguration.configuration().clone();
        assert_eq!(configuration.id(), id);
        if configuration.cm() != at {
            return;
        }
        self.checks.seen.committed += 1;
        self.checks.seen.skipped += id.0 - self.checks.committed.0 - 1;
        self.checks.committed = id;
        self.check_acting();
        let map = self.nodes[&at].allocator.as_ref().unwrap().map();
        for (machine, node) in self.nodes.iter().filter(|(_, node)| node.up) {
            if !configuration.has(*machine) {
                let holds = node.leases.holds(node.now(self.time));
                assert!(!holds, "RECONF-1: {machine} is out and holds a lease");
                continue;
            }
            assert!(node.applied() >= id, "RECONF-1: {machine} has applied it");
            if node.applied() > id {
                continue;
            }
            for known in node.cache.map().mappings() {
                assert_eq!(map.get(known.region), Some(known), "at {machine}");
            }
            for held in node.replica.held() {
                let region = held.mapping.region;
                assert_eq!(map.get(region), Some(&held.mapping), "at {machine}");
                assert!(held.committed);
                let data = node.memory.data.get(&region);
                assert!(
                    data.is_some() || !held.whole,
                    "{region} is whole at {machine}"
                );
                let primary = &self.nodes[&held.mapping.replicas.primary()];
                let at_primary = primary.memory.data.get(&region);
                let same = data == at_primary || at_primary.is_none();
                assert!(same || !held.whole, "{region} is another one at {machine}");
            }
            for mapping in map.mappings() {
                let held = node.replica.get(mapping.region).is_some();
                assert_eq!(
                    held,
                    mapping.replicas.has(*machine),
                    "{} at {machine}",
                    mapping.region
                );
                let data = node.memory.data.contains_key(&mapping.region);
                let primary = mapping.replicas.primary() == *machine;
                assert!(data || !primary, "REMAP-1: {} at {machine}", mapping.region);
            }
        }
    }

    /// Checks the regions that the new CM has found and its mappings.
    pub fn check_new_manager(&mut self, cm: MachineId, leading: &InitialManagerState) {
        let configuration = &leading.configuration;
        assert_eq!(configuration.cm(), cm);
        if configuration.id() < self.checks.led {
            // The CM learned late that it won, and a later configuration exists: no machine follows
            // this one.
            return;
        }
        self.checks.led = configuration.id();
        let mut groups: FewMap<GroupId, FewSet<Vec<MachineId>>> = FewMap::new();
        for mapping in leading.map.mappings() {
            let region = mapping.region;
            assert!(region < leading.next_region);
            let mut all: Vec<MachineId> = mapping.replicas.all().collect();
            assert!(all.iter().all(|machine| configuration.has(*machine)));
            let primary = mapping.replicas.primary();
            let data = self.nodes[&primary].memory.data.contains_key(&region);
            assert!(data, "REMAP-1: {region} at {primary}");
            self.check_mapping(configuration, mapping);
            all.sort_unstable();
            groups.entry(mapping.group).or_default().insert(all);
        }
        let roomy = self
            .nodes
            .values()
            .all(|node| node.memory.reserved.len() < node.memory.free_regions);
        if roomy {
            let split = groups.iter().find(|(_, sets)| sets.len() > 1);
            assert!(split.is_none(), "MAP-2: {split:?}");
        }
        for region in &self.checks.used {
            if leading.map.get(*region).is_none() {
                for machine in configuration.machines() {
                    let Some(node) = self.nodes.get(&machine.id) else {
                        continue;
                    };
                    let data = node.memory.data.contains_key(region);
                    assert!(!data, "{region} has its data at {}", machine.id);
                    let knows = node.cache.map().get(*region).is_some();
                    let lost = self.checks.lost.contains(region);
                    assert!(!knows || lost, "no machine reports that {region} is lost");
                }
            }
        }
    }

    /// Checks the new mapping of a region against its last mapping in force. Mappings of
    /// configurations that never came into force moved no data, and gave no replica up.
    fn check_mapping(&mut self, configuration: &Configuration, mapping: &Mapping) {
        let region = mapping.region;
        let before = self.checks.mapped.insert(region, mapping.clone());
        if let Some(before) = before
            && before.last_replica_change <= self.checks.committed
        {
            self.checks.in_force.insert(region, before);
        }
        let Some(before) = self.checks.in_force.get(&region) else {
            return;
        };
        let has_data = |id: &MachineId| self.nodes[id].memory.data.contains_key(&region);
        let stays = before.replicas.all().any(|m| mapping.replicas.has(m));
        assert!(stays, "{region} keeps a replica");
        let (was, primary) = (before.replicas.primary(), mapping.replicas.primary());
        assert!(
            before.replicas.has(primary),
            "{region} was at its primary {primary}"
        );
        let demoted = primary != was && mapping.replicas.has(was);
        assert!(
            !(demoted && has_data(&was)),
            "{region} has left its primary {was}"
        );
        let given_up = before.replicas.all().filter(|machine| {
            configuration.has(*machine) && has_data(machine) && !mapping.replicas.has(*machine)
        });
        if given_up.count() > 0 {
            let whole = mapping.replicas.all().filter(has_data).count();
            assert!(whole >= options().replication.wanted(), "REMAP-4: {region}");
            self.checks.seen.given_up += 1;
        }
        assert!(
            before.last_replica_change <= mapping.last_replica_change,
            "MAP-1"
        );
    }

    /// Checks that, after faults have ended, a majority continues with exactly the running
    /// machines.
    pub fn check_end(&mut self) {
        let members = self.store.machines().iter().map(|machine| machine.id);
        let up = |id: &MachineId| self.nodes.get(id).is_some_and(|node| node.up);
        if members.clone().filter(up).count() < self.store.majority() {
            self.checks.seen.stuck += 1;
            return;
        }
        let members: FewSet<MachineId> = members.collect();
        for id in &members {
            assert!(
                up(id),
                "{id} is down and still a member of {:?}",
                self.store.id()
            );
        }
        for (id, node) in self.nodes.iter().filter(|(_, node)| node.up) {
            if !members.contains(id) {
                assert!(
                    node.reconfiguration.is_evicted(),
                    "{id} knows that it is out"
                );
                assert!(!node.acts(self.time));
                continue;
            }
            assert_eq!(node.applied(), self.store.id(), "at {id}");
            assert!(
                node.reconfiguration.is_committed(),
                "{id} knows that it is in force"
            );
            assert!(!node.reconfiguration.is_initiating());
            assert!(node.acts(self.time), "{id} serves");
            let first = self.store.id() == self.checks.first;
            assert!(
                node.all_active == Some(self.store.id()) || first,
                "{id} is active"
            );
        }
    }
}
