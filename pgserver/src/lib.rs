//! The PostgreSQL wire protocol for a database: [`listen`] and its parts.
//!
//! # How do I serve a database?
//!
//! ```
//! use std::time::Duration;
//!
//! use fencepost::Database;
//! use fencepost_pgserver::listen;
//!
//! let database = Database::in_memory()?;
//! let server = listen(&database, "127.0.0.1:0")?;
//! println!("psql -h 127.0.0.1 -p {} -U postgres", server.local_addr().port());
//!
//! // At the end of the program:
//! let runtime = tokio::runtime::Builder::new_current_thread().build()?;
//! runtime.block_on(server.shutdown(Duration::from_secs(10)));
//! database.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The server has threads and runtimes of its own, so the program needs none. The program goes on
//! to use the database in its own sessions. A database may have several servers.
//!
//! # How do clients authenticate?
//!
//! | [`AuthMode`] | Clients of this host, Unix socket included | Clients of other hosts |
//! |---|---|---|
//! | `TrustLoopback`, the default | Trusted | SCRAM-SHA-256 |
//! | `Scram` | SCRAM-SHA-256 | SCRAM-SHA-256 |
//! | `Trust` | Trusted | Trusted |
//!
//! [`AccessRules`] decide in place of the mode, as PostgreSQL's `pg_hba.conf` does. Passwords are
//! those of the database's roles: `ALTER ROLE … PASSWORD`, and for a new database
//! [`fencepost::Options::superuser_password`]. [`TlsOptions`] turn TLS on.
//!
//! A client that is refused gets one of these errors, and the connection ends:
//!
//! | SQLSTATE | Cause |
//! |---|---|
//! | 28000 | No rule admits the client, TLS is required, or the role may not log in |
//! | 28P01 | The password is wrong |
//! | 3D000 | The database does not exist |
//! | 42501 | The role may not connect to the database |
//! | 53300 | Too many sessions: of the server, the role or the database |
//! | 08P01 | The client breaks the protocol |
//!
//! # How do I stop a server?
//!
//! [`Server::shutdown`] lets running statements finish within a limit. Dropping the [`Server`]
//! cancels them at once. The database stays open in both cases.
//!
//! # How do I monitor a server?
//!
//! [`Server::counts`] has the durations of statements, the errors and the connections;
//! [`fencepost::Database::metrics`] has all others. This crate has no HTTP endpoint: the program
//! `fencepost` renders both for Prometheus, under `--metrics-listen`. Lines of the log are events
//! of the crate `tracing`.
//!
//! # How does it work?
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
