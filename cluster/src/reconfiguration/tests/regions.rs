//! Which regions exist after a failure, and where they are placed.

use fencepost_fabric::MachineId;

use super::node::Node;
use crate::allocation::{HeldRegion, RegionBody, RegionMessage, RequestId, RequestedPlacement};
use crate::configuration::Configuration;
use crate::few::{FewMap, FewSet};
use crate::ids::ConfigurationId;
use crate::placement::Replication;
use crate::reconfiguration::RegionReport;
use crate::reconfiguration::gather::{KnownRegions, gather};
use crate::reconfiguration::remap::{OptionalChanges, RemapResult, remap_regions};
use crate::region::{GroupId, Mapping, RegionId, Replicas};
use crate::testing;

pub(super) fn m(id: u32) -> MachineId {
    MachineId(id)
}

pub(super) fn mapping(region: u32, group: u32, replicas: &[u32], since: u64) -> Mapping {
    let backups = replicas[1..].iter().copied().map(MachineId).collect();
    Mapping {
        region: RegionId(region),
        group: GroupId(RegionId(group)),
        replicas: Replicas::new(m(replicas[0]), backups).unwrap(),
        last_primary_change: ConfigurationId(since),
        last_replica_change: ConfigurationId(since),
    }
}

pub(super) fn request(number: u64) -> RequestId {
    RequestId {
        machine: m(1),
        number,
    }
}

fn held(mapping: &Mapping, number: u64, committed: bool) -> HeldRegion {
    HeldRegion {
        mapping: mapping.clone(),
        request: request(number),
        committed,
        whole: true,
    }
}

pub(super) fn committed(mapping: &Mapping) -> HeldRegion {
    held(mapping, 1, true)
}

pub(super) fn prepared(mapping: &Mapping) -> HeldRegion {
    held(mapping, 1, false)
}

pub(super) fn holdings(held: Vec<HeldRegion>, known: Vec<Mapping>) -> RegionReport {
    RegionReport {
        last_drained: ConfigurationId(3),
        held,
        known,
        next_region: RegionId(100),
        numbers: false,
        granted_ns: 0,
        time_ns: None,
    }
}

pub(super) fn answers(list: Vec<(u32, RegionReport)>) -> FewMap<MachineId, RegionReport> {
    list.into_iter()
        .map(|(id, holdings)| (m(id), holdings))
        .collect()
}

fn found(gathered: &KnownRegions) -> Vec<u32> {
    gathered.regions.keys().map(|region| region.0).collect()
}

#[test]
fn region_prepared_on_all_survivors_is_kept_else_dropped() {
    let (both, one, on_evicted) = (
        mapping(1, 1, &[1, 2], 3),
        mapping(2, 2, &[1, 2], 3),
        mapping(3, 3, &[1, 9], 3),
    );
    let first = vec![
        held(&both, 1, false),
        held(&one, 2, false),
        held(&on_evicted, 3, false),
    ];
    let second = vec![held(&both, 1, false)];
    let gathered = gather(&answers(vec![
        (1, holdings(first, vec![])),
        (2, holdings(second, vec![])),
    ]));
    assert_eq!(found(&gathered), [1, 3], "of r3 the other replica is lost");
    assert_eq!(gathered.regions[&RegionId(1)].request, Some(request(1)));
    assert_eq!(gathered.given_up, [(m(1), vec![RegionId(2)])].into());
}

#[test]
fn region_committed_or_known_anywhere_is_kept() {
    let (committed, known) = (mapping(1, 1, &[1, 2], 3), mapping(2, 2, &[1, 2], 3));
    let first = vec![held(&committed, 1, true), held(&known, 2, false)];
    let second = vec![held(&committed, 1, false)];
    let gathered = gather(&answers(vec![
        (1, holdings(first, vec![])),
        (2, holdings(second, vec![])),
        (3, holdings(vec![], vec![known])),
    ]));
    assert_eq!(found(&gathered), [1, 2]);
    let holders = |region| gathered.regions[&RegionId(region)].holders.keys().copied();
    assert_eq!(holders(1).collect::<Vec<_>>(), [m(1), m(2)]);
    assert_eq!(holders(2).collect::<Vec<_>>(), [m(1)]);
}

