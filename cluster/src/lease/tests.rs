//! Each rule of leases alone, and clusters under faulty networks and clocks.

mod world;

use std::time::Duration;

use fencepost_fabric::MachineId;
use proptest::prelude::*;

use super::*;
use crate::configuration::Configuration;
use crate::testing;

const CM: MachineId = MachineId(1);
const M2: MachineId = MachineId(2);
const MS: u64 = 1_000_000;

proptest! {
    #[test]
    fn no_lease_outlives_its_grant_under_any_delay_or_drift(seed: u64) {
        world::World::new(seed).run();
    }

    #[test]
    fn garbage_is_refused_without_panic(bytes: Vec<u8>, mut words: [u8; 32]) {
        let _ = LeaseMessage::from_bytes(&bytes);
        // Mostly a valid kind.
        (words[28], words[29], words[30], words[31]) = (words[28] % 5, 0, 0, 0);
        if let Ok(read) = LeaseMessage::from_bytes(&words) {
            prop_assert_eq!(read.to_bytes(), words, "the message is decoded unchanged");
        }
    }

    #[test]
    fn messages_survive_the_wire(configuration: u64, number: u64, granted: u64, duration_us: u32) {
        let bodies = [
            LeaseBody::Request { number, duration_us },
            LeaseBody::GrantAndRequest { granted, duration_us, number },
            LeaseBody::Grant { granted, duration_us },
        ];
        for body in bodies {
            let message = LeaseMessage { configuration: ConfigurationId(configuration), body };
            prop_assert_eq!(LeaseMessage::from_bytes(&message.to_bytes()), Ok(message));
        }
    }
}

#[test]
fn leases_are_to_be_had_even_so() {
    let held: u64 = (0..20).map(|seed| world::World::new(seed).run()).sum();
    assert!(held > 20 * 100, "{held}");
}

fn terms() -> LeaseTerms {
    LeaseTerms::new(Duration::from_millis(10), 1000).unwrap()
}

fn leases(me: MachineId, configuration: &Configuration) -> Leases {
    Leases::new(me, configuration, terms(), 100 * u64::from(me.0), 0)
}

/// Returns the message that a machine sends without being asked.
fn sent(leases: &mut Leases, now: u64) -> LeaseMessage {
    match leases.poll(now) {
        Some(LeaseStep::Send(_, message)) => message,
        other => panic!("{other:?}"),
    }
}

/// Exchanges all three messages without delay.
fn exchange_leases(cm: &mut Leases, machine: &mut Leases, id: MachineId, now: u64) {
    exchange_leases_with((CM, cm), (id, machine), now);
}

fn exchange_leases_with(
    (cm_id, cm): (MachineId, &mut Leases),
    (id, machine): (MachineId, &mut Leases),
    now: u64,
) {
    let request = sent(machine, now);
    let answer = cm.receive(now, id, request).answer.unwrap();
    let grant = machine.receive(now, cm_id, answer).answer.unwrap();
    assert_eq!(cm.receive(now, id, grant), LeaseResult::default());
}

fn granted(message: LeaseMessage) -> Option<u64> {
    match message.body {
        LeaseBody::Grant { granted, .. } | LeaseBody::GrantAndRequest { granted, .. } => {
            Some(granted)
        }
        LeaseBody::Request { .. } => None,
    }
}

#[test]
fn terms_are_neither_too_short_nor_beyond_bearing() {
    let new = |ms, ppm| LeaseTerms::new(Duration::from_millis(ms), ppm);
    assert!(new(5, 200).is_some() && new(4, 200).is_none());
    assert!(new(3_600_000, 0).is_some() && new(3_600_001, 0).is_none());
    assert!(new(5, 100_000).is_some() && new(5, 100_001).is_none());
    assert_eq!(terms().renewal_ns(), 2 * MS);
    assert_eq!(terms().held_ns(10 * MS), 10 * MS - 10_000);
    assert_eq!(
        terms().held_ns(u64::MAX),
        10 * MS - 10_000,
        "nothing is longer"
    );
    assert_eq!(terms().expired_ns(), 10 * MS + 10_000);
}

