//! Successful joins, each refusal and the state after it, and joiners without the secret.

use proptest::prelude::*;

use super::*;
use crate::codec::Wire;
use crate::configuration::{Configuration, MAX_MACHINES};
use crate::ids::ConfigurationId;
use crate::store::SwapOutcome;
use crate::testing::{address, configuration, domain, machines};
use fencepost_fabric::{MachineId, Random};

const CM: MachineId = MachineId(1);
const OUTSIDER: Outsider = Outsider(9);
const DATA: DiskData = DiskData {
    incarnation: 77,
    region_bytes: 1 << 24,
};

fn secret(word: &str) -> ClusterSecret {
    ClusterSecret::new(format!("{word} {word} {word} {word}").as_bytes()).unwrap()
}

fn request(host: u32) -> JoinRequest {
    JoinRequest {
        version: PROTOCOL_VERSION,
        cluster: None,
        address: address(host),
        domain: domain(host),
        keeps: DurableData::Nothing,
    }
}

fn admission(configuration: Configuration) -> Admission {
    Admission::new(CM, secret("right"), configuration)
}

fn nonce(byte: u8) -> Nonce {
    Nonce([byte; 32])
}

/// Sends HELLO and answers the challenge with encoded messages; returns the result of the JOIN.
fn joins(
    admission: &mut Admission,
    secret: ClusterSecret,
    request: JoinRequest,
) -> (Joiner, AdmissionAction) {
    let (mut joiner, hello) = Joiner::new(secret, request, nonce(1));
    let challenge = match admission.receive(OUTSIDER, over_the_wire(hello), nonce(2)) {
        AdmissionAction::Answer(challenge @ JoinMessage::Challenge { .. }) => {
            over_the_wire(challenge)
        }
        other => return (joiner, other),
    };
    let Progress::Send(join) = joiner.receive(challenge) else {
        panic!("a challenge is answered");
    };
    let admitted = admission.receive(OUTSIDER, over_the_wire(join), nonce(3));
    (joiner, admitted)
}

fn over_the_wire(message: JoinMessage) -> JoinMessage {
    JoinMessage::decode(&message.encode()).expect("it was encoded")
}

/// Checks that a join is refused for this reason, and that no state has changed.
fn assert_refused(
    admission: &mut Admission,
    secret_word: &str,
    request: JoinRequest,
    why: JoinRefusal,
) {
    let before = admission.configuration().clone();
    let (mut joiner, admitted) = joins(admission, secret(secret_word), request);
    let refused = JoinMessage::Refused { why: why.clone() };
    assert_eq!(admitted, AdmissionAction::Answer(refused.clone()));
    assert_eq!(
        joiner.receive(over_the_wire(refused)),
        Progress::Refused(why)
    );
    assert!(admission.is_idle());
    assert_eq!(admission.configuration(), &before);
    assert_eq!(
        admission.stored(Some(SwapOutcome::Won)),
        None,
        "nothing waits"
    );
}

/// Checks the same as [`assert_refused`], by the CM of two machines; then checks that the next
/// machine can join.
fn assert_refused_by_cm(secret_word: &str, request: JoinRequest, why: JoinRefusal) {
    let mut admission = admission(machines(2));
    assert_refused(&mut admission, secret_word, request, why);
    assert_eq!(join(&mut admission, 5), (ConfigurationId(3), MachineId(3)));
}

/// Makes the machine at `host` join.
fn join(admission: &mut Admission, host: u32) -> (ConfigurationId, MachineId) {
    let (mut joiner, admitted) = joins(admission, secret("right"), request(host));
    let AdmissionAction::Store { expected, new } = admitted else {
        panic!("{admitted:?}");
    };
    assert_eq!(
        (expected, new.id()),
        (admission.configuration().id(), expected.next())
    );
    let (stranger, accepted) = admission.stored(Some(SwapOutcome::Won)).expect("it waits");
    assert_eq!(stranger, OUTSIDER);
    let Progress::Joined {
        configuration,
        machine,
    } = joiner.receive(over_the_wire(accepted))
    else {
        panic!("the welcome is good");
    };
    assert_eq!((&configuration, admission.configuration()), (&new, &new));
    assert_eq!(
        configuration.machine(machine).map(|m| &m.address),
        Some(&address(host))
    );
    (configuration.id(), machine)
}

#[test]
fn machines_join_one_after_the_other() {
    let mut admission = admission(machines(1));
    assert_eq!(join(&mut admission, 2), (ConfigurationId(2), MachineId(2)));
    assert_eq!(join(&mut admission, 3), (ConfigurationId(3), MachineId(3)));
    assert!(admission.is_idle());
}

