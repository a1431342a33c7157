//! Room in the log that is reserved before it is needed, so that the append cannot wait.
//!
//! *What.* A commit reserves, before it locks anything, what it is going to append under its locks.
//! Room is space that is allocated on the disk, and buffer to gather records in while the flusher is
//! busy. Whoever finds none waits in line, as a future or as a thread.
//!
//! *Invariants.*
//! - ROOM-1. What is reserved is allocated, whatever else is appended first: one append moves the
//!   end of the log by no more than [`room_for`] says, padding and the rest of a segment that it does
//!   not fit included, and gives up as much of its reservation as it has moved the end.
//! - ROOM-2. First come first served: while somebody waits, the fast way is closed. A reservation
//!   larger than the whole buffer gets it once nobody else has any of it.
//!
//! *Concurrency.* The fast way is one addition to `reserved` and a look at `ceiling`. Whoever lowers
//! the ceiling does it before giving up the reservation it used, and whoever gives room back looks
//! for waiters afterwards, as who begins to wait looks at `reserved` after it is in line.
//!
//! *Failure.* A disk without space for it refuses a reservation with [`LogError::Full`]; a failed or
//! closed log refuses all.

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

/// What an append may move the end of the log by besides twice its size: once for itself, once for
/// the rest of a segment that it does not fit.
const OVERHEAD_BYTES: u64 =
    2 * (SEGMENT_HEADER_BYTES + BATCH_ALIGN + 2 * BATCH_HEADER_BYTES as u64);

/// The room that `appends` appends need that take `bytes` together, headers and padding included.
fn room_for(bytes: usize, appends: usize) -> u64 {
    2 * bytes as u64 + appends as u64 * OVERHEAD_BYTES
}

/// Room that was reserved; to be used up or given back.
#[derive(Debug, Default)]
#[must_use = "room that is not given back is lost to the log"]
pub struct Room(u64);

impl Room {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0 == 0
    }
}

/// One who waits for room.
pub(super) struct Waiting {
    room: u64,
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
    /// Reserves room if it is there and nobody waits for it.
    pub fn try_reserve(&self, bytes: usize, appends: usize) -> Option<Room> {
        let room = room_for(bytes, appends);
        if self.add(room) <= self.ceiling.load(Ordering::Acquire) {
            return Some(Room(room));
        }
        self.release(room);
        None
    }

    /// Gives back what was not used.
    pub fn give_back(&self, room: Room) {
        if room.0 > 0 {
            self.release(room.0);
        }
    }

    fn add(&self, room: u64) -> u64 {
        self.reserved.fetch_add(room, Ordering::SeqCst) + room
    }

    fn release(&self, room: u64) {
        self.reserved.fetch_sub(room, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.give_room(&mut self.tail.lock());
        }
    }

    /// The end of the log has moved by `moved` under `tail`, on account of `room`; with `done` the
    /// rest goes back.
    pub fn use_up(&self, tail: &mut Tail, room: &mut Room, moved: u64, done: bool) {
        debug_assert!(moved <= room.0, "an append outgrew its room");
        let used = if done { room.0 } else { moved.min(room.0) };
        room.0 -= used;
        // Nobody may see the room as free and the ceiling as before.
        self.publish_ceiling(tail);
        self.reserved.fetch_sub(used, Ordering::SeqCst);
        if !tail.waiting.is_empty() {
            self.give_room(tail);
        }
    }

    /// Room that is allocated, and that the buffer has.
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

    /// Serves those who wait, as far as there is room. To be called whenever there may be more.
    pub fn give_room(&self, tail: &mut Tail) {
        let ended = self.ended(tail).is_some();
        while let Some(first) = tail.waiting.front() {
            let (allocated, buffer) = self.limits(tail);
            let room = first.room;
            let verdict = if ended {
                State::Ended
            } else {
                let sum = self.add(room);
                let alone = sum == room && tail.gathered == 0;
                if sum <= allocated && (sum <= buffer || alone) {
                    State::Granted
                } else {
                    self.reserved.fetch_sub(room, Ordering::SeqCst);
                    if sum <= allocated {
                        break;
                    }
                    self.want_more(tail);
                    // What others have reserved may come back, but not become more.
                    if !tail.full || room <= allocated {
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

    /// Waits for room as a thread.
    pub fn reserve_blocking(&self, bytes: usize, appends: usize) -> Result<Room, LogError> {
        if let Some(room) = self.try_reserve(bytes, appends) {
            return Ok(room);
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

impl Waiting {
    fn end(&self, verdict: State) {
        let before = std::mem::replace(&mut *self.state.lock(), verdict);
        if let State::Waiting(waker) = before {
            waker.wake();
        }
    }
}

/// Ready once room is reserved, or will not be. May be dropped at any time.
#[must_use = "nothing is reserved until this is awaited"]
pub(super) struct Reserve<'a> {
    shared: &'a Shared,
    room: u64,
    place: Option<Arc<Waiting>>,
}

impl<'a> Reserve<'a> {
    pub fn new(shared: &'a Shared, bytes: usize, appends: usize) -> Self {
        Self {
            shared,
            room: room_for(bytes, appends),
            place: None,
        }
    }

    fn join(&self, waker: &Waker) -> Arc<Waiting> {
        let place = Arc::new(Waiting {
            room: self.room,
            state: Mutex::new(State::Waiting(waker.clone())),
        });
        let shared = self.shared;
        let mut tail = shared.tail.lock();
        tail.waiting.push_back(Arc::clone(&place));
        shared.waiting.store(tail.waiting.len(), Ordering::SeqCst);
        shared.give_room(&mut tail);
        if tail.waiting.iter().any(|other| Arc::ptr_eq(other, &place)) {
            shared.counts.append_waits.fetch_add(1, Ordering::Relaxed);
        }
        place
    }
}

impl Future for Reserve<'_> {
    type Output = Result<Room, LogError>;

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
            State::Granted => Poll::Ready(Ok(Room(this.room))),
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
            self.shared.reserved.fetch_sub(self.room, Ordering::SeqCst);
        }
        // Who stood behind may have room now.
        self.shared.give_room(&mut tail);
    }
}
