//! Tests of single rules of reconfiguration.

use fencepost_fabric::MachineId;

use super::node::options;
use crate::configuration::Configuration;
use crate::ids::ConfigurationId;
use crate::lease::{LeaseEvent, LeaseOrder};
use crate::reconfiguration::ReconfigurationMessage as Message;
use crate::reconfiguration::*;
use crate::region::RegionId;
use crate::store::SwapOutcome;
use crate::testing;

const MS: u64 = 1_000_000;

fn m(id: u32) -> MachineId {
    MachineId(id)
}

fn nothing() -> RegionReport {
    RegionReport {
        last_drained: ConfigurationId(3),
        held: Vec::new(),
        known: Vec::new(),
        next_region: RegionId(1),
        numbers: false,
        granted_ns: 0,
        time_ns: Some(5),
    }
}

fn machine(id: u32, configuration: &Configuration) -> Reconfiguration {
    Reconfiguration::new(m(id), configuration.clone(), options())
}

/// Returns the receivers of messages with this name.
fn sent(actions: &[Action], name: &str) -> Vec<u32> {
    let sent = actions.iter().filter_map(|action| match action {
        Action::Send(to, message) if message.name() == name => Some(to.0),
        _ => None,
    });
    sent.collect()
}

fn probe_of(actions: &[Action]) -> RegionProbe {
    let probe = actions.iter().find_map(|action| match action {
        Action::ReportRegions(probe) => Some(*probe),
        _ => None,
    });
    probe.expect("a probe")
}

fn swap_of(actions: &[Action]) -> Option<Configuration> {
    actions.iter().find_map(|action| match action {
        Action::CompareAndSwap { new, .. } => Some(new.clone()),
        _ => None,
    })
}

fn reads(actions: &[Action]) -> bool {
    actions
        .iter()
        .any(|action| matches!(action, Action::ReadStore { .. }))
}

fn commits(actions: &[Action]) -> bool {
    actions
        .iter()
        .any(|action| matches!(action, Action::Commit(_)))
}

/// Passes the answer of a member to the first probe to `of`.
fn answer(of: &mut Reconfiguration, from: u32, now: u64) -> Vec<Action> {
    let message = Message::ProbeAnswer {
        base: of.configuration().id(),
        attempt: 1,
        holdings: nothing(),
    };
    of.receive(now, m(from), message)
}

/// Returns the machines that are probed.
fn probed(actions: &[Action]) -> Vec<u32> {
    sent(actions, "PROBE")
}

#[test]
fn of_two_machines_that_have_lost_something_between_them_the_one_that_says_so_first_stays() {
    let machines = testing::machines(5);
    let [two, three] = [2, 3].map(|id| {
        let other = m(5 - id);
        machine(id, &machines).severed(0, other)
    });
    assert_eq!(
        (sent(&two, "SEVERED"), sent(&three, "SEVERED")),
        (vec![1], vec![1])
    );
    let says = |machine: u32| Message::Severed {
        configuration: machines.id(),
        machine: m(machine),
    };
    let mut cm = machine(1, &machines);
    let actions = cm.receive(0, m(2), says(3));
    assert_eq!(probed(&actions), [2, 4, 5]);
    assert!(
        cm.receive(0, m(3), says(2)).is_empty(),
        "it is suspected itself"
    );
    // Only the CM decides, and only once.
    assert!(machine(4, &machines).receive(0, m(2), says(3)).is_empty());
    let before = Message::Severed {
        configuration: ConfigurationId(machines.id().0 - 1),
        machine: m(3),
    };
    assert!(machine(1, &machines).receive(0, m(2), before).is_empty());
}

#[test]
fn machine_severed_from_cm_and_cm_replace_each_other() {
    let machines = testing::machines(5);
    assert_eq!(probed(&machine(1, &machines).severed(0, m(4))), [2, 3, 5]);
    let backup = machines.backup_cms(1)[0].0;
    let others: Vec<u32> = (2..=5).filter(|id| *id != backup).collect();
    assert_eq!(probed(&machine(backup, &machines).severed(0, m(1))), others);
    let last = *others.last().expect("others");
    let actions = machine(last, &machines).severed(0, m(1));
    assert!(sent(&actions, "SUSPECT").contains(&backup));
}

