//! A client stalls during a commit while its machine continues.

use std::sync::Arc;
use std::task::Poll;

use fencepost_fabric::SimDisk;
use fencepost_txn::{Addr, Machine, MachineId, Mode, ObjectLocation, Outcome};

use super::disks::{Disks, MACHINES};
use super::world::poll;
use crate::SHORT;

/// Polls after which the client stalls: at each step of a commit.
const POLLS: usize = 10;
/// Steps that are enough for everything that need not wait for the client.
const STEPS: usize = 4_000;

/// The client stalls while recovery decides about its commit, and while a further configuration
/// follows. Then it receives the outcome. A machine that has returned meanwhile, with its earlier
/// data, has the same outcome.
#[test]
fn stalled_client_receives_recovery_outcome() {
    // Also if the client's machine has none of the written objects.
    for of in [[1, 2], [2, 2]] {
        let late = (0..POLLS).filter(|polls| takes_effect_late(of, *polls));
        let late = late.count();
        println!("of m{of:?}: {late} of {POLLS} took effect although the client stood still");
        assert!(late > 0);
    }
}

fn takes_effect_late(of: [u32; 2], polls: usize) -> bool {
    let disks = Disks::new(3);
    let mut world = disks.begin();
    let objects = of.map(|of| world.object(of, SHORT, 1));
    world.rest();
    world.lose(3);
    drop(world.machines.remove(&3));
    let machine = Arc::clone(&world.machines[&1]);
    let mut commit = Box::pin(change(machine, objects, MachineId(of[0])));
    let mut outcome = None;
    for _ in 0..polls {
        match poll(commit.as_mut()) {
            Poll::Ready(done) => {
                outcome = Some(done);
                break;
            }
            Poll::Pending => world.steps(1),
        }
    }
    let stands_still = outcome.is_none();
    world.join(3, &disks.disks[2]);
    // As far as that is possible without the client.
    world.steps(STEPS);
    world.join(MACHINES + 1, &SimDisk::new(11));
    world.steps(STEPS);
    let outcome = outcome.unwrap_or_else(|| world.run(commit));
    world.until("all has its replicas", || world.is_whole());
    let committed = match outcome {
        Ok((made, Outcome::Committed(_))) => {
            assert_eq!(world.value(&[objects[0], objects[1], made]), 2);
            true
        }
        _ => {
            assert_eq!(world.value(&objects), 1, "{outcome:?} after {polls}");
            false
        }
    };
    world.check();
    stands_still && committed
}

/// Changes two objects, and creates one.
async fn change(
    machine: Arc<Machine>,
    objects: [Addr; 2],
    at: MachineId,
) -> Result<(Addr, Outcome), fencepost_txn::Stop> {
    let mut tx = machine.coordinator().begin(Mode::ReadWrite);
    for addr in objects {
        tx.update(addr, |image| image.fill(2)).await?;
    }
    let made = tx.alloc(SHORT, ObjectLocation::Machine(at)).await?;
    tx.write_new(made, &[2; SHORT])?;
    Ok((made.addr, tx.commit().await?))
}
