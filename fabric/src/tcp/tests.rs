use super::*;
use std::sync::atomic::Ordering;
use std::time::Instant;

pub(super) fn config(me: u32) -> TcpConfig {
    TcpConfig {
        me: MachineId(me),
        cluster: 77,
        secret: b"the secret of the tests".to_vec(),
        listen: "127.0.0.1:0".into(),
        tls: None,
        silence: None,
    }
}

pub(super) fn start(config: &TcpConfig) -> TcpFabric {
    TcpFabric::start(config).expect("a free port")
}

fn members(machines: &[&TcpFabric]) -> Vec<Member> {
    let member = |machine: &&TcpFabric| Member {
        id: machine.me(),
        address: machine.address().to_string(),
    };
    machines.iter().map(member).collect()
}

pub(super) fn join(machines: &[&TcpFabric]) {
    for machine in machines {
        let set = machine.set_members(&members(machines));
        set.expect("is one of them");
    }
}

pub(super) fn until(mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(60), "stuck");
        std::thread::yield_now();
    }
}

pub(super) fn wait<T>(mut completion: Completion<T>) -> Result<T, FabricError> {
    let mut answer = None;
    until(|| {
        answer = completion.take();
        answer.is_some()
    });
    answer.expect("until it was there")
}

pub(super) fn connected(machine: &TcpFabric, peer: &TcpFabric) -> bool {
    machine.connection(peer.me(), ORDINARY).is_ok()
}

#[test]
fn non_member_learns_the_reason() {
    let changes: [(fn(&mut TcpConfig), _); 2] = [
        (|config| config.cluster += 1, HandshakeError::OtherCluster),
        (|config| config.secret.push(1), HandshakeError::WrongSecret),
    ];
    let a = start(&config(1));
    for (change, refusal) in changes {
        let mut other = config(2);
        change(&mut other);
        let b = start(&other);
        join(&[&a, &b]);
        until(|| a.refusals() == [(b.me(), refusal.clone())]);
        until(|| b.refusals() == [(a.me(), refusal.clone())]);
        assert!(a.take_events().is_empty());
        a.set_members(&members(&[&a])).expect("is one of them");
    }
    let b = start(&config(2));
    b.set_members(&members(&[&a, &b])).expect("is one of them");
    until(|| b.refusals() == [(a.me(), HandshakeError::NotMember)]);
    a.set_members(&members(&[&a, &b])).expect("is one of them");
    until(|| b.refusals().is_empty() && connected(&b, &a));
}

#[test]
fn address_of_other_machine_is_not_accepted() {
    let (a, b) = (start(&config(1)), start(&config(2)));
    let mut wrong = members(&[&a, &b]);
    wrong[1].id = MachineId(3);
    a.set_members(&wrong).expect("is one of them");
    let refusal = (MachineId(3), HandshakeError::OtherMachine);
    until(|| a.refusals() == [refusal.clone()]);
}

#[test]
fn moved_machine_is_found_at_new_address() {
    let a = start(&config(1));
    let b = start(&config(2));
    join(&[&a, &b]);
    until(|| connected(&a, &b));
    drop(b);
    let b = start(&config(2));
    join(&[&a, &b]);
    until(|| connected(&a, &b) && connected(&b, &a));
}

#[test]
fn leases_do_not_wait_behind_anything_else() {
    let (a, b) = (start(&config(1)), start(&config(2)));
    join(&[&a, &b]);
    until(|| connected(&a, &b) && connected(&b, &a));
    let segment = |lane| SegmentId::new(SegmentId::BOARD, lane, 0);
    let at = |lane| Place {
        machine: b.me(),
        segment: segment(lane),
        word: 0,
    };
    for lane in [0, SegmentId::LEASE_LANE] {
        b.provide(segment(lane), 1, Writer::Peer(a.me()))
            .expect("provided");
    }
    // The gate of the ordinary connection is held, as by a batch that takes long.
    let mut ordinary = None;
    let from_a = b.shared.link(a.me()).expect("a member");
    from_a.hold_up(ORDINARY, || {
        let mut posted = a.write(at(0), &[1]);
        assert_eq!(wait(a.write(at(SegmentId::LEASE_LANE), &[1])), Ok(()));
        assert_eq!(posted.take(), None);
        ordinary = Some(posted);
    });
    let ordinary = ordinary.expect("was posted");
    assert_eq!(wait(ordinary), Ok(()));
}

