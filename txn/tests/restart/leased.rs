//! Machines that keep their data on disks and replace failed ones: one of them fails, then all lose
//! power, at any point.
//!
//! Their time is simulated and advances at each step, so that leases expire after a number of
//! steps. Each copy of the disks is stored with the results that had been reported to clients. In a
//! copy, unsynced bytes are lost.

pub mod comes_back;
mod left_in_memory;
mod stalls;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fencepost_cluster::join::{
    DurableData, JoinOutcome, JoinRefusal, JoinRequest, NotAdmitted, PROTOCOL_VERSION,
};
use fencepost_fabric::random::Random;
use fencepost_fabric::{CrashLoss, DiskOp, Fabric, LocalNetwork, MonotonicClock, SimDisk};
use fencepost_txn::network::disk::{
    Beginning, Contents, DiskStart, ReadmitPolicy, StateExchangeError, StoreState,
};
use fencepost_txn::network::{
    ClusterSecret, ConfigStore, Configuration, JoinEndpoint, LeaseTerms, LocalStore, Mapping,
    NetworkOptions, Replication, members,
};
use fencepost_txn::{Addr, Machine, MachineId, MachineOptions, Mode, ObjectLocation, Outcome};
use pollster::block_on;

use crate::disk::durable;
use crate::{LONG, SHORT};

const MACHINES: u32 = 3;
const LEASE: Duration = Duration::from_millis(5);
/// Nanoseconds of each step of all machines.
const STEP_NS: u64 = 2_000;
/// Steps after which a wait fails.
const MANY: u32 = 200_000;

struct Time(AtomicU64);

impl MonotonicClock for Time {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The disks of all machines, and the number of the configuration in the store.
struct Disks {
    disks: Vec<SimDisk>,
    replicas: usize,
    stored: u64,
    /// Whether the store loses that number.
    forgets: bool,
    taken_back: ReadmitPolicy,
}

/// The knowledge of clients about the value that all objects have.
#[derive(Clone, Copy, Debug)]
struct ValueKnowledge {
    /// The value was this or a later one.
    least: u64,
    /// The value was never this one.
    never: Option<u64>,
}

/// The environment that all machines share.
struct SharedEnvironment {
    network: Arc<LocalNetwork>,
    store: Arc<LocalStore>,
    time: Arc<Time>,
    endpoint: Arc<JoinEndpoint>,
    replicas: usize,
}

impl SharedEnvironment {
    fn of(
        network: Arc<LocalNetwork>,
        configuration: &Configuration,
        replicas: usize,
    ) -> SharedEnvironment {
        let store = Arc::new(LocalStore::in_memory());
        block_on(store.compare_and_swap(None, configuration)).expect("is stored");
        let secret = ClusterSecret::new(b"a secret of all of them").expect("long enough");
        SharedEnvironment {
            network,
            store,
            time: Arc::new(Time(AtomicU64::new(1_000_000_000))),
            endpoint: Arc::new(JoinEndpoint::new(Arc::new(SimDisk::new(1)), secret)),
            replicas,
        }
    }

    fn open(&self, fabric: Arc<dyn Fabric>, on_disk: Arc<DiskStart>, joins: bool) -> Arc<Machine> {
        let configuration = on_disk.configuration().clone();
        SharedEnvironment::machine(NetworkOptions {
            disk: Some(on_disk),
            joins,
            ..self.options(fabric, configuration)
        })
    }

    fn options(&self, fabric: Arc<dyn Fabric>, configuration: Configuration) -> NetworkOptions {
        let replication = Replication::exactly(self.replicas);
        NetworkOptions {
            driven: true,
            clock: Arc::clone(&self.time) as _,
            leases: Some(LeaseTerms::new(LEASE, 200).expect("terms")),
            store: Some(Arc::clone(&self.store) as _),
            join_endpoint: Some(Arc::clone(&self.endpoint)),
            ..NetworkOptions::of(fabric, configuration, replication)
        }
    }

