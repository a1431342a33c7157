//! The execution context: all that a plan needs to run, such as the transaction and the parameters.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Poll, Waker};
use std::time::Instant;

use fencepost_sql::advisory::{LockFuture, lock_timed_out};
use fencepost_sql::bound::Expr;
use fencepost_sql::context::EvalContext;
use fencepost_sql::counts::{Count, SessionCounters};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::functions::{eval, eval_predicate};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;
use fencepost_storage::Addr;
use fencepost_txn::statement_snapshot::SnapshotScope;
use fencepost_txn::{MarkIndex, Stop, Strength, Transaction, yield_now};
use parking_lot::Mutex;

use super::gather::RemoteParts;
use super::pace::TimeSlice;
use super::spill::{Partitions, TemporaryBytes, TemporaryFiles};
use super::subquery::Queries;
use crate::routines::Routines;
use crate::write::DeferredWork;

const RUNNING: u8 = 0;
const CANCELLED: u8 = 1;
const TIMED_OUT: u8 = 2;
const SHUT_DOWN: u8 = 3;

/// A request to end the running statement, from any thread.
#[derive(Clone, Debug, Default)]
pub struct CancelFlag(Arc<Flag>);

#[derive(Debug, Default)]
struct Flag {
    state: AtomicU8,
    /// The waker of the task that waits for the next request.
    waiting: Mutex<Option<Waker>>,
}

impl CancelFlag {
    /// Ends the running statement with 57014, at the request of the user.
    pub fn cancel(&self) {
        self.raise(CANCELLED);
    }

    /// Ends the running statement with 57014, because of `statement_timeout`.
    pub fn time_out(&self) {
        self.raise(TIMED_OUT);
    }

    /// Ends the session with 57P01.
    pub fn shut_down(&self) {
        self.0.state.store(SHUT_DOWN, Ordering::Relaxed);
        self.wake();
    }

    /// Returns whether the session must end.
    #[inline]
    pub fn is_shut_down(&self) -> bool {
        self.0.state.load(Ordering::Relaxed) == SHUT_DOWN
    }

    /// Registers a task to wake at the next request. The caller must check for a request once more
    /// after this call.
    pub fn watch(&self, waker: &Waker) {
        let mut waiting = self.0.waiting.lock();
        if !waiting.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *waiting = Some(waker.clone());
        }
    }

    fn wake(&self) {
        let waiting = self.0.waiting.lock().clone();
        if let Some(waker) = waiting {
            waker.wake();
        }
    }

    fn raise(&self, to: u8) {
        // If the exchange fails, another reason to end the statement is already set.
        let _ = self
            .0
            .state
            .compare_exchange(RUNNING, to, Ordering::Relaxed, Ordering::Relaxed);
        self.wake();
    }

    /// Clears requests that came before the statement; a shut-down stays.
    pub fn reset(&self) {
        if !self.is_shut_down() {
            self.0.state.store(RUNNING, Ordering::Relaxed);
        }
    }

    /// Returns the error of a request, if there is one.
    #[inline]
    pub fn check(&self) -> Result<(), SqlError> {
        match self.0.state.load(Ordering::Relaxed) {
            RUNNING => Ok(()),
            reason => Err(cancelled(reason)),
        }
    }
}

#[cold]
fn cancelled(reason: u8) -> SqlError {
    match reason {
        TIMED_OUT => SqlError::new(
            SqlState::QUERY_CANCELED,
            "canceling statement due to statement timeout",
        ),
        SHUT_DOWN => SqlError::new(
            SqlState::ADMIN_SHUTDOWN,
            "terminating connection due to administrator command",
        ),
        _ => SqlError::new(
            SqlState::QUERY_CANCELED,
            "canceling statement due to user request",
        ),
    }
}

/// Buffers that the statements of one session reuse.
#[derive(Debug, Default)]
pub struct Scratch {
    /// An encoded key.
    pub key: Vec<u8>,
    /// An encoded row.
    pub words: Vec<u64>,
    /// A decoded row.
    pub row: Vec<Value>,
    /// A decoded row that a filter looks at before its lock is taken.
    pub filtered: Vec<Value>,
    /// A result row.
    pub out: Vec<Value>,
    /// The user-defined functions that have been called.
    pub routines: Routines,
    /// The counters of the session.
    pub counting: SessionCounters,
    /// The state of the time slice.
    pub pace: TimeSlice,
    /// The number of scans that helper threads took part in.
    pub parallel_scans: u64,
    /// The bytes in the temporary files of the session.
    pub temporary_bytes: TemporaryBytes,
}