#[test]
fn three_way_handshake_grants_leases_from_request_time() {
    let two = testing::machines(2);
    let (mut cm, mut machine) = (leases(CM, &two), leases(M2, &two));
    let request = sent(&mut machine, 0);
    assert_eq!(granted(request), None);
    assert!(
        machine.poll(0).is_none(),
        "once every fifth of the duration"
    );
    assert_eq!(machine.next_wake(), 2 * MS);
    // The CM holds no lease yet, so it can only request one.
    let asks = cm.receive(MS, M2, request).answer.unwrap();
    assert_eq!(granted(asks), None);
    let grants = machine.receive(2 * MS, CM, asks).answer.unwrap();
    assert!(!cm.holds(2 * MS) && !machine.holds(2 * MS));
    cm.receive(3 * MS, M2, grants);
    let until = MS + 10 * MS - 10_000;
    assert_eq!(cm.held_until(), until, "from when the CM sent its request");
    let late = sent(&mut cm, 3 * MS);
    assert_eq!(granted(late), Some(200));
    assert!(cm.poll(3 * MS).is_none());
    machine.receive(4 * MS, CM, late);
    assert!(
        machine.holds(4 * MS) && machine.held_until() < until,
        "LEASE-2"
    );
    // 8 ms less 10 µs remain of the CM's own lease, and the request was sent at 0. Both clocks may
    // drift.
    assert_eq!(machine.held_until(), 7_982_000 - 7_982);
    assert!(!machine.holds(machine.held_until()));
}

#[test]
fn silent_machine_is_suspected_once_and_may_return() {
    let two = testing::machines(2);
    let (mut cm, mut machine) = (leases(CM, &two), leases(M2, &two));
    assert_eq!(
        cm.next_wake(),
        u64::MAX,
        "no machine is watched before its first message"
    );
    exchange_leases(&mut cm, &mut machine, M2, 0);
    let end = terms().expired_ns();
    assert_eq!(cm.next_wake(), end);
    while cm.poll(end - 1).is_some() {}
    let expired = Some(LeaseStep::Event(LeaseEvent::Expired(M2)));
    assert_eq!(cm.poll(end), expired);
    assert_eq!(cm.poll(end), None);
    let renewal = sent(&mut machine, end);
    let returned = cm.receive(end, M2, renewal);
    assert_eq!(returned.event, Some(LeaseEvent::Returned(M2)));
    let counts = LeaseCounts {
        suspicions: 1,
        false_suspicions: 1,
    };
    assert_eq!(cm.counts(), counts);
    while cm.poll(2 * end - 1).is_some() {}
    assert_eq!(cm.poll(2 * end), expired, "and be suspected again");
}

#[test]
fn machine_suspects_silent_cm() {
    let two = testing::machines(2);
    let mut machine = leases(M2, &two);
    let end = terms().expired_ns();
    let mut steps = Vec::new();
    for now in [0, end - 1, end] {
        while let Some(step) = machine.poll(now) {
            if let LeaseStep::Event(event) = step {
                steps.push((now, event));
            }
        }
    }
    assert_eq!(steps, [(end, LeaseEvent::Expired(CM))]);
}

#[test]
fn suspicion_is_repeated_in_next_configuration() {
    let three = testing::machines(3);
    let (mut cm, mut machine) = (leases(CM, &three), leases(M2, &three));
    exchange_leases(&mut cm, &mut machine, M2, 0);
    let end = terms().expired_ns();
    let expiries = |leases: &mut Leases, now| {
        let mut count = 0;
        while let Some(step) = leases.poll(now) {
            count += usize::from(matches!(step, LeaseStep::Event(LeaseEvent::Expired(_))));
        }
        count
    };
    assert_eq!(
        (expiries(&mut cm, end), expiries(&mut machine, end)),
        (1, 1)
    );
    let next = three.without(&[MachineId(3)].into(), CM).unwrap();
    let apply = LeaseOrder::Apply {
        configuration: next,
        old_until: None,
    };
    machine.obey(apply.clone(), end);
    cm.obey(apply, end);
    assert_eq!(
        (expiries(&mut cm, end), expiries(&mut machine, end)),
        (0, 0)
    );
    cm.obey(LeaseOrder::Watch { machine: M2 }, end);
    assert_eq!(
        (expiries(&mut cm, 2 * end), expiries(&mut machine, 2 * end)),
        (1, 1)
    );
}

