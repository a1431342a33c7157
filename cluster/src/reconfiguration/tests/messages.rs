//! The encoding of messages, and messages that make no sense.

use fencepost_fabric::{MachineId, Random};
use proptest::prelude::*;

use super::node::options;
use crate::allocation::{HeldRegion, MovedRegion, Refusal, RequestId};
use crate::codec::Wire;
use crate::configuration::Configuration;
use crate::ids::ConfigurationId;
use crate::lease::LeaseEvent;
use crate::reconfiguration::*;
use crate::region::{GroupId, Mapping, RegionId, Replicas};
use crate::store::SwapOutcome;
use crate::testing;

proptest! {
    #[test]
    fn messages_survive_the_wire(seed: u64) {
        let message = any_message(&mut Random::new(seed));
        prop_assert_eq!(ReconfigurationMessage::decode(&message.encode()), Ok(message));
    }

    #[test]
    fn garbage_is_refused_without_panic(seed: u64, bytes: Vec<u8>) {
        let _ = ReconfigurationMessage::decode(&bytes);
        let mut random = Random::new(seed);
        let mut near = any_message(&mut random).encode();
        let at = random.below(near.len() as u64) as usize;
        near[at] ^= 1 << random.below(8);
        if let Ok(read) = ReconfigurationMessage::decode(&near) {
            prop_assert_eq!(&read.encode(), &near, "what is read is what was written");
        }
        near.truncate(at);
        let _ = ReconfigurationMessage::decode(&near);
    }

    /// Sends random answers of peers and the store, also out of turn: none may cause a panic.
    #[test]
    fn nothing_that_is_said_is_a_panic(seed: u64) {
        let mut random = Random::new(seed);
        let me = MachineId(1 + random.below(4) as u32);
        let mut machine = Reconfiguration::new(me, testing::machines(4), options());
        let mut now = 0;
        for _ in 0..200 {
            now += random.below(20_000_000);
            let other = MachineId(1 + random.below(5) as u32);
            let id = ConfigurationId(3 + random.below(4));
            let attempt = random.below(4);
            let probe = RegionProbe { by: other, base: id, attempt };
            let actions = match random.below(13) {
                0 => machine.tick(now),
                1 => machine.lease_event(now, LeaseEvent::Expired(other)),
                2 => machine.lease_event(now, LeaseEvent::OldRunOut(id)),
                3 => machine.swapped(now, attempt, Some(SwapOutcome::Won)),
                4 => machine.swapped(now, attempt, Some(SwapOutcome::Lost)),
                5 => machine.read(now, attempt, Some(any_configuration(&mut random))),
                6 => machine.applied(now, id, Vec::new()),
                7 => machine.regions_reported(now, probe, any_holdings(&mut random)),
                8 => machine.unreachable(now, other),
                9 => machine.regions_active(now, id),
                10 => machine.severed(now, other),
                _ => machine.receive(now, other, any_message(&mut random)),
            };
            for action in actions {
                if let Action::ReportRegions(probe) = action {
                    machine.regions_reported(now, probe, any_holdings(&mut random));
                }
            }
        }
    }
}

fn any_configuration(random: &mut Random) -> Configuration {
    let count = 3 + random.below(3) as u32;
    let configuration = testing::machines(count);
    let cm = MachineId(1 + random.below(3) as u32);
    let lost = MachineId(1 + random.below(9) as u32);
    let next = configuration.without(&[lost].into(), cm);
    next.unwrap_or(configuration)
}

fn any_mapping(random: &mut Random) -> Mapping {
    let change = random.below(5);
    Mapping {
        region: RegionId(random.below(9) as u32),
        group: GroupId(RegionId(random.below(9) as u32)),
        replicas: Replicas::new(
            MachineId(1),
            (2..2 + random.below(4) as u32).map(MachineId).collect(),
        )
        .unwrap(),
        last_primary_change: ConfigurationId(change),
        last_replica_change: ConfigurationId(change + random.below(5)),
    }
}

fn any_request(random: &mut Random) -> RequestId {
    RequestId {
        machine: MachineId(random.below(9) as u32),
        number: random.next_u64(),
    }
}

fn some<T>(random: &mut Random, any: impl Fn(&mut Random) -> T) -> Vec<T> {
    (0..random.below(4)).map(|_| any(random)).collect()
}

fn any_region(random: &mut Random) -> RegionId {
    RegionId(random.below(9) as u32)
}

fn any_holdings(random: &mut Random) -> RegionReport {
    RegionReport {
        last_drained: ConfigurationId(random.below(9)),
        held: some(random, |random| HeldRegion {
            mapping: any_mapping(random),
            request: any_request(random),
            committed: random.one_in(2),
            whole: random.one_in(2),
        }),
        known: some(random, any_mapping),
        next_region: any_region(random),
        numbers: random.one_in(2),
        granted_ns: random.next_u64(),
        time_ns: random.one_in(2).then(|| random.next_u64()),
    }
}

fn any_message(random: &mut Random) -> ReconfigurationMessage {
    use ReconfigurationMessage as Message;
    let configuration = ConfigurationId(3 + random.below(4));
    match random.below(14) {
        0 => Message::Suspect { configuration },
        1 => Message::Probe {
            base: any_configuration(random),
            attempt: random.below(4),
        },
        2 => Message::ProbeAnswer {
            base: configuration,
            attempt: random.below(4),
            holdings: any_holdings(random),
        },
        3 => Message::NewConfig(NewConfig {
            configuration: any_configuration(random),
            moved: some(random, |random| MovedRegion {
                mapping: any_mapping(random),
                request: any_request(random),
            }),
            given_up: some(random, any_region),
            lost: some(random, any_region),
            next_region: any_region(random),
            clock: random.one_in(2).then(|| NewClock {
                host: random.next_u64(),
                ns: random.next_u64(),
                ahead: random.next_u64(),
                goes_on: random.one_in(2),
            }),
        }),
        4 => Message::NewConfigAck {
            configuration,
            refused: some(random, |random| RefusedReplica {
                region: any_region(random),
                why: if random.one_in(2) {
                    Refusal::NoMemory
                } else {
                    Refusal::Contradiction
                },
            }),
        },
        5 => Message::NewConfigCommit { configuration },
        6 => Message::RegionsActive { configuration },
        7 => Message::AllRegionsActive { configuration },
        8 => Message::Ask {
            applied: configuration,
            committed: random.one_in(2),
        },
        9 => Message::Severed {
            configuration,
            machine: MachineId(random.below(9) as u32),
        },
        10 => Message::Whole { configuration },
        11 => Message::Leave {
            machine: MachineId(random.below(9) as u32),
        },
        12 => Message::PartWith {
            machine: MachineId(random.below(9) as u32),
        },
        _ => Message::Newer {
            configuration: any_configuration(random),
        },
    }
}
