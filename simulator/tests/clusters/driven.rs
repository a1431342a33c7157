//! A simulated cluster without clients, and a task that acts on it.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use fencepost_simulator::cluster::Cluster;
use fencepost_simulator::plan::Plan;
use fencepost_simulator::sim::Sim;
use fencepost_txn::Machine;

/// The parameters of the task.
pub struct World {
    pub machines: Vec<Arc<Machine>>,
    pub sim: Sim,
}

impl World {
    /// Checks every ten microseconds until a condition is true; returns the time that this took.
    pub async fn until(&self, mut so: impl FnMut() -> bool) -> u64 {
        let began = self.sim.now_ns();
        while !so() {
            self.sim.nap(10_000).await;
        }
        self.sim.now_ns() - began
    }
}

/// Runs a task that begins when all machines of a plan have their leases; returns a hash of all
/// events.
pub fn with<T: Future<Output = ()> + 'static>(
    plan: &Plan,
    task: impl FnOnce(World) -> T + 'static,
) -> u64 {
    let mut cluster = Cluster::start(plan).expect("starts");
    let done = Rc::new(Cell::new(false));
    let ended = Rc::clone(&done);
    let world = World {
        machines: cluster.machines.clone(),
        sim: cluster.sim.clone(),
    };
    cluster.executor.spawn("the test".into(), async move {
        for machine in &world.machines {
            while !machine.is_complete().await {
                world.sim.nap(100_000).await;
            }
        }
        let all = || world.machines.iter().all(|machine| machine.holds_lease());
        world.until(all).await;
        task(world).await;
        ended.set(true);
    });
    if let Err(halted) = cluster.executor.run() {
        panic!("seed {}: {halted}", plan.seed);
    }
    assert!(done.get());
    cluster.sim.net().trace()
}
