//! The regions of the cluster: which machines have which, and how this one gets more.
//!
//! # Picture
//! ```text
//! out of blocks ─► grow.rs ── ALLOCATE ──►┐                  ┌── PREPARE, COMMIT, ABORT ──► host.rs
//!                                         CM: allocator ─────┤                              memory of regions
//! unknown region ─► find.rs ── FETCH ────►┘                  └── ALLOCATED, MAPPINGS ─────► cache
//!                                                     new configuration ── hands.rs ────► whereabouts.rs
//! ```
//! What machines say to each other, and what follows from it, is in [`fencepost_cluster::allocation`]. Here it
//! goes over the message queues of [`super::link`], in order; what a machine says to itself it takes at once.
//!
//! # Invariants
//! * ALLOT-1: a region is asked for by whoever is to be its primary, and is near the last one that it has, as
//!   long as its machines can take it: so what is on one machine has its backups on the same machines.
//! * ALLOT-2: region 0 is the first of all. The CM of the first configuration is its primary, and makes the
//!   root object there before anybody learns of it.
//! * ALLOT-3: where a region of this machine is it knows before any block of it is in use.
//!
//! # Failure
//! A replica that has no memory refuses; where no choice of machines is left nobody keeps anything, and who
//! needed the region is out of memory. Without the CM nothing is found or allocated. A peer that is lost takes
//! no regions any more; one that was killed on the same host is not noticed, and who asked for its answer waits.

mod find;
mod grow;
mod hands;
mod host;
mod reconfigure;
mod whereabouts;
mod written;

use std::collections::{HashMap, VecDeque};

use fencepost_cluster::allocation::{
    Allocator, CacheEvent, REGIONS_A_CONFIGURATION, RegionBody, RegionCache, RegionMessage,
    ReplicaRegions,
};
use fencepost_cluster::few::FewSet;
use fencepost_cluster::reconfiguration::{Report, Resumed};
use fencepost_cluster::{Mapping, RegionMap, Replicas, Replication, Wire};
use fencepost_fabric::{Completer, FabricError, MachineId};
use fencepost_storage::RegionId;
use foldhash::fast::FixedState;
use parking_lot::Mutex;

use super::message::Reader;
use super::{Network, NetworkOptions};
use crate::bytes;
use crate::machine::Machine;
use crate::record::BadRecord;
use grow::Growing;
pub(super) use grow::ROUNDS;
use host::Host;
pub(crate) use whereabouts::{Known, Whereabouts};
use written::Writing;

/// Tag of the messages.
pub(super) const REGIONS: u8 = 24;

/// What a machine knows of regions, and what it waits for.
pub(super) struct Allotment(Mutex<State>);

struct State {
    me: MachineId,
    cm: MachineId,
    cache: RegionCache,
    replica: ReplicaRegions,
    /// Where this machine is the CM.
    allocator: Option<Allocator>,
    /// Whether the CM has asked for region 0.
    founded: bool,
    /// Messages to peers that may not be there yet.
    outbox: Vec<(MachineId, RegionMessage)>,
    /// Who waits to hear where regions are.
    lookups: HashMap<RegionId, Vec<Completer<bool>>, FixedState>,
    /// Who waits for a part of the list of all regions, by the first region of the part.
    lists: HashMap<RegionId, Vec<Completer<Part>>, FixedState>,
    growing: Option<Growing>,
    /// Whether machines that fail are replaced.
    replaces: bool,
    lost: FewSet<MachineId>,
    /// Below this are the numbers of all regions.
    next_region: RegionId,
    /// See [`Allotment::to_recover`].
    to_recover: Vec<(u32, Replicas)>,
    /// Regions that have another primary, which has not recovered them yet.
    inactive: FewSet<RegionId>,
    /// Regions that no machine has any more.
    gone: FewSet<RegionId>,
    /// What became of the regions of machines that were lost last.
    report: Option<Report>,
    writing: Writing,
}

/// Some regions, and whether there are further ones.
type Part = (Vec<Mapping>, bool);

/// What is to be told once the state is unlocked.
#[derive(Default)]
struct Told {
    answers: Vec<(Completer<bool>, bool)>,
    parts: Vec<(Completer<Part>, Part)>,
    /// Who is told that there is no answer.
    unanswered: Vec<Completer<bool>>,
}

impl Told {
    fn tell(self) {
        for (waiting, answer) in self.answers {
            waiting.complete(Ok(answer));
        }
        for (waiting, part) in self.parts {
            waiting.complete(Ok(part));
        }
        drop(self.unanswered);
    }
}

