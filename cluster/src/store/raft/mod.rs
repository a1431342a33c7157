//! A store that the machines of the cluster replicate among themselves by Raft.
//!
//! *Picture.*
//!
//! ```text
//!  m1 RaftStore ◄── transport ──► m2 RaftStore (leads) ◄── transport ──► m3 RaftStore
//!      read, swap: sent to the leader ─►│ log, majority, apply; voters follow the configuration
//!      RaftOutsider: reads through any of them, sends join messages (`join_messages`)
//! ```
//!
//! *Invariants.* A swap carries a token. Sending it again after a lost answer changes nothing and
//! gives the same answer. A leader answers a read only after it has just heard from a majority
//! (STORE-2). The Raft identity of a machine without a disk belongs to one incarnation. A restarted
//! machine that has forgotten its votes has another number, and messages to its previous
//! incarnation get no answer.
//!
//! *Concurrency.* The store has its own thread, for Raft's timers and its disk; its answers may be
//! awaited on any executor.
//!
//! *Failure.* Without a majority of the group no read and no swap succeeds: the store is
//! unreachable.

mod follow;
mod join_messages;
mod network;
mod storage;
mod types;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use fencepost_fabric::{Disk, MachineId, Random};
use openraft::error::RaftError;
use openraft::{Config, Raft, SnapshotPolicy};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};

pub use self::join_messages::RaftOutsider;
use self::join_messages::{JoinMessages, OwnMessages};
pub use self::network::RaftTransport;
use self::network::{ANY_NODE, Network};
use self::storage::RaftStorage;
use self::types::{
    AddressedRequest, Change, EntryEffect, Group, MemberAddress, NodeDescription, NodeId,
    RaftRequest, Reply, decode, encode,
};
use super::{Answer, ConfigStore, StoreError, SwapOutcome};
use crate::configuration::Configuration;
use crate::ids::{ClusterId, ConfigurationId};
use crate::join::JoinMessageStore;

/// The least and the greatest time without a heartbeat, in multiples of the pace, after which
/// another machine stands for election.
const ELECTION: (u32, u32) = (2, 3);
/// The pause before a question is repeated.
const REST: Duration = Duration::from_millis(10);
/// The number of log entries between two snapshots.
const SNAPSHOT_ENTRIES: u64 = 16;

/// The identity of a machine in the group.
#[derive(Clone, Debug)]
pub struct RaftMember {
    /// A number, not 0, that no other incarnation of any machine has. With a disk it is the number
    /// of the incarnation on that disk.
    pub incarnation: u64,
    /// The machine's id in the configurations.
    pub machine: MachineId,
    /// The address at which other machines reach it.
    pub address: String,
}

/// The time limits of a store.
#[derive(Clone, Copy, Debug)]
pub struct RaftPace {
    /// The interval between two heartbeats of the leader. After two or three missing ones another
    /// machine stands for election.
    pub heartbeat: Duration,
    /// The time for which a read or a swap is tried.
    pub patience: Duration,
}

/// The description that a machine gives of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaftPeer {
    /// The machine's incarnation; see [`RaftMember`].
    pub incarnation: u64,
    /// The machine's id.
    pub machine: MachineId,
    /// The incarnations of the voters in its group; empty if it is in no group.
    pub voters: Vec<u64>,
    /// Whether its group has had a configuration, as far as it knows.
    pub configured: bool,
}

/// The part of the store on one machine.
pub struct RaftStore {
    shared: Arc<Shared>,
    random: Mutex<Random>,
    /// `None` only after the store is dropped.
    runtime: Option<Runtime>,
}

struct Shared {
    me: NodeId,
    place: MemberAddress,
    raft: Raft<Group>,
    storage: RaftStorage,
    network: Network,
    messages: JoinMessages,
    /// Machines that may know the leader while this machine is in no group yet.
    others: Vec<String>,
    pace: Duration,
    patience: Duration,
}

