//! Backoff: waiting for another transaction or machine.
//!
//! # Invariant
//! * MOMENT-1: a task that waits lets the other tasks of its thread run. One of them may hold the
//!   lock that the task waits for: commits await while they hold locks.

use std::cell::Cell;
use std::task::Poll;

/// Spin limit: rounds of backoff before the thread yields to other threads and tasks.
pub(crate) const SPINS: u32 = 64;

thread_local! {
    /// Whether all machines run in this thread, so that yielding the processor is useless.
    static ALONE: Cell<bool> = const { Cell::new(false) };
}

/// Turns off yielding of the processor in this thread: all machines run in it.
pub fn disable_yield() {
    ALONE.set(true);
}

/// Backs off once; `round` counts the calls.
#[inline]
pub(crate) async fn moment(round: u32) {
    if round < SPINS {
        std::hint::spin_loop();
    } else {
        if !ALONE.get() {
            std::thread::yield_now();
        }
        yield_now().await;
    }
}

/// Lets the other tasks of the executor run once.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