#[test]
fn no_machine_becomes_cm_without_known_time() {
    let mut cm = machine(1, &testing::machines(3));
    let actions = cm.lease_event(0, LeaseEvent::Expired(m(3)));
    let unknown = RegionReport {
        granted_ns: 0,
        time_ns: None,
        ..nothing()
    };
    cm.regions_reported(0, probe_of(&actions), unknown.clone());
    let message = Message::ProbeAnswer {
        base: cm.configuration().id(),
        attempt: 1,
        holdings: unknown,
    };
    assert!(swap_of(&cm.receive(0, m(2), message)).is_none());
}

/// Returns the CM of five machines after m5's lease has expired and all others have answered.
fn swapping() -> (Reconfiguration, Configuration) {
    let mut cm = machine(1, &testing::machines(5));
    let actions = cm.lease_event(0, LeaseEvent::Expired(m(5)));
    assert_eq!(
        sent(&actions, "PROBE"),
        [2, 3, 4],
        "all but the suspected one"
    );
    assert!(
        matches!(actions[0], Action::Block),
        "clients wait from the suspicion on"
    );
    cm.regions_reported(0, probe_of(&actions), nothing());
    answer(&mut cm, 2, 0);
    answer(&mut cm, 3, 0);
    let actions = answer(&mut cm, 4, 0);
    let new = swap_of(&actions).expect("a majority has answered");
    assert!(!new.has(m(5)) && new.machines().len() == 4 && new.cm() == m(1));
    let narrow = LeaseOrder::Narrow {
        left_out: vec![m(5)],
        need: 3,
    };
    let is_narrow = |action: &Action| matches!(action, Action::Leases(order) if *order == narrow);
    assert!(is_narrow(&actions[0]), "before the store is asked");
    (cm, new)
}

#[test]
fn reconfiguration_takes_its_steps_in_order() {
    let (mut cm, new) = swapping();
    let id = new.id();
    let mut member = machine(2, &testing::machines(5));
    let actions = cm.swapped(MS, 1, Some(SwapOutcome::Won));
    assert_eq!(sent(&actions, "NEW-CONFIG"), [2, 3, 4]);
    assert_eq!(sent(&actions, "NEWER"), [5], "the evicted machine is told");
    let message = actions.into_iter().find_map(|action| match action {
        Action::Send(MachineId(2), message) => Some(message),
        _ => None,
    });
    let message = message.unwrap();
    let actions = member.receive(MS, m(1), message.clone());
    assert!(matches!(actions[0], Action::Block));
    assert!(matches!(
        &actions[1],
        Action::Leases(LeaseOrder::Apply { .. })
    ));
    assert!(matches!(&actions[2], Action::Apply(_)));
    assert!(
        member.receive(MS, m(1), message.clone()).is_empty(),
        "it is being applied"
    );
    let acks = member.applied(2 * MS, id, Vec::new());
    assert_eq!(sent(&acks, "NEW-CONFIG-ACK"), [1]);
    let again = member.receive(2 * MS, m(1), message);
    assert_eq!(
        sent(&again, "NEW-CONFIG-ACK"),
        [1],
        "asked again, it says so again"
    );
    assert!(!member.is_committed());
    // All members must apply it, the CM included, and old leases must expire.
    let ack = || Message::NewConfigAck {
        configuration: id,
        refused: Vec::new(),
    };
    cm.receive(2 * MS, m(2), ack());
    cm.receive(2 * MS, m(3), ack());
    cm.applied(2 * MS, id, Vec::new());
    assert!(
        cm.lease_event(2 * MS, LeaseEvent::OldRunOut(id)).is_empty(),
        "one is missing"
    );
    let actions = cm.receive(2 * MS, m(4), ack());
    let awaits = |action: &Action| matches!(action, Action::Leases(LeaseOrder::AwaitOld));
    assert!(actions.iter().any(awaits) && !commits(&actions));
    let actions = cm.lease_event(3 * MS, LeaseEvent::OldRunOut(id));
    assert!(commits(&actions) && cm.is_committed());
    assert_eq!(sent(&actions, "NEW-CONFIG-COMMIT"), [2, 3, 4]);
    let commit = Message::NewConfigCommit { configuration: id };
    assert!(
        member.receive(3 * MS, m(3), commit.clone()).is_empty(),
        "not the CM"
    );
    assert!(commits(&member.receive(3 * MS, m(1), commit.clone())));
    assert!(member.receive(3 * MS, m(1), commit).is_empty(), "once");
    // Regions are active only when they are active on all machines.
    let active = Message::RegionsActive { configuration: id };
    assert_eq!(
        sent(&member.regions_active(4 * MS, id), "REGIONS-ACTIVE"),
        [1]
    );
    assert!(cm.regions_active(4 * MS, id).is_empty());
    for from in [2, 2, 3] {
        assert!(cm.receive(4 * MS, m(from), active.clone()).is_empty());
    }
    let actions = cm.receive(4 * MS, m(4), active.clone());
    assert_eq!(sent(&actions, "ALL-REGIONS-ACTIVE"), [2, 3, 4]);
    let again = cm.receive(5 * MS, m(2), active);
    assert_eq!(
        sent(&again, "ALL-REGIONS-ACTIVE"),
        [2],
        "it was lost on its way"
    );
    let all = Message::AllRegionsActive { configuration: id };
    let actions = member.receive(5 * MS, m(1), all);
    assert!(matches!(actions[..], [Action::AllRegionsActive(_)]));
}

