//! The CM's side of allocation: chooses machines, prepares, commits, answers.
//!
//! *Failure.* A machine that refuses or cannot be reached makes the attempt fail. The attempt ends
//! once all other machines have answered, and the next attempt excludes the failed machine. Then no
//! answer to the attempt is in flight, and its region id may serve another attempt. So repeated
//! requests to a full cluster do not use up the ids. If a machine could not be reached, the id is
//! not used again.

use fencepost_fabric::MachineId;

use super::message::{MAX_FETCHED, RegionBody, RegionMessage};
use super::{AllocationError, REGIONS_A_CONFIGURATION, RequestId};
use crate::configuration::Configuration;
use crate::few::{FewMap, FewSet};
use crate::ids::ConfigurationId;
use crate::placement::{Placement, Replication};
use crate::region::{GroupId, Mapping, RegionId};
use crate::region_map::{MapVersion, RegionMap};

/// Messages to send, in this order.
pub(super) type Outgoing = Vec<(MachineId, RegionMessage)>;

/// Allocation of regions by the CM of one configuration.
#[derive(Debug)]
pub struct Allocator {
    configuration: ConfigurationId,
    replication: Replication,
    map: RegionMap,
    /// The load of machines by all regions of the map and those being prepared.
    placement: Placement,
    next_region: u32,
    /// The first number beyond those that this CM may assign.
    end_of_regions: u32,
    /// Ids below `next_region` of failed attempts to which no answer is in flight.
    unused: FewSet<RegionId>,
    /// Machines that get no regions, because they cannot be reached or are leaving.
    closed: FewSet<MachineId>,
    /// The number of leaving machines among them.
    leaving: usize,
    preparing: FewMap<RegionId, Attempt>,
    /// Requests in progress and requests that were answered with a region.
    requests: FewMap<RequestId, RegionId>,
    /// By machine, the number below which all requests have had their answers.
    answered: FewMap<MachineId, u64>,
    /// Requests that arrived while allocation was held back; `None` while it is not.
    held_back: Option<Vec<(PendingRequest, u64)>>,
}

/// A request, and the machines that have refused it.
#[derive(Clone, Debug)]
struct PendingRequest {
    request: RequestId,
    near: Option<RegionId>,
    primary: Option<MachineId>,
    refused: FewSet<MachineId>,
}

#[derive(Debug)]
struct Attempt {
    wanted: PendingRequest,
    mapping: Mapping,
    /// Replicas that have not answered yet.
    waiting: FewSet<MachineId>,
    /// Whether a replica has refused or cannot be reached.
    failed: bool,
    /// Whether all replicas can still be reached, so that those that have answered learn the
    /// outcome.
    answered: bool,
}

impl Allocator {
    /// Returns the allocator of `configuration`, whose regions are in `map` and were made for
    /// `requests`. New regions are numbered from `next_region`, which is above every number that a
    /// replica holds.
    pub fn new(
        configuration: &Configuration,
        replication: Replication,
        mut map: RegionMap,
        requests: impl IntoIterator<Item = (RequestId, RegionId)>,
        next_region: RegionId,
    ) -> Self {
        let version = MapVersion {
            configuration: configuration.id(),
            changes: 0,
        };
        map.learn(version, []);
        let mut placement = Placement::new(configuration);
        for mapping in map.mappings() {
            placement.hold(&mapping.replicas);
        }
        Self {
            configuration: configuration.id(),
            replication,
            map,
            placement,
            next_region: next_region.0,
            end_of_regions: next_region.0.saturating_add(REGIONS_A_CONFIGURATION),
            unused: FewSet::new(),
            leaving: configuration.leaving().len(),
            closed: configuration.leaving(),
            preparing: FewMap::new(),
            requests: requests.into_iter().collect(),
            answered: FewMap::new(),
            held_back: None,
        }
    }

    /// Stops allocation: replicas do not take part, because they are in another configuration or
    /// about to be. Attempts in progress end with this allocator.
    pub fn hold_back(&mut self) {
        self.held_back.get_or_insert_default();
    }

    /// Starts allocation once all replicas are in this configuration, with the requests that have
    /// arrived so far.
    pub fn take_up(&mut self) -> Outgoing {
        let requests = self.held_back.take().unwrap_or_default();
        let outgoing = requests.into_iter();
        outgoing
            .flat_map(|(wanted, answered)| self.allocate(wanted, answered))
            .collect()
    }

    /// Returns the number of the next region; no region has this number or a greater one.
    pub fn next_region(&self) -> RegionId {
        RegionId(self.next_region)
    }

    /// Returns the present map.
    pub fn map(&self) -> &RegionMap {
        &self.map
    }

