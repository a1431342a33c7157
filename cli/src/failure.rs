//! The failures of commands, with messages for the user.

use std::process::ExitCode;

use fencepost_pgserver::ListenError;

/// The reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The database did not open.
    #[error("could not open the database: {0}")]
    Open(#[from] fencepost::OpenError),
    /// With `--auth scram` no role could log in to the new database.
    #[error(
        "a new database with --auth scram needs a password of the superuser postgres\n\
         HINT: pass --superuser-password-file FILE, or set FENCEPOST_SUPERUSER_PASSWORD."
    )]
    NoPassword,
    /// The database did not close without errors.
    #[error("could not close the database: {0}")]
    Close(fencepost::Error),
    /// The server did not start.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The benchmark did not run.
    #[cfg(feature = "bench")]
    #[error(transparent)]
    Bench(#[from] fencepost_benchmarks::BenchError),
    /// The other machines have evicted this one.
    #[error(
        "machine {0} is no member of the cluster any more: the others have taken it to have \
         failed, and go on without it"
    )]
    Left(u32),
    /// Another check failed; the text describes it.
    #[error("{0}")]
    Broken(String),
    /// An operation on a file, a signal or a thread failed.
    #[error("{what}: {error}")]
    Io {
        /// The operation.
        what: String,
        /// The error of the system.
        error: std::io::Error,
    },
}

/// The exit code of an evicted machine, which supervisors distinguish from other failures.
const LEFT: u8 = 3;

impl Failure {
    /// Returns the exit code of the program.
    pub fn code(&self) -> ExitCode {
        match self {
            Failure::Left(_) => ExitCode::from(LEFT),
            _ => ExitCode::FAILURE,
        }
    }

    /// Returns a function that adds the operation to a system error.
    pub fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Failure {
        let what = what.into();
        move |error| Failure::Io { what, error }
    }
}