#[test]
fn another_attempt_under_the_same_number_is_another_region() {
    let (old, new) = (mapping(1, 1, &[3, 9], 3), mapping(1, 1, &[1, 2], 3));
    let left_over = vec![held(&old, 1, false)];
    let prepared = || vec![held(&new, 1, false)];
    let gathered = gather(&answers(vec![
        (1, holdings(prepared(), vec![])),
        (2, holdings(prepared(), vec![])),
        (3, holdings(left_over, vec![])),
    ]));
    assert_eq!(
        gathered.regions[&RegionId(1)].mapping,
        new,
        "all of its replicas have it"
    );
    assert_eq!(gathered.given_up, [(m(3), vec![RegionId(1)])].into());
}

#[test]
fn newest_mapping_wins_and_region_numbers_are_not_reused() {
    let (old, new) = (mapping(1, 1, &[1, 2], 3), mapping(1, 1, &[1, 3], 4));
    let mut list = vec![
        (1, holdings(vec![held(&old, 1, true)], vec![])),
        (3, holdings(vec![held(&new, 1, true)], vec![])),
    ];
    let gathered = gather(&answers(list.clone()));
    assert_eq!(gathered.regions[&RegionId(1)].mapping, new);
    assert_eq!(
        gathered.next_region, 100,
        "no number that the former CM could have given"
    );
    list[0].1.numbers = true;
    list[0].1.next_region = RegionId(2);
    assert_eq!(
        gather(&answers(list)).next_region,
        2,
        "the CM is there and knows"
    );
}

/// Remaps the regions `of` in a configuration of `machines` after the loss of all but `left`.
fn remap(
    of: &[Mapping],
    empty: &[(u32, u32)],
    domains: &[u32],
    left: &[u32],
    f: usize,
) -> RemapResult {
    let before = testing::configuration(domains);
    let lost = before.machines().iter().map(|machine| machine.id);
    let lost: FewSet<MachineId> = lost.filter(|id| !left.contains(&id.0)).collect();
    let next = before.without(&lost, m(left[0])).unwrap();
    remap_in(of, empty, &next, f, &[])
}

/// Returns the answers of the members about these regions; those in `empty` are not whole.
fn gathered_in(of: &[Mapping], empty: &[(u32, u32)], next: &Configuration) -> KnownRegions {
    let answers = next.machines().iter().map(|machine| {
        let regions = of.iter().filter(|mapping| mapping.replicas.has(machine.id));
        let regions = regions.map(|mapping| HeldRegion {
            whole: !empty.contains(&(mapping.region.0, machine.id.0)),
            ..held(mapping, u64::from(mapping.region.0), true)
        });
        (machine.id, holdings(regions.collect(), of.to_vec()))
    });
    gather(&answers.collect())
}

fn remap_in(
    of: &[Mapping],
    empty: &[(u32, u32)],
    next: &Configuration,
    f: usize,
    full: &[u32],
) -> RemapResult {
    let gathered = gathered_in(of, empty, next);
    let full = full.iter().copied().map(MachineId).collect();
    remap_regions(
        &gathered,
        next,
        Replication::new(f, 1),
        &full,
        OptionalChanges::default(),
    )
}

fn of(remapped: &RemapResult, region: u32) -> (u32, FewSet<u32>, u64, u64) {
    let mapping = remapped.map.get(RegionId(region)).unwrap();
    (
        mapping.replicas.primary().0,
        mapping.replicas.all().map(|machine| machine.0).collect(),
        mapping.last_primary_change.0,
        mapping.last_replica_change.0,
    )
}

#[test]
fn backup_is_promoted_and_new_backup_is_chosen() {
    let regions = [
        mapping(1, 1, &[1, 2], 3),
        mapping(2, 2, &[2, 3], 3),
        mapping(3, 3, &[2, 1], 3),
    ];
    let remapped = remap(&regions, &[], &[1, 2, 3], &[2, 3], 1);
    let both = || FewSet::from([2, 3]);
    assert_eq!(of(&remapped, 1), (2, both(), 4, 4));
    assert_eq!(of(&remapped, 2), (2, both(), 3, 3), "nothing has changed");
    assert_eq!(
        of(&remapped, 3),
        (2, both(), 3, 4),
        "the primary is the same"
    );
    assert!(remapped.lost.is_empty() && remapped.under_replicated.is_empty());
    assert_eq!(remapped.requests[&RegionId(1)], request(1));
}

