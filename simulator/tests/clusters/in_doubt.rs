//! A commit that recovery decides takes effect completely, however late its coordinator looks.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use fencepost_fabric::MachineId;
use fencepost_simulator::plan::{Plan, terms};

use fencepost_txn::{Addr, FatPtr, Machine, Mode, ObjectLocation, Outcome, Stop};

use crate::driven::{World, with};

const MS: u64 = 1_000_000;
const NOWHERE: [u64; 2] = [0, 0];
/// The machine that commits, the one that fails, and the one that reads.
const WRITES: usize = 0;
const FAILS: usize = 1;
const READS: usize = 2;

fn plan(seed: u64, hosts: u32) -> Plan {
    Plan {
        machines: 3,
        hosts,
        replicas: 2,
        leases: terms(10),
        replaces: true,
        ..Plan::draw(seed)
    }
}

/// Allocates an object on a machine with a null pointer in it.
async fn pointer_at(world: &World, at: usize) -> Addr {
    loop {
        let mut tx = world.machines[at].coordinator().begin(Mode::ReadWrite);
        if let Ok(place) = tx.alloc(NOWHERE.len(), ObjectLocation::Own).await
            && tx.write_new(place, &NOWHERE).is_ok()
            && let Ok(Outcome::Committed(_)) = tx.commit().await
        {
            return place.addr;
        }
        world.sim.nap(100_000).await;
    }
}

async fn poll_once<T>(future: &mut Pin<Box<impl Future<Output = T>>>) -> Option<T> {
    poll_fn(|task| match future.as_mut().poll(task) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Returns the object to which the pointer leads, as a machine reads it; `None` for a null pointer.
async fn follow(world: &World, at: usize, pointer: Addr) -> Option<Vec<u64>> {
    loop {
        let mut tx = world.machines[at].coordinator().begin(Mode::ReadOnly);
        let mut words = Vec::new();
        if tx.read(pointer, &mut words).await == Ok(true) {
            if words[..2] == NOWHERE {
                return None;
            }
            let place = FatPtr::from_words([words[0], words[1]]);
            match tx.read(place.addr, &mut words).await {
                Ok(there) => {
                    assert!(there, "a pointer leads to {place:?}, where nothing is");
                    return Some(words);
                }
                Err(stop) => assert!(matches!(stop, Stop::Retry(_)), "{stop:?}"),
            }
        }
        world.sim.nap(100_000).await;
    }
}

/// Makes the machine of a pointer fail while a commit sets the pointer to a new object, after
/// `looks` polls of the commit. The commit is not polled again before the pointer is read on
/// another machine. Returns whether that read had to wait.
async fn fails_after(world: World, looks: u64) -> bool {
    let pointer = pointer_at(&world, FAILS).await;
    let mut tx = world.machines[WRITES].coordinator().begin(Mode::ReadWrite);
    let Ok(place) = tx.alloc(1, ObjectLocation::Own).await else {
        return false;
    };
    let made = tx.write_new(place, &[7]).is_ok();
    if !made || tx.write(pointer, &place.to_words()).await.is_err() {
        return false;
    }
    let mut commit = Box::pin(tx.commit());
    let mut ended = None;
    for _ in 0..looks {
        if ended.is_none() {
            ended = poll_once(&mut commit).await;
        }
        world.sim.nap(MS / 10).await;
    }
    world.sim.net().crash(MachineId(FAILS as u32 + 1));
    let reader = &world.machines[READS];
    let replaced = || reader.members().configuration == 2 && reader.is_answering();
    world.until(replaced).await;
    let mut reading = Box::pin(follow(&world, READS, pointer));
    let mut found = None;
    for _ in 0..100 {
        if found.is_none() {
            found = poll_once(&mut reading).await;
        }
        world.sim.nap(MS / 10).await;
    }
    let waits = found.is_none();
    let ended = match ended {
        Some(ended) => ended,
        None => commit.await,
    };
    let found = match found {
        Some(found) => found,
        None => reading.await,
    };
    match ended {
        Ok(Outcome::Committed(_)) => assert!(found.is_some_and(|words| words[0] == 7)),
        Ok(Outcome::Aborted(_)) => assert_eq!(found, None),
        Err(stop) => panic!("{stop:?}"),
    }
    waits
}

#[test]
fn reader_of_in_doubt_pointer_finds_its_object() {
    for hosts in [1, 3] {
        let waited = Rc::new(Cell::new(0));
        for looks in 1..40 {
            let waited = Rc::clone(&waited);
            with(&plan(looks, hosts), move |world| async move {
                let waits = fails_after(world, looks).await;
                waited.set(waited.get() + u64::from(waits));
            });
        }
        assert!(waited.get() > 0, "the commit was never in doubt");
    }
}

/// Makes the machine of an object fail after `looks` polls of the commit that changes it. The
/// client polls a few times more, and drops the commit.
async fn leaves_after(world: World, looks: u64) {
    let object = pointer_at(&world, FAILS).await;
    let mut tx = world.machines[WRITES].coordinator().begin(Mode::ReadWrite);
    if tx.write(object, &[7, 7]).await.is_err() {
        return;
    }
    let mut commit = Box::pin(tx.commit());
    let mut ended = None;
    for at in 0..looks + 20 {
        if at == looks {
            world.sim.net().crash(MachineId(FAILS as u32 + 1));
        }
        if ended.is_none() {
            ended = poll_once(&mut commit).await;
        }
        world.sim.nap(MS / 50).await;
    }
    drop(commit);
    let other = [WRITES, READS].map(|at| Arc::clone(&world.machines[at]));
    let replaced = |machine: &Arc<Machine>| machine.members().configuration == 2;
    let rests = |machine: &Arc<Machine>| machine.is_answering() && machine.is_at_rest();
    let all = || {
        other
            .iter()
            .all(|machine| replaced(machine) && rests(machine))
    };
    world.until(all).await;
}

#[test]
fn unawaited_in_doubt_commit_leaves_nothing_behind() {
    for hosts in [1, 3] {
        for looks in 1..40 {
            with(&plan(looks, hosts), move |world| leaves_after(world, looks));
        }
    }
}
