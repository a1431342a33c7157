//! Scheduling priority: of threads that must run even while other threads use all processors, and
//! of threads that come last.
//!
//! # Failure
//! Systems give priority only to trusted processes (on Linux CAP_SYS_NICE). A thread without it
//! runs at normal priority.

#[cfg(target_os = "linux")]
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

/// Requests priority over all normal threads for the calling thread alone. Returns whether the
/// thread has it now. Such a thread must do little work and mostly sleep, because it occupies its
/// processor exclusively.
#[cfg(target_os = "linux")]
pub fn ask_for_priority() -> bool {
    // The lowest of the real-time priorities.
    let first = set_thread_priority_and_policy(
        thread_native_id(),
        ThreadPriority::Min,
        ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo),
    );
    // Without that permission, the thread takes the highest normal priority. If sessions are
    // scheduled as groups, it counts only among the threads of its session. For Linux a process in
    // this sense is a thread.
    const NICEST_TO_ITSELF: i32 = -20;
    first.is_ok() || rustix::process::setpriority_process(None, NICEST_TO_ITSELF).is_ok()
}

/// Returns false: on other systems the call would change the priority of all threads.
#[cfg(not(target_os = "linux"))]
pub fn ask_for_priority() -> bool {
    false
}

/// Lets other threads go before the calling thread, which gets a small share of a busy processor
/// and all of an idle one.
#[cfg(target_os = "linux")]
pub fn stand_back() {
    const NICE: i32 = 10;
    // Without it the thread runs at normal priority. For Linux a process in this sense is a thread.
    let _ = rustix::process::setpriority_process(None, NICE);
}

/// Does nothing: on other systems the call would change the priority of all threads.
#[cfg(not(target_os = "linux"))]
pub fn stand_back() {}
