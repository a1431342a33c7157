//! The PostgreSQL wire protocol for a database: [`listen`] and its parts.
//!
//! ```text
//!   server ── accepts ──> worker (a thread, a runtime) ── task ──> connection
//!     connection: opening (TLS, log-in) ──> dialogue (messages) ──> engine (fencepost)
//!     proto: bytes <-> messages, no I/O          io: buffers and socket
//!                                                outbox: replies of several clients, sent together
//! ```
//!
//! A connection is one task on one worker. It reads the available bytes of the socket, handles
//! every complete message, and collects the replies in one buffer (CONN-1). The outbox sends the
//! replies of connections that were ready together. Only `engine.rs` calls the engine.

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