    /// Returns the load of machines, including regions being prepared.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Returns whether no attempt is in progress.
    pub fn is_idle(&self) -> bool {
        self.preparing.is_empty()
    }

    /// Handles a message. Ignores messages that are not for a CM, of another configuration, or of a
    /// machine that is not a member.
    pub fn receive(&mut self, from: MachineId, message: RegionMessage) -> Outgoing {
        let member = self.placement.load(from).is_some();
        if !member || message.configuration != self.configuration {
            return Vec::new();
        }
        match message.body {
            RegionBody::Allocate {
                request,
                answered,
                near,
                primary,
            } if request.machine == from => {
                let refused = FewSet::new();
                let wanted = PendingRequest {
                    request,
                    near,
                    primary,
                    refused,
                };
                match &mut self.held_back {
                    Some(requests) => {
                        requests.push((wanted, answered));
                        Vec::new()
                    }
                    None => self.allocate(wanted, answered),
                }
            }
            RegionBody::Prepared { region } if self.held_back.is_none() => {
                self.prepared(from, region)
            }
            RegionBody::Refused { region, .. } if self.held_back.is_none() => {
                self.refused(from, region)
            }
            RegionBody::Fetch { regions } => vec![(from, self.fetched(regions))],
            RegionBody::List { from: first } => vec![self.listed(from, first)],
            _ => Vec::new(),
        }
    }

    /// Handles the loss of a connection: the machine gets no regions in this configuration.
    pub fn unreachable(&mut self, machine: MachineId) -> Outgoing {
        self.closed.insert(machine);
        if self.held_back.is_some() {
            return Vec::new();
        }
        let attempts = self.preparing.values_mut();
        let hit = attempts.filter(|attempt| attempt.mapping.replicas.has(machine));
        let hit = hit.map(|attempt| {
            attempt.failed = true;
            attempt.answered = false;
            attempt.waiting.remove(&machine);
            attempt.mapping.region
        });
        let hit: Vec<RegionId> = hit.collect();
        hit.into_iter()
            .flat_map(|region| self.end_if_answered(region))
            .collect()
    }

    fn allocate(&mut self, wanted: PendingRequest, answered: u64) -> Outgoing {
        let request = wanted.request;
        let floor = self.answered.entry(request.machine).or_default();
        *floor = answered.max(*floor);
        if request.number < *floor {
            return Vec::new();
        }
        let below = RequestId {
            number: *floor,
            ..request
        };
        let from = RequestId {
            number: 0,
            ..request
        };
        let old: Vec<RequestId> = self
            .requests
            .range(from..below)
            .map(|(id, _)| *id)
            .collect();
        for request in old {
            self.requests.remove(&request);
        }
        match self
            .requests
            .get(&request)
            .map(|region| self.map.get(*region))
        {
            // The answer is sent when the attempt ends.
            Some(None) => Vec::new(),
            Some(Some(mapping)) => vec![self.allocated(request, mapping.clone())],
            None => self.prepare(wanted),
        }
    }

    /// Begins an attempt: sends PREPARE to every replica, or the answer that no placement is
    /// possible.
    fn prepare(&mut self, wanted: PendingRequest) -> Outgoing {
        let request = wanted.request;
        let mapping = match self.place(&wanted) {
            Ok(mapping) => mapping,
            Err(why) => {
                self.requests.remove(&request);
                let why = match why {
                    AllocationError::Placement(_) if self.closed.len() > self.leaving => {
                        AllocationError::Unreachable
                    }
                    why => why,
                };
                let body = RegionBody::NotAllocated { request, why };
                return vec![self.to(request.machine, body)];
            }
        };
        let region = mapping.region;
        if !self.unused.remove(&region) {
            self.next_region = region.0.saturating_add(1);
        }
        self.placement.hold(&mapping.replicas);
        self.requests.insert(request, region);
        let waiting: FewSet<MachineId> = mapping.replicas.all().collect();
        let prepare = RegionBody::Prepare {
            request,
            mapping: mapping.clone(),
        };
        let attempt = Attempt {
            wanted,
            mapping,
            waiting,
            failed: false,
            answered: true,
        };
        let outgoing = self.to_all(&attempt.mapping, &prepare);
        self.preparing.insert(region, attempt);
        outgoing
    }

