//! The state of allocation from one configuration to the next.

use fencepost_fabric::MachineId;

use crate::allocation::*;
use crate::configuration::Configuration;
use crate::few::{FewMap, FewSet};
use crate::placement::Replication;
use crate::region::{GroupId, Mapping, RegionId, Replicas};
use crate::region_map::{MapVersion, RegionMap};
use crate::testing;

const CM: MachineId = MachineId(1);
const ME: MachineId = MachineId(2);

/// Regions with reserved memory: true if the memory is kept for good.
#[derive(Default)]
struct ReservedRegions(FewMap<RegionId, bool>);

impl RegionHost for ReservedRegions {
    fn reserve(&mut self, mapping: &Mapping) -> Result<(), Refusal> {
        if mapping.region == RegionId(9) {
            return Err(Refusal::NoMemory);
        }
        assert_eq!(self.0.insert(mapping.region, false), None);
        Ok(())
    }

    fn keep(&mut self, mapping: &Mapping) {
        assert_eq!(self.0.insert(mapping.region, true), Some(false));
    }

    fn release(&mut self, region: RegionId) {
        assert!(self.0.remove(&region).is_some());
    }
}

fn mapping(region: u32, replicas: [u32; 2], since: &Configuration) -> Mapping {
    Mapping {
        region: RegionId(region),
        group: GroupId(RegionId(region)),
        replicas: Replicas::new(MachineId(replicas[0]), vec![MachineId(replicas[1])]).unwrap(),
        last_primary_change: since.id(),
        last_replica_change: since.id(),
    }
}

fn message(configuration: &Configuration, body: RegionBody) -> RegionMessage {
    RegionMessage {
        configuration: configuration.id(),
        body,
    }
}

fn request(number: u64) -> RequestId {
    RequestId {
        machine: CM,
        number,
    }
}

/// Returns a configuration of three machines, and the next one after the loss of the first machine.
fn both() -> (Configuration, Configuration) {
    let three = testing::machines(3);
    let next = three.without(&FewSet::from([CM]), MachineId(3)).unwrap();
    (three, next)
}

#[test]
fn frozen_replica_then_applies_decision_of_new_cm() {
    let (three, next) = both();
    let mut reserved = ReservedRegions::default();
    let mut replica = ReplicaRegions::new(ME, CM, three.id());
    let prepare = |region: u32, number| {
        let mapping = mapping(region, [1, 2], &three);
        let request = request(number);
        message(&three, RegionBody::Prepare { request, mapping })
    };
    for region in 1..=4 {
        assert!(
            replica
                .receive(CM, prepare(region, 0), &mut reserved)
                .is_some()
        );
    }
    let region = RegionId(1);
    let commit = message(&three, RegionBody::Commit { region });
    replica.receive(CM, commit, &mut reserved);
    replica.freeze();
    assert_eq!(replica.receive(CM, prepare(5, 0), &mut reserved), None);
    let region = RegionId(2);
    let commit = || message(&three, RegionBody::Commit { region });
    replica.receive(CM, commit(), &mut reserved);
    assert!(
        !replica.get(region).unwrap().committed,
        "it has told otherwise"
    );
    let moved = [(1, [2, 3]), (4, [3, 1]), (6, [3, 2]), (9, [3, 2])];
    let moved = moved.map(|(region, replicas)| MovedRegion {
        mapping: mapping(region, replicas, &next),
        request: request(7),
    });
    let decided = RegionDecisions {
        moved: &moved,
        given_up: &[RegionId(3)],
        lost: &[RegionId(8)],
    };
    let refused = replica.apply(&next, decided, &mut reserved);
    assert_eq!(refused, [(RegionId(9), Refusal::NoMemory)]);
    let held: Vec<_> = replica.held().collect();
    let states = held
        .iter()
        .map(|held| (held.mapping.region.0, held.committed, held.whole));
    let expected = [(1, true, true), (2, true, true), (6, true, false)];
    assert_eq!(states.collect::<Vec<_>>(), expected);
    assert_eq!(held[0].mapping, moved[0].mapping);
    assert_eq!(
        reserved.0,
        [1, 2, 6].map(|region| (RegionId(region), true)).into()
    );
    assert!(
        replica.apply(&three, decided, &mut reserved).is_empty(),
        "that is over"
    );
    assert!(
        replica.receive(CM, commit(), &mut reserved).is_none(),
        "and so is its CM"
    );
    assert!(replica.filled(RegionId(6)) && replica.get(RegionId(6)).unwrap().whole);
    assert!(!replica.filled(RegionId(3)), "it is not held");
    replica.freeze();
    assert!(
        !replica.filled(RegionId(6)),
        "too late for this configuration"
    );
}