#[test]
fn without_a_majority_nothing_is_swapped_and_all_are_asked_again() {
    let mut cm = machine(1, &testing::machines(5));
    let actions = cm.lease_event(0, LeaseEvent::Expired(m(5)));
    cm.regions_reported(0, probe_of(&actions), nothing());
    answer(&mut cm, 2, 0);
    cm.unreachable(0, m(3));
    let end = cm.next_wake();
    assert_eq!(end, options().probe_ns);
    assert_eq!(swap_of(&cm.tick(end)), None, "two of five");
    assert_eq!(swap_of(&answer(&mut cm, 4, end)), None, "too late");
    let actions = cm.tick(cm.next_wake());
    assert!(reads(&actions), "another machine may have been faster");
    let actions = cm.read(end, 1, Some(testing::machines(5)));
    assert_eq!(
        sent(&actions, "PROBE"),
        [2, 3, 4, 5],
        "a silent machine may have come back"
    );
}

#[test]
fn unknown_swap_outcome_is_read_from_store() {
    let (mut cm, new) = swapping();
    assert!(cm.swapped(0, 1, None).is_empty());
    assert!(reads(&cm.tick(cm.next_wake())));
    let again = cm.read(MS, 1, Some(testing::machines(5)));
    assert_eq!(
        swap_of(&again),
        Some(new.clone()),
        "the same swap, for the first may yet come"
    );
    assert!(reads(&cm.swapped(2 * MS, 1, Some(SwapOutcome::Lost))));
    assert!(
        cm.read(3 * MS, 1, None).is_empty(),
        "the store does not answer"
    );
    assert!(reads(&cm.tick(cm.next_wake())));
    let actions = cm.read(9 * MS, 1, Some(new));
    assert_eq!(
        sent(&actions, "NEW-CONFIG"),
        [2, 3, 4],
        "it was this machine that won"
    );
}

#[test]
fn losing_initiator_follows_and_evicted_machine_stops() {
    let five = testing::machines(5);
    let (mut cm, _) = swapping();
    assert!(reads(&cm.swapped(0, 1, Some(SwapOutcome::Lost))));
    let other = five.without(&[m(5)].into(), m(3)).unwrap();
    let actions = cm.read(MS, 1, Some(other.clone()));
    assert_eq!(sent(&actions, "ASK"), [3]);
    assert!(!cm.is_initiating() && cm.configuration().id() == five.id());
    let (mut cm, _) = swapping();
    cm.swapped(0, 1, Some(SwapOutcome::Lost));
    let without = five.without(&[m(1)].into(), m(3)).unwrap();
    let actions = cm.read(MS, 1, Some(without.clone()));
    assert!(matches!(actions[0], Action::Leases(LeaseOrder::Stop)));
    assert!(matches!(&actions[1], Action::Evicted(of) if *of == without));
    assert!(cm.is_evicted() && cm.next_wake() == u64::MAX);
    let probe = Message::Probe {
        base: five,
        attempt: 1,
    };
    assert_eq!(sent(&cm.receive(MS, m(4), probe), "NEWER"), [4]);
}

