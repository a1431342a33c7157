//! The CM's choice of machines for a region.
//!
//! *Invariants.*
//! 1. PLACE-1: no two replicas of a region share a failure domain.
//! 2. PLACE-2: a region that is to be near another one is placed on the machines of its group, in
//!    the same roles, or is not placed.
//! 3. PLACE-3: machines hold numbers of replicas that differ by one at most, as far as the sizes of
//!    domains, co-location and requested primaries allow. Numbers of primaries differ as little as
//!    that allows.
//! 4. PLACE-4: a requested primary becomes the primary, or the region is not placed. A backup of
//!    such a region exceeds the least loaded eligible machine by fewer replicas than a region has.
//!
//! PLACE-3 is kept as follows. The choice takes the least loaded machine of each domain, in the
//! order of load. Among equally loaded domains it takes first the one with the most machines at
//! that load, because a domain takes one replica at a time. Among the remaining candidates, the
//! machine with the fewest primaries becomes the primary. Those with the most primaries become
//! backups, so that the other machines remain free to be primaries.
//!
//! The backups of a requested primary are the machines with the next ids, cyclically, as far as
//! PLACE-4 allows. If each machine is the requested primary of its own regions, this balances them.
//! It also leaves few sets of machines whose joint loss loses data.
//!
//! *Concurrency.* A placement has one owner; the same history of calls gives the same choices.

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

/// The wanted and the smallest number of replicas of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replication {
    wanted: usize,
    least: usize,
}

impl Replication {
    /// Returns a replication with `f` backups, so that the loss of `f` machines loses no data. With
    /// fewer machines or domains a region has as many replicas as they allow, but never fewer than
    /// `least`. The number is at most [`MAX_REPLICAS`].
    pub fn new(f: usize, least: usize) -> Self {
        let wanted = f.saturating_add(1).min(MAX_REPLICAS);
        Self {
            wanted,
            least: least.clamp(1, wanted),
        }
    }

    /// Returns a replication with exactly `replicas` replicas of each region, at least one and at
    /// most [`MAX_REPLICAS`].
    pub fn exactly(replicas: usize) -> Self {
        let f = replicas.saturating_sub(1);
        Self::new(f, f.saturating_add(1))
    }

    /// Returns the number of replicas of a region when enough machines are available: f + 1.
    pub fn wanted(self) -> usize {
        self.wanted
    }
}

/// The reason why a region cannot be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PlacementError {
    /// Too few machines can take a replica: wait for machines to join.
    #[error("{need} replicas need as many machines, and {have} can take one")]
    TooFewMachines {
        /// The smallest number of replicas.
        need: u16,
        /// The number of machines that can take one.
        have: u16,
    },
    /// Enough machines can take a replica, but too few failure domains.
    #[error("{need} replicas need as many failure domains, and {have} can take one")]
    TooFewDomains {
        /// The smallest number of replicas.
        need: u16,
        /// The number of domains with a machine that can take one.
        have: u16,
    },
    /// The requested primary cannot take the region: place the region elsewhere, or free memory.
    #[error("{machine} is to be the primary and cannot take a region")]
    PrimaryUnavailable {
        /// The machine that refused the region or is not a member.
        machine: MachineId,
    },
    /// A machine of the group cannot take the region: place the region elsewhere, or free memory.
    #[error("{machine} holds {group} and cannot take another region")]
    GroupUnavailable {
        /// The group of the region.
        group: GroupId,
        /// The machine that refused the region or is not a member.
        machine: MachineId,
    },
}

/// The numbers of replicas that a machine holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// The number of regions whose primary is this machine.
    pub primaries: usize,
    /// The number of regions of which this machine is the primary or a backup.
    pub replicas: usize,
}

/// The load of every machine of a configuration, from which machines for new regions are chosen.
#[derive(Clone, Debug)]
pub struct Placement {
    domains: FewMap<FailureDomain, FewMap<MachineId, Load>>,
}

/// A machine that may be chosen.
struct Candidate<'a> {
    domain: &'a FailureDomain,
    machine: MachineId,
    load: Load,
    /// Whether the machine's domain must be used.
    due: bool,
    /// A pseudo-random number per region that decides between equal candidates.
    lot: u64,
}

impl Placement {
    /// Returns a placement of a configuration's machines without regions.
    pub fn new(configuration: &Configuration) -> Self {
        let mut domains: FewMap<_, FewMap<_, _>> = FewMap::new();
        for machine in configuration.machines() {
            let members = domains.entry(machine.domain.clone()).or_default();
            members.insert(machine.id, Load::default());
        }
        Self { domains }
    }

    /// Returns the load of a machine; `None` if it is not a member.
    pub fn load(&self, machine: MachineId) -> Option<Load> {
        self.domains
            .values()
            .find_map(|members| members.get(&machine).copied())
    }

    /// Counts the replicas of a placed region.
    pub fn hold(&mut self, replicas: &Replicas) {
        self.count(replicas, |held| held.saturating_add(1));
    }

    /// Undoes [`Self::hold`].
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

    /// Chooses the machines for the first region of a group, none of them in `excluded`.
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

    /// Chooses the machines for the first region of a group whose primary is to be `primary`, none
    /// of them in `excluded`.
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
        // A machine with more replicas would be too far above the least loaded one (PLACE-4).
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

    /// Returns up to `count` further machines for regions that the machines in `having` hold: the
    /// least loaded ones. All domains differ, from each other and from those of `having`, and no
    /// machine is in `excluded`.
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

    /// Returns the number of replicas to place, and the machines that are equally good by load.
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

    /// Returns the machines for a region near `other`: those of its group, none of them in
    /// `excluded`.
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

/// Checks that these numbers of machines and domains are enough for `replication`.
fn check(replication: Replication, machines: usize, domains: usize) -> Result<(), PlacementError> {
    // Both numbers are at most MAX_MACHINES, so the casts lose nothing.
    let (need, count) = (replication.least as u16, |n: usize| n as u16);
    if machines < replication.least {
        let have = count(machines);
        return Err(PlacementError::TooFewMachines { need, have });
    }
    if domains < replication.least {
        let have = count(domains);
        return Err(PlacementError::TooFewDomains { need, have });
    }
    Ok(())
}
