//! One machine is killed before the others, and no reconfiguration happens. A commit that involves
//! it has afterwards taken effect completely or not at all. That holds whichever writes of the
//! others have arrived, and whether they are killed or closed in good order.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use fencepost_txn::{Addr, MachineId, Mode, Outcome, Stop};

use crate::host::{Host, Machines, OthersEnd};
use crate::{LONG, OLD};

/// Rounds in which the other machines make all progress that is possible without the killed one.
const ROUNDS: usize = 40;
const COORDINATOR: usize = 0;

/// Runs a task as far as the machines get without the killed one. Returns its result, and the
/// memory that is left if all are killed then.
fn run_and_kill<T>(
    host: &Host,
    machines: &Machines,
    task: impl Future<Output = T>,
) -> (Option<T>, Host) {
    let mut task = pin!(task);
    let (mut idle, mut done) = (0, None);
    while idle < ROUNDS {
        let mut context = Context::from_waker(Waker::noop());
        if done.is_none()
            && let Poll::Ready(answer) = task.as_mut().poll(&mut context)
        {
            done = Some(answer);
        }
        let alive = (0..3).filter(|at| host.killed() != Some(machine(*at)));
        let any = alive.fold(false, |any, at| any | machines.machine(at).drive());
        let ends = host.killed().is_some() || done.is_some();
        idle += usize::from(ends && !any);
    }
    (done, host.kill())
}

fn machine(at: usize) -> MachineId {
    MachineId(at as u32 + 1)
}

/// Returns the value of all objects, as every machine sees it.
fn value(machines: &Machines, objects: &[Addr]) -> u64 {
    let see = |at| {
        let words = objects.iter().map(move |addr| (at, *addr));
        words.map(|(at, addr)| machines.words(at, addr).expect("there")[1])
    };
    let mut values: Vec<u64> = (0..3).flat_map(see).collect();
    values.dedup();
    assert_eq!(values.len(), 1, "half of it took effect: {values:?}");
    values[0]
}

/// The death of a machine: its index, the number of writes of the commit before it, and the fate of
/// the others.
type MachineDeath = (usize, usize, OthersEnd);

/// Kills a machine during a commit, then all. Returns whether the first was killed before the
/// commit was over.
fn kill_in_turn(
    host: &mut Host,
    objects: &[Addr],
    last: &mut u64,
    (at, writes, others): MachineDeath,
) -> bool {
    let machines = host.begin();
    machines.rest();
    let mut tx = machines.begin(COORDINATOR, Mode::ReadWrite);
    let next = *last + 1;
    for addr in objects {
        let change = |image: &mut [u64]| image[1] = next;
        machines.run(tx.update(*addr, change)).expect("there");
    }
    host.kill_after_writes(machine(at), writes, others);
    let (outcome, left) = run_and_kill(host, &machines, tx.commit());
    let killed = host.killed().is_some();
    machines.close();
    drop(machines);
    host.spare();
    if others != OthersEnd::EndWell {
        *host = left;
    }
    let machines = host.begin();
    let found = value(&machines, objects);
    match outcome {
        Some(Ok(Outcome::Committed(_))) => assert_eq!(found, next, "it was reported"),
        Some(Ok(Outcome::Aborted(_))) => assert_eq!(found, *last, "it was given up"),
        Some(Err(stop)) => assert_eq!(stop, Stop::InDoubt),
        None => assert!(killed),
    }
    assert!(found == *last || found == next, "{found}");
    machines.rest();
    *last = found;
    killed
}

/// Kills a machine at every write of a commit, for objects of some machines.
fn kill_at_every_write(of: &[usize], replicas: usize, first: usize, others: OthersEnd) {
    let mut host = Host::new(replicas);
    let machines = host.begin();
    let objects: Vec<Addr> = of
        .iter()
        .map(|at| machines.object(*at, LONG, OLD))
        .collect();
    machines.rest();
    drop(machines);
    let (mut last, mut writes) = (OLD, 0);
    while kill_in_turn(&mut host, &objects, &mut last, (first, writes, others)) {
        writes += 1;
    }
    let took_effect = last - OLD;
    println!(
        "{of:?}, {replicas} replicas, {first} first, {others:?}: {took_effect} of {writes} took \
         effect"
    );
    assert!(took_effect > 0 && took_effect < writes as u64);
}

#[test]
fn machines_killed_in_turn_leave_no_partial_commit() {
    for (replicas, first) in [(2, 1), (2, 2), (3, 1), (3, 2)] {
        for of in [&[0, 1, 2][..], &[0, first], &[1, 2]] {
            for others in [
                OthersEnd::AreKilled,
                OthersEnd::AreKilledAtOnce,
                OthersEnd::EndWell,
            ] {
                kill_at_every_write(of, replicas, first, others);
            }
        }
    }
}
