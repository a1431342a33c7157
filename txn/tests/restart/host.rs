//! Three machines of a host whose memory outlives them.

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
use fencepost_txn::network::restart::{RestartError, settle};
use fencepost_txn::network::{Configuration, NetworkOptions, Replication, Resumed};
use fencepost_txn::{Addr, Machine, MachineId, MachineOptions, Mode, Near, Outcome, Transaction};
use parking_lot::Mutex;

const MACHINES: u32 = 3;

/// What is asked of a machine for something that is to be there.
pub fn place(machine: usize) -> Near {
    Near::Machine(MachineId(machine as u32 + 1))
}

/// A directory in memory, where there are some.
fn directory() -> tempfile::TempDir {
    let made = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    made.expect("a directory")
}

/// The directory of their memory, and what is to be watched.
pub struct Host {
    directory: tempfile::TempDir,
    replicas: usize,
    watch: Arc<Watch>,
    current: RefCell<Option<Configuration>>,
}

/// Takes copies.
#[derive(Default)]
struct Watch {
    state: Mutex<Watching>,
}

#[derive(Default)]
struct Watching {
    from: Option<PathBuf>,
    reported: bool,
    taken: Vec<(tempfile::TempDir, bool)>,
    /// A machine that is to be killed, and the writes until then.
    doomed: Option<(MachineId, usize, Others)>,
    killed: Option<(MachineId, Others)>,
    /// Answers that do not come before all is over.
    late: Vec<Completer<()>>,
}

/// What becomes of the others once a machine is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// They are killed once they cannot do any more.
    AreKilled,
    /// They are killed before anything arrives that they write to each other.
    AreKilledAtOnce,
    /// They end in good order.
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

    /// The answer of a write that does not arrive because of who was killed.
    fn stop(&self, from: MachineId, to: MachineId) -> Option<Completion<()>> {
        let mut state = self.state.lock();
        if let Some((machine, left, others)) = state.doomed {
            match left {
                0 => (state.doomed, state.killed) = (None, Some((machine, others))),
                _ => state.doomed = Some((machine, left - 1, others)),
            }
        }
        let (killed, others) = state.killed?;
        if killed == to || killed == from {
            return Some(Completion::done(Err(FabricError::Lost)));
        }
        (others == Others::AreKilledAtOnce).then(|| {
            let (completer, completion) = Completion::pending();
            state.late.push(completer);
            completion
        })
    }
}

/// Memory that was taken away.
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