impl Allotment {
    /// What a machine knows that begins, or begins again with the regions of an earlier life.
    pub fn new(
        options: &NetworkOptions,
        resumed: Option<&Resumed>,
    ) -> Result<Allotment, FabricError> {
        let (me, configuration) = (options.fabric.me(), &options.configuration);
        let cm = configuration.cm();
        // What it joins it has yet to apply.
        let (id, mut cache) = match options.joins {
            false => (configuration.id(), RegionCache::new(me, configuration)),
            true => {
                let cache = RegionCache::joining(me, configuration);
                (configuration.id().before(), cache)
            }
        };
        let version = RegionMap::new(id).version();
        let regions = || resumed.into_iter().flat_map(|resumed| &resumed.regions);
        let mappings = || regions().map(|region| region.mapping.clone());
        let next = resumed.map_or(RegionId(0), |resumed| resumed.next_region);
        let allocator = || {
            let mut map = RegionMap::new(id);
            map.learn(version, mappings());
            let wanted = options.replication.wanted();
            let replication = match configuration.machines().len() < wanted {
                // Machines begin again without those that failed before.
                true => Replication::new(wanted - 1, 1),
                false => options.replication,
            };
            Allocator::new(configuration, replication, map, [], next)
        };
        cache.know(version, mappings());
        let mut replica = ReplicaRegions::new(me, cm, id);
        let held = regions().filter(|region| region.mapping.replicas.has(me));
        replica.resume(held.cloned());
        let mut state = State {
            me,
            cm,
            cache,
            replica,
            allocator: (me == cm).then(allocator),
            // Who joins finds region 0 there.
            founded: options.joins || regions().next().is_some(),
            outbox: Vec::new(),
            lookups: HashMap::default(),
            lists: HashMap::default(),
            growing: None,
            replaces: options.leases.is_some() && options.store.is_some(),
            lost: FewSet::new(),
            next_region: RegionId(next.0.saturating_add(REGIONS_A_CONFIGURATION)),
            to_recover: Vec::new(),
            inactive: FewSet::new(),
            gone: FewSet::new(),
            report: None,
            writing: Writing::of(&*options.fabric, id)?,
        };
        state.write_down();
        Ok(Allotment(Mutex::new(state)))
    }

    /// Whether nobody waits for anything.
    pub fn is_at_rest(&self) -> bool {
        let state = self.0.lock();
        let idle = state.allocator.as_ref().is_none_or(Allocator::is_idle);
        let asked = state.lookups.is_empty() && state.lists.is_empty() && state.growing.is_none();
        idle && asked && state.outbox.is_empty()
    }

    /// Whoever waits for anything is told that it will not come.
    pub fn give_up(&self) {
        let mut state = self.0.lock();
        let cm = state.cm;
        state.lost.insert(cm);
        let dropped = state.forget_questions();
        drop(state);
        drop(dropped);
    }
}

/// Ends that are dropped once the state is unlocked.
type Dropped = (Vec<Completer<bool>>, Vec<Completer<Part>>);

impl State {
    fn forget_questions(&mut self) -> Dropped {
        let lookups = self.lookups.drain().flat_map(|(_, waiting)| waiting);
        let growing = self.growing.take().into_iter();
        let growing = growing.flat_map(|growing| growing.waiting);
        let answers = lookups.chain(growing).collect();
        let lists = self.lists.drain().flat_map(|(_, waiting)| waiting);
        (answers, lists.collect())
    }

    /// Sends a message, or takes it if it is to this machine, and all that follows from it.
    fn send(
        &mut self,
        host: &mut Host<'_>,
        to: MachineId,
        message: RegionMessage,
        told: &mut Told,
    ) {
        match to == self.me {
            true => self.take(host, self.me, message, told),
            false => self.outbox.push((to, message)),
        }
    }

    /// Takes a message, and what this machine says to itself about it.
    fn take(
        &mut self,
        host: &mut Host<'_>,
        from: MachineId,
        message: RegionMessage,
        told: &mut Told,
    ) {
        let mut inbox = VecDeque::from([(from, message)]);
        while let Some((from, message)) = inbox.pop_front() {
            for (to, message) in self.answers(host, from, message, told) {
                match to == self.me {
                    true => inbox.push_back((to, message)),
                    false => self.outbox.push((to, message)),
                }
            }
        }
    }

    fn answers(
        &mut self,
        host: &mut Host<'_>,
        from: MachineId,
        message: RegionMessage,
        told: &mut Told,
    ) -> Vec<(MachineId, RegionMessage)> {
        match &message.body {
            // ALLOT-2.
            RegionBody::Allocate { .. } if !self.founded => Vec::new(),
            RegionBody::Allocate { .. }
            | RegionBody::Prepared { .. }
            | RegionBody::Refused { .. }
            | RegionBody::Fetch { .. }
            | RegionBody::List { .. } => match &mut self.allocator {
                Some(allocator) => allocator.receive(from, message),
                None => Vec::new(),
            },
            RegionBody::Prepare { .. } | RegionBody::Commit { .. } | RegionBody::Abort { .. } => {
                let answer = self.replica.receive(from, message, host);
                answer.map(|answer| (self.cm, answer)).into_iter().collect()
            }
            RegionBody::Allocated { .. }
            | RegionBody::NotAllocated { .. }
            | RegionBody::Mappings { .. }
            | RegionBody::Listed { .. } => {
                let events = self.cache.receive(from, message);
                let again = events
                    .into_iter()
                    .filter_map(|event| self.see(host, event, told));
                again.collect()
            }
        }
    }

