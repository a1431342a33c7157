//! The library's interface to run statements: typed parameters, typed rows, and retries.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use fencepost_planner::{MemorySink, Tag};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::functions::assign;
use fencepost_sql::types::{Type, TypeKind};
use fencepost_sql::value::Value;

use super::protocol::Completion;
use super::run::back_off;
use super::{Block, Session, TxStatus};
use crate::error::Error;
use crate::prepared::{Column, PreparedStatement};
use crate::row::Row;

/// The largest number of runs of a [`Session::transaction`] before the caller gets the conflict.
const ATTEMPTS_MAX: u32 = 100;

/// The future of a transaction's body, as `Box::pin(async move { … })` makes it.
pub type TransactionBody<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// A prepared statement, from [`Session::prepare`]: parsed, bound to its tables, and planned. A
/// clone shares the plan. After a change of its tables it is planned again by itself.
#[derive(Clone)]
pub struct Statement(pub(crate) Arc<PreparedStatement>);

impl Statement {
    /// Returns the types of the parameters, `$1` first.
    pub fn parameter_types(&self) -> &[Type] {
        self.0.parameter_types()
    }

    /// Returns the columns of the result; empty if the statement returns no rows.
    pub fn columns(&self) -> &[Column] {
        self.0.columns().unwrap_or(&[])
    }
}

/// A statement to run: a text (`str`, `String`), or a prepared [`Statement`]. A text is looked up
/// in the cache of plans, and prepared if it is not there.
pub trait Query: Sync {
    /// Returns the prepared statement.
    ///
    /// # Errors
    /// As of [`Session::prepare`].
    fn prepare(&self, session: &mut Session) -> Result<Arc<PreparedStatement>, SqlError>;
}

impl Query for str {
    fn prepare(&self, session: &mut Session) -> Result<Arc<PreparedStatement>, SqlError> {
        session.parse(self, &[])
    }
}

impl Query for String {
    fn prepare(&self, session: &mut Session) -> Result<Arc<PreparedStatement>, SqlError> {
        session.parse(self, &[])
    }
}

impl Query for Statement {
    fn prepare(&self, _session: &mut Session) -> Result<Arc<PreparedStatement>, SqlError> {
        Ok(Arc::clone(&self.0))
    }
}

impl Session {
    /// Prepares a text that has one statement; the types of its parameters are inferred. Does not
    /// run it. In a cluster it may block for 100 ms, to read the newest catalog.
    ///
    /// # Errors
    /// 42601 if the text is not SQL, or has several statements; 42P01, 42703, 42883 and others of
    /// class 42 for its names and types; 0A000 if it is not supported; 25P02 in a failed block. The
    /// error fails an open block.
    pub fn prepare(&mut self, sql: &str) -> Result<Statement, Error> {
        Ok(Statement(self.parse(sql, &[])?))
    }

    /// Runs a statement and returns all its rows, in memory. For a large result, use a portal
    /// ([`Session::run`]) or a cursor (DECLARE and FETCH).
    ///
    /// Outside a block the statement is a transaction of its own at SERIALIZABLE. It has committed
    /// when this returns, and is run again after conflicts, up to 64 times.
    ///
    /// # Errors
    /// - As of [`Session::prepare`], unless the statement is prepared.
    /// - 08P01 if the number of parameters is wrong; 22P02, 22003 and others of class 22 if a value
    ///   does not fit its type.
    /// - 0A000 if the columns have changed since the statement was prepared: prepare it again.
    /// - 40001 for a conflict, 40P01 for a deadlock: in a block, or after 64 retries.
    /// - 55P03 after `lock_timeout`; 57014 after `statement_timeout` or a cancel; 57P01 after
    ///   [`CancelToken::shut_down`](crate::CancelToken::shut_down).
    /// - 53200 at the memory limit, 53100 for a full disk, 58030 after a failure of the log.
    /// - In a cluster 57P03 on an evicted machine, and 08007 if the outcome of a write is unknown.
    /// - Any other error of the statement, such as 23505 or 42501.
    pub async fn query(
        &mut self,
        statement: &(impl Query + ?Sized),
        params: &[Value],
    ) -> Result<Vec<Row>, Error> {
        let prepared = statement.prepare(self)?;
        let (collected, _) = self.run_collected(&prepared, params).await?;
        let columns: Arc<[Column]> = prepared.columns().unwrap_or(&[]).into();
        let rows = collected.rows.into_iter();
        Ok(rows
            .map(|values| Row::new(Arc::clone(&columns), values))
            .collect())
    }

    /// Runs a statement and returns its only row.
    ///
    /// # Errors
    /// 02000 if there is no row, and 21000 if there are several: the statement has taken effect
    /// then, and a block stays open. Otherwise as of [`Session::query`].
    pub async fn query_one(
        &mut self,
        statement: &(impl Query + ?Sized),
        params: &[Value],
    ) -> Result<Row, Error> {
        let mut rows = self.query(statement, params).await?;
        match (rows.pop(), rows.is_empty()) {
            (Some(row), true) => Ok(row),
            (None, _) => Err(SqlError::new(SqlState::new(b"02000"), "no row").into()),
            (Some(_), false) => {
                Err(SqlError::new(SqlState::CARDINALITY_VIOLATION, "more than one row").into())
            }
        }
    }

