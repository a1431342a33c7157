//! A machine ends, and another one with its number and new memory joins.

use fencepost_fabric::{FabricError, Writer};

use crate::kind::{Kind, SEGMENT, at, cluster, contents, provide, set_members, until, wait};

const OLD: u64 = 1;
const NEW: u64 = 2;
const WORDS: usize = 16;

pub fn nothing_posted_before_reaches_the_memory_after(kind: &impl Kind) {
    let mut machines = cluster(kind, 2);
    let (mut b, a) = (machines.pop().expect("b"), machines.pop().expect("a"));
    provide(&b, WORDS, &a);
    let place = at(&b, 0);
    for round in 0..5 {
        let mut posted: Vec<_> = (0..300).map(|_| a.write(place, &[OLD; WORDS])).collect();
        kind.stop(b);
        // Operations posted while no machine has the number must not reach the next one.
        posted.extend((0..50).map(|_| a.write(place, &[OLD; WORDS])));
        b = kind.join(2);
        let memory = b
            .provide(SEGMENT, WORDS, Writer::Peer(a.me()))
            .expect("provided");
        set_members(kind, &b, &[1, 2]);
        for write in posted {
            assert!(
                matches!(wait(kind, write), Ok(()) | Err(FabricError::Lost)),
                "round {round}"
            );
        }
        assert_eq!(contents(&memory), [0; WORDS], "round {round}");
        until(kind, || wait(kind, a.write(place, &[NEW])) == Ok(()));
        let mut expected = [0; WORDS];
        expected[0] = NEW;
        assert_eq!(contents(&memory), expected, "round {round}");
    }
}
