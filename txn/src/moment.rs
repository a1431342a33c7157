//! Waiting a moment for what another transaction or machine does.
//!
//! # Invariant
//! * MOMENT-1: whoever waits lets the other tasks of its thread run. One of them may hold the lock that is
//!   waited for: commits await while they hold locks.

use std::cell::Cell;
use std::task::Poll;

/// Moments before other threads and tasks are let run.
pub(crate) const SPINS: u32 = 64;

thread_local! {
    /// Whether no other thread does what is waited for here.
    static ALONE: Cell<bool> = const { Cell::new(false) };
}

/// From now on whoever waits in this thread leaves the processor to no other one: all machines there are run in it.
pub fn all_run_here() {
    ALONE.set(true);
}

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
