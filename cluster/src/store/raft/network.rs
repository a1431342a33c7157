//! How Raft reaches the other machines: through whatever carries bytes.

use std::sync::Arc;

use openraft::error::{InstallSnapshotError, RPCError, RaftError, RemoteError, Unreachable};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::{AnyError, EmptyNode};

use super::types::{Ask, Group, NodeId, Told, decode, encode};
use crate::store::{Answer, StoreError};
use fencepost_fabric::MachineId;

/// What carries the group's questions; the machine that is asked hands them to
/// [`super::RaftStore::serve`].
pub trait RaftTransport: Send + Sync + 'static {
    /// Puts a question to a machine.
    ///
    /// # Errors
    /// [`StoreError::Unreachable`] when there is no answer; the question may have arrived.
    fn call(&self, machine: MachineId, question: Vec<u8>) -> Answer<'static, Vec<u8>>;
}

/// Raft's view of a transport.
#[derive(Clone)]
pub(super) struct Network(pub Arc<dyn RaftTransport>);

/// Raft's view of one other machine.
pub(super) struct Peer {
    transport: Arc<dyn RaftTransport>,
    machine: NodeId,
}

type CallError<E> = RPCError<NodeId, EmptyNode, E>;

impl Network {
    /// Puts a question to a machine.
    pub async fn ask(&self, machine: NodeId, ask: &Ask) -> Result<Told, StoreError> {
        let answer = self.0.call(MachineId(machine), encode(ask)).await?;
        decode(&answer).map_err(|error| StoreError::Unreachable(error.to_string()))
    }
}

impl RaftNetworkFactory<Group> for Network {
    type Network = Peer;

    async fn new_client(&mut self, machine: NodeId, _: &EmptyNode) -> Peer {
        let transport = Arc::clone(&self.0);
        Peer { transport, machine }
    }
}

impl Peer {
    async fn ask<E: std::error::Error>(
        &self,
        ask: &Ask,
        option: RPCOption,
    ) -> Result<Told, CallError<E>> {
        let network = Network(Arc::clone(&self.transport));
        let asked = tokio::time::timeout(option.hard_ttl(), network.ask(self.machine, ask));
        match asked.await {
            Ok(Ok(told)) => Ok(told),
            Ok(Err(error)) => Err(unreachable(&error)),
            Err(late) => Err(unreachable(&late)),
        }
    }

    fn remote<E: std::error::Error>(&self, error: E) -> CallError<E> {
        RemoteError::new(self.machine, error).into()
    }
}

fn out_of_turn<E: std::error::Error>() -> CallError<E> {
    Unreachable::from(AnyError::error("an answer to something else")).into()
}

fn unreachable<E: std::error::Error>(error: &(impl std::error::Error + 'static)) -> CallError<E> {
    Unreachable::new(error).into()
}

impl RaftNetwork<Group> for Peer {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Group>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<NodeId>, CallError<RaftError<NodeId>>> {
        match self.ask(&Ask::Append(request), option).await? {
            Told::Append(answer) => answer.map_err(|error| self.remote(error)),
            _ => Err(out_of_turn()),
        }
    }

    async fn install_snapshot(
        &mut self,
        request: InstallSnapshotRequest<Group>,
        option: RPCOption,
    ) -> Result<InstallSnapshotResponse<NodeId>, CallError<RaftError<NodeId, InstallSnapshotError>>>
    {
        match self.ask(&Ask::Snapshot(request), option).await? {
            Told::Snapshot(answer) => answer.map_err(|error| self.remote(error)),
            _ => Err(out_of_turn()),
        }
    }

    async fn vote(
        &mut self,
        request: VoteRequest<NodeId>,
        option: RPCOption,
    ) -> Result<VoteResponse<NodeId>, CallError<RaftError<NodeId>>> {
        match self.ask(&Ask::Vote(request), option).await? {
            Told::Vote(answer) => answer.map_err(|error| self.remote(error)),
            _ => Err(out_of_turn()),
        }
    }
}
