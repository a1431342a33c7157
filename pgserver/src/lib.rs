//! The PostgreSQL wire protocol in front of a database: [`listen`] and what it needs.
//!
//! ```text
//!   server ── accepts ──> worker (a thread, a runtime) ── task ──> connection
//!     connection: opening (TLS, log-in) ──> dialogue (messages) ──> engine (fencepost)
//!     proto: bytes <-> messages, no I/O          io: buffers and socket
//!                                                outbox: replies of several clients, sent together
//! ```
//!
//! A connection is one task on one worker. It reads what the socket has, handles every whole
//! message in it, and gathers the replies in one buffer (CONN-1), which goes out with those of the
//! other connections that were ready with it (outbox). Only `engine.rs` calls the engine.

#![forbid(unsafe_code)]

mod access;
mod auth;
mod cancel;
mod connection;
mod engine;
mod io;
mod lanes;
mod local;
mod log;
mod metrics;
mod options;
mod outbox;
pub mod proto;
mod random;
mod server;
mod socket;
mod tls;
mod worker;

pub use access::{AccessMethod, AccessRule, AccessRules, AccessType, RuleError, RuleText};
pub use metrics::Histogram;
pub use options::LocalOptions;
pub use options::{AuthMode, ListenOptions, TlsOptions};
pub use server::{ListenError, Server, ServerCounts, listen};
