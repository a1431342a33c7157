//! Panics, as lines of the log with a backtrace.

use std::backtrace::Backtrace;

/// Has panics of all threads logged in place of the library's own message.
pub fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let backtrace = Backtrace::force_capture();
        tracing::error!(
            target: "fencepost::panic",
            sqlstate = "XX000",
            backtrace = %backtrace,
            "internal error: thread \"{}\": {panic}",
            thread.name().unwrap_or("unnamed")
        );
    }));
}
