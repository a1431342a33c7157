//! Lines of the log about clients: connections, errors, statements and their durations.
//!
//! ```text
//!   settings ──> LogStyle (of a session) ──> is a line wanted? ──> Entry ──> emit: one tracing event
//! ```
//! The text of a line, as PostgreSQL has it, is made here; how lines look and where they go is the
//! subscriber's affair. All
//! events have the target [`TARGET`] and the fields that [`emit`] lists. Secrets are masked before
//! they leave
//! ([`secrets`]).
//!
//! Invariant LOG-1: a session of which nothing is logged pays one look at a flag of its own for
//! each statement.

mod client;
mod emit;
mod secrets;
mod statement;
mod style;

pub(crate) use client::{Client, Peer};
pub(crate) use emit::{Entry, Severity, emit};
pub(crate) use statement::{Line, Phase, Timed, parameters};
pub(crate) use style::LogStyle;

/// The target of all events about clients.
pub(crate) const TARGET: &str = "fencepost::client";
