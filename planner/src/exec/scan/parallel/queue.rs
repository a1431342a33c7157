//! The queue between the threads of a scan: the parts of its range, and their rows in order.
//!
//! ```text
//! parts   0 ended │ 1 read by a helper │ 2 read by the session │ rest, not divided yet
//!         blocks ─┤ blocks             │ blocks                │
//!                 └▶ the session takes blocks of the first part only
//! ```
//!
//! # Invariants
//! * The rows are those of a scan by one thread, in the same order: blocks are taken from the first
//!   part until it has ended, then from the next.
//! * The blocks that wait take little more than [`ROOM_BYTES`]: a thread begins a part, or
//!   continues one that is not the first, only while there is room. The first part always
//!   continues, so the scan never stands still.
//!
//! Writers: each part is read by one thread. A helper that fails ends its part with the error,
//! which the session gets when it comes to that part. A session that needs no more rows closes the
//! queue, and the helpers stop.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::task::{Poll, Waker};

use fencepost_btree::Cursor;
use fencepost_sql::error::SqlError;
use fencepost_sql::stop::StatementStop;
use fencepost_txn::Machine;
use parking_lot::Mutex;

use super::block::RowBlock;

/// The bytes of blocks that wait.
pub const ROOM_BYTES: usize = 8 << 20;
/// The number of empty blocks that are kept for reuse.
const SPARE_BLOCKS: usize = 32;

/// The queue of a scan.
pub struct Queue(Mutex<State>);

struct State {
    /// The part of the range that no thread has begun.
    rest: Cursor,
    /// The parts that were begun and not taken whole, in order.
    parts: VecDeque<Part>,
    /// The number of the first of them.
    first: usize,
    /// Bytes of all blocks that wait.
    bytes: usize,
    spare: Vec<RowBlock>,
    session: Option<Waker>,
    helpers: Vec<Waker>,
    /// The number of helpers that have not ended.
    helpers_left: usize,
    is_closed: bool,
}

#[derive(Default)]
struct Part {
    blocks: VecDeque<RowBlock>,
    end: Option<Result<(), StatementStop>>,
}

/// A part that a thread reads.
pub struct Claim {
    /// Its number, in the order of the scan.
    pub number: usize,
    /// Its range.
    pub cursor: Cursor,
}

/// The state of the rows that the session takes next.
pub enum NextRows {
    /// The next rows.
    Block(RowBlock),
    /// The first part has this number; more of its rows must be read.
    Reading(usize),
    /// No part was begun.
    Unread,
}

impl Queue {
    /// Creates the queue of a range.
    pub fn new(range: Cursor) -> Queue {
        Queue(Mutex::new(State {
            rest: range,
            parts: VecDeque::new(),
            first: 0,
            bytes: 0,
            spare: Vec::new(),
            session: None,
            helpers: Vec::new(),
            helpers_left: 0,
            is_closed: false,
        }))
    }

    /// Registers a helper. It has ended when the guard is dropped.
    pub fn register_helper(self: &Arc<Queue>) -> HelperGuard {
        self.0.lock().helpers_left += 1;
        HelperGuard(Arc::clone(self))
    }

    /// Begins the next part, if there is room or no part is being read. Returns `None` otherwise,
    /// or if no part is left.
    pub fn begin_part(&self, machine: &Machine) -> Option<Claim> {
        self.0.lock().begin_part(machine)
    }

    /// Begins the next part as [`Self::begin_part`] does, as soon as there is room. Returns `None`
    /// if no part is left, or the queue is closed.
    pub fn poll_part(&self, machine: &Machine, waker: &Waker) -> Poll<Option<Claim>> {
        let mut state = self.0.lock();
        if state.is_closed {
            return Poll::Ready(None);
        }
        match state.begin_part(machine) {
            Some(claim) => Poll::Ready(Some(claim)),
            None if state.rest.is_at_end() => Poll::Ready(None),
            None => {
                state.helpers.push(waker.clone());
                Poll::Pending
            }
        }
    }

    /// Waits for room in a part. Returns false if the queue is closed.
    pub fn poll_room(&self, number: usize, waker: &Waker) -> Poll<bool> {
        let mut state = self.0.lock();
        if state.is_closed {
            return Poll::Ready(false);
        }
        if state.has_room(number) {
            return Poll::Ready(true);
        }
        state.helpers.push(waker.clone());
        Poll::Pending
    }

