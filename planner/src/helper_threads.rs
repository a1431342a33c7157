//! Threads that help sessions with large queries: they run DataFusion's operators and read parts of
//! scans.
//!
//! They are few, and belong to the process. They start with the first query that needs them. They
//! stand back behind the threads of sessions, so short statements continue meanwhile.

use std::io;
use std::sync::OnceLock;

use fencepost_fabric::processors::{anywhere, count};
use fencepost_fabric::stand_back;
use tokio::runtime::{Builder, Runtime};

/// The maximal number of threads.
const THREADS_MAX: usize = 4;

/// Returns the number of threads that help a session to read; 0 on a single processor.
pub fn reading_helpers() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| (count() / 2).min(THREADS_MAX))
}

/// Returns the runtime of the threads. It has no timers and no I/O.
///
/// # Errors
/// The system's error if no thread can be started.
pub fn runtime() -> io::Result<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let build = || {
        Builder::new_multi_thread()
            .worker_threads(reading_helpers().max(1))
            .thread_name("fencepost-helper")
            .on_thread_start(stand_back)
            .build()
    };
    let runtime = anywhere(build)?;
    // If another thread was faster, its runtime is used.
    Ok(RUNTIME.get_or_init(|| runtime))
}
