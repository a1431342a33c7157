//! Whole Fencepost clusters in one thread and virtual time, from one seed, and the checkers of what their
//! clients saw.
//!
//! # Picture
//! ```text
//!  seed ─► plan ─► cluster over SimNet ─► world made ─► clients ─► at rest ─► checkers ─► summary
//!                     │                                   │
//!                  executor: tasks, drive(), virtual time  └─ history: what each transaction saw
//! ```
//! * [`executor`], [`sim`]: tasks, time, who goes on when.
//! * [`plan`], [`cluster`], [`world`]: what a seed makes of a run.
//! * [`schema`]: the catalog of a run's tables.
//! * [`workload`], [`attempt`]: random transactions, and what is written down of them.
//! * [`history`], [`checker`], [`snapshots`], [`lists`]: what must hold of what they saw.
//! * [`levels`]: what each isolation level forbids, in runs of transactions of different levels.
//! * [`appends`]: the same for clients of real processes, who know no timestamps.
//! * [`faults`], [`doom`]: what goes wrong, and machines that crash; [`newcomer`]: machines that join.
//! * [`rest`]: what must hold when all is over; `leases`: who may be suspected.
//!
//! The code under test is the code that ships: machines, transactions and indexes do not know where they
//! run.
//!
//! *Failure.* A run that finds something says what, and its seed replays it bit for bit.

pub mod appends;
pub mod attempt;
pub mod checker;
pub mod cluster;
pub mod doom;
pub mod executor;
pub mod faults;
pub mod history;
mod host;
mod leases;
pub mod levels;
pub mod lists;
pub mod newcomer;
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

pub use run::{Met, Recorded, Summary, record, run};
