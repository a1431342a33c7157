//! Tests of the Raft store: three machines in one process, over a network that can be cut.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use fencepost_cluster::few::FewSet;
use fencepost_cluster::join::{
    ClusterSecret, DurableData, JoinEndpoint, JoinMessage, JoinRefusal, JoinRequest,
    PROTOCOL_VERSION,
};
use fencepost_cluster::{
    Address, ClusterId, ConfigStore, Configuration, ConfigurationId, FailureDomain, MachineId,
    RaftMember, RaftOutsider, RaftPace, RaftStore, RaftTransport, StoreError, SwapOutcome,
};
use fencepost_fabric::{CrashLoss, Disk, Random, SimDisk};
use pollster::block_on;

use super::conformance::{Handles, check_store_invariants, founded, joined};

const PACE: RaftPace = RaftPace {
    heartbeat: Duration::from_millis(100),
    patience: Duration::from_secs(60),
};
const MACHINES: [MachineId; 3] = [MachineId(1), MachineId(2), MachineId(3)];

/// The network between the machines.
#[derive(Debug, Default)]
struct TestNetwork {
    stores: Mutex<BTreeMap<MachineId, Arc<RaftStore>>>,
    cut: Mutex<BTreeSet<MachineId>>,
    /// The number of answers to swaps that are still to be lost.
    to_lose: AtomicUsize,
    /// Machines to which messages are dropped if they contain this text.
    unheard: Mutex<Option<(Vec<MachineId>, &'static str)>>,
    /// The number of dropped messages.
    missed: AtomicUsize,
}

#[derive(Debug)]
struct Wire {
    hub: Weak<TestNetwork>,
    /// The sending machine; for an outsider, a number that no machine has.
    from: MachineId,
}

impl RaftTransport for Wire {
    fn call(&self, to: &str, question: &[u8]) -> Result<Vec<u8>, StoreError> {
        let from = self.from;
        let unreachable = || StoreError::Unreachable(format!("{from} cannot reach {to}"));
        let machine = to.strip_prefix("host-").and_then(|n| n.parse().ok());
        let to = MachineId(machine.ok_or_else(unreachable)?);
        let hub = self.hub.upgrade().ok_or_else(unreachable)?;
        let store = hub.reach(from, to).ok_or_else(unreachable)?;
        let text = String::from_utf8_lossy(question);
        let unheard = hub.unheard.lock().expect("no thread panics").clone();
        if unheard.is_some_and(|(by, part)| by.contains(&to) && text.contains(part)) {
            hub.missed.fetch_add(1, Ordering::SeqCst);
            return Err(unreachable());
        }
        let answer = block_on(store.serve(question))?;
        let one_less = |n: usize| n.checked_sub(1);
        let is_swap = text.contains("\"Swap\"");
        let lose = &hub.to_lose;
        if is_swap
            && lose
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less)
                .is_ok()
        {
            return Err(unreachable());
        }
        hub.reach(from, to).map(|_| answer).ok_or_else(unreachable)
    }
}

fn member(machine: MachineId) -> RaftMember {
    RaftMember {
        incarnation: 1000 + u64::from(machine.0),
        machine,
        address: format!("host-{}", machine.0),
    }
}

impl TestNetwork {
    fn reach(&self, from: MachineId, to: MachineId) -> Option<Arc<RaftStore>> {
        let cut = self.cut.lock().expect("no thread panics");
        if cut.contains(&from) || cut.contains(&to) {
            return None;
        }
        let stores = self.stores.lock().expect("no thread panics");
        stores.get(&to).cloned()
    }

    fn wire(self: &Arc<Self>, from: MachineId) -> Arc<Wire> {
        let hub = Arc::downgrade(self);
        Arc::new(Wire { hub, from })
    }

    /// Starts a machine, in place of an earlier one with the same id.
    fn open(self: &Arc<Self>, me: RaftMember, disk: Option<Arc<dyn Disk>>) -> Arc<RaftStore> {
        let (machine, others) = (me.machine, MACHINES.map(|m| member(m).address).to_vec());
        let (wire, random) = (self.wire(machine), Random::from_entropy());
        let store = RaftStore::open(me, others, disk, wire, PACE, random);
        let store = Arc::new(store.expect("the disk is well"));
        let mut stores = self.stores.lock().expect("no thread panics");
        stores.insert(machine, Arc::clone(&store));
        store
    }

