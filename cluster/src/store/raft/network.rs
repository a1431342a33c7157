//! The network of Raft: an adapter to any transport of bytes.

use std::fmt;
use std::sync::Arc;

use openraft::AnyError;
use openraft::error::{InstallSnapshotError, RPCError, RaftError, RemoteError, Unreachable};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};

use super::types::{
    AddressedRequest, Group, MemberAddress, NodeId, RaftRequest, Reply, decode, encode,
};
use crate::store::StoreError;

/// The receiver of a question to any machine at an address.
pub(super) const ANY_NODE: NodeId = 0;

/// A transport of the group's questions. The asked machine passes them to
/// [`super::RaftStore::serve`].
pub trait RaftTransport: fmt::Debug + Send + Sync + 'static {
    /// Returns the answer of the machine at an address. Blocks the calling thread, some hundred
    /// milliseconds at most.
    ///
    /// # Errors
    /// [`StoreError::Unreachable`] if there is no answer; the question may have arrived.
    fn call(&self, address: &str, question: &[u8]) -> Result<Vec<u8>, StoreError>;
}

/// The adapter of a transport to Raft.
#[derive(Clone, Debug)]
pub(super) struct Network(pub Arc<dyn RaftTransport>);

/// The adapter to Raft for one other machine.
pub(super) struct Peer {
    network: Network,
    incarnation: NodeId,
    address: String,
}

type CallError<E> = RPCError<NodeId, MemberAddress, E>;

impl Network {
    /// Asks an incarnation of the machine at an address, on the calling thread.
    pub fn ask_now(
        &self,
        of: NodeId,
        address: &str,
        ask: RaftRequest,
    ) -> Result<Reply, StoreError> {
        let answer = self
            .0
            .call(address, &encode(&AddressedRequest { of, ask }))?;
        decode(&answer).map_err(|error| StoreError::Unreachable(error.to_string()))
    }

    /// Asks an incarnation of the machine at an address.
    pub async fn ask(
        &self,
        of: NodeId,
        address: &str,
        ask: RaftRequest,
    ) -> Result<Reply, StoreError> {
        let (network, address) = (self.clone(), address.to_owned());
        let asked = tokio::task::spawn_blocking(move || network.ask_now(of, &address, ask));
        let asked = asked.await;
        asked.unwrap_or_else(|error| Err(StoreError::Unreachable(error.to_string())))
    }
}

impl RaftNetworkFactory<Group> for Network {
    type Network = Peer;

    async fn new_client(&mut self, incarnation: NodeId, place: &MemberAddress) -> Peer {
        Peer {
            network: self.clone(),
            incarnation,
            address: place.address.clone(),
        }
    }
}

impl Peer {
    async fn ask<E: std::error::Error>(
        &self,
        ask: RaftRequest,
        option: RPCOption,
    ) -> Result<Reply, CallError<E>> {
        let asked = self.network.ask(self.incarnation, &self.address, ask);
        match tokio::time::timeout(option.hard_ttl(), asked).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => Err(unreachable(&error)),
            Err(late) => Err(unreachable(&late)),
        }
    }

    fn remote<E: std::error::Error>(&self, error: E) -> CallError<E> {
        RemoteError::new(self.incarnation, error).into()
    }
}

fn unexpected_reply<E: std::error::Error>() -> CallError<E> {
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
        match self.ask(RaftRequest::Append(request), option).await? {
            Reply::Append(answer) => answer.map_err(|error| self.remote(error)),
            _ => Err(unexpected_reply()),
        }
    }

    async fn install_snapshot(
        &mut self,
        request: InstallSnapshotRequest<Group>,
        option: RPCOption,
    ) -> Result<InstallSnapshotResponse<NodeId>, CallError<RaftError<NodeId, InstallSnapshotError>>>
    {
        match self.ask(RaftRequest::Snapshot(request), option).await? {
            Reply::Snapshot(answer) => answer.map_err(|error| self.remote(error)),
            _ => Err(unexpected_reply()),
        }
    }

    async fn vote(
        &mut self,
        request: VoteRequest<NodeId>,
        option: RPCOption,
    ) -> Result<VoteResponse<NodeId>, CallError<RaftError<NodeId>>> {
        match self.ask(RaftRequest::Vote(request), option).await? {
            Reply::Vote(answer) => answer.map_err(|error| self.remote(error)),
            _ => Err(unexpected_reply()),
        }
    }
}
