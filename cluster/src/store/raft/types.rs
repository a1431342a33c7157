//! The Raft entries of the store, and the messages between its machines.

use std::collections::BTreeSet;
use std::io::Cursor;

use openraft::error::{InstallSnapshotError, RaftError};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use serde::{Deserialize, Serialize};

use crate::codec::DecodeError;

/// Raft's number of a machine, different for each incarnation. A machine that has forgotten its
/// votes is another Raft node.
pub type NodeId = u64;

/// The address of a member of the group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberAddress {
    /// The machine's id in the configurations.
    pub machine: u32,
    /// The address at which it answers.
    pub address: String,
}

openraft::declare_raft_types!(
    /// The types with which this store uses Raft.
    pub Group:
        D = Change,
        R = EntryEffect,
        NodeId = NodeId,
        Node = MemberAddress,
        SnapshotData = Cursor<Vec<u8>>,
);

/// A compare-and-swap, as an entry of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// A number that identifies this swap, so that it may be sent to the group again.
    pub token: u64,
    /// The configuration that must be the current one.
    pub expected: Option<u64>,
    /// The new configuration, sealed.
    pub new: Vec<u8>,
}

/// The effect of an applied log entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntryEffect {
    /// Its configuration became the current one, now or when it was applied before.
    Won,
    /// The entry changed nothing.
    Lost,
    /// The entry is of another cluster, and changed nothing. The value is the id of the store's
    /// cluster.
    OtherCluster(u128),
}

/// A question with its receiver.
#[derive(Debug, Serialize, Deserialize)]
pub struct AddressedRequest {
    /// The incarnation of the asked machine; 0 for any machine.
    pub of: NodeId,
    /// The question.
    pub ask: RaftRequest,
}

/// A question to a machine of the group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum RaftRequest {
    /// A request of Raft.
    Append(AppendEntriesRequest<Group>),
    /// A request of Raft.
    Vote(VoteRequest<NodeId>),
    /// A request of Raft.
    Snapshot(InstallSnapshotRequest<Group>),
    /// Asks for the machine's description.
    Who,
    /// Asks the leader for the current configuration.
    Read,
    /// Asks the leader for a compare-and-swap.
    Swap(Change),
    /// Asks a machine to pass a question to the leader, from a machine that may not know the
    /// leader.
    Pass(Box<RaftRequest>),
    /// Stores a join message at the asked machine.
    Leave {
        /// The name of the message.
        name: String,
        /// The content of the message.
        content: Vec<u8>,
    },
    /// Takes the join messages whose names end with `end`.
    Take {
        /// The end of the names.
        end: String,
    },
}

impl RaftRequest {
    /// Returns whether the question is Raft's own. Only the named incarnation may answer it,
    /// because another one has not given its votes.
    pub fn is_rafts(&self) -> bool {
        matches!(
            self,
            RaftRequest::Append(_) | RaftRequest::Vote(_) | RaftRequest::Snapshot(_)
        )
    }
}

/// The answer to a question.
#[derive(Debug, Serialize, Deserialize)]
pub enum Reply {
    /// To [`Ask::Append`].
    Append(Result<AppendEntriesResponse<NodeId>, RaftError<NodeId>>),
    /// To [`Ask::Vote`].
    Vote(Result<VoteResponse<NodeId>, RaftError<NodeId>>),
    /// To [`Ask::Snapshot`].
    Snapshot(Result<InstallSnapshotResponse<NodeId>, RaftError<NodeId, InstallSnapshotError>>),
    /// To [`Ask::Who`].
    Description(NodeDescription),
    /// To [`Ask::Read`]: the configuration, sealed.
    Current(Option<Vec<u8>>),
    /// To [`Ask::Swap`].
    Swapped(EntryEffect),
    /// To [`Ask::Take`]: the messages with their names; to [`Ask::Leave`]: none.
    Messages(Vec<(String, Vec<u8>)>),
    /// The machine does not lead, cannot reach enough others, or is not the named incarnation: ask
    /// again.
    NotNow,
}

/// The description that a machine gives of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeDescription {
    /// The machine's incarnation.
    pub incarnation: NodeId,
    /// The machine's id in the configurations.
    pub machine: u32,
    /// The incarnations of the voters, as far as the machine knows; empty before there is a group.
    pub voters: BTreeSet<NodeId>,
    /// Whether a configuration has been stored, as far as the machine knows.
    pub configured: bool,
}

/// Encodes a question or an answer.
pub fn encode(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("these types have nothing that JSON lacks")
}

/// Decodes a question or an answer.
pub fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, DecodeError> {
    serde_json::from_slice(bytes).map_err(|_| DecodeError::Invalid("message"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_survive_the_wire() {
        for applied in [
            EntryEffect::Won,
            EntryEffect::Lost,
            EntryEffect::OtherCluster(u128::MAX - 1),
        ] {
            let decoded = decode::<Reply>(&encode(&Reply::Swapped(applied)));
            assert!(matches!(decoded, Ok(Reply::Swapped(same)) if same == applied));
        }
        let nested = "[".repeat(1 << 16);
        assert!(decode::<AddressedRequest>(nested.as_bytes()).is_err());
        let passed = format!(
            "{{\"of\":0,\"ask\":{}\"Read\"{}}}",
            "{\"Pass\":".repeat(1 << 12),
            "}".repeat(1 << 12)
        );
        assert!(decode::<AddressedRequest>(passed.as_bytes()).is_err());
    }
}
