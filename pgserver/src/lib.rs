//! The PostgreSQL wire protocol in front of a database: [`listen`] and what it needs.
//!
//! ```text
//!   server ── accepts ──> worker (a thread, a runtime) ── task ──> connection
//!     connection: opening (TLS, log-in) ──> dialogue (messages) ──> engine (fencepost)
//!     proto: bytes <-> messages, no I/O          io: buffers and socket
//! ```
//!
//! A connection is one task on one worker. It reads what the socket has, handles every whole
//! message in it, gathers the replies in one buffer and sends that once (CONN-1). Only
//! `engine.rs` calls the engine.

#![forbid(unsafe_code)]

mod auth;
mod cancel;
mod connection;
mod engine;
mod io;
mod lanes;
mod options;
pub mod proto;
mod random;
mod server;
mod socket;
mod tls;
mod worker;

pub use options::{AuthMode, ListenOptions, TlsOptions};
pub use server::{ListenError, Server, listen};
