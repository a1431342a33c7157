//! What regions there are, from what the machines that are left hold and know.
//!
//! *The rule.* A region is there if anybody who is left has committed it or knows its mapping, for nobody
//! learns of one that does not exist (ALLOC-1); or if all of its replicas that are left have prepared it, as of one
//! attempt, for then it may be in use. Any other that was prepared never was.
//!
//! Who answered has been taking no part in allocation since (see [`super::ReconfigurationMessage::Probe`]), so
//! that nothing comes to be behind the back of the new CM.

use fencepost_fabric::MachineId;

use super::message::Holdings;
use crate::allocation::{HeldRegion, RequestId};
use crate::few::{FewMap, FewSet};
use crate::ids::ConfigurationId;
use crate::region::{Mapping, RegionId};

/// A region that exists.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// Where it was, as of the newest configuration that anybody has applied.
    pub mapping: Mapping,
    /// What it was made for, and who of the machines that are left holds it, and whether with all its data;
    /// `None` and nobody where it is lost.
    pub request: Option<RequestId>,
    pub holders: FewMap<MachineId, bool>,
}

/// What all machines that are left hold and know.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub regions: FewMap<RegionId, Found>,
    /// What each machine has prepared that does not exist.
    pub given_up: FewMap<MachineId, Vec<RegionId>>,
    pub last_drained: FewMap<MachineId, ConfigurationId>,
    pub next_region: u32,
}

impl Gathered {
    /// Whether nobody who is left has all data of some region.
    pub fn loses_any(&self) -> bool {
        self.regions.values().any(|found| {
            let mut replicas = found.mapping.replicas.all();
            !replicas.any(|machine| found.holders.get(&machine) == Some(&true))
        })
    }
}

/// What `answers` come to.
pub(super) fn gather(answers: &FewMap<MachineId, Holdings>) -> Gathered {
    let mut known: FewMap<RegionId, Mapping> = FewMap::new();
    let mut held: FewMap<RegionId, FewMap<MachineId, &HeldRegion>> = FewMap::new();
    let mut gathered = Gathered::default();
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
    // A CM that has applied no later configuration numbers the regions still; without one, all that it could
    // have numbered are passed over.
    let numbering = answers.values().any(|holdings| holdings.numbers);
    let told = answers
        .values()
        .filter(|holdings| holdings.numbers || !numbering);
    let next = told.map(|holdings| holdings.next_region.0).max();
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
        let found = Found {
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

/// A region that exists for certain. Who has but prepared it holds it if that was the same attempt.
fn of_committed(mapping: Mapping, held: &FewMap<MachineId, &HeldRegion>) -> Found {
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
    Found {
        mapping,
        request,
        holders,
    }
}

/// A region that exists if all who are left of its replicas have prepared it. Of two attempts under one number
/// at most the later can; of the earlier one some replica has nothing, so that the fuller one is taken.
fn of_prepared(held: &FewMap<MachineId, &HeldRegion>, left: &FewSet<MachineId>) -> Option<Found> {
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
    Some(Found {
        mapping: region.mapping.clone(),
        request: Some(region.request),
        holders: holders.into_iter().map(|machine| (machine, true)).collect(),
    })
}
