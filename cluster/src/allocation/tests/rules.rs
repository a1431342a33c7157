//! Tests of single rules of allocation and of the cache.

use fencepost_fabric::MachineId;

use crate::allocation::*;
use crate::configuration::Configuration;
use crate::few::FewSet;
use crate::ids::ConfigurationId;
use crate::placement::{PlacementError, Replication};
use crate::region::{GroupId, Mapping, RegionId};
use crate::region_map::{MapVersion, RegionMap};
use crate::testing;

const CM: MachineId = MachineId(1);

fn allocator(configuration: &Configuration) -> Allocator {
    let map = RegionMap::new(configuration.id());
    Allocator::new(configuration, Replication::new(1, 2), map, [], RegionId(1))
}

fn ask(number: u64, answered: u64, near: Option<u32>) -> RegionBody {
    let machine = CM;
    RegionBody::Allocate {
        request: RequestId { machine, number },
        answered,
        near: near.map(RegionId),
        primary: None,
    }
}

/// Returns a request for a region whose primary is to be the requesting machine.
fn ask_own(machine: MachineId, number: u64) -> RegionBody {
    RegionBody::Allocate {
        request: RequestId { machine, number },
        answered: number,
        near: None,
        primary: Some(machine),
    }
}

/// Passes a message of the current configuration to the allocator.
fn tell(
    allocator: &mut Allocator,
    from: MachineId,
    body: RegionBody,
) -> Vec<(MachineId, RegionBody)> {
    let configuration = allocator.map().version().configuration;
    let message = RegionMessage {
        configuration,
        body,
    };
    let outgoing = allocator.receive(from, message).into_iter();
    outgoing.map(|(to, message)| (to, message.body)).collect()
}

/// Returns the replicas that are asked to prepare, and the region.
fn prepares(outgoing: &[(MachineId, RegionBody)]) -> (Vec<MachineId>, RegionId) {
    let prepares = outgoing.iter().filter_map(|(to, body)| match body {
        RegionBody::Prepare { mapping, .. } => Some((*to, mapping.region)),
        _ => None,
    });
    let (machines, regions): (Vec<_>, FewSet<_>) = prepares.unzip();
    assert_eq!(regions.len(), 1, "{outgoing:?}");
    (machines, *regions.first().unwrap())
}

/// Answers for all replicas that they have prepared.
fn prepare_all(
    allocator: &mut Allocator,
    outgoing: &[(MachineId, RegionBody)],
) -> Vec<(MachineId, RegionBody)> {
    let (machines, region) = prepares(outgoing);
    let answers = machines
        .into_iter()
        .map(|machine| tell(allocator, machine, RegionBody::Prepared { region }));
    answers.last().unwrap()
}

fn answer(outgoing: &[(MachineId, RegionBody)]) -> Result<RegionId, AllocationError> {
    match outgoing {
        [.., (_, RegionBody::Allocated { mapping, .. })] => Ok(mapping.region),
        [.., (_, RegionBody::NotAllocated { why, .. })] => Err(*why),
        other => panic!("no answer in {other:?}"),
    }
}

#[test]
fn refusal_aborts_after_all_answers_and_tries_other_machines() {
    let mut allocator = allocator(&testing::machines(3));
    let first = tell(&mut allocator, CM, ask(0, 0, None));
    let (machines, region) = prepares(&first);
    let why = Refusal::NoMemory;
    let refused = RegionBody::Refused { region, why };
    let early = tell(&mut allocator, machines[0], refused);
    assert!(early.is_empty(), "the other answer is on its way");
    let second = tell(&mut allocator, machines[1], RegionBody::Prepared { region });
    assert_eq!(second[0], (machines[1], RegionBody::Abort { region }));
    let (others, again) = prepares(&second);
    assert!(!others.contains(&machines[0]));
    assert_eq!(again, region, "no answer to the first attempt can come");
    let third = prepare_all(&mut allocator, &second);
    assert_eq!(answer(&third), Ok(region));
    assert_eq!(third.len(), 3, "COMMIT to both, and the answer");
}

