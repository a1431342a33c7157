//! The processors on which threads run.
//!
//! A thread inherits its permitted processors from the thread that starts it. A pinned thread
//! ([`pin`]) must start others with [`anywhere`], or they would share its processor.

use std::io;
use std::sync::OnceLock;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The permitted processors before the first thread was pinned.
static ALL: OnceLock<CpuSet> = OnceLock::new();

/// Returns the processors that this thread may use, in ascending order; empty if the system does
/// not tell.
pub fn usable() -> Vec<usize> {
    let Ok(allowed) = sched_getaffinity(None) else {
        return Vec::new();
    };
    let all = 0..CpuSet::MAX_CPU;
    all.filter(|processor| allowed.is_set(*processor)).collect()
}

/// Pins this thread to one processor.
///
/// # Errors
/// The system's error if the thread may not use that processor.
pub fn pin(processor: usize) -> io::Result<()> {
    let before = sched_getaffinity(None)?;
    ALL.get_or_init(|| before);
    let mut one = CpuSet::new();
    if processor >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    one.set(processor);
    Ok(sched_setaffinity(None, &one)?)
}

/// Returns the number of processors that the threads of the process may use together: those that
/// were permitted before the first thread was pinned. It is 1 if the system does not tell.
pub fn count() -> usize {
    let permitted = match ALL.get() {
        Some(all) => all.count() as usize,
        None => usable().len(),
    };
    permitted.max(1)
}

/// Runs `start`, whose new threads may use all processors that were permitted before the first
/// thread was pinned.
///
/// ```
/// use fencepost_fabric::processors::{anywhere, count, pin, usable};
///
/// let all = usable();
/// let worker = std::thread::spawn(move || {
///     pin(all[0]).expect("it may be there");
///     assert_eq!(count(), all.len());
///     let helper = anywhere(|| std::thread::spawn(usable));
///     assert_eq!(usable(), all[..1]);
///     assert_eq!(helper.join().expect("no panic"), all);
/// });
/// worker.join().expect("no panic");
/// ```
pub fn anywhere<T>(start: impl FnOnce() -> T) -> T {
    let previous = sched_getaffinity(None).ok();
    let (Some(all), Some(previous)) = (ALL.get(), previous) else {
        return start();
    };
    // After an error the permitted processors stay as they are; the threads still run.
    let _ = sched_setaffinity(None, all);
    let started = start();
    let _ = sched_setaffinity(None, &previous);
    started
}
