//! The set of existing regions, as derived from the answers of the remaining machines.
//!
//! *The rule.* A region exists if a remaining machine has committed it or knows its mapping:
//! machines learn only of existing regions (ALLOC-1). A region also exists if all of its remaining
//! replicas have prepared it in the same attempt, because it may be in use then. Any other prepared
//! region never existed.
//!
//! *Mappings that were never in force* (REMAP-5). A machine may answer before it applies the
//! configuration whose CM has given its replica up. Then not all members have applied that
//! configuration, so it was never in force (RECONF-1). No transaction has committed without the
//! replica, and its data are complete. The mapping that the machine has is valid: its replica
//! counts, and the primary in that mapping remains the primary.
//!
//! ```text
//! configuration   mapping of r2   applied by
//! 14, in force    4, 3, 9         all
//! 15              3, 9            the CM alone; then machines 3 and 9 fail
//! 16              4, and another  machine 4 still has the data
//! ```
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
    /// The newest mapping that may have been in force.
    pub mapping: Mapping,
    /// Whether some machine knows a newer mapping, which was never in force.
    pub reverted: bool,
    /// The request that the region was made for, and the remaining machines that hold it: true with
    /// all data. `None` and empty for a lost region.
    pub request: Option<RequestId>,
    pub holders: FewMap<MachineId, bool>,
    /// The remaining machines that have prepared another attempt under the region's number. They
    /// get no replica in the next configuration. Otherwise a machine that does not apply it would
    /// seem to have the region's data ([`is_of_attempt`]).
    pub stale: FewSet<MachineId>,
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
    let mut known: FewMap<RegionId, Vec<&Mapping>> = FewMap::new();
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
                known.entry(id).or_default().push(&region.mapping);
            }
        }
        for mapping in &holdings.known {
            let id = mapping.region;
            gathered.next_region = gathered.next_region.max(id.0.saturating_add(1));
            known.entry(id).or_default().push(mapping);
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
    let nowhere = FewMap::new();
    for (region, known) in &known {
        let holders = held.get(region).unwrap_or(&nowhere);
        if let Some(found) = of_committed(known, holders) {
            gathered.regions.insert(*region, found);
        }
    }
    for (region, holders) in &held {
        if !known.contains_key(region)
            && let Some(found) = of_prepared(holders, &left)
        {
            gathered.regions.insert(*region, found);
        }
        let mut found = gathered.regions.get_mut(region);
        for machine in holders.keys() {
            let holds = found
                .as_ref()
                .map(|found| found.holders.contains_key(machine));
            if holds != Some(true) {
                gathered.given_up.entry(*machine).or_default().push(*region);
            }
            if let Some(found) = found.as_mut().filter(|_| holds == Some(false)) {
                found.stale.insert(*machine);
            }
        }
    }
    gathered
}

/// Describes a region that certainly exists, of which these mappings are known; `None` if there are
/// none.
fn of_committed(known: &[&Mapping], held: &FewMap<MachineId, &HeldRegion>) -> Option<KnownRegion> {
    let newest = *known.iter().max_by_key(|known| known.last_replica_change)?;
    let mut committed = held.values().filter(|region| region.committed);
    let of_attempt = committed.next().map(|region| region.request);
    let holds = |machine: MachineId, region: &HeldRegion| {
        let same_request = of_attempt.is_none_or(|request| request == region.request);
        region.committed || same_request && is_of_attempt(machine, &region.mapping, known, newest)
    };
    let holders = held.iter().filter(|(m, region)| holds(**m, region));
    let holders: FewMap<MachineId, &HeldRegion> = holders.map(|(m, held)| (*m, *held)).collect();
    let mapping = newest_in_force(newest, &holders);
    let first = holders.values().next().map(|region| region.request);
    Some(KnownRegion {
        mapping: mapping.clone(),
        reverted: mapping.last_replica_change < newest.last_replica_change,
        request: of_attempt.or(first),
        holders: holders
            .into_iter()
            .map(|(m, held)| (m, held.whole))
            .collect(),
        stale: FewSet::new(),
    })
}

/// Returns whether a machine that has only prepared a region, with the mapping `prepared`, did so
/// in the attempt that made the region. If the machine has missed a later mapping, the CM that made
/// the mapping had this answer too (RECONF-4). That CM gave the machine a place in the mapping only
/// if the attempt was the same ([`KnownRegion::stale`]).
fn is_of_attempt(
    machine: MachineId,
    prepared: &Mapping,
    known: &[&Mapping],
    newest: &Mapping,
) -> bool {
    let missed = prepared.last_replica_change < newest.last_replica_change;
    known.contains(&prepared) || missed && newest.replicas.has(machine)
}

/// Returns the newest mapping of a region that may have been in force: `newest`, unless a machine
/// that is no replica in it has the data and an older mapping.
fn newest_in_force<'a>(
    newest: &'a Mapping,
    holders: &FewMap<MachineId, &'a HeldRegion>,
) -> &'a Mapping {
    let mut mapping = newest;
    loop {
        let older = holders.iter().filter(|(machine, region)| {
            let since = region.mapping.last_replica_change;
            region.whole && since < mapping.last_replica_change && !mapping.replicas.has(**machine)
        });
        let older = older.map(|(_, region)| &region.mapping);
        match older.min_by_key(|mapping| mapping.last_replica_change) {
            Some(older) => mapping = older,
            None => return mapping,
        }
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
        reverted: false,
        request: Some(region.request),
        holders: holders.into_iter().map(|machine| (machine, true)).collect(),
        stale: FewSet::new(),
    })
}
