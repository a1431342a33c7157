//! Three machines of one host, whose memory outlives them.

use std::cell::RefCell;
use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::Command;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use fencepost_fabric::{
    Bell, Completer, Completion, Event, Fabric, FabricCounters, FabricError, Member, Memory, Nvram,
    Place, SegmentId, ShmFabric, Writer,
};
use fencepost_txn::network::restart::{RestartError, repair_memory};
use fencepost_txn::network::{Configuration, NetworkOptions, Replication, RestartState};
use fencepost_txn::{
    Addr, Machine, MachineId, MachineOptions, Mode, ObjectLocation, Outcome, Transaction,
};
use parking_lot::Mutex;

const MACHINES: u32 = 3;

/// Returns the place on a machine for a new object.
pub fn place(machine: usize) -> ObjectLocation {
    ObjectLocation::Machine(MachineId(machine as u32 + 1))
}

/// Creates a directory in a memory file system, if there is one.
fn directory() -> tempfile::TempDir {
    let made = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    made.expect("a directory")
}

/// The directory of the machines' memory, and the watch on their writes.
pub struct Host {
    directory: tempfile::TempDir,
    replicas: usize,
    watch: Arc<Watch>,
    current: RefCell<Option<Configuration>>,
}

/// Takes copies of the memory.
#[derive(Default)]
struct Watch {
    state: Mutex<WatchState>,
}

#[derive(Default)]
struct WatchState {
    from: Option<PathBuf>,
    reported: bool,
    taken: Vec<(tempfile::TempDir, bool)>,
    /// A machine that is to be killed, the number of writes until then, and the fate of the others.
    to_kill: Option<(MachineId, usize, OthersEnd)>,
    killed: Option<(MachineId, OthersEnd)>,
    /// Completions of writes that stay pending to the end.
    late: Vec<Completer<()>>,
}

/// The fate of the other machines when one is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OthersEnd {
    /// They are killed when they can make no more progress.
    AreKilled,
    /// They are killed before any write between them arrives.
    AreKilledAtOnce,
    /// They are closed in good order.
    EndWell,
}

impl Watch {
    fn look(&self) {
        let mut state = self.state.lock();
        if let Some(from) = state.from.clone() {
            let copy = directory();
            copy_all(&from, copy.path());
            let reported = state.reported;
            state.taken.push((copy, reported));
        }
    }

    /// Returns the completion of a write that does not arrive because of a killed machine.
    fn stop(&self, from: MachineId, to: MachineId) -> Option<Completion<()>> {
        let mut state = self.state.lock();
        if let Some((machine, left, others)) = state.to_kill {
            match left {
                0 => (state.to_kill, state.killed) = (None, Some((machine, others))),
                _ => state.to_kill = Some((machine, left - 1, others)),
            }
        }
        let (killed, others) = state.killed?;
        if killed == to || killed == from {
            return Some(Completion::done(Err(FabricError::Lost)));
        }
        (others == OthersEnd::AreKilledAtOnce).then(|| {
            let (completer, completion) = Completion::pending();
            state.late.push(completer);
            completion
        })
    }
}

/// Memory that was moved away.
pub struct Aside {
    aside: tempfile::TempDir,
    homes: [PathBuf; 2],
}

impl Aside {
    pub fn put_back(self) {
        for (at, home) in self.homes.iter().enumerate() {
            copy_to(&self.aside.path().join(at.to_string()), home);
        }
    }
}

fn copy_to(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a directory");
    copy_all(from, to);
}

/// Copies the contents of a directory; holes stay holes.
fn copy_all(from: &Path, to: &Path) {
    let mut copy = Command::new("cp");
    let copied = copy.arg("-a").arg(from.join(".")).arg(to).status();
    assert!(copied.expect("cp runs").success());
}

impl Host {
    pub fn new(replicas: usize) -> Host {
        Host {
            directory: directory(),
            replicas,
            watch: Arc::default(),
            current: RefCell::new(None),
        }
    }

    /// Starts or stops taking copies.
    pub fn watch(&self, on: bool) {
        self.watch.state.lock().from = on.then(|| self.directory.path().to_path_buf());
    }

    /// Kills a machine after a number of further writes.
    pub fn kill_after_writes(&self, machine: MachineId, writes: usize, others: OthersEnd) {
        let mut state = self.watch.state.lock();
        (state.to_kill, state.killed) = (Some((machine, writes, others)), None);
    }

    /// Returns the machine that was killed.
    pub fn killed(&self) -> Option<MachineId> {
        let killed = self.watch.state.lock().killed;
        killed.map(|(machine, _)| machine)
    }

    /// Clears the kill, so that machines that start again are not killed.
    pub fn spare(&self) {
        let mut state = self.watch.state.lock();
        (state.to_kill, state.killed) = (None, None);
        drop(std::mem::take(&mut state.late));
    }

    /// Kills all machines, and returns the memory that is left.
    pub fn kill(&self) -> Host {
        self.watch(true);
        self.watch.look();
        self.watch(false);
        let mut left = self.take_left();
        left.pop().expect("what was taken").0
    }

