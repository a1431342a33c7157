//! Machines that keep their data on disks lose power at the same time, at any point, and start
//! again.
//!
//! A copy of all disks is taken whenever one of them was written or synced. In the copy, unsynced
//! bytes are lost.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fencepost_cluster::ConfigurationId;
use fencepost_fabric::random::Random;
use fencepost_fabric::{CrashLoss, Disk, DiskOp, Fabric, LocalNetwork, SimDisk};
use fencepost_storage::log::LogOptions;
use fencepost_txn::network::disk::{Beginning, Contents, DiskStart, ReadmitPolicy, StoreState};
use fencepost_txn::network::{Configuration, NetworkOptions, Replication, members};
use fencepost_txn::{Addr, DurableStorage, Machine, MachineId, MachineOptions};
use fencepost_txn::{Mode, OpenError, Outcome, Stop};
use pollster::block_on;

use crate::host::{Machines, place};
use crate::{LONG, OLD, SHORT, change, is_there, objects};

const MACHINES: u32 = 3;

/// The disks of all machines.
#[derive(Clone)]
pub struct Disks {
    pub disks: Vec<SimDisk>,
    replicas: usize,
}

/// Returns the durable options for a disk after a boot; checkpoints are taken only on request.
pub fn durable(disk: &SimDisk) -> DurableStorage {
    DurableStorage {
        disk: Arc::new(disk.boot()),
        log: LogOptions {
            segment_bytes: 64 << 10,
            fill_ahead_bytes: 32 << 10,
            ..LogOptions::default()
        },
        checkpoint_bytes: u64::MAX,
    }
}

impl Disks {
    pub fn new(replicas: usize) -> Disks {
        let disks = (1..=MACHINES).map(|seed| SimDisk::new(seed.into()));
        let disks = disks.collect();
        Disks { disks, replicas }
    }

    /// Returns the disks as a power loss now would leave them.
    pub fn left(&self, loss: CrashLoss) -> Disks {
        let left = |disk: &SimDisk| {
            let left = disk.fork();
            left.crash(loss);
            left
        };
        Disks {
            disks: self.disks.iter().map(left).collect(),
            replicas: self.replicas,
        }
    }

    /// Returns a number that changes with every write and sync.
    fn changes(&self) -> u64 {
        let ops = [DiskOp::Write, DiskOp::Sync];
        let changes = |disk: &SimDisk| ops.iter().map(|op| disk.count(*op)).sum::<u64>();
        self.disks.iter().map(changes).sum()
    }

    pub fn begin(&self) -> Machines {
        self.try_begin().expect("they begin")
    }

    fn try_begin(&self) -> Result<Machines, OpenError> {
        let initial_members = Configuration::of_process(MACHINES).expect("machines");
        let network = LocalNetwork::new();
        let ids = || (1..=MACHINES).map(MachineId);
        let members = members(&initial_members);
        let join = |id| -> Arc<dyn Fabric> { Arc::new(network.join(id).expect("a machine")) };
        let fabrics: Vec<_> = ids().map(join).collect();
        let begin = |(fabric, disk): (&Arc<dyn Fabric>, &SimDisk)| {
            fabric.set_members(&members).expect("a member");
            let durable = durable(disk);
            Beginning::open(
                Contents::read(&durable)?,
                fabric,
                (&initial_members, &initial_members),
                ReadmitPolicy::Never,
                StoreState::Last(ConfigurationId(0)),
            )
        };
        let beginnings = fabrics.iter().zip(&self.disks).map(begin);
        let mut beginnings: Vec<Beginning> = beginnings.collect::<Result<_, _>>()?;
        let mut found: Vec<Option<Arc<DiskStart>>> = vec![None; MACHINES as usize];
        while found.iter().any(Option::is_none) {
            for (beginning, found) in beginnings.iter_mut().zip(&mut found) {
                if found.is_none() {
                    *found = beginning.look().map_err(OpenError::Meet)?;
                }
            }
        }
        let open = |(fabric, on_disk): (Arc<dyn Fabric>, Option<Arc<DiskStart>>)| {
            let on_disk = on_disk.expect("all are there");
            let configuration = on_disk.configuration().clone();
            let network = NetworkOptions {
                driven: true,
                disk: Some(on_disk),
                ..NetworkOptions::of(fabric, configuration, Replication::exactly(self.replicas))
            };
            Machine::open(MachineOptions {
                region_bytes: 16 << 20,
                network: Some(network),
                ..MachineOptions::default()
            })
        };
        let machines = fabrics.into_iter().zip(found).map(open);
        Ok(Machines::complete(machines.collect::<Result<_, _>>()?))
    }
}

