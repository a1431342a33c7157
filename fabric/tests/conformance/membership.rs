//! FAB-5: no operation reaches or leaves a machine outside the configuration.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fencepost_fabric::ring::{receive, send};
use fencepost_fabric::{Event, Fabric, FabricError, Writer};

use crate::kind::{
    Kind, SEGMENT, at, cluster, contents, provide, reaches, set_members, until, wait,
};

pub fn post_to_non_member_is_refused(kind: &impl Kind) {
    let machines = cluster(kind, 2);
    let outsider = kind.join(9);
    let memory = provide(&outsider, 1, &machines[0]);
    let place = at(&outsider, 0);
    let not_member = FabricError::NotMember(outsider.me());
    let a = &machines[0];
    assert_eq!(wait(kind, a.write(place, &[1])), Err(not_member.clone()));
    assert_eq!(wait(kind, a.cas(place, 0, 1)), Err(not_member.clone()));
    assert_eq!(wait(kind, a.read(place, 1)), Err(not_member));
    a.ring_bell(place.machine);
    assert!(a.map(place.machine, SEGMENT).is_none());
    assert_eq!(contents(&memory), [0]);
}

pub fn machine_unknown_to_peer_reaches_nothing(kind: &impl Kind) {
    let machines = cluster(kind, 2);
    let b = &machines[1];
    let outsider = kind.join(9);
    let memory = provide(b, 1, &outsider);
    set_members(kind, &outsider, &[1, 2, 9]);
    for _ in 0..20 {
        kind.advance();
        assert_eq!(
            wait(kind, outsider.write(at(b, 0), &[1])),
            Err(FabricError::Lost)
        );
        assert_eq!(
            wait(kind, outsider.read(at(b, 0), 1)),
            Err(FabricError::Lost)
        );
    }
    assert_eq!(contents(&memory), [0]);
    set_members(kind, b, &[1, 2, 9]);
    until(kind, || {
        wait(kind, outsider.write(at(b, 0), &[1])) == Ok(())
    });
    assert_eq!(contents(&memory), [1]);
}

pub fn removed_machine_reaches_nothing(kind: &impl Kind) {
    let machines = cluster(kind, 3);
    let [a, b, c] = &machines[..] else {
        unreachable!("three machines")
    };
    let memory = provide(b, 1, a);
    assert_eq!(wait(kind, a.write(at(b, 0), &[1])), Ok(()));
    let under_way: Vec<_> = (0..100).map(|_| a.write(at(b, 0), &[2])).collect();
    set_members(kind, b, &[2, 3]);
    for write in under_way {
        let _ = wait(kind, write);
    }
    let before = contents(&memory);
    assert_eq!(wait(kind, a.write(at(b, 0), &[3])), Err(FabricError::Lost));
    assert_eq!(wait(kind, a.read(at(b, 0), 1)), Err(FabricError::Lost));
    assert_eq!(
        wait(kind, b.read(at(a, 0), 1)),
        Err(FabricError::NotMember(a.me()))
    );
    assert_eq!(contents(&memory), before);
    assert!(reaches(kind, c, b.me()), "others go on");
    set_members(kind, b, &[1, 2, 3]);
    until(kind, || wait(kind, a.write(at(b, 0), &[4])) == Ok(()));
    assert_eq!(contents(&memory), [4]);
}

pub fn removing_member_ends_posted_operations(kind: &impl Kind) {
    let machines = cluster(kind, 2);
    let (a, b) = (&machines[0], &machines[1]);
    provide(b, 64, a);
    let writes: Vec<_> = (0..500).map(|_| a.write(at(b, 0), &[2; 64])).collect();
    let reads: Vec<_> = (0..500).map(|_| a.read(at(b, 0), 64)).collect();
    set_members(kind, a, &[1]);
    for write in writes {
        assert!(matches!(wait(kind, write), Ok(()) | Err(FabricError::Lost)));
    }
    for read in reads {
        assert!(matches!(wait(kind, read), Ok(_) | Err(FabricError::Lost)));
    }
    assert_eq!(
        wait(kind, a.write(at(b, 0), &[3])),
        Err(FabricError::NotMember(b.me()))
    );
    assert!(a.map(b.me(), SEGMENT).is_none());
}

