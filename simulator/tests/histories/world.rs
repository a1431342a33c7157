//! Objects on one machine or several, and transactions that read them and overwrite them with their
//! own number.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fencepost_fabric::{HostClock, MonotonicClock};
use fencepost_simulator::history::{Object, ObservedTransaction, ReadVersion, Write};
use fencepost_simulator::plan::terms;
use fencepost_txn::network::{Configuration, NetworkOptions, Replication};
use fencepost_txn::{Addr, Machine, MachineOptions, Mode, ObjectLocation, Outcome, Stop};
use pollster::block_on;

use crate::kind::Kind;

/// The duration of leases; expired leases have no effect in these tests.
const LEASE_MS: u64 = 50;

pub struct World {
    pub machines: Vec<Arc<Machine>>,
    pub objects: Vec<Addr>,
    pub clock: AtomicU64,
    ids: AtomicU64,
    /// The directory of shared memory; it lives as long as the machines.
    shared: Option<tempfile::TempDir>,
}

/// Whether the machines share a clock.
#[derive(Clone, Copy, Debug)]
pub enum Clocks {
    Common,
    /// Each machine has its own clock, as on different hosts.
    Apart,
}

/// The clock of another host.
struct RemoteClock {
    ahead_ns: u64,
    /// The millionths by which the clock is fast.
    ppm: u64,
}

impl MonotonicClock for RemoteClock {
    fn now_ns(&self) -> u64 {
        let now = HostClock.now_ns();
        let fast = u128::from(now) * u128::from(self.ppm) / 1_000_000;
        self.ahead_ns + now + fast as u64
    }
}

impl Clocks {
    /// Returns the clock of a machine, and the number of its host.
    fn of(self, machine: u64) -> (Arc<dyn MonotonicClock>, u64) {
        match self {
            Clocks::Common => (Arc::new(HostClock), 0),
            Clocks::Apart => {
                let (ahead_ns, ppm) = (machine * 1_000_000_007, machine * 50);
                (Arc::new(RemoteClock { ahead_ns, ppm }), machine)
            }
        }
    }
}

impl World {
    /// Returns objects on a single machine.
    pub fn alone(objects: usize) -> Self {
        let options = MachineOptions {
            region_bytes: 16 << 20,
            ..MachineOptions::default()
        };
        Self::of(vec![Machine::open(options).expect("opens")], objects)
    }

    /// Returns objects distributed over machines of one cluster, with `replicas` replicas of each.
    pub fn over(kind: Kind, machines: u32, replicas: usize, objects: usize) -> Self {
        let shape = (machines, replicas, objects);
        let limit = MachineOptions::default().memory_limit;
        Self::of_network(Clocks::Common, kind, shape, limit)
    }

    /// Returns the same as [`Self::over`], with these clocks.
    pub fn with(
        clocks: Clocks,
        kind: Kind,
        (machines, replicas): (u32, usize),
        objects: usize,
    ) -> Self {
        let shape = (machines, replicas, objects);
        let limit = MachineOptions::default().memory_limit;
        Self::of_network(clocks, kind, shape, limit)
    }

    /// Returns machines without objects or backups, all but the first with little memory.
    pub fn limited(kind: Kind, machines: u32, memory_limit: u64) -> Self {
        Self::of_network(Clocks::Common, kind, (machines, 1, 0), memory_limit)
    }

    fn of_network(
        clocks: Clocks,
        kind: Kind,
        (machines, replicas, objects): (u32, usize, usize),
        memory_limit: u64,
    ) -> Self {
        let (fabrics, shared) = kind.fabrics(machines);
        let configuration = Configuration::of_process(machines).expect("machines");
        let machines = fabrics.into_iter().enumerate().map(|(at, fabric)| {
            let (clock, host) = clocks.of(u64::from(fabric.me().0));
            let network = NetworkOptions {
                clock,
                host,
                leases: terms(LEASE_MS),
                ..NetworkOptions::of(
                    fabric,
                    configuration.clone(),
                    Replication::exactly(replicas),
                )
            };
            let options = MachineOptions {
                region_bytes: 16 << 20,
                memory_limit: match at {
                    0 => MachineOptions::default().memory_limit,
                    _ => memory_limit,
                },
                network: Some(network),
                ..MachineOptions::default()
            };
            Machine::open(options).expect("opens")
        });
        let machines: Vec<_> = machines.collect();
        while !machines.iter().all(|m| block_on(m.is_complete())) {
            std::thread::yield_now();
        }
        let mut world = Self::of(machines, objects);
        world.shared = Some(shared);
        world
    }

