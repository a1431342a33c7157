//! Simulated machines with wrong clocks and pauses, a network that delays, loses, duplicates and
//! reorders, and one takeover by a new CM.

use std::collections::BTreeMap;
use std::time::Duration;

use fencepost_fabric::{MachineId, Random};

use crate::configuration::Configuration;
use crate::few::{FewMap, FewSet};
use crate::lease::{LeaseEvent, LeaseMessage, LeaseOrder, LeaseStep, LeaseTerms, Leases};
use crate::testing;

const US: u64 = 1000;
const MS: u64 = 1000 * US;
/// A drift so large that it matters within one lease.
const PPM: u64 = 50_000;

struct Node {
    leases: Leases,
    ahead: u64,
    ppm: i64,
    paused_until: u64,
    /// The time at which the node applies the next configuration.
    applies_at: Option<u64>,
}

impl Node {
    fn now(&self, time: u64) -> u64 {
        self.ahead + (time as i128 * i128::from(1_000_000 + self.ppm) / 1_000_000) as u64
    }

    fn holds(&self, time: u64) -> bool {
        self.leases.holds(self.now(time))
    }
}

pub struct World {
    random: Random,
    time: u64,
    configuration: Configuration,
    next: Option<Configuration>,
    nodes: FewMap<MachineId, Node>,
    /// Messages on their way, by the time of their arrival.
    flying: BTreeMap<(u64, u64), (MachineId, MachineId, [u8; 32])>,
    flown: u64,
    loss: u64,
    delay: u64,
    held: u64,
}

