//! Log lines about clients: connections, errors, statements and their durations.
//!
//! ```text
//!   settings ──> LogStyle (of a session) ──> line selected? ──> Entry ──> emit: one tracing event
//! ```
//! This module creates the text of a line in PostgreSQL's form. The subscriber decides the layout
//! and the destination. All events have the target [`TARGET`] and the fields that [`emit`] lists.
//! Secrets are masked before they leave this module ([`secrets`]).
//!
//! Invariant LOG-1: a session without statement logging reads one flag of its own for each
//! statement.

mod client;
mod emit;
mod secrets;
mod statement;
mod style;

pub(crate) use client::{Client, Peer};
pub(crate) use emit::{Entry, Severity, emit};
pub(crate) use statement::{Phase, StatementFields, StatementTimer, parameters};
pub(crate) use style::LogStyle;

/// The target of all events about clients.
pub(crate) const TARGET: &str = "fencepost::client";
