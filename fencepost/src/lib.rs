//! Fencepost, the engine as a library: an SQL database inside a Rust program.
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
//!
//! # How do I open a database?
//!
//! | Call | The data |
//! |---|---|
//! | [`Database::in_memory`] | Is lost when the process ends |
//! | [`Database::open`] | Survives power loss: a commit is on disk before it is reported |
//! | [`Database::join`] | Belongs to [several machines](#how-do-i-run-several-machines) |
//! | [`Database::options`] | As the [`Options`] say |
//!
//! All data is in memory in each case, so it must fit there. A directory is of one process at a
//! time.
//!
//! ```
//! use fencepost::Database;
//!
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path();
//! let db = Database::options()
//!     .data_dir(path)
//!     .memory_limit(8 << 30)
//!     .open()?;
//! # db.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Which session do I use?
//!
//! Each task or thread has a session of its own, and clones of the [`Database`] lead to the same
//! data. A [`BlockingSession`] blocks its thread until a statement is complete. A [`Session`] is
//! for async code, on any executor:
//!
//! ```
//! use fencepost::{Database, Error};
//!
//! async fn answer(db: &Database) -> Result<i32, Error> {
//!     let mut session = db.session();
//!     session.query_one("SELECT 6 * 7", &[]).await?.get(0)
//! }
//!
//! let db = Database::in_memory()?;
//! assert_eq!(pollster::block_on(answer(&db))?, 42);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Both sessions above are of the superuser `postgres`. [`Database::session_with`] opens a session
//! of another role, in another database, or with other settings.
//!
//! # How do I create tables?
//!
//! With the SQL of PostgreSQL. `batch` runs several statements, as one transaction:
//!
//! ```
//! # let db = fencepost::Database::in_memory()?;
//! db.blocking().batch(
//!     "CREATE TABLE account (id int PRIMARY KEY, owner text NOT NULL, cents bigint NOT NULL);
//!      CREATE INDEX ON account (owner);",
//! )?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How do I pass parameters and read rows?
//!
//! `$1`, `$2` and so on are the values of [`params!`]. A value is converted to the type of its
//! parameter. [`Row::get`] reads a column by name or by position; [`FromValue`] has the table of
//! types. A statement that many calls share is prepared once:
//!
//! ```
//! use fencepost::{Database, params};
//!
//! # let db = Database::in_memory()?;
//! # let mut session = db.blocking();
//! # session.batch("CREATE TABLE account (id int PRIMARY KEY, owner text, cents bigint)")?;
//! let insert = session.prepare("INSERT INTO account VALUES ($1, $2, $3)")?;
//! session.execute(&insert, params![1, "Ada", 500])?;
//! session.execute(&insert, params![2, None::<String>, 700])?;
//! for row in session.query("SELECT * FROM account WHERE cents > $1", params![100])? {
//!     let (id, owner): (i32, Option<String>) = (row.get("id")?, row.get("owner")?);
//!     println!("{id} {owner:?} {}", row.get::<i64>("cents")?);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How do I run a transaction?
//!
//! `transaction` begins a block, runs a closure, and commits. If the closure fails, it rolls back.
//! After a conflict (40001) or a deadlock (40P01) it runs the closure again, so the closure has no
//! effects outside the database.
//!
//! ```
//! use fencepost::{Database, params};
//!
//! # let db = Database::in_memory()?;
//! # let mut session = db.blocking();
//! # session.batch("CREATE TABLE account (id int PRIMARY KEY, cents bigint);
//! #     INSERT INTO account VALUES (1, 500), (2, 700)")?;
//! session.execute("SET default_transaction_isolation = 'serializable'", &[])?;
//! session.transaction(|tx| {
//!     tx.execute("UPDATE account SET cents = cents - $1 WHERE id = 1", params![50])?;
//!     tx.execute("UPDATE account SET cents = cents + $1 WHERE id = 2", params![50])
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | The transaction | Its level | After a conflict |
//! |---|---|---|
//! | A statement outside a block | SERIALIZABLE | The session runs it again |
//! | `batch` outside a block | The default | The session runs it again |
//! | [`Session::transaction`] | SERIALIZABLE | The session runs the closure again |
//! | [`BlockingSession::transaction`] | The default | The session runs the closure again |
//! | `BEGIN` … `COMMIT` | That of `BEGIN`, or the default | The caller begins again |
//!
//! The default is the setting `default_transaction_isolation`: READ COMMITTED, unless the session,
//! its role or its database changes it.
//!
//! # How do I handle errors?
//!
//! A statement fails with an [`Error`], whose [`code`](Error::code) is PostgreSQL's SQLSTATE:
//!
//! | SQLSTATE | Do this |
//! |---|---|
//! | 40001, 40P01: [`Error::is_retryable`] | Begin the whole transaction again |
//! | 23505, 23503, 23514 and other errors of the statement | Report the error to the user |
//! | 25P02: the block has failed before | `ROLLBACK` |
//! | 55P03: `lock_timeout`, or NOWAIT | Begin again later |
//! | 57014: cancelled, or `statement_timeout` | Begin again later |
//! | 53200, 53100: memory limit, full disk | Begin again once there is space; reads go on |
//! | 58030: the log has failed | Open the database again |
//! | 08007: the outcome of the commit is unknown | Look at the rows before beginning again |
//! | 57P03: the cluster goes on without this machine | Close the database |
//!
//! ```
//! use fencepost::{Database, SqlState, params};
//!
//! # let db = Database::in_memory()?;
//! let mut session = db.blocking();
//! session.batch("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1)")?;
//! let error = session.execute("INSERT INTO t VALUES ($1)", params![1]).unwrap_err();
//! assert_eq!(error.code(), SqlState::UNIQUE_VIOLATION);
//! assert_eq!(error.report().fields().constraint.as_deref(), Some("t_pkey"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Outside a block a failed statement has no effect, and the session goes on. In a block, only
//! `ROLLBACK` and `ROLLBACK TO SAVEPOINT` run after an error.
//!
//! # How do I load many rows?
//!
//! With COPY, in PostgreSQL's text, CSV or binary format. The data may be one slice, or pieces of
//! any length ([`CopyIn`]).
//!
//! ```
//! # let db = fencepost::Database::in_memory()?;
//! # pollster::block_on(async {
//! let mut session = db.session();
//! session.execute("CREATE TABLE t (a int PRIMARY KEY, b text)", &[]).await?;
//! let rows = session.copy_in("COPY t FROM STDIN", b"1\tone\n2\ttwo\n").await?;
//! assert_eq!(rows, 2);
//! let csv = session.copy_out("COPY t TO STDOUT (FORMAT csv)").await?;
//! assert_eq!(csv, b"1,one\n2,two\n");
//! # Ok::<(), fencepost::Error>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How do sessions notify each other?
//!
//! A session that has run LISTEN receives the notifications of commits, on all machines:
//!
//! ```
//! # let db = fencepost::Database::in_memory()?;
//! let (mut worker, mut other) = (db.blocking(), db.blocking());
//! worker.execute("LISTEN jobs", &[])?;
//! other.execute("NOTIFY jobs, '42'", &[])?;
//! let told = worker.take_notifications();
//! assert_eq!(told[0].notification.payload, "42");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Async code waits for the next one with [`Session::poll_notified`].
//!
//! # How do I limit and cancel statements?
//!
//! `lock_timeout` ends a wait for a lock with 55P03. `statement_timeout` ends a statement with
//! 57014, but not its wait for a row. [`CancelToken::cancel`] ends the running statement of a
//! session from another thread. A future of a [`Session`] may also be dropped: see [`Session`] for
//! the next step.
//!
//! # How do I serve PostgreSQL clients, too?
//!
//! The crate `fencepost_pgserver` serves an open database over the wire protocol, on threads of
//! its own. `psql`, drivers and `fencepost backup` then connect to it.
//!
//! ```ignore
//! let server = fencepost_pgserver::listen(&db, "127.0.0.1:5433")?;
//! println!("listening on {}", server.local_addr());
//! ```
//!
//! # How do I run several machines?
//!
//! Several processes, of one host or of several, form one database. Each opens it with a
//! [`Cluster`], and each has sessions as above:
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use fencepost::{Cluster, Database};
//!
//! # let secret = [0; 32];
//! let addresses = ["db1:7001", "db2:7001", "db3:7001"].map(String::from).to_vec();
//! let cluster = Cluster::of_network(addresses, 1, secret)
//!     .replicas(3)
//!     .lease(Duration::from_millis(2000));
//! let db = Database::options().cluster(cluster).open()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How do I take a backup?
//!
//! `fencepost backup` writes one snapshot of a database that is served over the wire protocol. The
//! library itself exports single tables with [`Session::copy_out`]; inside one block at REPEATABLE
//! READ they are of one snapshot. [`check()`] verifies all tables and indexes of a database without
//! other users.
//!
//! # How do I close a database?
//!
//! [`Database::close`] makes all commits durable, and reports whether that has succeeded. End the
//! sessions before.
//!
//! ```
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path();
//! let db = fencepost::Database::open(path)?;
//! db.blocking().execute("CREATE TABLE t (a int)", &[])?;
//! db.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Which features does the crate have?
//!
//! | Feature | Adds |
//! |---|---|
//! | `analytics` (default) | Large joins, aggregates and sorts run on DataFusion's operators |
//! | `raft` | Machines of a cluster keep their configuration themselves |
//! | `zookeeper` | Machines of a cluster keep their configuration in a ZooKeeper ensemble |

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
mod patience;
mod prepare_pipeline;
mod prepared;
mod raft_store;
mod reclaimer;
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
mod table_statistics;
mod zookeeper_store;

pub use blocking::BlockingSession;
pub use cancels::CancelHook;
pub use channels::ReceivedNotification;
pub use check::{CheckReport, check};
pub use cluster::Cluster;
pub use configuration::{ConfigurationSource, SettingValues, settings_of};
pub use database::{DATABASE_NAME, Database};
pub use error::{Error, OpenError};
pub use fencepost_planner::{FlushFuture, MemorySink, Notice, RowSink, Tag};
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
pub use prepare_pipeline::StatementSyntax;
pub use prepared::{Column, Portal, PreparedStatement};
pub use row::{FromValue, Row, RowIndex, ToValue};
pub use saves::{LoadReport, SaveEnd, SaveError, Saver};
pub use session::{
    CancelToken, Completion, CopyIn, Query, Session, SessionOptions, Statement, TransactionBody,
    TxStatus,
};
pub use ship::{ShipCounts, ShippedResults};
