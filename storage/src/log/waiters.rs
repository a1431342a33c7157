//! Waiters for durability of the log up to a position: futures of any executor, and threads.
//!
//! *Concurrency.* `flushed` is published before the list of waiters is taken. A waiter reads
//! `flushed` again under the list's lock before it joins. So no waiter is missed. All waiters whose
//! position is reached are woken together, after the lock is released.
//!
//! *Failure.* A future that is dropped leaves its waker in the list; the flush that would have
//! woken it removes the waker.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::{Condvar, Mutex};

use super::error::LogError;
use super::format::Lsn;
use super::tail::Shared;

/// The durable end of the log, and its waiters.
#[derive(Default)]
pub(super) struct Waiters {
    flushed: AtomicU64,
    list: Mutex<List>,
    threads: Condvar,
}

#[derive(Default)]
struct List {
    wakers: Vec<(u64, Waker)>,
    threads: usize,
}

impl Waiters {
    pub fn starting_at(flushed: u64) -> Self {
        Self {
            flushed: AtomicU64::new(flushed),
            ..Self::default()
        }
    }

    pub fn flushed(&self) -> u64 {
        self.flushed.load(Ordering::Acquire)
    }

    /// Publishes a new durable end and wakes the waiters that it satisfies.
    pub fn publish(&self, flushed: u64) {
        self.flushed.store(flushed, Ordering::Release);
        self.wake(flushed);
    }

    /// Wakes all waiters, so that they check the state of the log.
    pub fn wake_all(&self) {
        self.wake(u64::MAX);
    }

    fn wake(&self, reached: u64) {
        let mut list = self.list.lock();
        let ready: Vec<(u64, Waker)> = list
            .wakers
            .extract_if(.., |(lsn, _)| *lsn <= reached)
            .collect();
        if list.threads > 0 {
            self.threads.notify_all();
        }
        drop(list);
        for (_, waker) in ready {
            waker.wake();
        }
    }
}

impl Shared {
    /// Returns `Ok` once the position is durable, and `Err` once it can never be.
    fn outcome(&self, lsn: Lsn) -> Option<Result<(), LogError>> {
        if self.waiters.flushed() >= lsn.raw() {
            return Some(Ok(()));
        }
        let ended = self.flusher_ended.load(Ordering::Acquire);
        self.failure()
            .or(ended.then_some(LogError::Closed))
            .map(Err)
    }

    pub(super) fn wait_flushed_blocking(&self, lsn: Lsn) -> Result<(), LogError> {
        if let Some(outcome) = self.outcome(lsn) {
            return outcome;
        }
        let mut list = self.waiters.list.lock();
        list.threads += 1;
        let outcome = loop {
            if let Some(outcome) = self.outcome(lsn) {
                break outcome;
            }
            self.waiters.threads.wait(&mut list);
        };
        list.threads -= 1;
        outcome
    }
}

/// A future that is ready once the log is durable up to a position, or has failed. It may be
/// dropped at any time.
#[must_use = "nothing is waited for until this is awaited"]
pub struct FlushWait<'a> {
    shared: &'a Shared,
    lsn: Lsn,
    joined: Option<Waker>,
}

impl<'a> FlushWait<'a> {
    pub(super) fn new(shared: &'a Shared, lsn: Lsn) -> Self {
        Self {
            shared,
            lsn,
            joined: None,
        }
    }
}

impl Future for FlushWait<'_> {
    type Output = Result<(), LogError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Some(outcome) = this.shared.outcome(this.lsn) {
            return Poll::Ready(outcome);
        }
        if this
            .joined
            .as_ref()
            .is_some_and(|waker| waker.will_wake(cx.waker()))
        {
            return Poll::Pending;
        }
        let mut list = this.shared.waiters.list.lock();
        if let Some(outcome) = this.shared.outcome(this.lsn) {
            return Poll::Ready(outcome);
        }
        list.wakers.push((this.lsn.raw(), cx.waker().clone()));
        this.joined = Some(cx.waker().clone());
        Poll::Pending
    }
}
