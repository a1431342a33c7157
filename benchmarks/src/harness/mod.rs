//! The harness: runs any [`Workload`] on some threads for some seconds and reports what happened.
//!
//! ```text
//!   prepare ──► clients, one a thread ──► warm-up ──► measured seconds ──► verify ──► report
//!                 generate, execute,                    a line each second
//!                 execute again on conflict
//! ```
//!
//! # Invariants
//! * BENCH-1: a request that conflicts is run again as it is: a retry never draws other keys, which
//!   would flatter contention.
//! * BENCH-2: only what committed counts as committed; requests that the workload answers "no" (a
//!   missing row, say) are attempted, not committed.
//! * BENCH-3: every run ends with the workload's own check of the data.

mod meter;
mod progress;
mod report;
mod run;
mod workload;

pub use report::{Facts, Latency, Report};
pub use run::{RunOptions, run};
pub use workload::{Attempt, Client, Counters, Workload};
