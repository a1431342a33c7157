//! A replica's side of allocation: reserves memory, keeps the mapping with it, and releases both.
//!
//! *Invariants.* A held region has its memory, and a region that is not held has none. A region
//! that is only prepared answers all readers. A reader knows the mapping only because the CM has
//! decided to commit.

use fencepost_fabric::MachineId;

use super::message::{RegionBody, RegionMessage};
use super::{Refusal, RequestId};
use crate::configuration::Configuration;
use crate::few::FewMap;
use crate::ids::ConfigurationId;
use crate::region::{Mapping, RegionId};

/// The source of a machine's memory for regions.
pub trait RegionHost {
    /// Reserves memory for a replica.
    ///
    /// # Errors
    /// [`Refusal`] if there is none; nothing is reserved then.
    fn reserve(&mut self, mapping: &Mapping) -> Result<(), Refusal>;

    /// Keeps the reserved memory for good, because the region exists.
    fn keep(&mut self, mapping: &Mapping);

    /// Releases the memory of a replica.
    fn release(&mut self, region: RegionId);
}

/// The regions of which a machine holds a replica.
#[derive(Debug)]
pub struct ReplicaRegions {
    machine: MachineId,
    cm: MachineId,
    configuration: ConfigurationId,
    held: FewMap<RegionId, HeldRegion>,
    /// Whether the held regions have been reported to a new CM, so that they stay unchanged before
    /// its decision.
    frozen: bool,
    /// The number of changes of the held regions.
    changes: u64,
}

/// A region of which a machine holds a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldRegion {
    /// The mapping of the region.
    pub mapping: Mapping,
    /// The request that the region was made for.
    pub request: RequestId,
    /// Whether the machine knows that the region is committed.
    pub committed: bool,
    /// Whether the machine has all data of the region; false until data recovery has copied the
    /// data from another machine.
    pub whole: bool,
}

/// A region whose replicas have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedRegion {
    /// The new mapping.
    pub mapping: Mapping,
    /// The request that the region was made for.
    pub request: RequestId,
}

/// The decisions of a new configuration's CM about regions.
#[derive(Clone, Copy, Debug)]
pub struct RegionDecisions<'a> {
    /// The regions whose replicas have changed.
    pub moved: &'a [MovedRegion],
    /// The regions that were prepared here and never existed.
    pub given_up: &'a [RegionId],
    /// The regions of which no replica with data is left.
    pub lost: &'a [RegionId],
}

impl ReplicaRegions {
    /// Returns the state of a machine without replicas, in a configuration under its CM.
    pub fn new(machine: MachineId, cm: MachineId, configuration: ConfigurationId) -> Self {
        Self {
            machine,
            cm,
            configuration,
            held: FewMap::new(),
            frozen: false,
            changes: 0,
        }
    }

    /// Returns a number that changes whenever the held regions change.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Holds regions of an earlier incarnation, with all of their data.
    pub fn resume(&mut self, regions: impl IntoIterator<Item = MovedRegion>) {
        for MovedRegion { mapping, request } in regions {
            let held = HeldRegion {
                request,
                committed: true,
                whole: true,
                mapping,
            };
            self.held.insert(held.mapping.region, held);
        }
    }

    /// Returns a region if this machine holds it.
    pub fn get(&self, region: RegionId) -> Option<&HeldRegion> {
        self.held.get(&region)
    }

    /// Returns all held regions, as a new CM asks for them.
    pub fn held(&self) -> impl Iterator<Item = &HeldRegion> {
        self.held.values()
    }