impl Disks {
    /// Returns copies of the disks as they are after the end of all processes.
    fn copies(&self) -> Disks {
        Disks {
            disks: self.disks.iter().map(SimDisk::fork).collect(),
            replicas: self.replicas,
        }
    }

    fn refused(&self) -> String {
        let refused = self.try_begin().err().expect("refused");
        refused.to_string()
    }
}

/// Takes copies of the disks, and records whether the commit had been reported to the client by
/// then.
struct Watch {
    disks: Disks,
    taken: RefCell<Vec<(Disks, bool)>>,
    seen: RefCell<u64>,
    reported: RefCell<bool>,
}

impl Watch {
    fn of(disks: &Disks) -> Rc<Watch> {
        Rc::new(Watch {
            disks: disks.clone(),
            taken: RefCell::default(),
            seen: RefCell::default(),
            reported: RefCell::default(),
        })
    }

    fn look(&self) {
        let changes = self.disks.changes();
        if std::mem::replace(&mut *self.seen.borrow_mut(), changes) == changes {
            return;
        }
        let loss = match self.taken.borrow().len() % 2 {
            0 => CrashLoss::All,
            _ => CrashLoss::Some,
        };
        self.take(loss);
    }

    fn take(&self, loss: CrashLoss) {
        let reported = *self.reported.borrow();
        let left = self.disks.left(loss);
        self.taken.borrow_mut().push((left, reported));
    }

    /// Records that the commit was reported to the client.
    fn report(&self) {
        *self.reported.borrow_mut() = true;
        self.take(CrashLoss::All);
    }
}

#[test]
fn reported_commits_survive_power_loss() {
    let ways = [(0, 3, false), (2, 2, false), (1, 1, false), (1, 2, true)];
    let ways = ways
        .into_iter()
        .flat_map(|way| (0..3).map(move |slow| (way, slow)));
    for ((coordinator, replicas, many), slow) in ways {
        let disks = Disks::new(replicas);
        let mut machines = disks.begin();
        let mut objects = objects(&machines);
        if many {
            objects.extend((0..9).map(|at| machines.object(at % 3, 2 * LONG, OLD)));
        }
        let (freed, link) = (
            machines.object(1, SHORT, OLD),
            machines.object(0, SHORT, OLD),
        );
        machines.rest();
        // The other machines are far ahead of the slow disk.
        disks.disks[slow].set_sync_delay(Duration::from_millis(10));
        let watch = Watch::of(&disks);
        let looks = Rc::clone(&watch);
        machines.look(move || looks.look());
        change(&machines, coordinator, &objects, freed, link);
        watch.report();
        machines.rest();
        watch.look();
        drop(machines);
        let (mut lost, mut kept) = (0, 0);
        for (at, (left, reported)) in watch.taken.take().into_iter().enumerate() {
            let machines = left.begin();
            let there = is_there(&machines, &objects, freed, link);
            assert!(there || !reported, "a reported commit is lost");
            *(if there { &mut kept } else { &mut lost }) += 1;
            if at % 3 > 0 {
                continue;
            }
            // The machines continue, and lose power again.
            let another = machines.object(1, LONG, OLD);
            let left = left.left(CrashLoss::All);
            drop(machines);
            let machines = left.begin();
            assert_eq!(is_there(&machines, &objects, freed, link), there);
            assert_eq!(machines.words(0, another).map(|words| words[5]), Some(OLD));
        }
        assert!(lost > 0 && kept > 0, "{lost} {kept}");
    }
}

