//! Benchmarks: a harness and its workloads.
//!
//! ```text
//! options ──► harness ── prepare, generate, execute, verify ──► kv tatp bank smallbank orw tpcc
//!                │                                              │   │    │       │      │   │
//!             report (text, JSON)             native: transactions on hash tables and trees
//!                                             embedded, pg: SQL sessions (sql)
//! ```
//!
//! A workload is one folder. Every run ends with the workload's own check of its data. `failover`
//! has a run and a report of its own. `tpch` and `bulk` measure single statements (`compared`).

#![forbid(unsafe_code)]

pub mod bank;
pub mod bulk;
pub mod compared;
pub mod costs;
mod draw;
mod error;
pub mod failover;
pub mod harness;
pub mod kv;
mod named;
mod native;
pub mod null_server;
pub mod orw;
pub mod smallbank;
pub mod sql;
mod tally;
pub mod tatp;
pub mod tpcc;
pub mod tpch;
mod versioned;

pub use error::BenchError;
pub use named::{BenchOptions, Interface, Name, run_named};
pub use native::{ClusterOptions, FabricKind, Machines};
