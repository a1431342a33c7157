//! The reactions of one machine to single messages.

use std::collections::BTreeMap;
use std::sync::Arc;

use fencepost_cluster::{ConfigurationId, MachineId, Replicas};
use fencepost_storage::Timestamp;
use proptest::prelude::*;

use crate::record::TxnId;
use crate::recovery::coordinator::PATIENCE_NS;
use crate::recovery::post::RecoveryActions;
use crate::recovery::{
    Action, Begin, Body, Decision, Evidence, Recovery, RecoveryEnvironment, RecoveryMessage,
    RegionPrimary, RegionVote, ReplicaEvidence, Vote,
};

const ME: MachineId = MachineId(1);
const OTHER: MachineId = MachineId(2);
const NOW: ConfigurationId = ConfigurationId(5);

/// The locations of regions; regions that are not listed are unknown.
#[derive(Default)]
struct RegionLocations(BTreeMap<u32, RegionPrimary>);

impl RecoveryEnvironment for RegionLocations {
    fn region_primary(&self, region: u32) -> RegionPrimary {
        *self.0.get(&region).unwrap_or(&RegionPrimary::Unknown)
    }

    fn was_truncated(&self, id: TxnId, _: u32) -> bool {
        id.local == 99
    }

    fn content(&self, id: TxnId, _: u32) -> Arc<[u64]> {
        Arc::new([id.local])
    }
}

/// Returns the id of a transaction of this machine.
fn id(local: u64) -> TxnId {
    TxnId {
        configuration: 4,
        machine: ME.0,
        thread: 0,
        local,
    }
}

fn message(body: Body) -> RecoveryMessage {
    let configuration = NOW;
    RecoveryMessage {
        configuration,
        body,
    }
}

fn begin(regions: &[(u32, MachineId, MachineId)], found: Vec<ReplicaEvidence>) -> Begin {
    let replicas = |primary, backup| Replicas::new(primary, vec![backup]).expect("two");
    let regions = regions.iter();
    Begin {
        configuration: NOW,
        members: vec![OTHER, ME],
        regions: regions.map(|(r, p, b)| (*r, replicas(*p, *b))).collect(),
        found,
        awaited: Vec::new(),
    }
}

fn seen(local: u64, region: u32, evidence: Evidence, w: Option<u64>) -> ReplicaEvidence {
    ReplicaEvidence {
        id: id(local),
        region,
        evidence,
        written: Arc::new([7, 8]),
        w: w.map(Timestamp::from_raw),
    }
}

fn vote(region: u32, vote: Vote, w: Option<u64>) -> RecoveryMessage {
    message(Body::RecoveryVote(RegionVote {
        region,
        id: id(1),
        vote,
        w: w.map(Timestamp::from_raw),
        written: Arc::new([7, 8]),
        replicas: vec![OTHER],
    }))
}

fn sent(actions: Vec<Action>) -> Vec<(MachineId, Body)> {
    let sent = actions.into_iter().filter_map(|action| match action {
        Action::Send(to, message) => Some((to, message.body)),
        _ => None,
    });
    sent.collect()
}

/// A lost region does not delay the other regions, and does not object to a commit.
#[test]
fn lost_region_does_not_object_to_commit() {
    for (votes, w, expected) in [
        (Vote::CommitBackup, Some(50), Decision::Commit),
        (Vote::CommitPrimary, Some(50), Decision::Commit),
        (Vote::Lock, None, Decision::Abort),
        (Vote::Abort, None, Decision::Abort),
    ] {
        let mut recovery = Recovery::new(ME);
        let mut around = RegionLocations::default();
        drop(recovery.begin(0, begin(&[], Vec::new()), &around));
        let actions = recovery.receive(10, OTHER, vote(7, votes, w), &around);
        assert_eq!(actions, [], "{votes:?}");
        let due = recovery.next_wake();
        assert_eq!(due, 10 + PATIENCE_NS);
        // Until the region is known to be lost, its vote is awaited.
        assert_eq!(recovery.tick(due, &around), []);
        around.0.insert(8, RegionPrimary::Lost);
        assert_eq!(recovery.tick(due, &around), []);
        let actions = recovery.tick(recovery.next_wake(), &around);
        let decided = actions.iter().find_map(|action| match action {
            Action::Decided { decision, .. } => Some(*decision),
            _ => None,
        });
        assert_eq!(decided, Some(expected), "{votes:?}");
        assert_eq!(sent(actions).len(), 1);
        assert!(!recovery.is_over());
        let ack = message(Body::RecoveryAck { id: id(1) });
        let actions = recovery.receive(0, OTHER, ack, &around);
        assert_eq!(
            sent(actions),
            [(OTHER, Body::TruncateRecovery { id: id(1) })]
        );
        assert!(recovery.is_over());
    }
}

