//! Whole Fencepost clusters in one thread and virtual time, from one seed, and the checkers of
//! their clients' observations.
//!
//! # Picture
//! ```text
//!  seed ─► plan ─► cluster over SimNet ─► world made ─► clients ─► at rest ─► checkers ─► summary
//!                     │                                   │
//!                  executor: tasks, drive(), virtual time  └─ history: what each transaction saw
//! ```
//! * [`executor`], [`sim`]: tasks, time, scheduling.
//! * [`plan`], [`cluster`], [`world`]: the parameters, machines and data of a run, from its seed.
//! * [`schema`]: the catalog of a run's tables.
//! * [`workload`], [`attempt`]: random transactions, and the records of them.
//! * [`history`], [`checker`], [`snapshots`], [`lists`]: the checks of these records.
//! * [`levels`]: the anomalies that each isolation level forbids, in runs of transactions of
//!   different levels.
//! * [`appends`]: the same for clients of real processes, which know no timestamps.
//! * [`faults`], [`crash_state`]: faults, and machines that crash; [`joining_machine`]: machines
//!   that join.
//! * [`rest`]: the checks of the final state; `leases`: the checks of leases and suspicions.
//!
//! The tested code is the production code: machines, transactions and indexes do not know that they
//! are simulated.
//!
//! *Failure.* A run that finds a fault reports it, and its seed replays the run bit for bit.

pub mod appends;
pub mod attempt;
pub mod checker;
pub mod cluster;
pub mod crash_state;
pub mod executor;
pub mod faults;
pub mod history;
mod host;
pub mod joining_machine;
mod leases;
pub mod levels;
pub mod lists;
pub mod plan;
mod registrar;
pub mod rest;
pub mod run;
pub mod schema;
pub mod sim;
pub mod snapshots;
mod versions;
pub mod workload;
pub mod world;

pub use run::{RunRecord, SituationCounts, Summary, record, run};
