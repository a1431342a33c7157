//! Sessions for threads without an async runtime.

use fencepost_sql::value::Value;
use pollster::FutureExt;

use crate::channels::Notified;
use crate::error::Error;
use crate::row::Row;
use crate::session::{Query, Session, Statement};

/// A session whose calls block until they are complete.
pub struct BlockingSession {
    session: Session,
}

impl BlockingSession {
    pub(crate) fn new(session: Session) -> BlockingSession {
        BlockingSession { session }
    }

    /// Prepares a statement.
    pub fn prepare(&mut self, sql: &str) -> Result<Statement, Error> {
        self.session.prepare(sql)
    }

    /// Runs a statement and returns its rows.
    pub fn query(
        &mut self,
        statement: &(impl Query + ?Sized),
        params: &[Value],
    ) -> Result<Vec<Row>, Error> {
        self.session.query(statement, params).block_on()
    }

    /// Runs a statement and returns its only row.
    pub fn query_one(
        &mut self,
        statement: &(impl Query + ?Sized),
        params: &[Value],
    ) -> Result<Row, Error> {
        self.session.query_one(statement, params).block_on()
    }

    /// Runs a statement and returns the number of affected rows.
    pub fn execute(
        &mut self,
        statement: &(impl Query + ?Sized),
        params: &[Value],
    ) -> Result<u64, Error> {
        self.session.execute(statement, params).block_on()
    }

    /// Returns and removes the notifications that the session has received on its channels.
    pub fn take_notifications(&mut self) -> Vec<Notified> {
        self.session.take_notifications()
    }

    /// Runs all statements of a text.
    pub fn batch(&mut self, sql: &str) -> Result<(), Error> {
        self.session.batch(sql).block_on()
    }

    /// Runs `body` in a transaction, and repeats it after a conflict.
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

    /// Returns the session for use in async code.
    pub fn into_inner(self) -> Session {
        self.session
    }
}