impl RaftStore {
    /// Opens the store of a machine, with its state on `disk`, or without a disk as long as its
    /// process runs. `others` are the addresses of machines that may be in the group before this
    /// one. `random` makes tokens that no other machine makes.
    ///
    /// # Errors
    /// [`StoreError::Disk`] or [`StoreError::Damaged`] for the disk, [`StoreError::Unreachable`] if
    /// Raft cannot be started.
    pub fn open(
        me: RaftMember,
        others: Vec<String>,
        disk: Option<Arc<dyn Disk>>,
        transport: Arc<dyn RaftTransport>,
        pace: RaftPace,
        random: Random,
    ) -> Result<Self, StoreError> {
        let storage = RaftStorage::open(disk)?;
        let network = Network(transport);
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("raft")
            .enable_all()
            .build()
            .map_err(unreachable)?;
        let heartbeat = pace.heartbeat.as_millis() as u64;
        let config = Config {
            heartbeat_interval: heartbeat,
            election_timeout_min: heartbeat * u64::from(ELECTION.0),
            election_timeout_max: heartbeat * u64::from(ELECTION.1),
            snapshot_policy: SnapshotPolicy::LogsSinceLast(SNAPSHOT_ENTRIES),
            max_in_snapshot_log_to_keep: 0,
            ..Config::default()
        };
        let config = Arc::new(config.validate().map_err(unreachable)?);
        let (started, starts) = mpsc::channel();
        let (log, machine, to_others) = (storage.clone(), storage.clone(), network.clone());
        let incarnation = me.incarnation;
        runtime.spawn(async move {
            // The send fails only if the waiting thread has panicked.
            let _ = started.send(Raft::new(incarnation, config, to_others, log, machine).await);
        });
        let raft = starts.recv().map_err(unreachable)?.map_err(unreachable)?;
        let shared = Shared {
            me: incarnation,
            place: MemberAddress {
                machine: me.machine.0,
                address: me.address,
            },
            raft,
            storage,
            network,
            messages: JoinMessages::default(),
            others,
            pace: pace.heartbeat,
            patience: pace.patience,
        };
        Ok(Self {
            shared: Arc::new(shared),
            random: Mutex::new(random),
            runtime: Some(runtime),
        })
    }

    /// Starts a group of these machines, this one among them, none of which is in a group. A
    /// machine that is in a group already stays in it. Raft informs the other machines.
    pub fn found(&self, members: Vec<RaftMember>) -> Answer<'_, ()> {
        let shared = Arc::clone(&self.shared);
        let place = |member: RaftMember| {
            let machine = member.machine.0;
            let address = member.address;
            (member.incarnation, MemberAddress { machine, address })
        };
        let members: BTreeMap<NodeId, MemberAddress> = members.into_iter().map(place).collect();
        self.run(async move {
            match shared.raft.initialize(members).await {
                Ok(()) | Err(RaftError::APIError(_)) => Ok(()),
                Err(fatal) => Err(unreachable(fatal)),
            }
        })
    }

    /// Makes the machines of the configuration the voters, from now on and whenever this machine
    /// leads. While it is the CM, it does not lead for long.
    pub fn follow_configurations(&self) {
        self.runtime()
            .spawn(follow::look_after(Arc::clone(&self.shared)));
    }

    /// Returns whether a majority has agreed that this machine is a voter, and no majority of an
    /// older group is needed any more.
    pub fn votes(&self) -> bool {
        self.shared.votes()
    }

    /// Returns why the group does not count on this machine; `None` if it does ([`Self::votes`]).
    pub fn waits_for(&self) -> Option<String> {
        self.shared.waits_for()
    }

    /// Returns this machine's description of itself.
    pub fn description(&self) -> RaftPeer {
        self.shared.description().into()
    }

    /// Returns the leader, as far as this machine knows.
    pub fn leader(&self) -> Option<MachineId> {
        let metrics = self.shared.raft.metrics();
        let metrics = metrics.borrow();
        let leader = metrics.current_leader?;
        let place = metrics.membership_config.membership().get_node(&leader)?;
        Some(MachineId(place.machine))
    }

    /// Asks the machine at an address for its description.
    ///
    /// # Errors
    /// [`StoreError::Unreachable`] if no machine answers.
    pub fn who(&self, address: &str) -> Result<RaftPeer, StoreError> {
        match self
            .shared
            .network
            .ask_now(ANY_NODE, address, RaftRequest::Who)?
        {
            Reply::Description(description) => Ok(description.into()),
            other => Err(unexpected_reply(&other)),
        }
    }

    /// Returns the join messages for this machine, which outsiders send ([`RaftOutsider`]).
    pub fn join_messages(&self) -> Arc<dyn JoinMessageStore> {
        Arc::new(OwnMessages(Arc::clone(&self.shared)))
    }

    /// Answers a question that another machine has sent. The caller must pass only questions of
    /// machines that know the cluster's secret.
    pub fn serve(&self, question: &[u8]) -> Answer<'_, Vec<u8>> {
        let asked = decode::<AddressedRequest>(question);
        let shared = Arc::clone(&self.shared);
        self.run(async move {
            let reply = match asked {
                Ok(AddressedRequest { of, ask })
                    if of == shared.me || of == ANY_NODE && !ask.is_rafts() =>
                {
                    // Without a majority Raft would retry for ever.
                    let reply = tokio::time::timeout(shared.patience, shared.answer(ask));
                    reply.await.unwrap_or(Reply::NotNow)
                }
                _ => Reply::NotNow,
            };
            Ok(encode(&reply))
        })
    }

    fn runtime(&self) -> &Runtime {
        let runtime = self.runtime.as_ref();
        runtime.expect("the runtime is there until the store is dropped")
    }

    fn run<T: Send + 'static>(
        &self,
        request: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Answer<'_, T> {
        let running = self.runtime().spawn(request);
        Box::pin(async move {
            running
                .await
                .unwrap_or_else(|error| Err(unreachable(error)))
        })
    }
}

