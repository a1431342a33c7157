//! Where the current configuration is kept: one value that changes only by compare-and-swap.
//!
//! *What.* Written once a configuration change and read by those who start; leases, failure
//! detection and recovery never come here. The kinds: `local` for one process, `host` for those of a host, `raft` for a cluster
//! that needs no other product, `zookeeper` for those who run one.
//!
//! *Invariants* that every kind keeps, and one test over all kinds watches:
//! 1. STORE-1: of the writers that expect one configuration at most one wins.
//! 2. STORE-2: whoever has read a configuration never reads an older one, here or after a restart.
//! 3. STORE-3: a store keeps to one cluster, and its configurations are numbered without gaps, from the first that it has.
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

/// Why the store did not do what it was asked.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The store does not answer: ask again later.
    #[error("the store of the configuration does not answer: {0}")]
    Unreachable(String),
    /// The disk failed: stop, and find out at the next start what it has kept.
    #[error("{file}: {error}")]
    Disk {
        /// The file in question.
        file: String,
        /// What the disk said.
        error: io::Error,
    },
    /// What is stored is damaged: do not start.
    #[error("{place}: not a configuration: {what}")]
    Damaged {
        /// The file or node.
        place: String,
        /// What is wrong with it.
        what: DecodeError,
    },
    /// The store belongs to another cluster: stop.
    #[error("the store belongs to cluster {theirs}, this is cluster {ours}")]
    OtherCluster {
        /// Whose configuration is stored.
        theirs: ClusterId,
        /// Whose configuration was to be stored.
        ours: ClusterId,
    },
    /// The new configuration does not follow the expected one; the caller is at fault.
    #[error("configuration {0} does not follow the expected one")]
    OutOfOrder(ConfigurationId),
}

/// How a compare-and-swap ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swapped {
    /// The new configuration is the current one.
    Won,
    /// The expected configuration was not the current one: read, and think again.
    Lost,
}

/// What a store answers with, later.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// One place for the current configuration; the kind is chosen when the program starts.
pub trait ConfigStore: Send + Sync {
    /// The current configuration; `None` before there was a first one.
    fn read(&self) -> Answer<'_, Option<Configuration>>;

    /// Makes `new` the current configuration if `expected` still is; `None` expects that there has
    /// never been one, and `new` may be of any number then: of a database that has outlived its store.
    fn compare_and_swap<'a>(
        &'a self,
        expected: Option<ConfigurationId>,
        new: &'a Configuration,
    ) -> Answer<'a, Swapped>;
}

/// Whether `new` may take the place of `current` for a writer that expected `expected`.
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
