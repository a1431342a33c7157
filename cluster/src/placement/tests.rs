//! Placement over random histories, and with too few machines or domains.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::ids::ConfigurationId;
use crate::testing;

/// A history: the sizes of domains, f, and for each region whether it is near an earlier one.
#[derive(Clone, Debug)]
struct History {
    sizes: Vec<usize>,
    f: usize,
    near: Vec<Option<prop::sample::Index>>,
}

/// Returns histories in which `near` percent of the regions are near an earlier one.
fn histories(sizes: impl Strategy<Value = Vec<usize>>, near: u8) -> impl Strategy<Value = History> {
    let region = (0u8..100, any::<prop::sample::Index>());
    let region = region.prop_map(move |(drawn, other)| Some(other).filter(|_| drawn < near));
    let f = any::<prop::sample::Index>();
    (sizes, vec(region, 1..80), f).prop_map(|(sizes, near, f)| {
        let f = f.index(sizes.len().min(5));
        History { sizes, f, near }
    })
}

/// Returns whether no domain is so large that some of its machines must stay idle.
fn even(history: &History) -> bool {
    let machines: usize = history.sizes.iter().sum();
    history
        .sizes
        .iter()
        .all(|size| size * (history.f + 1) <= machines)
}

struct PlacementRun {
    configuration: Configuration,
    placement: Placement,
    mappings: Vec<Mapping>,
    /// The largest differences of replicas and of primaries at any time.
    replicas: usize,
    primaries: usize,
    /// The number of regions that co-location placed on the machine with most of them.
    forced: usize,
}

fn play(history: &History) -> Result<PlacementRun, TestCaseError> {
    let domains = (1..).zip(&history.sizes);
    let domains: Vec<u32> = domains.flat_map(|(d, size)| vec![d; *size]).collect();
    let configuration = testing::configuration(&domains);
    let mut played = PlacementRun {
        placement: Placement::new(&configuration),
        configuration,
        mappings: Vec::new(),
        replicas: 0,
        primaries: 0,
        forced: 0,
    };
    let mut forced = FewMap::new();
    for (n, near) in (1..).zip(&history.near) {
        let region = RegionId(n);
        let near = near
            .filter(|_| n > 1)
            .map(|near| near.get(&played.mappings).clone());
        let replicas = match &near {
            Some(other) => played.placement.near(other, &FewSet::new()),
            None => {
                let replication = Replication::new(history.f, history.f + 1);
                played.placement.choose(region, replication, &FewSet::new())
            }
        };
        let replicas = replicas.map_err(|error| TestCaseError::fail(error.to_string()))?;
        if near.is_some() {
            replicas
                .all()
                .for_each(|machine| *forced.entry(machine).or_default() += 1);
        }
        played.placement.hold(&replicas);
        played.mappings.push(Mapping {
            region,
            group: near.map_or(GroupId(region), |other| other.group),
            replicas,
            last_primary_change: ConfigurationId(1),
            last_replica_change: ConfigurationId(1),
        });
        played.replicas = played.replicas.max(spread(&played, |load| load.replicas));
        played.primaries = played.primaries.max(spread(&played, |load| load.primaries));
    }
    played.forced = forced.into_values().max().unwrap_or(0);
    Ok(played)
}

fn spread(played: &PlacementRun, held: impl Fn(Load) -> usize) -> usize {
    let machines = played.configuration.machines().iter();
    let loads = machines.map(|m| held(played.placement.load(m.id).expect("it is a member")));
    let loads: Vec<usize> = loads.collect();
    loads.iter().max().unwrap_or(&0) - loads.iter().min().unwrap_or(&0)
}

fn domains_of(played: &PlacementRun, replicas: &Replicas) -> FewSet<FailureDomain> {
    let machines = replicas
        .all()
        .map(|machine| played.configuration.machine(machine));
    machines
        .map(|m| m.expect("it is a member").domain.clone())
        .collect()
}