#[test]
fn late_and_doubled_messages_lengthen_nothing() {
    let two = testing::machines(2);
    let (mut cm, mut machine) = (leases(CM, &two), leases(M2, &two));
    exchange_leases(&mut cm, &mut machine, M2, 0);
    let first = sent(&mut machine, 2 * MS);
    let second = sent(&mut machine, 4 * MS);
    let answer = cm.receive(5 * MS, M2, second).answer.unwrap();
    let until = cm.next_wake();
    assert_eq!(
        cm.receive(6 * MS, M2, first),
        LeaseResult::default(),
        "overtaken"
    );
    assert_eq!(
        cm.receive(6 * MS, M2, second),
        LeaseResult::default(),
        "doubled"
    );
    assert_eq!(cm.next_wake(), until);
    assert!(machine.receive(7 * MS, CM, answer).answer.is_some());
    let held = machine.held_until();
    assert_eq!(machine.receive(9 * MS, CM, answer).answer, None, "doubled");
    assert_eq!(machine.held_until(), held);
}

#[test]
fn restarted_machine_gets_nothing_for_former_lease() {
    let two = testing::machines(2);
    let (mut cm, mut machine) = (leases(CM, &two), leases(M2, &two));
    exchange_leases(&mut cm, &mut machine, M2, 0);
    let mut again = Leases::new(M2, &two, terms(), 0x7777_0000_0000_0000, MS);
    let request = sent(&mut again, MS);
    assert_eq!(cm.receive(MS, M2, request), LeaseResult::default());
    assert_eq!(cm.next_wake(), terms().expired_ns());
}

#[test]
fn other_terms_get_nothing() {
    let two = testing::machines(2);
    let mut cm = leases(CM, &two);
    let other = LeaseTerms::new(Duration::from_millis(11), 1000).unwrap();
    let mut machine = Leases::new(M2, &two, other, 0, 0);
    let request = sent(&mut machine, 0);
    assert_eq!(cm.receive(0, M2, request), LeaseResult::default());
}

#[test]
fn cm_lease_needs_grants_of_majority() {
    let one = testing::machines(1);
    assert!(leases(CM, &one).holds(u64::MAX - 1));
    let five = testing::machines(5);
    let mut cm = leases(CM, &five);
    for (count, id) in (1..).zip([2, 3, 4].map(MachineId)) {
        let mut machine = leases(id, &five);
        exchange_leases(&mut cm, &mut machine, id, 0);
        assert_eq!(cm.holds(0), count >= 2);
    }
    let narrow = LeaseOrder::Narrow {
        left_out: [2, 3].map(MachineId).to_vec(),
        need: 3,
    };
    cm.obey(narrow, 0);
    assert!(
        !cm.holds(0),
        "a grant of a possibly evicted machine does not count"
    );
    let mut out = leases(M2, &five);
    let request = sent(&mut out, 0);
    assert_eq!(cm.receive(0, M2, request), LeaseResult::default());
}