    fn machine(network: NetworkOptions) -> Arc<Machine> {
        let machine = Machine::open(MachineOptions {
            region_bytes: 16 << 20,
            network: Some(network),
            ..MachineOptions::default()
        });
        machine.expect("opens")
    }
}

struct World {
    ground: SharedEnvironment,
    machines: BTreeMap<u32, Arc<Machine>>,
    store: Arc<LocalStore>,
    time: Arc<Time>,
    dead: RefCell<BTreeSet<u32>>,
    /// The disks that are watched, the copies of them, and the number of writes at the last check.
    watched: Option<Disks>,
    taken: RefCell<Vec<(Disks, ValueKnowledge)>>,
    seen: Cell<u64>,
    known: Cell<ValueKnowledge>,
}

impl Disks {
    fn new(replicas: usize) -> Disks {
        Disks {
            disks: (1..=MACHINES)
                .map(|seed| SimDisk::new(seed.into()))
                .collect(),
            replicas,
            stored: 0,
            forgets: false,
            taken_back: ReadmitPolicy::Never,
        }
    }

    /// Returns the disks as a power loss now would leave them.
    fn left(&self, loss: CrashLoss) -> Disks {
        let left = |disk: &SimDisk| {
            let left = disk.fork();
            left.crash(loss);
            left
        };
        Disks {
            disks: self.disks.iter().map(left).collect(),
            ..*self
        }
    }

    fn begin(&self) -> World {
        self.begin_machines(&[1, 2, 3]).expect("they begin")
    }