/// The size in words above which a row buffer is freed after a statement.
const LONG_WORDS: usize = 128 * 1024;

impl Scratch {
    /// Frees the buffers of a long row.
    #[inline]
    pub fn shrink(&mut self) {
        if self.words.capacity() > LONG_WORDS {
            self.words = Vec::new();
            self.row = Vec::new();
            self.filtered = Vec::new();
            self.out = Vec::new();
        }
    }
}

/// The context of a running statement.
pub struct Cx<'a> {
    /// The transaction.
    pub tx: &'a mut Transaction,
    /// The parameters: those of the client, then constants that were lifted from the text.
    pub params: &'a [Value],
    /// Settings and clocks.
    pub eval: &'a EvalContext,
    /// The cancellation flag, which every loop checks regularly.
    pub cancel: &'a CancelFlag,
    /// Whether the statement takes intents on the rows that it is going to write: the transaction
    /// has several statements, or met conflicts. The only statement of a transaction just waits for
    /// the intents of others.
    pub intents: bool,
    /// Whether the statement only reads, and runs to its end at once.
    pub only_reads: bool,
    /// Buffers to reuse.
    pub scratch: &'a mut Scratch,
    /// The time at which `statement_timeout` ends the statement.
    pub deadline: Option<Instant>,
    /// Bytes that operators hold and that count against the memory limit.
    pub held: usize,
    /// The partitions, in order, that the scan of a split plan reads; `None` means all.
    pub part: Option<Vec<u32>>,
    /// Deferred checks, run at the end of the transaction. If it is `None`, no check is deferred.
    pub deferred: Option<&'a mut DeferredWork>,
    /// The parts of the plan that other machines run.
    pub parts: Option<Box<dyn RemoteParts>>,
    /// The state of the statement's subqueries in expressions, if it has any.
    pub queries: Option<Box<Queries>>,
    /// The statement snapshot of its scans; `None` means that they read the current state.
    pub before: Option<MarkIndex>,
}

