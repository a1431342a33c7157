//! Long calls of expressions on threads of their own, so that the other sessions of the worker go on meanwhile.
//!
//! A thread ends with its call. A statement that is cancelled does not wait for it: the call is told to stop.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};
use std::time::Instant;

use fencepost_fabric::processors::anywhere;
use fencepost_sql::bound::Expr;
use fencepost_sql::error::SqlError;
use fencepost_sql::functions::{Evaluated, LongCall, eval_in_parts};
use fencepost_sql::value::Value;
use parking_lot::Mutex;

use super::cx::{Cx, check_stop};

type Outcome = Result<Value, SqlError>;

/// A long call that runs.
#[derive(Default)]
struct Running {
    state: Mutex<State>,
    stop: Arc<AtomicBool>,
}

#[derive(Default)]
struct State {
    outcome: Option<Outcome>,
    waiting: Option<Waker>,
}

impl Running {
    fn begin(call: LongCall) -> Result<Arc<Running>, SqlError> {
        let running = Arc::new(Running::default());
        let end = End(Arc::clone(&running));
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

/// Finishes a call whose thread ends without a result.
struct End(Arc<Running>);

impl Drop for End {
    fn drop(&mut self) {
        self.0
            .finish(Err(SqlError::internal("a long call has failed")));
    }
}

/// Stops a call that is not waited for any more.
struct Stopped<'a>(&'a Running);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

impl Cx<'_> {
    /// The value of `expr` over `row`; what takes long of it runs on a thread of its own.
    ///
    /// # Errors
    /// Those of the expression, and as [`Cx::pause`].
    #[inline]
    pub async fn long_value(&mut self, expr: &Expr, row: &[Value]) -> Outcome {
        let mut known = Vec::new();
        match eval_in_parts(expr, row, self.params(), self.eval, &mut known) {
            Evaluated::Done(outcome) => outcome,
            Evaluated::Long(call) => Box::pin(self.rest_of_value(expr, row, known, call)).await,
        }
    }

    async fn rest_of_value(
        &mut self,
        expr: &Expr,
        row: &[Value],
        mut known: Vec<Outcome>,
        mut call: LongCall,
    ) -> Outcome {
        loop {
            known.push(Ok(self.run_long(call).await?));
            call = match eval_in_parts(expr, row, self.params(), self.eval, &mut known) {
                Evaluated::Done(outcome) => return outcome,
                Evaluated::Long(call) => call,
            };
        }
    }

    /// Waits for a long call, or for what ends the statement.
    async fn run_long(&mut self, call: LongCall) -> Outcome {
        let running = Running::begin(call)?;
        let _stopped = Stopped(&running);
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
