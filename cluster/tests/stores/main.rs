//! Tests of each kind of store: the invariants of all stores, and the faults of each kind.

mod conformance;
mod host;
mod local;
#[cfg(feature = "zookeeper")]
mod proxy;
#[cfg(feature = "raft")]
mod raft;
#[cfg(feature = "zookeeper")]
mod zookeeper;