#[test]
fn machine_that_promised_grants_no_lease_to_old_cm() {
    let three = testing::machines(3);
    let (mut cm, mut machine) = (leases(CM, &three), leases(M2, &three));
    let to = MachineId(3);
    machine.obey(LeaseOrder::Promise { to: CM }, 0);
    exchange_leases(&mut cm, &mut machine, M2, 0);
    machine.obey(LeaseOrder::Promise { to }, 0);
    machine.obey(LeaseOrder::Promise { to: CM }, 0);
    let request = sent(&mut machine, 2 * MS);
    let answer = cm.receive(2 * MS, M2, request).answer.unwrap();
    assert_eq!(machine.receive(2 * MS, CM, answer).answer, None);
    assert!(machine.holds(2 * MS), "it takes what it gets");
    let configuration = three.without(&[].into(), CM).unwrap();
    let apply = LeaseOrder::Apply {
        configuration,
        old_until: None,
    };
    machine.obey(apply, 3 * MS);
    let request = sent(&mut machine, 4 * MS);
    let answer = cm.receive(4 * MS, M2, request);
    assert_eq!(
        answer.event,
        Some(LeaseEvent::Newer(M2, ConfigurationId(4)))
    );
    let grant = machine.receive(4 * MS, CM, answer.answer.unwrap());
    assert!(
        grant.answer.is_some(),
        "the next configuration is another matter"
    );
}

#[test]
fn outsiders_are_distinguished_from_newer_configurations() {
    let three = testing::machines(3);
    let mut cm = leases(CM, &three);
    let body = LeaseBody::Request {
        number: 1,
        duration_us: 10_000,
    };
    let mut hear = |id| {
        let configuration = ConfigurationId(id);
        let message = LeaseMessage {
            configuration,
            body,
        };
        cm.receive(0, MachineId(9), message).event
    };
    assert_eq!(hear(2), Some(LeaseEvent::Outdated(MachineId(9))));
    assert_eq!(hear(3), None);
    let newer = LeaseEvent::Newer(MachineId(9), ConfigurationId(4));
    assert_eq!(hear(4), Some(newer));
}

#[test]
fn evicted_machine_holds_no_lease_and_sends_nothing() {
    let two = testing::machines(2);
    let (mut cm, mut machine) = (leases(CM, &two), leases(M2, &two));
    exchange_leases(&mut cm, &mut machine, M2, 0);
    exchange_leases(&mut cm, &mut machine, M2, 2 * MS);
    assert!(machine.holds(3 * MS));
    machine.obey(LeaseOrder::Stop, 3 * MS);
    assert!(!machine.holds(3 * MS) && machine.poll(90 * MS).is_none());
    assert_eq!(machine.next_wake(), u64::MAX);
    let request = sent(&mut leases(M2, &two), 0);
    assert_eq!(machine.receive(3 * MS, CM, request), LeaseResult::default());
}

#[test]
fn old_leases_run_out_before_a_new_configuration_is_committed() {
    let three = testing::machines(3);
    let (mut cm, mut machine) = (leases(CM, &three), leases(M2, &three));
    exchange_leases(&mut cm, &mut machine, M2, 0);
    exchange_leases(&mut cm, &mut machine, M2, 2 * MS);
    let next = three.without(&[M2].into(), CM).unwrap();
    let apply = |leases: &mut Leases, configuration: &Configuration, until| {
        let configuration = configuration.clone();
        let old_until = Some(until);
        let order = LeaseOrder::Apply {
            configuration,
            old_until,
        };
        leases.obey(order, 4 * MS);
        leases.obey(LeaseOrder::AwaitOld, 4 * MS);
    };
    // A CM that stays knows the leases that it granted.
    let mut third = leases(MachineId(3), &three);
    apply(&mut third, &next, 3 * MS);
    apply(&mut cm, &next, 3 * MS);
    let end = 2 * MS + terms().expired_ns();
    exchange_leases(&mut cm, &mut third, MachineId(3), 4 * MS);
    exchange_leases(&mut cm, &mut third, MachineId(3), 10 * MS);
    assert_eq!((cm.next_wake(), cm.poll(end - 1)), (end, None));
    let over = |id| Some(LeaseStep::Event(LeaseEvent::OldRunOut(ConfigurationId(id))));
    assert_eq!((cm.poll(end), cm.poll(end)), (over(4), None));
    // A new CM is told when the leases of its predecessor expire.
    let mut third = leases(MachineId(3), &three);
    let next = three.without(&[CM].into(), MachineId(3)).unwrap();
    let end = 3 * MS + terms().expired_ns();
    apply(&mut third, &next, end);
    assert_eq!(third.poll(end), None, "it has no lease itself");
    assert_eq!(third.next_wake(), u64::MAX, "and gets one by a message");
    let mut machine = leases(M2, &three);
    apply(&mut machine, &next, end);
    let both = (&mut third, &mut machine);
    exchange_leases_with((MachineId(3), both.0), (M2, both.1), 10 * MS);
    assert_eq!(granted(sent(&mut third, 10 * MS)), Some(200));
    assert_eq!((third.poll(end - 1), third.poll(end)), (None, over(4)));
}

