//! Every machine's side: the mappings it knows, and its questions to the CM for the rest.
//!
//! *Invariants.* For a region there is one question under way at most. A question or a request
//! without an answer is put again to the CM of the next configuration.

use fencepost_fabric::MachineId;

use super::allocator::Outgoing;
use super::message::{MAX_FETCHED, RegionBody, RegionMessage};
use super::{AllocationError, RequestId};
use crate::configuration::Configuration;
use crate::few::{FewMap, FewSet};
use crate::ids::ConfigurationId;
use crate::region::{Mapping, RegionId};
use crate::region_map::{MapVersion, RegionMap};

/// Where a region is, or what to do to find out.
#[derive(Debug, PartialEq, Eq)]
pub enum Lookup<'a> {
    /// There.
    Known(&'a Mapping),
    /// Send this, and look again when it is answered.
    Ask(MachineId, RegionMessage),
    /// The question is under way already.
    Asked,
}

/// What an answer of the CM means to those who wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheEvent {
    /// The region's mapping is known now.
    Found(RegionId),
    /// There is no such region.
    Missing(RegionId),
    /// The request is answered with this region, whose mapping is known now.
    Allocated(RequestId, RegionId),
    /// The request is answered with an error.
    NotAllocated(RequestId, AllocationError),
    /// The regions from the first one on, and whether there are further ones.
    Listed(RegionId, Vec<Mapping>, bool),
}

/// What a new region is to be: near another one, or with such a primary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// The region on whose machines, in the same roles, the new one is to be.
    pub near: Option<RegionId>,
    /// Who is to be the primary; `near` decides where both are given.
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
    /// Requests without an answer.
    requests: FewMap<u64, Wish>,
    next_request: u64,
    /// What is known has been told to a new CM, and becomes no more before it has decided.
    frozen: bool,
}

impl RegionCache {
    /// A machine that knows nothing yet.
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

    /// A machine that has yet to apply the configuration in which it has joined.
    pub fn joining(machine: MachineId, configuration: &Configuration) -> Self {
        Self {
            configuration: configuration.id().before(),
            ..Self::new(machine, configuration)
        }
    }

    /// Knows what was told with the configuration, before anything else.
    pub fn know(&mut self, version: MapVersion, mappings: impl IntoIterator<Item = Mapping>) {
        self.map.learn(version, mappings);
    }

    /// Takes no more answers in this configuration; those that are missing then come from the next CM.
    pub fn freeze(&mut self) {
        self.frozen = true;
    }

    /// The mappings that are known.
    pub fn map(&self) -> &RegionMap {
        &self.map
    }

    /// Where a region is.
    pub fn lookup(&mut self, region: RegionId) -> Lookup<'_> {
        if self.map.get(region).is_none() && self.asked.insert(region) {
            let regions = vec![region];
            let (cm, message) = self.to_cm(RegionBody::Fetch { regions });
            return Lookup::Ask(cm, message);
        }
        self.map.get(region).map_or(Lookup::Asked, Lookup::Known)
    }

    /// The question which regions there are, from one on. Whoever asks asks again under another CM.
    pub fn list(&self, from: RegionId) -> (MachineId, RegionMessage) {
        self.to_cm(RegionBody::List { from })
    }

    /// A request for a new region.
    pub fn allocate(&mut self, wish: Wish) -> (RequestId, MachineId, RegionMessage) {
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

    fn request(&self, number: u64, wish: Wish) -> (MachineId, RegionMessage) {
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

    /// Takes an answer of the CM; what is not one, or of another configuration, is dropped.
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

    /// Whether a request still waits, and now does no more.
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

    /// The questions that have an answer now.
    fn found(&mut self) -> Vec<CacheEvent> {
        let known = |region: &&RegionId| self.map.get(**region).is_some();
        let found: Vec<RegionId> = self.asked.iter().filter(known).copied().collect();
        for region in &found {
            self.asked.remove(region);
        }
        found.into_iter().map(CacheEvent::Found).collect()
    }

    /// Regions are there no more: who asks is told so by the CM.
    pub fn forget(&mut self, lost: &[RegionId]) {
        for region in lost {
            self.map.forget(*region);
        }
    }

    /// Applies a new configuration with the mappings that it changes. Gives the questions that
    /// these answer, and puts to the new CM whatever has no answer yet.
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
