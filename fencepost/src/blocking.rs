//! Sessions for threads without an async runtime.

use fencepost_sql::value::Value;
use pollster::FutureExt;

use crate::channels::ReceivedNotification;
use crate::error::Error;
use crate::row::Row;
use crate::session::{Query, Session, Statement};

/// A session for threads without an async runtime: its calls block until they are complete.
///
/// [`crate::Database::blocking`] opens one. Dropping it rolls back its open transaction. Do not use
/// it on the thread of an async executor, where a wait for a lock holds up other tasks.
///
/// A statement waits without limit for a row that another transaction has locked, unless
/// `lock_timeout` is set. `statement_timeout` ends a statement that runs, but not its wait for a
/// row.
///
/// ```
/// use fencepost::{Database, params};
///
/// let db = Database::in_memory()?;
/// let mut session = db.blocking();
/// session.batch("CREATE TABLE visit (page text PRIMARY KEY, count int NOT NULL)")?;
/// session.execute("SET lock_timeout = '5s'", &[])?;
/// let count: i32 = session.transaction(|tx| {
///     tx.execute("INSERT INTO visit VALUES ($1, 0) ON CONFLICT DO NOTHING", params!["a"])?;
///     let count = "UPDATE visit SET count = count + 1 WHERE page = $1 RETURNING count";
///     tx.query_one(count, params!["a"])?.get("count")
/// })?;
/// assert_eq!(count, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BlockingSession {
    session: Session,
}

impl BlockingSession {
    pub(crate) fn new(session: Session) -> BlockingSession {
        BlockingSession { session }
    }

    /// Prepares a statement. See [`Session::prepare`].
    ///
    /// # Errors
    /// As of [`Session::prepare`].
    pub fn prepare(&mut self, sql: &str) -> Result<Statement, Error> {
        self.session.prepare(sql)
    }

    /// Runs a statement and returns all its rows. See [`Session::query`].
    ///
    /// # Errors
    /// As of [`Session::query`].
    pub fn query(
        &mut self,
        statement: &(impl Query + ?Sized),
        params: &[Value],
    ) -> Result<Vec<Row>, Error> {
        self.session.query(statement, params).block_on()
    }

    /// Runs a statement and returns its only row. See [`Session::query_one`].
    ///
    /// # Errors
    /// As of [`Session::query_one`]: 02000 without a row, 21000 with several.
    pub fn query_one(
        &mut self,
        statement: &(impl Query + ?Sized),
        params: &[Value],
    ) -> Result<Row, Error> {
        self.session.query_one(statement, params).block_on()
    }

    /// Runs a statement and returns the number of affected rows. See [`Session::execute`].
    ///
    /// # Errors
    /// As of [`Session::execute`].
    pub fn execute(
        &mut self,
        statement: &(impl Query + ?Sized),
        params: &[Value],
    ) -> Result<u64, Error> {
        self.session.execute(statement, params).block_on()
    }

    /// Returns and removes the notifications that the session has received on its channels. Does
    /// not wait for one.
    pub fn take_notifications(&mut self) -> Vec<ReceivedNotification> {
        self.session.take_notifications()
    }

    /// Runs all statements of a text, as one transaction unless the text says otherwise. See
    /// [`Session::batch`].
    ///
    /// # Errors
    /// As of [`Session::batch`].
    pub fn batch(&mut self, sql: &str) -> Result<(), Error> {
        self.session.batch(sql).block_on()
    }

    /// Runs `body` in a transaction. Commits if it succeeds, rolls back if it fails, and starts
    /// over after a conflict or a deadlock, up to 100 times. `body` may run several times, so it
    /// has no effects outside the database. Call it outside a block; `body` itself runs no BEGIN or
    /// COMMIT.
    ///
    /// If `body` succeeds although a statement in it has failed, COMMIT rolls back, and this is no
    /// error: pass the error on, or use a savepoint. A panic of `body` leaves the block open.
    ///
    /// The level is that of `default_transaction_isolation`, READ COMMITTED unless it is set.
    /// [`Session::transaction`] is SERIALIZABLE instead.
    ///
    /// # Errors
    /// The error of `body` or of the commit; 40001 or 40P01 if each attempt has met a conflict.
    /// After 08007 it is unknown whether the transaction has taken effect.
    pub fn transaction<T>(
        &mut self,
        mut body: impl FnMut(&mut BlockingSession) -> Result<T, Error>,
    ) -> Result<T, Error> {
        const ATTEMPTS_MAX: u32 = 100;
        let mut attempt = 0;
        loop {
            self.execute("BEGIN", &[])?;
            let result = body(self).and_then(|value| {
                self.execute("COMMIT", &[])?;
                Ok(value)
            });
            match result {
                Ok(value) => return Ok(value),
                Err(error) => {
                    if self.session.status() != crate::TxStatus::Idle {
                        self.execute("ROLLBACK", &[])?;
                    }
                    if !error.is_retryable() || attempt >= ATTEMPTS_MAX {
                        return Err(error);
                    }
                    attempt += 1;
                }
            }
        }
    }

    /// Returns the session for use in async code, or for calls that a blocking session lacks.
    pub fn into_inner(self) -> Session {
        self.session
    }
}
