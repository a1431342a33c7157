//! Tests of leases with machines that are polled by hand and clocks that are moved by hand.

use std::time::Duration;

use fencepost_cluster::ConfigurationId;
use fencepost_fabric::{LocalNetwork, ManualClock, Member};

use super::*;

const CM: MachineId = MachineId(1);
const MS: u64 = 1_000_000;

/// Machines of one process, and the events of each.
struct World {
    clock: Arc<ManualClock>,
    fabrics: Vec<Arc<dyn Fabric>>,
    machines: Vec<LeaseService>,
    events: Vec<Arc<Mutex<Vec<LeaseEvent>>>>,
}

impl World {
    /// Creates machines `1..=count` with leases of 10 ms, which have not begun.
    fn new(count: u32) -> World {
        let network = LocalNetwork::new();
        let members: Vec<_> = (1..=count)
            .map(|id| Member {
                id: MachineId(id),
                address: String::new(),
            })
            .collect();
        let configuration = Configuration::of_process(count).expect("machines");
        let terms = LeaseTerms::new(Duration::from_millis(10), 0).expect("fair");
        let clock = Arc::new(ManualClock::new());
        let mut world = World {
            clock: Arc::clone(&clock),
            fabrics: Vec::new(),
            machines: Vec::new(),
            events: Vec::new(),
        };
        for member in &members {
            let fabric: Arc<dyn Fabric> = Arc::new(network.join(member.id).expect("new"));
            fabric.set_members(&members).expect("a member");
            let events: Arc<Mutex<Vec<_>>> = Arc::default();
            let note = Arc::clone(&events);
            let sink = Box::new(move |event| note.lock().push(event));
            let (clock, incarnation) = (Arc::clone(&clock) as _, u64::from(member.id.0) << 40);
            let leasing =
                LeaseService::new(&fabric, &configuration, terms, clock, incarnation, sink);
            world.machines.push(leasing.expect("memory"));
            world.events.push(events);
            world.fabrics.push(fabric);
        }
        world
    }

    fn begin(&self) {
        self.machines.iter().for_each(LeaseService::begin);
    }

    /// Lets milliseconds pass; after each, the machines in `who` poll often enough for all
    /// messages.
    fn pass(&self, ms: u64, who: &[usize]) {
        for _ in 0..ms {
            self.clock.advance(Duration::from_millis(1));
            for _ in 0..4 {
                for at in who {
                    self.machines[*at].poll();
                }
            }
        }
    }

    fn events(&self, at: usize) -> Vec<LeaseEvent> {
        std::mem::take(&mut self.events[at].lock())
    }
}

#[test]
fn no_lease_and_no_suspicion_before_all_machines_started() {
    let world = World::new(3);
    world.pass(3 * BOOTSTRAP_NS / MS, &[0, 1, 2]);
    assert!(world.machines.iter().all(|machine| !machine.holds()));
    // A machine that has seen all others begins, and the CM grants its lease.
    world.machines[2].begin();
    world.pass(20, &[0, 1, 2]);
    assert!(world.machines[0].holds() && world.machines[2].holds());
    assert!(!world.machines[1].holds());
    world.begin();
    world.pass(3 * BOOTSTRAP_NS / MS, &[0, 1, 2]);
    assert!(world.machines.iter().all(LeaseService::holds));
    for at in 0..3 {
        assert_eq!(world.events(at), []);
        assert!(world.machines[at].counts().renewals > 1000);
    }
}

#[test]
fn silent_initial_member_is_suspected() {
    let world = World::new(3);
    world.begin();
    world.pass(BOOTSTRAP_NS / MS + 5, &[0, 1]);
    assert_eq!(world.events(0), []);
    world.pass(10, &[0, 1]);
    assert_eq!(world.events(0), [LeaseEvent::Expired(MachineId(3))]);
    assert_eq!(world.events(1), []);
}