#[test]
fn probe_answer_states_remaining_lease_of_cm() {
    let three = testing::machines(3);
    let (mut cm, mut machine) = (leases(CM, &three), leases(M2, &three));
    let (id, lease, whole) = (three.id(), terms().expired_ns(), terms().whole_ns());
    assert_eq!(
        machine.granted_ns(id, 0),
        terms().lengthened(lease),
        "the CM may have counted on others before"
    );
    let later = 3 * lease;
    exchange_leases(&mut cm, &mut machine, M2, later);
    machine.obey(LeaseOrder::Promise { to: M2 }, later + MS);
    let left = |machine: &Leases, now| machine.granted_ns(id, now);
    assert_eq!(left(&machine, later), terms().lengthened(lease));
    assert_eq!(
        left(&machine, later + lease - MS),
        terms().lengthened(MS),
        "less with every moment"
    );
    assert_eq!(left(&machine, later + lease), 0);
    let unknown = machine.granted_ns(id.next(), later + lease);
    assert_eq!(unknown, whole, "the grantors of the CM are unknown");
    let configuration = three.without(&[CM].into(), MachineId(3)).unwrap();
    let apply = LeaseOrder::Apply {
        configuration,
        old_until: None,
    };
    let mut heir = leases(MachineId(3), &three);
    let now = later + lease;
    for leases in [&mut machine, &mut heir] {
        leases.obey(apply.clone(), now);
        assert_eq!(leases.granted_ns(id.next(), now), terms().lengthened(lease));
        assert_eq!(leases.granted_ns(id, now), whole);
    }
}

#[test]
fn paused_machine_suspects_no_peer_at_first() {
    fn suspects(leases: &mut Leases, now: u64) -> bool {
        std::iter::from_fn(|| leases.poll(now)).any(|step| matches!(step, LeaseStep::Event(_)))
    }
    let configuration = testing::machines(3);
    let mut cm = leases(CM, &configuration);
    let mut machine = leases(M2, &configuration);
    exchange_leases(&mut cm, &mut machine, M2, 0);
    // Both machines paused for longer than a lease.
    let now = 25 * MS;
    machine.excuse(now + 5 * MS);
    assert_eq!(
        machine.next_wake(),
        2 * MS,
        "its renewal is due all the same"
    );
    assert!(!machine.holds(now), "leases are no longer for that");
    sent(&mut machine, now);
    assert!(!suspects(&mut machine, now));
    assert_eq!(machine.next_wake(), now + 2 * MS);
    // The CM only paused, too: no lease counts as expired.
    cm.excuse(now + 5 * MS);
    assert!(!suspects(&mut cm, now + MS));
    exchange_leases(&mut cm, &mut machine, M2, now + 2 * MS);
    assert!(!suspects(&mut cm, now + 6 * MS));
    assert_eq!(machine.counts(), LeaseCounts::default());
    // The other machine does not return.
    let mut lonely = leases(CM, &configuration);
    let mut silent = leases(M2, &configuration);
    exchange_leases(&mut lonely, &mut silent, M2, 0);
    lonely.excuse(now + 5 * MS);
    assert!(!suspects(&mut lonely, now));
    assert_eq!(lonely.next_wake(), now + 5 * MS);
    let expired = Some(LeaseStep::Event(LeaseEvent::Expired(M2)));
    assert_eq!(lonely.poll(now + 5 * MS), expired);
}
