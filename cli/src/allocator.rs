//! The memory allocator of the process.
//!
//! mimalloc returns the freed memory of large statements to the system, unlike the allocator of the
//! C library. By default it does so after some milliseconds. The next large statement then waits
//! for the system to clear the same pages again, for up to a third of its time.

use std::ffi::{c_int, c_long};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The number of `mi_option_purge_delay` in `mimalloc.h`, which the bindings leave out.
const PURGE_DELAY: c_int = 15;
/// The time after which freed memory is returned, in milliseconds.
const RETURN_AFTER_MS: c_long = 1_000;

#[allow(unsafe_code)]
unsafe extern "C" {
    fn mi_option_set(option: c_int, value: c_long);
}

/// Keeps freed memory for about a second. Call it before threads start.
#[allow(unsafe_code)]
pub fn keep_freed_memory() {
    // SAFETY: the function of mimalloc, which is linked as the allocator above, stores the value of
    // an option in a table of its own. It refuses numbers beyond the table.
    unsafe { mi_option_set(PURGE_DELAY, RETURN_AFTER_MS) };
}