#[test]
fn region_without_data_is_lost_and_lack_of_domains_is_reported() {
    let regions = [
        mapping(1, 1, &[1, 2], 3),
        mapping(2, 2, &[3, 1], 3),
        mapping(3, 3, &[1, 4], 3),
    ];
    let remapped = remap(&regions, &[(3, 4)], &[1, 2, 3, 3], &[3, 4], 1);
    assert_eq!(
        remapped.lost,
        [RegionId(1), RegionId(3)],
        "r3 was yet to be filled"
    );
    assert_eq!(of(&remapped, 2), (3, [3].into(), 3, 5));
    assert_eq!(
        remapped.under_replicated,
        [RegionId(2)],
        "m4 shares the fate of m3"
    );
}

#[test]
fn groups_stay_together_and_promotions_are_spread() {
    // Ten groups of two regions, which all lose their primary.
    let regions: Vec<Mapping> = (1..=10)
        .flat_map(|group| [group, group + 10].map(|region| mapping(region, group, &[1, 2, 3], 3)))
        .collect();
    let remapped = remap(&regions, &[], &[1, 2, 3, 4, 5], &[2, 3, 4, 5], 2);
    let mut primaries: FewMap<u32, usize> = FewMap::new();
    let mut added: FewMap<u32, usize> = FewMap::new();
    for group in 1..=10 {
        let (primary, machines, ..) = of(&remapped, group);
        let other = of(&remapped, group + 10);
        assert_eq!((primary, &machines), (other.0, &other.1), "MAP-2");
        *primaries.entry(primary).or_default() += 1;
        for machine in machines {
            *added.entry(machine).or_default() += 1;
        }
    }
    assert_eq!(primaries, [(2, 5), (3, 5)].into());
    assert_eq!(added, [(2, 10), (3, 10), (4, 5), (5, 5)].into());
}

#[test]
fn machine_with_data_is_promoted_and_full_machine_gets_nothing() {
    let regions = [mapping(1, 1, &[1, 2, 3], 3), mapping(2, 1, &[1, 2, 3], 3)];
    let remapped = remap(&regions, &[(1, 2)], &[1, 2, 3], &[2, 3], 2);
    assert_eq!(
        (of(&remapped, 1).0, of(&remapped, 2).0),
        (3, 3),
        "m3 has all, m2 lacks r1"
    );
    assert_eq!(remapped.under_replicated.len(), 2);
    // No machine has the whole group: each region goes to a machine with its data.
    let three = [1, 2, 3].map(|region| mapping(region, 1, &[1, 2, 3], 3));
    let empty = [(3, 2), (1, 3), (2, 3)];
    let remapped = remap(&three, &empty, &[1, 2, 3], &[2, 3], 2);
    let primaries = [1, 2, 3].map(|region| of(&remapped, region).0);
    assert_eq!(primaries, [2, 2, 3]);
    let five = testing::machines(5);
    let next = five.without(&[m(1)].into(), m(2)).unwrap();
    let remapped = remap_in(&regions, &[], &next, 2, &[4]);
    assert_eq!(of(&remapped, 1).1, [2, 3, 5].into());
    // m5 has r1 and had no memory for r2: the group is placed elsewhere.
    let split = [mapping(1, 1, &[2, 3, 5], 5), mapping(2, 1, &[2, 3, 5], 5)];
    let answers = [2, 3, 4, 5].map(|id| {
        let holds = |mapping: &&Mapping| id < 4 || (id == 5 && mapping.region.0 == 1);
        let regions = split.iter().filter(holds).map(|mapping| HeldRegion {
            whole: id < 4,
            ..held(mapping, 1, true)
        });
        (id, holdings(regions.collect(), vec![]))
    });
    let gathered = gather(&answers.map(|(id, h)| (m(id), h)).into());
    let full = [m(5)].into();
    let remapped = remap_regions(
        &gathered,
        &next,
        Replication::new(2, 1),
        &full,
        OptionalChanges::default(),
    );
    assert_eq!(of(&remapped, 1).1, [2, 3, 4].into());
    assert_eq!(of(&remapped, 2).1, [2, 3, 4].into());
}

