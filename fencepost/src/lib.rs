//! Fencepost, the engine as a library.
//!
//! ```
//! use fencepost::{Database, params};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let db = Database::in_memory()?;
//! let mut session = db.blocking();
//! session.execute("CREATE TABLE t (a int PRIMARY KEY, b text)", &[])?;
//! session.execute("INSERT INTO t VALUES ($1, $2)", params![1, "one"])?;
//! let row = session.query_one("SELECT b FROM t WHERE a = $1", params![1])?;
//! assert_eq!(row.get::<String>("b")?, "one");
//! # Ok(())
//! # }
//! ```
//!
//! A [`Database`] is a handle to share; a [`Session`] runs one user's statements. All futures are
//! `Send` and need no particular runtime.

#![forbid(unsafe_code)]

mod advisory;
mod alarm;
mod blocking;
mod bootstrap;
mod cache;
mod cancels;
mod channels;
mod check;
mod cluster;
mod configuration;
mod conflict;
mod counters;
mod database;
mod databases;
mod disks;
mod error;
mod kind;
mod lock_wait;
mod membership;
mod metrics;
mod options;
mod prepare_pipeline;
mod prepared;
mod raft_store;
mod restart;
mod retry_turns;
mod row;
mod saves;
mod services;
mod session;
mod sessions;
mod ship;
mod snapshots;
mod statistics;
mod sweeper;
mod zookeeper_store;

pub use blocking::BlockingSession;
pub use cancels::CancelHook;
pub use channels::Notified;
pub use check::{Checked, check};
pub use cluster::Cluster;
pub use configuration::{ConfigurationSource, SettingValues, settings_of};
pub use database::{DATABASE_NAME, Database};
pub use error::{Error, OpenError};
pub use fencepost_planner::{Collected, Flushed, Notice, RowSink, Tag};
pub use fencepost_sql::catalog::RoleDef;
pub use fencepost_sql::encoding::Encoding;
pub use fencepost_sql::error::{SqlError, SqlState};
pub use fencepost_sql::notify::Notification;
pub use fencepost_sql::password::{ITERATIONS as PASSWORD_ITERATIONS, Verifier};
pub use fencepost_sql::settings::{ServerSettings, Settings};
pub use fencepost_sql::types::{self, Type, TypeKind};
pub use fencepost_sql::value::Value;
pub use kind::StatementKind;
pub use lock_wait::LockWait;
pub use metrics::{Metric, MetricKind, Sample};
pub use options::{Durability, Options};
pub use prepare_pipeline::Parsed;
pub use prepared::{Column, Portal, Prepared};
pub use row::{FromValue, Row, RowIndex, ToValue};
pub use saves::{Loaded, SaveEnd, SaveError, Saver};
pub use session::{
    CancelToken, Completion, CopyIn, Query, Session, SessionOptions, Statement, TransactionBody,
    TxStatus,
};
pub use ship::{Shipped, ShippedResults};