    /// Starts the machines with the content of their disks.
    fn start(self: &Arc<Self>, disks: &[SimDisk]) -> Vec<Arc<RaftStore>> {
        let disk = |disk: &SimDisk| Some(Arc::new(disk.boot()) as Arc<dyn Disk>);
        let all = MACHINES.into_iter().zip(disks);
        all.map(|(machine, on)| self.open(member(machine), disk(on)))
            .collect()
    }

    /// Starts machines without disks, whose group follows the configuration.
    fn open_followers<const N: usize>(
        self: &Arc<Self>,
        machines: [MachineId; N],
    ) -> [Arc<RaftStore>; N] {
        machines.map(|machine| {
            let store = self.open(member(machine), None);
            store.follow_configurations();
            store
        })
    }

    fn set_unheard(&self, by: &[MachineId], part: &'static str) {
        *self.unheard.lock().expect("no thread panics") = Some((by.to_vec(), part));
    }

    fn all_is_heard(&self) {
        *self.unheard.lock().expect("no thread panics") = None;
    }

    fn set_cut(&self, machines: impl IntoIterator<Item = MachineId>) {
        *self.cut.lock().expect("no thread panics") = machines.into_iter().collect();
    }

    /// Ends a machine.
    fn kill(&self, machine: MachineId) {
        let mut stores = self.stores.lock().expect("no thread panics");
        stores.remove(&machine);
    }
}

fn disks() -> Vec<SimDisk> {
    (1..=3).map(SimDisk::new).collect()
}

/// Starts three machines as a group.
fn group(disks: &[SimDisk]) -> (Arc<TestNetwork>, Vec<Arc<RaftStore>>) {
    let hub = Arc::<TestNetwork>::default();
    let stores = hub.start(disks);
    let all = MACHINES.map(member).to_vec();
    block_on(stores[0].found(all)).expect("there is none");
    (hub, stores)
}

fn read(store: &RaftStore) -> Option<Configuration> {
    block_on(store.read()).expect("there is a majority")
}

fn swap(store: &RaftStore, new: &Configuration) -> SwapOutcome {
    let expected = Some(ConfigurationId(new.id().0 - 1)).filter(|id| id.0 > 0);
    block_on(store.compare_and_swap(expected, new)).expect("there is a majority")
}

#[test]
fn raft_store_keeps_invariants_and_survives_crash_of_all() {
    let disks = disks();
    let (hub, stores) = group(&disks);
    let handles: Handles = stores
        .iter()
        .map(|s| Arc::clone(s) as Arc<dyn ConfigStore>)
        .collect();
    check_store_invariants(&handles);
    let kept = read(&stores[1]);
    // Writes of the previous incarnation after the crash are ignored.
    disks.iter().for_each(|disk| disk.crash(CrashLoss::All));
    let stores = hub.start(&disks);
    for store in &stores {
        assert_eq!(read(store), kept);
    }
    let next = joined(&kept.expect("there is one"), "after-the-crash");
    assert_eq!(swap(&stores[2], &next), SwapOutcome::Won);
}

#[test]
fn partitioned_machine_never_reads_stale_configuration() {
    let disks = disks();
    let (hub, stores) = group(&disks);
    let mut current = founded(1, "first");
    assert_eq!(swap(&stores[0], &current), SwapOutcome::Won);
    for (n, alone) in MACHINES.into_iter().enumerate() {
        // In one of the rounds the leader is cut off, and it believes for a while that it still
        // leads.
        hub.set_cut([alone]);
        let asked = {
            let store = Arc::clone(&stores[n]);
            std::thread::spawn(move || read(&store))
        };
        let next = joined(&current, &format!("without-{alone}"));
        assert_eq!(swap(&stores[(n + 1) % 3], &next), SwapOutcome::Won);
        hub.set_cut([]);
        let asked = asked.join().expect("it is answered once the wire is whole");
        assert!(asked == Some(current) || asked.as_ref() == Some(&next));
        assert_eq!(read(&stores[n]).as_ref(), Some(&next));
        current = next;
    }
}

