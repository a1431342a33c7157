//! A store in one node of a ZooKeeper ensemble, as in SOSP'15: set on condition of its version.
//!
//! *Invariants.* A read first asks the ensemble to sync, so it sees every change that ended before
//! the read began, whichever server answers (STORE-2).
//!
//! *Concurrency.* The store has its own thread for its session, so its answers may be awaited on
//! any executor.
//!
//! *Failure.* A request whose answer was lost may have been carried out. The swap then reads: if
//! its own configuration is the current one, it has won. The number of attempts is bounded. A new
//! session replaces an expired one.

mod join_messages;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use fencepost_fabric::entropy_seed;
use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, Error};

pub use join_messages::ZookeeperJoinMessages;

use super::{Answer, ConfigStore, StoreError, SwapOutcome, follows};
use crate::configuration::Configuration;
use crate::ids::ConfigurationId;

/// The number of attempts before the ensemble counts as unreachable.
const TRIES: u32 = 5;

/// The configuration store in a ZooKeeper ensemble.
pub struct ZookeeperStore {
    shared: Arc<Shared>,
    /// `None` only after the store is dropped.
    runtime: Option<Runtime>,
}

struct Shared {
    ensemble: String,
    node: String,
    patience: Duration,
    session: Mutex<Option<Client>>,
}

impl ZookeeperStore {
    /// Returns the store in `node` (such as `/fencepost/configuration`) of the ensemble at
    /// `ensemble` (`host:port,host:port`). Each of a few attempts waits for at most `patience`.
    ///
    /// # Errors
    /// [`StoreError::Unreachable`] if the store's thread cannot be started. The ensemble is
    /// contacted at the first request.
    pub fn new(ensemble: &str, node: &str, patience: Duration) -> Result<Self, StoreError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("zookeeper")
            .enable_all()
            .build()
            .map_err(|error| StoreError::Unreachable(error.to_string()))?;
        let shared = Shared {
            ensemble: ensemble.to_owned(),
            node: node.to_owned(),
            patience,
            session: Mutex::new(None),
        };
        Ok(Self {
            shared: Arc::new(shared),
            runtime: Some(runtime),
        })
    }

    /// Returns the join messages in a node of the same ensemble; valid as long as the store exists.
    pub fn join_messages(&self, node: &str) -> ZookeeperJoinMessages {
        let runtime = self.runtime().handle().clone();
        ZookeeperJoinMessages::new(Arc::clone(&self.shared), node, runtime)
    }

    /// Creates a node; the answer is whether this process has created it.
    pub fn take_place(&self, node: &str) -> Answer<'static, bool> {
        let (shared, node) = (Arc::clone(&self.shared), node.to_owned());
        self.run(async move { shared.take_place(&node).await })
    }

    /// Removes a node that this process has created and that is no longer needed.
    pub fn give_place_back(&self, node: &str) -> Answer<'static, ()> {
        let (shared, node) = (Arc::clone(&self.shared), node.to_owned());
        self.run(async move { shared.give_place_back(&node).await })
    }

    fn runtime(&self) -> &Runtime {
        let runtime = self.runtime.as_ref();
        runtime.expect("the runtime is there until the store is dropped")
    }

    fn run<T: Send + 'static>(
        &self,
        request: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Answer<'static, T> {
        let running = self.runtime().spawn(request);
        Box::pin(async move {
            let ended = running.await;
            ended.unwrap_or_else(|error| Err(StoreError::Unreachable(error.to_string())))
        })
    }
}

impl Drop for ZookeeperStore {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A store that asynchronous code drops must not block until the thread ends.
            runtime.shutdown_background();
        }
    }
}

impl ConfigStore for ZookeeperStore {
    fn read(&self) -> Answer<'_, Option<Configuration>> {
        let shared = Arc::clone(&self.shared);
        self.run(async move {
            let current = shared.read().await?;
            Ok(current.map(|(configuration, _)| configuration))
        })
    }

    fn compare_and_swap<'a>(
        &'a self,
        expected: Option<ConfigurationId>,
        new: &'a Configuration,
    ) -> Answer<'a, SwapOutcome> {
        let (shared, new) = (Arc::clone(&self.shared), new.clone());
        self.run(async move { shared.swap(expected, new).await })
    }
}

impl Shared {
    /// Reads the current configuration and the version of its node.
    async fn read(&self) -> Result<Option<(Configuration, i32)>, StoreError> {
        let mut failure = Error::Timeout;
        for _ in 0..TRIES {
            let asked = self.ask(|client| async move {
                client.sync(&self.node).await?;
                client.get_data(&self.node).await
            });
            match asked.await {
                Ok((bytes, stat)) => return Ok(Some((self.unseal(&bytes)?, stat.version))),
                Err(Error::NoNode) => return Ok(None),
                Err(error) => failure = error,
            }
        }
        Err(self.unreachable(failure))
    }