#[test]
fn closing_fabric_ends_all_threads() {
    let a = start(&config(1));
    // This peer accepts connections and sends nothing.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let mut peers = members(&[&a]);
    peers.push(Member {
        id: MachineId(2),
        address: silent.local_addr().expect("bound").to_string(),
    });
    // This caller connects and sends nothing.
    let _silent = TcpStream::connect(a.address()).expect("listens");
    a.set_members(&peers).expect("is one of them");
    let (_called, _) = silent.accept().expect("the link calls");
    let shared = Arc::downgrade(&a.shared);
    drop(a);
    assert!(shared.upgrade().is_none(), "a thread still has it");
}

#[test]
fn operation_longer_than_frame_is_refused() {
    let (a, b) = (start(&config(1)), start(&config(2)));
    join(&[&a, &b]);
    until(|| connected(&a, &b));
    let segment = SegmentId::new(SegmentId::REGION, 0, 0);
    b.provide(segment, 2 * LONGEST, Writer::Peer(a.me()))
        .expect("provided");
    let at = Place {
        machine: b.me(),
        segment,
        word: 1,
    };
    let longest: Vec<u64> = (0..LONGEST as u64).collect();
    assert_eq!(wait(a.write(at, &longest)), Ok(()));
    assert_eq!(wait(a.read(at, LONGEST)).as_deref(), Ok(&longest[..]));
    let refused = FabricError::Refused("longer than one operation may be");
    assert_eq!(wait(a.read(at, LONGEST + 1)), Err(refused.clone()));
    assert_eq!(wait(a.write(at, &vec![0; LONGEST + 1])), Err(refused));
}

/// Returns the two addresses of a connection, the local one first.
fn ends(machine: &TcpFabric, peer: &TcpFabric, lane: usize) -> [SocketAddr; 2] {
    let connection = machine.connection(peer.me(), lane).expect("connected");
    let (own, other) = (
        connection.stream().local_addr(),
        connection.stream().peer_addr(),
    );
    [own, other].map(|address| address.expect("connected"))
}

#[test]
fn both_machines_post_to_the_same_connections() {
    let (a, b) = (start(&config(1)), start(&config(2)));
    join(&[&a, &b]);
    until(|| connected(&a, &b) && connected(&b, &a));
    for lane in [ORDINARY, LEASES] {
        let [own, other] = ends(&a, &b, lane);
        assert_eq!(ends(&b, &a, lane), [other, own]);
        assert_eq!(own, a.address(), "the greater number calls");
    }
}

#[test]
fn returning_lower_machine_is_reconnected() {
    let mut first = config(1);
    let (a, b) = (start(&first), start(&config(2)));
    join(&[&a, &b]);
    until(|| connected(&a, &b) && connected(&b, &a));
    first.listen = a.address().to_string();
    let both = members(&[&a, &b]);
    let losses = b.losses(first.me);
    assert_eq!(losses.load(Ordering::Relaxed), 0);
    drop(a);
    until(|| b.connection(first.me, ORDINARY).is_err());
    assert_eq!(losses.load(Ordering::Relaxed), 1);
    let a = start(&first);
    a.set_members(&both).expect("is one of them");
    until(|| connected(&a, &b) && connected(&b, &a));
}