/// Power fails while machines start again: some have progressed further than others.
#[test]
fn machines_behind_in_restart_learn_outcomes_from_others() {
    for (ahead, replicas) in [(0, 3), (1, 3), (2, 2), (1, 1)] {
        let disks = Disks::new(replicas);
        let mut machines = disks.begin();
        let objects = objects(&machines);
        let (freed, link) = (
            machines.object(1, SHORT, OLD),
            machines.object(0, SHORT, OLD),
        );
        machines.rest();
        disks.disks[ahead].set_sync_delay(Duration::from_millis(10));
        let watch = Watch::of(&disks);
        let looks = Rc::clone(&watch);
        machines.look(move || looks.look());
        change(&machines, 0, &objects, freed, link);
        machines.rest();
        drop(machines);
        for (left, _) in watch.taken.take() {
            let behind = left.copies();
            let there = is_there(&left.begin(), &objects, freed, link);
            let first = Disks {
                disks: (0..MACHINES as usize)
                    .map(|at| match at == ahead {
                        true => left.disks[at].fork(),
                        false => behind.disks[at].fork(),
                    })
                    .collect(),
                replicas,
            };
            let first = first.left(CrashLoss::All);
            assert_eq!(is_there(&first.begin(), &objects, freed, link), there);
        }
    }
}

#[test]
fn without_the_data_of_all_machines_nothing_begins() {
    let disks = Disks::new(2);
    let machines = disks.begin();
    let objects = objects(&machines);
    machines.rest();
    drop(machines);
    // The disk of another cluster.
    let outsiders = Disks::new(2);
    outsiders.begin().object(0, SHORT, OLD);
    let mut mixed = disks.copies();
    mixed.disks[1] = outsiders.disks[1].fork();
    let said = mixed.refused();
    assert!(said.contains("data of another cluster"), "{said}");
    mixed.disks[1] = SimDisk::new(9);
    let said = mixed.refused();
    assert!(said.contains("m2 found no data"), "{said}");
    // The disk of a machine that was alone.
    let alone = SimDisk::new(7);
    let disk: Arc<dyn Disk> = Arc::new(alone.clone());
    let options = |disk| MachineOptions {
        region_bytes: 16 << 20,
        durable: Some(DurableStorage {
            disk,
            log: LogOptions::default(),
            checkpoint_bytes: u64::MAX,
        }),
        ..MachineOptions::default()
    };
    let machine = Machine::open(options(disk)).expect("opens");
    let mut tx = machine.coordinator().begin(Mode::ReadWrite);
    block_on(tx.update(machine.root(), |image| image[0] = 1)).expect("there");
    block_on(tx.commit()).expect("commits");
    machine.close().expect("closes");
    drop(machine);
    mixed.disks[1] = alone.fork();
    let said = mixed.refused();
    assert!(said.contains("a machine that is alone"), "{said}");
    let disk: Arc<dyn Disk> = Arc::new(disks.disks[0].fork());
    let said = Machine::open(options(disk))
        .err()
        .expect("refused")
        .to_string();
    assert!(said.contains("of a machine among others"), "{said}");
    // Damage in the middle of a log.
    let damaged = disks.copies();
    let log = damaged.disks[2].inside("log");
    let first = log.list().expect("names")[0].clone();
    // In the first bytes that were written.
    log.flip(&first, 4200, 1);
    let said = damaged.refused();
    assert!(said.contains("corrupt at byte"), "{said}");
    // The original disks still have all data.
    let machines = disks.begin();
    for addr in objects {
        assert_eq!(machines.words(1, addr).map(|words| words[1]), Some(OLD));
    }
}

/// A model: objects of all machines, which are created, changed and freed, and their contents.
struct Model {
    random: Random,
    objects: BTreeMap<Addr, Vec<u64>>,
}

