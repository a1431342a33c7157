//! A cluster in one thread: FIFO channels between machines, delivered in an order drawn from a
//! seed. Machines refuse regions and are lost, and requests are repeated.

use std::collections::VecDeque;

use fencepost_fabric::{MachineId, Random};

use crate::allocation::*;
use crate::codec::Wire;
use crate::configuration::Configuration;
use crate::few::{FewMap, FewSet};
use crate::ids::FailureDomain;
use crate::placement::Replication;
use crate::region::{Mapping, RegionId};
use crate::region_map::RegionMap;
use crate::testing;

const CM: MachineId = MachineId(1);

/// The memory of a machine for a few regions.
struct Memory {
    free_regions: usize,
    reserved: FewSet<RegionId>,
    allocated: FewSet<RegionId>,
}

impl RegionHost for Memory {
    fn reserve(&mut self, mapping: &Mapping) -> Result<(), Refusal> {
        if self.reserved.len() == self.free_regions {
            return Err(Refusal::NoMemory);
        }
        let region = mapping.region;
        assert!(self.reserved.insert(region), "{region} is reserved once");
        Ok(())
    }

    fn keep(&mut self, mapping: &Mapping) {
        let region = mapping.region;
        assert!(self.reserved.contains(&region), "{region} was reserved");
        assert!(self.allocated.insert(region), "{region} is kept once");
    }

    fn release(&mut self, region: RegionId) {
        assert!(self.reserved.remove(&region), "{region} was reserved");
    }
}

struct Node {
    cache: RegionCache,
    replica: ReplicaRegions,
    memory: Memory,
}

pub struct World {
    random: Random,
    configuration: Configuration,
    allocator: Allocator,
    nodes: FewMap<MachineId, Node>,
    channels: FewMap<(MachineId, MachineId), VecDeque<Vec<u8>>>,
    /// Each request and its answer.
    requests: FewMap<RequestId, (RegionMessage, Option<Result<RegionId, AllocationError>>)>,
    /// The requested primaries of some requests.
    wishes: FewMap<RequestId, MachineId>,
}

