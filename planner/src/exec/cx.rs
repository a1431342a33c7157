//! What running a plan needs besides the plan: the transaction, the parameters, the surroundings.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Poll, Waker};
use std::time::Instant;

use fencepost_sql::advisory::{Asked, lock_timed_out};
use fencepost_sql::bound::Expr;
use fencepost_sql::context::EvalContext;
use fencepost_sql::counts::{Count, Counting};
use fencepost_sql::error::{SqlError, SqlState};
use fencepost_sql::functions::{eval, eval_predicate};
use fencepost_sql::stop::Halt;
use fencepost_sql::value::Value;
use fencepost_storage::Addr;
use fencepost_txn::hindsight::Past;
use fencepost_txn::{MarkPlace, Stop, Strength, Transaction, let_others_run};
use parking_lot::Mutex;

use super::gather::Parts;
use super::pace::Pace;
use super::subquery::Queries;
use crate::routines::Routines;
use crate::write::Deferred;

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
    /// Whoever waits, and is to look.
    waiting: Mutex<Option<Waker>>,
}

impl CancelFlag {
    /// Ends the running statement with 57014, as the user asked.
    pub fn cancel(&self) {
        self.raise(CANCELLED);
    }

    /// Ends the running statement with 57014, as it took too long.
    pub fn time_out(&self) {
        self.raise(TIMED_OUT);
    }

    /// Ends the session with 57P01.
    pub fn shut_down(&self) {
        self.0.state.store(SHUT_DOWN, Ordering::Relaxed);
        self.wake();
    }

    /// Whether the session is to end.
    #[inline]
    pub fn is_shut_down(&self) -> bool {
        self.0.state.load(Ordering::Relaxed) == SHUT_DOWN
    }

    /// Has a task woken by the next request. Whoever waits looks after this once more.
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
        // Losing the race means that another reason to end it is there already.
        let _ = self
            .0
            .state
            .compare_exchange(RUNNING, to, Ordering::Relaxed, Ordering::Relaxed);
        self.wake();
    }

    /// Forgets requests that came before the statement; a shut-down stays.
    pub fn reset(&self) {
        if !self.is_shut_down() {
            self.0.state.store(RUNNING, Ordering::Relaxed);
        }
    }

    /// The error of a request, if there is one.
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

/// Memory that statements of one session use again and again.
#[derive(Debug, Default)]
pub struct Scratch {
    /// A key.
    pub key: Vec<u8>,
    /// An encoded row.
    pub words: Vec<u64>,
    /// A decoded row.
    pub row: Vec<Value>,
    /// A decoded row that a filter looks at before its lock is taken.
    pub filtered: Vec<Value>,
    /// A result row.
    pub out: Vec<Value>,
    /// The routines of users that have been called.
    pub routines: Routines,
    /// Where it counts what it does.
    pub counting: Counting,
    /// Its time slice.
    pub pace: Pace,
}

/// Words of a row that is not kept from statement to statement.
const LONG_WORDS: usize = 128 * 1024;

impl Scratch {
    /// Forgets a long row.
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

/// The surroundings of a running statement.
pub struct Cx<'a> {
    /// The transaction.
    pub tx: &'a mut Transaction,
    /// The parameters, lifted literals after those of the client.
    pub params: &'a [Value],
    /// Settings and clocks.
    pub eval: &'a EvalContext,
    /// Asked now and then in every loop.
    pub cancel: &'a CancelFlag,
    /// The statement takes intents on the rows that it is going to write: it is one of several, or
    /// has met conflicts. One that is all its transaction does only waits for others' intents.
    pub intents: bool,
    /// Memory to use again.
    pub scratch: &'a mut Scratch,
    /// When `statement_timeout` ends the statement.
    pub deadline: Option<Instant>,
    /// Bytes that operators hold and that count against the memory limit.
    pub held: usize,
    /// The partitions, in order, that the scan of a plan that is split reads; `None`: all.
    pub part: Option<Vec<u32>>,
    /// Checks that wait for the end of the transaction; where there is nobody to keep them, none wait.
    pub deferred: Option<&'a mut Deferred>,
    /// The parts of the plan that other machines run.
    pub parts: Option<Box<dyn Parts>>,
    /// The statement's queries in expressions, if it has any.
    pub queries: Option<Box<Queries>>,
    /// Where its scans look at; `None`: at what is so now.
    pub before: Option<MarkPlace>,
}

