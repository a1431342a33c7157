//! Clusters of allocators, replicas and caches under random message orders, refusals and lost
//! machines; and single rules.

mod moving;
mod rules;
mod world;

use fencepost_fabric::{MachineId, Random};
use proptest::prelude::*;

use super::*;
use crate::codec::Wire;
use crate::ids::ConfigurationId;
use crate::placement::Replication;
use crate::region::{GroupId, Mapping, Replicas};
use crate::region_map::{MapVersion, RegionMap};
use crate::testing;

proptest! {
    #[test]
    fn random_events_keep_regions_whole_and_one_region_a_request(seed: u64) {
        world::World::new(seed).run();
    }

    /// Sends random messages, also out of turn: none may cause a panic.
    #[test]
    fn no_message_of_a_peer_is_a_panic(seed: u64) {
        let mut random = Random::new(seed);
        let configuration = testing::machines(4);
        let map = RegionMap::new(configuration.id());
        let replication = Replication::new(1, 1);
        let mut allocator = Allocator::new(&configuration, replication, map, [], RegionId(90));
        let mut cache = RegionCache::new(MachineId(2), &configuration);
        let mut replica = ReplicaRegions::new(MachineId(2), MachineId(1), configuration.id());
        for _ in 0..60 {
            let mut message = any_message(&mut random);
            message.configuration = configuration.id();
            let from = MachineId(1 + random.below(5) as u32);
            allocator.receive(from, message.clone());
            cache.receive(from, message.clone());
            cache.lookup(RegionId(random.below(99) as u32));
            cache.allocate(RequestedPlacement::default());
            replica.receive(from, message, &mut NoMemory);
        }
    }

    #[test]
    fn messages_survive_the_wire(seed: u64) {
        let mut random = Random::new(seed);
        let message = any_message(&mut random);
        prop_assert_eq!(RegionMessage::decode(&message.encode()), Ok(message));
    }

    #[test]
    fn garbage_is_refused_without_panic(seed: u64, bytes: Vec<u8>) {
        let _ = RegionMessage::decode(&bytes);
        let mut random = Random::new(seed);
        let mut near = any_message(&mut random).encode();
        let at = random.below(near.len() as u64) as usize;
        near[at] ^= 1 << random.below(8);
        if let Ok(read) = RegionMessage::decode(&near) {
            prop_assert_eq!(&read.encode(), &near, "what is read is what was written");
        }
        near.truncate(at);
        let _ = RegionMessage::decode(&near);
    }
}

struct NoMemory;

impl RegionHost for NoMemory {
    fn reserve(&mut self, _: &Mapping) -> Result<(), Refusal> {
        Err(Refusal::NoMemory)
    }

    fn keep(&mut self, mapping: &Mapping) {
        panic!("{} was never reserved", mapping.region);
    }

    fn release(&mut self, region: RegionId) {
        panic!("{region} was never reserved");
    }
}

fn any_message(random: &mut Random) -> RegionMessage {
    let request = RequestId {
        machine: MachineId(random.below(9) as u32),
        number: random.next_u64(),
    };
    let region = RegionId(random.below(99) as u32);
    let version = MapVersion {
        configuration: ConfigurationId(random.below(9)),
        changes: random.below(9),
    };
    let mapping = |random: &mut Random| Mapping {
        region: RegionId(random.below(99) as u32),
        group: GroupId(region),
        replicas: Replicas::new(
            MachineId(1),
            (2..2 + random.below(4) as u32).map(MachineId).collect(),
        )
        .expect("they are distinct"),
        last_primary_change: ConfigurationId(random.below(5)),
        last_replica_change: ConfigurationId(5 + random.below(5)),
    };
    let body = match random.below(12) {
        0 => RegionBody::Allocate {
            request,
            answered: random.next_u64(),
            near: Some(region).filter(|_| random.one_in(2)),
            primary: Some(MachineId(1)).filter(|_| random.one_in(2)),
        },
        1 => RegionBody::Allocated {
            request,
            version,
            mapping: mapping(random),
        },
        2 => RegionBody::NotAllocated {
            request,
            why: any_error(random, region),
        },
        3 => RegionBody::Prepare {
            request,
            mapping: mapping(random),
        },
        4 => RegionBody::Prepared { region },
        5 if random.one_in(2) => RegionBody::Refused {
            region,
            why: Refusal::NoMemory,
        },
        5 => RegionBody::Refused {
            region,
            why: Refusal::Contradiction,
        },
        6 => RegionBody::Commit { region },
        7 => RegionBody::Abort { region },
        8 => RegionBody::Fetch {
            regions: vec![region; random.below(5) as usize],
        },
        9 => RegionBody::List { from: region },
        10 => RegionBody::Listed {
            version,
            from: region,
            found: (0..random.below(4)).map(|_| mapping(random)).collect(),
            more: random.one_in(2),
        },
        _ => RegionBody::Mappings {
            version,
            found: (0..random.below(4)).map(|_| mapping(random)).collect(),
            missing: vec![region; random.below(5) as usize],
        },
    };
    RegionMessage {
        configuration: ConfigurationId(random.below(9)),
        body,
    }
}

fn any_error(random: &mut Random, region: RegionId) -> AllocationError {
    let (need, have) = (random.below(9) as u16, random.below(9) as u16);
    match random.below(7) {
        4 => PlacementError::PrimaryUnavailable {
            machine: MachineId(random.below(9) as u32),
        }
        .into(),
        0 => PlacementError::TooFewMachines { need, have }.into(),
        1 => PlacementError::TooFewDomains { need, have }.into(),
        2 => PlacementError::GroupUnavailable {
            group: GroupId(region),
            machine: MachineId(random.below(9) as u32),
        }
        .into(),
        3 => AllocationError::NoSuchRegion(region),
        5 => AllocationError::Unreachable,
        _ => AllocationError::OutOfIds,
    }
}