impl Model {
    /// Runs one transaction with some changes.
    fn step(&mut self, machines: &Machines) {
        let random = &mut self.random;
        let mut tx = machines.begin(random.below(3) as usize, Mode::ReadWrite);
        let mut after = self.objects.clone();
        for _ in 0..=random.below(2) {
            let some = after.keys().nth(random.below(40) as usize).copied();
            let value = random.next_u64();
            match (some, random.below(8)) {
                (Some(addr), 0) => {
                    machines.run(tx.free(addr)).expect("there");
                    after.remove(&addr);
                }
                (Some(addr), 1..) => {
                    let words = after.get_mut(&addr).expect("there");
                    let from = random.below(words.len() as u64) as usize;
                    let all = random.below(4) == 0;
                    let change = |image: &mut [u64]| match all {
                        true => image.fill(value),
                        false => image[from] = value,
                    };
                    change(words);
                    // The object may have more words than requested.
                    let count = words.len();
                    let change = |image: &mut [u64]| change(&mut image[..count]);
                    machines.run(tx.update(addr, change)).expect("there");
                }
                (None, _) => {
                    let words = [3, 20, 100, 200][random.below(4) as usize];
                    let at = place(random.below(3) as usize);
                    let made = machines.run(tx.alloc(words, at)).expect("memory");
                    tx.write_new(made, &vec![value; words]).expect("its own");
                    after.insert(made.addr, vec![value; words]);
                }
            }
        }
        let outcome = machines.run(tx.commit());
        assert!(matches!(outcome, Ok(Outcome::Committed(_))), "{outcome:?}");
        self.objects = after;
    }

    fn check(&self, machines: &Machines) {
        for (addr, words) in &self.objects {
            let there = machines.words(0, *addr);
            assert_eq!(
                there.as_deref().map(|all| &all[..words.len()]),
                Some(&words[..])
            );
        }
        machines.check();
    }
}

#[test]
fn checkpoints_are_taken_while_all_go_on() {
    for seed in 0..3 {
        let replicas = [2, 3, 1][seed as usize % 3];
        let disks = Disks::new(replicas);
        let machines = disks.begin();
        let mut model = Model {
            random: Random::new(seed),
            objects: BTreeMap::new(),
        };
        for round in 0..8 {
            let at = model.random.below(3) as usize;
            // Commits wait for the slow disk while the other machine takes its checkpoint.
            let slow = &disks.disks[(at + 1) % 3];
            slow.set_sync_delay(Duration::from_millis(8));
            (0..3).for_each(|_| model.step(&machines));
            let machine = Arc::clone(machines.machine(at));
            let taking = std::thread::spawn(move || machine.checkpoint());
            let mut steps = 0;
            while steps < 3 || !taking.is_finished() {
                model.step(&machines);
                steps += 1;
            }
            let taken = taking.join().expect("no panic");
            assert!(taken.expect("is taken"), "there is a disk");
            slow.set_sync_delay(Duration::ZERO);
            (0..model.random.below(60)).for_each(|_| model.step(&machines));
            let loss = [CrashLoss::All, CrashLoss::Some][round % 2];
            let left = disks.left(loss);
            let again = left.begin();
            model.check(&again);
            model
                .objects
                .keys()
                .next()
                .map(|addr| again.words(1, *addr));
            if round == 5 {
                // The machines continue, and lose power again.
                let mut further = Model {
                    random: Random::new(seed),
                    objects: model.objects.clone(),
                };
                (0..40).for_each(|_| further.step(&again));
                let left = left.left(CrashLoss::All);
                drop(again);
                further.check(&left.begin());
            }
        }
        // A flush takes at least half a KiB, and a segment has 64 KiB.
        (0..150).for_each(|_| model.step(&machines));
        model.check(&machines);
        for at in 0..3 {
            assert!(machines.machine(at).checkpoint().expect("is taken"));
        }
        let cut = disks.disks.iter().filter(|disk| {
            let names = disk.inside("log").list().expect("names");
            !names.iter().any(|name| name.contains("000000000000."))
        });
        assert!(cut.count() > 0, "no log was cut");
    }
}

/// A machine without new writes learns that its retained records are no longer needed.
#[test]
fn checkpoint_at_rest_leaves_nothing_to_replay() {
    let disks = Disks::new(2);
    let machines = disks.begin();
    let objects = objects(&machines);
    machines.rest();
    // Machines check from time to time, and their reports are flushed.
    for _ in 0..2000 {
        machines.drive_all();
        std::thread::sleep(Duration::from_micros(20));
    }
    for at in 0..3 {
        let taken = machines.machine(at).checkpoint();
        assert!(taken.expect("is taken"), "there is a disk");
    }
    let again = disks.left(CrashLoss::All).begin();
    let started = |at: usize| again.machine(at).started();
    for at in 0..3 {
        assert_eq!(started(at).replayed.commits, 0, "m{}", at + 1);
    }
    let loaded: u64 = (0..3).map(|at| started(at).checkpoint_objects).sum();
    // Each of them twice, and the root object.
    assert!(loaded > 2 * objects.len() as u64, "{loaded}");
    for addr in objects {
        assert_eq!(again.words(1, addr).map(|words| words[1]), Some(OLD));
    }
}

