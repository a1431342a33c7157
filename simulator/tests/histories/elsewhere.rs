//! Commits that involve objects of other machines, one step at a time.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use fencepost_txn::{
    Addr, Coordinator, Mode, NodeKind, ObjectLocation, Outcome, Refusal, RerouteFuture,
};
use fencepost_txn::{Revalidate, Stop, Timestamp, View};
use pollster::block_on;

use crate::kind::Kind;
use crate::world::World;

fn committed(outcome: Result<Outcome, fencepost_txn::Stop>) {
    assert!(matches!(outcome, Ok(Outcome::Committed(_))), "{outcome:?}");
}

#[test]
fn remotely_freed_slot_is_reused_only_at_its_machine() {
    for kind in [Kind::Local, Kind::Shm, Kind::Tcp] {
        let world = World::over(kind, 2, 1, 2);
        let theirs = world.objects[1];
        let mut tx = world.machines[0].coordinator().begin(Mode::ReadWrite);
        block_on(tx.free(theirs)).expect("is there");
        committed(block_on(tx.commit()));
        // All readers pass the tombstone in this time.
        std::thread::sleep(Duration::from_millis(200));
        for _ in 0..8 {
            let mut tx = world.machines[0].coordinator().begin(Mode::ReadWrite);
            for _ in 0..4 {
                let new = block_on(tx.alloc(20, ObjectLocation::Object(theirs)))
                    .expect("memory")
                    .addr;
                assert_ne!(new, theirs, "that is the other machine's");
            }
            committed(block_on(tx.commit()));
        }
    }
}

#[test]
fn large_transaction_does_not_block_itself() {
    let world = World::over(Kind::Local, 2, 2, 2);
    for (own, theirs) in [(0, 1), (1, 0)] {
        let mut tx = world.machines[own].coordinator().begin(Mode::ReadWrite);
        for _ in 0..400 {
            block_on(tx.alloc(20, ObjectLocation::Own)).expect("memory");
        }
        block_on(tx.write(world.objects[theirs], &[7])).expect("is there");
        committed(block_on(tx.commit()));
    }
    // The sizes cover all positions of logs and of their reported heads.
    for size in 0..60 {
        let mut tx = world.machines[0].coordinator().begin(Mode::ReadWrite);
        for _ in 0..100 + 7 * size {
            block_on(tx.alloc(20, ObjectLocation::Own)).expect("memory");
        }
        committed(block_on(tx.commit()));
    }
    world.wait_until_idle_unchecked();
}

#[test]
fn sessions_of_one_thread_do_not_wait_for_each_other_for_ever() {
    const ENOUGH: u64 = 300;
    let world = World::over(Kind::Shm, 2, 1, 2);
    let theirs = world.objects[1];
    let done = AtomicU64::new(0);
    let session = |mut coordinator: Coordinator| {
        let done = &done;
        Box::pin(async move {
            loop {
                let mut tx = coordinator.begin(Mode::ReadWrite);
                let mut words = Vec::new();
                let read = tx.read(theirs, &mut words).await.is_ok();
                if read && tx.write(theirs, &[words[0] + 1; 20]).await.is_ok() {
                    committed_or_not(tx.commit().await);
                }
                done.fetch_add(1, Ordering::Relaxed);
                once_pending().await;
            }
        })
    };
    let mut sessions = [0, 0].map(|machine| session(world.machines[machine].coordinator()));
    let mut cx = Context::from_waker(Waker::noop());
    let deadline = Instant::now() + Duration::from_secs(60);
    while done.load(Ordering::Relaxed) < ENOUGH {
        assert!(Instant::now() < deadline, "the thread is stuck");
        for session in &mut sessions {
            let _: Poll<()> = session.as_mut().poll(&mut cx);
        }
    }
}

/// Accepts every outcome: a conflict is valid, too.
fn committed_or_not(outcome: Result<Outcome, fencepost_txn::Stop>) {
    outcome.expect("nothing fails");
}

