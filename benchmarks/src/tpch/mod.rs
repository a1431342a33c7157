//! TPC-H: eight tables and 22 queries over them, on one server or on two servers in turn.
//!
//! ```text
//! load ── tables, COPY, indexes, foreign keys, ANALYZE ──► each server
//! run  ── for each query: a warm-up and rounds, server after server ──► answers, times
//! answers ── canonical form ──► digest ──► recorded digest, and the other server's answer
//! ```
//!
//! The crate `tpchgen` generates the rows of the specification's `dbgen`, byte for byte. The
//! queries have the specification's validation parameters.
//!
//! # Failure
//! A query that fails, exceeds the time limit or has a wrong answer is part of the report, and the
//! other queries still run.
//!
//! # Not done
//! The refresh functions and the throughput test of the specification: the figures are no official
//! results.

mod load;
mod queries;
mod recorded;
mod run;

pub use load::LoadMode;
pub use recorded::digests;
pub use run::{RecordedAnswers, TpchOptions, run};
