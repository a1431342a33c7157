//! One interface to run SQL: on the embedded library in this process, or on any
//! PostgreSQL-compatible server.
//!
//! ```text
//!   workload ──► SqlSession ──┬── EmbeddedSession ──► fencepost::Session
//!                             └── PgSession ──► tokio-postgres ──► Fencepost, PostgreSQL, …
//! ```
//!
//! A session belongs to one thread and waits for each reply.

mod embedded;
mod load;
mod numeric;
mod pg;

use std::fmt;

use rust_decimal::Decimal;

use crate::error::BenchError;
use crate::harness::Attempt;
pub use embedded::Embedded;
pub(crate) use load::{copy_numbered, put};
pub use pg::PgSession;

/// An argument of a prepared statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arg<'a> {
    /// `smallint`.
    Int2(i16),
    /// `integer`.
    Int4(i32),
    /// `bigint`.
    Int8(i64),
    /// `numeric`.
    Numeric(Decimal),
    /// `varchar` or `text`.
    Text(&'a str),
}

impl Arg<'_> {
    /// Creates a `numeric` from an amount in cents.
    pub fn cents(cents: i64) -> Self {
        Arg::Numeric(Decimal::new(cents, 2))
    }
}

/// A value of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// NULL.
    Null,
    /// Any integer; for a timestamp, the microseconds since 2000.
    Int(i64),
    /// Any `numeric`.
    Numeric(Decimal),
    /// Any string.
    Text(String),
    /// A date: the days since 2000-01-01.
    Date(i32),
}

impl Cell {
    /// Returns the integer, if it is one.
    pub fn int(&self) -> Option<i64> {
        match self {
            Cell::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the numeric in units of 10^-digits, if it is a whole number of them.
    pub fn scaled(&self, digits: u32) -> Option<i64> {
        let Cell::Numeric(value) = self else {
            return None;
        };
        let units = value.checked_mul(Decimal::from(10u64.checked_pow(digits)?))?;
        units.is_integer().then(|| i64::try_from(units).ok())?
    }

    /// Returns the text, if it is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Cell::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// The rows of a result.
pub type Rows = Vec<Vec<Cell>>;

/// A prepared statement of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatementHandle(usize);

/// The SQLSTATE of a transaction with an unknown outcome.
const IN_DOUBT: &str = "08007";

/// The error of a statement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct SqlFailure {
    /// The SQLSTATE; 08006 if the connection is lost.
    pub sqlstate: String,
    /// The message of the server.
    pub message: String,
}

impl fmt::Display for SqlFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.sqlstate, self.message)
    }
}

impl SqlFailure {
    pub(crate) fn new(sqlstate: &str, message: impl Into<String>) -> SqlFailure {
        SqlFailure {
            sqlstate: sqlstate.to_string(),
            message: message.into(),
        }
    }

    /// Returns the name of the conflict, if the transaction must be run again.
    pub fn conflict(&self) -> Option<&'static str> {
        match self.sqlstate.as_str() {
            "40001" => Some("serialization_failure"),
            "40P01" => Some("deadlock_detected"),
            _ => None,
        }
    }

    /// Converts the failure of a transaction to the outcome of an attempt.
    ///
    /// # Errors
    /// The failure itself, unless it is a conflict.
    pub fn into_attempt(self) -> Result<Attempt, BenchError> {
        match self.conflict() {
            Some(reason) => Ok(Attempt::Aborted(reason)),
            None => Err(self.into()),
        }
    }

    /// Returns whether a unique index already has the key.
    pub fn is_duplicate(&self) -> bool {
        self.sqlstate == "23505"
    }

    /// Returns whether the session can no longer be used.
    pub fn is_connection_lost(&self) -> bool {
        self.sqlstate.starts_with("08") || self.sqlstate.starts_with("57P")
    }

    /// Returns whether the transaction may have committed.
    pub fn is_in_doubt(&self) -> bool {
        self.sqlstate == IN_DOUBT
    }

    /// Converts the failure of a COMMIT, or of a single-statement transaction: if the reply is
    /// lost, the outcome is unknown. A server that cannot accept the statement now (57P03) has not
    /// run it.
    #[must_use]
    pub fn of_commit(self) -> SqlFailure {
        match self.is_connection_lost() && self.sqlstate != "57P03" {
            true => SqlFailure::new(IN_DOUBT, self.message),
            false => self,
        }
    }
}

