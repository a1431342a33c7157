//! The kinds of stores, each against one test of what a store promises, and against its own faults.

mod conformance;
mod host;
mod local;
#[cfg(feature = "zookeeper")]
mod proxy;
#[cfg(feature = "raft")]
mod raft;
#[cfg(feature = "zookeeper")]
mod zookeeper;
