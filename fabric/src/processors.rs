//! Which processors a thread runs on.
//!
//! Threads inherit where they may run from the thread that starts them. One that keeps to a processor ([`pin`]) starts others
//! with [`anywhere`], or they would share it.

use std::io;
use std::sync::OnceLock;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Where threads might run before the first of them was pinned.
static ALL: OnceLock<CpuSet> = OnceLock::new();

/// The processors that this thread may use, in their order; none where the system does not say.
pub fn usable() -> Vec<usize> {
    let Ok(allowed) = sched_getaffinity(None) else {
        return Vec::new();
    };
    let all = 0..CpuSet::MAX_CPU;
    all.filter(|processor| allowed.is_set(*processor)).collect()
}

/// Keeps this thread on one processor.
///
/// # Errors
/// The system's, where the thread may not use that processor.
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

/// Runs `start`, which starts threads: they may run wherever threads might before the first one was pinned.
///
/// ```
/// use fencepost_fabric::processors::{anywhere, pin, usable};
///
/// let all = usable();
/// let worker = std::thread::spawn(move || {
///     pin(all[0]).expect("it may be there");
///     let helper = anywhere(|| std::thread::spawn(usable));
///     assert_eq!(usable(), all[..1]);
///     assert_eq!(helper.join().expect("no panic"), all);
/// });
/// worker.join().expect("no panic");
/// ```
pub fn anywhere<T>(start: impl FnOnce() -> T) -> T {
    let here = sched_getaffinity(None).ok();
    let (Some(all), Some(here)) = (ALL.get(), here) else {
        return start();
    };
    // What may not be changed stays as it is: the threads run, if not where they should.
    let _ = sched_setaffinity(None, all);
    let started = start();
    let _ = sched_setaffinity(None, &here);
    started
}
