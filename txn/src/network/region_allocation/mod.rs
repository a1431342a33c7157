//! The region allocation client: the replicas of each region, and requests for new regions.
//!
//! # Picture
//! ```text
//! out of blocks ─► grow.rs ── ALLOCATE ──►┐                 ┌── PREPARE, COMMIT, ABORT ──► host.rs
//!                                         CM: allocator ────┤                  memory of regions
//! unknown region ─► find.rs ── FETCH ────►┘                 └── ALLOCATED, MAPPINGS ─────► cache
//!                                          new configuration ── handover.rs ─► local_region_map.rs
//! ```
//! [`fencepost_cluster::allocation`] describes the messages and their handling. Here they go over
//! the message queues of [`super::peer_sender`], in order; a message to the machine itself is
//! handled at once.
//!
//! # Invariants
//! * ALLOCATION-1: the future primary of a region requests it, near the newest region that it has,
//!   as long as the same machines can take it. So the regions of one machine have their backups on
//!   the same machines.
//! * ALLOCATION-2: region 0 is the first of all. The CM of the first configuration is its primary,
//!   and makes the root object there before any other machine learns of the region.
//! * ALLOCATION-3: a machine knows the replicas of its own region before any block of it is in use.
//!
//! # Failure
//! A replica without memory refuses. If no choice of machines is left, no replica keeps the region,
//! and its requester is out of memory. Without the CM no region is found or allocated. A lost peer
//! takes no regions any more. A peer that was killed on the same host is not noticed, and requests
//! to it stay open.

mod find;
mod grow;
mod handover;
mod host;
mod local_region_map;
mod reconfigure;
mod written;

use std::collections::{HashMap, VecDeque};

use fencepost_cluster::allocation::{
    Allocator, CacheEvent, REGIONS_A_CONFIGURATION, RegionBody, RegionCache, RegionMessage,
    ReplicaRegions,
};
use fencepost_cluster::few::FewSet;
use fencepost_cluster::reconfiguration::{Report, RestartState};
use fencepost_cluster::{Mapping, RegionMap, Replicas, Replication, Wire};
use fencepost_fabric::{Completer, FabricError, MachineId};
use fencepost_storage::RegionId;
use foldhash::fast::FixedState;
use parking_lot::Mutex;

use super::message::WordReader;
use super::{Network, NetworkOptions};
use crate::bytes;
use crate::machine::Machine;
use crate::record::BadRecord;
pub(super) use grow::ROUNDS;
use grow::RegionRequest;
use host::Host;
pub(crate) use local_region_map::{LocalRegionMap, ReplicaSet};
use written::MapRecord;

/// Tag of the messages.
pub(super) const REGIONS: u8 = 24;

/// The state of a machine about regions, and its pending requests.
pub(super) struct RegionAllocationClient(Mutex<State>);

struct State {
    me: MachineId,
    cm: MachineId,
    cache: RegionCache,
    replica: ReplicaRegions,
    /// The allocator, if this machine is the CM.
    allocator: Option<Allocator>,
    /// Whether the CM has requested region 0.
    root_requested: bool,
    /// Messages to peers that may not be ready yet.
    outbox: Vec<(MachineId, RegionMessage)>,
    /// Pending lookups of regions.
    lookups: HashMap<RegionId, Vec<Completer<bool>>, FixedState>,
    /// Pending requests for a part of the list of all regions, by the first region of the part.
    lists: HashMap<RegionId, Vec<Completer<MappingsPart>>, FixedState>,
    growing: Option<RegionRequest>,
    /// Whether failed machines are replaced.
    replaces: bool,
    lost: FewSet<MachineId>,
    /// All region numbers are below this one.
    next_region: RegionId,
    /// See [`RegionAllocationClient::to_recover`].
    to_recover: Vec<(u32, Replicas)>,
    /// Regions with a new primary that has not recovered them yet.
    inactive: FewSet<RegionId>,
    /// Regions without a replica on any machine.
    lost_regions: FewSet<RegionId>,
    /// The report on the regions of the machines that were lost last.
    report: Option<Report>,
    writing: MapRecord,
}

/// Some regions, and whether further ones follow.
type MappingsPart = (Vec<Mapping>, bool);

/// Answers to deliver once the state is unlocked.
#[derive(Default)]
struct Deliveries {
    answers: Vec<(Completer<bool>, bool)>,
    parts: Vec<(Completer<MappingsPart>, MappingsPart)>,
    /// Requests that end without an answer.
    unanswered: Vec<Completer<bool>>,
}

