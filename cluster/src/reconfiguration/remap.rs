//! Region remapping: the new CM assigns the regions of lost machines to other machines.
//!
//! *Invariants.*
//! 1. REMAP-1: a replica that becomes the primary has all data of the region. A remaining primary
//!    stays the primary.
//! 2. REMAP-2: remaining replicas stay. Further replicas replace the lost ones, as far as there are
//!    machines in other domains. Regions that have too few replicas are reported.
//! 3. REMAP-3: a region of which no replica with data is left is lost, and is reported. It is not
//!    part of the map.
//! 4. REMAP-4: a replica is given up only if the staying replicas are as many as wanted and have
//!    all data of the group. The configuration must not have lost a machine.
//! 5. REMAP-5: a configuration that was never in force gives no replica up. A machine that has not
//!    applied it keeps its replica with data, and remains the primary if it was
//!    ([`super::gather`]).
//!
//! *Leaving machines* get no new replicas, and become primaries only if no other machine has the
//! data. Their regions first get other replicas, which copy the data while all work continues. Once
//! those replicas are whole, that is, have all data, the next configuration gives up the replicas
//! on leaving machines. If such a replica was the primary, a whole backup takes over, as after a
//! failure (SOSP'15 §5.2). In contrast to a failure, all machines are present that hold data of
//! transactions in progress.
//!
//! The regions of a group stay together (MAP-2): they are promoted and completed on the same
//! machines. If a machine lacks memory for some of them, replicas take precedence over co-location.

use fencepost_fabric::MachineId;

use super::balance::{RegionGroup, rank};
use super::gather::{KnownRegion, KnownRegions};
use crate::allocation::RequestId;
use crate::configuration::Configuration;
use crate::few::{FewMap, FewSet};
use crate::ids::ConfigurationId;
use crate::placement::{Placement, Replication};
use crate::region::{GroupId, MAX_REPLICAS, Mapping, RegionId, Replicas};
use crate::region_map::{MapVersion, RegionMap};

/// The mappings of all regions in the new configuration.
#[derive(Debug)]
pub(super) struct RemapResult {
    pub map: RegionMap,
    pub requests: FewMap<RegionId, RequestId>,
    pub lost: Vec<RegionId>,
    pub under_replicated: Vec<RegionId>,
    /// Whether surplus replicas wait until the staying ones are whole.
    pub moving: bool,
}

/// A region that is not lost, and the machines that still hold it in the new configuration.
struct SurvivingRegion<'a> {
    found: &'a KnownRegion,
    request: RequestId,
    holders: FewMap<MachineId, bool>,
    primary: MachineId,
}

impl SurvivingRegion<'_> {
    fn region(&self) -> RegionId {
        self.found.mapping.region
    }

    fn is_whole_at(&self, machine: MachineId) -> bool {
        self.holders.get(&machine) == Some(&true)
    }
}

/// Optional changes that a configuration may make besides.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OptionalChanges {
    /// Whether replicas may be given up: all machines are present, and all regions are as whole as
    /// possible.
    pub settled: bool,
    /// Whether regions are moved to less loaded machines.
    pub balances: bool,
}

/// The machines that are to hold the regions of a group.
struct Goal {
    machines: FewSet<MachineId>,
    /// The machine that takes over from a primary that is not among them.
    heir: Option<MachineId>,
    /// Whether the machines include some that give the regions up later.
    moving: bool,
}

/// Computes the mappings of the regions of `gathered` in the configuration `next`; machines in
/// `full` get no further replicas.
pub(super) fn remap_regions(
    gathered: &KnownRegions,
    next: &Configuration,
    replication: Replication,
    full: &FewSet<MachineId>,
    occasion: OptionalChanges,
) -> RemapResult {
    let mut remapped = RemapResult {
        map: RegionMap::new(next.id()),
        requests: FewMap::new(),
        lost: Vec::new(),
        under_replicated: Vec::new(),
        moving: false,
    };
    let leaving = next.leaving();
    let closed = full.iter().chain(&leaving).copied().collect();
    let mut groups: FewMap<GroupId, Vec<SurvivingRegion<'_>>> = FewMap::new();
    for (region, found) in &gathered.regions {
        match what_is_left(found, next) {
            Some(left) => groups.entry(found.mapping.group).or_default().push(left),
            None => remapped.lost.push(*region),
        }
    }
    let mut placement = Placement::new(next);
    let bereft = |group: &[SurvivingRegion<'_>]| {
        let mut all = group.iter();
        all.any(|left| !left.is_whole_at(left.found.mapping.replicas.primary()))
    };
    // Replicas that stay are counted before any choice is made.
    for group in groups.values().filter(|group| !bereft(group)) {
        group
            .iter()
            .for_each(|left| placement.hold(&left_replicas(left)));
    }
    for group in groups.values_mut().filter(|group| bereft(group)) {
        promote(group, &placement, &leaving);
        group
            .iter()
            .for_each(|left| placement.hold(&left_replicas(left)));
    }
    let mut mappings = Vec::new();
    for group in groups.values() {
        let closed = closed_to(group, &closed);
        let stay = machines_for(group, &placement, replication, (&closed, &leaving));
        let goal = goal_of(group, &placement, replication, (stay, &leaving), occasion);
        remapped.moving |= goal.moving;
        for left in group {
            let mapping = mapping_of(left, &goal, &closed, next);
            placement.release(&left_replicas(left));
            placement.hold(&mapping.replicas);
            if mapping.replicas.count() < replication.wanted() {
                remapped.under_replicated.push(left.region());
            }
            remapped.requests.insert(left.region(), left.request);
            mappings.push(mapping);
        }
    }
    if occasion.balances && !remapped.moving {
        remapped.moving = balance(&groups, &mut mappings, &placement, &closed, next.id());
    }
    remapped.under_replicated.sort_unstable();
    let version = MapVersion {
        configuration: next.id(),
        changes: 0,
    };
    remapped.map.learn(version, mappings);
    remapped
}