impl World {
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let machines = 2 + random.below(6);
        let domains: Vec<u32> = (0..machines).map(|_| random.below(5) as u32).collect();
        let configuration = testing::configuration(&domains);
        let id = configuration.id();
        let replication = Replication::new(random.below(3) as usize, 1 + random.below(3) as usize);
        let map = RegionMap::new(id);
        let members = configuration.machines().iter().map(|machine| machine.id);
        let nodes = members.map(|machine| {
            let memory = Memory {
                free_regions: random.below(12) as usize,
                reserved: FewSet::new(),
                allocated: FewSet::new(),
            };
            let node = Node {
                cache: RegionCache::new(machine, &configuration),
                replica: ReplicaRegions::new(machine, CM, id),
                memory,
            };
            (machine, node)
        });
        let nodes = nodes.collect();
        Self {
            allocator: Allocator::new(&configuration, replication, map, [], RegionId(1)),
            random,
            configuration,
            nodes,
            channels: FewMap::new(),
            requests: FewMap::new(),
            wishes: FewMap::new(),
        }
    }

    pub fn run(mut self) {
        let steps = 40 + self.random.below(200);
        for _ in 0..steps {
            match self.random.below(40) {
                0..=7 => self.ask_for_a_region(),
                8..=9 => self.ask_again(),
                10..=11 => self.look_up(),
                12 => self.lose_a_machine(),
                _ => self.deliver(),
            }
        }
        while self.deliver_any() {}
        self.check();
    }

    fn draw(&mut self) -> MachineId {
        let at = self.random.below(self.nodes.len() as u64) as usize;
        *self.nodes.keys().nth(at).expect("the CM is always there")
    }

    fn ask_for_a_region(&mut self) {
        let machine = self.draw();
        let known = 1 + self.allocator.map().mappings().count() as u64;
        let near = RegionId(1 + self.random.below(2 * known) as u32);
        let wish = RequestedPlacement {
            near: Some(near).filter(|_| self.random.one_in(3)),
            primary: Some(machine).filter(|_| self.random.one_in(2)),
        };
        let node = self
            .nodes
            .get_mut(&machine)
            .expect("it was drawn from them");
        let (request, to, message) = node.cache.allocate(wish);
        self.requests.insert(request, (message.clone(), None));
        if let (None, Some(primary)) = (wish.near, wish.primary) {
            self.wishes.insert(request, primary);
        }
        self.send(machine, vec![(to, message)]);
    }

    fn ask_again(&mut self) {
        let at = self.random.below(1 + self.requests.len() as u64) as usize;
        let again = self.requests.iter().nth(at);
        if let Some((request, (message, None))) = again {
            let (from, message) = (request.machine, message.clone());
            self.send(from, vec![(CM, message)]);
        }
    }

    fn look_up(&mut self) {
        let machine = self.draw();
        let region = RegionId(1 + self.random.below(20) as u32);
        let node = self
            .nodes
            .get_mut(&machine)
            .expect("it was drawn from them");
        if let Lookup::Ask(to, message) = node.cache.lookup(region) {
            self.send(machine, vec![(to, message)]);
        }
    }

    fn lose_a_machine(&mut self) {
        let machine = self.draw();
        if machine != CM {
            self.nodes.remove(&machine);
            self.channels
                .retain(|(from, to), _| *from != machine && *to != machine);
            let outgoing = self.allocator.unreachable(machine);
            self.send(CM, outgoing);
        }
    }

    fn send(&mut self, from: MachineId, outgoing: Vec<(MachineId, RegionMessage)>) {
        for (to, message) in outgoing {
            if self.nodes.contains_key(&to) && self.nodes.contains_key(&from) {
                let channel = self.channels.entry((from, to)).or_default();
                channel.push_back(message.encode());
            }
        }
    }

    fn deliver(&mut self) {
        self.deliver_any();
    }

    fn deliver_any(&mut self) -> bool {
        self.channels.retain(|_, channel| !channel.is_empty());
        let at = self.random.below(self.channels.len() as u64) as usize;
        let Some((&(from, to), channel)) = self.channels.iter_mut().nth(at) else {
            return false;
        };
        let bytes = channel.pop_front().expect("empty channels are gone");
        let message = RegionMessage::decode(&bytes).expect("it was encoded");
        if to == CM {
            let outgoing = self.allocator.receive(from, message.clone());
            self.send(to, outgoing);
        }
        let node = self
            .nodes
            .get_mut(&to)
            .expect("channels end with their machines");
        let answer = node
            .replica
            .receive(from, message.clone(), &mut node.memory);
        let events = node.cache.receive(from, message);
        for event in events {
            self.see(event);
        }
        self.send(to, answer.map(|answer| (CM, answer)).into_iter().collect());
        true
    }

    fn see(&mut self, event: CacheEvent) {
        let (request, answer) = match event {
            CacheEvent::Allocated(request, region) => (request, Ok(region)),
            CacheEvent::NotAllocated(request, why) => (request, Err(why)),
            CacheEvent::Found(region) => {
                let mapping = self.allocator.map().get(region);
                return self.assert_prepared(mapping.expect("what is found exists"));
            }
            CacheEvent::Missing(_) | CacheEvent::Listed(..) => return,
        };
        if let Ok(region) = answer {
            let mapping = self.allocator.map().get(region);
            let mapping = mapping.expect("what is answered exists");
            self.assert_prepared(mapping);
            let wish = self.wishes.get(&request);
            assert!(
                wish.is_none_or(|wish| *wish == mapping.replicas.primary()),
                "PLACE-4"
            );
        }
        let (_, answered) = self.requests.get_mut(&request).expect("it was made");
        assert_eq!(answered.replace(answer), None, "one answer to {request:?}");
    }

    /// Checks ALLOC-1.
    fn assert_prepared(&self, mapping: &Mapping) {
        for machine in mapping.replicas.all() {
            if let Some(node) = self.nodes.get(&machine) {
                let held = node.replica.get(mapping.region).expect("it was prepared");
                assert_eq!(held.mapping, *mapping);
            }
        }
    }

    fn check(self) {
        assert!(self.allocator.is_idle());
        let mut regions = FewSet::new();
        for (request, (_, answer)) in &self.requests {
            let asker = self.nodes.contains_key(&request.machine);
            assert!(answer.is_some() || !asker, "{request:?} has an answer");
            if let Some(Ok(region)) = answer {
                assert!(regions.insert(*region), "ALLOC-2: a region has one request");
            }
        }
        let mut expected: FewMap<MachineId, FewSet<RegionId>> = FewMap::new();
        for mapping in self.allocator.map().mappings() {
            let initial_member = self.allocator.map().get(mapping.group.0);
            assert_eq!(
                initial_member.map(|f| &f.replicas),
                Some(&mapping.replicas),
                "MAP-2"
            );
            let domains: FewSet<&FailureDomain> = mapping
                .replicas
                .all()
                .filter_map(|machine| self.configuration.machine(machine))
                .map(|machine| &machine.domain)
                .collect();
            assert_eq!(domains.len(), mapping.replicas.count(), "PLACE-1");
            for machine in mapping.replicas.all() {
                expected.entry(machine).or_default().insert(mapping.region);
            }
        }
        for (machine, node) in &self.nodes {
            let regions = expected.remove(machine).unwrap_or_default();
            assert!(node.replica.held().all(|held| held.committed));
            let held = node.replica.held().map(|held| held.mapping.region);
            assert_eq!(held.collect::<FewSet<_>>(), regions, "ALLOC-3");
            assert_eq!(
                node.memory.reserved, regions,
                "memory is held for regions alone"
            );
            assert_eq!(node.memory.allocated, regions);
            let load = self.allocator.placement().load(*machine);
            assert_eq!(load.map(|load| load.replicas), Some(regions.len()));
        }
    }
}