/// A session that runs SQL.
pub trait SqlSession {
    /// Prepares a statement.
    ///
    /// # Errors
    /// Those of the server.
    fn prepare(&mut self, sql: &str) -> Result<StatementHandle, SqlFailure>;

    /// Runs a prepared statement that returns no rows. Returns the number of affected rows.
    ///
    /// # Errors
    /// Those of the server.
    fn execute(&mut self, statement: StatementHandle, args: &[Arg<'_>]) -> Result<u64, SqlFailure>;

    /// Runs a prepared statement and returns its rows.
    ///
    /// # Errors
    /// Those of the server.
    fn query(&mut self, statement: StatementHandle, args: &[Arg<'_>]) -> Result<Rows, SqlFailure>;

    /// Runs statements and discards their rows.
    ///
    /// # Errors
    /// Those of the server.
    fn script(&mut self, sql: &str) -> Result<(), SqlFailure>;

    /// Runs `COPY … FROM STDIN` with the whole text.
    ///
    /// # Errors
    /// Those of the server.
    fn copy_in(&mut self, sql: &str, text: &[u8]) -> Result<u64, SqlFailure>;
}

impl dyn SqlSession + '_ {
    /// Returns the single integer that a query returns.
    ///
    /// # Errors
    /// Those of the server.
    pub fn number(&mut self, sql: &str) -> Result<i64, SqlFailure> {
        let statement = self.prepare(sql)?;
        let rows = self.query(statement, &[])?;
        match rows.first().and_then(|row| row.first()) {
            Some(Cell::Int(value)) => Ok(*value),
            // NULL is the sum of no rows.
            Some(Cell::Null) => Ok(0),
            _ => Err(SqlFailure::new("XX000", format!("not one number: {sql}"))),
        }
    }

    /// Returns the first row of a prepared statement.
    ///
    /// # Errors
    /// Those of the server; 02000 without a row.
    pub fn row(
        &mut self,
        statement: StatementHandle,
        args: &[Arg<'_>],
    ) -> Result<Vec<Cell>, SqlFailure> {
        let rows = self.query(statement, args)?;
        let first = rows.into_iter().next();
        first.ok_or_else(|| SqlFailure::new("02000", "a row that must be there is not"))
    }

    /// Runs `body` between BEGIN and COMMIT; rolls back after `Ok(None)` and errors.
    ///
    /// # Errors
    /// Those of `body` and of the server; 08007 if the reply to COMMIT is lost.
    pub fn in_block<T>(
        &mut self,
        body: impl FnOnce(&mut Self) -> Result<Option<T>, SqlFailure>,
    ) -> Result<Option<T>, SqlFailure> {
        self.script("BEGIN")?;
        match body(self) {
            Ok(Some(value)) => match self.script("COMMIT") {
                Ok(()) => Ok(Some(value)),
                Err(failure) => Err(failure.of_commit()),
            },
            Ok(None) => self.script("ROLLBACK").map(|()| None),
            Err(failure) => {
                if !failure.is_connection_lost() {
                    self.script("ROLLBACK")?;
                }
                Err(failure)
            }
        }
    }

    /// Runs `body` between BEGIN and COMMIT, or ROLLBACK if it does not return
    /// [`Attempt::Committed`]. A conflict is an aborted attempt.
    ///
    /// # Errors
    /// Every other failure.
    pub fn attempt(
        &mut self,
        body: impl FnOnce(&mut Self) -> Result<Attempt, SqlFailure>,
    ) -> Result<Attempt, BenchError> {
        let mut said = Attempt::Committed;
        let done = self.in_block(|session| {
            said = body(session)?;
            Ok((said == Attempt::Committed).then_some(()))
        });
        match done {
            Ok(_) => Ok(said),
            Err(failure) => failure.into_attempt(),
        }
    }
}

/// The isolation level of transactions, which have very different costs on different servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Each statement has a snapshot.
    ReadCommitted,
    /// Each transaction has a snapshot.
    RepeatableRead,
    /// Transactions have the same effect as in some serial order.
    Serializable,
}

impl Isolation {
    /// Returns its name in SQL.
    pub const fn name(self) -> &'static str {
        match self {
            Isolation::ReadCommitted => "read committed",
            Isolation::RepeatableRead => "repeatable read",
            Isolation::Serializable => "serializable",
        }
    }
}

/// A source of sessions.
pub enum SqlSource {
    /// A database in this process.
    Embedded(Embedded),
    /// `postgresql://…` or `host=… port=…`; several are machines of one database.
    Pg {
        /// The URLs of the servers.
        urls: Vec<String>,
        /// Whether servers may fail; their clients then use other servers.
        may_go: bool,
    },
}

impl SqlSource {
    /// Opens a session on the first server, for the load.
    ///
    /// # Errors
    /// A server that cannot be reached or that refuses.
    pub fn session(&self) -> Result<Box<dyn SqlSession>, BenchError> {
        self.session_of(0)
    }

    /// Opens a session of a client; clients are distributed over the servers.
    ///
    /// # Errors
    /// As [`SqlSource::session`].
    pub fn session_of(&self, client: usize) -> Result<Box<dyn SqlSession>, BenchError> {
        match self {
            SqlSource::Embedded(database) => Ok(Box::new(database.session()?)),
            SqlSource::Pg { urls, may_go } => {
                let tries = if *may_go { urls.len() } else { 1 };
                let (before, from) = urls.split_at(client % urls.len().max(1));
                let servers = from.iter().chain(before).take(tries);
                let mut failed = BenchError::Options("no server is given".to_string());
                for url in servers {
                    match PgSession::connect(url) {
                        Ok(session) => return Ok(Box::new(session)),
                        Err(error) => failed = error,
                    }
                }
                Err(failed)
            }
        }
    }

    /// Returns whether clients continue when a server has failed.
    pub fn may_go(&self) -> bool {
        matches!(self, SqlSource::Pg { may_go: true, .. })
    }

    /// Runs `verify` through each available server. Returns the first violated condition.
    ///
    /// # Errors
    /// As [`SqlSource::session`], and failure to read the data.
    pub fn verify(
        &self,
        verify: impl Fn(&mut dyn SqlSession) -> Result<Option<String>, BenchError>,
    ) -> Result<Option<String>, BenchError> {
        let SqlSource::Pg { urls, may_go } = self else {
            return verify(self.session()?.as_mut());
        };
        let mut looked = 0;
        let mut failed = None;
        for (url, number) in urls.iter().zip(1..) {
            let mut session = match PgSession::connect(url) {
                Ok(session) => session,
                Err(error) if *may_go => {
                    failed = Some(error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            looked += 1;
            if let Some(broken) = verify(&mut session)? {
                let through = format!("through server {number}: {broken}");
                return Ok(Some(if urls.len() == 1 { broken } else { through }));
            }
        }
        match failed {
            Some(error) if looked == 0 => Err(error),
            _ => Ok(None),
        }
    }

    /// Opens a session of a client with at least this isolation level.
    ///
    /// # Errors
    /// As [`SqlSource::session`].
    pub fn session_at(
        &self,
        isolation: Isolation,
        client: usize,
    ) -> Result<Box<dyn SqlSession>, BenchError> {
        let (mut session, name) = (self.session_of(client)?, isolation.name());
        session.script(&format!("SET default_transaction_isolation = '{name}'"))?;
        Ok(session)
    }
}
