//! The running machines, which one thread drives, and the knowledge of their clients.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use fencepost_fabric::{CrashLoss, DiskOp, SimDisk};
use fencepost_txn::network::{ConfigStore, Configuration, LocalStore, Mapping};
use fencepost_txn::{Addr, Machine, MachineId, Mode, ObjectLocation, Outcome, Stop};
use pollster::block_on;

use super::disks::Disks;
use super::environment::{SharedEnvironment, Time};

/// Nanoseconds of each step of all machines.
const STEP_NS: u64 = 2_000;
/// Steps after which a wait fails.
const MANY: u32 = 200_000;

/// The knowledge of clients about the value that all objects have.
#[derive(Clone, Copy, Debug)]
pub struct ValueKnowledge {
    /// The value was this or a later one.
    pub least: u64,
    /// The value was never this one.
    pub never: Option<u64>,
}

/// The running machines, and the knowledge of their clients.
pub struct World {
    pub ground: SharedEnvironment,
    pub machines: BTreeMap<u32, Arc<Machine>>,
    store: Arc<LocalStore>,
    pub time: Arc<Time>,
    pub dead: RefCell<BTreeSet<u32>>,
    /// The disks that are watched, the copies of them, and the number of writes at the last check.
    watched: Option<Disks>,
    pub taken: RefCell<Vec<(Disks, ValueKnowledge)>>,
    seen: Cell<u64>,
    pub known: Cell<ValueKnowledge>,
}

impl World {
    /// Returns a world of machines, when they are complete.
    pub fn of(ground: SharedEnvironment, machines: BTreeMap<u32, Arc<Machine>>) -> World {
        let world = World {
            machines,
            store: Arc::clone(&ground.store),
            time: Arc::clone(&ground.time),
            ground,
            dead: RefCell::default(),
            watched: None,
            taken: RefCell::default(),
            seen: Cell::new(0),
            known: Cell::new(ValueKnowledge {
                least: 0,
                never: None,
            }),
        };
        for machine in world.machines.values() {
            world.until("all are there", || world.run(machine.is_complete()));
        }
        world.until("leases", || world.all(|machine| machine.is_answering()));
        world
    }

    pub fn alive(&self) -> Vec<Arc<Machine>> {
        let dead = self.dead.borrow();
        let alive = self.machines.iter().filter(|(id, _)| !dead.contains(id));
        alive.map(|(_, machine)| Arc::clone(machine)).collect()
    }

    pub fn all(&self, so: impl Fn(&Machine) -> bool) -> bool {
        self.alive().iter().all(|machine| so(machine))
    }

    pub fn drive(&self) -> bool {
        let mut any = false;
        for machine in self.alive() {
            self.look();
            any |= machine.drive();
        }
        self.time.0.fetch_add(STEP_NS, Ordering::Relaxed);
        any
    }

    pub fn steps(&self, count: usize) {
        for _ in 0..count {
            self.drive();
        }
    }

    pub fn until(&self, what: &str, so: impl Fn() -> bool) {
        let mut steps = 0;
        while !so() {
            self.drive();
            steps += 1;
            let unrest = || {
                let alive = self.alive();
                let of = |machine: &Arc<Machine>| {
                    let members = machine.members();
                    format!("{members:?} {:?}", machine.unrest())
                };
                alive.iter().map(of).collect::<Vec<_>>()
            };
            assert!(steps < MANY, "{what}: {:?}", unrest());
        }
    }

    pub fn run<T>(&self, task: impl Future<Output = T>) -> T {
        let mut task = pin!(task);
        for _ in 0..MANY {
            if let Poll::Ready(done) = poll(task.as_mut()) {
                return done;
            }
            self.drive();
        }
        panic!("it hangs");
    }

    /// Drives the machines until they are at rest.
    pub fn rest(&self) {
        self.until("rest", || Machine::are_at_rest(&self.alive()));
    }

    pub fn object(&self, of: u32, words: usize, value: u64) -> Addr {
        let machine = &self.machines[&of];
        let mut tx = machine.coordinator().begin(Mode::ReadWrite);
        let at = ObjectLocation::Machine(MachineId(of));
        let made = self.run(tx.alloc(words, at)).expect("memory");
        tx.write_new(made, &vec![value; words]).expect("its own");
        let outcome = self.run(tx.commit());
        assert!(matches!(outcome, Ok(Outcome::Committed(_))), "{outcome:?}");
        made.addr
    }