#[test]
fn wrong_secret_is_refused() {
    assert_refused_by_cm("wrong", request(3), JoinRefusal::WrongSecret);
}

#[test]
fn machine_of_other_cluster_is_refused() {
    let (theirs, ours) = (ClusterId(8), machines(1).cluster());
    let mut outsider = request(3);
    outsider.cluster = Some(theirs);
    let why = JoinRefusal::OtherCluster { theirs, ours };
    assert_refused_by_cm("right", outsider.clone(), why);
    outsider.cluster = Some(ours);
    let (_, admitted) = joins(&mut admission(machines(2)), secret("right"), outsider);
    assert!(
        matches!(admitted, AdmissionAction::Store { .. }),
        "one of this cluster is not"
    );
}

#[test]
fn another_version_is_refused_before_anything_else_is_said() {
    let (theirs, ours) = (PROTOCOL_VERSION + 1, PROTOCOL_VERSION);
    let mut newer = request(3);
    newer.version = theirs;
    let why = JoinRefusal::Version { theirs, ours };
    assert_refused_by_cm("right", newer.clone(), why.clone());
    // A HELLO with a false version does not help: the request has the version, too.
    let mut admission = admission(machines(2));
    let (mut joiner, _) = Joiner::new(secret("right"), newer, nonce(1));
    let hello = JoinMessage::Hello {
        version: ours,
        nonce: nonce(1),
    };
    let AdmissionAction::Answer(challenge) = admission.receive(OUTSIDER, hello, nonce(2)) else {
        panic!("there is a challenge");
    };
    let Progress::Send(join) = joiner.receive(challenge) else {
        panic!("a challenge is answered");
    };
    let refused = AdmissionAction::Answer(JoinMessage::Refused { why });
    assert_eq!(admission.receive(OUTSIDER, join, nonce(3)), refused);
    assert!(admission.is_idle());
}

#[test]
fn address_in_use_is_refused() {
    assert_refused_by_cm("right", request(2), JoinRefusal::AddressInUse);
}

#[test]
fn full_cluster_refuses_join() {
    let mut full = admission(configuration(&vec![1; MAX_MACHINES]));
    assert_refused(&mut full, "right", request(9999), JoinRefusal::Full);
}

#[test]
fn member_names_cm_only_to_outsider_with_secret() {
    let mut other = Admission::new(MachineId(2), secret("right"), machines(2));
    let manager = address(1);
    assert_refused(
        &mut other,
        "right",
        request(3),
        JoinRefusal::NotManager { manager },
    );
    assert_refused(&mut other, "wrong", request(3), JoinRefusal::WrongSecret);
}

#[test]
fn while_one_join_is_stored_others_are_told_to_come_again() {
    let mut admission = admission(machines(2));
    let (mut first, admitted) = joins(&mut admission, secret("right"), request(3));
    assert!(matches!(admitted, AdmissionAction::Store { .. }));
    let why = JoinRefusal::Busy;
    let refused = AdmissionAction::Answer(JoinMessage::Refused { why });
    assert_eq!(
        joins(&mut admission, secret("right"), request(4)).1,
        refused
    );
    let (_, accepted) = admission.stored(Some(SwapOutcome::Won)).expect("it waits");
    assert!(matches!(first.receive(accepted), Progress::Joined { .. }));
}

#[test]
fn join_that_is_not_stored_changes_nothing() {
    for swapped in [Some(SwapOutcome::Lost), None] {
        let mut admission = admission(machines(2));
        let (mut joiner, _) = joins(&mut admission, secret("right"), request(3));
        let (_, refused) = admission.stored(swapped).expect("it waits");
        assert_eq!(
            joiner.receive(refused),
            Progress::Refused(JoinRefusal::Busy)
        );
        assert!(admission.is_idle());
        assert_eq!(admission.configuration(), &machines(2));
        // Another CM has admitted a machine meanwhile.
        admission.apply(machines(3));
        assert_eq!(join(&mut admission, 4), (ConfigurationId(4), MachineId(4)));
        admission.apply(machines(1));
        assert_eq!(
            admission.configuration().id(),
            ConfigurationId(4),
            "it does not go back"
        );
    }
}