/// Returns the configuration of the first machines.
fn initial_configuration(machines: u32) -> Configuration {
    let place = |n: u32| {
        let address = Address::new(&format!("host-{n}")).expect("hosts are names");
        let domain = FailureDomain::new(&format!("rack-{n}")).expect("it is a name");
        (address, domain)
    };
    Configuration::of_initial_members(ClusterId(1), (1..=machines).map(place))
        .expect("they are different")
}

/// Waits until the condition is true; panics after the time limit.
fn until(mut condition: impl FnMut() -> bool) {
    let began = std::time::Instant::now();
    while !condition() {
        assert!(began.elapsed() < PACE.patience, "stuck");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn votes_of(store: &RaftStore) -> Vec<u64> {
    store.description().voters
}

#[test]
fn voters_follow_the_configuration_and_a_late_machine_catches_up() {
    let hub = Arc::<TestNetwork>::default();
    let stores = hub.open_followers(MACHINES);
    let incarnations =
        |machines: &[u32]| -> Vec<u64> { machines.iter().map(|n| 1000 + u64::from(*n)).collect() };
    block_on(stores[0].found(MACHINES.map(member).to_vec())).expect("there is none");
    block_on(stores[0].found(vec![member(MachineId(1))]))
        .expect("to found it twice changes nothing");
    let first = initial_configuration(3);
    assert_eq!(swap(&stores[1], &first), SwapOutcome::Won);
    let mut current = first;
    // An evicted machine is no longer a voter, and does not learn that.
    let without = current.without(&FewSet::from([MachineId(3)]), current.cm());
    current = without.expect("there are others");
    assert_eq!(swap(&stores[0], &current), SwapOutcome::Won);
    until(|| votes_of(&stores[0]) == incarnations(&[1, 2]));
    hub.kill(MachineId(3));
    let address = Address::new("host-4").expect("a name");
    let domain = FailureDomain::new("rack-4").expect("a name");
    let (next, machine) = current.with_machine(address, domain).expect("it is new");
    assert_eq!(machine, MachineId(4));
    assert_eq!(swap(&stores[0], &next), SwapOutcome::Won);
    current = next;
    for n in 0..20 {
        let with = joined(&current, &format!("nowhere-{n}"));
        assert_eq!(swap(&stores[n % 2], &with), SwapOutcome::Won);
        let removed = FewSet::from([with.machines().last().expect("it has machines").id]);
        current = with.without(&removed, with.cm()).expect("there are others");
        assert_eq!(swap(&stores[1 - n % 2], &current), SwapOutcome::Won);
    }
    assert_eq!(
        votes_of(&stores[0]),
        incarnations(&[1, 2]),
        "the new one has not come"
    );
    let fourth = hub.open(member(MachineId(4)), None);
    fourth.follow_configurations();
    assert_eq!(
        read(&fourth).as_ref(),
        Some(&current),
        "others know who leads"
    );
    until(|| fourth.votes());
    assert_eq!(votes_of(&fourth), incarnations(&[1, 2, 4]));
    hub.set_cut([MachineId(2)]);
    assert_eq!(read(&fourth), Some(current));
}

#[test]
fn joining_machine_is_ready_once_earlier_members_may_fail() {
    let hub = Arc::<TestNetwork>::default();
    let two = [MachineId(1), MachineId(2)];
    let stores = hub.open_followers(two);
    block_on(stores[0].found(two.map(member).to_vec())).expect("there is none");
    let first = initial_configuration(2);
    assert_eq!(swap(&stores[0], &first), SwapOutcome::Won);
    // The two machines never both receive the entry that adds a third voter, so they do not agree
    // to it.
    hub.set_unheard(&two, "[[1001,1002],[1001,1002,1003]]");
    let third = hub.open(member(MachineId(3)), None);
    let next = joined(&first, "host-3");
    assert_eq!(swap(&stores[0], &next), SwapOutcome::Won);
    until(|| votes_of(&third).contains(&1003));
    assert!(!third.votes(), "the loss of one of the two would stop it");
    hub.all_is_heard();
    until(|| third.votes());
    hub.set_cut([MachineId(1)]);
    assert_eq!(read(&third), Some(next));
}

#[test]
fn next_leader_completes_membership_change() {
    let hub = Arc::<TestNetwork>::default();
    let four = [1, 2, 3, 4].map(MachineId);
    let stores = hub.open_followers(four);
    block_on(stores[0].found(MACHINES.map(member).to_vec())).expect("there is none");
    let first = initial_configuration(3);
    assert_eq!(swap(&stores[0], &first), SwapOutcome::Won);
    // Both groups agree that the fourth machine votes, and no machine receives the entry that ends
    // the change.
    hub.set_unheard(&four, "[[1001,1002,1003,1004]]");
    assert_eq!(
        swap(&stores[0], &joined(&first, "host-4")),
        SwapOutcome::Won
    );
    until(|| hub.missed.load(Ordering::SeqCst) > 0);
    let leader = stores.iter().find_map(|store| store.leader());
    let leader = leader.expect("a store knows the leader");
    hub.set_cut([leader]);
    let others = stores.iter().zip(four).filter(|(_, me)| *me != leader);
    let others: Vec<_> = others.map(|(store, _)| store).collect();
    let heir = |store: &&Arc<RaftStore>| store.leader().is_some_and(|now| now != leader);
    until(|| others.iter().any(heir));
    assert!(!others.iter().any(|store| store.votes()), "it is not over");
    hub.all_is_heard();
    until(|| others.iter().all(|store| store.votes()));
}

#[test]
fn swap_with_lost_answer_reports_success() {
    let disks = disks();
    let (hub, stores) = group(&disks);
    let mut current = founded(1, "first");
    assert_eq!(swap(&stores[0], &current), SwapOutcome::Won);
    hub.to_lose.store(1, Ordering::SeqCst);
    for (n, store) in stores.iter().enumerate() {
        let next = joined(&current, &format!("{n}"));
        assert_eq!(swap(store, &next), SwapOutcome::Won);
        assert_eq!(
            swap(store, &next),
            SwapOutcome::Lost,
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
fn machine_without_its_votes_gets_new_node_id() {
    let hub = Arc::<TestNetwork>::default();
    let stores = MACHINES.map(|machine| hub.open(member(machine), None));
    block_on(stores[0].found(MACHINES.map(member).to_vec())).expect("there is none");
    let first = initial_configuration(3);
    assert_eq!(swap(&stores[0], &first), SwapOutcome::Won);
    // Two of three have agreed to it, and the third one may be the other.
    until(|| {
        let third = stores[2].description();
        third.configured && third.voters == [1001, 1002, 1003]
    });
    // Two of three have forgotten the group: they must not begin another one with the log of the
    // third.
    drop(stores);
    let again = |machine: u32| RaftMember {
        incarnation: 2000 + u64::from(machine),
        ..member(MachineId(machine))
    };
    let one = hub.open(again(1), None);
    let two = hub.open(again(2), None);
    std::thread::sleep(8 * PACE.heartbeat);
    for store in [&one, &two] {
        assert_eq!(
            store.description().voters,
            [0; 0],
            "no machine has told it of the group"
        );
        assert!(!store.description().configured);
    }
    let third = one.who("host-3").expect("it is there");
    assert!(third.configured && third.incarnation == 1003 && third.voters == [1001, 1002, 1003]);
}

#[test]
fn agreeing_machines_found_one_group_despite_ended_ones() {
    let hub = Arc::<TestNetwork>::default();
    let [_ended, second, third] = MACHINES.map(|machine| hub.open(member(machine), None));
    hub.kill(MachineId(1));
    let all = || MACHINES.map(member).to_vec();
    for store in [&second, &third] {
        block_on(store.found(all())).expect("it is theirs");
    }
    let next = initial_configuration(3);
    let swapped = [&third, &second].map(|store| swap(store, &next));
    assert_eq!(swapped, [SwapOutcome::Won, SwapOutcome::Lost]);
    block_on(second.found(all())).expect("there is one");
    assert_eq!(read(&second).as_ref(), Some(&next));
    // Another process of the first machine is not in the group.
    let again = RaftMember {
        incarnation: 2001,
        ..member(MachineId(1))
    };
    let again = hub.open(again, None);
    assert_eq!(read(&again), Some(next));
    assert!(!again.votes() && again.description().voters.is_empty());
}

#[test]
fn outsider_reads_through_any_member_and_is_admitted_by_the_cm() {
    let hub = Arc::<TestNetwork>::default();
    let stores = MACHINES.map(|machine| hub.open(member(machine), None));
    let addresses = MACHINES.map(|machine| member(machine).address).to_vec();
    let outsider = RaftOutsider::new(hub.wire(MachineId(9)), addresses);
    assert!(matches!(outsider.read(), Err(StoreError::Unreachable(_))));
    block_on(stores[0].found(MACHINES.map(member).to_vec())).expect("there is none");
    let first = initial_configuration(3);
    assert_eq!(swap(&stores[0], &first), SwapOutcome::Won);
    hub.set_cut([MachineId(1)]);
    let mut heard = None;
    until(|| {
        heard = outsider.read().ok().flatten();
        heard.is_some()
    });
    assert_eq!(
        heard.as_ref(),
        Some(&first),
        "the others have elected another leader"
    );
    hub.set_cut([]);
    let secret = || ClusterSecret::new(b"a secret of all of us").expect("it is long enough");
    let inside = JoinEndpoint::at(stores[0].join_messages(), secret());
    let outside = Arc::new(JoinEndpoint::at(Arc::new(outsider), secret()));
    let request = JoinRequest {
        version: PROTOCOL_VERSION,
        cluster: None,
        address: Address::new("host-4").expect("a name"),
        domain: FailureDomain::new("rack-4").expect("a name"),
        keeps: DurableData::Nothing,
    };
    let mut random = Random::new(1);
    let mut messages = Vec::new();
    let mut attempt = None;
    until(|| {
        attempt = Some(
            outside
                .begin_join(request.clone(), &mut random)
                .expect("left"),
        );
        messages = inside.requests();
        !messages.is_empty()
    });
    let (from, _) = messages[0];
    assert_eq!(messages.len(), 1);
    let why = JoinRefusal::Busy;
    let refusal = JoinMessage::Refused { why };
    inside.answer(from, &refusal);
    let answered = attempt.expect("it has knocked").hear();
    assert!(answered.is_err(), "{answered:?}");
}

#[test]
fn cm_leaves_raft_leadership_to_others() {
    let hub = Arc::<TestNetwork>::default();
    let stores = hub.open_followers(MACHINES);
    block_on(stores[0].found(MACHINES.map(member).to_vec())).expect("there is none");
    let first = initial_configuration(3);
    assert_eq!(swap(&stores[0], &first), SwapOutcome::Won);
    assert_eq!(first.cm(), MachineId(1));
    until(|| {
        stores[0]
            .leader()
            .is_some_and(|leader| leader != MachineId(1))
    });
    assert_eq!(read(&stores[0]), Some(first));
}

#[test]
fn without_a_group_the_store_is_unreachable() {
    let (hub, machine) = (Weak::new(), MachineId(1));
    let wire = Arc::new(Wire { hub, from: machine });
    let pace = RaftPace {
        patience: Duration::from_millis(20),
        ..PACE
    };
    let others = vec!["host-2".to_owned()];
    let store = RaftStore::open(member(machine), others, None, wire, pace, Random::new(1));
    let store = store.expect("nothing is wrong");
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
fn damaged_file_is_refused() {
    let disks = disks();
    let (_hub, stores) = group(&disks);
    assert_eq!(swap(&stores[0], &founded(1, "first")), SwapOutcome::Won);
    for disk in &disks {
        // A swap needs two of three; the last machine may write later.
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
            let wire = Arc::new(Wire {
                hub: Weak::new(),
                from: MachineId(1),
            });
            let me = member(MachineId(1));
            let disk: Arc<dyn Disk> = Arc::new(copy);
            let opened = RaftStore::open(me, Vec::new(), Some(disk), wire, PACE, Random::new(1));
            let opened = opened.err();
            assert!(
                matches!(opened, Some(StoreError::Damaged { .. })),
                "{opened:?}"
            );
        }
    }
}
