//! The future answers of operations that were posted to the fabric.
//!
//! If the medium works at once, the answer exists when the operation returns, and nothing is
//! allocated. Otherwise the fabric keeps a [`Completer`]. The fabric completes it, or drops it,
//! which answers [`FabricError::Lost`].
//!
//! *Concurrency.* A caller awaits a completion in a task, or polls [`Completion::take`] between
//! other work. The waker is called by the thread that completes the operation, without a lock of
//! this module.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::fabric::FabricError;

/// The future answer of a posted operation. A dropped completion does not cancel the operation.
#[derive(Debug)]
#[must_use = "an operation may have failed"]
pub struct Completion<T>(Inner<T>);

#[derive(Debug)]
enum Inner<T> {
    Done(Option<Result<T, FabricError>>),
    Waiting(Arc<Mutex<Slot<T>>>),
}

#[derive(Debug)]
struct Slot<T> {
    answer: Option<Result<T, FabricError>>,
    waker: Option<Waker>,
}

/// The fabric's side of an operation in progress.
#[derive(Debug)]
pub struct Completer<T>(Option<Arc<Mutex<Slot<T>>>>);

impl<T> Completion<T> {
    /// Returns the completion of an operation that is over.
    pub fn done(answer: Result<T, FabricError>) -> Self {
        Completion(Inner::Done(Some(answer)))
    }

    /// Returns both sides of an operation in progress.
    pub fn pending() -> (Completer<T>, Self) {
        let slot = Arc::new(Mutex::new(Slot {
            answer: None,
            waker: None,
        }));
        let completer = Completer(Some(Arc::clone(&slot)));
        (completer, Completion(Inner::Waiting(slot)))
    }

    /// Returns the answer, if it exists and was not taken yet. Does not wait, and registers no
    /// waker. A completion whose answer was taken stays pending for ever.
    ///
    /// # Errors
    /// The error of the operation ([`FabricError`]).
    pub fn take(&mut self) -> Option<Result<T, FabricError>> {
        match &mut self.0 {
            Inner::Done(answer) => answer.take(),
            Inner::Waiting(slot) => slot.lock().answer.take(),
        }
    }
}

impl<T> Completer<T> {
    /// Ends the operation with an answer, and wakes the task that waits for it, if any.
    pub fn complete(mut self, answer: Result<T, FabricError>) {
        self.answer(answer);
    }

    /// Sets the answer, once, and wakes the waiting task.
    fn answer(&mut self, answer: Result<T, FabricError>) {
        let Some(slot) = self.0.take() else { return };
        let mut slot = slot.lock();
        slot.answer = Some(answer);
        let waker = slot.waker.take();
        drop(slot);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Drop for Completer<T> {
    fn drop(&mut self) {
        self.answer(Err(FabricError::Lost));
    }
}

impl<T> Unpin for Completion<T> {}

impl<T> Future for Completion<T> {
    type Output = Result<T, FabricError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.get_mut().0 {
            Inner::Done(answer) => match answer.take() {
                Some(answer) => Poll::Ready(answer),
                None => Poll::Pending,
            },
            Inner::Waiting(slot) => {
                let mut slot = slot.lock();
                match slot.answer.take() {
                    Some(answer) => Poll::Ready(answer),
                    None => {
                        slot.waker = Some(cx.waker().clone());
                        Poll::Pending
                    }
                }
            }
        }
    }
}
