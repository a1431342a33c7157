//! Why a command failed, in words for whoever typed it.

use std::process::ExitCode;

use fencepost_pgserver::ListenError;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The database did not open.
    #[error("could not open the database: {0}")]
    Open(#[from] fencepost::OpenError),
    /// With `--auth scram` a database would be made that no role could log in to.
    #[error(
        "a new database with --auth scram needs a password of the superuser postgres\n\
         HINT: pass --superuser-password-file FILE, or set FENCEPOST_SUPERUSER_PASSWORD."
    )]
    NoPassword,
    /// The database did not close well.
    #[error("could not close the database: {0}")]
    Close(fencepost::Error),
    /// The server did not start.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The benchmark did not run.
    #[cfg(feature = "bench")]
    #[error(transparent)]
    Bench(#[from] fencepost_benchmarks::BenchError),
    /// The other machines go on without this one.
    #[error(
        "machine {0} is no member of the cluster any more: the others have taken it to have failed, and go on without it"
    )]
    Left(u32),
    /// Something is not as it must be.
    #[error("{0}")]
    Broken(String),
    /// A file, a signal or a thread.
    #[error("{what}: {error}")]
    Io {
        /// What was being done.
        what: String,
        /// What the system said.
        error: std::io::Error,
    },
}

/// Of a process that is told apart from others that failed.
const LEFT: u8 = 3;

impl Failure {
    /// The exit code of the program.
    pub fn code(&self) -> ExitCode {
        match self {
            Failure::Left(_) => ExitCode::from(LEFT),
            _ => ExitCode::FAILURE,
        }
    }

    /// Names what was being done when the system said no.
    pub fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Failure {
        let what = what.into();
        move |error| Failure::Io { what, error }
    }
}
