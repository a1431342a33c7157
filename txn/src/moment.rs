//! Waiting a moment for what another transaction or machine does.
//!
//! # Invariant
//! * MOMENT-1: whoever waits lets the other tasks of its thread run. One of them may hold the lock that is
//!   waited for: commits await while they hold locks.

use std::cell::Cell;
use std::task::Poll;

thread_local! {
    static ALONE: Cell<bool> = const { Cell::new(false) };
}

/// Moments before other threads and tasks are let run.
pub(crate) const SPINS: u32 = 64;

/// Waits a moment; `round` counts the moments.
#[inline]
pub(crate) async fn moment(round: u32) {
    if round < SPINS {
        std::hint::spin_loop();
    } else {
        if !ALONE.get() {
            std::thread::yield_now();
        }
        let_others_run().await;
    }
}

/// Says that whatever is waited for in this thread is done by other tasks of it, as in a simulation: giving up the processor
/// to other threads helps nobody.
pub fn wait_for_tasks_only() {
    ALONE.set(true);
}

/// Lets other tasks of the executor run once.
pub async fn let_others_run() {
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
