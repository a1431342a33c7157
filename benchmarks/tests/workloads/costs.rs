//! The cost of a commit, counted write by write and compared with SOSP'15's P_w(f + 3). See
//! [`fencepost_benchmarks::costs`] for the rules by which machines that coincide save writes.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use fencepost_benchmarks::costs::Cluster;
use fencepost_fabric::{
    Bell, Completion, Event, Fabric, FabricCounters, FabricError, LocalFabric, LocalNetwork,
    MachineId, Member, Memory, Place, SegmentId, Writer,
};
use fencepost_txn::network::{Configuration, NetworkOptions, Replication};
use fencepost_txn::{Addr, Machine, MachineOptions, Mode, ObjectLocation, Outcome, record};
use pollster::block_on;

/// The number of writes by content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct WriteCounts {
    lock: u64,
    reply: u64,
    commit_backup: u64,
    commit_primary: u64,
    /// TRUNCATE without another record in the same write; the poller sends it when it is idle.
    truncate_alone: u64,
    /// Any other write.
    other: u64,
}

impl WriteCounts {
    /// Returns the writes of the commit protocol.
    fn protocol(&self) -> u64 {
        self.lock + self.reply + self.commit_backup + self.commit_primary
    }

    fn all(&self) -> u64 {
        self.protocol() + self.truncate_alone + self.other
    }
}

/// A fabric that inspects the written records.
struct WatchedFabric {
    fabric: LocalFabric,
    posted: Arc<Mutex<WriteCounts>>,
}

/// Returns the tags of the records in a write to a ring.
fn tags(mut words: &[u64]) -> Vec<u8> {
    let mut tags = Vec::new();
    while let Some(header) = words.first() {
        tags.push((header >> 56) as u8);
        let length = (header & ((1 << 56) - 1)) as usize;
        words = words.get(length..).unwrap_or_default();
    }
    tags
}

impl WatchedFabric {
    fn note(&self, at: Place, words: &[u64]) {
        let me = self.fabric.me().0;
        let ring = |lane| SegmentId::new(SegmentId::RING, lane, me);
        let mut posted = self.posted.lock().expect("no thread panics");
        if at.segment == ring(1) {
            posted.reply += 1;
            return;
        }
        let mut tags = tags(words);
        if at.segment != ring(0) {
            tags = vec![u8::MAX];
        }
        let only = tags.iter().all(|tag| *tag == record::TRUNCATE);
        tags.retain(|tag| *tag != record::TRUNCATE);
        match tags[..] {
            [] if only => posted.truncate_alone += 1,
            [record::LOCK] => posted.lock += 1,
            [record::COMMIT_BACKUP] => posted.commit_backup += 1,
            [record::COMMIT_PRIMARY] => posted.commit_primary += 1,
            _ => posted.other += 1,
        }
    }
}

impl Fabric for WatchedFabric {
    fn me(&self) -> MachineId {
        self.fabric.me()
    }
    fn bell(&self) -> &Bell {
        self.fabric.bell()
    }
    fn lease_bell(&self) -> &Bell {
        self.fabric.lease_bell()
    }
    fn counters(&self) -> &FabricCounters {
        self.fabric.counters()
    }
    fn provide(
        &self,
        segment: SegmentId,
        words: usize,
        writer: Writer,
    ) -> Result<Arc<Memory>, FabricError> {
        self.fabric.provide(segment, words, writer)
    }
    fn withdraw(&self, segment: SegmentId) {
        self.fabric.withdraw(segment);
    }
    fn set_members(&self, members: &[Member]) -> Result<(), FabricError> {
        self.fabric.set_members(members)
    }
    fn maps_peers(&self) -> bool {
        self.fabric.maps_peers()
    }
    fn map(&self, machine: MachineId, segment: SegmentId) -> Option<Arc<Memory>> {
        self.fabric.map(machine, segment)
    }
    fn read(&self, at: Place, words: usize) -> Completion<Box<[u64]>> {
        self.fabric.read(at, words)
    }
    fn write(&self, at: Place, words: &[u64]) -> Completion<()> {
        self.note(at, words);
        self.fabric.write(at, words)
    }
    fn cas(&self, at: Place, expected: u64, new: u64) -> Completion<u64> {
        self.fabric.cas(at, expected, new)
    }
    fn ring_bell(&self, machine: MachineId) {
        self.fabric.ring_bell(machine);
    }
    fn ring_lease_bell(&self, machine: MachineId) {
        self.fabric.ring_lease_bell(machine);
    }
    fn take_events(&self) -> Vec<Event> {
        self.fabric.take_events()
    }
}