/// Copies what is in a directory; holes stay holes.
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

    /// From now on, or not any more, copies are taken.
    pub fn watch(&self, on: bool) {
        self.watch.state.lock().from = on.then(|| self.directory.path().to_path_buf());
    }

    /// A machine is killed once some more writes have been made.
    pub fn doom(&self, machine: MachineId, writes: usize, others: Others) {
        let mut state = self.watch.state.lock();
        (state.doomed, state.killed) = (Some((machine, writes, others)), None);
    }

    /// The machine that was killed.
    pub fn killed(&self) -> Option<MachineId> {
        let killed = self.watch.state.lock().killed;
        killed.map(|(machine, _)| machine)
    }

    /// Whoever begins again is not killed.
    pub fn spare(&self) {
        let mut state = self.watch.state.lock();
        (state.doomed, state.killed) = (None, None);
        drop(std::mem::take(&mut state.late));
    }

    /// All are killed: what is left.
    pub fn kill(&self) -> Host {
        self.watch(true);
        self.watch.look();
        self.watch(false);
        let mut left = self.take_left();
        left.pop().expect("what was taken").0
    }

    /// The client was told.
    pub fn reported(&self) {
        self.watch.state.lock().reported = true;
    }

    /// What would have been left, and whether the client had been told.
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

    /// A machine's memory is gone.
    pub fn lose(&self, machine: u32) {
        for home in self.homes(machine) {
            fs::remove_dir_all(home).expect("it was there");
        }
    }

    /// A machine's memory is somewhere else.
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
        let life = current.as_ref().map_or(1, |current| current.id().0);
        let place = [format!("life-{life}"), "regions".into()];
        place.map(|place| {
            self.directory
                .path()
                .join(place)
                .join(format!("m{machine}"))
        })
    }

    /// All machines, once they are there.
    pub fn begin(&self) -> Machines {
        self.try_begin().expect("they begin")
    }

    pub fn try_begin(&self) -> Result<Machines, RestartError> {
        let nvram = Nvram::open(self.directory.path()).expect("a directory");
        let founders = Configuration::of_process(MACHINES).expect("machines");
        let replication = Replication::exactly(self.replicas);
        let before = self.current.borrow().clone();
        let resumed = match &before {
            None => None,
            Some(before) => {
                let life = nvram.last(before.id().0).expect("lives").expect("one");
                // A process that another test has just begun has the lock, too, for a moment.
                while nvram.is_alive(life).expect("a lock") {
                    std::thread::yield_now();
                }
                let map = nvram.map(life).expect("a map");
                let begun = (!map.is_empty()).then(|| Resumed::unseal(&map).expect("whole"));
                let before = (before, begun.as_ref());
                Some(settle(&nvram.after(life), before, replication)?)
            }
        };
        let map = resumed.as_ref().map_or_else(Vec::new, Resumed::seal);
        let configuration = resumed
            .as_ref()
            .map_or(founders, |resumed| resumed.configuration.clone());
        let life = configuration.id().0;
        let kept = resumed.as_ref().map_or_else(Vec::new, Resumed::places);
        nvram.begin(life, &map).expect("a life");
        nvram.forget_before(life, &kept).expect("forgotten");
        *self.current.borrow_mut() = Some(configuration.clone());
        let resumed = resumed.map(Arc::new);
        let members: Vec<Member> = (1..=MACHINES).map(member).collect();
        let fabrics: Vec<_> = members
            .iter()
            .map(|me| {
                let regions = resumed.iter().flat_map(|resumed| &resumed.regions);
                let own = regions.filter(|region| region.mapping.replicas.has(me.id));
                let own = own.map(|region| region.mapping.region.0);
                let living = nvram.join(life).expect("a life");
                let home = nvram
                    .home_in(life, me.id, own, living)
                    .expect("its directory");
                let fabric = ShmFabric::at(home).expect("a machine");
                fabric.set_members(&members).expect("a member");
                Watched {
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

/// Machines that do nothing by themselves.
pub struct Machines {
    machines: Vec<Arc<Machine>>,
    /// Looks before each of their steps.
    looks: Option<Box<dyn Fn()>>,
}

impl Machines {
    /// Machines that see each other.
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

    /// From now on somebody looks before each step.
    pub fn look(&mut self, looks: impl Fn() + 'static) {
        self.looks = Some(Box::new(looks));
    }

    /// Does something, and everything that it waits for.
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

    /// Until nothing is under way.
    pub fn rest(&self) {
        while self.drive_all() || !Machine::are_at_rest(&self.machines) {}
    }

    /// They end in good order.
    pub fn close(&self) {
        for machine in &self.machines {
            machine.close().expect("there is no log");
        }
    }

    pub fn begin(&self, machine: usize, mode: Mode) -> Transaction {
        self.machines[machine].coordinator().begin(mode)
    }

    /// A machine.
    pub fn machine(&self, at: usize) -> &Arc<Machine> {
        &self.machines[at]
    }

    /// At rest nothing is locked, and all replicas of a region are alike.
    pub fn check(&self) {
        self.rest();
        for machine in &self.machines {
            let problems = machine.compare_backups(&self.machines);
            assert!(problems.is_empty(), "{problems:?}");
        }
    }

    /// An object of a machine, all of whose words are `value`.
    pub fn object(&self, at: usize, words: usize, value: u64) -> Addr {
        let mut tx = self.begin((at + 1) % 3, Mode::ReadWrite);
        let made = self.run(tx.alloc(words, place(at))).expect("memory");
        tx.write_new(made, &vec![value; words]).expect("its own");
        let outcome = self.run(tx.commit());
        assert!(matches!(outcome, Ok(Outcome::Committed(_))), "{outcome:?}");
        made.addr
    }

    /// The machines that have an object.
    pub fn replicas_of(&self, addr: Addr) -> Vec<u32> {
        let all = self.run(self.machines[0].all_regions()).expect("is told");
        let mut all = all.iter().filter(|mapping| mapping.region == addr.region());
        let mapping = all.next().expect("a region");
        mapping.replicas.all().map(|machine| machine.0).collect()
    }

    /// An object as a machine sees it; `None` where there is none.
    pub fn words(&self, at: usize, addr: Addr) -> Option<Vec<u64>> {
        let mut tx = self.begin(at, Mode::ReadOnly);
        let mut words = Vec::new();
        let found = self.run(tx.read(addr, &mut words)).expect("it is read");
        found.then_some(words)
    }
}

/// A fabric that is watched.
struct Watched {
    inner: ShmFabric,
    watch: Arc<Watch>,
}

impl Fabric for Watched {
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