#[test]
fn request_pending_at_lost_machine_is_repeated_under_new_region() {
    let mut allocator = allocator(&testing::machines(3));
    let (machines, region) = prepares(&tell(&mut allocator, CM, ask(0, 0, None)));
    tell(&mut allocator, machines[0], RegionBody::Prepared { region });
    let lost = |allocator: &mut Allocator| -> Vec<_> {
        let outgoing = allocator.unreachable(machines[1]).into_iter();
        outgoing.map(|(to, message)| (to, message.body)).collect()
    };
    let second = lost(&mut allocator);
    assert_eq!(second[0], (machines[0], RegionBody::Abort { region }));
    let (others, other) = prepares(&second);
    assert!(!others.contains(&machines[1]) && other != region);
    let late = tell(&mut allocator, machines[1], RegionBody::Prepared { region });
    assert!(late.is_empty());
    let done = prepare_all(&mut allocator, &second);
    assert_eq!(answer(&done), Ok(other));
}

#[test]
fn requested_primary_is_used_or_allocation_fails() {
    let mut allocator = allocator(&testing::machines(3));
    for (number, machine) in (1..=3).map(|m| (0, MachineId(m))) {
        let asked = tell(&mut allocator, machine, ask_own(machine, number));
        let next = MachineId(machine.0 % 3 + 1);
        let (machines, _) = prepares(&asked);
        assert_eq!(machines, [machine, next], "the backup is the next machine");
        assert!(answer(&prepare_all(&mut allocator, &asked)).is_ok());
    }
    let machine = MachineId(2);
    let (machines, region) = prepares(&tell(&mut allocator, machine, ask_own(machine, 1)));
    let why = Refusal::NoMemory;
    tell(&mut allocator, machines[1], RegionBody::Prepared { region });
    let refused = tell(&mut allocator, machine, RegionBody::Refused { region, why });
    let unavailable = PlacementError::PrimaryUnavailable { machine };
    assert_eq!(answer(&refused), Err(unavailable.into()));
    assert!(allocator.is_idle());
}

#[test]
fn all_regions_are_listed_in_parts() {
    let mut allocator = allocator(&testing::machines(2));
    let mut regions = Vec::new();
    for number in 0..MAX_FETCHED as u64 + 3 {
        let asked = tell(&mut allocator, CM, ask(number, number, None));
        regions.push(answer(&prepare_all(&mut allocator, &asked)).unwrap());
    }
    let mut cache = RegionCache::new(MachineId(2), &testing::machines(2));
    let (mut listed, mut from) = (Vec::new(), RegionId(0));
    loop {
        let (to, question) = cache.list(from);
        assert_eq!(to, CM);
        let answers = allocator.receive(MachineId(2), question);
        let events = cache.receive(CM, answers[0].1.clone());
        let [CacheEvent::Listed(asked, found, more)] = &events[..] else {
            panic!("{events:?}");
        };
        assert_eq!(*asked, from);
        listed.extend(found.iter().map(|mapping| mapping.region));
        if !more {
            break;
        }
        from = RegionId(listed.last().unwrap().0 + 1);
    }
    assert_eq!(listed, regions);
    assert!(matches!(cache.lookup(regions[0]), Lookup::Known(_)));
}

#[test]
fn when_no_machines_are_left_the_answer_says_so_and_nothing_is_held() {
    let mut allocator = allocator(&testing::machines(2));
    let (machines, region) = prepares(&tell(&mut allocator, CM, ask(0, 0, None)));
    let why = Refusal::NoMemory;
    tell(&mut allocator, machines[0], RegionBody::Prepared { region });
    let refused = tell(
        &mut allocator,
        machines[1],
        RegionBody::Refused { region, why },
    );
    let few = PlacementError::TooFewMachines { need: 2, have: 1 };
    assert_eq!(answer(&refused), Err(few.into()));
    assert!(allocator.is_idle() && allocator.map().mappings().next().is_none());
    for machine in machines {
        assert_eq!(allocator.placement().load(machine).unwrap().replicas, 0);
    }
    let again = tell(&mut allocator, CM, ask(0, 0, None));
    let again = prepare_all(&mut allocator, &again);
    assert!(
        answer(&again).is_ok(),
        "made again, the request is tried again"
    );
}