#[test]
fn suspected_cm_is_replaced_by_backups_first_then_by_all() {
    let five = testing::machines(5);
    let backups: Vec<u32> = five.backup_cms(2).iter().map(|machine| machine.0).collect();
    assert_eq!(backups, [2, 3]);
    let mut backup = machine(2, &five);
    let actions = backup.lease_event(0, LeaseEvent::Expired(m(1)));
    assert_eq!(sent(&actions, "PROBE"), [3, 4, 5]);
    let mut other = machine(4, &five);
    let actions = other.lease_event(0, LeaseEvent::Expired(m(1)));
    assert!(matches!(actions[0], Action::Block));
    assert_eq!(sent(&actions, "SUSPECT"), [2, 3]);
    assert_eq!(sent(&actions, "PROBE"), [0; 0]);
    let of = |configuration| Message::Suspect { configuration };
    let mut third = machine(3, &five);
    assert!(
        third.receive(0, m(9), of(five.id())).is_empty(),
        "no member"
    );
    let old = third.receive(0, m(4), of(ConfigurationId(4)));
    assert_eq!(sent(&old, "NEWER"), [4]);
    let actions = third.receive(0, m(4), of(five.id()));
    assert_eq!(
        sent(&actions, "PROBE"),
        [2, 4, 5],
        "at once, and not the CM"
    );
    let patience = other.next_wake();
    assert!(patience >= options().patience_ns && patience < u64::MAX);
    assert_eq!(
        sent(&other.tick(patience), "PROBE"),
        [2, 3, 5],
        "nothing has come of it"
    );
}

#[test]
fn probe_answer_promises_no_older_configuration() {
    let five = testing::machines(5);
    let mut machine = machine(4, &five);
    let probe = |base: &Configuration| Message::Probe {
        base: base.clone(),
        attempt: 7,
    };
    let next = five.without(&[m(5)].into(), m(2)).unwrap();
    // The machine learns of the next configuration from a probe that is to replace it.
    let actions = machine.receive(0, m(3), probe(&next));
    let order = actions.iter().position(
        |action| matches!(action, Action::Leases(LeaseOrder::Promise { to }) if *to == m(3)),
    );
    let is_probe = |action: &Action| matches!(action, Action::ReportRegions(_));
    let at = actions.iter().position(is_probe);
    assert!(order.is_some() && order < at, "the promise comes first");
    let answers = machine.regions_reported(0, probe_of(&actions), nothing());
    assert_eq!(sent(&answers, "PROBE-ANSWER"), [3]);
    let new_config = |configuration: &Configuration| {
        Message::NewConfig(NewConfig {
            configuration: configuration.clone(),
            moved: Vec::new(),
            given_up: Vec::new(),
            lost: Vec::new(),
            next_region: RegionId(1),
            clock: None,
        })
    };
    assert!(
        machine.receive(0, m(2), new_config(&next)).is_empty(),
        "RECONF-3"
    );
    assert_eq!(machine.configuration().id(), five.id());
    assert_eq!(sent(&machine.receive(0, m(2), probe(&five)), "NEWER"), [2]);
    let later = next.without(&[m(2)].into(), m(3)).unwrap();
    let outsider = machine.receive(0, m(1), new_config(&later));
    assert!(outsider.is_empty(), "not of its CM");
    machine.receive(0, m(3), new_config(&later));
    assert_eq!(machine.configuration(), &later);
    assert_eq!(
        machine.next_wake(),
        options().retry_ns,
        "and asks if it is not committed"
    );
}

