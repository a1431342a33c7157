//! The store of the current configuration: one value that changes only by compare-and-swap.
//!
//! *Purpose.* The store is written once a configuration change and read by starting machines.
//! Leases, failure detection and recovery never use it. The kinds are `local` for one process and
//! `host` for the processes of one host. For clusters they are `raft`, which needs no other
//! product, and `zookeeper`.
//!
//! *Invariants.* Every kind keeps them, and one test checks them for all kinds:
//! 1. STORE-1: of the writers that expect the same configuration at most one wins.
//! 2. STORE-2: a reader of a configuration never reads an older one later, also after a restart.
//! 3. STORE-3: a store holds configurations of one cluster, numbered without gaps from its first
//!    one.
//!
//! *Concurrency.* Any number of tasks may use a store at once, on any executor.
//!
//! *Failure.* After an error the change may have happened or not: read again before deciding.

pub(crate) mod file;
pub mod host;
pub mod local;
#[cfg(feature = "raft")]
pub mod raft;
#[cfg(feature = "zookeeper")]
pub mod zookeeper;

use std::future::Future;
use std::io;
use std::pin::Pin;

use thiserror::Error;

use crate::codec::DecodeError;
use crate::configuration::Configuration;
use crate::ids::{ClusterId, ConfigurationId};

/// The reason why the store did not carry out a request.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The store does not answer: ask again later.
    #[error("the store of the configuration does not answer: {0}")]
    Unreachable(String),
    /// The disk failed: stop, and read at the next start which content it has kept.
    #[error("{file}: {error}")]
    Disk {
        /// The file that was read or written.
        file: String,
        /// The error of the disk.
        error: io::Error,
    },
    /// The stored configuration is damaged: do not start.
    #[error("{place}: not a configuration: {what}")]
    Damaged {
        /// The file or node.
        place: String,
        /// The kind of damage.
        what: DecodeError,
    },
    /// The store belongs to another cluster: stop.
    #[error("the store belongs to cluster {theirs}, this is cluster {ours}")]
    OtherCluster {
        /// The cluster of the stored configuration.
        theirs: ClusterId,
        /// The cluster of the configuration to store.
        ours: ClusterId,
    },
    /// The new configuration does not follow the expected one; the caller is at fault.
    #[error("configuration {0} does not follow the expected one")]
    OutOfOrder(ConfigurationId),
}

/// The outcome of a compare-and-swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwapOutcome {
    /// The new configuration is the current one.
    Won,
    /// The expected configuration was not the current one: read, and decide again.
    Lost,
}

/// The future answer of a store.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A store of the current configuration; its kind is chosen when the program starts.
pub trait ConfigStore: Send + Sync {
    /// Returns the current configuration; `None` before the first one is stored.
    fn read(&self) -> Answer<'_, Option<Configuration>>;

    /// Makes `new` the current configuration if `expected` still is. `None` expects that no
    /// configuration has ever been stored. Then `new` may have any number, because a database may
    /// outlive its store.
    fn compare_and_swap<'a>(
        &'a self,
        expected: Option<ConfigurationId>,
        new: &'a Configuration,
    ) -> Answer<'a, SwapOutcome>;
}

/// Returns whether `new` may replace `current` for a writer that expected `expected`.
fn follows(
    current: Option<&Configuration>,
    expected: Option<ConfigurationId>,
    new: &Configuration,
) -> Result<bool, StoreError> {
    if expected.is_some_and(|expected| new.id() != expected.next()) {
        return Err(StoreError::OutOfOrder(new.id()));
    }
    match current {
        Some(current) if current.cluster() != new.cluster() => Err(StoreError::OtherCluster {
            theirs: current.cluster(),
            ours: new.cluster(),
        }),
        current => Ok(current.map(Configuration::id) == expected),
    }
}