    /// Records that the commit was reported to the client.
    pub fn reported(&self) {
        self.watch.state.lock().reported = true;
    }

    /// Returns the copies, each with whether the commit had been reported to the client.
    pub fn take_left(&self) -> Vec<(Host, bool)> {
        let taken = std::mem::take(&mut self.watch.state.lock().taken);
        let host = |(directory, reported)| {
            let host = Host {
                directory,
                replicas: self.replicas,
                watch: Arc::default(),
                current: self.current.clone(),
            };
            (host, reported)
        };
        taken.into_iter().map(host).collect()
    }

    /// Deletes a machine's memory.
    pub fn lose(&self, machine: u32) {
        for home in self.homes(machine) {
            fs::remove_dir_all(home).expect("it was there");
        }
    }

    /// Moves a machine's memory away.
    pub fn take_away(&self, machine: u32) -> Aside {
        let aside = directory();
        let homes = self.homes(machine);
        for (at, home) in homes.iter().enumerate() {
            copy_to(home, &aside.path().join(at.to_string()));
        }
        self.lose(machine);
        Aside { aside, homes }
    }

    fn homes(&self, machine: u32) -> [PathBuf; 2] {
        let current = self.current.borrow();
        let incarnation = current.as_ref().map_or(1, |current| current.id().0);
        let place = [format!("incarnation-{incarnation}"), "regions".into()];
        place.map(|place| {
            self.directory
                .path()
                .join(place)
                .join(format!("m{machine}"))
        })
    }

    /// Starts all machines, and waits until they are complete.
    pub fn begin(&self) -> Machines {
        self.try_begin().expect("they begin")
    }

    pub fn try_begin(&self) -> Result<Machines, RestartError> {
        let nvram = Nvram::open(self.directory.path()).expect("a directory");
        let initial_members = Configuration::of_process(MACHINES).expect("machines");
        let replication = Replication::exactly(self.replicas);
        let before = self.current.borrow().clone();
        let resumed = match &before {
            None => None,
            Some(before) => {
                let incarnation = nvram.last(before.id().0).expect("lives").expect("one");
                // A process that another test has just started also has the lock, for a short time.
                while nvram.is_alive(incarnation).expect("a lock") {
                    std::thread::yield_now();
                }
                let map = nvram.map(incarnation).expect("a map");
                let begun = (!map.is_empty()).then(|| RestartState::unseal(&map).expect("whole"));
                let before = (before, begun.as_ref());
                Some(repair_memory(
                    &nvram.after(incarnation),
                    before,
                    replication,
                )?)
            }
        };
        let map = resumed.as_ref().map_or_else(Vec::new, RestartState::seal);
        let configuration = resumed
            .as_ref()
            .map_or(initial_members, |resumed| resumed.configuration.clone());
        let incarnation = configuration.id().0;
        let kept = resumed.as_ref().map_or_else(Vec::new, RestartState::places);
        nvram.begin(incarnation, &map).expect("an incarnation");
        nvram.forget_before(incarnation, &kept).expect("forgotten");
        *self.current.borrow_mut() = Some(configuration.clone());
        let resumed = resumed.map(Arc::new);
        let members: Vec<Member> = (1..=MACHINES).map(member).collect();
        let fabrics: Vec<_> = members
            .iter()
            .map(|me| {
                let regions = resumed.iter().flat_map(|resumed| &resumed.regions);
                let own = regions.filter(|region| region.mapping.replicas.has(me.id));
                let own = own.map(|region| region.mapping.region.0);
                let living = nvram.join(incarnation).expect("an incarnation");
                let home = nvram
                    .home_in(incarnation, me.id, own, living)
                    .expect("its directory");
                let fabric = ShmFabric::at(home).expect("a machine");
                fabric.set_members(&members).expect("a member");
                WatchedFabric {
                    inner: fabric,
                    watch: Arc::clone(&self.watch),
                }
            })
            .collect();
        let open = |fabric| {
            let network = NetworkOptions {
                driven: true,
                ..NetworkOptions::of(Arc::new(fabric), configuration.clone(), replication)
            };
            let options = MachineOptions {
                region_bytes: 16 << 20,
                network: Some(network),
                resumed: resumed.clone(),
                ..MachineOptions::default()
            };
            Machine::open(options).expect("opens")
        };
        Ok(Machines::complete(fabrics.into_iter().map(open).collect()))
    }
}

fn member(id: u32) -> Member {
    Member {
        id: MachineId(id),
        address: String::new(),
    }
}

/// Machines that only act when they are driven.
pub struct Machines {
    machines: Vec<Arc<Machine>>,
    /// Called before each of their steps.
    looks: Option<Box<dyn Fn()>>,
}

impl Machines {
    /// Drives machines until they are complete.
    pub fn complete(machines: Vec<Arc<Machine>>) -> Machines {
        let looks = None;
        let machines = Machines { machines, looks };
        for machine in &machines.machines {
            while !machines.run(machine.is_complete()) {
                machines.drive_all();
            }
        }
        machines
    }

