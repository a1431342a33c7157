//! Simulated machines in one thread. Messages from one machine arrive in order, interleaved at
//! random with those of others. Machines are lost at random.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use fencepost_cluster::{ConfigurationId, MachineId, Replicas};
use fencepost_fabric::Random;

use super::commits::Txn;
use super::fault::Fault;
use crate::record::TxnId;
use crate::recovery::{
    Action, Begin, Body, Decision, Evidence, Recovery, RecoveryEnvironment, RecoveryMessage,
    RegionPrimary, ReplicaEvidence, Vote,
};

/// Counts of events.
#[derive(Default)]
pub struct Counts {
    pub shown: u64,
    pub gave_up: u64,
    pub commits: u64,
    pub aborts: u64,
    pub again: u64,
    pub fetched: u64,
    pub replicated: u64,
    pub requested: u64,
    pub truncated: u64,
    pub unknown: u64,
    pub early: u64,
    pub decided_again: u64,
}

impl Counts {
    fn all(&mut self) -> [&mut u64; 12] {
        [
            &mut self.shown,
            &mut self.gave_up,
            &mut self.commits,
            &mut self.aborts,
            &mut self.again,
            &mut self.fetched,
            &mut self.replicated,
            &mut self.requested,
            &mut self.truncated,
            &mut self.unknown,
            &mut self.early,
            &mut self.decided_again,
        ]
    }

    pub fn add(&mut self, other: &Counts) {
        let mut other = Counts { ..*other };
        for (all, more) in self.all().into_iter().zip(other.all()) {
            *all += *more;
        }
    }
}

/// The records that a replica has of a transaction.
pub struct Record {
    pub seen: ReplicaEvidence,
    pub content: Option<Arc<[u64]>>,
}

/// Returns the writes of a transaction to a region.
pub fn content(id: TxnId, region: u32) -> Arc<[u64]> {
    Arc::new([id.local, u64::from(region)])
}

/// The state of a machine.
#[derive(Default)]
pub struct Node {
    pub records: BTreeMap<(TxnId, u32), Record>,
    pub truncated: BTreeSet<(TxnId, u32)>,
    pub locks: BTreeSet<(TxnId, u32)>,
    /// For each region, the transactions that have taken effect in this replica.
    pub data: BTreeMap<u32, BTreeSet<TxnId>>,
    /// The configuration in which it has begun.
    pub begun: u64,
    /// The regions of the machine in that configuration.
    pub regions: BTreeSet<u32>,
    /// The regions that are active.
    pub active: BTreeSet<u32>,
    pub all_active: bool,
}

pub struct World {
    pub random: Random,
    pub time: u64,
    pub configuration: ConfigurationId,
    pub nodes: BTreeMap<MachineId, Node>,
    pub recoveries: BTreeMap<MachineId, Recovery>,
    pub mappings: BTreeMap<u32, Replicas>,
    /// New replicas that do not have the data yet.
    pub new: BTreeSet<(MachineId, u32)>,
    /// New replicas that have received the primary's data.
    pub filled: BTreeSet<(MachineId, u32)>,
    queues: BTreeMap<(MachineId, MachineId), VecDeque<Vec<u64>>>,
    pub txns: Vec<Txn>,
    pub decided: BTreeMap<TxnId, Decision>,
    pub fault: Option<Fault>,
    pub counts: Counts,
    pub wrong: Option<String>,
    losses: u64,
}

struct NodeView<'a> {
    node: &'a Node,
    mappings: &'a BTreeMap<u32, Replicas>,
    fault: Option<Fault>,
}

impl RecoveryEnvironment for NodeView<'_> {
    fn region_primary(&self, region: u32) -> RegionPrimary {
        let replicas = self.mappings.get(&region);
        replicas.map_or(RegionPrimary::Lost, |replicas| {
            RegionPrimary::Primary(replicas.primary())
        })
    }

    fn was_truncated(&self, id: TxnId, region: u32) -> bool {
        match self.fault {
            Some(Fault::TruncatedForOtherRegions) => {
                let mut all = self.node.truncated.iter();
                all.any(|(truncated, _)| *truncated == id)
            }
            _ => self.node.truncated.contains(&(id, region)),
        }
    }

    fn content(&self, id: TxnId, region: u32) -> Arc<[u64]> {
        let record = self.node.records.get(&(id, region));
        let content = record.and_then(|record| record.content.clone());
        content.unwrap_or_default()
    }
}

