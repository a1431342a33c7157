//! The server process, as functions and operators see it: its configuration, its log, the
//! directory of its temporary files.

use std::fmt::Debug;
use std::path::PathBuf;

/// The server of a session.
pub trait Server: Debug + Send + Sync {
    /// Reloads the configuration, as SIGHUP does; returns false if it cannot be read.
    fn reload(&self) -> bool;

    /// Starts a new log file; returns false if the log is not in a file.
    fn rotate_log(&self) -> bool;

    /// Returns the path of the log file, if the log is in a file.
    fn log_file(&self) -> Option<String>;

    /// Returns the time of the last configuration load, in microseconds from 2000-01-01 UTC.
    fn configured(&self) -> i64;

    /// Returns the directory of temporary files, to which large queries write.
    fn temporary_directory(&self) -> PathBuf;
}
