//! The set of existing regions, as derived from the answers of the remaining machines.
//!
//! *The rule.* A region exists if a remaining machine has committed it or knows its mapping:
//! machines learn only of existing regions (ALLOC-1). A region also exists if all of its remaining
//! replicas have prepared it in the same attempt, because it may be in use then. Any other prepared
//! region never existed.
//!
//! Machines that answered take no part in allocation since (see
//! [`super::ReconfigurationMessage::Probe`]). So no region is made without the knowledge of the new
//! CM.

use fencepost_fabric::MachineId;

use super::message::RegionReport;
use crate::allocation::{HeldRegion, RequestId};
use crate::few::{FewMap, FewSet};
use crate::ids::ConfigurationId;
use crate::region::{Mapping, RegionId};

/// A region that exists, with its holders.
#[derive(Clone, Debug)]
pub(super) struct KnownRegion {
    /// The mapping in the newest configuration that a machine has applied.
    pub mapping: Mapping,
    /// The request that the region was made for, and the remaining machines that hold it: true with
    /// all data. `None` and empty for a lost region.
    pub request: Option<RequestId>,
    pub holders: FewMap<MachineId, bool>,
}

/// The regions that all remaining machines hold and know.
#[derive(Debug, Default)]
pub(super) struct KnownRegions {
    pub regions: FewMap<RegionId, KnownRegion>,
    /// The regions that each machine has prepared and that do not exist.
    pub given_up: FewMap<MachineId, Vec<RegionId>>,
    pub last_drained: FewMap<MachineId, ConfigurationId>,
    pub next_region: u32,
}

impl KnownRegions {
    /// Returns whether no remaining machine has all data of some region.
    pub fn loses_any(&self) -> bool {
        self.regions.values().any(|found| {
            let mut replicas = found.mapping.replicas.all();
            !replicas.any(|machine| found.holders.get(&machine) == Some(&true))
        })
    }
}

/// Derives the existing regions from `answers`.
pub(super) fn gather(answers: &FewMap<MachineId, RegionReport>) -> KnownRegions {
    let mut known: FewMap<RegionId, Mapping> = FewMap::new();
    let mut held: FewMap<RegionId, FewMap<MachineId, &HeldRegion>> = FewMap::new();
    let mut gathered = KnownRegions::default();
    for (machine, holdings) in answers {
        gathered
            .last_drained
            .insert(*machine, holdings.last_drained);
        for region in &holdings.held {
            let id = region.mapping.region;
            gathered.next_region = gathered.next_region.max(id.0.saturating_add(1));
            held.entry(id).or_default().insert(*machine, region);
            if region.committed {
                learn(&mut known, &region.mapping);
            }
        }
        for mapping in &holdings.known {
            gathered.next_region = gathered.next_region.max(mapping.region.0.saturating_add(1));
            learn(&mut known, mapping);
        }
    }
    // A CM that has applied no later configuration still numbers the regions. Without such a CM,
    // all numbers that it could have used are skipped.
    let numbering = answers.values().any(|holdings| holdings.numbers);
    let reports = answers
        .values()
        .filter(|holdings| holdings.numbers || !numbering);
    let next = reports.map(|holdings| holdings.next_region.0).max();
    gathered.next_region = gathered.next_region.max(next.unwrap_or(0));
    let left: FewSet<MachineId> = answers.keys().copied().collect();
    for (region, holders) in &held {
        let found = match known.remove(region) {
            Some(mapping) => Some(of_committed(mapping, holders)),
            None => of_prepared(holders, &left),
        };
        for machine in holders.keys() {
            if !found
                .as_ref()
                .is_some_and(|f| f.holders.contains_key(machine))
            {
                gathered.given_up.entry(*machine).or_default().push(*region);
            }
        }
        if let Some(found) = found {
            gathered.regions.insert(*region, found);
        }
    }
    for (region, mapping) in known {
        let found = KnownRegion {
            mapping,
            request: None,
            holders: FewMap::new(),
        };
        gathered.regions.insert(region, found);
    }
    gathered
}

fn learn(known: &mut FewMap<RegionId, Mapping>, mapping: &Mapping) {
    let newest = known
        .entry(mapping.region)
        .or_insert_with(|| mapping.clone());
    if newest.last_replica_change < mapping.last_replica_change {
        *newest = mapping.clone();
    }
}

/// Describes a region that certainly exists. A machine that has only prepared it holds it if that
/// was the same attempt.
fn of_committed(mapping: Mapping, held: &FewMap<MachineId, &HeldRegion>) -> KnownRegion {
    let mut committed = held.values().filter(|region| region.committed);
    let of_attempt = committed.next().map(|region| region.request);
    let holds = |region: &HeldRegion| {
        region.committed
            || of_attempt.is_some_and(|request| request == region.request)
            || (of_attempt.is_none() && region.mapping == mapping)
    };
    let holders = held.iter().filter(|(_, region)| holds(region));
    let holders: FewMap<MachineId, bool> = holders.map(|(m, region)| (*m, region.whole)).collect();
    let request = of_attempt.or_else(|| {
        let first = holders.keys().next()?;
        Some(held.get(first)?.request)
    });
    KnownRegion {
        mapping,
        request,
        holders,
    }
}

/// Describes a region that exists if all of its remaining replicas have prepared it. Of two
/// attempts under one number at most the later one can exist. Some replica lacks the earlier one,
/// so the attempt with fewer missing replicas is taken.
fn of_prepared(
    held: &FewMap<MachineId, &HeldRegion>,
    left: &FewSet<MachineId>,
) -> Option<KnownRegion> {
    let prepared = held.values().filter_map(|region| {
        let replicas = &region.mapping.replicas;
        let same = |machine: &MachineId| {
            held.get(machine).is_some_and(|other| {
                other.mapping == region.mapping && other.request == region.request
            })
        };
        let holders: Vec<MachineId> = replicas.all().filter(|m| left.contains(m)).collect();
        let missing = replicas.count() - holders.len();
        holders
            .iter()
            .all(same)
            .then_some((missing, region, holders))
    });
    let (_, region, holders) = prepared.min_by_key(|(missing, ..)| *missing)?;
    Some(KnownRegion {
        mapping: region.mapping.clone(),
        request: Some(region.request),
        holders: holders.into_iter().map(|machine| (machine, true)).collect(),
    })
}
