//! FAB-1, FAB-2 and FAB-7: words are atomic, the first word of a write becomes visible last, and a
//! read is consistent.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use fencepost_fabric::FabricError;

use crate::kind::{Kind, at, cluster, provide, wait};

pub fn swaps_lose_nothing(kind: &impl Kind) {
    const EACH: u64 = 500;
    let machines = cluster(kind, 2);
    let (a, b) = (&machines[0], &machines[1]);
    let memory = provide(b, 3, a);
    // The swaps come from threads of the peer and the owner, through fabrics and directly on the
    // memory.
    std::thread::scope(|scope| {
        for machine in [a, a, b, b] {
            scope.spawn(move || {
                let mut seen = 0;
                for _ in 0..EACH {
                    loop {
                        let was = wait(kind, machine.cas(at(b, 1), seen, seen + 1)).expect("there");
                        if was == seen {
                            break;
                        }
                        seen = was;
                    }
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..EACH {
                    memory.words()[1].fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!(memory.words()[1].load(Ordering::SeqCst), 6 * EACH);
}

pub fn words_are_whole(kind: &impl Kind) {
    const WORDS: usize = 17;
    let machines = cluster(kind, 3);
    let [a, b, c] = &machines[..] else {
        unreachable!("three machines")
    };
    let memory = provide(b, WORDS, a);
    let done = AtomicBool::new(false);
    let whole = |word: u64| assert_eq!(word >> 32, word & 0xFFFF_FFFF, "half a word");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..2000 {
                let word = (n << 32) | n;
                assert_eq!(wait(kind, a.write(at(b, 0), &[word; WORDS])), Ok(()));
            }
            done.store(true, Ordering::Release);
        });
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                let words = wait(kind, c.read(at(b, 0), WORDS)).expect("there");
                words.iter().copied().for_each(whole);
            }
        });
        while !done.load(Ordering::Acquire) {
            memory
                .words()
                .iter()
                .for_each(|word| whole(word.load(Ordering::Relaxed)));
        }
    });
}

pub fn visible_first_word_implies_later_words(kind: &impl Kind) {
    const WORDS: usize = 2000;
    const WRITES: u64 = 500;
    let machines = cluster(kind, 3);
    let [a, b, c] = &machines[..] else {
        unreachable!("three machines")
    };
    let memory = provide(b, WORDS, a);
    let all_there = Barrier::new(3);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            all_there.wait();
            let writes: Vec<_> = (1..=WRITES)
                .map(|n| a.write(at(b, 0), &[n; WORDS]))
                .collect();
            for write in writes {
                assert_eq!(wait(kind, write), Ok(()));
            }
        });
        scope.spawn(|| {
            all_there.wait();
            let mut first = 0;
            while first < WRITES {
                let first_word = c.read(at(b, 0), 1);
                let all = c.read(at(b, 0), WORDS);
                // If this thread runs only between writes, all of its reads may find changing
                // words.
                match (wait(kind, first_word), wait(kind, all)) {
                    (Ok(word), Ok(all)) => {
                        first = word[0];
                        assert!(all.iter().all(|word| *word >= first), "{first} before all");
                    }
                    (Err(FabricError::Unsteady), _) | (_, Err(FabricError::Unsteady)) => {}
                    (Err(error), _) | (_, Err(error)) => panic!("{error}"),
                }
            }
        });
        all_there.wait();
        let mut first = 0;
        while first < WRITES {
            first = memory.words()[0].load(Ordering::Acquire);
            // The words are read in reverse order of the write.
            for word in memory.words().iter().rev() {
                assert!(word.load(Ordering::Relaxed) >= first);
            }
        }
    });
}

pub fn read_with_stable_first_word_is_not_torn(kind: &impl Kind) {
    const WORDS: usize = 300;
    const READS: u32 = 400;
    let machines = cluster(kind, 2);
    let (a, b) = (&machines[0], &machines[1]);
    let memory = provide(b, WORDS, a);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let words = memory.words();
            for n in 1.. {
                if done.load(Ordering::Acquire) {
                    break;
                }
                // An odd first word marks a write in progress.
                words[0].store(2 * n - 1, Ordering::Release);
                fence(Ordering::Release);
                for word in &words[1..] {
                    word.store(n, Ordering::Relaxed);
                }
                words[0].store(2 * n, Ordering::Release);
                std::thread::yield_now();
            }
        });
        let mut whole = 0;
        while whole < READS {
            match wait(kind, a.read(at(b, 0), WORDS)) {
                Ok(read) if read[0] % 2 == 0 => {
                    let same = read[1..].iter().all(|word| 2 * word == read[0]);
                    assert!(same, "{} is torn", read[0]);
                    whole += 1;
                }
                Ok(_) | Err(FabricError::Unsteady) => {}
                Err(error) => panic!("{error}"),
            }
        }
        done.store(true, Ordering::Release);
    });
}