    /// Starts these machines, except stale ones; returns `None` if they wait for others.
    fn begin_machines(&self, those: &[u32]) -> Option<World> {
        let initial_members = Configuration::of_process(MACHINES).expect("machines");
        let network = LocalNetwork::new();
        let ids = || (1..=MACHINES).map(MachineId);
        let mut beginning = Vec::new();
        for id in ids().filter(|id| those.contains(&id.0)) {
            let place = initial_members.machine(id).expect("a founder");
            let durable = durable(&self.disks[id.0 as usize - 1]);
            let contents = Contents::read(&durable).expect("its disk");
            let (id, machines) = contents.part(&initial_members, place).expect("machines");
            let all = members(&machines);
            let fabric: Arc<dyn Fabric> = Arc::new(network.join(id).expect("a machine"));
            let machines = (&initial_members, &machines);
            fabric.set_members(&all).expect("a member");
            let last = fencepost_cluster::ConfigurationId(self.stored);
            let stored = match self.forgets {
                true => StoreState::Forgotten,
                false => StoreState::Last(last),
            };
            let begun = Beginning::open(contents, &fabric, machines, self.taken_back, stored);
            beginning.push((id, fabric, begun.expect("it shows what it has")));
        }
        let mut found: Vec<(MachineId, Arc<dyn Fabric>, Arc<DiskStart>)> = Vec::new();
        let mut rounds = 0;
        while !beginning.is_empty() {
            beginning.retain_mut(|(id, fabric, begun)| match begun.look() {
                Ok(None) => true,
                Ok(Some(on_disk)) => {
                    found.push((*id, Arc::clone(fabric), on_disk));
                    false
                }
                Err(StateExchangeError::Stale(_)) => false,
                Err(other) => panic!("m{}: {other}", id.0),
            });
            rounds += 1;
            if rounds > 1000 {
                return None;
            }
        }
        let configuration = found.first()?.2.configuration().clone();
        assert!(configuration.id().0 > self.stored);
        let ground = SharedEnvironment::of(network, &configuration, self.replicas);
        let open = |(id, fabric, on_disk): (MachineId, Arc<dyn Fabric>, Arc<DiskStart>)| {
            let members = members(on_disk.configuration());
            fabric.set_members(&members).expect("a member");
            assert_eq!(on_disk.configuration(), &configuration);
            (id.0, ground.open(fabric, on_disk, false))
        };
        let machines = found.into_iter().map(open).collect();
        Some(World::of(ground, machines))
    }
}

impl World {
    /// Returns a world of machines, when they are complete.
    fn of(ground: SharedEnvironment, machines: BTreeMap<u32, Arc<Machine>>) -> World {
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

    fn alive(&self) -> Vec<Arc<Machine>> {
        let dead = self.dead.borrow();
        let alive = self.machines.iter().filter(|(id, _)| !dead.contains(id));
        alive.map(|(_, machine)| Arc::clone(machine)).collect()
    }

    fn all(&self, so: impl Fn(&Machine) -> bool) -> bool {
        self.alive().iter().all(|machine| so(machine))
    }

    fn drive(&self) -> bool {
        let mut any = false;
        for machine in self.alive() {
            self.look();
            any |= machine.drive();
        }
        self.time.0.fetch_add(STEP_NS, Ordering::Relaxed);
        any
    }

    fn steps(&self, count: usize) {
        for _ in 0..count {
            self.drive();
        }
    }

    fn until(&self, what: &str, so: impl Fn() -> bool) {
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

    fn run<T>(&self, task: impl Future<Output = T>) -> T {
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
    fn rest(&self) {
        self.until("rest", || Machine::are_at_rest(&self.alive()));
    }

    fn object(&self, of: u32, words: usize, value: u64) -> Addr {
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
    fn value(&self, objects: &[Addr]) -> u64 {
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
    fn set(&self, by: u32, objects: &[Addr], value: u64) {
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
    fn check(&self) {
        self.rest();
        let alive = self.alive();
        for machine in &alive {
            let problems = machine.compare_backups(&alive);
            assert!(problems.is_empty(), "{problems:?}");
        }
    }

    fn configuration(&self) -> Configuration {
        let stored = block_on(self.store.read()).expect("it is read");
        stored.expect("there is one")
    }

    /// Records the knowledge of clients.
    fn know(&self, least: u64, never: Option<u64>) {
        let known = self.known.get();
        self.known.set(ValueKnowledge {
            least: least.max(known.least),
            never: never.or(known.never),
        });
        self.take(CrashLoss::All);
    }

    fn watch(&mut self, disks: &Disks) {
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

    fn take(&self, loss: CrashLoss) {
        if let Some(disks) = &self.watched {
            let stored = self.configuration().id().0;
            let left = Disks {
                stored,
                ..disks.left(loss)
            };
            self.taken.borrow_mut().push((left, self.known.get()));
        }
    }

    /// Lets the machine at a place join the running cluster, with a disk. Returns its new number.
    fn join(&mut self, place: u32, disk: &SimDisk) -> u32 {
        let mut contents = Contents::read(&durable(disk)).expect("its disk");
        let (id, configuration) = loop {
            let written = contents.machine();
            match self.request_to_join(place, DurableData::Disk { written }) {
                Some(JoinOutcome::Joined(id, configuration)) => break (id, configuration),
                Some(JoinOutcome::Offered(offer)) => {
                    contents.write_down(&offer).expect("is written down");
                    self.take(CrashLoss::All);
                }
                None => {}
            }
        };
        self.take(CrashLoss::All);
        let fabric: Arc<dyn Fabric> = Arc::new(self.ground.network.join(id).expect("a machine"));
        fabric
            .set_members(&members(&configuration))
            .expect("a member");
        let machine = self
            .ground
            .open(fabric, contents.joining(&configuration), true);
        self.has_joined(id, machine)
    }

    /// Adds a machine that was admitted.
    fn has_joined(&mut self, id: MachineId, machine: Arc<Machine>) -> u32 {
        assert!(self.machines.insert(id.0, Arc::clone(&machine)).is_none());
        self.until("it is there", || self.run(machine.is_complete()));
        self.until("leases", || self.all(|machine| machine.is_answering()));
        id.0
    }

    /// Sends a join request for the machine at a place; returns `None` if it must ask again.
    fn request_to_join(&self, place: u32, keeps: DurableData) -> Option<JoinOutcome> {
        let places = Configuration::of_process(MACHINES.max(place)).expect("machines");
        let own = places.machine(MachineId(place)).expect("a place");
        let mut random = Random::new(self.time.now_ns());
        let request = JoinRequest {
            version: PROTOCOL_VERSION,
            cluster: Some(places.cluster()),
            address: own.address.clone(),
            domain: own.domain.clone(),
            keeps,
        };
        let attempt = self
            .ground
            .endpoint
            .begin_join(request, &mut random)
            .expect("left");
        let (join_attempt, heard) = (RefCell::new(attempt), Cell::new(None));
        self.until("an answer", || {
            let answer = join_attempt.borrow_mut().hear().transpose();
            let any = answer.is_some();
            heard.set(answer);
            any
        });
        match heard.take() {
            Some(Ok(heard)) => Some(heard),
            Some(Err(NotAdmitted::Refused(JoinRefusal::Busy | JoinRefusal::AddressInUse))) => None,
            other => panic!("{other:?}"),
        }
    }

    /// Returns whether all regions have all their replicas, with their data.
    fn is_whole(&self) -> bool {
        let machines = self.alive();
        let regions = self.run(machines[0].all_regions()).expect("is told");
        let full = |mapping: &Mapping| mapping.replicas.count() == self.ground.replicas;
        regions.iter().all(full) && self.all(|machine| !machine.lacks_data())
    }

    /// Stops a machine, and waits until the others have evicted it.
    fn lose(&self, id: u32) {
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

fn poll<T>(task: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    task.poll(&mut Context::from_waker(Waker::noop()))
}

async fn write(
    machine: &Arc<Machine>,
    objects: &[Addr],
    value: u64,
) -> Result<Outcome, fencepost_txn::Stop> {
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

fn objects(world: &World) -> Vec<Addr> {
    let of = |id: u32| [SHORT, LONG, LONG].map(|words| world.object(id, words, 1));
    (1..=MACHINES).flat_map(of).collect()
}

/// Checks that the disks agree with the clients' knowledge, and that the machines continue. If
/// `further`, checks the same after another power failure.
fn holds(left: &Disks, known: ValueKnowledge, objects: &[Addr], further: bool) {
    let world = left.begin();
    let value = world.value(objects);
    assert!(
        value >= known.least && Some(value) != known.never,
        "{value} {known:?}"
    );
    world.check();
    if further {
        let by = *world.machines.keys().next().expect("machines");
        world.set(by, objects, 100);
        let again = Disks {
            stored: world.configuration().id().0,
            ..left.left(CrashLoss::All)
        };
        drop(world);
        let world = again.begin();
        assert_eq!(world.value(objects), 100);
        world.check();
    }
}

/// A machine fails at some step of a commit, its own or another's. Power fails at any time until
/// all replicas are complete again, and after that.
#[test]
fn reported_commits_survive_machine_failure_then_power_loss() {
    let seeds = std::env::var("SEEDS")
        .ok()
        .and_then(|seeds| seeds.parse().ok());
    (0..seeds.unwrap_or(10)).for_each(one_fails_and_then_all);
}

/// Runs the test for one seed.
pub fn one_fails_and_then_all(seed: u64) {
    let mut random = Random::new(seed);
    let replicas = 2 + (seed % 2) as usize;
    let lost = 1 + random.below(3) as u32;
    let own = seed.is_multiple_of(3);
    let by = match own {
        true => lost,
        false => 1 + (lost + random.below(2) as u32) % 3,
    };
    let disks = Disks::new(replicas);
    let mut world = disks.begin();
    let objects = objects(&world);
    world.rest();
    let slow = &disks.disks[random.below(3) as usize];
    slow.set_sync_delay(Duration::from_millis(random.below(4)));
    world.watch(&disks);
    world.know(1, None);
    let machine = Arc::clone(&world.machines[&by]);
    let named = objects.clone();
    let mut commit = Box::pin(async move { write(&machine, &named, 2).await });
    let mut done = None;
    for _ in 0..random.below(60) {
        if let Poll::Ready(outcome) = poll(commit.as_mut()) {
            done = Some(outcome);
            break;
        }
        world.drive();
    }
    world.dead.borrow_mut().insert(lost);
    if by != lost && done.is_none() {
        done = Some(world.run(commit.as_mut()));
    }
    match done {
        Some(Ok(Outcome::Committed(_))) => world.know(2, None),
        Some(Ok(_)) => world.know(1, Some(2)),
        // Its process would not have run the destructor.
        _ => std::mem::forget(commit),
    }
    world.lose(lost);
    let value = world.value(&objects);
    let known = world.known.get();
    assert!(
        value >= known.least && Some(value) != known.never,
        "{value} {known:?}"
    );
    world.know(value, None);
    let other = 1 + lost % 3;
    world.set(other, &objects, 3);
    world.check();
    world.take(CrashLoss::All);
    let taken = world.taken.take();
    drop(world);
    let count = taken.len();
    for (at, (left, known)) in taken.iter().enumerate() {
        if at + 1 == count || random.below(count as u64) < 14 {
            holds(left, *known, &objects, at % 3 == 0);
        }
    }
    println!("seed {seed}: m{lost} lost, m{by} commits, {replicas} replicas, {count} copies");
}

/// An evicted machine is told so. The others do not wait for it, but do not start without any other
/// member.
#[test]
pub fn evicted_machine_is_stale_at_restart() {
    let disks = Disks::new(3);
    let world = disks.begin();
    let objects = objects(&world);
    world.rest();
    world.lose(3);
    world.set(1, &objects, 2);
    let left = disks.left(CrashLoss::All);
    drop(world);
    for those in [&[1, 2][..], &[1, 2, 3]] {
        let world = left
            .left(CrashLoss::All)
            .begin_machines(those)
            .expect("they begin");
        assert_eq!(world.machines.len(), 2);
        assert_eq!(world.value(&objects), 2);
        world.check();
    }
    for those in [&[1, 3][..], &[2, 3], &[3], &[1]] {
        assert!(left.left(CrashLoss::All).begin_machines(those).is_none());
    }
}

/// No configuration is made in which a region is lost although a disk has it: all wait until the
/// machine returns.
#[test]
pub fn no_region_is_given_up_that_a_disk_has() {
    let disks = Disks::new(1);
    let world = disks.begin();
    let objects = objects(&world);
    world.rest();
    world.dead.borrow_mut().insert(2);
    let before = world.time.now_ns();
    while world.time.now_ns() < before + 20 * LEASE.as_nanos() as u64 {
        world.drive();
    }
    assert_eq!(world.configuration().id().0, 1);
    assert!(world.all(|machine| !machine.is_answering()));
    let left = disks.left(CrashLoss::All);
    drop(world);
    assert!(left.left(CrashLoss::All).begin_machines(&[1, 3]).is_none());
    let world = left.begin();
    assert_eq!(world.value(&objects), 1);
    world.check();
}

/// A machine with a failed disk counts as failed.
#[test]
fn failed_disk_evicts_its_machine() {
    let disks = Disks::new(3);
    let world = disks.begin();
    let objects = objects(&world);
    world.rest();
    disks.disks[1].fail_nth(DiskOp::Sync, 1);
    let machine = Arc::clone(&world.machines[&1]);
    let _ = world.run(write(&machine, &objects, 2));
    world.lose(2);
    let value = world.value(&objects);
    world.set(3, &objects, 3);
    assert!(value == 1 || value == 2);
    let left = disks.left(CrashLoss::All);
    drop(world);
    let world = left.begin();
    assert_eq!(world.value(&objects), 3);
    world.check();
}

/// An evicted machine is taken back when all start again, if all have the option to do so. It has
/// no data then, and gets a replica of each region that lacks one.
#[test]
pub fn readmitted_machine_restarts_without_data() {
    for (replicas, lost) in [(2, 2), (3, 1), (2, 3)] {
        let disks = Disks::new(replicas);
        let world = disks.begin();
        let objects = objects(&world);
        world.rest();
        world.lose(lost);
        let others: Vec<u32> = (1..=MACHINES).filter(|id| *id != lost).collect();
        world.set(others[0], &objects, 2);
        let mut left = disks.left(CrashLoss::All);
        drop(world);
        left.taken_back = ReadmitPolicy::All;
        assert!(left.left(CrashLoss::All).begin_machines(&others).is_none());
        let world = left.begin();
        assert_eq!(world.machines.len(), 3);
        assert_eq!(world.value(&objects), 2);
        let all_have = || {
            let machine = &world.machines[&others[0]];
            let regions = world.run(machine.all_regions()).expect("is told");
            let full = |mapping: &Mapping| mapping.replicas.count() == replicas;
            regions.iter().all(full) && world.all(|machine| !machine.lacks_data())
        };
        world.until("all has its replicas", all_have);
        world.set(lost, &objects, 3);
        world.check();
        let left = Disks {
            stored: world.configuration().id().0,
            ..left.left(CrashLoss::All)
        };
        drop(world);
        let world = left.begin();
        assert_eq!(world.value(&objects), 3);
        // Another machine fails, and no data is lost.
        world.lose(others[1]);
        assert_eq!(world.value(&objects), 3);
        world.set(lost, &objects, 4);
        world.check();
    }
}

/// A machine leaves in good order: by then its data is on the disks of others, and its own disk is
/// stale.
#[test]
fn data_of_departed_machine_is_on_other_disks() {
    let disks = Disks::new(2);
    let world = disks.begin();
    let objects = objects(&world);
    world.rest();
    let leaves = Arc::clone(&world.machines[&3]);
    leaves.ask_to_leave(MachineId(3));
    let parts = || {
        world.machines[&1].ask_to_part_with(MachineId(3));
        leaves.is_to_part()
    };
    world.until("it has nothing any more", parts);
    world.set(2, &objects, 2);
    let left = || {
        leaves.ask_to_part_with(MachineId(3));
        leaves.has_left()
    };
    world.until("it has left", left);
    world.dead.borrow_mut().insert(3);
    world.set(1, &objects, 3);
    world.check();
    let left = disks.left(CrashLoss::All);
    drop(world);
    let world = left.begin();
    assert_eq!(world.machines.len(), 2);
    assert_eq!(world.value(&objects), 3);
    world.check();
}

/// Power fails while machines start again, one of which is taken back with an empty disk.
#[test]
fn machine_may_be_readmitted_repeatedly() {
    let disks = Disks::new(2);
    let world = disks.begin();
    let objects = objects(&world);
    world.rest();
    world.lose(3);
    let mut left = disks.left(CrashLoss::All);
    drop(world);
    left.taken_back = ReadmitPolicy::All;
    left.disks[2] = SimDisk::new(9);
    let behind = left.left(CrashLoss::All);
    drop(left.begin());
    for ahead in 0..3 {
        let disk = |at: usize| match at == ahead {
            true => left.disks[at].fork(),
            false => behind.disks[at].fork(),
        };
        let mixed = Disks {
            disks: (0..3).map(disk).collect(),
            stored: 3,
            ..left
        };
        let world = mixed.left(CrashLoss::All).begin();
        assert_eq!(world.machines.len(), 3);
        assert_eq!(world.value(&objects), 1);
        world.check();
    }
}