impl World {
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let configuration = testing::machines(2 + random.below(4) as u32);
        let terms = LeaseTerms::new(Duration::from_millis(10), PPM as u32).unwrap();
        let nodes = configuration.machines().iter().map(|machine| {
            let ahead = random.below(1 << 40);
            let leases = Leases::new(machine.id, &configuration, terms, random.next_u64(), ahead);
            // Mostly a clock with the largest drift.
            let ppm = match random.below(3) {
                0 => PPM as i64,
                1 => -(PPM as i64),
                _ => random.below(2 * PPM) as i64 - PPM as i64,
            };
            let node = Node {
                leases,
                ahead,
                ppm,
                paused_until: 0,
                applies_at: None,
            };
            (machine.id, node)
        });
        Self {
            nodes: nodes.collect(),
            time: 0,
            next: None,
            flying: BTreeMap::new(),
            flown: 0,
            loss: 2 + random.below(20),
            delay: [50 * US, MS, 6 * MS][random.below(3) as usize],
            held: 0,
            configuration,
            random,
        }
    }

    /// Runs the cluster, and returns how often a machine was seen to hold a lease.
    pub fn run(mut self) -> u64 {
        let takeover = 20 * MS + self.random.below(60 * MS);
        while self.time < 160 * MS {
            self.time += 1 + self.random.below(400 * US);
            if self.random.one_in(300) {
                let at = self.random.below(self.nodes.len() as u64) as usize;
                let pause = self.random.below(30 * MS);
                let node = self.nodes.values_mut().nth(at).unwrap();
                node.paused_until = self.time + pause;
            }
            if self.next.is_none() && self.time > takeover {
                self.take_over();
            }
            self.deliver();
            let ids: Vec<MachineId> = self.nodes.keys().copied().collect();
            for id in ids {
                self.wake(id);
            }
            self.check();
        }
        self.held
    }

    fn send(&mut self, from: MachineId, to: MachineId, message: LeaseMessage) {
        let copies = match self.random.below(self.loss) {
            0 => 0,
            1 => 2,
            _ => 1,
        };
        for _ in 0..copies {
            let mut delay = self.random.below(self.delay);
            if self.random.one_in(20) {
                delay *= 10;
            }
            self.flown += 1;
            let at = (self.time + delay, self.flown);
            self.flying.insert(at, (from, to, message.to_bytes()));
        }
    }

    fn deliver(&mut self) {
        while let Some(entry) = self.flying.first_entry().filter(|e| e.key().0 <= self.time) {
            let (from, to, bytes) = entry.remove();
            let message = LeaseMessage::from_bytes(&bytes).unwrap();
            let node = self.nodes.get_mut(&to).unwrap();
            if node.paused_until > self.time {
                // The message waits in the socket of the paused machine.
                let at = (node.paused_until, self.flown + 1);
                self.flown += 1;
                self.flying.insert(at, (from, to, bytes));
                continue;
            }
            let now = node.now(self.time);
            if let Some(answer) = node.leases.receive(now, from, message).answer {
                self.send(to, from, answer);
            }
        }
    }

    fn wake(&mut self, id: MachineId) {
        let node = self.nodes.get_mut(&id).unwrap();
        if node.paused_until > self.time {
            return;
        }
        let now = node.now(self.time);
        if node.applies_at.is_some_and(|at| at <= self.time) {
            node.applies_at = None;
            let configuration = self.next.clone().unwrap();
            let old_until = None;
            let apply = LeaseOrder::Apply {
                configuration,
                old_until,
            };
            node.leases.obey(apply, now);
        }
        while let Some(step) = self.nodes.get_mut(&id).unwrap().leases.poll(now) {
            match step {
                LeaseStep::Send(to, message) => self.send(id, to, message),
                LeaseStep::Event(LeaseEvent::OldRunOut(of)) => {
                    let next = self.next.as_ref().unwrap();
                    assert_eq!(of, next.id());
                    for (other, node) in &self.nodes {
                        let old = !next.has(*other) || node.applies_at.is_some();
                        let holds = old && *other != id && node.holds(self.time);
                        let is_of_cm = next.cm() == self.configuration.cm() && next.has(*other);
                        assert!(!holds || is_of_cm, "LEASE-3: {other} still holds a lease");
                    }
                }
                LeaseStep::Event(_) => {}
            }
        }
    }

    /// Makes a machine become or remain CM with the promises of a majority, and evicts some
    /// machines.
    fn take_over(&mut self) {
        let base = self.configuration.clone();
        let mut ids: Vec<MachineId> = base.machines().iter().map(|m| m.id).collect();
        for at in (1..ids.len()).rev() {
            ids.swap(at, self.random.below(at as u64 + 1) as usize);
        }
        let count =
            base.majority() + self.random.below((ids.len() - base.majority()) as u64 + 1) as usize;
        let (members, out) = ids.split_at(count);
        let cm = if members.contains(&base.cm()) && self.random.one_in(2) {
            base.cm()
        } else {
            members[0]
        };
        let lost: FewSet<MachineId> = out.iter().copied().collect();
        let next = base.without(&lost, cm).unwrap();
        let mut granted_ns = 0;
        for id in members {
            let node = self.nodes.get_mut(id).unwrap();
            let now = node.now(self.time);
            node.leases.obey(LeaseOrder::Promise { to: cm }, now);
            granted_ns = granted_ns.max(node.leases.granted_ns(base.id(), now));
            node.applies_at = Some(self.time + self.random.below(30 * MS));
        }
        let node = self.nodes.get_mut(&cm).unwrap();
        let now = node.now(self.time);
        node.applies_at = None;
        if cm == base.cm() {
            let need = base.majority();
            let left_out = out.to_vec();
            node.leases.obey(LeaseOrder::Narrow { left_out, need }, now);
        }
        let apply = LeaseOrder::Apply {
            configuration: next.clone(),
            old_until: Some(now + granted_ns),
        };
        node.leases.obey(apply, now);
        node.leases.obey(LeaseOrder::AwaitOld, now);
        self.next = Some(next);
    }

    /// Checks LEASE-1 and LEASE-2 for the leases that the same CM grants and holds.
    fn check(&mut self) {
        let (time, cm) = (self.time, self.configuration.cm());
        let manager = &self.nodes[&cm];
        let manager_now = manager.now(time);
        for (id, node) in self.nodes.iter().filter(|(id, _)| **id != cm) {
            let local = manager.leases.peers.iter().find(|p| p.machine == *id);
            let remote = node.leases.peers.iter().find(|p| p.machine == cm);
            let (Some(local), Some(remote)) = (local, remote) else {
                continue;
            };
            if node.leases.since != manager.leases.since {
                continue;
            }
            let now = node.now(time);
            if remote.held_until > now {
                assert!(
                    local.granted_until.is_some_and(|until| until > manager_now),
                    "LEASE-1"
                );
                if self.next.is_none() {
                    assert!(manager.holds(time), "LEASE-2");
                }
                self.held += 1;
            }
            if local.held_until > manager_now {
                assert!(
                    remote.granted_until.is_some_and(|until| until > now),
                    "LEASE-1"
                );
            }
        }
    }
}