#[test]
fn votes_that_are_missing_are_asked_for_again_and_again() {
    let mut recovery = Recovery::new(ME);
    let around = RegionLocations(
        [
            (7, RegionPrimary::Primary(OTHER)),
            (8, RegionPrimary::Primary(OTHER)),
        ]
        .into(),
    );
    let awaited = vec![(id(1), [7, 8].into())];
    let begin = Begin {
        awaited,
        ..begin(&[], Vec::new())
    };
    drop(recovery.begin(0, begin, &around));
    assert_eq!(recovery.tick(PATIENCE_NS - 1, &around), []);
    let ask = |region| (OTHER, Body::RequestVote { region, id: id(1) });
    assert_eq!(sent(recovery.tick(PATIENCE_NS, &around)), [ask(7), ask(8)]);
    drop(recovery.receive(0, OTHER, vote(8, Vote::Unknown, None), &around));
    assert_eq!(recovery.tick(PATIENCE_NS, &around), []);
    assert_eq!(sent(recovery.tick(2 * PATIENCE_NS, &around)), [ask(7)]);
}

/// No replica has a record of a transaction whose coordinator awaits the outcome: the outcome is
/// abort.
#[test]
fn waiting_coordinator_without_records_learns_abort() {
    let mut recovery = Recovery::new(ME);
    let around = RegionLocations(
        [7, 8]
            .map(|region| (region, RegionPrimary::Primary(ME)))
            .into(),
    );
    let begin = Begin {
        awaited: vec![(id(1), [7, 8].into())],
        ..begin(&[], Vec::new())
    };
    let alone = |region| (region, Replicas::new(ME, Vec::new()).expect("one"));
    let regions = vec![alone(7), alone(8)];
    let begin = Begin { regions, ..begin };
    let actions = recovery.begin(0, begin, &around);
    assert_eq!(
        actions,
        [Action::Active(7), Action::Active(8), Action::RegionsActive]
    );
    let actions = recovery.tick(PATIENCE_NS, &around);
    let aborted = |local| Action::Decided {
        id: id(local),
        decision: Decision::Abort,
    };
    assert!(actions.contains(&aborted(1)));
    assert!(recovery.is_over());
}

#[test]
fn message_of_other_configuration_waits_or_is_dropped() {
    let mut recovery = Recovery::new(ME);
    let around = RegionLocations::default();
    let of = |configuration, body| RecoveryMessage {
        configuration: ConfigurationId(configuration),
        body,
    };
    let need = |local| Body::NeedRecovery {
        region: 7,
        seen: vec![seen(local, 7, Evidence::COMMIT_BACKUP, Some(50))],
        last: true,
    };
    for (configuration, local) in [(3, 1), (5, 2), (4, 3)] {
        let early = of(configuration, need(local));
        assert_eq!(recovery.receive(0, OTHER, early, &around), []);
    }
    let ask = Body::RequestVote {
        region: 7,
        id: id(6),
    };
    assert_eq!(recovery.receive(0, OTHER, of(5, ask), &around), []);
    let actions = recovery.begin(0, begin(&[(7, ME, OTHER)], Vec::new()), &around);
    let fetch = Body::FetchTxState {
        region: 7,
        id: id(2),
    };
    assert_eq!(sent(actions), [(OTHER, fetch)]);
    // These messages come too late, or from a machine that is not a member.
    let content = || Body::SendTxState {
        region: 7,
        id: id(2),
        content: Arc::new([1]),
    };
    assert_eq!(recovery.receive(0, OTHER, of(4, content()), &around), []);
    assert_eq!(
        recovery.receive(0, MachineId(3), of(5, content()), &around),
        []
    );
    assert_ne!(recovery.receive(0, OTHER, of(5, content()), &around), []);
}