/// Adds a replica to one group, so that another replica can be given up and the loads become more
/// equal. Returns whether there is such a group. The surplus replica waits until all are whole.
fn balance(
    groups: &FewMap<GroupId, Vec<SurvivingRegion<'_>>>,
    mappings: &mut [Mapping],
    placement: &Placement,
    closed: &FewSet<MachineId>,
    id: ConfigurationId,
) -> bool {
    let mut by_group: FewMap<GroupId, Vec<&mut Mapping>> = FewMap::new();
    for mapping in mappings {
        by_group.entry(mapping.group).or_default().push(mapping);
    }
    let step = |(group, mappings): (&GroupId, &Vec<&mut Mapping>)| {
        let replicas = &mappings.first()?.replicas;
        let same = |mapping: &&mut Mapping| {
            let own = &mapping.replicas;
            let same = own.count() == replicas.count() && own.primary() == replicas.primary();
            same && own.all().all(|m| replicas.has(m))
        };
        let together = RegionGroup {
            group: group.0,
            count: mappings.len(),
            primary: replicas.primary(),
            placement,
        };
        // A machine that still gives the group up does not become its backup again before it has.
        let group_regions = groups.get(group)?;
        let holders = group_regions.iter().flat_map(|left| left.holders.keys());
        let closed = closed_to(group_regions, closed).into_iter();
        let closed = closed.chain(holders.copied()).collect();
        let (cost, to) = together.step(replicas, &closed)?;
        mappings.iter().all(same).then_some((cost, *group, to))
    };
    let Some((_, group, to)) = by_group.iter().filter_map(step).min() else {
        return false;
    };
    let is_whole = |left: &SurvivingRegion<'_>| left.holders.values().all(|whole| *whole);
    let whole = groups.values().flatten().all(is_whole);
    for mapping in by_group.remove(&group).into_iter().flatten() {
        let replicas = &mapping.replicas;
        let more = replicas.backups().iter().copied().chain([to]).collect();
        if let Some(more) = Replicas::new(replicas.primary(), more).filter(|_| whole) {
            mapping.replicas = more;
            mapping.last_replica_change = id;
        }
    }
    true
}

/// Returns the remaining holders of a region; `None` if the region is lost.
fn what_is_left<'a>(found: &'a KnownRegion, next: &Configuration) -> Option<SurvivingRegion<'a>> {
    let replicas = found.mapping.replicas.all();
    let holders = replicas.filter_map(|machine| {
        let whole = found.holders.get(&machine).filter(|_| next.has(machine))?;
        Some((machine, *whole))
    });
    let holders: FewMap<MachineId, bool> = holders.collect();
    let mut whole = found
        .mapping
        .replicas
        .all()
        .filter(|m| holders.get(m) == Some(&true));
    Some(SurvivingRegion {
        primary: whole.next()?,
        request: found.request?,
        found,
        holders,
    })
}

