//! Reasons why console cannot run at all. A document that is wrong is in its report.

use std::path::{Path, PathBuf};

use crate::tidy::TidyError;

/// A failure of the file system, of the shell, or of a document's markers.
#[derive(Debug, thiserror::Error)]
pub enum ConsoleError {
    /// The repository was not found.
    #[error(transparent)]
    Root(#[from] TidyError),
    /// The program has not been built.
    #[error("no program at {}; run cargo build, or pass --program PATH", .0.display())]
    NoProgram(PathBuf),
    /// A file could not be read or written.
    #[error("cannot access {}: {source}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A shell could not be run.
    #[error("cannot run bash: {0}")]
    Shell(#[source] std::io::Error),
    /// A document has a malformed block or marker.
    #[error("{path}:{line}: {problem}")]
    Malformed {
        /// The path of the document.
        path: String,
        /// The line in it, from 1.
        line: usize,
        /// The fault.
        problem: &'static str,
    },
}

impl ConsoleError {
    /// Returns a function that adds a path to an error of the file system.
    pub fn file(path: &Path) -> impl FnOnce(std::io::Error) -> ConsoleError {
        move |source| ConsoleError::File {
            path: path.to_owned(),
            source,
        }
    }
}
