//! What a thread asks the scheduler for that must not wait while others keep all processors busy.
//!
//! # Failure
//! Systems give it to those whom they trust (on Linux CAP_SYS_NICE). Who does not get it goes on without.

/// Asks for the highest priority of those that share processors, for the calling thread alone; whether it has it
/// now.
#[cfg(target_os = "linux")]
pub fn ask_for_priority() -> bool {
    // The most there is. For Linux a process in this sense is a thread.
    const NICEST_TO_ITSELF: i32 = -20;
    rustix::process::setpriority_process(None, NICEST_TO_ITSELF).is_ok()
}

/// Elsewhere it would be that of all threads.
#[cfg(not(target_os = "linux"))]
pub fn ask_for_priority() -> bool {
    false
}
