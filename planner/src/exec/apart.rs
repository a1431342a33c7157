//! Long-running expression calls on their own threads, so that the other sessions of the worker can
//! continue.
//!
//! A thread ends with its call. A cancelled statement does not wait for its call: it only asks the
//! call to stop.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use fencepost_fabric::processors::anywhere;
use fencepost_sql::bound::{Expr, Node};
use fencepost_sql::error::SqlError;
use fencepost_sql::functions::{EvaluationOutcome, LongCall, LongCallResults, in_parts, next_part};
use fencepost_sql::value::Value;
use parking_lot::Mutex;

use super::cx::{Cx, check_stop};

type Outcome = Result<Value, SqlError>;

/// A long call that is running.
#[derive(Default)]
struct LongCallState {
    state: Mutex<State>,
    stop: Arc<AtomicBool>,
}

#[derive(Default)]
struct State {
    outcome: Option<Outcome>,
    waiting: Option<Waker>,
}

impl LongCallState {
    fn begin(call: LongCall) -> Result<Arc<LongCallState>, SqlError> {
        let running = Arc::new(LongCallState::default());
        let end = FinishGuard(Arc::clone(&running));
        let work = move || {
            let outcome = call.run(Arc::clone(&end.0.stop));
            end.0.finish(outcome);
        };
        let thread = std::thread::Builder::new().name("fencepost-long-call".into());
        anywhere(|| thread.spawn(work))
            .map_err(|error| SqlError::internal(format!("no thread for a long call: {error}")))?;
        Ok(running)
    }

    fn finish(&self, outcome: Outcome) {
        let mut state = self.state.lock();
        state.outcome.get_or_insert(outcome);
        let waiting = state.waiting.take();
        drop(state);
        waiting.iter().for_each(Waker::wake_by_ref);
    }
}

/// A guard that finishes the call if its thread ends without a result.
struct FinishGuard(Arc<LongCallState>);

impl Drop for FinishGuard {
    fn drop(&mut self) {
        self.0
            .finish(Err(SqlError::internal("a long call has failed")));
    }
}

/// A guard that stops a call when its caller no longer waits for it.
struct StopGuard<'a>(&'a LongCallState);

impl Drop for StopGuard<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

/// The result of [`Cx::in_parts`]: ready at once unless a call takes long.
pub enum CallProgress<'a, T> {
    /// The result; `None` once it has been taken.
    Done(Option<Result<T, SqlError>>),
    /// A long call is running.
    Long(Pin<Box<dyn Future<Output = Result<T, SqlError>> + Send + 'a>>),
}

impl<T: Unpin> Future for CallProgress<'_, T> {
    type Output = Result<T, SqlError>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            CallProgress::Done(outcome) => match outcome.take() {
                Some(outcome) => Poll::Ready(outcome),
                None => Poll::Pending,
            },
            CallProgress::Long(rest) => rest.as_mut().poll(task),
        }
    }
}

impl Cx<'_> {
    /// Returns the value of `expr` over `row`. Long calls in it run on their own threads.
    ///
    /// # Errors
    /// Those of the expression, and those of [`Cx::pause`].
    #[inline(always)]
    pub fn value<'a>(&'a mut self, expr: &'a Expr, row: &'a [Value]) -> CallProgress<'a, Value> {
        match expr.node {
            Node::Column(_) | Node::Const(_) | Node::Param(_) => {
                CallProgress::Done(Some(self.value_here(expr, row)))
            }
            _ => self.in_parts(|cx| cx.value_here(expr, row)),
        }
    }

    /// Returns whether `filter` is true for `row`; NULL counts as false.
    ///
    /// # Errors
    /// As [`Cx::value`].
    #[inline(always)]
    pub fn holds<'a>(
        &'a mut self,
        filter: Option<&'a Expr>,
        row: &'a [Value],
    ) -> CallProgress<'a, bool> {
        match filter {
            None => CallProgress::Done(Some(Ok(true))),
            Some(_) => self.in_parts(move |cx| cx.holds_here(filter, row)),
        }
    }

    /// Runs `work`, which evaluates expressions, and runs it again after each of its long calls.
    ///
    /// `work` must change nothing before its last expression is evaluated, or start over when it is
    /// called again. It must compute one value only, so that it does not evaluate a `nextval` of
    /// another value twice.
    ///
    /// # Errors
    /// Those of the work, and those of [`Cx::pause`].
    #[inline(always)]
    pub fn in_parts<'a, T: Send + 'a>(
        &'a mut self,
        mut work: impl FnMut(&Cx<'_>) -> Result<T, SqlError> + Send + 'a,
    ) -> CallProgress<'a, T> {
        match in_parts(self.eval, || work(self)) {
            EvaluationOutcome::Done(outcome) => CallProgress::Done(Some(outcome)),
            EvaluationOutcome::Long { call, known } => {
                CallProgress::Long(Box::pin(self.remaining_parts(work, call, known)))
            }
        }
    }

    async fn remaining_parts<T>(
        &mut self,
        mut work: impl FnMut(&Cx<'_>) -> Result<T, SqlError> + Send,
        mut call: LongCall,
        mut known: LongCallResults,
    ) -> Result<T, SqlError> {
        loop {
            known.push(Ok(self.run_long(call).await?));
            match next_part(self.eval, known, || work(self)) {
                EvaluationOutcome::Done(outcome) => return outcome,
                EvaluationOutcome::Long {
                    call: next,
                    known: so_far,
                } => (call, known) = (next, so_far),
            }
        }
    }

    /// Waits for a long call, or until the statement is cancelled.
    async fn run_long(&mut self, call: LongCall) -> Outcome {
        let running = LongCallState::begin(call)?;
        let _stopped = StopGuard(&running);
        let (cancel, deadline) = (self.cancel, self.deadline);
        let outcome = poll_fn(|task| {
            if let Err(error) = check_stop(cancel, deadline, Instant::now()) {
                return Poll::Ready(Err(error));
            }
            let mut state = running.state.lock();
            match state.outcome.take() {
                Some(outcome) => Poll::Ready(outcome),
                None => {
                    state.waiting = Some(task.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await;
        self.scratch.pace.begin_slice(Instant::now());
        outcome
    }
}