impl Deliveries {
    fn deliver(self) {
        for (waiting, answer) in self.answers {
            waiting.complete(Ok(answer));
        }
        for (waiting, part) in self.parts {
            waiting.complete(Ok(part));
        }
        drop(self.unanswered);
    }
}

impl RegionAllocationClient {
    /// Creates the state of a machine that starts, or that restarts with the regions of its
    /// previous incarnation.
    pub fn new(
        options: &NetworkOptions,
        resumed: Option<&RestartState>,
    ) -> Result<RegionAllocationClient, FabricError> {
        let (me, configuration) = (options.fabric.me(), &options.configuration);
        let cm = configuration.cm();
        // A joining machine has not applied its configuration yet.
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
                // After a restart the machines that failed before may be missing.
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
            // For a joining machine region 0 exists already.
            root_requested: options.joins || regions().next().is_some(),
            outbox: Vec::new(),
            lookups: HashMap::default(),
            lists: HashMap::default(),
            growing: None,
            replaces: options.leases.is_some() && options.store.is_some(),
            lost: FewSet::new(),
            next_region: RegionId(next.0.saturating_add(REGIONS_A_CONFIGURATION)),
            to_recover: Vec::new(),
            inactive: FewSet::new(),
            lost_regions: FewSet::new(),
            report: None,
            writing: MapRecord::of(&*options.fabric, id)?,
        };
        state.write_down();
        Ok(RegionAllocationClient(Mutex::new(state)))
    }

    /// Returns whether no request is pending.
    pub fn is_at_rest(&self) -> bool {
        let state = self.0.lock();
        let idle = state.allocator.as_ref().is_none_or(Allocator::is_idle);
        let asked = state.lookups.is_empty() && state.lists.is_empty() && state.growing.is_none();
        idle && asked && state.outbox.is_empty()
    }

    /// Ends all pending requests without an answer.
    pub fn give_up(&self) {
        let mut state = self.0.lock();
        let cm = state.cm;
        state.lost.insert(cm);
        let dropped = state.forget_questions();
        drop(state);
        drop(dropped);
    }
}

/// Completers that are dropped once the state is unlocked.
type DroppedCompleters = (Vec<Completer<bool>>, Vec<Completer<MappingsPart>>);

impl State {
    fn forget_questions(&mut self) -> DroppedCompleters {
        let lookups = self.lookups.drain().flat_map(|(_, waiting)| waiting);
        let growing = self.growing.take().into_iter();
        let growing = growing.flat_map(|growing| growing.waiting);
        let answers = lookups.chain(growing).collect();
        let lists = self.lists.drain().flat_map(|(_, waiting)| waiting);
        (answers, lists.collect())
    }

    /// Sends a message, or handles it if it is to this machine, with all that follow.
    fn send(
        &mut self,
        host: &mut Host<'_>,
        to: MachineId,
        message: RegionMessage,
        deliveries: &mut Deliveries,
    ) {
        match to == self.me {
            true => self.take(host, self.me, message, deliveries),
            false => self.outbox.push((to, message)),
        }
    }

