//! Remap regions: the new CM gives the regions of machines that are lost to others.
//!
//! *Invariants.*
//! 1. REMAP-1: a replica that becomes the primary has all data of the region. A primary that is left stays.
//! 2. REMAP-2: replicas that are left stay, and further ones make up for those that are lost, as far as there are
//!    machines in other domains; regions that have fewer than they should are told.
//! 3. REMAP-3: a region of which no replica with its data is left is lost, and is told. It is no part of
//!    the map.
//!
//! The regions of a group stay together (MAP-2): they are promoted and completed on the same machines. Where
//! a machine has no memory for some of them, that comes first and togetherness second.

use std::collections::{BTreeMap, BTreeSet};

use fencepost_fabric::MachineId;

use super::gather::{Found, Gathered};
use crate::allocation::RequestId;
use crate::configuration::Configuration;
use crate::placement::{Placement, Replication};
use crate::region::{GroupId, MAX_REPLICAS, Mapping, RegionId, Replicas};
use crate::region_map::{MapVersion, RegionMap};
use crate::successors::mix;

/// Where all regions are in the new configuration.
#[derive(Debug)]
pub(super) struct Remapped {
    pub map: RegionMap,
    pub requests: BTreeMap<RegionId, RequestId>,
    pub lost: Vec<RegionId>,
    pub under_replicated: Vec<RegionId>,
}

/// A region that is left, and the machines that still hold it in the new configuration.
struct Left<'a> {
    found: &'a Found,
    request: RequestId,
    holders: BTreeMap<MachineId, bool>,
    primary: MachineId,
}

impl Left<'_> {
    fn region(&self) -> RegionId {
        self.found.mapping.region
    }

    fn is_whole_at(&self, machine: MachineId) -> bool {
        self.holders.get(&machine) == Some(&true)
    }
}

/// The regions of `gathered` in the configuration `next`; machines in `full` take no further ones.
pub(super) fn remap_regions(
    gathered: &Gathered,
    next: &Configuration,
    replication: Replication,
    full: &BTreeSet<MachineId>,
) -> Remapped {
    let mut remapped = Remapped {
        map: RegionMap::new(next.id()),
        requests: BTreeMap::new(),
        lost: Vec::new(),
        under_replicated: Vec::new(),
    };
    let mut groups: BTreeMap<GroupId, Vec<Left<'_>>> = BTreeMap::new();
    for (region, found) in &gathered.regions {
        match what_is_left(found, next) {
            Some(left) => groups.entry(found.mapping.group).or_default().push(left),
            None => remapped.lost.push(*region),
        }
    }
    let mut placement = Placement::new(next);
    let bereft = |group: &[Left<'_>]| {
        let mut all = group.iter();
        all.any(|left| !left.is_whole_at(left.found.mapping.replicas.primary()))
    };
    // Those who stay what they are count before any choice is made.
    for group in groups.values().filter(|group| !bereft(group)) {
        group
            .iter()
            .for_each(|left| placement.hold(&left_replicas(left)));
    }
    for group in groups.values_mut().filter(|group| bereft(group)) {
        promote(group, &placement);
        group
            .iter()
            .for_each(|left| placement.hold(&left_replicas(left)));
    }
    let mut mappings = Vec::new();
    for group in groups.values() {
        let machines = machines_for(group, &placement, replication, full);
        for left in group {
            let mapping = mapping_of(left, &machines, full, next);
            placement.release(&left_replicas(left));
            placement.hold(&mapping.replicas);
            if mapping.replicas.count() < replication.wanted() {
                remapped.under_replicated.push(left.region());
            }
            remapped.requests.insert(left.region(), left.request);
            mappings.push(mapping);
        }
    }
    remapped.under_replicated.sort_unstable();
    let version = MapVersion {
        configuration: next.id(),
        changes: 0,
    };
    remapped.map.learn(version, mappings);
    remapped
}