    /// Tells whoever has waited for an answer of the CM; the request that is to be made instead.
    fn see(
        &mut self,
        host: &Host<'_>,
        event: CacheEvent,
        told: &mut Told,
    ) -> Option<(MachineId, RegionMessage)> {
        match event {
            // Who waits for it waits on.
            CacheEvent::Found(region) if self.inactive.contains(&region) => {}
            CacheEvent::Found(region) => {
                self.tell_all(host.whereabouts, region);
                self.found(region, true, told);
            }
            CacheEvent::Missing(region) => self.found(region, false, told),
            CacheEvent::Allocated(request, region) => {
                self.tell_all(host.whereabouts, region);
                self.grown(request, told);
            }
            CacheEvent::NotAllocated(request, why) => return self.not_grown(request, why, told),
            CacheEvent::Listed(from, found, more) => {
                let waiting = self.lists.remove(&from).unwrap_or_default();
                let parts = waiting
                    .into_iter()
                    .map(|waiting| (waiting, (found.clone(), more)));
                told.parts.extend(parts);
            }
        }
        None
    }

    fn found(&mut self, region: RegionId, there: bool, told: &mut Told) {
        let waiting = self.lookups.remove(&region).unwrap_or_default();
        let answers = waiting.into_iter().map(|waiting| (waiting, there));
        told.answers.extend(answers);
    }

    /// What the cache knows every access is to know.
    fn tell_all(&self, whereabouts: &Whereabouts, region: RegionId) {
        if let Some(mapping) = self.cache.map().get(region) {
            whereabouts.find(region, &mapping.replicas);
        }
    }
}

impl Network {
    /// Does something with the state that may have messages to peers for a result, and somebody to tell.
    fn with_allotment<T>(&self, f: impl FnOnce(&mut State, &mut Told) -> T) -> T {
        let mut told = Told::default();
        let mut state = self.allotment.0.lock();
        let value = f(&mut state, &mut told);
        state.write_down();
        self.send_out(&mut state);
        drop(state);
        told.tell();
        value
    }

    fn host<'a>(&'a self, machine: &'a Machine) -> Host<'a> {
        Host {
            machine,
            whereabouts: &self.whereabouts,
            me: self.me,
            writes: true,
            parted: Vec::new(),
        }
    }

    /// A message about regions.
    pub(super) fn take_regions(
        &self,
        machine: &Machine,
        from: MachineId,
        words: &[u64],
    ) -> Result<(), BadRecord> {
        let message = decode(words)?;
        self.with_allotment(|state, told| {
            state.take(&mut self.host(machine), from, message, told);
        });
        Ok(())
    }

    /// Sends what waits for peers that are there by now, and gives up those that are not any more.
    pub(super) fn look_after_regions(&self, machine: &Machine) {
        let broken = self.peers.iter().filter(|peer| peer.line.is_broken());
        let broken: Vec<MachineId> = broken.map(|peer| peer.id).collect();
        let dropped = self.with_allotment(|state, told| {
            let mut dropped = None;
            for peer in broken {
                if !state.lost.insert(peer) {
                    continue;
                }
                state.outbox.retain(|(to, _)| *to != peer);
                if peer == state.cm {
                    dropped = Some(state.forget_questions());
                }
                let allocator = state.allocator.as_mut();
                let outgoing = allocator.map(|allocator| allocator.unreachable(peer));
                for (to, message) in outgoing.unwrap_or_default() {
                    state.send(&mut self.host(machine), to, message, told);
                }
            }
            dropped
        });
        drop(dropped);
    }

    /// Sends what waits for peers that are there.
    fn send_out(&self, state: &mut State) {
        if state.outbox.is_empty() {
            return;
        }
        state.outbox.retain(|(to, message)| match self.link(*to) {
            Some(link) if link.probe() => {
                link.send_surely(REGIONS, &encode(message));
                false
            }
            Some(_) => true,
            None => false,
        });
    }
}

/// Bytes of a message in words, behind how many they are.
fn encode(message: &RegionMessage) -> Vec<u64> {
    let encoded = message.encode();
    let mut words = vec![encoded.len() as u64];
    bytes::put(&mut words, &encoded);
    words
}

fn decode(words: &[u64]) -> Result<RegionMessage, BadRecord> {
    let mut reader = Reader(words);
    let length = reader.word()?;
    let encoded = usize::try_from(length).ok();
    let encoded = encoded.and_then(|length| bytes::first(reader.0, length));
    let message = encoded.and_then(|encoded| RegionMessage::decode(encoded).ok());
    message.ok_or(BadRecord("a message about regions that nobody writes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_cluster::ConfigurationId;
    use proptest::prelude::*;

    #[test]
    fn messages_come_back_as_they_were_made() {
        for regions in 0..20 {
            let message = RegionMessage {
                configuration: ConfigurationId(3),
                body: RegionBody::Fetch {
                    regions: (0..regions).map(RegionId).collect(),
                },
            };
            assert_eq!(decode(&encode(&message)), Ok(message));
        }
    }

    proptest! {
        #[test]
        fn garbage_is_refused_and_never_panics(words in proptest::collection::vec(any::<u64>(), 0..40), length in 0u64..400) {
            let _ = decode(&words);
            let _ = decode(&[&[length], &words[..]].concat());
        }
    }
}