#[test]
fn joined_machine_gets_missing_replicas() {
    let regions = [mapping(1, 1, &[1], 3), mapping(2, 2, &[2, 1], 3)];
    let two = testing::machines(2);
    let (three, joined) = two
        .with_machine(testing::address(3), testing::domain(3))
        .unwrap();
    let remapped = remap_in(&regions, &[], &three, 1, &[]);
    let replicas = &remapped.map.get(RegionId(1)).unwrap().replicas;
    assert_eq!(
        (replicas.primary(), replicas.backups()),
        (m(1), &[joined][..])
    );
    assert_eq!(of(&remapped, 2), (2, [1, 2].into(), 3, 3));
}

/// Remaps the regions `of`, which are not whole on the machines in `empty`, in a next configuration
/// of four machines from which m1 is leaving.
fn remap_leaving(of: &[Mapping], empty: &[(u32, u32)], settled: bool) -> RemapResult {
    let next = testing::machines(4).with_leaving(m(1)).unwrap();
    let gathered = gathered_in(of, empty, &next);
    let none = FewSet::new();
    let occasion = OptionalChanges {
        settled,
        balances: false,
    };
    remap_regions(&gathered, &next, Replication::exactly(2), &none, occasion)
}

#[test]
fn leaving_machine_keeps_replicas_until_new_ones_are_whole() {
    let own = [mapping(1, 1, &[1, 2], 3), mapping(2, 1, &[1, 2], 3)];
    let others = [mapping(3, 3, &[2, 1], 3), mapping(4, 4, &[3, 2], 3)];
    let regions = [own, others].concat();
    let first = remap_leaving(&regions, &[], true);
    assert!(first.moving && first.under_replicated.is_empty());
    let (primary, machines, ..) = of(&first, 1);
    assert_eq!((primary, machines.len()), (1, 3));
    assert!(FewSet::from([1, 2]).is_subset(&machines));
    assert_eq!(of(&first, 2).1, machines, "MAP-2");
    assert_eq!(of(&first, 3).1.len(), 3);
    assert_eq!(of(&first, 4), (3, [2, 3].into(), 3, 3), "it has none of it");
    // One of the new replicas is not whole yet.
    let moved: Vec<Mapping> = first.map.mappings().cloned().collect();
    let added = machines.iter().copied().max().unwrap();
    let empty = [(2, added)];
    for (empty, settled) in [(&empty[..], true), (&empty[..], false), (&[][..], false)] {
        let second = remap_leaving(&moved, empty, settled);
        assert!(second.moving, "REMAP-4");
        assert_eq!(of(&second, 1), of(&first, 1));
    }
    let last = remap_leaving(&moved, &[], true);
    assert!(!last.moving);
    let (primary, machines, change, _) = of(&last, 1);
    assert!(primary != 1 && change > 4, "a backup takes over");
    assert_eq!(machines, [2, added].into());
    assert_eq!(of(&last, 2).0, primary, "of the whole group");
    assert_eq!(of(&last, 3).0, 2, "the primary stays");
    assert!(!of(&last, 3).1.contains(&1));
    let nothing: Vec<Mapping> = last.map.mappings().cloned().collect();
    let after = remap_leaving(&nothing, &[], true);
    assert_eq!(of(&after, 1), of(&last, 1), "and it stays so");
}

#[test]
fn leaving_machine_without_substitute_keeps_its_roles() {
    let regions = [mapping(1, 1, &[1, 2], 3)];
    let next = testing::machines(3).with_leaving(m(1)).unwrap();
    let remapped = remap_in(&regions, &[], &next, 1, &[3]);
    assert_eq!(of(&remapped, 1), (1, [1, 2].into(), 3, 3));
    assert!(!remapped.moving, "it waits for nothing");
    // Its backups fail, and the leaving machine is the only one left.
    let alone = next.without(&[m(2)].into(), m(3)).unwrap();
    let remapped = remap_in(&regions, &[], &alone, 1, &[]);
    assert_eq!(of(&remapped, 1).0, 1);
}