#[test]
fn repeated_request_gets_same_region_until_acknowledged() {
    let mut allocator = allocator(&testing::machines(3));
    let first = tell(&mut allocator, CM, ask(0, 0, None));
    assert!(
        tell(&mut allocator, CM, ask(0, 0, None)).is_empty(),
        "it is under way"
    );
    let region = answer(&prepare_all(&mut allocator, &first));
    assert_eq!(answer(&tell(&mut allocator, CM, ask(0, 0, None))), region);
    let outsider = tell(&mut allocator, MachineId(2), ask(0, 0, None));
    assert!(outsider.is_empty(), "the request of another machine");
    tell(&mut allocator, CM, ask(1, 1, None));
    let late = tell(&mut allocator, CM, ask(0, 0, None));
    assert!(late.is_empty(), "a duplicate of what was answered long ago");
}

#[test]
fn new_cm_learns_requests_from_replicas() {
    let configuration = testing::machines(2);
    let request = RequestId {
        machine: CM,
        number: 4,
    };
    let mut old = allocator(&configuration);
    let prepared = tell(&mut old, CM, ask(4, 0, None));
    let region = answer(&prepare_all(&mut old, &prepared)).unwrap();
    let kept = [(request, region)];
    let replication = Replication::new(1, 2);
    let next = configuration.without(&FewSet::new(), MachineId(2)).unwrap();
    let mut new = Allocator::new(&next, replication, old.map().clone(), kept, RegionId(9));
    assert_eq!(answer(&tell(&mut new, CM, ask(4, 0, None))), Ok(region));
    assert_eq!(new.placement().load(CM).unwrap().replicas, 1);
    assert!(new.map().version() > old.map().version());
}

#[test]
fn co_located_region_uses_same_machines_or_fails() {
    let mut allocator = allocator(&testing::machines(5));
    let none = tell(&mut allocator, CM, ask(0, 0, Some(7)));
    assert_eq!(
        answer(&none),
        Err(AllocationError::NoSuchRegion(RegionId(7)))
    );
    let first = tell(&mut allocator, CM, ask(1, 1, None));
    let initial_member = answer(&prepare_all(&mut allocator, &first)).unwrap();
    let second = tell(&mut allocator, CM, ask(2, 2, Some(initial_member.0)));
    assert_eq!(prepares(&second).0, prepares(&first).0);
    let (machines, region) = prepares(&second);
    let why = Refusal::NoMemory;
    tell(&mut allocator, machines[0], RegionBody::Prepared { region });
    let refused = tell(
        &mut allocator,
        machines[1],
        RegionBody::Refused { region, why },
    );
    let unavailable = PlacementError::GroupUnavailable {
        group: GroupId(initial_member),
        machine: machines[1],
    };
    assert_eq!(answer(&refused), Err(unavailable.into()));
}

#[test]
fn messages_of_outsiders_and_other_configurations_are_dropped() {
    let configuration = testing::machines(3);
    let mut allocator = allocator(&configuration);
    let mut cache = RegionCache::new(CM, &configuration);
    let other = configuration.id().next();
    let body = ask(0, 0, None);
    let message = RegionMessage {
        configuration: other,
        body,
    };
    assert!(allocator.receive(CM, message).is_empty());
    let regions = vec![RegionId(1)];
    let outsider = tell(&mut allocator, MachineId(9), RegionBody::Fetch { regions });
    assert!(outsider.is_empty(), "no member");
    let (request, ..) = cache.allocate(RequestedPlacement::default());
    let why = AllocationError::OutOfIds;
    let body = RegionBody::NotAllocated { request, why };
    let said = |configuration| RegionMessage {
        configuration,
        body: body.clone(),
    };
    assert!(cache.receive(CM, said(other)).is_empty());
    assert!(
        cache
            .receive(MachineId(2), said(configuration.id()))
            .is_empty(),
        "not the CM"
    );
    let events = cache.receive(CM, said(configuration.id()));
    assert_eq!(events, [CacheEvent::NotAllocated(request, why)]);
    assert!(
        cache.receive(CM, said(configuration.id())).is_empty(),
        "answered already"
    );
}

