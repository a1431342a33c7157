//! Fair scheduling between the tasks of a worker.
//!
//! ```text
//! work wakes itself while polled ──► YieldingWaker defers it ──► sockets and other tasks ──► work
//! ```
//! tokio polls a task that wakes itself up to 61 times before it polls the sockets again. Work that
//! yields after a millisecond would then delay new requests for 61 ms.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// The work is not being polled: a wake goes to the task.
const RESTS: u8 = 0;
/// The work is being polled, and was not woken meanwhile.
const POLLED: u8 = 1;
/// The work was woken while it was polled.
const WOKEN: u8 = 2;

/// A wrapper that polls work, and defers the next poll if the work wakes itself.
pub(super) struct YieldingWaker {
    shared: Arc<Shared>,
    waker: Waker,
}

struct Shared {
    state: AtomicU8,
    task: Waker,
}

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let noted = self
            .state
            .compare_exchange(POLLED, WOKEN, Ordering::AcqRel, Ordering::Acquire);
        if noted == Err(RESTS) {
            self.task.wake_by_ref();
        }
    }
}

impl YieldingWaker {
    /// Creates a wrapper for work of the task that `task` wakes.
    pub(super) fn new(task: &Waker) -> YieldingWaker {
        let shared = Arc::new(Shared {
            state: AtomicU8::new(RESTS),
            task: task.clone(),
        });
        YieldingWaker {
            waker: Waker::from(shared.clone()),
            shared,
        }
    }

    /// Polls `work`. If it is pending and was woken meanwhile, it is polled again after the other
    /// tasks and the sockets.
    pub(super) fn poll<T>(
        &self,
        task: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.shared.state.store(POLLED, Ordering::Release);
        let polled = poll(&mut Context::from_waker(&self.waker));
        let woken = self.shared.state.swap(RESTS, Ordering::AcqRel) == WOKEN;
        if woken && polled.is_pending() {
            defer(task);
        }
        polled
    }
}

/// Schedules the task after the other tasks and the sockets.
fn defer(task: &mut Context<'_>) {
    // The first poll only registers the task.
    let _ = pin!(tokio::task::yield_now()).poll(task);
}

/// A series of requests that a connection handles without waiting for its client.
#[derive(Default)]
pub(super) struct Burst {
    requests: u32,
    since: Option<Instant>,
}

/// The number of requests between two readings of the clock.
const REQUESTS: u32 = 32;
/// The duration of a burst, after which other tasks run first.
const BURST: Duration = Duration::from_millis(1);

impl Burst {
    /// Counts a request. Returns true if the other tasks should run first.
    #[inline]
    pub(super) fn is_over(&mut self) -> bool {
        self.requests += 1;
        self.requests >= REQUESTS && self.look(Instant::now())
    }

    #[cold]
    fn look(&mut self, now: Instant) -> bool {
        self.requests = 0;
        let since = *self.since.get_or_insert(now);
        let over = now.duration_since(since) >= BURST;
        if over {
            self.since = Some(now);
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[derive(Default)]
    struct Counter(AtomicU32);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn wake_during_poll_is_deferred_and_later_wake_is_not() {
        let counter = Arc::new(Counter::default());
        let task = Waker::from(counter.clone());
        let yielding = YieldingWaker::new(&task);
        let mut woken = None;
        let polled: Poll<()> = yielding.poll(&mut Context::from_waker(&task), |cx| {
            woken = Some(cx.waker().clone());
            Poll::Pending
        });
        assert!(polled.is_pending());
        assert_eq!(counter.0.load(Ordering::Relaxed), 0);
        woken.expect("polled").wake();
        assert_eq!(counter.0.load(Ordering::Relaxed), 1);
        let polled: Poll<()> = yielding.poll(&mut Context::from_waker(&task), |cx| {
            cx.waker().wake_by_ref();
            cx.waker().wake_by_ref();
            Poll::Pending
        });
        assert!(polled.is_pending());
        // Outside a runtime a deferred task is woken at once, and only once.
        assert_eq!(counter.0.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn burst_is_over_after_its_time() {
        let mut burst = Burst::default();
        let begun = Instant::now();
        assert!(!burst.look(begun));
        assert!(!burst.look(begun + BURST / 2));
        assert!(burst.look(begun + BURST));
        assert!(!burst.look(begun + BURST));
    }
}
