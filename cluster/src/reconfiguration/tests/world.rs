//! A cluster in one thread and virtual time. Messages arrive in order until a connection breaks;
//! the store answers, late or never.

use fencepost_fabric::{MachineId, Random};
use std::collections::BTreeMap;

use super::check::{Checks, EventCounts};
use super::node::{Node, options};
use crate::allocation::{Allocator, CacheEvent, RegionMessage, RequestedPlacement};
use crate::codec::Wire;
use crate::configuration::Configuration;
use crate::few::{FewMap, FewSet};
use crate::ids::ConfigurationId;
use crate::lease::{LeaseMessage, LeaseStep};
use crate::reconfiguration::{
    Action, InitialManagerState, ReconfigurationMessage, RefusedReplica, RegionProbe, RegionReport,
    Report,
};
use crate::region::RegionId;
use crate::region_map::RegionMap;
use crate::store::SwapOutcome;
use crate::testing;

pub const MS: u64 = 1_000_000;

pub enum Message {
    Reconfiguration(Vec<u8>),
    Region(Vec<u8>),
}

pub enum Event {
    Wake,
    Lease(MachineId, [u8; LeaseMessage::BYTES]),
    /// A message, with the number of the connection's incarnation.
    Message(MachineId, u64, Message),
    Unreachable(MachineId),
    RegionsReported(RegionProbe, RegionReport),
    Applied(ConfigurationId, Vec<RefusedReplica>),
    /// The store carries out this machine's request.
    Store(u64, Option<(ConfigurationId, Configuration)>, bool),
    Swapped(u64, Option<SwapOutcome>),
    Read(u64, Option<Configuration>),
    Drained(ConfigurationId),
    Active(ConfigurationId),
    Filled(RegionId),
}

pub struct World {
    pub random: Random,
    pub time: u64,
    pub nodes: FewMap<MachineId, Node>,
    pub events: BTreeMap<(u64, u64), (MachineId, Event)>,
    sequence: u64,
    /// The arrival time of the last message between two machines.
    arrived: FewMap<(MachineId, MachineId), u64>,
    incarnations: FewMap<(MachineId, MachineId), u64>,
    pub cut: FewSet<(MachineId, MachineId)>,
    pub store: Configuration,
    pub store_down: bool,
    pub faults: bool,
    pub delay: u64,
    pub checks: Checks,
}