    fn place(&self, wanted: &PendingRequest) -> Result<Mapping, AllocationError> {
        let unused = self.unused.first().copied();
        let region = unused.unwrap_or(RegionId(self.next_region));
        if region.0 >= self.end_of_regions {
            return Err(AllocationError::OutOfIds);
        }
        let excluded = wanted.refused.iter().chain(&self.closed).copied().collect();
        let (group, replicas) = match (wanted.near, wanted.primary) {
            (None, None) => {
                let chosen = self.placement.choose(region, self.replication, &excluded)?;
                (GroupId(region), chosen)
            }
            (None, Some(primary)) => {
                let chosen = self
                    .placement
                    .choose_at(primary, self.replication, &excluded)?;
                (GroupId(region), chosen)
            }
            (Some(near), _) => {
                let near = self
                    .map
                    .get(near)
                    .ok_or(AllocationError::NoSuchRegion(near))?;
                (near.group, self.placement.near(near, &excluded)?)
            }
        };
        Ok(Mapping {
            region,
            group,
            replicas,
            last_primary_change: self.configuration,
            last_replica_change: self.configuration,
        })
    }

    fn prepared(&mut self, from: MachineId, region: RegionId) -> Outgoing {
        let Some(attempt) = self.preparing.get_mut(&region) else {
            return Vec::new();
        };
        attempt.waiting.remove(&from);
        self.end_if_answered(region)
    }

    /// Commits or aborts an attempt that all reachable replicas have answered.
    fn end_if_answered(&mut self, region: RegionId) -> Outgoing {
        match self.preparing.remove(&region) {
            Some(attempt) if !attempt.waiting.is_empty() => {
                self.preparing.insert(region, attempt);
                Vec::new()
            }
            Some(attempt) if attempt.failed => self.try_others(attempt),
            Some(attempt) => self.commit(attempt),
            None => Vec::new(),
        }
    }

    /// Commits an attempt that all replicas have prepared: the region exists now.
    fn commit(&mut self, attempt: Attempt) -> Outgoing {
        let Attempt {
            wanted, mapping, ..
        } = attempt;
        self.map.add(mapping.clone());
        let region = mapping.region;
        let mut outgoing = self.to_all(&mapping, &RegionBody::Commit { region });
        outgoing.push(self.allocated(wanted.request, mapping));
        outgoing
    }

    fn refused(&mut self, from: MachineId, region: RegionId) -> Outgoing {
        let Some(attempt) = self.preparing.get_mut(&region) else {
            return Vec::new();
        };
        if attempt.waiting.remove(&from) {
            attempt.wanted.refused.insert(from);
            attempt.failed = true;
        }
        self.end_if_answered(region)
    }

    /// Sends ABORT to every replica that may have prepared the region, and begins another attempt.
    fn try_others(&mut self, attempt: Attempt) -> Outgoing {
        let Attempt {
            wanted,
            mapping,
            answered,
            ..
        } = attempt;
        let region = mapping.region;
        self.placement.release(&mapping.replicas);
        if answered {
            self.unused.insert(region);
        }
        let mut outgoing = self.to_all(&mapping, &RegionBody::Abort { region });
        outgoing.retain(|(machine, _)| {
            !wanted.refused.contains(machine) && !self.closed.contains(machine)
        });
        outgoing.extend(self.prepare(wanted));
        outgoing
    }

    fn fetched(&self, mut regions: Vec<RegionId>) -> RegionMessage {
        regions.truncate(MAX_FETCHED);
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for region in regions {
            match self.map.get(region) {
                Some(mapping) => found.push(mapping.clone()),
                None => missing.push(region),
            }
        }
        RegionMessage {
            configuration: self.configuration,
            body: RegionBody::Mappings {
                version: self.map.version(),
                found,
                missing,
            },
        }
    }

    fn listed(&self, to: MachineId, from: RegionId) -> (MachineId, RegionMessage) {
        let mut mappings = self.map.from(from);
        let found: Vec<Mapping> = mappings.by_ref().take(MAX_FETCHED).cloned().collect();
        let body = RegionBody::Listed {
            version: self.map.version(),
            from,
            found,
            more: mappings.next().is_some(),
        };
        self.to(to, body)
    }

    fn allocated(&self, request: RequestId, mapping: Mapping) -> (MachineId, RegionMessage) {
        let version = self.map.version();
        let body = RegionBody::Allocated {
            request,
            version,
            mapping,
        };
        self.to(request.machine, body)
    }

    fn to_all(&self, mapping: &Mapping, body: &RegionBody) -> Outgoing {
        let replicas = mapping.replicas.all();
        replicas
            .map(|replica| self.to(replica, body.clone()))
            .collect()
    }

    fn to(&self, machine: MachineId, body: RegionBody) -> (MachineId, RegionMessage) {
        let configuration = self.configuration;
        let message = RegionMessage {
            configuration,
            body,
        };
        (machine, message)
    }
}
