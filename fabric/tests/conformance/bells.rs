//! Each lane rings its own bell.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fencepost_fabric::{Place, SegmentId, Writer};

use crate::kind::{Kind, SEGMENT, at, cluster, provide, until, wait};

/// A time limit that no wait reaches, because the bell ends it before.
const LONG: Duration = Duration::from_secs(60);
const LEASES: SegmentId = SegmentId::new(SegmentId::MAILBOX, SegmentId::LEASE_LANE, 7);

pub fn write_rings_bell_of_its_lane(kind: &impl Kind) {
    let machines = cluster(kind, 2);
    let (a, b) = (&machines[0], &machines[1]);
    provide(b, 1, a);
    b.provide(LEASES, 1, Writer::Peer(a.me()))
        .expect("provided");
    for from in [a, b] {
        for (segment, rung, silent) in [
            (SEGMENT, b.bell(), b.lease_bell()),
            (LEASES, b.lease_bell(), b.bell()),
        ] {
            let place = Place {
                segment,
                ..at(b, 0)
            };
            let (before, other) = (rung.arm(), silent.arm());
            assert_eq!(wait(kind, from.write_and_ring(place, &[1])), Ok(()));
            until(kind, || rung.arm() != before);
            let before = rung.arm();
            match segment == LEASES {
                true => from.ring_lease_bell(b.me()),
                false => from.ring_bell(b.me()),
            }
            until(kind, || rung.arm() != before);
            assert_eq!(silent.arm(), other);
        }
    }
}

pub fn waiter_at_lease_bell_is_woken(kind: &impl Kind) {
    const ROUNDS: u64 = 1000;
    let machines = cluster(kind, 2);
    let (a, b) = (&machines[0], &machines[1]);
    let memory = [(a, b), (b, a)].map(|(owner, writer)| {
        let writer = Writer::Peer(writer.me());
        owner.provide(LEASES, 1, writer).expect("provided")
    });
    let play = |me: usize| {
        for round in 1..=ROUNDS {
            let place = Place {
                machine: machines[1 - me].me(),
                segment: LEASES,
                word: 0,
            };
            drop(machines[me].write_and_ring(place, &[round]));
            let there = || memory[me].words()[0].load(Ordering::Acquire) >= round;
            while !there() {
                let armed = machines[me].lease_bell().arm();
                if there() {
                    machines[me].lease_bell().disarm();
                    break;
                }
                let begun = Instant::now();
                machines[me].lease_bell().wait(armed, LONG);
                assert!(begun.elapsed() < LONG, "the bell did not ring");
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| play(0));
        play(1);
    });
}