pub fn ring_of_lost_member_is_drained_and_recreated(kind: &impl Kind) {
    const LANE: u16 = 2;
    const CAPACITY: usize = 64;
    let mut machines = cluster(kind, 2);
    let (b, a) = (machines.pop().expect("b"), machines.pop().expect("a"));
    let mut out = Vec::new();
    let mut reader = receive(&b, a.me(), LANE, CAPACITY).expect("provided");
    let mut writer = send(&a, b.me(), LANE, CAPACITY).expect("provided");
    for number in 0..5 {
        writer.push(1, &[&[number]]).expect("there is room");
    }
    assert_eq!(wait(kind, writer.flush()), Ok(()));
    drop(writer);
    kind.stop(a);
    set_members(kind, &b, &[2]);
    for number in 0..5 {
        let (_, kept) = reader.next(&mut out).expect("well-formed").expect("there");
        assert_eq!(out, [number]);
        reader.release(kept);
    }
    assert_eq!(reader.next(&mut out), Ok(None));
    drop(reader);
    let a = kind.join(1);
    set_members(kind, &a, &[1, 2]);
    set_members(kind, &b, &[1, 2]);
    let mut reader = receive(&b, a.me(), LANE, CAPACITY).expect("the first is gone");
    let mut writer = send(&a, b.me(), LANE, CAPACITY).expect("provided");
    until(kind, || reaches(kind, &a, b.me()));
    assert_eq!(reader.next(&mut out), Ok(None));
    writer.push(2, &[&[7]]).expect("there is room");
    assert_eq!(wait(kind, writer.flush()), Ok(()));
    let (tag, _) = reader.next(&mut out).expect("well-formed").expect("there");
    assert_eq!((tag, &out[..]), (2, &[7][..]));
}

pub fn members_change_while_others_post(kind: &impl Kind) {
    const ROUNDS: usize = 20;
    let machines = cluster(kind, 2);
    let (a, b) = (&machines[0], &machines[1]);
    provide(b, 3, a);
    let (done, ended) = (AtomicBool::new(false), AtomicU64::new(0));
    let fair = |error: &FabricError| {
        assert!(matches!(
            error,
            FabricError::Lost | FabricError::NotMember(_)
        ));
        ended.fetch_add(1, Ordering::Relaxed);
    };
    std::thread::scope(|scope| {
        for word in 0..3 {
            let (done, fair) = (&done, &fair);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let posted = (0..20).map(|value| a.write(at(b, word), &[value]));
                    let posted: Vec<_> = posted.collect();
                    let read = a.read(at(b, word), 1);
                    let swapped = a.cas(at(b, word), 0, 1);
                    a.ring_bell(b.me());
                    for write in posted {
                        let _ = wait(kind, write).inspect_err(fair);
                    }
                    let _ = wait(kind, read).inspect_err(fair);
                    let _ = wait(kind, swapped).inspect_err(fair);
                }
            });
        }
        for _ in 0..ROUNDS {
            let before = ended.load(Ordering::Relaxed);
            set_members(kind, a, &[1]);
            until(kind, || ended.load(Ordering::Relaxed) > before);
            let write = wait(kind, a.write(at(b, 0), &[3]));
            assert_eq!(write, Err(FabricError::NotMember(b.me())));
            set_members(kind, a, &[1, 2]);
            until(kind, || reaches(kind, a, b.me()));
        }
        done.store(true, Ordering::Relaxed);
    });
}

pub fn this_machine_is_always_a_member(kind: &impl Kind) {
    let machines = cluster(kind, 2);
    let without = machines[0].set_members(&[kind.member(2)]);
    assert!(matches!(without, Err(FabricError::Refused(_))));
    assert!(reaches(kind, &machines[0], machines[1].me()), "as before");
}

pub fn machine_reaches_itself(kind: &impl Kind) {
    let alone = kind.join(1);
    let memory = alone.provide(SEGMENT, 3, Writer::Owner).expect("provided");
    assert_eq!(wait(kind, alone.write(at(&alone, 1), &[4, 5])), Ok(()));
    assert_eq!(wait(kind, alone.cas(at(&alone, 1), 4, 6)), Ok(4));
    assert_eq!(
        wait(kind, alone.read(at(&alone, 0), 3)).as_deref(),
        Ok(&[0, 6, 5][..])
    );
    assert_eq!(contents(&memory), [0, 6, 5]);
    alone.ring_bell(alone.me());
}

pub fn events_tell_of_connections(kind: &impl Kind) {
    let mut machines = cluster(kind, 3);
    let ids: Vec<_> = machines.iter().map(|machine| machine.me()).collect();
    for machine in &machines {
        let mut events = machine.take_events();
        events.sort_by_key(|event| match event {
            Event::Connected(peer) | Event::Lost(peer) => *peer,
        });
        let peers = ids.iter().filter(|id| **id != machine.me());
        assert_eq!(
            events,
            peers.map(|id| Event::Connected(*id)).collect::<Vec<_>>()
        );
        assert_eq!(machine.take_events(), [], "each is told once");
    }
    let (c, b) = (machines.pop().expect("c"), machines.pop().expect("b"));
    let a = machines.pop().expect("a");
    kind.stop(c);
    expect_event(kind, &a, Event::Lost(ids[2]));
    set_members(kind, &b, &[2]);
    expect_event(kind, &a, Event::Lost(ids[1]));
    set_members(kind, &b, &[1, 2]);
    expect_event(kind, &a, Event::Connected(ids[1]));
    assert!(reaches(kind, &a, ids[1]));
}

/// Waits until a machine has events; checks that all of them are `event`.
fn expect_event(kind: &impl Kind, machine: &Arc<dyn Fabric>, event: Event) {
    let mut events = Vec::new();
    until(kind, || {
        events.extend(machine.take_events());
        !events.is_empty()
    });
    assert_eq!(events, [event]);
}
