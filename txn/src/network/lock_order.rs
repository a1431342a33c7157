//! Tests that mutexes are taken in one order: a thread that holds one of these does not wait for an
//! earlier one.
//!
//! ```text
//! ends ─► configuration ─► commits ─► records of this machine
//! ```
//! The deadlock would need three threads and one chance in a million. Here two threads are held at
//! the critical points.

use std::sync::Arc;
use std::thread::{sleep, yield_now};
use std::time::Duration;

use fencepost_cluster::Configuration;
use fencepost_fabric::{LocalNetwork, MachineId};

use super::{NetworkOptions, Replication};
use crate::record::TxnId;
use crate::{Machine, MachineOptions};

const ME: MachineId = MachineId(1);
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Checks a millisecond apart; after them the other thread has reached its wait.
const LOOKS: usize = 100;

/// Returns a machine without threads.
fn alone() -> Arc<Machine> {
    let fabric = LocalNetwork::new().join(ME).expect("a machine");
    let configuration = Configuration::of_process(1).expect("one machine");
    let network = NetworkOptions::of(Arc::new(fabric), configuration, Replication::exactly(1));
    Machine::open(MachineOptions {
        network: Some(NetworkOptions {
            driven: true,
            ..network
        }),
        ..MachineOptions::default()
    })
    .expect("opens")
}

#[test]
fn query_for_remaining_commits_blocks_no_truncation() {
    let machine = alone();
    let network = machine.network().expect("a network");
    std::thread::scope(|scope| {
        // Like the truncating thread, which next locks the records.
        let truncates = || {
            let asks = scope.spawn(|| network.is_at_rest());
            while network.receivers.try_lock().is_some() {
                yield_now();
            }
            for _ in 0..LOOKS {
                let home = network.home.try_lock_for(TIME_LIMIT);
                assert!(home.is_some(), "truncation waits for the thread that asks");
                drop(home);
                sleep(Duration::from_millis(1));
            }
            asks
        };
        let asks = network.in_flight.hold_up(TIME_LIMIT, truncates);
        let asks = asks.expect("no other thread has locked the in-flight commits");
        assert!(asks.join().expect("no panic"));
    });
}

#[test]
fn truncation_holds_no_commit_lock_while_awaiting_configuration() {
    let machine = alone();
    let network = machine.network().expect("a network");
    let current = network.configured.current();
    let id = TxnId {
        configuration: current.id().0,
        machine: ME.0,
        thread: 0,
        local: 1,
    };
    network.in_flight.leave_acknowledged(id, ME);
    std::thread::scope(|scope| {
        // During `apply` no thread is in a configuration; a thread that was in the previous one may
        // lock the commits.
        network.configured.apply(&current, || {
            scope.spawn(|| network.finish(machine.regions()));
            for _ in 0..LOOKS {
                let commits = network.in_flight.hold_up(TIME_LIMIT, || ());
                assert!(commits.is_some(), "another thread waits for truncation");
                sleep(Duration::from_millis(1));
            }
        });
    });
    assert!(network.in_flight.is_empty());
}
