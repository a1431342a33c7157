//! What the machines agree on through Raft, and what they say to each other for it.

use std::collections::BTreeSet;
use std::io::Cursor;

use openraft::error::{InstallSnapshotError, RaftError};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use serde::{Deserialize, Serialize};

use crate::codec::DecodeError;

/// How Raft calls a machine: by a number that no other life of it has. Who has forgotten its votes is somebody else.
pub type NodeId = u64;

/// Where a member of the group is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Its number in the configurations.
    pub machine: u32,
    /// Where it answers.
    pub address: String,
}

openraft::declare_raft_types!(
    /// The types that this use of Raft is made of.
    pub Group:
        D = Change,
        R = Applied,
        NodeId = NodeId,
        Node = Place,
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

/// A question, and to whom it is.
#[derive(Debug, Serialize, Deserialize)]
pub struct Asked {
    /// The life of the machine that is asked; 0 for whoever is there.
    pub of: NodeId,
    /// What it is asked.
    pub ask: Ask,
}

/// A question to a machine of the group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Ask {
    /// Raft's own.
    Append(AppendEntriesRequest<Group>),
    /// Raft's own.
    Vote(VoteRequest<NodeId>),
    /// Raft's own.
    Snapshot(InstallSnapshotRequest<Group>),
    /// Who is there?
    Who,
    /// To the leader: the current configuration.
    Read,
    /// To the leader: a compare-and-swap.
    Swap(Change),
    /// A question to the leader, from who may not know it.
    Pass(Box<Ask>),
    /// A letter for whoever looks at the machine's door.
    Leave {
        /// Its name.
        name: String,
        /// What it says.
        letter: Vec<u8>,
    },
    /// The letters whose names end so.
    Take {
        /// The end.
        end: String,
    },
}

impl Ask {
    /// Whether it is Raft's own, which only the life that it is meant for may answer: another one has given no vote.
    pub fn is_rafts(&self) -> bool {
        matches!(self, Ask::Append(_) | Ask::Vote(_) | Ask::Snapshot(_))
    }
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
    /// To [`Ask::Who`].
    Here(Here),
    /// To [`Ask::Read`]: sealed.
    Current(Option<Vec<u8>>),
    /// To [`Ask::Swap`].
    Swapped(Applied),
    /// To [`Ask::Take`], with their names; to [`Ask::Leave`], none.
    Letters(Vec<(String, Vec<u8>)>),
    /// The machine does not lead, cannot reach enough of the others, or is not who is asked: ask again.
    NotNow,
}

/// What a machine says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Here {
    /// Its life.
    pub life: NodeId,
    /// Its number in the configurations.
    pub machine: u32,
    /// The lives of those who vote, as far as it knows; none before there is a group.
    pub voters: BTreeSet<NodeId>,
    /// Whether there has been a configuration, as far as it knows.
    pub configured: bool,
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
        assert!(decode::<Asked>(nested.as_bytes()).is_err());
        let passed = format!(
            "{{\"of\":0,\"ask\":{}\"Read\"{}}}",
            "{\"Pass\":".repeat(1 << 12),
            "}".repeat(1 << 12)
        );
        assert!(decode::<Asked>(passed.as_bytes()).is_err());
    }
}
