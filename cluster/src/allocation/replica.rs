//! A replica's side: reserves memory, keeps the mapping with it, and gives both back.
//!
//! *Invariants.* A region that is held has its memory, and one that is not has none. A region that
//! is only prepared serves whoever asks: only those ask who know the mapping, and they know it
//! because the CM has decided to commit.

use std::collections::BTreeMap;

use fencepost_fabric::MachineId;

use super::message::{RegionBody, RegionMessage};
use super::{Refusal, RequestId};
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
    held: BTreeMap<RegionId, HeldRegion>,
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
}

impl ReplicaRegions {
    /// A machine that holds nothing, in a configuration and under its CM.
    pub fn new(machine: MachineId, cm: MachineId, configuration: ConfigurationId) -> Self {
        Self {
            machine,
            cm,
            configuration,
            held: BTreeMap::new(),
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
        if from != self.cm || message.configuration != self.configuration {
            return None;
        }
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
                };
                self.held.insert(region, held);
                Ok(())
            }
        }
    }
}
