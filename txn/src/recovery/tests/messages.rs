use std::sync::Arc;

use fencepost_cluster::{ConfigurationId, MachineId};
use fencepost_storage::Timestamp;
use proptest::prelude::*;

use crate::record::TxnId;
use crate::recovery::{Body, Evidence, RecoveryMessage, RegionVote, ReplicaEvidence, Vote};

const ID: TxnId = TxnId {
    configuration: 3,
    machine: 2,
    thread: 1,
    local: 9,
};

fn seen(evidence: Evidence, w: Option<u64>) -> ReplicaEvidence {
    ReplicaEvidence {
        id: ID,
        region: 7,
        evidence,
        written: Arc::new([5, 7]),
        w: w.map(Timestamp::from_raw),
    }
}

fn vote(vote: Vote, w: Option<u64>, written: &[u32]) -> Body {
    Body::RecoveryVote(RegionVote {
        region: 7,
        id: ID,
        vote,
        w: w.map(Timestamp::from_raw),
        written: written.into(),
        replicas: vec![MachineId(4), MachineId(1)],
    })
}

fn words(body: Body) -> Vec<u64> {
    let configuration = ConfigurationId(4);
    RecoveryMessage {
        configuration,
        body,
    }
    .words()
}

#[test]
fn recovery_message_round_trips() {
    let (region, id, written) = (7, ID, Arc::<[u32]>::from([5, 7]));
    let locked = seen(Evidence::LOCK, None);
    let backed = seen(Evidence::LOCK.and(Evidence::COMMIT_BACKUP), Some(44));
    let content = Some(Arc::<[u64]>::from([1, 2, 3]));
    let w = Timestamp::from_raw(44);
    let all = [
        Body::NeedRecovery {
            region,
            seen: vec![locked.clone(), backed.clone()],
            last: true,
        },
        Body::NeedRecovery {
            region,
            seen: Vec::new(),
            last: false,
        },
        Body::FetchTxState { region, id },
        Body::SendTxState {
            region,
            id,
            content: Arc::new([8]),
        },
        Body::ReplicateTxState {
            seen: backed,
            content,
        },
        Body::ReplicateTxState {
            seen: locked,
            content: None,
        },
        Body::ReplicateAck { region, id },
        Body::Replicated { region },
        vote(Vote::CommitPrimary, Some(44), &[5, 7]),
        vote(Vote::Lock, None, &[7]),
        vote(Vote::Unknown, None, &[]),
        Body::RequestVote { region, id },
        Body::CommitRecovery {
            id,
            w,
            written: Arc::clone(&written),
        },
        Body::AbortRecovery { id, written },
        Body::RecoveryAck { id },
        Body::TruncateRecovery { id },
    ];
    for body in all {
        let message = RecoveryMessage {
            configuration: ConfigurationId(4),
            body,
        };
        let words = message.words();
        assert_eq!(RecoveryMessage::decode(&words), Ok(message));
        let cut = (0..words.len()).map(|at| RecoveryMessage::decode(&words[..at]));
        assert!(cut.into_iter().all(|decoded| decoded.is_err()));
        let longer = [&words[..], &[0]].concat();
        assert!(RecoveryMessage::decode(&longer).is_err());
    }
}

#[test]
fn contradictory_message_is_refused() {
    let need = |seen| Body::NeedRecovery {
        region: 7,
        seen: vec![seen],
        last: true,
    };
    let elsewhere = ReplicaEvidence {
        written: Arc::new([5]),
        ..seen(Evidence::LOCK, None)
    };
    for body in [
        // Evidence of a commit without its timestamp, and of a region that the transaction does not
        // write.
        need(seen(Evidence::COMMIT_BACKUP, None)),
        need(elsewhere),
        vote(Vote::CommitPrimary, None, &[7]),
        vote(Vote::Lock, None, &[5]),
    ] {
        assert!(
            RecoveryMessage::decode(&words(body.clone())).is_err(),
            "{body:?}"
        );
    }
}

proptest! {
    #[test]
    fn garbage_is_refused_and_never_panics(
        number in 0u64..14,
        rest in proptest::collection::vec(prop_oneof![0u64..8, any::<u64>()], 0..40),
    ) {
        let words = [&[number], &rest[..]].concat();
        if let Ok(message) = RecoveryMessage::decode(&words) {
            prop_assert_eq!(RecoveryMessage::decode(&message.words()), Ok(message));
        }
    }
}
