//! FAB-6, and places that do not exist or are not writable.

use std::sync::atomic::Ordering;

use fencepost_fabric::{FabricError, Place, SegmentId, Writer};

use crate::kind::{Kind, SEGMENT, at, cluster, contents, provide, wait};

const WORDS: usize = 10;

/// Returns whether the answer is [`FabricError::Refused`].
fn refused<T>(answer: Result<T, FabricError>) -> bool {
    matches!(answer, Err(FabricError::Refused(_)))
}

pub fn missing_place_is_refused(kind: &impl Kind) {
    let machines = cluster(kind, 2);
    let (a, b) = (&machines[0], &machines[1]);
    let memory = provide(b, WORDS, a);
    let nowhere = Place {
        segment: SegmentId::new(SegmentId::REGION, 1, 7),
        ..at(b, 0)
    };
    for (place, words) in [
        (nowhere, 1),
        (at(b, WORDS), 1),
        (at(b, WORDS - 1), 2),
        (at(b, 0), WORDS + 1),
        (at(b, usize::MAX), 1),
        (at(b, usize::MAX), 2),
        (at(b, usize::MAX / 8 + 1), 1),
    ] {
        assert!(refused(wait(kind, a.read(place, words))), "{place:?}");
        assert!(refused(wait(kind, a.write(place, &vec![9; words]))));
    }
    for place in [nowhere, at(b, WORDS), at(b, usize::MAX)] {
        assert!(refused(wait(kind, a.cas(place, 0, 9))), "{place:?}");
    }
    assert_eq!(contents(&memory), [0; WORDS]);
    assert_eq!(wait(kind, a.write(at(b, 0), &[3; WORDS])), Ok(()));
    assert_eq!(contents(&memory), [3; WORDS]);
}

pub fn impossible_length_is_refused(kind: &impl Kind) {
    let machines = cluster(kind, 2);
    let (a, b) = (&machines[0], &machines[1]);
    provide(b, WORDS, a);
    for words in [1 << 33, 1 << 60, usize::MAX / 8, usize::MAX] {
        assert!(refused(wait(kind, a.read(at(b, 0), words))));
        assert!(refused(wait(kind, a.read(at(a, 0), words))));
    }
    assert_eq!(wait(kind, a.read(at(b, 0), 1)).as_deref(), Ok(&[0][..]));
}

pub fn write_by_non_writer_is_refused(kind: &impl Kind) {
    let machines = cluster(kind, 3);
    let [a, b, c] = &machines[..] else {
        unreachable!("three machines")
    };
    let memory = provide(b, 1, a);
    assert!(refused(wait(kind, c.write(at(b, 0), &[9]))));
    assert!(refused(wait(kind, c.cas(at(b, 0), 0, 9))));
    assert_eq!(contents(&memory), [0]);
    assert_eq!(wait(kind, c.read(at(b, 0), 1)).as_deref(), Ok(&[0][..]));

    let own = c.provide(SEGMENT, 1, Writer::Owner).expect("provided");
    for machine in [a, b] {
        assert!(refused(wait(kind, machine.write(at(c, 0), &[9]))));
        assert!(refused(wait(kind, machine.cas(at(c, 0), 0, 9))));
    }
    assert_eq!(contents(&own), [0]);
}

pub fn duplicate_and_withdrawn_segment_are_refused(kind: &impl Kind) {
    let machines = cluster(kind, 2);
    let (a, b) = (&machines[0], &machines[1]);
    let old = provide(b, 2, a);
    assert!(refused(b.provide(SEGMENT, 2, Writer::Owner).map(drop)));
    b.withdraw(SEGMENT);
    assert!(refused(wait(kind, a.write(at(b, 0), &[9]))));
    assert!(refused(wait(kind, a.read(at(b, 0), 1))));
    let new = provide(b, 3, a);
    assert_eq!(wait(kind, a.write(at(b, 0), &[4])), Ok(()));
    assert_eq!(
        (contents(&old), contents(&new)),
        (vec![0, 0], vec![4, 0, 0])
    );
}

pub fn replaced_segment_is_found_after_old_one_is_forgotten(kind: &impl Kind) {
    let machines = cluster(kind, 2);
    let (a, b) = (&machines[0], &machines[1]);
    let old = b.provide(SEGMENT, 2, Writer::Owner).expect("provided");
    old.words()[0].store(7, Ordering::Release);
    assert_eq!(wait(kind, a.read(at(b, 0), 1)).as_deref(), Ok(&[7][..]));
    b.withdraw(SEGMENT);
    a.forget(SEGMENT);
    assert!(refused(wait(kind, a.read(at(b, 0), 1))));
    let new = b.provide(SEGMENT, 2, Writer::Owner).expect("provided");
    new.words()[0].store(8, Ordering::Release);
    assert_eq!(wait(kind, a.read(at(b, 0), 1)).as_deref(), Ok(&[8][..]));
}
