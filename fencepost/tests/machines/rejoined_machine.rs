//! A machine with a disk that the others admit again keeps its identity from then on. The others
//! may know of the admission before the machine does (JOINED-1).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fencepost::{Cluster, Database, Options};
use fencepost_cluster::{MachineId, RaftMember, RaftPace, RaftStore, RaftTransport, StoreError};
use fencepost_fabric::{ControlClient, Random, cluster_id};

use crate::between::{Interconnect, MACHINES, SECRET, until};

/// Long enough for a host that is busy with other tests.
const LEASE: Duration = Duration::from_secs(2);
const TIME_LIMIT: Duration = Duration::from_millis(500);

#[derive(Debug)]
struct Wire(ControlClient);

impl RaftTransport for Wire {
    fn call(&self, address: &str, question: &[u8]) -> Result<Vec<u8>, StoreError> {
        let answer = self.0.ask(address, question, TIME_LIMIT);
        answer.map_err(|why| StoreError::Unreachable(why.to_string()))
    }
}

/// Returns a store client that is in no group.
fn bystander(addresses: &[String]) -> RaftStore {
    let parts = ["", "2"].into_iter();
    let parts: Vec<&str> = parts.chain(addresses.iter().map(String::as_str)).collect();
    let asker = ControlClient::new(cluster_id(&parts), SECRET, None).expect("randomness");
    let outsider = RaftMember {
        incarnation: 1,
        machine: MachineId(99),
        address: "nowhere".to_owned(),
    };
    let pace = RaftPace {
        heartbeat: TIME_LIMIT,
        patience: TIME_LIMIT,
    };
    let wire = Arc::new(Wire(asker));
    let store = RaftStore::open(outsider, Vec::new(), None, wire, pace, Random::new(1));
    store.expect("it is opened")
}

#[test]
fn readmitted_machine_with_disk_keeps_its_incarnation() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = |machine: u32, cluster: Cluster| -> Options {
        let data = directory.path().join(format!("m{machine}"));
        let options = Database::options().region_size(16 << 20).data_dir(data);
        options.cluster(cluster.lease(LEASE))
    };
    let between = Interconnect::network(25);
    let Interconnect::Network(addresses) = &between else {
        unreachable!("it is a network")
    };
    let mut machines = between.machines_with(2, options);
    let member = |db: &Database, number: u32| {
        let members = db.machine().members().machines;
        members.iter().any(|member| member.id == number)
    };
    drop(machines.pop());
    until(|| machines.iter().all(|db| !member(db, MACHINES)));
    let (over, stranger) = (AtomicBool::new(false), bystander(addresses));
    let last = &addresses[MACHINES as usize - 1];
    let (back, incarnations) = thread::scope(|scope| {
        let asks = scope.spawn(|| {
            let mut incarnations = BTreeSet::new();
            while !over.load(Ordering::Relaxed) {
                let there = stranger.who(last).ok();
                incarnations.extend(there.map(|there| (there.machine, there.incarnation)));
                thread::sleep(Duration::from_millis(1));
            }
            incarnations
        });
        let cluster = Cluster::of_network(addresses.clone(), MACHINES, SECRET).replicas(2);
        let back = options(MACHINES, cluster).open();
        // The other machines are asked at least once more.
        thread::sleep(TIME_LIMIT);
        over.store(true, Ordering::Relaxed);
        (back.expect("is let in"), asks.join().expect("no panic"))
    });
    let number = back.machine().number();
    assert!(number > MACHINES, "the number is new");
    let incarnations = incarnations
        .iter()
        .filter(|(machine, _)| machine.0 == number);
    assert_eq!(incarnations.count(), 1, "as that machine it is one");
}