    /// Sets the function that is called before each step.
    pub fn look(&mut self, looks: impl Fn() + 'static) {
        self.looks = Some(Box::new(looks));
    }

    /// Runs a task, and drives all machines meanwhile.
    pub fn run<T>(&self, task: impl Future<Output = T>) -> T {
        let mut task = pin!(task);
        loop {
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(done) = task.as_mut().poll(&mut context) {
                return done;
            }
            self.drive_all();
        }
    }

    pub fn drive_all(&self) -> bool {
        let machines = self.machines.iter();
        machines.fold(false, |any, machine| {
            self.looks.iter().for_each(|look| look());
            any | machine.drive()
        })
    }

    /// Drives the machines until they are at rest.
    pub fn rest(&self) {
        while self.drive_all() || !Machine::are_at_rest(&self.machines) {}
    }

    /// Closes all machines in good order.
    pub fn close(&self) {
        for machine in &self.machines {
            machine.close().expect("there is no log");
        }
    }

    pub fn begin(&self, machine: usize, mode: Mode) -> Transaction {
        self.machines[machine].coordinator().begin(mode)
    }

    /// Returns a machine.
    pub fn machine(&self, at: usize) -> &Arc<Machine> {
        &self.machines[at]
    }

    /// Checks that at rest no object is locked, and all replicas of a region are equal.
    pub fn check(&self) {
        self.rest();
        for machine in &self.machines {
            let problems = machine.compare_backups(&self.machines);
            assert!(problems.is_empty(), "{problems:?}");
        }
    }

    /// Creates an object on a machine, whose words are all `value`.
    pub fn object(&self, at: usize, words: usize, value: u64) -> Addr {
        let mut tx = self.begin((at + 1) % 3, Mode::ReadWrite);
        let made = self.run(tx.alloc(words, place(at))).expect("memory");
        tx.write_new(made, &vec![value; words]).expect("its own");
        let outcome = self.run(tx.commit());
        assert!(matches!(outcome, Ok(Outcome::Committed(_))), "{outcome:?}");
        made.addr
    }

    /// Returns the machines with replicas of an object.
    pub fn replicas_of(&self, addr: Addr) -> Vec<u32> {
        let all = self.run(self.machines[0].all_regions()).expect("is told");
        let mut all = all.iter().filter(|mapping| mapping.region == addr.region());
        let mapping = all.next().expect("a region");
        mapping.replicas.all().map(|machine| machine.0).collect()
    }

    /// Returns an object as a machine sees it; `None` if it does not exist.
    pub fn words(&self, at: usize, addr: Addr) -> Option<Vec<u64>> {
        let mut tx = self.begin(at, Mode::ReadOnly);
        let mut words = Vec::new();
        let found = self.run(tx.read(addr, &mut words)).expect("it is read");
        found.then_some(words)
    }
}

/// A fabric whose writes are watched.
struct WatchedFabric {
    inner: ShmFabric,
    watch: Arc<Watch>,
}

impl Fabric for WatchedFabric {
    fn me(&self) -> MachineId {
        self.inner.me()
    }

    fn bell(&self) -> &Bell {
        self.inner.bell()
    }

    fn lease_bell(&self) -> &Bell {
        self.inner.lease_bell()
    }

    fn counters(&self) -> &FabricCounters {
        self.inner.counters()
    }

    fn keeps(&self) -> bool {
        self.inner.keeps()
    }

    fn provide(
        &self,
        segment: SegmentId,
        words: usize,
        writer: Writer,
    ) -> Result<Arc<Memory>, FabricError> {
        self.inner.provide(segment, words, writer)
    }

    fn withdraw(&self, segment: SegmentId) {
        self.inner.withdraw(segment);
    }

    fn set_members(&self, members: &[Member]) -> Result<(), FabricError> {
        self.inner.set_members(members)
    }

    fn maps_peers(&self) -> bool {
        self.inner.maps_peers()
    }

    fn map(&self, machine: MachineId, segment: SegmentId) -> Option<Arc<Memory>> {
        self.inner.map(machine, segment)
    }

    fn read(&self, at: Place, words: usize) -> Completion<Box<[u64]>> {
        self.inner.read(at, words)
    }

    fn write(&self, at: Place, words: &[u64]) -> Completion<()> {
        self.watch.look();
        let stopped = self.watch.stop(self.me(), at.machine);
        stopped.unwrap_or_else(|| self.inner.write(at, words))
    }

    fn cas(&self, at: Place, expected: u64, new: u64) -> Completion<u64> {
        self.inner.cas(at, expected, new)
    }

    fn ring_bell(&self, machine: MachineId) {
        self.inner.ring_bell(machine);
    }

    fn ring_lease_bell(&self, machine: MachineId) {
        self.inner.ring_lease_bell(machine);
    }

    fn take_events(&self) -> Vec<Event> {
        self.inner.take_events()
    }
}