    fn of(machines: Vec<Arc<Machine>>, objects: usize) -> Self {
        let mut world = World {
            machines,
            objects: Vec::new(),
            clock: AtomicU64::new(1),
            ids: AtomicU64::new(1),
            shared: None,
        };
        for number in 0..objects {
            let mut coordinator = world.machine(number).coordinator();
            let mut tx = coordinator.begin(Mode::ReadWrite);
            let object = block_on(tx.alloc(20, ObjectLocation::Own))
                .expect("memory")
                .addr;
            let outcome = block_on(tx.commit());
            assert!(matches!(outcome, Ok(Outcome::Committed(_))), "{outcome:?}");
            world.objects.push(object);
        }
        world
    }

    /// Returns machine `at`, counted modulo the number of machines.
    pub fn machine(&self, at: usize) -> &Arc<Machine> {
        &self.machines[at % self.machines.len()]
    }

    /// Checks that the machines have written to each other.
    fn assert_spread(&self) {
        let written = self.machines.iter().map(|machine| machine.fabric_counts());
        assert!(written.flatten().all(|counts| counts.writes > 10));
    }

    /// Waits until no work is in progress. Then backups must equal their primaries, and no locks or
    /// log records may remain.
    pub fn wait_until_idle(&self) {
        self.assert_spread();
        self.wait_until_idle_unchecked();
    }

    /// Does the same as [`Self::wait_until_idle`], without the check that machines have written to
    /// each other.
    pub fn wait_until_idle_unchecked(&self) {
        for round in 0.. {
            if Machine::are_at_rest(&self.machines) && self.leases_match_stock() {
                break;
            }
            assert!(round < 10_000, "something is left of a transaction");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        for machine in &self.machines {
            assert_eq!(machine.compare_backups(&self.machines), []);
        }
    }

    /// Returns whether the slots that are leased for new objects are those in stock.
    fn leases_match_stock(&self) -> bool {
        let (mut stock, mut leased) = (Vec::new(), Vec::new());
        for machine in &self.machines {
            let reserved = machine.reserved();
            stock.extend(reserved.stock);
            leased.extend(reserved.leased);
        }
        stock.sort_unstable();
        leased.sort_unstable();
        stock == leased
    }

    /// Runs one random transaction; returns its record if it committed.
    pub fn attempt(
        &self,
        coordinator: &mut fencepost_txn::Coordinator,
        random: &mut u64,
    ) -> Option<ObservedTransaction> {
        let mut draw = |n: u64| {
            *random ^= *random << 13;
            *random ^= *random >> 7;
            *random ^= *random << 17;
            *random % n
        };
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let began = self.clock.fetch_add(1, Ordering::SeqCst);
        let read_only = draw(4) == 0;
        let mut tx = coordinator.begin(if read_only {
            Mode::ReadOnly
        } else {
            Mode::ReadWrite
        });
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        let mut step = || -> Result<(), Stop> {
            let mut words = Vec::new();
            for _ in 0..1 + draw(5) {
                let object = draw(self.objects.len() as u64) as usize;
                block_on(tx.read(self.objects[object], &mut words))?;
                // All words of an object are written together: a torn read would be visible here.
                assert!(words[..20].iter().all(|w| *w == words[0]), "torn object");
                if words[0] != id {
                    reads.push((named(object), ReadVersion::By(words[0])));
                }
                if !read_only && draw(2) == 0 {
                    block_on(tx.write(self.objects[object], &[id; 20]))?;
                    writes.push(object);
                }
            }
            Ok(())
        };
        step().ok()?;
        writes.sort_unstable();
        writes.dedup();
        match block_on(tx.commit()).expect("nothing fails in the memory tier") {
            Outcome::Committed(at) => {
                let ended = self.clock.fetch_add(1, Ordering::SeqCst);
                Some(ObservedTransaction {
                    id,
                    began,
                    ended,
                    reads,
                    writes: writes.into_iter().map(overwritten).collect(),
                    at,
                })
            }
            Outcome::Aborted(_) => None,
        }
    }
}

fn named(object: usize) -> Object {
    Object("object", object as u64)
}

/// Returns a write of an object that always exists.
fn overwritten(object: usize) -> Write {
    Write {
        object: named(object),
        stays: true,
        needs: None,
    }
}
