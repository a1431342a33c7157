//! Those who asked for a checkpoint and wait for it: futures of any executor.
//!
//! *Concurrency.* The answer and the waker are behind one lock: an answer wakes whoever has waited,
//! and who comes later finds it.
//!
//! *Failure.* A future that is dropped leaves the checkpoint to be taken for nobody.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use fencepost_storage::checkpoint::CheckpointError;
use parking_lot::Mutex;

/// How an asked-for checkpoint ended; several askers share one.
pub type Answer = Result<(), Arc<CheckpointError>>;

#[derive(Default)]
struct State {
    answer: Option<Answer>,
    waker: Option<Waker>,
}

/// One who asked; answered by the checkpointer's thread.
#[derive(Clone, Default)]
pub(crate) struct Asker(Arc<Mutex<State>>);

impl Asker {
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

/// Ready once the checkpoint is taken, or has failed. May be dropped at any time.
#[must_use = "nothing is waited for until this is awaited"]
pub struct WaitCheckpoint(pub(crate) Asker);

impl Future for WaitCheckpoint {
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
