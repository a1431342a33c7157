//! FAB-4: every operation gets an answer, which tells its outcome.

use std::sync::atomic::Ordering;

use fencepost_fabric::FabricError;

use crate::kind::{Kind, at, cluster, provide, until, wait};

pub fn written_words_are_visible(kind: &impl Kind) {
    let machines = cluster(kind, 2);
    let (a, b) = (&machines[0], &machines[1]);
    let memory = provide(b, 4, a);
    let mapped = a.map(b.me(), crate::kind::SEGMENT);
    for n in 1..200 {
        assert_eq!(wait(kind, a.write(at(b, 1), &[n, n + 1])), Ok(()));
        let seen = |word: usize| memory.words()[word].load(Ordering::Acquire);
        assert_eq!((seen(0), seen(1), seen(2), seen(3)), (0, n, n + 1, 0));
        if let Some(mapped) = &mapped {
            assert_eq!(mapped.words()[2].load(Ordering::Acquire), n + 1);
        }
        // A peer reads the words that the owner writes directly.
        memory.words()[3].store(n, Ordering::Release);
        assert_eq!(wait(kind, a.read(at(b, 3), 1)).as_deref(), Ok(&[n][..]));
        memory.words()[3].store(0, Ordering::Release);
    }
    assert_eq!(wait(kind, a.read(at(b, 0), 0)).as_deref(), Ok(&[][..]));
    assert_eq!(wait(kind, a.write(at(b, 0), &[])), Ok(()));
}

pub fn ended_peer_answers_lost(kind: &impl Kind) {
    let mut machines = cluster(kind, 3);
    let (c, b, a) = (machines.pop(), machines.pop(), machines.pop());
    let (a, b, c) = (a.expect("a"), b.expect("b"), c.expect("c"));
    provide(&b, 8, &a);
    provide(&c, 8, &a);
    let place = at(&b, 0);
    kind.stop(b);
    until(kind, || {
        wait(kind, a.read(place, 1)) == Err(FabricError::Lost)
    });
    assert_eq!(wait(kind, a.write(place, &[1])), Err(FabricError::Lost));
    assert_eq!(wait(kind, a.cas(place, 0, 1)), Err(FabricError::Lost));
    a.ring_bell(place.machine);
    assert_eq!(wait(kind, a.write(at(&c, 0), &[1])), Ok(()), "others go on");
}

pub fn operations_end_when_their_peer_ends(kind: &impl Kind) {
    let mut machines = cluster(kind, 2);
    let (b, a) = (machines.pop(), machines.pop());
    let (a, b) = (a.expect("a"), b.expect("b"));
    provide(&b, 64, &a);
    let place = at(&b, 0);
    let posted: Vec<_> = (0..1000).map(|n| a.write(place, &[n; 64])).collect();
    kind.stop(b);
    let mut lost = false;
    for write in posted {
        match wait(kind, write) {
            Ok(()) => assert!(!lost, "took effect behind one that was lost"),
            Err(error) => {
                assert_eq!(error, FabricError::Lost);
                lost = true;
            }
        }
    }
}

pub fn completion_may_be_dropped(kind: &impl Kind) {
    let machines = cluster(kind, 2);
    let (a, b) = (&machines[0], &machines[1]);
    let memory = provide(b, 1, a);
    drop(a.write(at(b, 0), &[5]));
    drop(a.cas(at(b, 0), 5, 6));
    drop(a.read(at(b, 0), 1));
    until(kind, || memory.words()[0].load(Ordering::Acquire) == 6);
    assert_eq!(wait(kind, a.read(at(b, 0), 1)).as_deref(), Ok(&[6][..]));
}