impl World {
    pub fn new(seed: u64, fault: Option<Fault>) -> World {
        let mut random = Random::new(seed);
        let machines: Vec<MachineId> = (1..=3 + random.below(4) as u32).map(MachineId).collect();
        let mut mappings = BTreeMap::new();
        for region in 1..=1 + random.below(4) as u32 {
            let mut others = machines.clone();
            while others.len() > 3 || others.len() > 1 && random.one_in(5) {
                others.remove(random.below(others.len() as u64) as usize);
            }
            let first = random.below(others.len() as u64) as usize;
            let primary = others.remove(first);
            mappings.insert(region, Replicas::new(primary, others).unwrap());
        }
        World {
            time: 0,
            configuration: ConfigurationId::FIRST,
            nodes: machines.iter().map(|id| (*id, Node::default())).collect(),
            recoveries: machines
                .iter()
                .map(|id| (*id, Recovery::new(*id)))
                .collect(),
            mappings,
            new: BTreeSet::new(),
            filled: BTreeSet::new(),
            queues: BTreeMap::new(),
            txns: Vec::new(),
            decided: BTreeMap::new(),
            fault,
            counts: Counts::default(),
            wrong: None,
            losses: 1 + random.below(4),
            random,
        }
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.random.below(of.len() as u64) as usize]
    }

    pub fn wrong(&mut self, what: impl Into<String>) {
        self.wrong.get_or_insert(what.into());
    }

    /// Runs commits, losses and recoveries. Returns the counts of events, or a description of the
    /// first error.
    pub fn run(mut self) -> Result<Counts, String> {
        while self.losses > 0 && self.wrong.is_none() {
            self.commit_some();
            self.lose_some();
            self.recover();
            self.check_end();
        }
        match self.wrong {
            Some(wrong) => Err(wrong),
            None => Ok(self.counts),
        }
    }

    fn recover(&mut self) {
        for step in 0u32.. {
            if self.wrong.is_some() || self.is_over() {
                return;
            }
            if step > 20_000 {
                return self.wrong("it does not end");
            }
            match self.random.below(20) {
                0..16 => self.deliver_one(),
                16..18 => self.begin_one(),
                18 => self.tick_one(),
                _ => self.fill_one(),
            }
            if self.losses > 0 && self.random.one_in(60) {
                self.counts.again += 1;
                self.lose_some();
            }
        }
    }

    /// Returns whether the recovery is over. Messages in flight do not matter.
    fn is_over(&self) -> bool {
        let configuration = self.configuration.0;
        self.nodes.values().all(|node| node.begun == configuration)
            && self.recoveries.values().all(Recovery::is_over)
    }

    /// Begins the next configuration, without some of the machines and possibly with a new one.
    fn lose_some(&mut self) {
        self.losses -= 1;
        if self.fault == Some(Fault::WholeTooEarly) {
            self.new = self.new.difference(&self.filled).copied().collect();
        }
        self.configuration = self.configuration.next();
        let mut left: Vec<MachineId> = self.nodes.keys().copied().collect();
        for _ in 0..self.random.below(3) {
            let at = self.random.below(left.len() as u64) as usize;
            let lost = left.remove(at);
            let whole = |region: &u32, replicas: &Replicas| {
                let new = |machine: &MachineId| self.new.contains(&(*machine, *region));
                replicas.all().any(|m| left.contains(&m) && !new(&m))
            };
            if !self
                .mappings
                .iter()
                .all(|(region, replicas)| whole(region, replicas))
            {
                left.insert(at, lost);
                continue;
            }
            self.nodes.remove(&lost);
            self.recoveries.remove(&lost);
            self.queues.retain(|(_, to), _| *to != lost);
        }
        if self.random.one_in(3) {
            let id = MachineId(10 + self.configuration.0 as u32);
            left.push(id);
            self.nodes.insert(id, Node::default());
            self.recoveries.insert(id, Recovery::new(id));
        }
        for (region, replicas) in self.mappings.clone() {
            let remapped = self.remap(region, &replicas, &left);
            self.mappings.insert(region, remapped);
        }
        self.filled.clear();
    }

    fn remap(&mut self, region: u32, replicas: &Replicas, left: &[MachineId]) -> Replicas {
        let mut all: Vec<MachineId> = replicas.all().filter(|m| left.contains(m)).collect();
        let whole = |machine: &MachineId| !self.new.contains(&(*machine, region));
        let promoted: Vec<MachineId> = all.iter().copied().filter(whole).collect();
        let primary = match all.contains(&replicas.primary()) {
            true => replicas.primary(),
            false => self.pick(&promoted),
        };
        let others: Vec<MachineId> = left.iter().copied().filter(|m| !all.contains(m)).collect();
        if all.len() < 3 && !others.is_empty() && !self.random.one_in(4) {
            let new = self.pick(&others);
            all.push(new);
            self.new.insert((new, region));
        }
        all.retain(|machine| *machine != primary);
        Replicas::new(primary, all).unwrap()
    }

    /// Begins the recovery on a machine that has drained its logs.
    fn begin_one(&mut self) {
        let configuration = self.configuration;
        let waiting = self
            .nodes
            .iter()
            .filter(|(_, node)| node.begun < configuration.0);
        let waiting: Vec<MachineId> = waiting.map(|(id, _)| *id).collect();
        if waiting.is_empty() {
            return;
        }
        let id = self.pick(&waiting);
        let mappings = self
            .mappings
            .iter()
            .filter(|(_, replicas)| replicas.has(id));
        let regions = mappings.map(|(region, replicas)| (*region, replicas.clone()));
        let regions: Vec<(u32, Replicas)> = regions.collect();
        let node = self.nodes.get_mut(&id).unwrap();
        node.begun = configuration.0;
        node.active.clear();
        node.all_active = false;
        node.regions = regions.iter().map(|(region, _)| *region).collect();
        if self.fault == Some(Fault::ForgetAbortRecovery) {
            for record in node.records.values_mut() {
                record.seen.evidence = record.seen.evidence.without(Evidence::ABORT_RECOVERY);
            }
            node.records
                .retain(|_, record| record.seen.evidence.has_records());
        }
        let awaited = self
            .txns
            .iter()
            .filter(|txn| txn.id.machine == id.0 && txn.reported.is_none() && !txn.over);
        let begin = Begin {
            configuration,
            members: self.nodes.keys().copied().collect(),
            regions,
            found: self.nodes[&id]
                .records
                .values()
                .map(|record| record.seen.clone())
                .collect(),
            awaited: awaited
                .map(|txn| (txn.id, Arc::clone(&txn.written)))
                .collect(),
        };
        self.with(id, |recovery, now, around| {
            recovery.begin(now, begin, around)
        });
    }

    pub fn with(
        &mut self,
        id: MachineId,
        f: impl FnOnce(&mut Recovery, u64, &dyn RecoveryEnvironment) -> Vec<Action>,
    ) {
        let around = NodeView {
            node: &self.nodes[&id],
            mappings: &self.mappings,
            fault: self.fault,
        };
        let recovery = self.recoveries.get_mut(&id).unwrap();
        let actions = f(recovery, self.time, &around);
        self.act(id, actions);
    }

    fn tick_one(&mut self) {
        self.time += self.random.below(200_000);
        let machines: Vec<MachineId> = self.nodes.keys().copied().collect();
        let id = self.pick(&machines);
        if self.recoveries[&id].next_wake() <= self.time {
            self.with(id, |recovery, now, around| recovery.tick(now, around));
        }
    }

    pub fn send(&mut self, from: MachineId, to: MachineId, message: &RecoveryMessage) {
        if self.nodes.contains_key(&to) {
            let queue = self.queues.entry((from, to)).or_default();
            queue.push_back(message.words());
        }
    }

    fn deliver_one(&mut self) {
        let waiting = self.queues.iter().filter(|(_, queue)| !queue.is_empty());
        let waiting: Vec<(MachineId, MachineId)> = waiting.map(|(pair, _)| *pair).collect();
        if waiting.is_empty() {
            return;
        }
        let (from, to) = self.pick(&waiting);
        let words = self
            .queues
            .get_mut(&(from, to))
            .unwrap()
            .pop_front()
            .unwrap();
        let mut message = RecoveryMessage::decode(&words).expect("a message");
        self.counts.early += u64::from(message.configuration.0 > self.nodes[&to].begun);
        match &message.body {
            Body::SendTxState { .. } => self.counts.fetched += 1,
            Body::ReplicateTxState { .. } => self.counts.replicated += 1,
            Body::RequestVote { .. } => self.counts.requested += 1,
            Body::RecoveryVote(vote) if vote.vote == Vote::Truncated => self.counts.truncated += 1,
            Body::RecoveryVote(vote) if vote.vote == Vote::Unknown => self.counts.unknown += 1,
            _ => {}
        }
        self.spoil(from, to, &mut message);
        self.with(to, |recovery, now, around| {
            recovery.receive(now, from, message, around)
        });
    }
}