impl fmt::Debug for RaftStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = &self.shared.place;
        write!(f, "RaftStore of m{} at {}", place.machine, place.address)
    }
}

impl Drop for RaftStore {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A store that asynchronous code drops must not block until the thread ends.
            runtime.shutdown_background();
        }
    }
}

impl From<NodeDescription> for RaftPeer {
    fn from(description: NodeDescription) -> RaftPeer {
        RaftPeer {
            incarnation: description.incarnation,
            machine: MachineId(description.machine),
            voters: description.voters.into_iter().collect(),
            configured: description.configured,
        }
    }
}

impl ConfigStore for RaftStore {
    fn read(&self) -> Answer<'_, Option<Configuration>> {
        let shared = Arc::clone(&self.shared);
        self.run(async move {
            match shared.ask_leader(RaftRequest::Read).await? {
                Reply::Current(sealed) => unsealed(sealed),
                other => Err(unexpected_reply(&other)),
            }
        })
    }

    fn compare_and_swap<'a>(
        &'a self,
        expected: Option<ConfigurationId>,
        new: &'a Configuration,
    ) -> Answer<'a, SwapOutcome> {
        if expected.is_some_and(|expected| new.id() != expected.next()) {
            return Box::pin(async { Err(StoreError::OutOfOrder(new.id())) });
        }
        let change = Change {
            token: self.random.lock().next_u64(),
            expected: expected.map(|id| id.0),
            new: new.seal(),
        };
        let (shared, ours) = (Arc::clone(&self.shared), new.cluster());
        self.run(async move {
            match shared.ask_leader(RaftRequest::Swap(change)).await? {
                Reply::Swapped(EntryEffect::Won) => Ok(SwapOutcome::Won),
                Reply::Swapped(EntryEffect::Lost) => Ok(SwapOutcome::Lost),
                Reply::Swapped(EntryEffect::OtherCluster(theirs)) => {
                    Err(StoreError::OtherCluster {
                        theirs: ClusterId(theirs),
                        ours,
                    })
                }
                other => Err(unexpected_reply(&other)),
            }
        })
    }
}