/// Checks JOIN-4.
#[test]
fn machine_with_disk_records_offer_and_returns() {
    let mut admission = admission(machines(2));
    admission.keep(Some(DATA), false);
    let on_disk = |written| JoinRequest {
        keeps: DurableData::Disk { written },
        ..request(3)
    };
    let refused = JoinRefusal::Busy;
    assert_refused(&mut admission, "right", on_disk(None), refused);
    let refused = JoinRefusal::OtherTier;
    assert_refused(&mut admission, "right", request(3), refused.clone());
    admission.keep(Some(DATA), true);
    let mut in_use = on_disk(None);
    in_use.address = address(2);
    assert_refused(&mut admission, "right", in_use, JoinRefusal::AddressInUse);
    for written in [None, Some(MachineId(9))] {
        let (mut joiner, admitted) = joins(&mut admission, secret("right"), on_disk(written));
        let AdmissionAction::Answer(answer @ JoinMessage::Offered { .. }) = admitted else {
            panic!("{admitted:?}");
        };
        let JoinMessage::Offered { offer, proof } = answer.clone() else {
            unreachable!("it is one");
        };
        let machine = MachineId(4);
        let forged = JoinMessage::Offered {
            offer: DiskOffer { machine, ..offer },
            proof,
        };
        assert_eq!(joiner.receive(forged), Progress::Impostor);
        let offered = Progress::Offered(DiskOffer {
            machine: MachineId(3),
            configuration: machines(2),
            data: DATA,
        });
        assert_eq!(joiner.receive(over_the_wire(answer)), offered);
        assert_eq!(admission.configuration(), &machines(2));
    }
    let written = Some(MachineId(3));
    let (_, admitted) = joins(&mut admission, secret("right"), on_disk(written));
    assert!(matches!(admitted, AdmissionAction::Store { .. }));
    admission.stored(Some(SwapOutcome::Lost));
    admission.keep(None, true);
    assert_refused(&mut admission, "right", on_disk(written), refused);
}

#[test]
fn proof_is_valid_for_one_challenge() {
    let mut admission = admission(machines(2));
    let (mut joiner, hello) = Joiner::new(secret("right"), request(3), nonce(1));
    let AdmissionAction::Answer(challenge) = admission.receive(OUTSIDER, hello.clone(), nonce(2))
    else {
        panic!("there is a challenge");
    };
    let Progress::Send(join) = joiner.receive(challenge) else {
        panic!("a challenge is answered");
    };
    assert!(matches!(
        admission.receive(OUTSIDER, join.clone(), nonce(3)),
        AdmissionAction::Store { .. }
    ));
    admission.stored(Some(SwapOutcome::Lost));
    let again = admission.receive(OUTSIDER, join.clone(), nonce(3));
    assert_eq!(again, AdmissionAction::Nothing, "there is no challenge");
    admission.receive(OUTSIDER, hello, nonce(4));
    let why = JoinRefusal::WrongSecret;
    let refused = AdmissionAction::Answer(JoinMessage::Refused { why });
    assert_eq!(
        admission.receive(OUTSIDER, join, nonce(5)),
        refused,
        "of another challenge"
    );
}

#[test]
fn joiner_rejects_member_without_secret() {
    let mut impostor = Admission::new(CM, secret("wrong"), machines(2));
    let (mut joiner, hello) = Joiner::new(secret("right"), request(3), nonce(1));
    let AdmissionAction::Answer(challenge) = impostor.receive(OUTSIDER, hello, nonce(2)) else {
        panic!("there is a challenge");
    };
    joiner.receive(challenge.clone());
    assert_eq!(
        joiner.receive(challenge),
        Progress::Nothing,
        "it answers one challenge"
    );
    let (new, machine) = machines(2).with_machine(address(3), domain(3)).unwrap();
    let nonces = secret::Nonces {
        joiner: nonce(1),
        cm: nonce(2),
    };
    let welcome = |word: &str, configuration: &Configuration, machine| JoinMessage::Accepted {
        configuration: configuration.clone(),
        machine,
        proof: secret(word).prove_welcome(nonces, configuration, machine),
    };
    let (good, forged) = (
        welcome("right", &new, machine),
        welcome("wrong", &new, machine),
    );
    assert_eq!(joiner.receive(forged), Progress::Impostor);
    let somebody_else = welcome("right", &new, MachineId(2));
    assert_eq!(joiner.receive(somebody_else), Progress::Impostor);
    assert!(matches!(joiner.receive(good), Progress::Joined { .. }));
}

#[test]
fn open_challenges_are_limited_and_end_with_connection() {
    let mut admission = admission(machines(1));
    let hello = |_| Joiner::new(secret("wrong"), request(2), nonce(1)).1;
    let outsiders = (0..MAX_OUTSIDERS as u64).map(Outsider);
    for stranger in outsiders.clone() {
        let admitted = admission.receive(stranger, hello(stranger), nonce(2));
        assert!(matches!(
            admitted,
            AdmissionAction::Answer(JoinMessage::Challenge { .. })
        ));
    }
    let why = JoinRefusal::Busy;
    let refused = AdmissionAction::Answer(JoinMessage::Refused { why });
    let late = Outsider(MAX_OUTSIDERS as u64);
    assert_eq!(admission.receive(late, hello(late), nonce(2)), refused);
    let again = admission.receive(Outsider(0), hello(Outsider(0)), nonce(2));
    assert!(
        matches!(
            again,
            AdmissionAction::Answer(JoinMessage::Challenge { .. })
        ),
        "not a new one"
    );
    outsiders.for_each(|stranger| admission.disconnected(stranger));
    assert!(admission.is_idle());
}

