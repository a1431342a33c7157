//! The cache of every machine: the mappings it knows, and its questions to the CM for the others.
//!
//! *Invariants.* At most one question about a region is in progress. A question or a request
//! without an answer is repeated to the CM of the next configuration.

use fencepost_fabric::MachineId;

use super::allocator::Outgoing;
use super::message::{MAX_FETCHED, RegionBody, RegionMessage};
use super::{AllocationError, RequestId};
use crate::configuration::Configuration;
use crate::few::{FewMap, FewSet};
use crate::ids::ConfigurationId;
use crate::region::{Mapping, RegionId};
use crate::region_map::{MapVersion, RegionMap};

/// The result of a lookup.
#[derive(Debug, PartialEq, Eq)]
pub enum Lookup<'a> {
    /// The mapping is known.
    Known(&'a Mapping),
    /// Send this message to the machine, and look again after the answer.
    Ask(MachineId, RegionMessage),
    /// A question about the region is already in progress.
    Asked,
}

/// An event for waiting callers that follows from an answer of the CM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheEvent {
    /// The region's mapping is now known.
    Found(RegionId),
    /// The region does not exist.
    Missing(RegionId),
    /// The request is answered with this region, whose mapping is now known.
    Allocated(RequestId, RegionId),
    /// The request is answered with an error.
    NotAllocated(RequestId, AllocationError),
    /// The mappings from the given region on, and whether more follow.
    Listed(RegionId, Vec<Mapping>, bool),
}

/// The requested placement of a new region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestedPlacement {
    /// The region on whose machines, in the same roles, the new one is placed.
    pub near: Option<RegionId>,
    /// The requested primary; ignored if `near` is given.
    pub primary: Option<MachineId>,
}

/// The mappings that a machine knows.
#[derive(Debug)]
pub struct RegionCache {
    machine: MachineId,
    cm: MachineId,
    configuration: ConfigurationId,
    map: RegionMap,
    asked: FewSet<RegionId>,
    /// The requests without an answer.
    requests: FewMap<u64, RequestedPlacement>,
    next_request: u64,
    /// Whether the known mappings have been reported to a new CM, so that none is added before its
    /// decision.
    frozen: bool,
}

impl RegionCache {
    /// Returns an empty cache.
    pub fn new(machine: MachineId, configuration: &Configuration) -> Self {
        Self {
            machine,
            cm: configuration.cm(),
            configuration: configuration.id(),
            map: RegionMap::new(configuration.id()),
            asked: FewSet::new(),
            requests: FewMap::new(),
            next_request: 0,
            frozen: false,
        }
    }

    /// Returns the cache of a machine that has yet to apply the configuration in which it has
    /// joined.
    pub fn joining(machine: MachineId, configuration: &Configuration) -> Self {
        Self {
            configuration: configuration.id().before(),
            ..Self::new(machine, configuration)
        }
    }

    /// Learns the mappings that came with the configuration, before any other message.
    pub fn know(&mut self, version: MapVersion, mappings: impl IntoIterator<Item = Mapping>) {
        self.map.learn(version, mappings);
    }

    /// Ignores further answers in this configuration; the missing ones come from the next CM.
    pub fn freeze(&mut self) {
        self.frozen = true;
    }

    /// Returns the known mappings.
    pub fn map(&self) -> &RegionMap {
        &self.map
    }

