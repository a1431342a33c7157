//! The evidence of a commit on each machine, at each of its steps.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use fencepost_cluster::ConfigurationId;
use fencepost_fabric::{Fabric, LocalNetwork, Member};
use fencepost_txn::network::{Configuration, NetworkOptions, Replication};
use fencepost_txn::recovery::{Evidence, ReplicaEvidence};
use fencepost_txn::{Addr, Machine, MachineId, MachineOptions, Mode, Outcome};

use crate::sums::{PLAIN, SUMS};
use crate::world::place;

/// Machines that only act when they are driven; the first is the coordinator.
struct DrivenMachines(Vec<Arc<Machine>>);

const REPLICAS: usize = 2;

impl DrivenMachines {
    fn new(machines: u32) -> DrivenMachines {
        let network = LocalNetwork::new();
        let member = |id| Member {
            id: MachineId(id),
            address: String::new(),
        };
        let members: Vec<Member> = (1..=machines).map(member).collect();
        let join = |member: &Member| {
            let fabric = network.join(member.id).expect("a new machine");
            fabric.set_members(&members).expect("a member");
            fabric
        };
        let fabrics: Vec<_> = members.iter().map(join).collect();
        let open = |fabric| {
            let fabric: Arc<dyn Fabric> = Arc::new(fabric);
            let network = NetworkOptions {
                driven: true,
                ..NetworkOptions::of(
                    fabric,
                    Configuration::of_process(machines).expect("machines"),
                    Replication::exactly(REPLICAS),
                )
            };
            let options = MachineOptions {
                region_bytes: 16 << 20,
                network: Some(network),
                ..MachineOptions::default()
            };
            Machine::open(options).expect("opens")
        };
        let slow = DrivenMachines(fabrics.into_iter().map(open).collect());
        for machine in &slow.0 {
            while !slow.run(machine.is_complete()) {
                slow.drive_all();
            }
        }
        slow
    }

    /// Runs a task, and drives all machines meanwhile.
    fn run<T>(&self, task: impl Future<Output = T>) -> T {
        let mut task = pin!(task);
        loop {
            if let Poll::Ready(done) = poll(task.as_mut()) {
                return done;
            }
            self.drive_all();
        }
    }

    fn drive_all(&self) -> bool {
        self.0
            .iter()
            .fold(false, |any, machine| any | machine.drive())
    }

    fn rest(&self) {
        while self.drive_all() || !Machine::are_at_rest(&self.0) {}
    }

    fn object(&self, at: usize, words: usize) -> Addr {
        let mut tx = self.0[0].coordinator().begin(Mode::ReadWrite);
        let ptr = self.run(tx.alloc(words, place(at))).expect("memory");
        tx.write_new(ptr, &vec![3; words]).expect("its own");
        self.commits(tx.commit());
        self.rest();
        ptr.addr
    }

    fn commits<E: std::fmt::Debug>(&self, commit: impl Future<Output = Result<Outcome, E>>) {
        let outcome = self.run(commit);
        assert!(matches!(outcome, Ok(Outcome::Committed(_))), "{outcome:?}");
    }

    /// Returns the evidence of a machine, by region.
    fn seen(&self, machine: usize) -> BTreeMap<u32, ReplicaEvidence> {
        let seen = self.0[machine].seen_before(ConfigurationId(u64::MAX));
        seen.into_iter().map(|seen| (seen.region, seen)).collect()
    }

    fn evidence(&self, machine: usize, region: u32) -> Evidence {
        let seen = self.seen(machine).remove(&region);
        seen.map_or(Evidence::NONE, |seen| seen.evidence)
    }

    /// Returns the machine with the backup of a region whose primary is `primary`.
    fn backup(&self, region: u32, primary: usize) -> usize {
        let mut others = (0..self.0.len()).filter(|at| *at != primary);
        let seen = |at: &usize| self.seen(*at).contains_key(&region);
        others.find(seen).expect("a backup")
    }
}

fn poll<T>(task: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    task.poll(&mut Context::from_waker(Waker::noop()))
}

fn region(addr: Addr) -> u32 {
    addr.region().0
}