    /// Handles a message, and the messages to this machine itself that follow.
    fn take(
        &mut self,
        host: &mut Host<'_>,
        from: MachineId,
        message: RegionMessage,
        deliveries: &mut Deliveries,
    ) {
        let mut inbox = VecDeque::from([(from, message)]);
        while let Some((from, message)) = inbox.pop_front() {
            for (to, message) in self.answers(host, from, message, deliveries) {
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
        deliveries: &mut Deliveries,
    ) -> Vec<(MachineId, RegionMessage)> {
        match &message.body {
            // ALLOCATION-2.
            RegionBody::Allocate { .. } if !self.root_requested => Vec::new(),
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
                    .filter_map(|event| self.see(host, event, deliveries));
                again.collect()
            }
        }
    }

    /// Passes an answer of the CM to its waiters. Returns the request to send instead, if any.
    fn see(
        &mut self,
        host: &Host<'_>,
        event: CacheEvent,
        deliveries: &mut Deliveries,
    ) -> Option<(MachineId, RegionMessage)> {
        match event {
            // A waiter for an inactive region continues to wait.
            CacheEvent::Found(region) if self.inactive.contains(&region) => {}
            CacheEvent::Found(region) => {
                self.tell_all(host.region_map, region);
                self.found(region, true, deliveries);
            }
            CacheEvent::Missing(region) => self.found(region, false, deliveries),
            CacheEvent::Allocated(request, region) => {
                self.tell_all(host.region_map, region);
                self.grown(request, deliveries);
            }
            CacheEvent::NotAllocated(request, why) => {
                return self.not_grown(request, why, deliveries);
            }
            CacheEvent::Listed(from, found, more) => {
                let waiting = self.lists.remove(&from).unwrap_or_default();
                let parts = waiting
                    .into_iter()
                    .map(|waiting| (waiting, (found.clone(), more)));
                deliveries.parts.extend(parts);
            }
        }
        None
    }

    fn found(&mut self, region: RegionId, there: bool, deliveries: &mut Deliveries) {
        let waiting = self.lookups.remove(&region).unwrap_or_default();
        let answers = waiting.into_iter().map(|waiting| (waiting, there));
        deliveries.answers.extend(answers);
    }

    /// Copies a mapping from the cache to the region map, which every access uses.
    fn tell_all(&self, region_map: &LocalRegionMap, region: RegionId) {
        if let Some(mapping) = self.cache.map().get(region) {
            region_map.find(region, &mapping.replicas);
        }
    }
}

impl Network {
    /// Calls `f` with the state, then sends its messages to peers and delivers its answers.
    fn with_state<T>(&self, f: impl FnOnce(&mut State, &mut Deliveries) -> T) -> T {
        let mut deliveries = Deliveries::default();
        let mut state = self.region_allocation.0.lock();
        let value = f(&mut state, &mut deliveries);
        state.write_down();
        self.send_out(&mut state);
        drop(state);
        deliveries.deliver();
        value
    }

    fn host<'a>(&'a self, machine: &'a Machine) -> Host<'a> {
        Host {
            machine,
            region_map: &self.region_map,
            me: self.me,
            writes: true,
            parted: Vec::new(),
        }
    }

    /// Handles a message about regions.
    pub(super) fn take_regions(
        &self,
        machine: &Machine,
        from: MachineId,
        words: &[u64],
    ) -> Result<(), BadRecord> {
        let message = decode(words)?;
        self.with_state(|state, deliveries| {
            state.take(&mut self.host(machine), from, message, deliveries);
        });
        Ok(())
    }

    /// Sends queued messages to peers that are ready, and drops those to peers that are lost.
    pub(super) fn look_after_regions(&self, machine: &Machine) {
        let broken = self.peers.iter().filter(|peer| peer.channel.is_broken());
        let broken: Vec<MachineId> = broken.map(|peer| peer.id).collect();
        let dropped = self.with_state(|state, deliveries| {
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
                    state.send(&mut self.host(machine), to, message, deliveries);
                }
            }
            dropped
        });
        drop(dropped);
    }

    /// Sends queued messages to peers that are ready.
    fn send_out(&self, state: &mut State) {
        if state.outbox.is_empty() {
            return;
        }
        state.outbox.retain(|(to, message)| match self.sender(*to) {
            Some(sender) if sender.probe() => {
                sender.send_surely(REGIONS, &encode(message));
                false
            }
            Some(_) => true,
            None => false,
        });
    }
}

/// Encodes a message in words; the first word is the number of bytes.
fn encode(message: &RegionMessage) -> Vec<u64> {
    let encoded = message.encode();
    let mut words = vec![encoded.len() as u64];
    bytes::put(&mut words, &encoded);
    words
}

fn decode(words: &[u64]) -> Result<RegionMessage, BadRecord> {
    let mut reader = WordReader(words);
    let length = reader.word()?;
    let encoded = usize::try_from(length).ok();
    let encoded = encoded.and_then(|length| bytes::first(reader.0, length));
    let message = encoded.and_then(|encoded| RegionMessage::decode(encoded).ok());
    message.ok_or(BadRecord("no writer produces such a message about regions"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_cluster::ConfigurationId;
    use proptest::prelude::*;

    #[test]
    fn region_message_round_trips() {
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
        fn garbage_is_refused_and_never_panics(
            words in proptest::collection::vec(any::<u64>(), 0..40),
            length in 0u64..400,
        ) {
            let _ = decode(&words);
            let _ = decode(&[&[length], &words[..]].concat());
        }
    }
}
