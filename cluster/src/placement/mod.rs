//! The CM's choice of machines for a region.
//!
//! *Invariants.*
//! 1. PLACE-1: no two replicas of a region share a failure domain.
//! 2. PLACE-2: a region that is to be near another goes to the machines of its group, in the same
//!    roles, or nowhere.
//! 3. PLACE-3: machines hold numbers of replicas that differ by one at most, as far as sizes of
//!    domains, co-location and wishes let them; numbers of primaries follow as closely as that allows.
//! 4. PLACE-4: who wishes to be the primary is, or nobody is. No backup of such a region holds more than
//!    the least loaded machine that could have been it by as many replicas as a region has.
//!
//! How PLACE-3 is kept: the least loaded machines of the domains are taken in the order of their
//! load, and of equally loaded domains those first that have most machines at that load, because a
//! domain takes one replica at a time. Where that leaves a choice, the machine with the fewest
//! primaries is the primary, and those with the most become backups, so that the others are still
//! free to be primaries.
//!
//! A machine that wishes to be the primary has its backups on the machines that follow it, in the order of
//! their ids and from the last to the first again, as far as PLACE-4 lets it. Where each machine has
//! regions of its own they are balanced that way, and there are few sets of machines whose loss together
//! loses data.
//!
//! *Concurrency.* A placement has one owner, and the same choices follow from the same history.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;

use fencepost_fabric::MachineId;
use thiserror::Error;

use crate::configuration::Configuration;
use crate::few::{FewMap, FewSet};
use crate::ids::FailureDomain;
use crate::region::{GroupId, MAX_REPLICAS, Mapping, RegionId, Replicas};
use crate::successors::mix;

/// How many replicas regions have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replication {
    wanted: usize,
    least: usize,
}

impl Replication {
    /// `f` backups, so that the loss of `f` machines loses nothing; with fewer machines or domains,
    /// as many as they allow, but never fewer than `least` replicas. At most [`MAX_REPLICAS`].
    pub fn new(f: usize, least: usize) -> Self {
        let wanted = f.saturating_add(1).min(MAX_REPLICAS);
        Self {
            wanted,
            least: least.clamp(1, wanted),
        }
    }

    /// So many replicas of each region, at least one and at most [`MAX_REPLICAS`], and never fewer.
    pub fn exactly(replicas: usize) -> Self {
        let f = replicas.saturating_sub(1);
        Self::new(f, f.saturating_add(1))
    }

    /// Replicas that a region has when nothing is amiss: f + 1.
    pub fn wanted(self) -> usize {
        self.wanted
    }
}

/// Why a region cannot be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PlacementError {
    /// Wait for machines to join.
    #[error("{need} replicas need as many machines, and {have} can take one")]
    TooFewMachines {
        /// Replicas that there must be.
        need: u16,
        /// Machines that can take one.
        have: u16,
    },
    /// There are machines enough, but they would fail together.
    #[error("{need} replicas need as many failure domains, and {have} can take one")]
    TooFewDomains {
        /// Replicas that there must be.
        need: u16,
        /// Domains with a machine that can take one.
        have: u16,
    },
    /// Who is to be the primary cannot: place the region elsewhere, or free memory.
    #[error("{machine} is to be the primary and cannot take a region")]
    PrimaryUnavailable {
        /// The machine that refused or is gone.
        machine: MachineId,
    },
    /// The machines of the group are not all to be had: place the region elsewhere, or free memory.
    #[error("{machine} holds {group} and cannot take another region")]
    GroupUnavailable {
        /// The group.
        group: GroupId,
        /// The machine that refused or is gone.
        machine: MachineId,
    },
}

/// What a machine holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Regions that it is the primary of.
    pub primaries: usize,
    /// Regions that it is a replica of, as primary or backup.
    pub replicas: usize,
}

/// What every machine of a configuration holds, and the choices that follow.
#[derive(Clone, Debug)]
pub struct Placement {
    domains: FewMap<FailureDomain, FewMap<MachineId, Load>>,
}