    async fn swap(
        &self,
        expected: Option<ConfigurationId>,
        new: Configuration,
    ) -> Result<SwapOutcome, StoreError> {
        let sealed = new.seal();
        let mut failure = None;
        for _ in 0..TRIES {
            let current = self.read().await?;
            if failure.is_some() && current.as_ref().is_some_and(|(stored, _)| *stored == new) {
                return Ok(SwapOutcome::Won);
            }
            if !follows(current.as_ref().map(|(stored, _)| stored), expected, &new)? {
                return Ok(SwapOutcome::Lost);
            }
            let written = match current {
                Some((_, version)) => self.set(&sealed, version).await,
                None => self.create(&sealed).await,
            };
            match written {
                Ok(()) => return Ok(SwapOutcome::Won),
                Err(Error::BadVersion | Error::NodeExists) if failure.is_none() => {
                    return Ok(SwapOutcome::Lost);
                }
                // Either the answer was lost, or the answer is to a request that was sent twice.
                Err(error) => failure = Some(error),
            }
        }
        Err(self.unreachable(failure.unwrap_or(Error::Timeout)))
    }

    async fn set(&self, sealed: &[u8], version: i32) -> Result<(), Error> {
        let set = self.ask(|client| async move {
            client
                .set_data(&self.node, sealed, Some(version))
                .await
                .map(drop)
        });
        set.await
    }

    async fn create(&self, sealed: &[u8]) -> Result<(), Error> {
        self.make(&self.node, sealed).await
    }

    /// Creates a node and its missing parents.
    async fn make(&self, node: &str, bytes: &[u8]) -> Result<(), Error> {
        let made = self.ask(|client| async move {
            if let Some((parent, _)) = node.rsplit_once('/').filter(|(p, _)| !p.is_empty()) {
                client.mkdir(parent, &options()).await?;
            }
            client.create(node, bytes, &options()).await.map(drop)
        });
        made.await
    }

    async fn take_place(&self, node: &str) -> Result<bool, StoreError> {
        let mine = entropy_seed().to_le_bytes();
        let mut failure = Error::Timeout;
        for _ in 0..TRIES {
            match self.make(node, &mine).await {
                Ok(()) => return Ok(true),
                // An attempt whose answer was lost may have created it.
                Err(Error::NodeExists) => {
                    let there = self.ask(|client| async move { client.get_data(node).await });
                    match there.await {
                        Ok((there, _)) => return Ok(there == mine),
                        Err(error) => failure = error,
                    }
                }
                Err(error) => failure = error,
            }
        }
        Err(self.unreachable(failure))
    }

    async fn give_place_back(&self, node: &str) -> Result<(), StoreError> {
        let mut failure = Error::Timeout;
        for _ in 0..TRIES {
            let deleted = self.ask(|client| async move { client.delete(node, None).await });
            match deleted.await {
                // An attempt whose answer was lost may have deleted it.
                Ok(()) | Err(Error::NoNode) => return Ok(()),
                Err(error) => failure = error,
            }
        }
        Err(self.unreachable(failure))
    }

    /// Sends a request over the session, or over a new one if none is alive.
    async fn ask<T, F: Future<Output = Result<T, Error>>>(
        &self,
        request: impl FnOnce(Client) -> F,
    ) -> Result<T, Error> {
        let answered = tokio::time::timeout(self.patience, async {
            let client = self.client().await?;
            request(client).await
        });
        let answer = answered.await.unwrap_or(Err(Error::Timeout));
        if let Err(Error::SessionExpired | Error::ClientClosed | Error::NoHosts) = answer {
            *self.session.lock() = None;
        }
        answer
    }

    async fn client(&self) -> Result<Client, Error> {
        if let Some(client) = self.session.lock().clone() {
            return Ok(client);
        }
        let client = Client::connector().connect(&self.ensemble).await?;
        *self.session.lock() = Some(client.clone());
        Ok(client)
    }

    fn unseal(&self, bytes: &[u8]) -> Result<Configuration, StoreError> {
        Configuration::unseal(bytes).map_err(|what| StoreError::Damaged {
            place: format!("{} of {}", self.node, self.ensemble),
            what,
        })
    }

    fn unreachable(&self, error: Error) -> StoreError {
        StoreError::Unreachable(format!("{}: {error}", self.ensemble))
    }
}

fn options() -> CreateOptions<'static> {
    CreateMode::Persistent.with_acls(Acls::anyone_all())
}
