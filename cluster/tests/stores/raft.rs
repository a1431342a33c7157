//! The store of the machines themselves: three of them in one process, over a wire that can be cut.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use fencepost_cluster::store::Answer;
use fencepost_cluster::{
    ConfigStore, Configuration, ConfigurationId, MachineId, RaftStore, RaftTransport, StoreError,
    Swapped,
};
use fencepost_fabric::{CrashLoss, Random, SimDisk};
use pollster::block_on;

use super::conformance::{Handles, founded, joined, keeps_its_promises};

const PATIENCE: Duration = Duration::from_secs(60);
const MACHINES: [MachineId; 3] = [MachineId(1), MachineId(2), MachineId(3)];

/// The wires among the machines.
#[derive(Default)]
struct Hub {
    stores: Mutex<BTreeMap<MachineId, Arc<RaftStore>>>,
    cut: Mutex<BTreeSet<MachineId>>,
    /// Answers to swaps that are still to be lost.
    to_lose: AtomicUsize,
}

struct Wire {
    hub: Weak<Hub>,
    from: MachineId,
}

impl RaftTransport for Wire {
    fn call(&self, to: MachineId, question: Vec<u8>) -> Answer<'static, Vec<u8>> {
        let hub = self.hub.upgrade();
        let from = self.from;
        Box::pin(async move {
            let unreachable = || StoreError::Unreachable(format!("{from} cannot reach {to}"));
            let hub = hub.ok_or_else(unreachable)?;
            let store = hub.reach(from, to).ok_or_else(unreachable)?;
            let answer = store.serve(&question).await?;
            let one_less = |n: usize| n.checked_sub(1);
            let is_swap = question.starts_with(b"{\"Swap\"");
            let lose = &hub.to_lose;
            if is_swap
                && lose
                    .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less)
                    .is_ok()
            {
                return Err(unreachable());
            }
            hub.reach(from, to).map(|_| answer).ok_or_else(unreachable)
        })
    }
}

impl Hub {
    fn reach(&self, from: MachineId, to: MachineId) -> Option<Arc<RaftStore>> {
        let cut = self.cut.lock().expect("nobody panics with it");
        if cut.contains(&from) || cut.contains(&to) {
            return None;
        }
        let stores = self.stores.lock().expect("nobody panics with it");
        stores.get(&to).cloned()
    }

    /// Starts the machines with what is on their disks.
    fn start(self: &Arc<Self>, disks: &[SimDisk]) -> Vec<Arc<RaftStore>> {
        let stores = MACHINES.into_iter().zip(disks).map(|(machine, disk)| {
            let wire = Wire {
                hub: Arc::downgrade(self),
                from: machine,
            };
            let random = Random::from_entropy();
            let disk = Arc::new(disk.boot());
            let store = RaftStore::open(machine, Some(disk), Arc::new(wire), random, PATIENCE);
            (machine, Arc::new(store.expect("the disk is well")))
        });
        let stores: BTreeMap<_, _> = stores.collect();
        *self.stores.lock().expect("nobody panics with it") = stores.clone();
        stores.into_values().collect()
    }

    fn set_cut(&self, machines: impl IntoIterator<Item = MachineId>) {
        *self.cut.lock().expect("nobody panics with it") = machines.into_iter().collect();
    }
}

fn disks() -> Vec<SimDisk> {
    (1..=3).map(SimDisk::new).collect()
}

/// Three machines, the first of which has founded the group and let the others in.
fn group(disks: &[SimDisk]) -> (Arc<Hub>, Vec<Arc<RaftStore>>) {
    let hub = Arc::<Hub>::default();
    let stores = hub.start(disks);
    block_on(stores[0].found()).expect("it starts alone");
    block_on(stores[0].set_voters(MACHINES)).expect("the others are there");
    (hub, stores)
}

fn read(store: &RaftStore) -> Option<Configuration> {
    block_on(store.read()).expect("there is a majority")
}

fn swap(store: &RaftStore, new: &Configuration) -> Swapped {
    let expected = Some(ConfigurationId(new.id().0 - 1)).filter(|id| id.0 > 0);
    block_on(store.compare_and_swap(expected, new)).expect("there is a majority")
}

#[test]
fn a_store_of_the_machines_keeps_its_promises_and_comes_back_after_a_crash_of_all() {
    let disks = disks();
    let (hub, stores) = group(&disks);
    let handles: Handles = stores
        .iter()
        .map(|s| Arc::clone(s) as Arc<dyn ConfigStore>)
        .collect();
    keeps_its_promises(&handles);
    let kept = read(&stores[1]);
    // What the old ones still write is of a life that has ended.
    disks.iter().for_each(|disk| disk.crash(CrashLoss::All));
    let stores = hub.start(&disks);
    for store in &stores {
        assert_eq!(read(store), kept);
    }
    let next = joined(&kept.expect("there is one"), "after-the-crash");
    assert_eq!(swap(&stores[2], &next), Swapped::Won);
}

