//! A replica's side: reserves memory, keeps the mapping with it, and gives both back.
//!
//! *Invariants.* A region that is held has its memory, and one that is not has none. A region that
//! is only prepared serves whoever asks: only those ask who know the mapping, and they know it
//! because the CM has decided to commit.

use fencepost_fabric::MachineId;

use super::message::{RegionBody, RegionMessage};
use super::{Refusal, RequestId};
use crate::configuration::Configuration;
use crate::few::FewMap;
use crate::ids::ConfigurationId;
use crate::region::{Mapping, RegionId};

/// Where a machine's memory for regions comes from.
pub trait RegionHost {
    /// Makes room for a replica.
    ///
    /// # Errors
    /// [`Refusal`] when there is none, and then nothing is kept.
    fn reserve(&mut self, mapping: &Mapping) -> Result<(), Refusal>;

    /// The region exists: the room stays with it.
    fn keep(&mut self, mapping: &Mapping);

    /// Gives the room for a replica back.
    fn release(&mut self, region: RegionId);
}

/// The regions that a machine holds a replica of.
#[derive(Debug)]
pub struct ReplicaRegions {
    machine: MachineId,
    cm: MachineId,
    configuration: ConfigurationId,
    held: FewMap<RegionId, HeldRegion>,
    /// What is held has been told to a new CM, and does not change before it has decided.
    frozen: bool,
    /// Counts what changes what is held.
    changes: u64,
}

/// A region that a machine holds a replica of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldRegion {
    /// Where it and the other replicas are.
    pub mapping: Mapping,
    /// The request that it was made for.
    pub request: RequestId,
    /// Whether it is known to be committed.
    pub committed: bool,
    /// Whether all of its data is here: not yet, where another machine had it before.
    pub whole: bool,
}

/// A region whose replicas have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedRegion {
    /// Where it is now.
    pub mapping: Mapping,
    /// The request that it was made for.
    pub request: RequestId,
}

/// What the CM of a new configuration has decided about regions.
#[derive(Clone, Copy, Debug)]
pub struct Decided<'a> {
    /// The regions whose replicas have changed.
    pub moved: &'a [MovedRegion],
    /// What was prepared here and never existed.
    pub given_up: &'a [RegionId],
    /// Regions without any replica that has their data.
    pub lost: &'a [RegionId],
}

impl ReplicaRegions {
    /// A machine that holds nothing, in a configuration and under its CM.
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

    /// Another number whenever what is held has changed.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Holds what it had in an earlier life, and all of its data.
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

    /// A region, if it is held here.
    pub fn get(&self, region: RegionId) -> Option<&HeldRegion> {
        self.held.get(&region)
    }

    /// All regions that are held here, as a new CM asks for them.
    pub fn held(&self) -> impl Iterator<Item = &HeldRegion> {
        self.held.values()
    }

    /// Takes a message of the CM and gives the answer to it, if it has one; what is not for a
    /// replica, of another configuration, or of another machine is dropped.
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
                // What is committed is never aborted, whatever a message says.
                if self.held.get(&region).is_some_and(|held| !held.committed) {
                    self.held.remove(&region);
                    host.release(region);
                }
                None
            }
            _ => None,
        }
    }

    /// Takes no more messages in this configuration, so that what is held stays as a new CM is told.
    pub fn freeze(&mut self) {
        self.frozen = true;
    }

    /// Applies a new configuration: what was prepared exists or never did, and new replicas are made. Gives
    /// those for which there is no room. `decided` says what the CM has found and changed.
    pub fn apply(
        &mut self,
        configuration: &Configuration,
        decided: Decided<'_>,
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

    /// A new backup of a region whose data other machines have.
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

    /// All data of a region is here now. False if that comes too late: a new CM has been told otherwise, and
    /// the data is to be recovered again after its configuration has come about.
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