/// `None` for a region that is lost.
fn what_is_left<'a>(found: &'a Found, next: &Configuration) -> Option<Left<'a>> {
    let replicas = found.mapping.replicas.all();
    let holders = replicas.filter_map(|machine| {
        let whole = found.holders.get(&machine).filter(|_| next.has(machine))?;
        Some((machine, *whole))
    });
    let holders: BTreeMap<MachineId, bool> = holders.collect();
    let mut whole = found
        .mapping
        .replicas
        .all()
        .filter(|m| holders.get(m) == Some(&true));
    Some(Left {
        primary: whole.next()?,
        request: found.request?,
        found,
        holders,
    })
}

/// Chooses the backup that becomes the primary: the same one for all regions that it has the data of.
fn promote(group: &mut [Left<'_>], placement: &Placement) {
    let machines: BTreeSet<MachineId> = group
        .iter()
        .flat_map(|left| left.holders.keys().copied())
        .collect();
    let mut ranked: Vec<MachineId> = machines.into_iter().collect();
    let seed = group.first().map_or(0, |left| left.found.mapping.group.0.0);
    ranked.sort_by_key(|machine| {
        let lacking = group
            .iter()
            .filter(|left| !left.is_whole_at(*machine))
            .count();
        let primaries = placement.load(*machine).map_or(0, |load| load.primaries);
        let lot = mix((u64::from(seed) << 32) | u64::from(machine.0));
        (lacking, primaries, lot)
    });
    for left in group {
        let was = left.found.mapping.replicas.primary();
        let mut able = ranked.iter().filter(|machine| left.is_whole_at(**machine));
        if !left.is_whole_at(was)
            && let Some(machine) = able.next()
        {
            left.primary = *machine;
        }
    }
}

fn left_replicas(left: &Left<'_>) -> Replicas {
    replicas(left.primary, left.holders.keys().copied())
}

fn replicas(primary: MachineId, machines: impl Iterator<Item = MachineId>) -> Replicas {
    let others: BTreeSet<MachineId> = machines.filter(|machine| *machine != primary).collect();
    let backups = others.into_iter().take(MAX_REPLICAS - 1).collect();
    Replicas::new(primary, backups).expect("they are of a set, and few")
}

/// The machines that the regions of a group are to be on.
fn machines_for(
    group: &[Left<'_>],
    placement: &Placement,
    replication: Replication,
    full: &BTreeSet<MachineId>,
) -> BTreeSet<MachineId> {
    let all: BTreeSet<MachineId> = group
        .iter()
        .flat_map(|left| left.holders.keys().copied())
        .collect();
    let stays = |machine: &MachineId| {
        let in_all = || group.iter().all(|left| left.holders.contains_key(machine));
        let data_in_one = || group.iter().any(|left| left.is_whole_at(*machine));
        !full.contains(machine) || in_all() || data_in_one()
    };
    let mut machines: BTreeSet<MachineId> = all.into_iter().filter(stays).collect();
    if let Some(founder) = group.first() {
        let having: Vec<MachineId> = machines.iter().copied().collect();
        let count = replication.wanted().saturating_sub(having.len());
        machines.extend(placement.more(founder.region(), &having, count, full));
    }
    machines
}

fn mapping_of(
    left: &Left<'_>,
    machines: &BTreeSet<MachineId>,
    full: &BTreeSet<MachineId>,
    next: &Configuration,
) -> Mapping {
    let before = &left.found.mapping;
    let able = |m: &MachineId| left.holders.contains_key(m) || !full.contains(m);
    let replicas = replicas(left.primary, machines.iter().copied().filter(able));
    let same = |a: &Replicas, b: &Replicas| {
        a.count() == b.count() && a.all().all(|machine| b.has(machine))
    };
    let (mut primary_change, mut replica_change) =
        (before.last_primary_change, before.last_replica_change);
    let replicas =
        if replicas.primary() == before.replicas.primary() && same(&replicas, &before.replicas) {
            before.replicas.clone()
        } else {
            replica_change = next.id();
            replicas
        };
    if replicas.primary() != before.replicas.primary() {
        primary_change = next.id();
    }
    Mapping {
        region: before.region,
        group: before.group,
        replicas,
        last_primary_change: primary_change,
        last_replica_change: replica_change,
    }
}
