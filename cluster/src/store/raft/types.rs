//! What the machines agree on through Raft, and what they say to each other for it.

use std::collections::BTreeSet;
use std::io::Cursor;

use openraft::EmptyNode;
use openraft::error::{InstallSnapshotError, RaftError};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use serde::{Deserialize, Serialize};

use crate::codec::DecodeError;

/// How Raft calls a machine: by its number.
pub type NodeId = u32;

openraft::declare_raft_types!(
    /// The types that this use of Raft is made of.
    pub Group:
        D = Change,
        R = Applied,
        NodeId = NodeId,
        Node = EmptyNode,
        SnapshotData = Cursor<Vec<u8>>,
);

/// A compare-and-swap, as it stands in the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Tells this swap from every other, so that it may be put to the group again.
    pub token: u64,
    /// The configuration that is to be the current one.
    pub expected: Option<u64>,
    /// The new one, sealed.
    pub new: Vec<u8>,
}

/// What an entry of the log has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Applied {
    /// It made its configuration the current one, now or when it was applied before.
    Won,
    /// It changed nothing.
    Lost,
    /// It is of another cluster than this one, and changed nothing.
    OtherCluster(u128),
}

/// A question of one machine of the group to another.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Ask {
    /// Raft's own.
    Append(AppendEntriesRequest<Group>),
    /// Raft's own.
    Vote(VoteRequest<NodeId>),
    /// Raft's own.
    Snapshot(InstallSnapshotRequest<Group>),
    /// To the leader: the current configuration.
    Read,
    /// To the leader: a compare-and-swap.
    Swap(Change),
    /// To the leader: these machines and no others are to be the group.
    Voters(BTreeSet<NodeId>),
}

/// The answer.
#[derive(Debug, Serialize, Deserialize)]
pub enum Told {
    /// To [`Ask::Append`].
    Append(Result<AppendEntriesResponse<NodeId>, RaftError<NodeId>>),
    /// To [`Ask::Vote`].
    Vote(Result<VoteResponse<NodeId>, RaftError<NodeId>>),
    /// To [`Ask::Snapshot`].
    Snapshot(Result<InstallSnapshotResponse<NodeId>, RaftError<NodeId, InstallSnapshotError>>),
    /// To [`Ask::Read`]: sealed.
    Current(Option<Vec<u8>>),
    /// To [`Ask::Swap`].
    Swapped(Applied),
    /// To [`Ask::Voters`].
    Voters,
    /// The machine does not lead, or cannot reach enough of the others: ask again.
    NotNow,
}

/// A question or an answer as bytes.
pub fn encode(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("these types have nothing that JSON lacks")
}

/// The question or the answer that bytes are.
pub fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, DecodeError> {
    serde_json::from_slice(bytes).map_err(|_| DecodeError::Invalid("message"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_survive_the_wire() {
        for applied in [
            Applied::Won,
            Applied::Lost,
            Applied::OtherCluster(u128::MAX - 1),
        ] {
            let told = decode::<Told>(&encode(&Told::Swapped(applied)));
            assert!(matches!(told, Ok(Told::Swapped(same)) if same == applied));
        }
        let nested = "[".repeat(1 << 16);
        assert!(decode::<Ask>(nested.as_bytes()).is_err());
    }
}
