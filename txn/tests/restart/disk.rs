//! Machines that keep their data on disks lose power at once, at any moment, and begin again.
//!
//! A copy of all disks is taken whenever one of them has been written or synced; in it what was not synced is lost.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fencepost_fabric::{CrashLoss, Disk, DiskOp, Fabric, LocalNetwork, Member, SimDisk};
use fencepost_storage::log::LogOptions;
use fencepost_txn::network::disk::{Beginning, OnDisk};
use fencepost_txn::network::{Configuration, NetworkOptions, Replication};
use fencepost_txn::{Durable, Machine, MachineId, MachineOptions, Mode, OpenError};
use pollster::block_on;

use crate::host::Machines;
use crate::{LONG, OLD, SHORT, change, is_there, objects};

const MACHINES: u32 = 3;

/// The disks of all machines.
#[derive(Clone)]
struct Disks {
    disks: Vec<SimDisk>,
    replicas: usize,
}

impl Disks {
    fn new(replicas: usize) -> Disks {
        let disks = (1..=MACHINES).map(|seed| SimDisk::new(seed.into()));
        let disks = disks.collect();
        Disks { disks, replicas }
    }

    /// What is left of them if the power goes now.
    fn left(&self, loss: CrashLoss) -> Disks {
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

    /// Changes whenever something is written.
    fn changes(&self) -> u64 {
        let ops = [DiskOp::Write, DiskOp::Sync];
        let changes = |disk: &SimDisk| ops.iter().map(|op| disk.count(*op)).sum::<u64>();
        self.disks.iter().map(changes).sum()
    }

    fn begin(&self) -> Machines {
        self.try_begin().expect("they begin")
    }

    fn try_begin(&self) -> Result<Machines, OpenError> {
        let founders = Configuration::of_process(MACHINES).expect("machines");
        let network = LocalNetwork::new();
        let ids = || (1..=MACHINES).map(MachineId);
        let members: Vec<Member> = ids()
            .map(|id| Member {
                id,
                address: String::new(),
            })
            .collect();
        let join = |id| -> Arc<dyn Fabric> { Arc::new(network.join(id).expect("a machine")) };
        let fabrics: Vec<_> = ids().map(join).collect();
        let begin = |(fabric, disk): (&Arc<dyn Fabric>, &SimDisk)| {
            fabric.set_members(&members).expect("a member");
            let disk: Arc<dyn Disk> = Arc::new(disk.boot());
            let durable = Durable {
                disk,
                log: LogOptions {
                    segment_bytes: 256 << 10,
                    fill_ahead_bytes: 64 << 10,
                    ..LogOptions::default()
                },
                checkpoint_bytes: u64::MAX,
            };
            Beginning::open(&durable, fabric, &founders)
        };
        let beginnings = fabrics.iter().zip(&self.disks).map(begin);
        let mut beginnings: Vec<Beginning> = beginnings.collect::<Result<_, _>>()?;
        let mut found: Vec<Option<Arc<OnDisk>>> = vec![None; MACHINES as usize];
        while found.iter().any(Option::is_none) {
            for (beginning, found) in beginnings.iter_mut().zip(&mut found) {
                if found.is_none() {
                    *found = beginning.look().map_err(OpenError::Meet)?;
                }
            }
        }
        let open = |(fabric, on_disk): (Arc<dyn Fabric>, Option<Arc<OnDisk>>)| {
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
    /// Copies of the disks as they are, as after the end of all processes.
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

/// Takes copies of the disks, and whether the client had been told then.
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

    /// The client is told.
    fn report(&self) {
        *self.reported.borrow_mut() = true;
        self.take(CrashLoss::All);
    }
}

#[test]
fn whatever_was_reported_is_there_after_power_was_lost() {
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
        // The others are far ahead of it.
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
            assert!(there || !reported, "what was reported is gone");
            *(if there { &mut kept } else { &mut lost }) += 1;
            if at % 3 > 0 {
                continue;
            }
            // They go on, and lose power again.
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

/// Power fails while machines begin again: some have come so far, and others have not.
#[test]
fn who_has_not_begun_again_is_told_by_those_who_have() {
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
    // Another cluster.
    let strangers = Disks::new(2);
    strangers.begin().object(0, SHORT, OLD);
    let mut mixed = disks.copies();
    mixed.disks[1] = strangers.disks[1].fork();
    let said = mixed.refused();
    assert!(said.contains("data of another cluster"), "{said}");
    mixed.disks[1] = SimDisk::new(9);
    let said = mixed.refused();
    assert!(said.contains("m2 found no data"), "{said}");
    // A machine that was alone.
    let alone = SimDisk::new(7);
    let disk: Arc<dyn Disk> = Arc::new(alone.clone());
    let options = |disk| MachineOptions {
        region_bytes: 16 << 20,
        durable: Some(Durable {
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
    // In what was written first.
    log.flip(&first, 4200, 1);
    let said = damaged.refused();
    assert!(said.contains("corrupt at byte"), "{said}");
    // All of it is still there.
    let machines = disks.begin();
    for addr in objects {
        assert_eq!(machines.words(1, addr).map(|words| words[1]), Some(OLD));
    }
}
