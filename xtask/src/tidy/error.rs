//! Reasons why tidy cannot run at all. A file that breaks a rule is a finding, not an error.

use std::path::PathBuf;

/// A failure of git, of the file system or of a data file.
#[derive(Debug, thiserror::Error)]
pub enum TidyError {
    /// The program `git` could not be started.
    #[error("cannot run git: {0}")]
    GitMissing(#[source] std::io::Error),
    /// The program `git` reported a failure.
    #[error("git {command} failed: {message}")]
    GitFailed {
        /// The arguments of git.
        command: String,
        /// Its standard error.
        message: String,
    },
    /// A file could not be read or written.
    #[error("cannot access {}: {source}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The findings could not be printed.
    #[error("cannot print: {0}")]
    Output(#[source] std::io::Error),
    /// A data file of tidy is malformed.
    #[error("cannot parse {path}: {source}")]
    Data {
        /// The path of the file.
        path: String,
        /// The cause.
        source: Box<toml::de::Error>,
    },
}