#[test]
fn silent_machine_is_suspected_by_cm_alone_after_lease_expiry() {
    let world = World::new(3);
    world.begin();
    world.pass(50, &[0, 1, 2]);
    for _ in 0..12 {
        world.pass(1, &[0, 1]);
        assert!(world.events[0].lock().is_empty() || !world.machines[2].holds());
    }
    assert_eq!(world.events(0), [LeaseEvent::Expired(MachineId(3))]);
    assert_eq!((world.events(1), world.events(2)), (vec![], vec![]));
    assert!(world.machines[0].holds() && world.machines[1].holds());
    // The machine polls again, and has missed nothing but time.
    world.pass(10, &[0, 1, 2]);
    assert_eq!(world.events(0), [LeaseEvent::Returned(MachineId(3))]);
    let counts = world.machines[0].counts();
    assert_eq!((counts.expired, counts.returned), (1, 1));
}

#[test]
fn silent_cm_is_suspected_by_all_machines() {
    let world = World::new(3);
    world.begin();
    world.pass(50, &[0, 1, 2]);
    world.pass(12, &[1, 2]);
    for at in [1, 2] {
        assert_eq!(world.events(at), [LeaseEvent::Expired(CM)]);
        assert!(!world.machines[at].holds());
    }
}

#[test]
fn next_wake_names_the_next_due_message() {
    let world = World::new(2);
    assert_eq!(world.machines[1].next_wake(), u64::MAX);
    world.begin();
    let machine = &world.machines[1];
    assert_eq!(machine.next_wake(), 0, "its first request");
    let next = machine.poll();
    assert_eq!((next, machine.next_wake()), (2 * MS, 2 * MS));
    let (armed, cm) = (world.fabrics[0].lease_bell().arm(), &world.machines[0]);
    assert_eq!(machine.poll(), next);
    assert_eq!(
        armed,
        world.fabrics[0].lease_bell().arm(),
        "nothing is sent"
    );
    world.clock.advance(Duration::from_nanos(next));
    machine.poll();
    assert_ne!(armed, world.fabrics[0].lease_bell().arm());
    assert_eq!(cm.poll(), 12 * MS, "when it suspects the machine");
    let armed = world.fabrics[0].lease_bell().arm();
    let watch = LeaseOrder::Watch {
        machine: MachineId(2),
    };
    cm.obey(watch).expect("no mailbox");
    assert_ne!(armed, world.fabrics[0].lease_bell().arm(), "looked again");
}

#[test]
fn mailboxes_come_and_go_with_members() {
    let world = World::new(3);
    world.begin();
    world.pass(50, &[0, 1, 2]);
    let [cm, second] = &world.machines[..2] else {
        unreachable!("three machines")
    };
    let now = cm.state.lock().configuration.clone();
    let without = now
        .without(&[MachineId(3)].into(), CM)
        .expect("a majority is left");
    let apply = |configuration: &Configuration| LeaseOrder::Apply {
        configuration: configuration.clone(),
        old_until: None,
    };
    for machine in [cm, second] {
        machine.obey(apply(&without)).expect("memory");
        let watch = LeaseOrder::Watch {
            machine: MachineId(2),
        };
        machine.obey(watch).expect("no mailbox");
        assert_eq!(machine.state.lock().mailboxes.len(), 1);
    }
    world.pass(50, &[0, 1, 2]);
    assert!(cm.holds() && second.holds() && !world.machines[2].holds());
    assert_eq!((world.events(0), world.events(1)), (vec![], vec![]));
    assert_eq!(world.events(2), [LeaseEvent::Expired(CM)]);
    assert_eq!(without.id(), ConfigurationId(now.id().0 + 1));
}

#[test]
fn stopped_service_holds_no_lease_and_sends_nothing() {
    let world = World::new(2);
    world.begin();
    world.pass(20, &[0, 1]);
    assert!(world.machines[1].holds());
    world.machines[1].stop();
    assert!(!world.machines[1].holds());
    assert_eq!(world.machines[1].next_wake(), u64::MAX);
    world.pass(12, &[0, 1]);
    assert_eq!(world.events(0), [LeaseEvent::Expired(MachineId(2))]);
    let early = World::new(2);
    early.machines[1].stop();
    early.begin();
    early.pass(20, &[0, 1]);
    assert_eq!(early.machines[0].counts().renewals, 0);
}
