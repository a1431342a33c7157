//! The harness: it runs any [`Workload`] on some threads for some seconds and reports the results.
//!
//! ```text
//!   prepare ──► clients, one a thread ──► warm-up ──► measured seconds ──► verify ──► report
//!                 generate, execute,                    a line each second
//!                 execute again on conflict
//! ```
//!
//! # Invariants
//! * BENCH-1: a request that conflicts is run again unchanged. A retry never draws other keys,
//!   which would hide contention.
//! * BENCH-2: only committed requests count as committed. Requests that the data refuses (a missing
//!   row, for example) are attempted, not committed.
//! * BENCH-3: every run ends with the workload's own check of the data.

mod meter;
mod progress;
mod report;
mod run;
mod workload;

pub use report::{Latency, Report, RunParameters};
pub use run::{RunOptions, run};
pub use workload::{Attempt, Client, Counters, Workload};