    /// Returns whether a part that is read ahead has room.
    pub fn has_room(&self, number: usize) -> bool {
        self.0.lock().has_room(number)
    }

    /// Returns an empty block.
    pub fn spare_block(&self) -> RowBlock {
        self.0.lock().spare.pop().unwrap_or_default()
    }

    /// Adds a block of a part.
    pub fn push(&self, number: usize, block: RowBlock) {
        let mut state = self.0.lock();
        state.bytes += block.bytes();
        match state.part(number) {
            Some(part) => part.blocks.push_back(block),
            None => state.bytes -= block.bytes(),
        }
        state.wake_session();
    }

    /// Ends a part. Only the first end counts.
    pub fn end_part(&self, number: usize, end: Result<(), StatementStop>) {
        let mut state = self.0.lock();
        if let Some(part) = state.part(number) {
            part.end.get_or_insert(end);
        }
        state.wake_session();
    }

    /// Takes the next block, and returns `used` for reuse. Returns `None` at the end.
    ///
    /// # Errors
    /// The error with which the part has ended.
    pub fn take(&self, used: Option<RowBlock>) -> Result<Option<NextRows>, StatementStop> {
        let mut state = self.0.lock();
        state.reuse(used);
        loop {
            let number = state.first;
            let Some(part) = state.parts.front_mut() else {
                let is_over = state.rest.is_at_end();
                return Ok((!is_over).then_some(NextRows::Unread));
            };
            if let Some(block) = part.blocks.pop_front() {
                state.bytes -= block.bytes();
                if state.bytes <= ROOM_BYTES {
                    state.wake_helpers();
                }
                return Ok(Some(NextRows::Block(block)));
            }
            match part.end.take() {
                None => return Ok(Some(NextRows::Reading(number))),
                Some(end) => {
                    state.parts.pop_front();
                    state.first += 1;
                    state.wake_helpers();
                    end?;
                }
            }
        }
    }

    /// Waits until the first part has more rows, or has ended.
    pub fn poll_rows(&self, waker: &Waker) -> Poll<()> {
        let mut state = self.0.lock();
        let first = state.parts.front();
        if first.is_none_or(|part| !part.blocks.is_empty() || part.end.is_some()) {
            return Poll::Ready(());
        }
        state.session = Some(waker.clone());
        Poll::Pending
    }

    /// Waits until all helpers have ended.
    pub fn poll_end(&self, waker: &Waker) -> Poll<()> {
        let mut state = self.0.lock();
        if state.helpers_left == 0 {
            return Poll::Ready(());
        }
        state.session = Some(waker.clone());
        Poll::Pending
    }

    /// Closes the queue: the session needs no more rows.
    pub fn close(&self) {
        let mut state = self.0.lock();
        state.is_closed = true;
        state.parts.clear();
        state.spare.clear();
        state.wake_helpers();
    }
}

impl State {
    fn begin_part(&mut self, machine: &Machine) -> Option<Claim> {
        if !self.parts.is_empty() && self.bytes >= ROOM_BYTES {
            return None;
        }
        let cursor = self.rest.take_part(machine)?;
        let number = self.first + self.parts.len();
        self.parts.push_back(Part::default());
        Some(Claim { number, cursor })
    }

    fn part(&mut self, number: usize) -> Option<&mut Part> {
        let at = number.checked_sub(self.first)?;
        self.parts.get_mut(at)
    }

    fn has_room(&self, number: usize) -> bool {
        number <= self.first || self.bytes < ROOM_BYTES
    }

    fn reuse(&mut self, used: Option<RowBlock>) {
        if let Some(mut block) = used
            && self.spare.len() < SPARE_BLOCKS
        {
            block.clear();
            self.spare.push(block);
        }
    }

    fn wake_session(&mut self) {
        if let Some(session) = self.session.take() {
            session.wake();
        }
    }

    fn wake_helpers(&mut self) {
        for helper in mem::take(&mut self.helpers) {
            helper.wake();
        }
    }
}

/// A guard that ends a part with an error if its thread ends without a result.
pub struct PartGuard<'a> {
    pub queue: &'a Queue,
    pub number: usize,
}

impl Drop for PartGuard<'_> {
    fn drop(&mut self) {
        let failed = SqlError::internal("a part of a scan has failed");
        self.queue.end_part(self.number, Err(failed.into()));
    }
}

/// A helper that has not ended.
pub struct HelperGuard(Arc<Queue>);

impl Drop for HelperGuard {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.helpers_left -= 1;
        state.wake_session();
    }
}
