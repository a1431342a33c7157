//! Transactions on two hosts with their own clocks, one step at a time.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use fencepost_fabric::SimKnobs;
use fencepost_simulator::cluster::Cluster;
use fencepost_simulator::plan::Plan;
use fencepost_simulator::sim::Sim;
use fencepost_txn::{AbortReason, Addr, Machine, Mode, ObjectLocation, Outcome, Stop, Transaction};

const SECOND: u64 = 1_000_000_000;

/// Runs a task on two hosts with one machine each, over a network with equal delays in both
/// directions; the first machine is the CM.
fn on_two_hosts<T: Future<Output = ()> + 'static>(task: impl FnOnce(Vec<Arc<Machine>>, Sim) -> T) {
    let plan = Plan {
        machines: 2,
        hosts: 2,
        replicas: 1,
        net: SimKnobs {
            delay_ns: (20_000, 20_000),
            ..SimKnobs::default()
        },
        ..Plan::draw(1)
    };
    let mut cluster = Cluster::start(&plan).expect("starts");
    let done = Rc::new(Cell::new(false));
    let (ended, task) = (
        Rc::clone(&done),
        task(cluster.machines.clone(), cluster.sim.clone()),
    );
    cluster.executor.spawn("the test".into(), async move {
        task.await;
        ended.set(true);
    });
    cluster.executor.run().expect("comes to its end");
    assert!(done.get());
}

async fn complete(machines: &[Arc<Machine>], sim: &Sim) {
    for machine in machines {
        while !machine.is_complete().await {
            sim.nap(100_000).await;
        }
    }
}

async fn commit(tx: Transaction) -> fencepost_txn::Timestamp {
    match tx.commit().await {
        Ok(Outcome::Committed(at)) => at,
        outcome => panic!("{outcome:?}"),
    }
}

/// Allocates an object on the first machine.
async fn object(machine: &Arc<Machine>) -> Addr {
    let mut tx = machine.coordinator().begin(Mode::ReadWrite);
    let object = tx.alloc(1, ObjectLocation::Own).await.expect("memory").addr;
    commit(tx).await;
    object
}

#[test]
fn nothing_is_read_or_written_before_the_time_is_known() {
    on_two_hosts(|machines, sim| async move {
        let unreachable = Stop::Retry(AbortReason::Unreachable);
        let local = &machines[1];
        assert_eq!(local.clock_state().uncertainty_ns, None);
        let mut tx = local.coordinator().begin(Mode::ReadOnly);
        let read = tx.read(local.root(), &mut Vec::new()).await;
        assert_eq!(read, Err(unreachable));
        // Allocation also fails before the CM has seen all machines.
        let mut tx = local.coordinator().begin(Mode::ReadWrite);
        assert_eq!(tx.alloc(1, ObjectLocation::Own).await, Err(unreachable));
        drop(tx);
        complete(&machines, &sim).await;
        object(local).await;
    });
}

#[test]
fn transaction_waits_until_its_timestamp_has_passed_everywhere() {
    on_two_hosts(|machines, sim| async move {
        complete(&machines, &sim).await;
        let object = object(&machines[0]).await;
        for (at, machine) in machines.iter().enumerate() {
            let mut tx = machine.coordinator().begin(Mode::ReadWrite);
            let (now, r) = (machines[0].now(), tx.read_timestamp());
            assert!(if at == 0 { r == now } else { r > now }, "{now:?} {r:?}");
            assert_eq!(tx.read(object, &mut Vec::new()).await, Ok(true));
            let r = tx.read_timestamp();
            assert!(now <= r && r <= machine.interval().0);
            tx.write(object, &[at as u64]).await.expect("is there");
            let w = commit(tx).await;
            assert!(r < w && w <= machines[0].now());
        }
    });
}

#[test]
fn no_reader_is_below_reported_low_water_mark() {
    on_two_hosts(|machines, sim| async move {
        complete(&machines, &sim).await;
        for _ in 0..50 {
            let before = machines[1].oldest();
            let tx = machines[1].coordinator().begin(Mode::ReadOnly);
            assert!(before <= machines[0].now());
            assert!(tx.read_timestamp() >= before);
            let low = machines[1].interval().0;
            assert!(machines[1].oldest() <= low.min(tx.read_timestamp()));
            drop(tx);
            sim.nap(1_000_000).await;
        }
    });
}

#[test]
fn idle_machine_asks_for_time_instead_of_waiting() {
    on_two_hosts(|machines, sim| async move {
        complete(&machines, &sim).await;
        let object = object(&machines[0]).await;
        sim.nap(3 * SECOND).await;
        let state = machines[1].clock_state();
        let uncertain = state.uncertainty_ns.expect("known");
        // The idle machine has asked for the time now and then.
        assert!((8..20).contains(&state.exchanges), "{state:?}");
        let mut tx = machines[1].coordinator().begin(Mode::ReadOnly);
        assert_eq!(tx.read(object, &mut Vec::new()).await, Ok(true));
        let after = machines[1].clock_state();
        assert!(after.exchanges > state.exchanges);
        let narrow = after.uncertainty_ns.expect("known");
        assert!(narrow < uncertain, "{narrow} {uncertain}");
        assert_eq!(after.breaks, 0);
    });
}