/// A disk that can no longer be written makes commits fail; no operation hangs.
#[test]
fn commits_that_a_failed_disk_has_part_in_are_refused() {
    for (failed, coordinator) in [(0, 0), (0, 1), (2, 1)] {
        let disks = Disks::new(3);
        let machines = disks.begin();
        let object = machines.object(0, SHORT, OLD);
        machines.rest();
        disks.disks[failed].fail_nth(DiskOp::Sync, 1);
        for _ in 0..3 {
            let mut tx = machines.begin(coordinator, Mode::ReadWrite);
            machines
                .run(tx.update(object, |image| image.fill(1)))
                .expect("there");
            let outcome = machines.run(tx.commit());
            assert_eq!(outcome, Err(Stop::Failed), "{failed} {coordinator}");
        }
        // Readers continue, and no object is locked.
        for at in 0..3 {
            assert_eq!(machines.words(at, object).map(|words| words[0]), Some(OLD));
        }
        machines.drive_all();
        drop(machines);
        let machines = disks.left(CrashLoss::All).begin();
        assert_eq!(machines.words(1, object).map(|words| words[0]), Some(OLD));
        machines.check();
    }
}

/// On a full disk, commits that involve its machine are refused, whichever machine coordinates
/// them, until there is space again. Other commits continue, and no reported commit is lost.
#[test]
fn commits_that_a_full_disk_has_part_in_are_refused_until_there_is_space() {
    for (replicas, full, coordinator) in [(2, 0, 0), (2, 0, 1), (2, 2, 1), (1, 0, 0), (1, 2, 0)] {
        let disks = Disks::new(replicas);
        let machines = disks.begin();
        let mapped = |at: usize| machines.object(at, SHORT, OLD);
        let objects = [mapped(0), mapped(1), mapped(2)];
        machines.rest();
        let write = |object, to: u64| {
            let mut tx = machines.begin(coordinator, Mode::ReadWrite);
            let update = tx.update(object, |image| image.fill(to));
            machines.run(update).expect("there");
            machines.run(tx.commit())
        };
        disks.disks[full].set_free_bytes(Some(0));
        let (mut last, mut refused) = ([OLD; 3], [0; 3]);
        // Writes until the allocated space is used up, and some more after that.
        for round in 1..=400 {
            for (at, object) in objects.iter().enumerate() {
                match write(*object, round) {
                    Ok(Outcome::Committed(_)) => last[at] = round,
                    Err(Stop::DiskFull) => refused[at] += 1,
                    other => panic!("{other:?}"),
                }
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        assert!(refused[full] > 0, "{full} {coordinator}: {refused:?}");
        if replicas == 1 && coordinator != full {
            let others = refused.iter().filter(|times| **times == 0);
            assert_eq!(others.count(), 2, "{refused:?}");
        }
        for (object, last) in objects.iter().zip(last) {
            assert_eq!(
                machines.words(coordinator, *object).map(|w| w[0]),
                Some(last)
            );
        }
        disks.disks[full].set_free_bytes(None);
        let mut tries = 0;
        while !matches!(write(objects[full], 1000), Ok(Outcome::Committed(_))) {
            tries += 1;
            assert!(tries < 10_000, "{full} {coordinator}");
            machines.drive_all();
            std::thread::sleep(Duration::from_micros(100));
        }
        last[full] = 1000;
        machines.check();
        drop(machines);
        let machines = disks.left(CrashLoss::All).begin();
        for (object, last) in objects.iter().zip(last) {
            assert_eq!(machines.words(1, *object).map(|words| words[0]), Some(last));
        }
        machines.check();
    }
}