    /// Runs a statement and returns the number of affected rows: those that the statement has
    /// changed, copied or returned; 0 for DDL and others without a count. Commits and retries as
    /// [`Session::query`] does.
    ///
    /// # Errors
    /// As of [`Session::query`]. COMMIT in a failed block is no error: it rolls back. 0A000 for
    /// COPY FROM STDIN, which [`Session::copy_in`] runs.
    pub async fn execute(
        &mut self,
        statement: &(impl Query + ?Sized),
        params: &[Value],
    ) -> Result<u64, Error> {
        let prepared = statement.prepare(self)?;
        let (_, tag) = self.run_collected(&prepared, params).await?;
        Ok(tag.map_or(0, Tag::rows))
    }

    /// Runs all statements of a text, as one transaction unless the text says otherwise. Their rows
    /// are dropped. A transaction that a rollback undoes completely is retried after a conflict, up
    /// to 100 times.
    ///
    /// # Errors
    /// As of [`Session::query`]; 42P02 for a parameter. The first error ends the batch. Outside a
    /// block it rolls back all statements since the batch began, or since its last COMMIT. A block
    /// that the text has begun has failed then, and needs a ROLLBACK.
    pub async fn batch(&mut self, sql: &str) -> Result<(), Error> {
        let notices_before = self.notices.len();
        let mut attempt = 0;
        loop {
            let mut whole = self.block == Block::Idle;
            let result = match self.batch_once(sql, &mut whole).await {
                Ok(()) => self.sync().await.map_err(Error::from),
                failed => failed,
            };
            match result {
                Err(error) if error.is_retryable() && whole && attempt < ATTEMPTS_MAX => {
                    self.notices.truncate(notices_before);
                    back_off(attempt).await;
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    /// Runs a batch once, without the commit. Sets `whole` to false unless all effects belong to
    /// the open transaction, or to one that is rolled back.
    async fn batch_once(&mut self, sql: &str, whole: &mut bool) -> Result<(), Error> {
        let statements = self.split(sql)?;
        let count = statements.len();
        let mut begun = None;
        for (position, parsed) in statements.into_iter().enumerate() {
            let prepared = self.prepare_parsed(parsed)?;
            *whole &= begun.is_none_or(|begun| begun == self.transaction) && prepared.is_undone();
            let mut portal = self.bind(&prepared, Vec::new())?;
            let mut sink = MemorySink::default();
            let run = match position + 1 == count {
                true => self.run_last(&mut portal, 0, &mut sink).await,
                false => self.run(&mut portal, 0, &mut sink).await,
            };
            self.completed(run?)?;
            begun.get_or_insert(self.transaction);
        }
        Ok(())
    }

    async fn run_collected(
        &mut self,
        prepared: &Arc<PreparedStatement>,
        params: &[Value],
    ) -> Result<(MemorySink, Option<Tag>), Error> {
        let values = self.fit(&self.parameter_types(prepared), params)?;
        let mut portal = self.bind(prepared, values)?;
        let mut sink = MemorySink::default();
        let run = self.run_last(&mut portal, 0, &mut sink).await?;
        let tag = self.completed(run)?;
        self.sync().await?;
        Ok((sink, tag))
    }

    fn completed(&mut self, run: Completion) -> Result<Option<Tag>, SqlError> {
        match run {
            Completion::Complete(tag) => Ok(Some(tag)),
            Completion::Suspended | Completion::Empty => Ok(None),
            Completion::CopyIn(copy) => {
                copy.fail(self);
                Err(SqlError::unsupported(
                    "COPY FROM STDIN outside Session::copy_in",
                ))
            }
        }
    }

    /// Runs COPY … FROM STDIN with all its data. Returns the number of rows. Outside a block the
    /// COPY has committed when this returns. [`CopyIn`](crate::CopyIn) takes the data in pieces.
    ///
    /// # Errors
    /// 42601 if `sql` is another statement, which is rolled back; 22P04 and others of class 22 for
    /// malformed data; 40001 if another transaction inserts into the same empty table. Otherwise as
    /// of [`Session::query`], but a COPY is not run again after a conflict. No row is loaded then.
    pub async fn copy_in(&mut self, sql: &str, data: &[u8]) -> Result<u64, Error> {
        let prepared = self.parse(sql, &[])?;
        let mut portal = self.bind(&prepared, Vec::new())?;
        let mut sink = MemorySink::default();
        let Completion::CopyIn(mut copy) = self.run(&mut portal, 0, &mut sink).await? else {
            self.fail();
            let error = SqlError::new(SqlState::SYNTAX_ERROR, "not a COPY FROM STDIN");
            return Err(error.into());
        };
        copy.data(self, data).await?;
        let tag = copy.finish(self).await?;
        self.sync().await?;
        Ok(tag.rows())
    }

    /// Runs COPY … TO STDOUT. Returns all its data, in memory.
    ///
    /// # Errors
    /// As of [`Session::query`].
    pub async fn copy_out(&mut self, sql: &str) -> Result<Vec<u8>, Error> {
        let prepared = self.parse(sql, &[])?;
        Ok(self.run_collected(&prepared, &[]).await?.0.data)
    }

    /// Runs `body` in a serializable transaction. Commits if it succeeds, rolls back if it fails,
    /// and starts over after a conflict or a deadlock, up to 100 times. `body` may run several
    /// times, so it has no effects outside the database. Call it outside a block.
    ///
    /// If `body` succeeds although a statement in it has failed, COMMIT rolls back, and this is no
    /// error: pass the error on, or use a savepoint. A panic of `body` leaves the block open.
    ///
    /// ```
    /// use fencepost::{Database, Error, params};
    ///
    /// async fn pay(session: &mut fencepost::Session, cents: i64) -> Result<u64, Error> {
    ///     session
    ///         .transaction(move |tx| {
    ///             Box::pin(async move {
    ///                 let pay = "UPDATE account SET cents = cents - $1 WHERE id = 1";
    ///                 tx.execute(pay, params![cents]).await
    ///             })
    ///         })
    ///         .await
    /// }
    ///
    /// # let db = Database::in_memory()?;
    /// # db.blocking().batch("CREATE TABLE account (id int PRIMARY KEY, cents bigint)")?;
    /// assert_eq!(pollster::block_on(pay(&mut db.session(), 50))?, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The error of `body` or of the commit; 40001 or 40P01 if each attempt has met a conflict.
    /// After 08007 it is unknown whether the transaction has taken effect.
    pub async fn transaction<T, F>(&mut self, mut body: F) -> Result<T, Error>
    where
        F: for<'a> FnMut(&'a mut Session) -> TransactionBody<'a, T>,
    {
        let mut attempt = 0;
        loop {
            let result = self.transaction_once(&mut body).await;
            match result {
                Err(error) if error.is_retryable() && attempt < ATTEMPTS_MAX => attempt += 1,
                result => return result,
            }
        }
    }

    async fn transaction_once<T, F>(&mut self, body: &mut F) -> Result<T, Error>
    where
        F: for<'a> FnMut(&'a mut Session) -> TransactionBody<'a, T>,
    {
        self.execute("BEGIN ISOLATION LEVEL SERIALIZABLE", &[])
            .await?;
        let result = body(self).await;
        if self.status() == TxStatus::Idle {
            // The body has ended the transaction itself.
            return result;
        }
        match result {
            Ok(value) => {
                self.execute("COMMIT", &[]).await?;
                Ok(value)
            }
            Err(error) => {
                self.execute("ROLLBACK", &[]).await?;
                Err(error)
            }
        }
    }

    /// Converts parameters to the types of the statement.
    fn fit(&self, types: &[Type], params: &[Value]) -> Result<Vec<Value>, SqlError> {
        let fitted = params
            .iter()
            .zip(types)
            .map(|(value, ty)| assign(value.clone(), &natural_type(value), ty, &self.eval));
        let mut values = fitted.collect::<Result<Vec<Value>, SqlError>>()?;
        values.extend(params.iter().skip(types.len()).cloned());
        Ok(values)
    }
}

/// Returns the natural type of a value.
fn natural_type(value: &Value) -> Type {
    Type::of(match value {
        // A label identifies the value of an enum.
        Value::Null | Value::Text(_) | Value::Citext(_) | Value::Enum(_) => TypeKind::Unknown,
        Value::Bool(_) => TypeKind::Bool,
        Value::Int2(_) => TypeKind::Int2,
        Value::Int4(_) => TypeKind::Int4,
        Value::Int8(_) => TypeKind::Int8,
        Value::Float4(_) => TypeKind::Float4,
        Value::Float8(_) => TypeKind::Float8,
        Value::Numeric(_) => TypeKind::Numeric,
        Value::Bytea(_) => TypeKind::Bytea,
        Value::Date(_) => TypeKind::Date,
        Value::Timestamp(_) => TypeKind::Timestamp,
        Value::TimestampTz(_) => TypeKind::TimestampTz,
        Value::Time(_) => TypeKind::Time,
        Value::TimeTz(_) => TypeKind::TimeTz,
        Value::Interval(_) => TypeKind::Interval,
        Value::Uuid(_) => TypeKind::Uuid,
        Value::Inet(_) => TypeKind::Inet,
        Value::MacAddr(_) => TypeKind::MacAddr,
        Value::Oid(_) | Value::Object(_) => TypeKind::Oid,
        Value::Json(_) => TypeKind::Json,
        Value::Jsonb(_) => TypeKind::Jsonb,
        Value::Record(row) => row.fields.kind(),
        // An array has its elements' type; if all elements are NULL, any type fits.
        Value::Array(array) => {
            let first = array.values.iter().find(|value| !value.is_null());
            let element = first.map_or(TypeKind::Text, |value| match natural_type(value).kind {
                TypeKind::Unknown => TypeKind::Text,
                kind => kind,
            });
            element.array().unwrap_or(TypeKind::Unknown)
        }
    })
}