async fn once_pending() {
    let mut once = false;
    std::future::poll_fn(|_| match std::mem::replace(&mut once, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}

/// A kind of nodes whose patches set one word: place and value.
struct WordKind;

static WORDS: WordKind = WordKind;

impl NodeKind for WordKind {
    fn id(&self) -> u8 {
        78
    }

    fn admits(&self, _node: &View<'_>, _r: Timestamp) -> bool {
        true
    }

    fn apply(&self, op: &[u64], image: &mut [u64]) -> Result<(), Refusal> {
        image[op[0] as usize] = op[1];
        Ok(())
    }

    fn revalidate(&self, _note: &[u64], _now: &View<'_>) -> Revalidate {
        Revalidate::Valid
    }

    fn reroute<'a>(
        &'static self,
        _tx: &'a mut fencepost_txn::Transaction,
        _addr: Addr,
    ) -> RerouteFuture<'a> {
        Box::pin(async { Err(Stop::Damaged) })
    }
}

#[test]
fn patches_of_a_node_that_has_not_moved_outlive_a_refresh() {
    for kind in [Kind::Local, Kind::Tcp] {
        let world = World::over(kind, 2, 1, 2);
        let theirs = world.objects[1];
        let word = |view: &View<'_>| view.word(3);
        let mut tx = world.machines[0].coordinator().begin(Mode::ReadWrite);
        let patched = block_on(tx.patch(theirs, &WORDS, &[3, 7]));
        assert_eq!(patched, Ok(Ok(())));
        block_on(tx.refresh()).expect("nothing has moved");
        let seen = block_on(tx.view(theirs, None, word)).expect("is there");
        assert_eq!(seen.map(|(word, _)| word), Some(7), "{kind:?}");
        committed(block_on(tx.commit()));
        let mut tx = world.machines[0].coordinator().begin(Mode::ReadOnly);
        let seen = block_on(tx.view(theirs, None, word)).expect("is there");
        assert_eq!(seen.map(|(word, _)| word), Some(7), "{kind:?}");
    }
}

#[test]
fn abandoned_refresh_does_not_tear_snapshot() {
    let world = World::over(Kind::Tcp, 2, 1, 4);
    let (one, other) = (world.objects[1], world.objects[3]);
    let mut writer = world.machines[1].coordinator();
    for polls in 0..12 {
        let mut tx = world.machines[0].coordinator().begin(Mode::ReadWrite);
        for node in [one, other] {
            let patched = block_on(tx.patch(node, &WORDS, &[3, polls]));
            assert_eq!(patched, Ok(Ok(())));
        }
        let mut both = writer.begin(Mode::ReadWrite);
        for node in [one, other] {
            block_on(both.write(node, &[polls + 1; 20])).expect("is there");
        }
        committed(block_on(both.commit()));
        {
            let mut refresh = Box::pin(tx.refresh());
            let mut cx = Context::from_waker(Waker::noop());
            for _ in 0..polls {
                if refresh.as_mut().poll(&mut cx).is_ready() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        let seen = [one, other].map(|node| {
            let seen = block_on(tx.view(node, None, |view| (view.word(3), view.word(5))));
            seen.expect("is there").map(|(words, _)| words)
        });
        assert_eq!(seen[0], seen[1], "after {polls} polls");
        tx.abort();
    }
}

#[test]
fn rollback_to_savepoint_keeps_unmoved_snapshot() {
    for kind in [Kind::Local, Kind::Tcp] {
        let world = World::over(kind, 2, 1, 4);
        let (read, patched) = (world.objects[1], world.objects[3]);
        let mut tx = world.machines[0].coordinator().begin(Mode::ReadWrite);
        assert_eq!(block_on(tx.read(read, &mut Vec::new())), Ok(true));
        assert_eq!(block_on(tx.patch(patched, &WORDS, &[3, 1])), Ok(Ok(())));
        let savepoint = tx.savepoint();
        assert_eq!(block_on(tx.patch(patched, &WORDS, &[4, 1])), Ok(Ok(())));
        let mut other = world.machines[1].coordinator().begin(Mode::ReadWrite);
        block_on(other.write(read, &[7])).expect("is there");
        committed(block_on(other.commit()));
        tx.rollback_to(&savepoint);
        let seen = block_on(tx.view(patched, None, |view| (view.word(3), view.word(4))));
        assert_eq!(
            seen.expect("is there").map(|(words, _)| words),
            Some((1, 0))
        );
        tx.abort();
    }
}