/// Machines with one object each; the first machine is the coordinator.
struct World {
    machines: Vec<Arc<Machine>>,
    objects: Vec<Addr>,
    posted: Arc<Mutex<WriteCounts>>,
    values: AtomicU64,
}

impl World {
    fn new(count: u32, replicas: usize) -> World {
        let ids: Vec<MachineId> = (1..=count).map(MachineId).collect();
        let (network, posted) = (LocalNetwork::new(), Arc::default());
        let fabrics: Vec<Arc<dyn Fabric>> = ids
            .iter()
            .map(|id| -> Arc<dyn Fabric> {
                Arc::new(WatchedFabric {
                    fabric: network.join(*id).expect("a new machine"),
                    posted: Arc::clone(&posted),
                })
            })
            .collect();
        let member = |id: &MachineId| Member {
            id: *id,
            address: String::new(),
        };
        let members: Vec<Member> = ids.iter().map(member).collect();
        for fabric in &fabrics {
            fabric.set_members(&members).expect("a member");
        }
        let open = |fabric: Arc<dyn Fabric>| {
            let network = NetworkOptions {
                // Large enough that no freed space is reported, and no record is split at the
                // ring's end.
                log_words: 1 << 18,
                ..NetworkOptions::of(
                    fabric,
                    Configuration::of_process(count).expect("machines"),
                    Replication::exactly(replicas),
                )
            };
            let options = MachineOptions {
                region_bytes: 16 << 20,
                network: Some(network),
                ..MachineOptions::default()
            };
            Machine::open(options).expect("opens")
        };
        let machines: Vec<_> = fabrics.into_iter().map(open).collect();
        while !machines
            .iter()
            .all(|machine| block_on(machine.is_complete()))
        {
            std::thread::yield_now();
        }
        let new_object = |machine: &Arc<Machine>| {
            let mut coordinator = machine.coordinator();
            let mut tx = coordinator.begin(Mode::ReadWrite);
            let object = block_on(tx.alloc(5, ObjectLocation::Own))
                .expect("memory")
                .addr;
            let outcome = block_on(tx.commit());
            assert!(matches!(outcome, Ok(Outcome::Committed(_))), "{outcome:?}");
            object
        };
        let objects = machines.iter().map(new_object).collect();
        let world = World {
            machines,
            objects,
            posted,
            values: AtomicU64::new(1),
        };
        world.wait_until_idle();
        world
    }

    /// Waits until all work of a transaction has been done.
    fn wait_until_idle(&self) {
        while !Machine::are_at_rest(&self.machines) {
            std::thread::yield_now();
        }
    }

    fn counted(&self) -> (WriteCounts, u64) {
        let counts = self.machines.iter().map(|machine| machine.fabric_counts());
        let writes = counts.flatten().map(|counts| counts.writes).sum();
        (*self.posted.lock().expect("no thread panics"), writes)
    }