impl World {
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let count = 3 + random.below(5);
        let domains: Vec<u32> = (1..=count as u32)
            .map(|n| if random.one_in(5) { 1 } else { n })
            .collect();
        let configuration = testing::configuration(&domains);
        let mut nodes = FewMap::new();
        for machine in configuration.machines() {
            let node = Node::new(machine.id, &configuration, false, 0, &mut random);
            nodes.insert(machine.id, node);
        }
        let map = RegionMap::new(configuration.id());
        let allocator = Allocator::new(&configuration, options().replication, map, [], RegionId(1));
        nodes.get_mut(&configuration.cm()).unwrap().allocator = Some(allocator);
        let mut world = Self {
            time: 0,
            events: BTreeMap::new(),
            sequence: 0,
            arrived: FewMap::new(),
            incarnations: FewMap::new(),
            cut: FewSet::new(),
            checks: Checks::new(&configuration),
            store: configuration,
            store_down: false,
            faults: true,
            delay: [100_000, 500_000, 2 * MS][random.below(3) as usize],
            nodes,
            random,
        };
        for id in world.ids() {
            world.after(0, id, Event::Wake);
        }
        world
    }

    pub fn ids(&self) -> Vec<MachineId> {
        self.nodes.keys().copied().collect()
    }

    pub fn node(&mut self, id: MachineId) -> &mut Node {
        self.nodes.get_mut(&id).unwrap()
    }

    pub fn after(&mut self, delay: u64, id: MachineId, event: Event) {
        self.sequence += 1;
        let at = (self.time + delay, self.sequence);
        self.events.insert(at, (id, event));
    }

    pub fn short(&mut self) -> u64 {
        self.random.below(self.delay)
    }

    pub fn run(mut self) -> EventCounts {
        let calm = 30 * MS;
        let end_of_faults = 100 * MS + self.random.below(250 * MS);
        let mut next_fault = calm;
        let end = end_of_faults + 700 * MS;
        while let Some(entry) = self.events.first_entry() {
            let ((at, sequence), (id, event)) = entry.remove_entry();
            self.time = at;
            if at > end {
                break;
            }
            if self.faults && at > end_of_faults {
                self.heal();
            } else if self.faults && at > next_fault {
                next_fault = at + self.random.below(40 * MS);
                self.fault();
            }
            if self.faults && self.random.one_in(200) {
                self.ask_for_a_region();
            }
            if let Event::Store(attempt, swap, tell) = event {
                // The store acts even if the requesting machine has failed since.
                self.at_store(id, attempt, swap, tell);
                continue;
            }
            let node = self.node(id);
            if !node.up {
                continue;
            }
            if node.paused_until > at {
                let key = (node.paused_until, sequence);
                self.events.insert(key, (id, event));
                continue;
            }
            self.happen(id, event);
        }
        self.check_end();
        self.checks.seen
    }

    fn ask_for_a_region(&mut self) {
        let ids = self.ids();
        let id = ids[self.random.below(ids.len() as u64) as usize];
        let near = RegionId(1 + self.random.below(9) as u32);
        let near = Some(near).filter(|_| self.random.one_in(3));
        let own = self.random.one_in(2);
        let time = self.time;
        let node = self.node(id);
        if node.acts(time) && node.paused_until <= time {
            let primary = Some(id).filter(|_| own);
            let (_, to, message) = node.cache.allocate(RequestedPlacement { near, primary });
            self.send(id, to, Message::Region(message.encode()));
        }
    }

    pub fn happen(&mut self, id: MachineId, event: Event) {
        let now = self.nodes[&id].now(self.time);
        let node = self.nodes.get_mut(&id).unwrap();
        let actions = match event {
            Event::Wake => return self.wake(id, now),
            Event::Lease(from, bytes) => {
                let message = LeaseMessage::from_bytes(&bytes).unwrap();
                let received = node.leases.receive(now, from, message);
                let event = received.event;
                let actions = event.map(|event| node.reconfiguration.lease_event(now, event));
                if let Some(answer) = received.answer {
                    self.send_lease(id, from, answer);
                }
                actions.unwrap_or_default()
            }
            Event::Message(from, incarnation, message) => {
                return self.arrive(id, from, incarnation, message);
            }
            Event::Unreachable(other) => {
                if let Some(allocator) = &mut node.allocator {
                    let outgoing = allocator.unreachable(other);
                    self.send_regions(id, outgoing);
                }
                self.node(id).reconfiguration.unreachable(now, other)
            }
            Event::RegionsReported(probe, holdings) => {
                if probe.by == id {
                    self.checks.answered(id, probe.base, id);
                }
                node.reconfiguration.regions_reported(now, probe, holdings)
            }
            Event::Applied(configuration, refused) => {
                node.reconfiguration.applied(now, configuration, refused)
            }
            Event::Store(..) => return,
            Event::Swapped(attempt, outcome) => node.reconfiguration.swapped(now, attempt, outcome),
            Event::Read(attempt, current) => node.reconfiguration.read(now, attempt, current),
            Event::Drained(configuration) => {
                node.last_drained = node.last_drained.max(configuration);
                Vec::new()
            }
            Event::Active(configuration) => node.reconfiguration.regions_active(now, configuration),
            Event::Filled(region) => return self.fill(id, region),
        };
        self.act(id, actions);
    }

    fn wake(&mut self, id: MachineId, now: u64) {
        while let Some(step) = self.node(id).leases.poll(now) {
            match step {
                LeaseStep::Send(to, message) => self.send_lease(id, to, message),
                LeaseStep::Event(event) => {
                    let actions = self.node(id).reconfiguration.lease_event(now, event);
                    self.act(id, actions);
                }
            }
        }
        if self.node(id).reconfiguration.next_wake() <= now {
            let actions = self.node(id).reconfiguration.tick(now);
            self.act(id, actions);
        }
        self.check_acting();
        let again = 300_000 + self.random.below(MS);
        self.after(again, id, Event::Wake);
    }

    fn send_lease(&mut self, from: MachineId, to: MachineId, message: LeaseMessage) {
        let copies = match self.random.below(20) {
            0 if self.faults => 0,
            1 if self.faults => 2,
            _ => 1,
        };
        if self.cut.contains(&(from, to)) || !self.nodes.contains_key(&to) {
            return;
        }
        for _ in 0..copies {
            let delay = self.short();
            self.after(delay, to, Event::Lease(from, message.to_bytes()));
        }
    }

    pub fn send_regions(&mut self, from: MachineId, outgoing: Vec<(MachineId, RegionMessage)>) {
        for (to, message) in outgoing {
            self.send(from, to, Message::Region(message.encode()));
        }
    }

    fn pair(a: MachineId, b: MachineId) -> (MachineId, MachineId) {
        (a.min(b), a.max(b))
    }

    pub fn send(&mut self, from: MachineId, to: MachineId, message: Message) {
        if !self.nodes.contains_key(&to) {
            return;
        }
        let delay = self.short();
        let last = self.arrived.entry((from, to)).or_default();
        *last = (self.time + delay).max(*last);
        let delay = *last - self.time;
        let incarnation = *self.incarnations.entry(Self::pair(from, to)).or_default();
        if self.cut.contains(&(from, to)) || !self.nodes[&to].up {
            // Sending breaks the connection, which both sides detect later.
            *self.incarnations.entry(Self::pair(from, to)).or_default() += 1;
            let found = self.random.below(5 * MS);
            self.after(found, from, Event::Unreachable(to));
            self.after(found, to, Event::Unreachable(from));
            return;
        }
        self.after(delay, to, Event::Message(from, incarnation, message));
    }

    fn arrive(&mut self, id: MachineId, from: MachineId, incarnation: u64, message: Message) {
        if self.incarnations.get(&Self::pair(from, id)) != Some(&incarnation) {
            return;
        }
        let now = self.nodes[&id].now(self.time);
        let node = self.nodes.get_mut(&id).unwrap();
        let bytes = match message {
            Message::Reconfiguration(bytes) => bytes,
            Message::Region(bytes) => return self.arrive_region(id, from, &bytes),
        };
        let message = ReconfigurationMessage::decode(&bytes).unwrap();
        if let ReconfigurationMessage::ProbeAnswer { base, .. } = &message {
            self.checks.answered(id, *base, from);
        }
        let actions = node.reconfiguration.receive(now, from, message);
        self.act(id, actions);
    }

    fn arrive_region(&mut self, id: MachineId, from: MachineId, bytes: &[u8]) {
        let message = RegionMessage::decode(bytes).unwrap();
        let node = self.nodes.get_mut(&id).unwrap();
        let mut outgoing = Vec::new();
        if let Some(allocator) = &mut node.allocator {
            outgoing = allocator.receive(from, message.clone());
        }
        node.memory.making = true;
        let answer = node
            .replica
            .receive(from, message.clone(), &mut node.memory);
        node.memory.making = false;
        outgoing.extend(answer.map(|answer| (from, answer)));
        let events = node.cache.receive(from, message);
        self.see(id, events);
        self.send_regions(id, outgoing);
    }

    fn see(&mut self, id: MachineId, events: Vec<CacheEvent>) {
        for event in events {
            if let CacheEvent::Allocated(request, region) = event {
                let mapping = self.nodes[&id].cache.map().get(region).unwrap().clone();
                self.checks.allocated(request, mapping);
            }
        }
    }

    fn at_store(
        &mut self,
        id: MachineId,
        attempt: u64,
        swap: Option<(ConfigurationId, Configuration)>,
        tell: bool,
    ) {
        let answer = match swap {
            None => Event::Read(attempt, Some(self.store.clone())),
            Some((expected, new)) if expected == self.store.id() => {
                self.checks.swapped(id, &self.store, &new);
                self.store = new;
                Event::Swapped(attempt, Some(SwapOutcome::Won))
            }
            Some(_) => Event::Swapped(attempt, Some(SwapOutcome::Lost)),
        };
        if tell {
            let delay = self.short();
            self.after(delay, id, answer);
        }
    }

    /// Asks the store; it may be down, or its answer may be late.
    fn ask_store(
        &mut self,
        id: MachineId,
        attempt: u64,
        swap: Option<(ConfigurationId, Configuration)>,
    ) {
        let reads = swap.is_none();
        let failed = match reads {
            true => Event::Read(attempt, None),
            false => Event::Swapped(attempt, None),
        };
        let delay = self.short();
        if self.store_down {
            return self.after(delay + 3 * MS, id, failed);
        }
        if self.faults && self.random.one_in(5) {
            let late = self.random.below(30 * MS);
            self.after(late, id, failed);
            let later = self.random.below(60 * MS);
            return self.after(later, id, Event::Store(attempt, swap, false));
        }
        let slow = if self.random.one_in(10) { 20 * MS } else { 0 };
        self.after(delay + slow, id, Event::Store(attempt, swap, true));
    }

    pub fn act(&mut self, id: MachineId, actions: Vec<Action>) {
        let now = self.nodes[&id].now(self.time);
        for action in actions {
            let node = self.nodes.get_mut(&id).unwrap();
            match action {
                Action::Send(to, message) => {
                    self.send(id, to, Message::Reconfiguration(message.encode()));
                }
                Action::Leases(order) => node.leases.obey(order, now),
                Action::Block => node.blocked = true,
                Action::ReportRegions(probe) => {
                    let drained = node.last_drained;
                    let mut holdings = node.regions().0.freeze_and_report(drained);
                    holdings.granted_ns = node.leases.granted_ns(probe.base, now);
                    holdings.time_ns = Some(now);
                    let delay = self.short();
                    self.after(delay, id, Event::RegionsReported(probe, holdings));
                }
                Action::CompareAndSwap {
                    attempt,
                    expected,
                    new,
                } => self.ask_store(id, attempt, Some((expected, new))),
                Action::ReadStore { attempt } => self.ask_store(id, attempt, None),
                Action::BecomeManager(leading) => self.become_manager(id, *leading),
                Action::Apply(new) => {
                    self.checks.applies(id, new.configuration.id());
                    let node = self.nodes.get_mut(&id).unwrap();
                    let (mut regions, memory) = node.regions();
                    let applied = regions.apply(&new, memory);
                    self.see(id, applied.events);
                    self.send_regions(id, applied.questions);
                    self.checks.seen.refused += applied.refused.len() as u64;
                    let delay = self.short();
                    let done = Event::Applied(new.configuration.id(), applied.refused);
                    self.after(delay, id, done);
                }
                Action::Commit(configuration) => {
                    node.blocked = false;
                    let outgoing = node.regions().0.commit();
                    self.send_regions(id, outgoing);
                    self.check_commit(id, configuration);
                    let delay = self.random.below(5 * MS);
                    self.after(delay, id, Event::Drained(configuration));
                    self.after(delay * 2, id, Event::Active(configuration));
                }
                Action::AllRegionsActive(configuration) => {
                    node.all_active = Some(configuration);
                    self.tell_whole(id);
                    let held = self.nodes[&id].replica.held().filter(|held| !held.whole);
                    let regions: Vec<RegionId> = held.map(|held| held.mapping.region).collect();
                    for region in regions {
                        let delay = self.random.below(60 * MS);
                        self.after(delay, id, Event::Filled(region));
                    }
                }
                Action::Report(report) => self.report(report),
                Action::Wished(true) => self.join(id),
                Action::Wished(false) => {}
                Action::Part => {
                    let actions = node.reconfiguration.ask_to_leave(now, id, true);
                    self.act(id, actions);
                }
                Action::Evicted(configuration) => {
                    assert!(!configuration.has(id));
                    self.checks.seen.evicted += 1;
                    self.node(id).blocked = true;
                }
            }
        }
    }

    fn become_manager(&mut self, id: MachineId, leading: InitialManagerState) {
        self.check_new_manager(id, &leading);
        let (mut regions, _) = self.node(id).regions();
        regions.become_manager(leading, options().replication);
    }

    fn report(&mut self, report: Report) {
        self.checks.seen.lost += report.lost.len() as u64;
        self.checks.lost.extend(report.lost);
    }

    /// Starts the machines that were added.
    fn join(&mut self, cm: MachineId) {
        let configuration = self.nodes[&cm].reconfiguration.configuration().clone();
        for machine in configuration.machines() {
            if !self.nodes.contains_key(&machine.id) {
                let (time, random) = (self.time, &mut self.random);
                let node = Node::new(machine.id, &configuration, true, time, random);
                self.nodes.insert(machine.id, node);
                self.checks.seen.joined += 1;
                self.after(0, machine.id, Event::Wake);
            }
        }
    }

    /// Carries out data recovery of a region: copies the data of its primary.
    fn fill(&mut self, id: MachineId, region: RegionId) {
        let Some(held) = self.nodes[&id].replica.get(region).filter(|h| !h.whole) else {
            return;
        };
        let primary = &self.nodes[&held.mapping.replicas.primary()];
        let data = primary.memory.data.get(&region).cloned();
        if let Some(data) = data.filter(|_| primary.up)
            && primary.applied() == self.nodes[&id].applied()
        {
            let node = self.node(id);
            if node.replica.filled(region) {
                node.memory.data.insert(region, data);
                self.checks.seen.filled += 1;
            }
            self.tell_whole(id);
        }
    }

    /// Reports that all replicas of a machine are whole, if they are.
    fn tell_whole(&mut self, id: MachineId) {
        let now = self.nodes[&id].now(self.time);
        let node = self.node(id);
        let active = node.all_active.filter(|active| *active == node.applied());
        if let Some(active) = active
            && node.replica.held().all(|held| held.whole)
        {
            let actions = node.reconfiguration.is_whole(now, active);
            self.act(id, actions);
        }
    }
}