#[test]
fn cache_asks_once_and_repeats_open_lookups_to_next_cm() {
    let configuration = testing::machines(3);
    let mut allocator = allocator(&configuration);
    let first = tell(&mut allocator, CM, ask(0, 0, None));
    let region = answer(&prepare_all(&mut allocator, &first)).unwrap();
    let mapping = allocator.map().get(region).unwrap().clone();
    let me = MachineId(3);
    let mut cache = RegionCache::new(me, &configuration);
    let missing = RegionId(77);
    let Lookup::Ask(to, question) = cache.lookup(region) else {
        panic!("nothing is known yet");
    };
    assert_eq!((to, cache.lookup(region)), (CM, Lookup::Asked));
    let answers = allocator.receive(me, question);
    assert_eq!(
        cache.receive(CM, answers[0].1.clone()),
        [CacheEvent::Found(region)]
    );
    assert_eq!(cache.lookup(region), Lookup::Known(&mapping));
    let Lookup::Ask(_, question) = cache.lookup(missing) else {
        panic!("nothing is known of it");
    };
    let answers = allocator.receive(me, question);
    assert_eq!(
        cache.receive(CM, answers[0].1.clone()),
        [CacheEvent::Missing(missing)]
    );
    // Two questions and a request are open when the CM is lost; the new configuration answers one
    // question.
    cache.lookup(missing);
    cache.lookup(RegionId(78));
    let wish = RequestedPlacement {
        near: Some(region),
        primary: Some(me),
    };
    let (request, ..) = cache.allocate(wish);
    let next = configuration
        .without(&FewSet::from([CM]), MachineId(2))
        .unwrap();
    let version = MapVersion {
        configuration: next.id(),
        changes: 0,
    };
    let mut moved = mapping.clone();
    moved.region = RegionId(78);
    moved.last_replica_change = next.id();
    let (found, outgoing) = cache.apply(&next, version, [moved]);
    assert_eq!(found, [CacheEvent::Found(RegionId(78))]);
    assert!(
        outgoing
            .iter()
            .all(|(to, message)| { *to == next.cm() && message.configuration == next.id() })
    );
    let bodies: Vec<RegionBody> = outgoing
        .into_iter()
        .map(|(_, message)| message.body)
        .collect();
    let fetch = RegionBody::Fetch {
        regions: vec![missing],
    };
    let allocate = RegionBody::Allocate {
        request,
        answered: request.number,
        near: Some(region),
        primary: Some(me),
    };
    assert_eq!(bodies, [fetch, allocate]);
    let (found, outgoing) = cache.apply(&configuration, version, []);
    assert!(
        found.is_empty() && outgoing.is_empty(),
        "an old configuration"
    );
}

#[test]
fn committed_region_is_not_aborted_and_contradiction_is_refused() {
    struct Endless;
    impl RegionHost for Endless {
        fn reserve(&mut self, _: &Mapping) -> Result<(), Refusal> {
            Ok(())
        }
        fn keep(&mut self, _: &Mapping) {}
        fn release(&mut self, region: RegionId) {
            panic!("{region} is given back");
        }
    }
    let configuration = testing::machines(2);
    let id = configuration.id();
    let mut allocator = allocator(&configuration);
    let first = allocator.receive(
        CM,
        RegionMessage {
            configuration: id,
            body: ask(0, 0, None),
        },
    );
    let (machine, prepare) = first[0].clone();
    let mut replica = ReplicaRegions::new(machine, CM, id);
    let mut say = |body| {
        let message = RegionMessage {
            configuration: id,
            body,
        };
        replica
            .receive(CM, message, &mut Endless)
            .map(|answer| answer.body)
    };
    let region = RegionId(1);
    assert_eq!(
        say(prepare.body.clone()),
        Some(RegionBody::Prepared { region })
    );
    assert_eq!(
        say(prepare.body.clone()),
        Some(RegionBody::Prepared { region }),
        "twice"
    );
    assert_eq!(say(RegionBody::Commit { region }), None);
    assert_eq!(say(RegionBody::Abort { region }), None);
    let RegionBody::Prepare {
        request,
        mut mapping,
    } = prepare.body
    else {
        panic!("{prepare:?}");
    };
    mapping.last_replica_change = ConfigurationId(99);
    let contradiction = Some(RegionBody::Refused {
        region,
        why: Refusal::Contradiction,
    });
    assert_eq!(say(RegionBody::Prepare { request, mapping }), contradiction);
    assert!(replica.get(region).is_some_and(|held| held.committed));
}