    /// Returns the cost of `transactions` consecutive transactions that each write an object on
    /// each of `primaries`.
    fn cost(&self, primaries: &[usize], transactions: u64) -> WriteCounts {
        let (before, writes_before) = self.counted();
        let mut coordinator = self.machines[0].coordinator();
        for _ in 0..transactions {
            let value = self.values.fetch_add(1, Ordering::Relaxed);
            let mut tx = coordinator.begin(Mode::ReadWrite);
            for primary in primaries {
                let object = self.objects[*primary];
                let mut words = Vec::new();
                block_on(tx.read(object, &mut words)).expect("no conflict");
                block_on(tx.write(object, &[value; 5])).expect("no conflict");
            }
            let outcome = block_on(tx.commit());
            assert!(matches!(outcome, Ok(Outcome::Committed(_))), "{outcome:?}");
        }
        self.wait_until_idle();
        let (after, writes) = self.counted();
        let cost = WriteCounts {
            lock: after.lock - before.lock,
            reply: after.reply - before.reply,
            commit_backup: after.commit_backup - before.commit_backup,
            commit_primary: after.commit_primary - before.commit_primary,
            truncate_alone: after.truncate_alone - before.truncate_alone,
            other: after.other - before.other,
        };
        // The machines' own counters must show the same writes.
        assert_eq!(cost.all(), writes - writes_before, "{cost:?}");
        cost
    }
}

#[test]
fn commit_posts_writes_counted_by_paper() {
    const TRANSACTIONS: u64 = 50;
    // The number of machines, f, the primaries, and the writes counted by hand from the rules
    // above.
    let cases: &[(u32, usize, &[usize], u64)] = &[
        // Three machines with three replicas: every machine has every region. One of a primary's
        // two backups is the coordinator's machine: P_w(f + 3) = 5, less that one.
        (3, 2, &[1], 4),
        (3, 2, &[2], 4),
        // P_w(f + 3) = 10. Each primary is the other's backup and gets a COMMIT-BACKUP of its own.
        // The second backup of each is the coordinator's machine, which costs nothing: less two.
        (3, 2, &[1, 2], 8),
        // An object on the coordinator's machine costs only COMMIT-BACKUP: two machines.
        (3, 2, &[0], 2),
        // One of them gets it in one write with the COMMIT-BACKUP for the object on machine 1.
        (3, 2, &[0, 1], 5),
        (3, 2, &[0, 1, 2], 8),
        // With enough machines no two of them coincide, and the paper's formula is exact: P_w(f +
        // 3).
        (4, 2, &[1], 5),
        (7, 2, &[1], 5),
        (7, 2, &[1, 4], 10),
        (7, 1, &[1, 3, 5], 12),
        (7, 0, &[1, 2, 3, 4], 12),
    ];
    for (machines, f, primaries, expected) in cases {
        let world = World::new(*machines, f + 1);
        let cost = world.cost(primaries, TRANSACTIONS);
        let remote = primaries.iter().filter(|primary| **primary != 0).count() as u64;
        let cluster = Cluster {
            machines: *machines as usize,
            backups: *f,
        };
        let primaries: BTreeSet<usize> = primaries.iter().copied().collect();
        let backups = cluster.backup_count(&primaries) as u64;
        assert_eq!(cluster.commit(&primaries).expected, *expected as f64);
        let each = WriteCounts {
            lock: remote * TRANSACTIONS,
            reply: remote * TRANSACTIONS,
            commit_backup: backups * TRANSACTIONS,
            commit_primary: remote * TRANSACTIONS,
            truncate_alone: cost.truncate_alone,
            other: 0,
        };
        let case = format!("{machines} machines, f = {f}, primaries {primaries:?}");
        assert_eq!(cost, each, "{case}");
        assert_eq!(cost.protocol(), expected * TRANSACTIONS, "{case}");
        // Each machine gets TRUNCATE once for each transaction, mostly in the write of another
        // record.
        let others = u64::from(machines - 1);
        assert!(cost.truncate_alone <= others * TRANSACTIONS, "{case}");
        for machine in &world.machines {
            assert_eq!(machine.compare_backups(&world.machines), [], "{case}");
        }
    }
}