    /// Handles a message of the CM and returns the answer, if it has one. Ignores messages that are
    /// not for a replica, of another configuration, or of another machine.
    pub fn receive(
        &mut self,
        from: MachineId,
        message: RegionMessage,
        host: &mut impl RegionHost,
    ) -> Option<RegionMessage> {
        if from != self.cm || message.configuration != self.configuration || self.frozen {
            return None;
        }
        self.changes += 1;
        match message.body {
            RegionBody::Prepare { request, mapping } => {
                let region = mapping.region;
                let body = match self.prepare(request, mapping, host) {
                    Ok(()) => RegionBody::Prepared { region },
                    Err(why) => RegionBody::Refused { region, why },
                };
                let configuration = self.configuration;
                Some(RegionMessage {
                    configuration,
                    body,
                })
            }
            RegionBody::Commit { region } => {
                if let Some(held) = self.held.get_mut(&region).filter(|held| !held.committed) {
                    held.committed = true;
                    host.keep(&held.mapping);
                }
                None
            }
            RegionBody::Abort { region } => {
                // A committed region is never aborted.
                if self.held.get(&region).is_some_and(|held| !held.committed) {
                    self.held.remove(&region);
                    host.release(region);
                }
                None
            }
            _ => None,
        }
    }

    /// Ignores further messages in this configuration, so that the held regions stay as the new CM
    /// knows them.
    pub fn freeze(&mut self) {
        self.frozen = true;
    }

    /// Applies a new configuration with the CM's decisions. Prepared regions are committed or
    /// removed, and new replicas are made. Returns the replicas for which there is no memory.
    pub fn apply(
        &mut self,
        configuration: &Configuration,
        decided: RegionDecisions<'_>,
        host: &mut impl RegionHost,
    ) -> Vec<(RegionId, Refusal)> {
        if configuration.id() <= self.configuration {
            return Vec::new();
        }
        self.configuration = configuration.id();
        self.cm = configuration.cm();
        self.frozen = false;
        self.changes += 1;
        for region in decided.given_up.iter().chain(decided.lost) {
            self.let_go(*region, host);
        }
        for held in self.held.values_mut().filter(|held| !held.committed) {
            held.committed = true;
            host.keep(&held.mapping);
        }
        let mut refused = Vec::new();
        for MovedRegion { mapping, request } in decided.moved {
            let region = mapping.region;
            if !mapping.replicas.has(self.machine) {
                self.let_go(region, host);
            } else if let Some(held) = self.held.get_mut(&region) {
                held.mapping = mapping.clone();
            } else if let Err(why) = self.take_on(mapping, *request, host) {
                refused.push((region, why));
            }
        }
        refused
    }

    /// Makes a new backup of a region whose data other machines have.
    fn take_on(
        &mut self,
        mapping: &Mapping,
        request: RequestId,
        host: &mut impl RegionHost,
    ) -> Result<(), Refusal> {
        host.reserve(mapping)?;
        host.keep(mapping);
        let held = HeldRegion {
            mapping: mapping.clone(),
            request,
            committed: true,
            whole: false,
        };
        self.held.insert(mapping.region, held);
        Ok(())
    }

    fn let_go(&mut self, region: RegionId, host: &mut impl RegionHost) {
        if self.held.remove(&region).is_some() {
            host.release(region);
        }
    }

    /// Records that all data of a region is here. Returns false if a new CM has already been told
    /// otherwise; the data is then recovered again after its configuration is applied.
    pub fn filled(&mut self, region: RegionId) -> bool {
        self.changes += 1;
        let held = self.held.get_mut(&region).filter(|_| !self.frozen);
        held.map(|held| held.whole = true).is_some()
    }

    fn prepare(
        &mut self,
        request: RequestId,
        mapping: Mapping,
        host: &mut impl RegionHost,
    ) -> Result<(), Refusal> {
        if !mapping.replicas.has(self.machine) {
            return Err(Refusal::Contradiction);
        }
        let region = mapping.region;
        match self.held.get(&region) {
            Some(held) if held.mapping == mapping && held.request == request => Ok(()),
            Some(_) => Err(Refusal::Contradiction),
            None => {
                host.reserve(&mapping)?;
                let held = HeldRegion {
                    mapping,
                    request,
                    committed: false,
                    whole: true,
                };
                self.held.insert(region, held);
                Ok(())
            }
        }
    }
}