#[test]
fn a_machine_that_was_cut_off_never_reads_what_is_past() {
    let disks = disks();
    let (hub, stores) = group(&disks);
    let mut current = founded(1, "first");
    assert_eq!(swap(&stores[0], &current), Swapped::Won);
    for (n, alone) in MACHINES.into_iter().enumerate() {
        // Whoever led, it leads alone in one of the rounds, and thinks for a while that it leads.
        hub.set_cut([alone]);
        let asked = {
            let store = Arc::clone(&stores[n]);
            std::thread::spawn(move || read(&store))
        };
        let next = joined(&current, &format!("without-{alone}"));
        assert_eq!(swap(&stores[(n + 1) % 3], &next), Swapped::Won);
        hub.set_cut([]);
        let asked = asked.join().expect("it is answered once the wire is whole");
        assert!(asked == Some(current) || asked.as_ref() == Some(&next));
        assert_eq!(read(&stores[n]).as_ref(), Some(&next));
        current = next;
    }
}

#[test]
fn a_machine_that_comes_late_is_told_what_the_log_has_forgotten() {
    let disks = disks();
    let hub = Arc::<Hub>::default();
    let stores = hub.start(&disks);
    block_on(stores[0].found()).expect("it starts alone");
    block_on(stores[0].found()).expect("to found it twice changes nothing");
    let mut current = founded(1, "first");
    assert_eq!(swap(&stores[0], &current), Swapped::Won);
    for n in 0..40 {
        current = joined(&current, &format!("host-{n}"));
        assert_eq!(swap(&stores[0], &current), Swapped::Won);
    }
    block_on(stores[0].set_voters(MACHINES)).expect("the others are there");
    hub.set_cut([MachineId(1)]);
    assert_eq!(read(&stores[1]), Some(current.clone()));
    assert_eq!(read(&stores[2]), Some(current));
}

#[test]
fn a_swap_whose_answer_is_lost_is_told_that_it_has_won() {
    let disks = disks();
    let (hub, stores) = group(&disks);
    let mut current = founded(1, "first");
    assert_eq!(swap(&stores[0], &current), Swapped::Won);
    hub.to_lose.store(1, Ordering::SeqCst);
    for (n, store) in stores.iter().enumerate() {
        let next = joined(&current, &format!("{n}"));
        assert_eq!(swap(store, &next), Swapped::Won);
        assert_eq!(
            swap(store, &next),
            Swapped::Lost,
            "another swap of the same configuration"
        );
        current = next;
    }
    assert_eq!(
        hub.to_lose.load(Ordering::SeqCst),
        0,
        "two of three do not lead"
    );
    assert_eq!(read(&stores[0]), Some(current));
}

#[test]
fn without_a_group_the_store_is_unreachable() {
    let (hub, machine) = (Weak::new(), MachineId(1));
    let wire = Arc::new(Wire { hub, from: machine });
    let patience = Duration::from_millis(20);
    let store = RaftStore::open(machine, None, wire, Random::new(1), patience).unwrap();
    assert!(matches!(
        block_on(store.read()),
        Err(StoreError::Unreachable(_))
    ));
    let first = founded(1, "first");
    let swapped = block_on(store.compare_and_swap(None, &first));
    assert!(matches!(swapped, Err(StoreError::Unreachable(_))));
    assert!(
        block_on(store.serve(b"garbage")).is_ok(),
        "and it is answered"
    );
}

#[test]
fn a_damaged_file_refuses_to_open() {
    let disks = disks();
    let (_hub, stores) = group(&disks);
    assert_eq!(swap(&stores[0], &founded(1, "first")), Swapped::Won);
    for disk in &disks {
        // Two of three are enough to win; the last may write later.
        let mut written = None;
        for _ in 0..10_000 {
            written = disk.bytes("RAFT");
            if written.is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let len = written.expect("it is there").len() as u64;
        for byte in (0..len).step_by(7) {
            let copy = disk.fork();
            copy.flip(
                "RAFT",
                byte.min(copy.bytes("RAFT").map_or(0, |b| b.len() as u64 - 1)),
                4,
            );
            let wire = Wire {
                hub: Weak::new(),
                from: MachineId(1),
            };
            let (disk, wire) = (Arc::new(copy), Arc::new(wire));
            let opened =
                RaftStore::open(MachineId(1), Some(disk), wire, Random::new(1), PATIENCE).err();
            assert!(
                matches!(opened, Some(StoreError::Damaged { .. })),
                "{opened:?}"
            );
        }
    }
}
