//! Reasons why ci cannot run, and failures of steps.

use std::path::PathBuf;
use std::process::ExitStatus;

use crate::console::ConsoleError;
use crate::tidy::TidyError;

/// A reason why ci cannot run at all.
#[derive(Debug, thiserror::Error)]
pub enum CiError {
    /// The repository was not found.
    #[error(transparent)]
    Root(#[from] TidyError),
    /// A step has another name.
    #[error("no step `{0}`; `cargo xtask ci --list` prints the steps")]
    UnknownStep(String),
    /// Signals cannot be handled.
    #[error("cannot handle signals: {0}")]
    Signals(#[source] std::io::Error),
}

/// The failure of a step.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// A command could not be started or awaited.
    #[error("cannot run {command}: {source}")]
    NotStarted {
        /// The command.
        command: String,
        /// The cause.
        source: std::io::Error,
    },
    /// A command failed.
    #[error("{command}: {status}")]
    Failed {
        /// The command.
        command: String,
        /// Its status.
        status: ExitStatus,
    },
    /// A file could not be read or written.
    #[error("cannot access {}: {source}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The program has not been built.
    #[error("no program at {}; run the step `tests` first", .0.display())]
    NoProgram(PathBuf),
    /// A task of xtask printed findings.
    #[error("it has findings")]
    Findings,
    /// Tidy could not run.
    #[error(transparent)]
    Tidy(#[from] TidyError),
    /// The console blocks could not be run.
    #[error(transparent)]
    Console(#[from] ConsoleError),
}

/// The result of a step.
pub type StepResult = Result<(), StepError>;