impl Cx<'_> {
    /// The transaction, as scans are to see it.
    #[inline]
    pub fn seen(&mut self) -> Past<'_> {
        self.tx.seen_at(self.before)
    }

    /// The surroundings of a statement within this one, with parameters of its own.
    pub fn within<'b>(&'b mut self, params: &'b [Value]) -> Cx<'b> {
        Cx {
            tx: self.tx,
            params,
            eval: self.eval,
            cancel: self.cancel,
            intents: true,
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

    /// The value of `expr`, queries in it included, with parameters of its own.
    pub async fn value_with(&mut self, expr: &Expr, params: &[Value]) -> Result<Value, Halt> {
        let mut inner = self.within(params);
        let value = match expr.has_subquery() {
            false => Ok(inner.value(expr, &[]).await?),
            true => inner.deep_value(expr, &[]).await,
        };
        let held = inner.held;
        self.held += held;
        value
    }

    /// Counts something of a table or an index.
    #[inline]
    pub fn count(&mut self, id: u32, what: Count, more: u64) {
        self.scratch.counting.of(id).add(what, more);
    }

    /// Whether a scan reads this partition.
    #[inline]
    pub fn reads(&self, partition: u32) -> bool {
        let part = self.part.as_ref();
        part.is_none_or(|part| part.binary_search(&partition).is_ok())
    }

    /// The parameters, and the outer slots behind them.
    #[inline]
    pub fn params(&self) -> &[Value] {
        match &self.queries {
            None => self.params,
            Some(queries) => &queries.params,
        }
    }

    /// The value of `expr` over `row`, however long that takes: within [`Cx::in_parts`] long calls are given away.
    #[inline]
    pub fn value_here(&self, expr: &Expr, row: &[Value]) -> Result<Value, SqlError> {
        eval(expr, row, self.params(), self.eval)
    }

    /// As [`Cx::holds`], in the manner of [`Cx::value_here`].
    #[inline]
    pub fn holds_here(&self, filter: Option<&Expr>, row: &[Value]) -> Result<bool, SqlError> {
        match filter {
            None => Ok(true),
            Some(filter) => eval_predicate(filter, row, self.params(), self.eval),
        }
    }

    /// Waits for the turn to write a row, or to have nobody write it; best before it is read.
    ///
    /// # Errors
    /// 55P03 where that takes longer than `lock_timeout`.
    #[inline]
    pub async fn queue(&mut self, row: Addr, strength: Strength) -> Result<(), Halt> {
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
        Ok(take_turn(self.tx, self.intents, (row, strength)).await?)
    }

    /// Counts a step of work; returns true when [`Cx::pause`] is due. Loops whose steps are cheap use both directly.
    #[inline]
    pub fn is_due(&mut self) -> bool {
        self.scratch.pace.step()
    }

    /// Ends a statement that is cancelled or past its time limit, and yields to the other tasks of the thread when the time
    /// slice is over.
    ///
    /// # Errors
    /// 57014 or 57P01.
    #[cold]
    pub async fn pause(&mut self) -> Result<(), SqlError> {
        let now = Instant::now();
        check_stop(self.cancel, self.deadline, now)?;
        if self.scratch.pace.is_over(now) {
            let_others_run().await;
            let now = Instant::now();
            self.scratch.pace.begin_slice(now);
            check_stop(self.cancel, self.deadline, now)?;
        }
        Ok(())
    }

    /// Counts a step of work and pauses when that is due. Every loop over rows calls it, or [`Cx::is_due`].
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

/// Ends a statement that is cancelled, or past its time limit.
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
async fn take_turn(
    tx: &mut Transaction,
    intends: bool,
    (row, strength): (Addr, Strength),
) -> Result<(), Stop> {
    match intends {
        true => tx.intend(row, strength).await,
        false => tx.await_turn(row, strength).await,
    }
}

/// As [`take_turn`], and 55P03 once `over` is ready.
async fn queue_until(
    tx: &mut Transaction,
    intends: bool,
    row: (Addr, Strength),
    mut over: Asked<'_, ()>,
) -> Result<(), Halt> {
    let mut turn = pin!(take_turn(tx, intends, row));
    poll_fn(|task| {
        if let Poll::Ready(taken) = turn.as_mut().poll(task) {
            return Poll::Ready(taken.map_err(Halt::from));
        }
        let over = over.as_mut().poll(task);
        over.map(|_| Err(lock_timed_out().into()))
    })
    .await
}