#[test]
fn requests_of_both_directions_that_fill_every_buffer_are_answered() {
    const WORDS: usize = 1 << 17;
    let (a, b) = (start(&config(1)), start(&config(2)));
    join(&[&a, &b]);
    until(|| connected(&a, &b) && connected(&b, &a));
    let segment = SegmentId::new(SegmentId::REGION, 0, 0);
    let words = vec![7; WORDS];
    std::thread::scope(|scope| {
        for (from, to) in [(&a, &b), (&b, &a)] {
            to.provide(segment, WORDS, Writer::Peer(from.me()))
                .expect("provided");
            let at = Place {
                machine: to.me(),
                segment,
                word: 0,
            };
            let words = &words;
            scope.spawn(move || {
                let write = |_| (from.write(at, words), from.read(at, WORDS));
                let posted: Vec<_> = (0..60).map(write).collect();
                for (write, read) in posted {
                    assert_eq!(wait(write), Ok(()));
                    assert_eq!(wait(read).as_deref(), Ok(&words[..]));
                }
            });
        }
    });
}

#[test]
fn removing_hung_member_ends_operations_and_waiting_posters() {
    const WORDS: usize = 1 << 14;
    let (a, b) = (start(&config(1)), start(&config(2)));
    join(&[&a, &b]);
    until(|| connected(&a, &b) && connected(&b, &a));
    let segment = SegmentId::new(SegmentId::REGION, 0, 0);
    b.provide(segment, WORDS, Writer::Peer(a.me()))
        .expect("provided");
    let at = Place {
        machine: b.me(),
        segment,
        word: 0,
    };
    let from_a = b.shared.link(a.me()).expect("a member");
    let ordinary = a.connection(b.me(), ORDINARY).expect("connected");
    from_a.hold_up(ORDINARY, || {
        std::thread::scope(|scope| {
            let poster = scope.spawn(|| {
                let words = vec![7; WORDS];
                let mut posted = Vec::new();
                loop {
                    let mut write = a.write(at, &words);
                    match write.take() {
                        Some(Err(error)) => return (posted, error),
                        answer => assert_eq!(answer, None),
                    }
                    posted.push(write);
                }
            });
            // The poster has reached the limit of unwritten operations.
            until(|| ordinary.is_full());
            a.set_members(&members(&[&a])).expect("is one of them");
            let (posted, error) = poster.join().expect("no panic");
            let ends = [FabricError::Lost, FabricError::NotMember(b.me())];
            assert!(ends.contains(&error), "{error}");
            for write in posted {
                assert_eq!(wait(write), Err(FabricError::Lost));
            }
        });
    });
}

#[test]
fn connections_of_two_calls_are_no_pair() {
    let a = start(&config(1));
    // This machine never connects; the test does its part.
    let b = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let member = |id, address: std::net::SocketAddr| Member {
        id: MachineId(id),
        address: address.to_string(),
    };
    let members = [
        member(1, a.address()),
        member(2, b.local_addr().expect("it is bound")),
    ];
    a.set_members(&members).expect("is one of them");
    let link = a.shared.link(MachineId(2)).expect("it is a member");
    let mut ends = Vec::new();
    let mut stream = || {
        let stream = TcpStream::connect(b.local_addr().expect("it is bound")).expect("it listens");
        ends.push(stream.try_clone().expect("a descriptor"));
        stream.set_nonblocking(true).expect("a socket");
        stream
    };
    let peer = |lane: usize| auth::Peer {
        machine: MachineId(2),
        incarnation: 7,
        lane: lane as u8,
    };
    let admit = |lane| link.admit(&a.shared, peer(lane)).expect("it is a member");
    let mut called = |lane, call| link.called(&a.shared, (peer(lane), call), stream(), None);
    let is_up = || a.connection(MachineId(2), ORDINARY).is_ok();
    let given_up = [admit(ORDINARY), admit(LEASES)];
    let first = admit(ORDINARY);
    called(ORDINARY, first);
    called(LEASES, given_up[1]);
    called(ORDINARY, given_up[0]);
    assert!(!is_up(), "of two calls");
    let second = admit(LEASES);
    called(LEASES, second);
    until(is_up);
}