/// A machine that may be chosen.
struct Candidate<'a> {
    domain: &'a FailureDomain,
    machine: MachineId,
    load: Load,
    /// It belongs to a domain that cannot be left out.
    due: bool,
    /// Decides between equals, differently for each region.
    lot: u64,
}

impl Placement {
    /// The machines of a configuration, holding nothing.
    pub fn new(configuration: &Configuration) -> Self {
        let mut domains: FewMap<_, FewMap<_, _>> = FewMap::new();
        for machine in configuration.machines() {
            let members = domains.entry(machine.domain.clone()).or_default();
            members.insert(machine.id, Load::default());
        }
        Self { domains }
    }

    /// What a machine holds; `None` when it is no member.
    pub fn load(&self, machine: MachineId) -> Option<Load> {
        self.domains
            .values()
            .find_map(|members| members.get(&machine).copied())
    }

    /// Counts a region that was placed.
    pub fn hold(&mut self, replicas: &Replicas) {
        self.count(replicas, |held| held.saturating_add(1));
    }

    /// Takes back [`Self::hold`].
    pub fn release(&mut self, replicas: &Replicas) {
        self.count(replicas, |held| held.saturating_sub(1));
    }

    fn count(&mut self, replicas: &Replicas, by: impl Fn(usize) -> usize) {
        for (machine, load) in self.domains.values_mut().flatten() {
            if replicas.has(*machine) {
                load.replicas = by(load.replicas);
            }
            if replicas.primary() == *machine {
                load.primaries = by(load.primaries);
            }
        }
    }

    /// The machines for a region that founds a group, none of them in `excluded`.
    ///
    /// # Errors
    /// [`PlacementError::TooFewMachines`] or [`PlacementError::TooFewDomains`].
    pub fn choose(
        &self,
        region: RegionId,
        replication: Replication,
        excluded: &FewSet<MachineId>,
    ) -> Result<Replicas, PlacementError> {
        let (count, mut candidates) = self.candidates(region, replication, excluded)?;
        let primary = candidates
            .iter()
            .min_by_key(|c| (c.load.primaries, c.lot))
            .map(|c| (c.machine, c.domain))
            .expect("there are as many candidates as replicas, one at least");
        let mut backups = Vec::new();
        let mut taken = primary.1;
        while backups.len() + 1 < count {
            candidates.retain(|c| c.domain != taken);
            let backup = candidates
                .iter()
                .min_by_key(|c| (!c.due, Reverse(c.load.primaries), c.lot))
                .expect("candidates are of as many domains as there are replicas");
            backups.push(backup.machine);
            taken = backup.domain;
        }
        Ok(Replicas::new(primary.0, backups).expect("machines of different domains are distinct"))
    }

    /// The machines for a region that founds a group and whose primary is to be `primary`, none of them in
    /// `excluded`.
    ///
    /// # Errors
    /// As [`Self::choose`]; [`PlacementError::PrimaryUnavailable`].
    pub fn choose_at(
        &self,
        primary: MachineId,
        replication: Replication,
        excluded: &FewSet<MachineId>,
    ) -> Result<Replicas, PlacementError> {
        let own = self
            .domains
            .iter()
            .find(|(_, members)| members.contains_key(&primary));
        let Some((own, _)) = own.filter(|_| !excluded.contains(&primary)) else {
            return Err(PlacementError::PrimaryUnavailable { machine: primary });
        };
        let others = self.domains.iter().filter(|(domain, _)| *domain != own);
        let machines = others.flat_map(|(domain, members)| {
            members
                .iter()
                .map(move |(machine, load)| (domain, *machine, load.replicas))
        });
        let mut machines: Vec<_> = machines
            .filter(|(_, machine, _)| !excluded.contains(machine))
            .collect();
        let domains: FewSet<&FailureDomain> = machines.iter().map(|(domain, ..)| *domain).collect();
        check(replication, 1 + machines.len(), 1 + domains.len())?;
        let count = replication.wanted.min(1 + domains.len());
        let low = machines.iter().map(|(.., held)| *held).min().unwrap_or(0);
        // Beyond this one machine would hold too much more than another.
        let most = low + count - 1;
        machines.sort_by_key(|(_, machine, held)| {
            (held.saturating_sub(most), *machine < primary, *machine)
        });
        let mut taken = FewSet::new();
        let mut backups = Vec::new();
        for (domain, machine, _) in machines {
            if backups.len() + 1 < count && taken.insert(domain) {
                backups.push(machine);
            }
        }
        Ok(Replicas::new(primary, backups).expect("machines of different domains are distinct"))
    }