impl Cx<'_> {
    /// Returns the transaction as scans must see it.
    #[inline]
    pub fn seen(&mut self) -> SnapshotScope<'_> {
        self.tx.seen_at(self.before)
    }

    /// Creates the context of a nested statement with parameters of its own.
    pub fn within<'b>(&'b mut self, params: &'b [Value]) -> Cx<'b> {
        Cx {
            tx: self.tx,
            params,
            eval: self.eval,
            cancel: self.cancel,
            intents: true,
            only_reads: false,
            scratch: self.scratch,
            deadline: self.deadline,
            held: 0,
            part: None,
            deferred: self.deferred.as_deref_mut(),
            parts: None,
            queries: None,
            before: None,
        }
    }

    /// Evaluates `expr`, including its subqueries, with parameters of its own.
    pub async fn value_with(
        &mut self,
        expr: &Expr,
        params: &[Value],
    ) -> Result<Value, StatementStop> {
        let mut inner = self.within(params);
        let value = match expr.has_subquery() {
            false => Ok(inner.value(expr, &[]).await?),
            true => inner.deep_value(expr, &[]).await,
        };
        let held = inner.held;
        self.held += held;
        value
    }

    /// Returns the place of the session's temporary files.
    pub fn temporary_files(&self) -> TemporaryFiles {
        let server = self.eval.server.as_ref();
        TemporaryFiles {
            directory: server.map_or_else(std::env::temp_dir, |s| s.temporary_directory()),
            bytes: Arc::clone(&self.scratch.temporary_bytes),
            bytes_max: self.eval.settings.work_memory.file_bytes_max(),
        }
    }

    /// Creates a temporary file for the rows that a hash table has no room for.
    pub fn new_partitions<const STREAMS: usize>(&self) -> Partitions<STREAMS> {
        let memory = self.eval.settings.work_memory.hash_bytes();
        Partitions::new(&self.temporary_files(), memory)
    }

    /// Adds to a counter of a table or an index.
    #[inline]
    pub fn count(&mut self, id: u32, what: Count, more: u64) {
        self.scratch.counting.of(id).add(what, more);
    }

    /// Returns whether a scan reads this partition.
    #[inline]
    pub fn reads(&self, partition: u32) -> bool {
        let part = self.part.as_ref();
        part.is_none_or(|part| part.binary_search(&partition).is_ok())
    }

    /// Returns the parameters, followed by the outer slots.
    #[inline]
    pub fn params(&self) -> &[Value] {
        match &self.queries {
            None => self.params,
            Some(queries) => &queries.params,
        }
    }

    /// Evaluates `expr` over `row`, however long that takes. Within [`Cx::in_parts`], long calls
    /// are moved to other threads.
    #[inline]
    pub fn value_here(&self, expr: &Expr, row: &[Value]) -> Result<Value, SqlError> {
        eval(expr, row, self.params(), self.eval)
    }

    /// Tests `filter` as [`Cx::holds`] does, but evaluates it as [`Cx::value_here`] does.
    #[inline]
    pub fn holds_here(&self, filter: Option<&Expr>, row: &[Value]) -> Result<bool, SqlError> {
        match filter {
            None => Ok(true),
            Some(filter) => eval_predicate(filter, row, self.params(), self.eval),
        }
    }

    /// Waits for the row lock that is needed to write the row, or to prevent others from writing
    /// it. It is best called before the row is read.
    ///
    /// # Errors
    /// 55P03 if the wait exceeds `lock_timeout`.
    #[inline]
    pub async fn queue(&mut self, row: Addr, strength: Strength) -> Result<(), StatementStop> {
        if let (Some(limit), Some(sessions)) = (self.eval.lock_timeout, &self.eval.sessions) {
            let limit = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX);
            return Box::pin(queue_until(
                self.tx,
                self.intents,
                (row, strength),
                sessions.sleep(limit),
            ))
            .await;
        }
        Ok(take_row_lock(self.tx, self.intents, (row, strength)).await?)
    }

    /// Counts a step of work. Returns true when [`Cx::pause`] is due. Loops with cheap steps use
    /// both directly.
    #[inline]
    pub fn is_due(&mut self) -> bool {
        self.scratch.pace.step()
    }

    /// Ends a statement that is cancelled or past its time limit. Yields to the other tasks of the
    /// thread when the time slice is over.
    ///
    /// # Errors
    /// 57014 or 57P01.
    #[cold]
    pub async fn pause(&mut self) -> Result<(), SqlError> {
        let now = Instant::now();
        check_stop(self.cancel, self.deadline, now)?;
        if self.scratch.pace.is_over(now) {
            yield_now().await;
            let now = Instant::now();
            self.scratch.pace.begin_slice(now);
            check_stop(self.cancel, self.deadline, now)?;
        }
        Ok(())
    }

    /// Counts a step of work, and pauses when a pause is due. Every loop over rows calls it, or
    /// [`Cx::is_due`].
    ///
    /// # Errors
    /// As [`Cx::pause`].
    #[inline]
    pub async fn breathe(&mut self) -> Result<(), SqlError> {
        match self.is_due() {
            true => self.pause().await,
            false => Ok(()),
        }
    }
}

/// Returns an error if the statement is cancelled or past its time limit.
pub(super) fn check_stop(
    cancel: &CancelFlag,
    deadline: Option<Instant>,
    now: Instant,
) -> Result<(), SqlError> {
    if deadline.is_some_and(|deadline| now >= deadline) {
        cancel.time_out();
    }
    cancel.check()
}

#[inline]
async fn take_row_lock(
    tx: &mut Transaction,
    intends: bool,
    (row, strength): (Addr, Strength),
) -> Result<(), Stop> {
    match intends {
        true => tx.intend(row, strength).await,
        false => tx.await_row_queue(row, strength).await,
    }
}

/// Waits as [`take_row_lock`] does, but returns 55P03 once `over` is ready.
async fn queue_until(
    tx: &mut Transaction,
    intends: bool,
    row: (Addr, Strength),
    mut over: LockFuture<'_, ()>,
) -> Result<(), StatementStop> {
    let mut lock = pin!(take_row_lock(tx, intends, row));
    poll_fn(|task| {
        if let Poll::Ready(taken) = lock.as_mut().poll(task) {
            return Poll::Ready(taken.map_err(StatementStop::from));
        }
        let over = over.as_mut().poll(task);
        over.map(|_| Err(lock_timed_out().into()))
    })
    .await
}