#[test]
fn member_that_does_not_apply_is_suspected() {
    let (mut cm, _) = swapping();
    cm.swapped(0, 1, Some(SwapOutcome::Won));
    cm.applied(0, ConfigurationId(6), Vec::new());
    for from in [2, 3] {
        let ack = Message::NewConfigAck {
            configuration: ConfigurationId(6),
            refused: Vec::new(),
        };
        cm.receive(0, m(from), ack);
    }
    let again = cm.tick(cm.next_wake());
    assert_eq!(sent(&again, "NEW-CONFIG"), [4], "it may have been lost");
    let actions = cm.tick(options().ack_ns);
    assert_eq!(sent(&actions, "PROBE"), [2, 3]);
}

#[test]
fn refused_replica_is_placed_elsewhere_in_next_configuration() {
    let (mut cm, _) = swapping();
    cm.swapped(0, 1, Some(SwapOutcome::Won));
    cm.applied(0, ConfigurationId(6), Vec::new());
    let mut last = Vec::new();
    for from in [2, 3, 4] {
        let refused = RefusedReplica {
            region: RegionId(1),
            why: crate::allocation::Refusal::NoMemory,
        };
        let ack = Message::NewConfigAck {
            configuration: ConfigurationId(6),
            refused: if from == 3 { vec![refused] } else { Vec::new() },
        };
        last = cm.receive(0, m(from), ack);
    }
    assert_eq!(
        sent(&last, "PROBE"),
        [2, 3, 4],
        "no machine is suspected of a failure"
    );
    assert!(
        cm.lease_event(0, LeaseEvent::OldRunOut(ConfigurationId(6)))
            .is_empty()
    );
}

#[test]
fn machines_are_added_and_removed_by_the_same_steps() {
    let three = testing::machines(3);
    let (address, domain) = (testing::address(4), testing::domain(4));
    let mut member = machine(2, &three);
    let refused = member.add(0, address.clone(), domain.clone());
    assert!(matches!(refused, Err(ChangeRequestError::NotManager)));
    let mut cm = machine(1, &three);
    let taken = cm.add(0, testing::address(2), domain.clone());
    assert!(matches!(taken, Err(ChangeRequestError::Configuration(_))));
    let actions = cm.add(0, address.clone(), domain.clone()).unwrap();
    assert!(matches!(cm.remove(0, m(2)), Err(ChangeRequestError::Busy)));
    cm.regions_reported(0, probe_of(&actions), nothing());
    answer(&mut cm, 2, 0);
    let actions = answer(&mut cm, 3, 0);
    let new = swap_of(&actions).unwrap();
    assert_eq!(new, three.with_machine(address, domain).unwrap().0);
    let actions = cm.swapped(0, 1, Some(SwapOutcome::Won));
    assert!(matches!(actions[0], Action::Wished(true)));
    assert_eq!(sent(&actions, "NEW-CONFIG"), [2, 3, 4]);
    let mut joiner = Reconfiguration::joining(m(4), new.clone(), options(), 0);
    let ask = joiner.tick(joiner.next_wake());
    assert_eq!(sent(&ask, "ASK"), [1]);
    for (to, message) in ask.into_iter().filter_map(|action| match action {
        Action::Send(to, message) => Some((to, message)),
        _ => None,
    }) {
        assert_eq!(to, m(1));
        let answers = cm.receive(0, m(4), message);
        assert_eq!(sent(&answers, "NEW-CONFIG"), [4]);
        for answer in answers {
            if let Action::Send(_, message) = answer {
                let applies = joiner.receive(0, m(1), message);
                assert!(matches!(applies[2], Action::Apply(_)));
            }
        }
    }
    let mut cm = machine(1, &three);
    assert!(matches!(
        cm.remove(0, m(9)),
        Err(ChangeRequestError::NoSuchMachine(_))
    ));
    let actions = cm.remove(0, m(2)).unwrap();
    assert_eq!(sent(&actions, "PROBE"), [2, 3]);
    cm.regions_reported(0, probe_of(&actions), nothing());
    answer(&mut cm, 2, 0);
    let actions = answer(&mut cm, 3, 0);
    let new = swap_of(&actions).unwrap();
    assert_eq!(new, three.without(&[m(2)].into(), m(1)).unwrap());
    let mut cm = machine(1, &three);
    let actions = cm.remove(0, m(1)).unwrap();
    assert_eq!(sent(&actions, "SUSPECT"), [2], "another one has to do it");
}

