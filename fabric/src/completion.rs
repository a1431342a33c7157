//! What an operation posted to the fabric answers, when it does.
//!
//! Where the medium works at once the answer is there when the operation returns, and nothing is
//! allocated. Otherwise the fabric keeps the other end, and completes it or, by dropping it, answers
//! [`FabricError::Lost`].

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::fabric::FabricError;

/// The answer of a posted operation, as a future. It may be dropped: the operation goes on.
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

/// The end of an operation that the fabric keeps.
#[derive(Debug)]
pub struct Completer<T>(Option<Arc<Mutex<Slot<T>>>>);

impl<T> Completion<T> {
    /// An operation that is over.
    pub fn done(answer: Result<T, FabricError>) -> Self {
        Completion(Inner::Done(Some(answer)))
    }

    /// An operation that is under way.
    pub fn pending() -> (Completer<T>, Self) {
        let slot = Arc::new(Mutex::new(Slot {
            answer: None,
            waker: None,
        }));
        let completer = Completer(Some(Arc::clone(&slot)));
        (completer, Completion(Inner::Waiting(slot)))
    }

    /// The answer, if it is there and was not taken yet.
    pub fn take(&mut self) -> Option<Result<T, FabricError>> {
        match &mut self.0 {
            Inner::Done(answer) => answer.take(),
            Inner::Waiting(slot) => slot.lock().answer.take(),
        }
    }
}

impl<T> Completer<T> {
    /// Ends the operation.
    pub fn complete(mut self, answer: Result<T, FabricError>) {
        self.answer(answer);
    }

    /// Answers, once.
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