#[test]
fn joined_machine_receives_one_group_at_a_time() {
    // Three machines with two groups each, of one region and of two; the fourth machine has none.
    let mut regions: Vec<Mapping> = (1..=3)
        .flat_map(|m| {
            let replicas = [m, m % 3 + 1];
            [
                mapping(m, m, &replicas, 3),
                mapping(10 * m, 10 * m, &replicas, 3),
                mapping(10 * m + 1, 10 * m, &replicas, 3),
            ]
        })
        .collect();
    regions.sort_by_key(|mapping| mapping.region);
    let four = testing::machines(4);
    let remap = |regions: &[Mapping], empty: &[(u32, u32)]| {
        let answers = four.machines().iter().map(|machine| {
            let its = regions
                .iter()
                .filter(|mapping| mapping.replicas.has(machine.id));
            let its = its.map(|mapping| HeldRegion {
                whole: !empty.contains(&(mapping.region.0, machine.id.0)),
                ..held(mapping, u64::from(mapping.region.0), true)
            });
            (machine.id, holdings(its.collect(), regions.to_vec()))
        });
        let gathered = gather(&answers.collect());
        let (replication, none) = (Replication::exactly(2), FewSet::new());
        let occasion = OptionalChanges {
            settled: true,
            balances: true,
        };
        remap_regions(&gathered, &four, replication, &none, occasion)
    };
    let waits = remap(&regions, &[(1, 2)]);
    assert!(waits.moving);
    let same = waits
        .map
        .mappings()
        .zip(&regions)
        .all(|(a, b)| a.replicas == b.replicas);
    assert!(same, "something is not whole");
    let mut steps = 0;
    loop {
        let remapped = remap(&regions, &[]);
        let before = regions;
        regions = remapped.map.mappings().cloned().collect();
        let changed = regions
            .iter()
            .zip(&before)
            .filter(|(a, b)| a.replicas != b.replicas);
        let added = changed.filter(|(a, b)| a.replicas.count() > b.replicas.count());
        let groups: FewSet<GroupId> = added.map(|(a, _)| a.group).collect();
        assert!(groups.len() <= 1, "one at a time");
        for mapping in &regions {
            let other = regions
                .iter()
                .find(|other| other.group == mapping.group)
                .unwrap();
            assert_eq!(mapping.replicas, other.replicas, "MAP-2");
        }
        if !remapped.moving {
            break;
        }
        steps += 1;
        assert!(steps < 20, "it comes to an end");
    }
    let replicas = |id: u32| regions.iter().filter(|r| r.replicas.has(m(id))).count();
    let primaries = |id: u32| {
        regions
            .iter()
            .filter(|r| r.replicas.primary() == m(id))
            .count()
    };
    for id in 1..=4 {
        assert!((4..=5).contains(&replicas(id)), "m{id}: {}", replicas(id));
        assert!((1..=3).contains(&primaries(id)), "m{id}: {}", primaries(id));
    }
}

#[test]
fn probe_suspends_region_changes() {
    let two = testing::machines(2);
    let mut random = fencepost_fabric::Random::new(1);
    let mut node = Node::new(m(2), &two, false, 0, &mut random);
    let (request, ..) = node.cache.allocate(RequestedPlacement::default());
    let (mut regions, memory) = node.regions();
    let holdings = regions.freeze_and_report(ConfigurationId(1));
    assert_eq!(holdings.last_drained, ConfigurationId(1));
    assert!(holdings.held.is_empty() && holdings.known.is_empty() && !holdings.numbers);
    let mapping = mapping(1, 1, &[1, 2], 2);
    let message = |body| RegionMessage {
        configuration: two.id(),
        body,
    };
    let prepare = RegionBody::Prepare {
        request,
        mapping: mapping.clone(),
    };
    let answer = regions.replica.receive(m(1), message(prepare), memory);
    assert_eq!(answer, None);
    let version = regions.cache.map().version();
    let allocated = RegionBody::Allocated {
        request,
        version,
        mapping,
    };
    assert!(regions.cache.receive(m(1), message(allocated)).is_empty());
}