#[test]
fn each_commit_step_leaves_evidence() {
    let slow = DrivenMachines::new(4);
    // An object written whole, one written in ranges, a patched, a stamped, a freed, and a new one.
    let small = slow.object(1, 3);
    let large = slow.object(1, 80);
    let patched = slow.object(2, 80);
    let stamped = slow.object(2, 6);
    let freed = slow.object(1, 3);
    let mut tx = slow.0[0].coordinator().begin(Mode::ReadWrite);
    slow.run(async {
        tx.write(small, &[7]).await.expect("there");
        tx.update(large, |image| image[70] = 5)
            .await
            .expect("there");
        let patched = tx.patch(patched, &PLAIN, &[9, 1]).await;
        assert!(matches!(patched, Ok(Ok(_))));
        let stamped = tx.patch(stamped, &SUMS, &[2, 1]).await;
        assert!(matches!(stamped, Ok(Ok(_))));
        tx.free(freed).await.expect("there");
    });
    let new = slow.run(tx.alloc(5, place(1))).expect("memory");
    tx.write_new(new, &[6; 5]).expect("its own");
    let (first, second) = (region(small), region(patched));
    assert_eq!([large, freed, new.addr].map(region), [first; 3]);
    let mut commit = pin!(tx.commit());
    assert!(poll(commit.as_mut()).is_pending());
    // LOCK has arrived, but the machine has not processed it.
    assert_eq!(slow.evidence(1, first), Evidence::NONE);
    slow.0[1].drive();
    assert_eq!(slow.evidence(1, first), Evidence::LOCK);
    assert_eq!(slow.evidence(2, second), Evidence::NONE);
    slow.0[2].drive();
    assert_eq!(slow.evidence(2, second), Evidence::LOCK);
    let locked = slow.seen(1)[&first].clone();
    let mut both = [first, second];
    both.sort_unstable();
    assert_eq!((&locked.written[..], locked.w), (&both[..], None));
    assert_eq!((locked.id.machine, locked.region), (1, first));
    let id = locked.id;
    let content = |machine: usize, region| slow.0[machine].content(id, region);
    let at_primaries = [content(1, first), content(2, second)];
    assert_eq!(content(1, second), None);
    // The replies, then COMMIT-BACKUP and COMMIT-PRIMARY.
    let Poll::Ready(outcome) = ({
        slow.0[0].drive();
        poll(commit.as_mut())
    }) else {
        panic!("it waits for more");
    };
    assert!(matches!(outcome, Ok(Outcome::Committed(_))), "{outcome:?}");
    assert_eq!(slow.evidence(1, first), Evidence::LOCK);
    for machine in &slow.0[1..] {
        machine.drive();
    }
    let committed = Evidence::LOCK.and(Evidence::COMMIT_PRIMARY);
    assert_eq!(slow.evidence(1, first), committed);
    assert_eq!(slow.evidence(2, second), committed);
    let w = slow.seen(1)[&first].w;
    for (region, primary) in [(first, 1), (second, 2)] {
        let backup = slow.backup(region, primary);
        let seen = slow.seen(backup)[&region].clone();
        assert_eq!(seen.evidence, Evidence::COMMIT_BACKUP);
        assert_eq!((&seen.written[..], seen.w), (&both[..], w));
        // The content is unchanged at the primary. It is the same at the backup, except words that
        // the primary did not know.
        let there = content(primary, region);
        assert_eq!(there, at_primaries[primary - 1]);
        let (there, at_backup) = (there.expect("locked"), content(backup, region));
        let at_backup = at_backup.expect("backed");
        assert_eq!(there.len(), at_backup.len());
        let differ = there.iter().zip(at_backup.iter()).filter(|(a, b)| a != b);
        let stamped_apart = |(there, backup): (&u64, &u64)| {
            *there == 0 && Some(*backup) == w.map(|w| w.raw()) || there >> 16 == 1
        };
        let differ: Vec<_> = differ.collect();
        let expected = if region == second { 2 } else { 0 };
        assert!(differ.iter().copied().all(stamped_apart), "{differ:?}");
        assert_eq!(differ.len(), expected, "{differ:?}");
    }
    let settled = |slow: &DrivenMachines| {
        slow.0
            .iter()
            .all(|machine| machine.seen_before(ConfigurationId(u64::MAX)).is_empty())
    };
    assert!(
        slow.0
            .iter()
            .all(|machine| machine.seen_before(ConfigurationId(0)).is_empty())
    );
    // TRUNCATE: only the memory that it was truncated is left.
    assert!(!slow.0[1..].iter().any(|machine| machine.was_truncated(id)));
    slow.rest();
    assert!(settled(&slow));
    assert!([0, 1, 2].iter().all(|at| slow.0[*at].was_truncated(id)));
    assert_eq!(content(1, first), None);
    // Remembered until all participants are known to have truncated it.
    for round in 0.. {
        let mut tx = slow.0[0].coordinator().begin(Mode::ReadWrite);
        slow.run(tx.write(small, &[round])).expect("there");
        slow.run(tx.write(stamped, &[round])).expect("there");
        slow.commits(tx.commit());
        slow.rest();
        if slow.0.iter().all(|machine| !machine.was_truncated(id)) {
            break;
        }
        assert!(round < 2000, "it is remembered for ever");
    }
}

