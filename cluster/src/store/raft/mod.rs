//! A store that the machines of the cluster keep among themselves, by Raft.
//!
//! *Picture.*
//!
//! ```text
//!  m1 RaftStore ◄── transport ──► m2 RaftStore (leads) ◄── transport ──► m3 RaftStore
//!      read, swap: put to the leader ──►│ log, majority, apply
//! ```
//!
//! *Invariants.* A swap carries a token, so putting it to the group again after a lost answer
//! changes nothing and tells the same. A read is answered by a leader that has just heard from a
//! majority (STORE-2).
//!
//! *Concurrency.* The store has a thread of its own, for Raft's timers and its disk; its answers
//! may be awaited on any executor.
//!
//! *Failure.* Without a majority of the group nothing is read or swapped: the store is unreachable.

mod kept;
mod network;
mod types;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use fencepost_fabric::{Disk, MachineId, Random};
use openraft::error::RaftError;
use openraft::{Config, EmptyNode, Raft, SnapshotPolicy};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};

use self::kept::Kept;
use self::network::Network;
pub use self::network::RaftTransport;
use self::types::{Applied, Ask, Change, Group, NodeId, Told, decode, encode};
use super::{Answer, ConfigStore, StoreError, Swapped};
use crate::configuration::Configuration;
use crate::ids::{ClusterId, ConfigurationId};

/// Between two heartbeats of the leader, and before a question is put again.
const HEARTBEAT: Duration = Duration::from_millis(100);
/// Without a heartbeat for about this long, another machine stands for election.
const ELECTION: Duration = Duration::from_millis(500);
/// Entries between two snapshots.
const SNAPSHOT_ENTRIES: u64 = 16;

/// One machine's part of the store.
pub struct RaftStore {
    shared: Arc<Shared>,
    random: Mutex<Random>,
    /// Taken when the store is dropped.
    runtime: Option<Runtime>,
}

struct Shared {
    me: NodeId,
    raft: Raft<Group>,
    kept: Kept,
    network: Network,
    patience: Duration,
}

impl RaftStore {
    /// The part of machine `me`, with what it has kept on `disk`, or without a disk for as long as
    /// it lives. `random` makes tokens that nobody else makes; a read or a swap is tried for at
    /// most `patience`.
    ///
    /// # Errors
    /// [`StoreError::Disk`] or [`StoreError::Damaged`] for the disk, [`StoreError::Unreachable`]
    /// when Raft cannot be started.
    pub fn open(
        me: MachineId,
        disk: Option<Arc<dyn Disk>>,
        transport: Arc<dyn RaftTransport>,
        random: Random,
        patience: Duration,
    ) -> Result<Self, StoreError> {
        let kept = Kept::open(disk)?;
        let network = Network(transport);
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("raft")
            .enable_all()
            .build()
            .map_err(unreachable)?;
        let config = Config {
            heartbeat_interval: HEARTBEAT.as_millis() as u64,
            election_timeout_min: ELECTION.as_millis() as u64,
            election_timeout_max: 2 * ELECTION.as_millis() as u64,
            snapshot_policy: SnapshotPolicy::LogsSinceLast(SNAPSHOT_ENTRIES),
            max_in_snapshot_log_to_keep: 0,
            ..Config::default()
        };
        let config = Arc::new(config.validate().map_err(unreachable)?);
        let (started, starts) = mpsc::channel();
        let (log, machine, to_others) = (kept.clone(), kept.clone(), network.clone());
        runtime.spawn(async move {
            // Nobody waits only where the one who waits has panicked.
            let _ = started.send(Raft::new(me.0, config, to_others, log, machine).await);
        });
        let raft = starts.recv().map_err(unreachable)?.map_err(unreachable)?;
        let shared = Shared {
            me: me.0,
            raft,
            kept,
            network,
            patience,
        };
        Ok(Self {
            shared: Arc::new(shared),
            random: Mutex::new(random),
            runtime: Some(runtime),
        })
    }

    /// Founds a group of this machine alone; one that is in a group already stays in it.
    pub fn found(&self) -> Answer<'_, ()> {
        let shared = Arc::clone(&self.shared);
        self.run(async move {
            let me = BTreeMap::from([(shared.me, EmptyNode {})]);
            match shared.raft.initialize(me).await {
                Ok(()) | Err(RaftError::APIError(_)) => Ok(()),
                Err(fatal) => Err(unreachable(fatal)),
            }
        })
    }

    /// Makes these machines the group; those that are new must be reachable.
    pub fn set_voters(&self, machines: impl IntoIterator<Item = MachineId>) -> Answer<'_, ()> {
        let shared = Arc::clone(&self.shared);
        let voters = machines.into_iter().map(|machine| machine.0).collect();
        self.run(async move {
            match shared.ask_leader(Ask::Voters(voters)).await? {
                Told::Voters => Ok(()),
                other => Err(out_of_turn(&other)),
            }
        })
    }

    /// The answer to a question that another machine of the group has sent. Only machines of the
    /// cluster may be let through to here.
    pub fn serve(&self, question: &[u8]) -> Answer<'_, Vec<u8>> {
        let asked = decode::<Ask>(question);
        let shared = Arc::clone(&self.shared);
        self.run(async move {
            let told = match asked {
                Ok(ask) => shared.answer(ask).await,
                Err(_) => Told::NotNow,
            };
            Ok(encode(&told))
        })
    }

    fn run<T: Send + 'static>(
        &self,
        request: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Answer<'_, T> {
        let runtime = self.runtime.as_ref();
        let runtime = runtime.expect("the runtime is there until the store is dropped");
        let running = runtime.spawn(request);
        Box::pin(async move {
            running
                .await
                .unwrap_or_else(|error| Err(unreachable(error)))
        })
    }
}