    /// Returns the value of all objects, as all machines see it.
    pub fn value(&self, objects: &[Addr]) -> u64 {
        let mut values = BTreeSet::new();
        for machine in self.alive() {
            let mut tx = machine.coordinator().begin(Mode::ReadOnly);
            for addr in objects {
                let mut words = Vec::new();
                assert!(self.run(tx.read(*addr, &mut words)).expect("it is read"));
                values.insert(words[1]);
            }
        }
        assert_eq!(values.len(), 1, "of {values:?} some took effect");
        values.pop_first().expect("objects")
    }

    /// Sets all objects; tries again if a failure interrupts the commit.
    pub fn set(&self, by: u32, objects: &[Addr], value: u64) {
        for _ in 0..100 {
            let outcome = self.run(write(&self.machines[&by], objects, value));
            match outcome {
                Ok(Outcome::Committed(_)) => return self.know(value, None),
                _ => (0..100).for_each(|_| {
                    self.drive();
                }),
            }
        }
        panic!("nothing commits any more");
    }

    /// Checks that at rest all replicas are equal.
    pub fn check(&self) {
        self.rest();
        let alive = self.alive();
        for machine in &alive {
            let problems = machine.compare_backups(&alive);
            assert!(problems.is_empty(), "{problems:?}");
        }
    }

    pub fn configuration(&self) -> Configuration {
        let stored = block_on(self.store.read()).expect("it is read");
        stored.expect("there is one")
    }

    /// Records the knowledge of clients.
    pub fn know(&self, least: u64, never: Option<u64>) {
        let known = self.known.get();
        self.known.set(ValueKnowledge {
            least: least.max(known.least),
            never: never.or(known.never),
        });
        self.take(CrashLoss::All);
    }

    pub fn watch(&mut self, disks: &Disks) {
        self.watched = Some(Disks {
            disks: disks.disks.clone(),
            ..*disks
        });
    }

    fn look(&self) {
        let Some(disks) = &self.watched else { return };
        let ops = [DiskOp::Write, DiskOp::Sync];
        let changes = |disk: &SimDisk| ops.iter().map(|op| disk.count(*op)).sum::<u64>();
        let changes = disks.disks.iter().map(changes).sum();
        if self.seen.replace(changes) != changes {
            let loss = match self.taken.borrow().len() % 2 {
                0 => CrashLoss::All,
                _ => CrashLoss::Some,
            };
            self.take(loss);
        }
    }

    pub fn take(&self, loss: CrashLoss) {
        if let Some(disks) = &self.watched {
            let stored = self.configuration().id().0;
            let left = Disks {
                stored,
                ..disks.left(loss)
            };
            self.taken.borrow_mut().push((left, self.known.get()));
        }
    }

    /// Returns whether all regions have all their replicas, with their data.
    pub fn is_whole(&self) -> bool {
        let machines = self.alive();
        let regions = self.run(machines[0].all_regions()).expect("is told");
        let full = |mapping: &Mapping| mapping.replicas.count() == self.ground.replicas;
        regions.iter().all(full) && self.all(|machine| !machine.lacks_data())
    }

    /// Stops a machine, and waits until the others have evicted it.
    pub fn lose(&self, id: u32) {
        self.dead.borrow_mut().insert(id);
        self.until("the next configuration", || {
            let current = self.configuration();
            let acts = |machine: &Machine| {
                machine.configuration() == current.id().0 && machine.is_answering()
            };
            !current.has(MachineId(id)) && self.all(acts)
        });
        self.until("all is whole", || self.all(|machine| !machine.lacks_data()));
    }
}

/// Polls a task once.
pub fn poll<T>(task: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    task.poll(&mut Context::from_waker(Waker::noop()))
}

/// Writes a value to all objects.
pub async fn write(machine: &Arc<Machine>, objects: &[Addr], value: u64) -> Result<Outcome, Stop> {
    let mut tx = machine.coordinator().begin(Mode::ReadWrite);
    for (at, addr) in objects.iter().enumerate() {
        // Some of the long objects are changed in a range.
        let change = |image: &mut [u64]| match at % 2 {
            0 => image[1] = value,
            _ => image.fill(value),
        };
        tx.update(*addr, change).await?;
    }
    tx.commit().await
}