    /// Up to `count` further machines for regions that `having` hold, of other domains than theirs and each
    /// other's and none of them in `excluded`: those that hold least.
    pub fn more(
        &self,
        region: RegionId,
        having: &[MachineId],
        count: usize,
        excluded: &FewSet<MachineId>,
    ) -> Vec<MachineId> {
        let free = self
            .domains
            .values()
            .filter(|members| !having.iter().any(|machine| members.contains_key(machine)));
        let least = free.filter_map(|members| {
            let able = members.iter().filter(|(m, _)| !excluded.contains(m));
            let lot = |machine: MachineId| mix((u64::from(region.0) << 32) | u64::from(machine.0));
            able.map(|(machine, load)| (load.replicas, lot(*machine), *machine))
                .min()
        });
        let mut least: Vec<_> = least.collect();
        least.sort_unstable();
        least.truncate(count);
        least.into_iter().map(|(.., machine)| machine).collect()
    }

    /// How many replicas there will be, and the machines between which the balance leaves the
    /// choice.
    fn candidates(
        &self,
        region: RegionId,
        replication: Replication,
        excluded: &FewSet<MachineId>,
    ) -> Result<(usize, Vec<Candidate<'_>>), PlacementError> {
        let mut lowest = Vec::new();
        let mut able = 0;
        for (domain, members) in &self.domains {
            let members = members
                .iter()
                .filter(|(machine, _)| !excluded.contains(machine));
            let members: Vec<_> = members.collect();
            able += members.len();
            let Some(low) = members.iter().map(|(_, load)| load.replicas).min() else {
                continue;
            };
            let at_low = members.into_iter().filter(|(_, load)| load.replicas == low);
            let at_low: Vec<_> = at_low.collect();
            lowest.push(((low, Reverse(at_low.len())), domain, at_low));
        }
        check(replication, able, lowest.len())?;
        let count = replication.wanted.min(lowest.len());
        lowest.sort_by_key(|(rank, domain, _)| (*rank, *domain));
        let last = lowest[count - 1].0;
        let eligible = lowest.into_iter().take_while(|(rank, _, _)| *rank <= last);
        let candidates = eligible.flat_map(|(rank, domain, members)| {
            members.into_iter().map(move |(machine, load)| Candidate {
                domain,
                machine: *machine,
                load: *load,
                due: rank < last,
                lot: mix((u64::from(region.0) << 32) | u64::from(machine.0)),
            })
        });
        Ok((count, candidates.collect()))
    }

    /// The machines for a region near `other`: those of its group, none of them in `excluded`.
    ///
    /// # Errors
    /// [`PlacementError::GroupUnavailable`].
    pub fn near(
        &self,
        other: &Mapping,
        excluded: &FewSet<MachineId>,
    ) -> Result<Replicas, PlacementError> {
        let able = |machine| self.load(machine).is_some() && !excluded.contains(&machine);
        match other.replicas.all().find(|machine| !able(*machine)) {
            None => Ok(other.replicas.clone()),
            Some(machine) => Err(PlacementError::GroupUnavailable {
                group: other.group,
                machine,
            }),
        }
    }
}

/// Whether so many machines of so many domains are enough.
fn check(replication: Replication, machines: usize, domains: usize) -> Result<(), PlacementError> {
    // There are at most MAX_MACHINES machines and domains.
    let (need, told) = (replication.least as u16, |n: usize| n as u16);
    if machines < replication.least {
        let have = told(machines);
        return Err(PlacementError::TooFewMachines { need, have });
    }
    if domains < replication.least {
        let have = told(domains);
        return Err(PlacementError::TooFewDomains { need, have });
    }
    Ok(())
}
