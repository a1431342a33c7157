//! The connection between two of three machines is cut, while both reach the manager and hold their
//! leases.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fencepost_fabric::{Fabric, MachineId, Member, TcpConfig, TcpFabric};
use fencepost_simulator::plan::terms;
use fencepost_txn::network::{ConfigStore, Configuration, LocalStore, NetworkOptions, Replication};
use fencepost_txn::{Machine, MachineOptions, Mode, ObjectLocation, Outcome};
use parking_lot::Mutex;
use pollster::block_on;

/// Longer than a thread may be delayed on a busy host.
const LEASE_MS: u64 = 2_000;
/// The time limit of each wait.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// A proxy that forwards connections to a machine until they are cut; new ones may be opened
/// afterwards.
struct Wire {
    address: SocketAddr,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Wire {
    fn to(server: String) -> Wire {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let streams: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let all = Arc::clone(&streams);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(&server) else {
                    continue;
                };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to) = (from.try_clone(), to.try_clone());
                    let (from, to) = (from.expect("a handle"), to.expect("a handle"));
                    all.lock().push(from.try_clone().expect("a handle"));
                    thread::spawn(move || forward(from, to));
                }
            }
        });
        Wire { address, streams }
    }

    fn cut(&self) {
        for stream in self.streams.lock().drain(..) {
            // The list contains both ends of each connection.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = [0; 1 << 16];
    while let Ok(n @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..n]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// Returns three machines, the third of which reaches the second through a proxy.
fn over_a_wire() -> (Vec<Arc<Machine>>, Wire) {
    let fabrics = (1..=3).map(|id| {
        let fabric = TcpFabric::start(&TcpConfig {
            me: MachineId(id),
            cluster: 1,
            secret: b"of the wire that is cut".to_vec(),
            listen: "127.0.0.1:0".into(),
            tls: None,
            silence: None,
        });
        Arc::new(fabric.expect("a free port"))
    });
    let fabrics: Vec<_> = fabrics.collect();
    let wire = Wire::to(fabrics[1].address().to_string());
    let configuration = Configuration::of_process(3).expect("machines");
    let store = LocalStore::in_memory();
    block_on(store.compare_and_swap(None, &configuration)).expect("stored");
    let store: Arc<dyn ConfigStore> = Arc::new(store);
    let open = |fabric: &Arc<TcpFabric>| {
        let members = fabrics.iter().map(|other| {
            let wired = fabric.me().0 == 3 && other.me().0 == 2;
            let address = if wired { wire.address } else { other.address() };
            Member {
                id: other.me(),
                address: address.to_string(),
            }
        });
        let members: Vec<Member> = members.collect();
        fabric.set_members(&members).expect("a member");
        let network = NetworkOptions {
            log_words: 1 << 14,
            leases: terms(LEASE_MS),
            store: Some(Arc::clone(&store)),
            ..NetworkOptions::of(
                Arc::clone(fabric) as _,
                configuration.clone(),
                Replication::exactly(2),
            )
        };
        let options = MachineOptions {
            region_bytes: 16 << 20,
            network: Some(network),
            ..MachineOptions::default()
        };
        Machine::open(options).expect("opens")
    };
    let machines = fabrics.iter().map(open).collect();
    (machines, wire)
}

fn until(what: &str, mut so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < TIME_LIMIT, "{what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Commits transactions one after the other.
fn commit(machine: &Arc<Machine>, end: &AtomicBool) {
    while !end.load(Ordering::Relaxed) && !machine.is_evicted() {
        let mut tx = machine.coordinator().begin(Mode::ReadWrite);
        let made = block_on(tx.alloc(1, ObjectLocation::Own)).is_ok();
        if !made || !matches!(block_on(tx.commit()), Ok(Outcome::Committed(_))) {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn one_of_two_machines_leaves_when_the_wire_between_them_is_cut() {
    let (machines, wire) = over_a_wire();
    for machine in &machines {
        until("machines", || block_on(machine.is_complete()));
        until("leases", || machine.holds_lease());
    }
    let end = Arc::new(AtomicBool::new(false));
    let busy = machines.iter().map(|machine| {
        let (machine, end) = (Arc::clone(machine), Arc::clone(&end));
        thread::spawn(move || commit(&machine, &end))
    });
    let busy: Vec<_> = busy.collect();
    thread::sleep(Duration::from_millis(100));
    wire.cut();
    until("a configuration of two", || {
        let of_two = machines
            .iter()
            .filter(|machine| machine.is_answering() && machine.members().machines.len() == 2);
        of_two.count() == 2
    });
    let members = machines[0].members().machines;
    assert_eq!(members[0].id, 1, "the CM is a member");
    until("the third to learn of it", || {
        machines
            .iter()
            .filter(|machine| machine.is_evicted())
            .count()
            == 1
    });
    end.store(true, Ordering::Relaxed);
    for thread in busy {
        until("the end of a commit", || thread.is_finished());
        thread.join().expect("no panic");
    }
}