#[test]
fn frozen_cache_repeats_its_request_to_next_cm() {
    let (three, next) = both();
    let mut cache = RegionCache::new(ME, &three);
    let (request, ..) = cache.allocate(RequestedPlacement::default());
    let version = MapVersion {
        configuration: three.id(),
        changes: 1,
    };
    let body = RegionBody::Allocated {
        request,
        version,
        mapping: mapping(1, [1, 2], &three),
    };
    cache.freeze();
    assert!(cache.receive(CM, message(&three, body)).is_empty());
    let version = MapVersion {
        configuration: next.id(),
        changes: 0,
    };
    let known = mapping(2, [3, 2], &next);
    let (_, again) = cache.apply(&next, version, [known]);
    assert_eq!(again.len(), 1, "the request is made again");
    let body = RegionBody::NotAllocated {
        request,
        why: AllocationError::OutOfIds,
    };
    assert_eq!(cache.receive(MachineId(3), message(&next, body)).len(), 1);
    assert!(cache.map().get(RegionId(2)).is_some());
    cache.forget(&[RegionId(2)]);
    assert!(cache.map().get(RegionId(2)).is_none());
}

#[test]
fn allocator_defers_requests_until_all_machines_are_ready() {
    let three = testing::machines(3);
    let map = RegionMap::new(three.id());
    let replication = Replication::new(1, 1);
    let mut allocator = Allocator::new(&three, replication, map, [], RegionId(5));
    let ask = |number| {
        let body = RegionBody::Allocate {
            request: request(number),
            answered: 0,
            near: None,
            primary: None,
        };
        message(&three, body)
    };
    allocator.hold_back();
    assert!(allocator.receive(CM, ask(0)).is_empty());
    assert!(allocator.receive(CM, ask(0)).is_empty(), "made twice");
    assert!(allocator.receive(CM, ask(1)).is_empty());
    assert!(allocator.is_idle());
    let prepares = allocator.take_up();
    assert_eq!(prepares.len(), 4, "two replicas of each of two regions");
    assert_eq!(allocator.next_region(), RegionId(7));
    allocator.hold_back();
    for (machine, _) in prepares {
        let region = RegionId(5);
        let prepared = message(&three, RegionBody::Prepared { region });
        let outgoing = allocator.receive(machine, prepared);
        assert!(outgoing.is_empty(), "nothing comes to be any more");
    }
    assert!(allocator.map().mappings().next().is_none());
}

#[test]
fn cm_assigns_only_region_numbers_of_its_configuration() {
    let one = testing::machines(1);
    let map = RegionMap::new(one.id());
    let replication = Replication::new(0, 1);
    let mut allocator = Allocator::new(&one, replication, map, [], RegionId(5));
    let mut given = 0;
    for number in 0..=u64::from(REGIONS_A_CONFIGURATION) {
        let body = RegionBody::Allocate {
            request: request(number),
            answered: number,
            near: None,
            primary: None,
        };
        let outgoing = allocator.receive(CM, message(&one, body));
        for (_, outgoing) in outgoing {
            match outgoing.body {
                RegionBody::Prepare { mapping, .. } => {
                    let region = mapping.region;
                    let prepared = message(&one, RegionBody::Prepared { region });
                    allocator.receive(CM, prepared);
                    given += 1;
                }
                RegionBody::NotAllocated { why, .. } => {
                    assert_eq!(why, AllocationError::OutOfIds);
                    assert_eq!(given, REGIONS_A_CONFIGURATION);
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(given, REGIONS_A_CONFIGURATION);
}