proptest! {
    #[test]
    fn replicas_span_failure_domains_and_groups_share_machines(
        history in histories(vec(1usize..5, 1..8), 40)
    ) {
        let played = play(&history)?;
        for mapping in &played.mappings {
            prop_assert_eq!(mapping.replicas.count(), history.f + 1);
            prop_assert_eq!(domains_of(&played, &mapping.replicas).len(), history.f + 1);
            let initial_member = &played.mappings[mapping.group.0.0 as usize - 1];
            prop_assert_eq!(initial_member.group, mapping.group);
            prop_assert_eq!(&initial_member.replicas, &mapping.replicas);
        }
    }

    #[test]
    fn load_of_machines_differs_by_at_most_one(
        history in histories(vec(Just(1usize), 1..12), 0)
    ) {
        let played = play(&history)?;
        prop_assert!(played.replicas <= 1 && played.primaries <= 1);
    }

    #[test]
    fn domains_of_many_machines_do_not_spoil_the_balance(
        history in histories(vec(1usize..5, 1..8), 0).prop_filter("even", even)
    ) {
        let played = play(&history)?;
        prop_assert!(played.replicas <= 1, "replicas: {}", played.replicas);
        prop_assert!(played.primaries <= 2, "primaries: {}", played.primaries);
    }

    #[test]
    fn co_location_unbalances_no_more_than_forced(
        history in histories(vec(Just(1usize), 1..12), 30)
    ) {
        let played = play(&history)?;
        prop_assert!(played.replicas <= 1 + played.forced);
    }

    #[test]
    fn placement_is_deterministic(history in histories(vec(1usize..5, 1..8), 20)) {
        prop_assert_eq!(play(&history)?.mappings, play(&history)?.mappings);
    }

    #[test]
    fn freed_replicas_do_not_count_as_load(history in histories(vec(1usize..5, 1..8), 20)) {
        let mut played = play(&history)?;
        for mapping in played.mappings.clone() {
            played.placement.release(&mapping.replicas);
        }
        for machine in played.configuration.machines() {
            prop_assert_eq!(played.placement.load(machine.id), Some(Load::default()));
        }
    }
}

fn choose(
    domains: &[u32],
    replication: Replication,
    excluded: &[u32],
) -> Result<Replicas, PlacementError> {
    let placement = Placement::new(&testing::configuration(domains));
    let excluded = excluded.iter().copied().map(MachineId).collect();
    placement.choose(RegionId(1), replication, &excluded)
}

proptest! {
    #[test]
    fn wishes_are_met_in_different_domains_and_spread_the_backups(
        sizes in vec(1usize..5, 1..8),
        f in 0usize..4,
        wishes in vec(any::<prop::sample::Index>(), 1..80),
    ) {
        let domains: Vec<u32> = (1..).zip(&sizes).flat_map(|(d, size)| vec![d; *size]).collect();
        let configuration = testing::configuration(&domains);
        let mut placement = Placement::new(&configuration);
        let replication = Replication::new(f, 1);
        for wish in wishes {
            let wish = wish.get(configuration.machines());
            let chosen = placement.choose_at(wish.id, replication, &FewSet::new());
            let replicas = chosen.map_err(|error| TestCaseError::fail(error.to_string()))?;
            prop_assert_eq!(replicas.primary(), wish.id);
            prop_assert_eq!(replicas.count(), (f + 1).min(sizes.len()));
            let domain = |id| &configuration.machine(id).expect("a member").domain;
            let taken: FewSet<_> = replicas.all().map(domain).collect();
            prop_assert_eq!(taken.len(), replicas.count());
            // Checks PLACE-4 if every other machine is eligible.
            if sizes.iter().all(|size| *size == 1) {
                let held = |id| placement.load(id).expect("a member").replicas;
                let others = configuration.machines().iter().map(|m| m.id);
                let others = others.filter(|id| *id != wish.id);
                let low = others.map(held).min().unwrap_or(0);
                let worst = replicas.backups().iter().map(|id| held(*id) + 1).max().unwrap_or(0);
                let enough = configuration.machines().iter().filter(|m| {
                    m.id != wish.id && held(m.id) < low + replicas.count()
                });
                if enough.count() >= f {
                    prop_assert!(worst <= low + replicas.count(), "{worst} and {low}");
                }
            }
            placement.hold(&replicas);
        }
    }
}