/// The new image of a node that has moved is in LOCK-MOVED, which has not arrived yet.
#[test]
fn lock_without_values_is_no_evidence() {
    let slow = DrivenMachines::new(3);
    let node = slow.object(1, 6);
    let mut tx = slow.0[0].coordinator().begin(Mode::ReadWrite);
    let patched = slow.run(tx.patch(node, &PLAIN, &[1, 10]));
    assert!(matches!(patched, Ok(Ok(_))));
    let mut before = slow.0[2].coordinator().begin(Mode::ReadWrite);
    let patched = slow.run(before.patch(node, &PLAIN, &[1, 100]));
    assert!(matches!(patched, Ok(Ok(_))));
    slow.commits(before.commit());
    slow.rest();
    let mut commit = pin!(tx.commit());
    assert!(poll(commit.as_mut()).is_pending());
    slow.0[1].drive();
    assert_eq!(slow.seen(1), BTreeMap::new());
    slow.0[0].drive();
    let _ = poll(commit.as_mut());
    slow.0[1].drive();
    let seen = slow
        .seen(1)
        .remove(&region(node))
        .expect("LOCK-MOVED has come");
    assert!(seen.evidence.any_of(Evidence::LOCK));
    let content = slow.0[1].content(seen.id, region(node)).expect("a value");
    assert!(content.contains(&113), "{content:?}");
    slow.rest();
}

/// If one machine's log has no space, the other machines must not receive records that could commit
/// without it.
#[test]
fn large_commit_is_complete_nowhere_before_all_logs_have_space() {
    // Two records of this size exceed the space of a log.
    const WORDS: usize = 400;
    for given_up in [false, true] {
        let slow = DrivenMachines::new(4);
        let large: Vec<Addr> = (0..20).map(|_| slow.object(0, WORDS)).collect();
        let small = slow.object(1, 3);
        let mut tx = slow.0[0].coordinator().begin(Mode::ReadWrite);
        for addr in &large {
            slow.run(tx.write(*addr, &[8; WORDS])).expect("there");
        }
        slow.run(tx.write(small, &[8; 3])).expect("there");
        let (first, second) = (region(large[0]), region(small));
        let mut commit = pin!(tx.commit());
        assert!(poll(commit.as_mut()).is_pending());
        slow.0[1].drive();
        slow.0[0].drive();
        // Parts are sent until the log is full, because its machine does not process it.
        let mut outcome = Poll::Pending;
        for _ in 0..10 {
            outcome = poll(commit.as_mut());
        }
        assert!(outcome.is_pending());
        let nothing = |slow: &DrivenMachines| {
            for machine in 1..4 {
                slow.0[machine].drive();
                for region in [first, second] {
                    let evidence = slow.evidence(machine, region);
                    assert!(!evidence.any_of(Evidence::COMMIT_BACKUP), "{evidence:?}");
                }
            }
        };
        if given_up {
            while outcome.is_pending() {
                outcome = poll(commit.as_mut());
            }
            let Poll::Ready(Ok(Outcome::Aborted(_))) = outcome else {
                panic!("{outcome:?}");
            };
            nothing(&slow);
        } else {
            nothing(&slow);
            slow.commits(commit);
        }
        slow.rest();
        let mut tx = slow.0[3].coordinator().begin(Mode::ReadOnly);
        let now = if given_up { 3 } else { 8 };
        for addr in [large[0], large[19], small] {
            let read = slow.run(tx.view(addr, None, |view| view.word(0)));
            let read = read.expect("there").map(|(word, _)| word);
            assert_eq!(read, Some(now));
        }
    }
}
