//! Queries and statements that are measured on one server, or on two servers in turn.
//!
//! ```text
//! item ── warm-up, rounds: server after server ──▶ times ──▶ medians, ratio ─┐
//!                                                 answers ──▶ comparison ────┴▶ report
//! ```
//!
//! # Failure
//! An item that fails, exceeds the time limit or has a wrong answer is part of the report, and the
//! other items still run.

mod answer;
mod item;
mod measure;
mod report;
mod server;
mod source;

pub(crate) use answer::AnswerDigest;
#[cfg(test)]
pub(crate) use answer::{CanonicalAnswer, canonical_number};
pub(crate) use item::{ComparedItem, MeasuredWork};
pub(crate) use measure::measure;
pub use report::{AnswerCheck, ComparedReport, ItemOutcome, ItemReport};
pub(crate) use server::ComparedServer;
pub use source::ServerOptions;