#[test]
fn machines_with_own_regions_hold_equal_backups() {
    let configuration = testing::machines(5);
    for first in 0..5 {
        let mut placement = Placement::new(&configuration);
        for at in [0, 3, 1, 4, 2].map(|at| (at + first) % 5) {
            let primary = MachineId(at + 1);
            let replicas = placement.choose_at(primary, Replication::new(2, 3), &FewSet::new());
            let replicas = replicas.unwrap();
            let next = |by: u32| MachineId((at + by) % 5 + 1);
            let following = FewSet::from([next(1), next(2)]);
            let backups: FewSet<_> = replicas.backups().iter().copied().collect();
            assert_eq!(backups, following);
            placement.hold(&replicas);
        }
        for machine in configuration.machines() {
            assert_eq!(placement.load(machine.id).unwrap().replicas, 3);
        }
    }
}

#[test]
fn impossible_placement_request_is_refused() {
    let placement = Placement::new(&testing::configuration(&[1, 2, 2]));
    let two = Replication::new(1, 2);
    let (first, none) = (MachineId(1), FewSet::new());
    let unavailable = |machine| Err(PlacementError::PrimaryUnavailable { machine });
    let full = FewSet::from([first]);
    assert_eq!(placement.choose_at(first, two, &full), unavailable(first));
    let outsider = MachineId(9);
    assert_eq!(
        placement.choose_at(outsider, two, &none),
        unavailable(outsider)
    );
    let few = PlacementError::TooFewMachines { need: 2, have: 1 };
    let alone = FewSet::from([2, 3].map(MachineId));
    assert_eq!(placement.choose_at(first, two, &alone), Err(few));
    let domains = PlacementError::TooFewDomains { need: 3, have: 2 };
    let three = Replication::new(2, 3);
    assert_eq!(placement.choose_at(first, three, &none), Err(domains));
    let backups = |full: &[u32]| {
        let full = full.iter().copied().map(MachineId).collect();
        let replicas = placement.choose_at(first, two, &full).unwrap();
        replicas.backups().to_vec()
    };
    assert_eq!(backups(&[]), [MachineId(2)]);
    assert_eq!(backups(&[2]), [MachineId(3)]);
}

#[test]
fn too_few_machines_are_told_from_too_few_domains() {
    let three = Replication::new(2, 3);
    let few = |have| Err(PlacementError::TooFewMachines { need: 3, have });
    assert_eq!(choose(&[1, 2], three, &[]), few(2));
    assert_eq!(choose(&[1, 2, 3], three, &[3]), few(2));
    let domains = Err(PlacementError::TooFewDomains { need: 3, have: 2 });
    assert_eq!(choose(&[1, 2, 2, 2], three, &[]), domains);
    assert_eq!(choose(&[1, 2, 2, 3], three, &[4]), domains);
    assert!(choose(&[1, 2, 2, 3], three, &[2]).is_ok());
}

#[test]
fn with_fewer_domains_a_region_has_fewer_replicas_where_that_is_allowed() {
    let three = Replication::new(2, 1);
    assert_eq!(choose(&[1, 2, 3, 4], three, &[]).map(|r| r.count()), Ok(3));
    assert_eq!(choose(&[1, 2, 2], three, &[]).map(|r| r.count()), Ok(2));
    assert_eq!(choose(&[1], three, &[]).map(|r| r.count()), Ok(1));
    assert_eq!(
        choose(&[1], three, &[1]),
        Err(PlacementError::TooFewMachines { need: 1, have: 0 })
    );
}

#[test]
fn group_is_not_split_when_one_machine_is_full() {
    let placement = Placement::new(&testing::machines(3));
    let first_mapping = |machines: &[u32]| Mapping {
        region: RegionId(1),
        group: GroupId(RegionId(1)),
        replicas: Replicas::new(
            MachineId(machines[0]),
            machines[1..].iter().copied().map(MachineId).collect(),
        )
        .unwrap(),
        last_primary_change: ConfigurationId(1),
        last_replica_change: ConfigurationId(1),
    };
    let unavailable = |machine| {
        let (group, machine) = (GroupId(RegionId(1)), MachineId(machine));
        Err(PlacementError::GroupUnavailable { group, machine })
    };
    let full = FewSet::from([MachineId(2)]);
    assert_eq!(
        placement.near(&first_mapping(&[1, 2]), &full),
        unavailable(2)
    );
    assert_eq!(
        placement.near(&first_mapping(&[1, 9]), &FewSet::new()),
        unavailable(9)
    );
    assert!(placement.near(&first_mapping(&[1, 3]), &full).is_ok());
}
