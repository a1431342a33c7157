//! Log space that is reserved in advance, so that the append cannot wait.
//!
//! A commit reserves space, before it locks anything, for the records that it appends under its
//! locks. A reservation covers allocated bytes on the disk, and buffer space for records while the
//! flusher is busy. If there is none, the caller waits in a queue, as a future or as a thread.
//!
//! *Invariants.*
//! - LOGSPACE-1. Reserved space is allocated, whatever else is appended first. One append moves the
//!   end of the log by no more than [`reserved_bytes`] returns. That includes padding and the rest
//!   of a segment that it does not fit. It gives up as much of its reservation as it has moved the
//!   end.
//! - LOGSPACE-2. First come, first served: while a request waits, the fast path is closed. A
//!   reservation larger than the whole buffer is granted once there is no other reservation.
//!
//! *Concurrency.* The fast path is one addition to `reserved` and one read of `ceiling`. An append
//! lowers the ceiling before it gives up the reservation that it used. A thread that returns space
//! checks for waiters afterwards. A new waiter reads `reserved` after it has joined the queue. So
//! no wake-up is lost.
//!
//! *Failure.* A disk without enough space refuses a reservation with [`LogError::Full`]; a failed
//! or closed log refuses all.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use parking_lot::Mutex;

use super::error::LogError;
use super::format::{BATCH_ALIGN, BATCH_HEADER_BYTES, SEGMENT_HEADER_BYTES};
use super::tail::{Shared, Tail};

/// Most bytes by which an append moves the end of the log beyond twice its size. The size counts
/// once for the append and once for the rest of a segment that it does not fit.
const OVERHEAD_BYTES: u64 =
    2 * (SEGMENT_HEADER_BYTES + BATCH_ALIGN + 2 * BATCH_HEADER_BYTES as u64);

/// Returns the reservation for `appends` appends of `bytes` together, including headers and
/// padding.
fn reserved_bytes(bytes: usize, appends: usize) -> u64 {
    2 * bytes as u64 + appends as u64 * OVERHEAD_BYTES
}

/// A reservation of log space; to be used up or given back.
#[derive(Debug, Default)]
#[must_use = "log space that is not given back is lost to the log"]
pub struct LogReservation(u64);

impl LogReservation {
    /// Returns whether nothing is reserved.
    pub fn is_empty(&self) -> bool {
        self.0 == 0
    }
}

/// A request that waits for log space.
pub(super) struct SpaceWaiter {
    space: u64,
    state: Mutex<State>,
}

enum State {
    Waiting(Waker),
    Granted,
    /// The disk is full.
    Full,
    /// The log has failed or was closed.
    Ended,
}

impl Shared {
    /// Reserves log space if it is available and no request waits.
    pub fn try_reserve(&self, bytes: usize, appends: usize) -> Option<LogReservation> {
        let space = reserved_bytes(bytes, appends);
        if self.add(space) <= self.ceiling.load(Ordering::Acquire) {
            return Some(LogReservation(space));
        }
        self.release(space);
        None
    }

    /// Gives back unused space.
    pub fn give_back(&self, reservation: LogReservation) {
        if reservation.0 > 0 {
            self.release(reservation.0);
        }
    }

    fn add(&self, space: u64) -> u64 {
        self.reserved.fetch_add(space, Ordering::SeqCst) + space
    }

    fn release(&self, space: u64) {
        self.reserved.fetch_sub(space, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.grant_space(&mut self.tail.lock());
        }
    }

    /// Reduces `reservation` after an append under `tail` that moved the end of the log by `moved`.
    /// If `done`, the rest is given back.
    pub fn use_up(
        &self,
        tail: &mut Tail,
        reservation: &mut LogReservation,
        moved: u64,
        done: bool,
    ) {
        debug_assert!(moved <= reservation.0, "an append outgrew its reservation");
        let used = if done {
            reservation.0
        } else {
            moved.min(reservation.0)
        };
        reservation.0 -= used;
        // Lower the ceiling first: otherwise another thread could see the space as free under the
        // old ceiling.
        self.publish_ceiling(tail);
        self.reserved.fetch_sub(used, Ordering::SeqCst);
        if !tail.waiting.is_empty() {
            self.grant_space(tail);
        }
    }

    /// Returns the limits of reservations by allocated bytes and by buffer space.
    fn limits(&self, tail: &Tail) -> (u64, u64) {
        let next = tail.next(self.segments.segment_bytes);
        let buffer = self.buffer_bytes.saturating_sub(tail.gathered);
        (tail.filled.saturating_sub(next), 2 * buffer)
    }

