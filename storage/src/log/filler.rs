//! The filler: one thread that keeps allocated bytes ahead of the log's end.
//!
//! It extends the last segment with zeros, syncs, and moves the `filled` horizon. When the segment
//! is full it makes the next one, from a retired file if there is one, because its bytes are
//! already allocated.
//!
//! *Failure.* A full disk stops the horizon: appends that need more space are refused. Each refusal
//! makes the filler try again, at most every [`RETRY_PAUSE`]. Any other error fails the log.

use std::io;
use std::time::{Duration, Instant};

use super::format::SEGMENT_HEADER_BYTES;
use super::tail::Shared;

/// Most bytes by which the horizon moves between two syncs.
const STEP_BYTES: u64 = 4 << 20;

/// The shortest time between two attempts on a full disk.
const RETRY_PAUSE: Duration = Duration::from_millis(5);

/// Runs until the log is closed or has failed.
pub(super) fn run(shared: &Shared) {
    while let Some(filled) = wait_for_work(shared) {
        match extend(shared, filled) {
            Ok(filled) => {
                let mut tail = shared.tail.lock();
                tail.filled = filled;
                shared.set_full(&mut tail, false);
            }
            Err(error) if is_full(&error) => {
                let mut tail = shared.tail.lock();
                shared.set_full(&mut tail, true);
                let pause = Instant::now() + RETRY_PAUSE;
                while !tail.closing && !shared.fill.wait_until(&mut tail, pause).timed_out() {}
            }
            Err(error) => {
                shared.fail(format!("making space: {error}"));
                return;
            }
        }
    }
}

/// Waits until more space must be allocated. Returns the present horizon; `None` if the log is
/// closed or has failed.
fn wait_for_work(shared: &Shared) -> Option<u64> {
    let mut tail = shared.tail.lock();
    loop {
        if tail.closing || shared.failure.get().is_some() {
            return None;
        }
        let behind = !tail.full && tail.filled < shared.fill_target(&tail);
        if behind || tail.wanted {
            return Some(tail.filled);
        }
        tail.filler_idle = true;
        shared.fill.wait(&mut tail);
        tail.filler_idle = false;
    }
}

/// Allocates one step more. Returns the new horizon.
fn extend(shared: &Shared, filled: u64) -> io::Result<u64> {
    let segment_bytes = shared.segments.segment_bytes;
    let (number, offset) = (filled / segment_bytes, filled % segment_bytes);
    if offset == 0 {
        let space = (SEGMENT_HEADER_BYTES + STEP_BYTES).min(segment_bytes);
        let allocated = shared.segments.make(number, space)?;
        return Ok(number * segment_bytes + allocated);
    }
    let file = shared
        .segments
        .file(number)
        .ok_or(io::ErrorKind::NotFound)?;
    let to = (offset + STEP_BYTES).min(segment_bytes);
    file.zero_fill(offset, to)?;
    file.sync_all()?;
    Ok(number * segment_bytes + to)
}

fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}