#[test]
fn machine_leaves_if_enough_remain_and_loses_only_membership() {
    let two = testing::machines(2);
    let mut cm = machine(1, &two);
    let too_few = cm.leave(0, m(2));
    let refusal = ChangeRequestError::TooFew { need: 2, have: 1 };
    assert_eq!(too_few.map(drop), Err(refusal));
    let three = testing::machines(3);
    let mut member = machine(2, &three);
    assert_eq!(sent(&member.ask_to_leave(0, m(3), false), "LEAVE"), [1]);
    assert_eq!(sent(&member.ask_to_leave(0, m(3), true), "PART-WITH"), [1]);
    let mut cm = machine(1, &three);
    assert!(matches!(
        cm.leave(0, m(9)),
        Err(ChangeRequestError::Configuration(_))
    ));
    assert!(matches!(
        cm.part_with(0, m(2), m(3)),
        Err(ChangeRequestError::HasReplicas(_))
    ));
    let actions = cm.receive(0, m(2), Message::Leave { machine: m(3) });
    cm.regions_reported(0, probe_of(&actions), nothing());
    answer(&mut cm, 2, 0);
    let actions = answer(&mut cm, 3, 0);
    let new = swap_of(&actions).unwrap();
    assert_eq!(new, three.with_leaving(m(3)).unwrap());
    // The eviction of a machine lost meanwhile precedes the requested change.
    let mut cm = machine(1, &three);
    let actions = cm.leave(0, m(3)).unwrap();
    cm.regions_reported(0, probe_of(&actions), nothing());
    answer(&mut cm, 3, 0);
    let actions = cm.unreachable(0, m(2));
    let new = swap_of(&actions).unwrap();
    assert_eq!(new, three.without(&[m(2)].into(), m(1)).unwrap());
}

#[test]
fn eviction_precedes_join() {
    let three = testing::machines(3);
    let mut cm = machine(1, &three);
    let actions = cm.add(0, testing::address(4), testing::domain(4)).unwrap();
    cm.regions_reported(0, probe_of(&actions), nothing());
    answer(&mut cm, 2, 0);
    let actions = cm.unreachable(0, m(3));
    let new = swap_of(&actions).unwrap();
    assert_eq!(new, three.without(&[m(3)].into(), m(1)).unwrap());
    assert!(matches!(actions[0], Action::Wished(false)));
}

#[test]
fn outdated_machine_is_sent_newer_configuration() {
    let (mut cm, new) = swapping();
    cm.swapped(0, 1, Some(SwapOutcome::Won));
    let ask = |applied, committed| Message::Ask {
        applied: ConfigurationId(applied),
        committed,
    };
    assert_eq!(sent(&cm.receive(0, m(2), ask(5, true)), "NEW-CONFIG"), [2]);
    assert_eq!(sent(&cm.receive(0, m(5), ask(5, true)), "NEWER"), [5]);
    assert_eq!(
        sent(&cm.receive(0, m(3), ask(7, true)), "ASK"),
        [3],
        "it knows more"
    );
    cm.applied(0, new.id(), Vec::new());
    for from in [2, 3, 4] {
        let ack = Message::NewConfigAck {
            configuration: new.id(),
            refused: Vec::new(),
        };
        cm.receive(0, m(from), ack);
    }
    assert!(cm.receive(0, m(2), ask(6, false)).is_empty(), "not yet");
    cm.lease_event(0, LeaseEvent::OldRunOut(new.id()));
    assert_eq!(
        sent(&cm.receive(0, m(2), ask(6, false)), "NEW-CONFIG-COMMIT"),
        [2]
    );
    assert!(cm.receive(0, m(2), ask(6, true)).is_empty());
    let events = [
        (LeaseEvent::Newer(m(2), ConfigurationId(7)), "ASK", vec![2]),
        (LeaseEvent::Newer(m(2), ConfigurationId(6)), "ASK", vec![]),
        (LeaseEvent::Outdated(m(5)), "NEWER", vec![5]),
        (LeaseEvent::Outdated(m(2)), "NEWER", vec![]),
    ];
    for (event, name, to) in events {
        assert_eq!(sent(&cm.lease_event(0, event), name), to, "{event:?}");
    }
}
