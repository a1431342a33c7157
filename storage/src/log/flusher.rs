//! The flusher: one thread that repeatedly writes the gathered records as one durable batch.
//!
//! *Concurrency.* While it writes one batch, appenders gather the next in the other buffer.
//!
//! *Failure.* The first error of a write or sync fails the log for good (see [`super`]).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fencepost_fabric::DiskFile;

use super::batch::Batch;
use super::segments::segment_name;
use super::tail::Shared;
use super::writer::Watermark;

/// Runs until the log is closed and everything is written, or has failed.
pub(super) fn run(shared: &Shared, watermark: &Watermark) {
    let _last_words = FlusherEndGuard(shared);
    let mut at_segment: Option<(u64, Arc<dyn DiskFile>)> = None;
    while let Some(work) = wait_for_work(shared, watermark) {
        while let Some((mut batch, prev_end)) = take_batch(shared) {
            let end = batch.end();
            if let Err(why) = write(shared, &mut at_segment, &mut batch, prev_end) {
                shared.fail(why);
                return;
            }
            if end >= work.until {
                shared
                    .watermark
                    .fetch_max(work.watermark, Ordering::Release);
            }
            shared.waiters.publish(end);
            shared.tail.lock().spare_buffer = batch.into_buffer();
            if end >= work.until {
                break;
            }
        }
    }
}

fn take_batch(shared: &Shared) -> Option<(Batch, u64)> {
    let mut tail = shared.tail.lock();
    let taken = tail.take_batch(shared.segments.segment_bytes);
    shared.grant_space(&mut tail);
    taken
}

/// The records to write.
struct Work {
    /// Once the log is durable up to here, all commits that the watermark covers are durable.
    until: u64,
    watermark: u64,
}

/// A guard that tells waiters, however the flusher ends, that nothing more will be flushed.
struct FlusherEndGuard<'a>(&'a Shared);

impl Drop for FlusherEndGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail("the flusher panicked".to_owned());
        }
        self.0.flusher_ended.store(true, Ordering::Release);
        self.0.waiters.wake_all();
    }
}

/// Waits until there are records. Returns the watermark from before they are taken, so that all
/// commits that it covers are among them. Returns `None` if nothing is left to do.
fn wait_for_work(shared: &Shared, watermark: &Watermark) -> Option<Work> {
    let mut tail = shared.tail.lock();
    while tail.is_empty() {
        if tail.closing || shared.failure.get().is_some() {
            return None;
        }
        tail.flusher_idle = true;
        shared.work.wait(&mut tail);
        tail.flusher_idle = false;
    }
    drop(tail);
    let watermark = watermark();
    let until = shared.appended.load(Ordering::Acquire);
    Some(Work { until, watermark })
}

fn write(
    shared: &Shared,
    at_segment: &mut Option<(u64, Arc<dyn DiskFile>)>,
    batch: &mut Batch,
    prev_end: u64,
) -> Result<(), String> {
    let segments = &shared.segments;
    let number = batch.start() / segments.segment_bytes;
    let offset = batch.start() % segments.segment_bytes;
    let file = match at_segment {
        Some((at, file)) if *at == number => file,
        _ => {
            let file = segments
                .file(number)
                .ok_or("a segment in use was retired")?;
            &at_segment.insert((number, file)).1
        }
    };
    let records = batch.records();
    let bytes = batch.seal(segments.log_id, shared.incarnation, prev_end);
    let written = file.write_at(offset, bytes).and_then(|()| file.sync());
    written.map_err(|error| format!("{}: {error}", segment_name(number)))?;
    shared.counts.flushes.fetch_add(1, Ordering::Relaxed);
    shared
        .counts
        .flushed_bytes
        .fetch_add(bytes.len() as u64, Ordering::Relaxed);
    shared
        .counts
        .flushed_records
        .fetch_add(u64::from(records), Ordering::Relaxed);
    Ok(())
}