    fn publish_ceiling(&self, tail: &Tail) {
        let (allocated, buffer) = self.limits(tail);
        let open = tail.waiting.is_empty();
        let ceiling = if open { allocated.min(buffer) } else { 0 };
        self.ceiling.store(ceiling, Ordering::Release);
    }

    /// Grants waiting requests, as far as there is space. To be called whenever there may be more.
    pub fn grant_space(&self, tail: &mut Tail) {
        let ended = self.ended(tail).is_some();
        while let Some(first) = tail.waiting.front() {
            let (allocated, buffer) = self.limits(tail);
            let space = first.space;
            let verdict = if ended {
                State::Ended
            } else {
                let sum = self.add(space);
                let alone = sum == space && tail.gathered == 0;
                if sum <= allocated && (sum <= buffer || alone) {
                    State::Granted
                } else {
                    self.reserved.fetch_sub(space, Ordering::SeqCst);
                    if sum <= allocated {
                        break;
                    }
                    self.want_more(tail);
                    // Other reservations may be given back, but the allocated space does not grow.
                    if !tail.full || space <= allocated {
                        break;
                    }
                    self.counts.refused.fetch_add(1, Ordering::Relaxed);
                    State::Full
                }
            };
            if let Some(first) = tail.waiting.pop_front() {
                first.end(verdict);
            }
        }
        self.waiting.store(tail.waiting.len(), Ordering::SeqCst);
        self.publish_ceiling(tail);
    }

    /// Reserves log space, and blocks the thread until it is available.
    pub fn reserve_blocking(
        &self,
        bytes: usize,
        appends: usize,
    ) -> Result<LogReservation, LogError> {
        if let Some(reservation) = self.try_reserve(bytes, appends) {
            return Ok(reservation);
        }
        let mut wait = Reserve::new(self, bytes, appends);
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut cx = Context::from_waker(&waker);
        loop {
            match Pin::new(&mut wait).poll(&mut cx) {
                Poll::Ready(done) => return done,
                Poll::Pending => std::thread::park(),
            }
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl SpaceWaiter {
    fn end(&self, verdict: State) {
        let before = std::mem::replace(&mut *self.state.lock(), verdict);
        if let State::Waiting(waker) = before {
            waker.wake();
        }
    }
}

/// A future that is ready once space is reserved, or will not be. It may be dropped at any time.
#[must_use = "nothing is reserved until this is awaited"]
pub(super) struct Reserve<'a> {
    shared: &'a Shared,
    space: u64,
    place: Option<Arc<SpaceWaiter>>,
}

impl<'a> Reserve<'a> {
    pub fn new(shared: &'a Shared, bytes: usize, appends: usize) -> Self {
        Self {
            shared,
            space: reserved_bytes(bytes, appends),
            place: None,
        }
    }

    fn join(&self, waker: &Waker) -> Arc<SpaceWaiter> {
        let place = Arc::new(SpaceWaiter {
            space: self.space,
            state: Mutex::new(State::Waiting(waker.clone())),
        });
        let shared = self.shared;
        let mut tail = shared.tail.lock();
        tail.waiting.push_back(Arc::clone(&place));
        shared.waiting.store(tail.waiting.len(), Ordering::SeqCst);
        shared.grant_space(&mut tail);
        if tail.waiting.iter().any(|other| Arc::ptr_eq(other, &place)) {
            shared.counts.append_waits.fetch_add(1, Ordering::Relaxed);
        }
        place
    }
}

impl Future for Reserve<'_> {
    type Output = Result<LogReservation, LogError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let place = match this.place.take() {
            Some(place) => place,
            None => this.join(cx.waker()),
        };
        let mut state = place.state.lock();
        match &mut *state {
            State::Waiting(waker) => {
                waker.clone_from(cx.waker());
                drop(state);
                this.place = Some(place);
                Poll::Pending
            }
            State::Granted => Poll::Ready(Ok(LogReservation(this.space))),
            State::Full => Poll::Ready(Err(LogError::Full)),
            State::Ended => Poll::Ready(Err(this.shared.failure().unwrap_or(LogError::Closed))),
        }
    }
}

impl Drop for Reserve<'_> {
    fn drop(&mut self) {
        let Some(place) = self.place.take() else {
            return;
        };
        let mut tail = self.shared.tail.lock();
        tail.waiting.retain(|other| !Arc::ptr_eq(other, &place));
        if let State::Granted = *place.state.lock() {
            self.shared.reserved.fetch_sub(self.space, Ordering::SeqCst);
        }
        // Requests behind this one may have enough space now.
        self.shared.grant_space(&mut tail);
    }
}
