//! Requests for a checkpoint that wait for its end: futures of any executor.
//!
//! *Concurrency.* One lock protects the answer and the waker. An answer wakes a request that waits;
//! a request that is polled later finds the answer.
//!
//! *Failure.* If the future is dropped, the checkpoint is taken all the same.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use fencepost_storage::checkpoint::CheckpointError;
use parking_lot::Mutex;

/// The result of a requested checkpoint; several requests share one checkpoint.
pub type Answer = Result<(), Arc<CheckpointError>>;

#[derive(Default)]
struct State {
    answer: Option<Answer>,
    waker: Option<Waker>,
}

/// One request; answered by the checkpointer's thread.
#[derive(Clone, Default)]
pub(crate) struct CheckpointRequest(Arc<Mutex<State>>);

impl CheckpointRequest {
    pub fn answer(&self, answer: Answer) {
        let waker = {
            let mut state = self.0.lock();
            state.answer = Some(answer);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// A future that is ready once the checkpoint is taken or has failed. It may be dropped at any
/// time. One task awaits it; the checkpointer's thread wakes the task.
#[must_use = "nothing is waited for until this is awaited"]
pub struct CheckpointWait(pub(crate) CheckpointRequest);

impl Future for CheckpointWait {
    type Output = Answer;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        let mut state = self.0.0.lock();
        if let Some(answer) = &state.answer {
            return Poll::Ready(answer.clone());
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}