/// Returns the machines that get no new replicas of a group, given those that get none at all.
fn closed_to(group: &[SurvivingRegion<'_>], closed: &FewSet<MachineId>) -> FewSet<MachineId> {
    let stale = group.iter().flat_map(|left| &left.found.stale);
    closed.iter().chain(stale).copied().collect()
}

/// Chooses the backup that becomes the primary: the same machine for all regions whose data it has.
fn promote(group: &mut [SurvivingRegion<'_>], placement: &Placement, leaving: &FewSet<MachineId>) {
    let machines: FewSet<MachineId> = group
        .iter()
        .flat_map(|left| left.holders.keys().copied())
        .collect();
    let mut ranked: Vec<MachineId> = machines.into_iter().collect();
    let group_id = group_of(group);
    ranked.sort_by_key(|machine| {
        let lacking = group
            .iter()
            .filter(|left| !left.is_whole_at(*machine))
            .count();
        (
            lacking,
            leaving.contains(machine),
            rank(*machine, group_id, placement),
        )
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

fn left_replicas(left: &SurvivingRegion<'_>) -> Replicas {
    replicas(left.primary, left.holders.keys().copied())
}

fn replicas(primary: MachineId, machines: impl Iterator<Item = MachineId>) -> Replicas {
    let others: FewSet<MachineId> = machines.filter(|machine| *machine != primary).collect();
    let backups = others.into_iter().take(MAX_REPLICAS - 1).collect();
    Replicas::new(primary, backups).expect("they are of a set, and few")
}

/// Returns the machines on which the regions of a group stay, or to which they are added. Machines
/// in `closed`, which include all `leaving` ones, get no new replicas.
fn machines_for(
    group: &[SurvivingRegion<'_>],
    placement: &Placement,
    replication: Replication,
    (closed, leaving): (&FewSet<MachineId>, &FewSet<MachineId>),
) -> FewSet<MachineId> {
    let all: FewSet<MachineId> = group
        .iter()
        .flat_map(|left| left.holders.keys().copied())
        .collect();
    let stays = |machine: &MachineId| {
        let in_all = || group.iter().all(|left| left.holders.contains_key(machine));
        let data_in_one = || group.iter().any(|left| left.is_whole_at(*machine));
        !leaving.contains(machine) && (!closed.contains(machine) || in_all() || data_in_one())
    };
    let mut machines: FewSet<MachineId> = all.into_iter().filter(stays).collect();
    if let Some(first) = group.first() {
        let having: Vec<MachineId> = machines.iter().copied().collect();
        let count = replication.wanted().saturating_sub(having.len());
        machines.extend(placement.more(first.region(), &having, count, closed));
    }
    machines
}

/// Returns the machines for the regions of a group that are to `stay` on these machines. Machines
/// that are `leaving` still hold some of the regions.
fn goal_of(
    group: &[SurvivingRegion<'_>],
    placement: &Placement,
    replication: Replication,
    (mut stay, leaving): (FewSet<MachineId>, &FewSet<MachineId>),
    occasion: OptionalChanges,
) -> Goal {
    let holders = group.iter().flat_map(|left| left.holders.keys().copied());
    let parting: FewSet<MachineId> = holders.filter(|m| leaving.contains(m)).collect();
    let wanted = replication.wanted();
    let moving = stay.len() >= wanted && stay.len() + parting.len() > wanted;
    let is_whole = |machine: &MachineId| group.iter().all(|left| left.is_whole_at(*machine));
    if !(moving && occasion.settled && stay.iter().all(is_whole)) {
        // The group is not ready to give up replicas (REMAP-4).
        stay.extend(parting);
        return Goal {
            machines: stay,
            heir: None,
            moving,
        };
    }
    let together = together(group, placement);
    while stay.len() > wanted {
        let too_many = together.too_many(&stay);
        too_many.map(|machine| stay.remove(&machine));
    }
    Goal {
        heir: together.heir(&stay),
        machines: stay,
        moving: false,
    }
}

fn group_of(group: &[SurvivingRegion<'_>]) -> RegionId {
    let first = group.first();
    first.map_or(RegionId(0), |left| left.found.mapping.group.0)
}

fn together<'a>(group: &[SurvivingRegion<'_>], placement: &'a Placement) -> RegionGroup<'a> {
    let primary = group.first().map_or(MachineId(0), |left| left.primary);
    RegionGroup {
        group: group_of(group),
        count: group.len(),
        primary,
        placement,
    }
}

fn mapping_of(
    left: &SurvivingRegion<'_>,
    goal: &Goal,
    closed: &FewSet<MachineId>,
    next: &Configuration,
) -> Mapping {
    let before = &left.found.mapping;
    let able = |m: &MachineId| left.holders.contains_key(m) || !closed.contains(m);
    let machines = goal.machines.iter().copied().filter(able);
    let primary = match goal.heir {
        Some(heir) if !goal.machines.contains(&left.primary) => heir,
        _ => left.primary,
    };
    let replicas = replicas(primary, machines);
    let same = |a: &Replicas, b: &Replicas| {
        a.count() == b.count() && a.all().all(|machine| b.has(machine))
    };
    // Machines that know a later mapping than `before` must learn that both have changed since.
    let reverted = left.found.reverted;
    let same_primary = !reverted && replicas.primary() == before.replicas.primary();
    if same_primary && same(&replicas, &before.replicas) {
        return before.clone();
    }
    Mapping {
        region: before.region,
        group: before.group,
        replicas,
        last_primary_change: if same_primary {
            before.last_primary_change
        } else {
            next.id()
        },
        last_replica_change: next.id(),
    }
}