/// Returns a random message of any kind, with the refusals in turn.
fn any_message(random: &mut Random) -> JoinMessage {
    let mut bytes = [0; 32];
    random.fill(&mut bytes);
    let nonce = Nonce(bytes);
    let nonces = secret::Nonces {
        joiner: nonce,
        cm: nonce,
    };
    let mut request = request(random.below(99) as u32);
    request.cluster = Some(ClusterId::draw(random)).filter(|_| random.one_in(2));
    let configuration = machines(1 + random.below(9) as u32);
    let (theirs, ours) = (ClusterId::draw(random), ClusterId::draw(random));
    if random.one_in(2) {
        let written = Some(CM).filter(|_| random.one_in(2));
        request.keeps = DurableData::Disk { written };
    }
    let why = match random.below(8) {
        0 => JoinRefusal::Version { theirs: 3, ours: 9 },
        1 => JoinRefusal::WrongSecret,
        2 => JoinRefusal::OtherCluster { theirs, ours },
        3 => JoinRefusal::AddressInUse,
        4 => JoinRefusal::NotManager {
            manager: request.address.clone(),
        },
        5 => JoinRefusal::Full,
        6 => JoinRefusal::OtherTier,
        _ => JoinRefusal::Busy,
    };
    match random.below(6) {
        0 => JoinMessage::Hello {
            version: random.below(1 << 16) as u16,
            nonce,
        },
        1 => JoinMessage::Refused { why },
        2 => JoinMessage::Challenge { nonce },
        3 => JoinMessage::Join {
            proof: secret("right").prove_request(nonces, &request),
            request,
        },
        4 => {
            let offer = DiskOffer {
                machine: CM,
                configuration,
                data: DATA,
            };
            let proof = secret("right").prove_offer(nonces, &offer);
            JoinMessage::Offered { offer, proof }
        }
        _ => JoinMessage::Accepted {
            proof: secret("right").prove_welcome(nonces, &configuration, CM),
            configuration,
            machine: CM,
        },
    }
}

proptest! {
    #[test]
    fn messages_survive_the_wire_and_garbage_is_refused(seed: u64, bytes: Vec<u8>) {
        let _ = JoinMessage::decode(&bytes);
        let mut random = Random::new(seed);
        let message = any_message(&mut random);
        let mut damaged = message.encode();
        prop_assert_eq!(JoinMessage::decode(&damaged), Ok(message));
        let at = random.below(damaged.len() as u64) as usize;
        damaged[at] ^= 1 << random.below(8);
        if let Ok(read) = JoinMessage::decode(&damaged) {
            prop_assert_eq!(&read.encode(), &damaged, "what is read is what was written");
        }
        damaged.truncate(at);
        let _ = JoinMessage::decode(&damaged);
    }

    /// Checks JOIN-1: a proof covers every byte of the request.
    #[test]
    fn altered_request_fails_its_proof(
        at: prop::sample::Index,
        bit in 0u8..8,
    ) {
        let mut admission = admission(machines(2));
        let (mut joiner, hello) = Joiner::new(secret("right"), request(3), nonce(1));
        let AdmissionAction::Answer(challenge) = admission.receive(OUTSIDER, hello, nonce(2)) else {
            panic!("there is a challenge");
        };
        let Progress::Send(join) = joiner.receive(challenge) else {
            panic!("a challenge is answered");
        };
        let mut bytes = join.encode();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        if let Ok(changed @ JoinMessage::Join { .. }) = JoinMessage::decode(&bytes) {
            let why = JoinRefusal::WrongSecret;
            let refused = AdmissionAction::Answer(JoinMessage::Refused { why });
            prop_assert_eq!(admission.receive(OUTSIDER, changed, nonce(3)), refused);
        }
    }
}

#[test]
fn hello_and_the_refusal_of_a_version_look_the_same_for_ever() {
    let hello = JoinMessage::Hello {
        version: 0x0102,
        nonce: nonce(7),
    };
    assert_eq!(hello.encode(), [vec![0, 2, 1], vec![7; 32]].concat());
    let why = JoinRefusal::Version { theirs: 2, ours: 1 };
    assert_eq!(JoinMessage::Refused { why }.encode(), [1, 0, 2, 0, 1, 0]);
}
