//! What a thread asks the scheduler for that must not wait while others keep all processors busy.
//!
//! # Failure
//! Systems give it to those whom they trust (on Linux CAP_SYS_NICE). Who does not get it goes on without.

#[cfg(target_os = "linux")]
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

/// Asks for a place before all threads that share processors, for the calling thread alone; whether it has it now.
/// Such a thread is to do little, and mostly to sleep: nobody else runs where it does.
#[cfg(target_os = "linux")]
pub fn ask_for_priority() -> bool {
    // Of those that run before all others the least.
    let first = set_thread_priority_and_policy(
        thread_native_id(),
        ThreadPriority::Min,
        ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo),
    );
    // Where that is not given: the most there is among those who share. That counts among the threads of its session
    // alone where sessions are scheduled as groups. For Linux a process in this sense is a thread.
    const NICEST_TO_ITSELF: i32 = -20;
    first.is_ok() || rustix::process::setpriority_process(None, NICEST_TO_ITSELF).is_ok()
}

/// Elsewhere it would be that of all threads.
#[cfg(not(target_os = "linux"))]
pub fn ask_for_priority() -> bool {
    false
}
