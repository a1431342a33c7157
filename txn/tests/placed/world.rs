//! A cluster in one process.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fencepost_fabric::{Fabric, LocalNetwork, Member, TcpConfig, TcpFabric};
use fencepost_txn::network::{Configuration, NetworkOptions, Replication};
use fencepost_txn::{
    Addr, FatPtr, Machine, MachineId, MachineOptions, Mode, ObjectLocation, Outcome,
};
use fencepost_txn::{Stop, Transaction};
use pollster::block_on;

/// The way in which machines read each other's memory.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// The memory is mapped.
    Local,
    /// The memory is read over connections.
    Tcp,
}

pub const KINDS: [Kind; 2] = [Kind::Local, Kind::Tcp];
pub const LOG_WORDS: usize = 1 << 12;

pub struct World {
    pub machines: Vec<Arc<Machine>>,
}

fn fabrics(kind: Kind, ids: &[MachineId]) -> Vec<Arc<dyn Fabric>> {
    let network = LocalNetwork::new();
    let join = |id: &MachineId| -> (Arc<dyn Fabric>, Member) {
        let (id, mut address) = (*id, String::new());
        let fabric: Arc<dyn Fabric> = match kind {
            Kind::Local => Arc::new(network.join(id).expect("a new machine")),
            Kind::Tcp => {
                let fabric = TcpFabric::start(&TcpConfig {
                    me: id,
                    cluster: 1,
                    secret: b"of new objects".to_vec(),
                    listen: "127.0.0.1:0".into(),
                    tls: None,
                    silence: None,
                });
                let fabric = fabric.expect("a free port");
                address = fabric.address().to_string();
                Arc::new(fabric)
            }
        };
        (fabric, Member { id, address })
    };
    let (fabrics, members): (Vec<_>, Vec<_>) = ids.iter().map(join).unzip();
    for fabric in &fabrics {
        fabric.set_members(&members).expect("a member");
    }
    fabrics
}

impl World {
    pub fn new(kind: Kind, machines: u32, replicas: usize) -> World {
        Self::with_log(kind, machines, replicas, LOG_WORDS)
    }

    /// Creates a world whose logs have `log_words` words.
    pub fn with_log(kind: Kind, machines: u32, replicas: usize, log_words: usize) -> World {
        let limit = MachineOptions::default().memory_limit;
        Self::limited_with_log(kind, machines, replicas, limit, log_words)
    }

    /// Creates a world whose second machine has a memory limit.
    pub fn limited(kind: Kind, machines: u32, replicas: usize, memory_limit: u64) -> World {
        Self::limited_with_log(kind, machines, replicas, memory_limit, LOG_WORDS)
    }

    /// Creates a world with both.
    pub fn limited_with_log(
        kind: Kind,
        machines: u32,
        replicas: usize,
        memory_limit: u64,
        log_words: usize,
    ) -> World {
        let ids: Vec<_> = (1..=machines).map(MachineId).collect();
        let open = |(at, fabric)| {
            let network = NetworkOptions {
                log_words,
                ..NetworkOptions::of(
                    fabric,
                    Configuration::of_process(machines).expect("machines"),
                    Replication::exactly(replicas),
                )
            };
            Machine::open(MachineOptions {
                region_bytes: 16 << 20,
                memory_limit: match at {
                    1 => memory_limit,
                    _ => MachineOptions::default().memory_limit,
                },
                network: Some(network),
                ..MachineOptions::default()
            })
            .expect("opens")
        };
        let machines: Vec<_> = fabrics(kind, &ids)
            .into_iter()
            .enumerate()
            .map(open)
            .collect();
        while !machines
            .iter()
            .all(|machine| block_on(machine.is_complete()))
        {
            std::thread::yield_now();
        }
        World { machines }
    }

    pub fn begin(&self, machine: usize, mode: Mode) -> Transaction {
        self.machines[machine].coordinator().begin(mode)
    }

    /// Creates an object whose words are all `value`, by one machine at another.
    pub fn object(&self, by: usize, at: usize, words: usize, value: u64) -> FatPtr {
        let mut tx = self.begin(by, Mode::ReadWrite);
        let ptr = block_on(tx.alloc(words, place(at))).expect("memory");
        tx.write_new(ptr, &vec![value; words]).expect("its own");
        commit(tx);
        ptr
    }

    /// Returns the first word of an object, as a machine sees it now.
    pub fn word(&self, machine: usize, addr: Addr) -> Option<u64> {
        word(&mut self.begin(machine, Mode::ReadOnly), addr)
    }

    /// Waits until a condition holds.
    pub fn wait(&self, what: &str, is_so: impl Fn() -> bool) {
        for round in 0.. {
            if is_so() {
                return;
            }
            assert!(round < 30_000, "{what} does not come to be");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns the slots that machines have reserved at peers, and those that peers have reserved
    /// at machines.
    pub fn reserved(&self) -> (BTreeSet<Addr>, BTreeSet<Addr>) {
        let (mut stock, mut leased) = (BTreeSet::new(), BTreeSet::new());
        for machine in &self.machines {
            let reserved = machine.reserved();
            for slot in reserved.stock {
                assert!(stock.insert(slot), "{slot} is in two stocks");
            }
            for slot in reserved.leased {
                assert!(machine.regions().is_own(slot) && leased.insert(slot));
            }
        }
        (stock, leased)
    }

    /// Waits until all machines are at rest; then checks that no lock and no difference between
    /// replicas is left.
    pub fn wait_until_idle(&self) {
        self.wait("rest", || {
            let (stock, leased) = self.reserved();
            Machine::are_at_rest(&self.machines) && stock == leased
        });
        for machine in &self.machines {
            let inventory = machine.inventory();
            assert_eq!((inventory.locked, inventory.torn), (vec![], vec![]));
            assert_eq!(machine.compare_backups(&self.machines), []);
        }
    }

    /// Returns the number of objects on all machines, without the root object.
    pub fn objects(&self) -> usize {
        let objects = self.machines.iter().map(|m| m.inventory().objects.len());
        objects.sum::<usize>() - 1
    }
}

/// Returns the place on the machine with that index.
pub fn place(machine: usize) -> ObjectLocation {
    ObjectLocation::Machine(MachineId(machine as u32 + 1))
}

pub fn commit(tx: Transaction) {
    let outcome = block_on(tx.commit());
    assert!(matches!(outcome, Ok(Outcome::Committed(_))), "{outcome:?}");
}

pub fn word(tx: &mut Transaction, addr: Addr) -> Option<u64> {
    let seen = block_on(tx.view(addr, None, |view| view.word(0)));
    seen.expect("readable").map(|(word, _)| word)
}

/// Returns the result of a step; `None` for a conflict.
pub fn unless_conflict<T>(done: Result<T, Stop>) -> Option<T> {
    match done {
        Ok(done) => Some(done),
        Err(Stop::Retry(_)) => None,
        Err(stop) => panic!("{stop}"),
    }
}
