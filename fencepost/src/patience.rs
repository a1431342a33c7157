//! Short waits for futures, in code that must not wait for another machine for long.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// The time limit for reading the newest catalog. After it, a statement is bound with the newest
/// known catalog. A plan of an older catalog is planned again when it runs.
pub(crate) const CATALOG_PATIENCE: Duration = Duration::from_millis(100);

/// Returns the result of a future that is expected to be ready soon, or `None` after `patience`.
/// The future may depend on a task of this same thread, so an unlimited wait could never end.
pub(crate) fn within<T>(patience: Duration, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let deadline = Instant::now() + patience;
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return Some(value);
        }
        if Instant::now() > deadline {
            return None;
        }
        std::thread::yield_now();
    }
}