impl Drop for RaftStore {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Waiting for the thread is forbidden where the store is dropped by asynchronous code.
            runtime.shutdown_background();
        }
    }
}

impl ConfigStore for RaftStore {
    fn read(&self) -> Answer<'_, Option<Configuration>> {
        let shared = Arc::clone(&self.shared);
        self.run(async move {
            let Told::Current(sealed) = shared.ask_leader(Ask::Read).await? else {
                return Err(out_of_turn(&"a read"));
            };
            let unsealed = sealed
                .map(|sealed| Configuration::unseal(&sealed))
                .transpose();
            unsealed.map_err(|what| StoreError::Damaged {
                place: "the store of the machines".to_owned(),
                what,
            })
        })
    }

    fn compare_and_swap<'a>(
        &'a self,
        expected: Option<ConfigurationId>,
        new: &'a Configuration,
    ) -> Answer<'a, Swapped> {
        if new.id() != expected.map_or(ConfigurationId::FIRST, ConfigurationId::next) {
            return Box::pin(async { Err(StoreError::OutOfOrder(new.id())) });
        }
        let change = Change {
            token: self.random.lock().next_u64(),
            expected: expected.map(|id| id.0),
            new: new.seal(),
        };
        let (shared, ours) = (Arc::clone(&self.shared), new.cluster());
        self.run(async move {
            match shared.ask_leader(Ask::Swap(change)).await? {
                Told::Swapped(Applied::Won) => Ok(Swapped::Won),
                Told::Swapped(Applied::Lost) => Ok(Swapped::Lost),
                Told::Swapped(Applied::OtherCluster(theirs)) => Err(StoreError::OtherCluster {
                    theirs: ClusterId(theirs),
                    ours,
                }),
                other => Err(out_of_turn(&other)),
            }
        })
    }
}

impl Shared {
    /// Puts a question to whoever leads, until it is answered or patience ends.
    async fn ask_leader(&self, ask: Ask) -> Result<Told, StoreError> {
        let asked = tokio::time::timeout(self.patience, async {
            loop {
                let told = match self.raft.current_leader().await {
                    None => Told::NotNow,
                    Some(leader) if leader == self.me => self.answer(ask.clone()).await,
                    Some(leader) => self.network.ask(leader, &ask).await.unwrap_or(Told::NotNow),
                };
                match told {
                    Told::NotNow => tokio::time::sleep(HEARTBEAT).await,
                    told => return told,
                }
            }
        });
        asked
            .await
            .map_err(|_| StoreError::Unreachable("no majority leads".to_owned()))
    }

    /// Answers a question; one for the leader, only if this machine leads.
    async fn answer(&self, ask: Ask) -> Told {
        match ask {
            Ask::Append(request) => Told::Append(self.raft.append_entries(request).await),
            Ask::Vote(request) => Told::Vote(self.raft.vote(request).await),
            Ask::Snapshot(request) => Told::Snapshot(self.raft.install_snapshot(request).await),
            Ask::Read => match self.raft.ensure_linearizable().await {
                Ok(_) => Told::Current(self.kept.current()),
                Err(_) => Told::NotNow,
            },
            Ask::Swap(change) => match self.raft.client_write(change).await {
                Ok(written) => Told::Swapped(written.data),
                Err(_) => Told::NotNow,
            },
            Ask::Voters(voters) => self.change_voters(voters).await,
        }
    }

    async fn change_voters(&self, voters: BTreeSet<NodeId>) -> Told {
        for voter in &voters {
            // A learner first, so that the group waits for nobody who has to catch up.
            if self
                .raft
                .add_learner(*voter, EmptyNode {}, true)
                .await
                .is_err()
            {
                return Told::NotNow;
            }
        }
        match self.raft.change_membership(voters, false).await {
            Ok(_) => Told::Voters,
            Err(_) => Told::NotNow,
        }
    }
}

fn unreachable(error: impl std::fmt::Display) -> StoreError {
    StoreError::Unreachable(error.to_string())
}

fn out_of_turn(told: &dyn std::fmt::Debug) -> StoreError {
    StoreError::Unreachable(format!("an answer to something else: {told:?}"))
}
