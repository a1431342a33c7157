//! FAB-3: operations that one thread posts to one machine take effect in order.

use fencepost_fabric::random::Random;
use fencepost_fabric::{Completion, FabricError};

use crate::kind::{Kind, at, cluster, contents, provide, wait};

const WORDS: usize = 40;

/// An operation in progress, and its expected answer.
enum PostedOperation {
    Read(Completion<Box<[u64]>>, Box<[u64]>),
    Write(Completion<()>),
    Swap(Completion<u64>, u64),
}

pub fn every_answer_is_that_of_the_operations_posted_before(kind: &impl Kind) {
    let machines = cluster(kind, 2);
    let (a, b) = (&machines[0], &machines[1]);
    let memory = provide(b, WORDS, a);
    let (mut model, mut random) = (vec![0; WORDS], Random::new(3));
    for _ in 0..20 {
        let posted: Vec<_> = (0..200)
            .map(|_| {
                let from = random.below(WORDS as u64) as usize;
                let words = random.below((WORDS - from) as u64) as usize + 1;
                match random.below(3) {
                    0 => PostedOperation::Read(
                        a.read(at(b, from), words),
                        model[from..from + words].to_vec().into_boxed_slice(),
                    ),
                    1 => {
                        let values: Vec<_> = (0..words).map(|_| random.below(4)).collect();
                        model[from..from + words].copy_from_slice(&values);
                        PostedOperation::Write(a.write(at(b, from), &values))
                    }
                    _ => {
                        let (expected, new) = (random.below(4), random.below(4));
                        let was = model[from];
                        if was == expected {
                            model[from] = new;
                        }
                        PostedOperation::Swap(a.cas(at(b, from), expected, new), was)
                    }
                }
            })
            .collect();
        for posted in posted {
            match posted {
                PostedOperation::Read(completion, words) => {
                    assert_eq!(wait(kind, completion), Ok(words))
                }
                PostedOperation::Write(completion) => assert_eq!(wait(kind, completion), Ok(())),
                PostedOperation::Swap(completion, was) => {
                    assert_eq!(wait(kind, completion), Ok(was))
                }
            }
        }
        assert_eq!(contents(&memory), model);
    }
}

pub fn two_machines_do_not_disturb_each_other(kind: &impl Kind) {
    let machines = cluster(kind, 3);
    let [a, b, c] = &machines[..] else {
        unreachable!("three machines")
    };
    let (of_b, of_c) = (provide(b, 1, a), provide(c, 1, a));
    let mut posted = Vec::new();
    for n in 1..=100 {
        posted.push(a.write(at(b, 0), &[n]));
        posted.push(a.write(at(c, 0), &[1000 + n]));
    }
    for completion in posted {
        assert_eq!(wait(kind, completion), Ok(()));
    }
    assert_eq!((contents(&of_b), contents(&of_c)), (vec![100], vec![1100]));
}

pub fn thread_keeps_its_order(kind: &impl Kind) {
    const THREADS: usize = 4;
    let machines = cluster(kind, 2);
    let (a, b) = (&machines[0], &machines[1]);
    provide(b, THREADS, a);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for n in 0..1000 {
                    let write = a.write(at(b, thread), &[2 * n + 1]);
                    let swap = a.cas(at(b, thread), 2 * n + 1, 2 * n + 2);
                    let read = a.read(at(b, thread), 1);
                    let swapped: Result<u64, FabricError> = wait(kind, swap);
                    assert_eq!(wait(kind, write), Ok(()));
                    assert_eq!(swapped, Ok(2 * n + 1));
                    assert_eq!(wait(kind, read).as_deref(), Ok(&[2 * n + 2][..]));
                }
            });
        }
    });
}