#[test]
fn much_that_was_seen_comes_in_parts() {
    let mut recovery = Recovery::new(ME);
    let locked = |local| seen(local, 7, Evidence::LOCK, None);
    let many: Vec<ReplicaEvidence> = (1..2000).map(locked).collect();
    let begin = begin(&[(7, OTHER, ME)], many.clone());
    let actions = recovery.begin(0, begin, &RegionLocations::default());
    let (mut all, mut lasts) = (Vec::new(), Vec::new());
    for (to, body) in sent(actions) {
        let length = message(body.clone()).words().len();
        assert!(length < 2100 && to == OTHER, "{length}");
        if let Body::NeedRecovery { seen, last, .. } = body {
            all.extend(seen);
            lasts.push(last);
        }
    }
    assert_eq!(all, many);
    assert!(lasts.len() > 2);
    assert_eq!(lasts.iter().position(|last| *last), Some(lasts.len() - 1));
}

#[test]
fn machines_agree_on_recovery_coordinator_and_share_load() {
    let members = [4, 2, 9, 7].map(MachineId);
    let mut other = members.to_vec();
    other.reverse();
    let one = RecoveryActions::new(ME, NOW, members.to_vec());
    let two = RecoveryActions::new(OTHER, NOW, other);
    let mut of: BTreeMap<MachineId, u32> = BTreeMap::new();
    for local in 0..400 {
        let lost = id(local);
        let kept = TxnId { machine: 9, ..lost };
        assert_eq!(one.coordinator_of(lost), two.coordinator_of(lost));
        assert_eq!(one.coordinator_of(kept), MachineId(9));
        *of.entry(one.coordinator_of(lost)).or_default() += 1;
    }
    assert!(members.iter().all(|m| of[m] > 50), "{of:?}");
}

fn any_body() -> impl Strategy<Value = Body> {
    let any_id = (0u64..4).prop_map(id);
    let any_seen = (0u64..4, 0u64..64, 7u32..9).prop_map(|(local, bits, region)| {
        let evidence = Evidence::from_bits(bits).expect("evidence");
        seen(local, region, evidence, Some(50))
    });
    (0..12, 7u32..9, any_id, any_seen, any::<bool>(), 0..6usize).prop_map(
        |(kind, region, id, seen, yes, vote)| match kind {
            0 | 1 => Body::NeedRecovery {
                region,
                seen: vec![ReplicaEvidence { region, ..seen }],
                last: yes,
            },
            2 => Body::FetchTxState { region, id },
            3 => Body::SendTxState {
                region,
                id,
                content: Arc::new([]),
            },
            4 => Body::ReplicateTxState {
                seen,
                content: yes.then(|| Arc::from([])),
            },
            5 => Body::ReplicateAck { region, id },
            6 => Body::Replicated { region },
            7 | 8 => Body::RecoveryVote(RegionVote {
                region,
                id,
                vote: [
                    Vote::CommitPrimary,
                    Vote::CommitBackup,
                    Vote::Lock,
                    Vote::Abort,
                    Vote::Truncated,
                    Vote::Unknown,
                ][vote],
                w: Some(Timestamp::from_raw(50)),
                written: seen.written,
                replicas: vec![ME, OTHER],
            }),
            9 => Body::CommitRecovery {
                id,
                w: Timestamp::from_raw(50),
                written: seen.written,
            },
            10 => Body::AbortRecovery {
                id,
                written: seen.written,
            },
            _ if yes => Body::TruncateRecovery { id },
            _ => Body::RecoveryAck { id },
        },
    )
}

proptest! {
    /// A peer that sends wrong messages affects only the transactions and regions that the messages
    /// name.
    #[test]
    fn arbitrary_messages_cause_no_panic(bodies in proptest::collection::vec(any_body(), 0..40)) {
        let mut recovery = Recovery::new(ME);
        let around = RegionLocations::default();
        let regions = [(7, ME, OTHER), (8, OTHER, ME)];
        drop(recovery.begin(0, begin(&regions, Vec::new()), &around));
        for body in bodies {
            drop(recovery.receive(0, OTHER, message(body), &around));
            drop(recovery.tick(recovery.next_wake(), &around));
        }
    }
}
