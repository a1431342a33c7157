//! A future that is dropped before its end, as when a client's connection breaks.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// Polls a future, and drops it after `polls` polls at which `counts` returned true. Returns its
/// result if it ended before.
pub async fn cut_off<F: Future>(
    future: F,
    mut polls: u64,
    counts: impl Fn() -> bool,
) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        polls -= u64::from(counts() && polls > 0);
        match polls {
            0 => Poll::Ready(None),
            _ => Poll::Pending,
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::task::{Context, Waker};

    #[test]
    fn future_is_polled_requested_number_of_times() {
        for polls in 1..5 {
            let polled = Cell::new(0);
            let future = poll_fn(|_| {
                polled.set(polled.get() + 1);
                if polled.get() == 4 {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            });
            let mut cut = pin!(cut_off(future, polls, || true));
            let mut cx = Context::from_waker(Waker::noop());
            let ended = loop {
                if let Poll::Ready(ended) = cut.as_mut().poll(&mut cx) {
                    break ended;
                }
            };
            assert_eq!((ended, polled.get()), ((polls == 4).then_some(()), polls));
        }
    }
}
