//! The server process, as functions see it: its configuration and its log.

use std::fmt::Debug;

/// The server of a session.
pub trait Server: Debug + Send + Sync {
    /// Reads the configuration again, as SIGHUP does; false if it could not be read.
    fn reload(&self) -> bool;

    /// Begins a new log file; false if the log is not in a file.
    fn rotate_log(&self) -> bool;

    /// Returns the path of the log file, if the log is in a file.
    fn log_file(&self) -> Option<String>;

    /// Returns the time of the last configuration load, in microseconds from 2000-01-01 UTC.
    fn configured(&self) -> i64;
}