    /// Looks up the mapping of a region.
    pub fn lookup(&mut self, region: RegionId) -> Lookup<'_> {
        if self.map.get(region).is_none() && self.asked.insert(region) {
            let regions = vec![region];
            let (cm, message) = self.to_cm(RegionBody::Fetch { regions });
            return Lookup::Ask(cm, message);
        }
        self.map.get(region).map_or(Lookup::Asked, Lookup::Known)
    }

    /// Returns a question for all regions from `from` on. The caller must repeat it under another
    /// CM.
    pub fn list(&self, from: RegionId) -> (MachineId, RegionMessage) {
        self.to_cm(RegionBody::List { from })
    }

    /// Makes a request for a new region.
    pub fn allocate(&mut self, wish: RequestedPlacement) -> (RequestId, MachineId, RegionMessage) {
        let number = self.next_request;
        self.next_request += 1;
        self.requests.insert(number, wish);
        let (cm, message) = self.request(number, wish);
        let request = RequestId {
            machine: self.machine,
            number,
        };
        (request, cm, message)
    }

    fn request(&self, number: u64, wish: RequestedPlacement) -> (MachineId, RegionMessage) {
        let waiting = self.requests.keys().next();
        self.to_cm(RegionBody::Allocate {
            request: RequestId {
                machine: self.machine,
                number,
            },
            answered: waiting.copied().unwrap_or(self.next_request),
            near: wish.near,
            primary: wish.primary,
        })
    }

    /// Handles an answer of the CM. Ignores other messages and those of another configuration.
    pub fn receive(&mut self, from: MachineId, message: RegionMessage) -> Vec<CacheEvent> {
        if from != self.cm || message.configuration != self.configuration || self.frozen {
            return Vec::new();
        }
        match message.body {
            RegionBody::Allocated {
                request,
                version,
                mapping,
            } if self.answers(request) => {
                let region = mapping.region;
                self.map.learn(version, [mapping]);
                vec![CacheEvent::Allocated(request, region)]
            }
            RegionBody::NotAllocated { request, why } if self.answers(request) => {
                vec![CacheEvent::NotAllocated(request, why)]
            }
            RegionBody::Mappings {
                version,
                found,
                missing,
            } => self.fetched(version, found, missing),
            RegionBody::Listed {
                version,
                from,
                found,
                more,
            } => {
                self.map.learn(version, found.iter().cloned());
                let mut events = self.found();
                events.push(CacheEvent::Listed(from, found, more));
                events
            }
            _ => Vec::new(),
        }
    }

    /// Ends a request; returns whether it still waited.
    fn answers(&mut self, request: RequestId) -> bool {
        request.machine == self.machine && self.requests.remove(&request.number).is_some()
    }

    fn fetched(
        &mut self,
        version: MapVersion,
        found: Vec<Mapping>,
        missing: Vec<RegionId>,
    ) -> Vec<CacheEvent> {
        self.map.learn(version, found);
        let mut events = self.found();
        for region in missing {
            if self.asked.remove(&region) {
                events.push(CacheEvent::Missing(region));
            }
        }
        events
    }

    /// Ends and returns the questions whose regions are known now.
    fn found(&mut self) -> Vec<CacheEvent> {
        let known = |region: &&RegionId| self.map.get(**region).is_some();
        let found: Vec<RegionId> = self.asked.iter().filter(known).copied().collect();
        for region in &found {
            self.asked.remove(region);
        }
        found.into_iter().map(CacheEvent::Found).collect()
    }

    /// Forgets lost regions; a later lookup gets the CM's answer that they do not exist.
    pub fn forget(&mut self, lost: &[RegionId]) {
        for region in lost {
            self.map.forget(*region);
        }
    }

    /// Applies a new configuration with its changed mappings. Returns the questions that these
    /// answer, and messages to the new CM for those without an answer.
    pub fn apply(
        &mut self,
        configuration: &Configuration,
        version: MapVersion,
        changed: impl IntoIterator<Item = Mapping>,
    ) -> (Vec<CacheEvent>, Outgoing) {
        if configuration.id() <= self.configuration {
            return (Vec::new(), Vec::new());
        }
        self.configuration = configuration.id();
        self.cm = configuration.cm();
        self.frozen = false;
        self.map.learn(version, changed);
        let found = self.found();
        let asked: Vec<RegionId> = self.asked.iter().copied().collect();
        let fetches = asked.chunks(MAX_FETCHED).map(|regions| {
            let regions = regions.to_vec();
            self.to_cm(RegionBody::Fetch { regions })
        });
        let requests = self.requests.iter();
        let requests = requests.map(|(number, wish)| self.request(*number, *wish));
        (found, fetches.chain(requests).collect())
    }

    fn to_cm(&self, body: RegionBody) -> (MachineId, RegionMessage) {
        let message = RegionMessage {
            configuration: self.configuration,
            body,
        };
        (self.cm, message)
    }
}