impl Shared {
    /// Sends a question to the leader, until it is answered or the time ends.
    async fn ask_leader(&self, ask: RaftRequest) -> Result<Reply, StoreError> {
        let asked = tokio::time::timeout(self.patience, async {
            let mut others = self.others.iter().cycle();
            loop {
                let reply = match self.leader().await {
                    Some((incarnation, _)) if incarnation == self.me => {
                        self.decide(ask.clone()).await
                    }
                    Some((incarnation, address)) => {
                        self.pass(incarnation, &address, ask.clone()).await
                    }
                    None => match others.next() {
                        Some(address) => {
                            let ask = RaftRequest::Pass(Box::new(ask.clone()));
                            self.pass(ANY_NODE, address, ask).await
                        }
                        None => Reply::NotNow,
                    },
                };
                match reply {
                    Reply::NotNow => tokio::time::sleep(REST).await,
                    reply => return reply,
                }
            }
        });
        asked
            .await
            .map_err(|_| StoreError::Unreachable("no majority leads".to_owned()))
    }

    /// Returns the leader and its address.
    async fn leader(&self) -> Option<(NodeId, String)> {
        let incarnation = self.raft.current_leader().await?;
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let place = metrics
            .membership_config
            .membership()
            .get_node(&incarnation)?;
        Some((incarnation, place.address.clone()))
    }

    async fn pass(&self, of: NodeId, address: &str, ask: RaftRequest) -> Reply {
        let reply = self.network.ask(of, address, ask).await;
        reply.unwrap_or(Reply::NotNow)
    }

    /// Answers a question. A question for the leader is answered only if this machine leads or
    /// knows the leader.
    async fn answer(&self, ask: RaftRequest) -> Reply {
        match ask {
            RaftRequest::Append(request) => Reply::Append(self.raft.append_entries(request).await),
            RaftRequest::Vote(request) => Reply::Vote(self.raft.vote(request).await),
            RaftRequest::Snapshot(request) => {
                Reply::Snapshot(self.raft.install_snapshot(request).await)
            }
            RaftRequest::Who => Reply::Description(self.description()),
            RaftRequest::Leave {
                name,
                content: letter,
            } => {
                self.messages.leave(&name, letter);
                Reply::Messages(Vec::new())
            }
            RaftRequest::Take { end } => Reply::Messages(self.messages.take_all(&end)),
            RaftRequest::Pass(ask) => match self.leader().await {
                Some((incarnation, _)) if incarnation == self.me => self.decide(*ask).await,
                Some((incarnation, address)) => self.pass(incarnation, &address, *ask).await,
                None => Reply::NotNow,
            },
            ask => self.decide(ask).await,
        }
    }

    /// Answers a question to the leader, if this machine leads.
    async fn decide(&self, ask: RaftRequest) -> Reply {
        match ask {
            RaftRequest::Read => match self.raft.ensure_linearizable().await {
                Ok(_) => Reply::Current(self.storage.current()),
                Err(_) => Reply::NotNow,
            },
            RaftRequest::Swap(change) => match self.raft.client_write(change).await {
                Ok(written) => Reply::Swapped(written.data),
                Err(_) => Reply::NotNow,
            },
            _ => Reply::NotNow,
        }
    }

    fn description(&self) -> NodeDescription {
        NodeDescription {
            incarnation: self.me,
            machine: self.place.machine,
            voters: self.voters().into_keys().collect(),
            configured: self.storage.current().is_some(),
        }
    }

    /// Returns the current configuration, as far as this machine knows.
    fn current(&self) -> Option<Configuration> {
        unsealed(self.storage.current()).ok()?
    }
}

/// Unseals the configuration of the group, if it has one.
fn unsealed(sealed: Option<Vec<u8>>) -> Result<Option<Configuration>, StoreError> {
    let unsealed = sealed
        .map(|sealed| Configuration::unseal(&sealed))
        .transpose();
    unsealed.map_err(|what| StoreError::Damaged {
        place: "the store of the machines".to_owned(),
        what,
    })
}

fn unreachable(error: impl fmt::Display) -> StoreError {
    StoreError::Unreachable(error.to_string())
}

fn unexpected_reply(reply: &dyn fmt::Debug) -> StoreError {
    StoreError::Unreachable(format!("an answer to something else: {reply:?}"))
}
