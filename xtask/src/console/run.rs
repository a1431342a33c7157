//! One shell that runs all commands of a document.
//!
//! The shell redirects each command to a file of its own. A background process keeps that file, so
//! its output belongs to the command that started it, however late it comes. The files are read
//! after the shell has ended or was stopped, with everything that it started.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::blocks::ConsoleCommand;
use super::error::ConsoleError;
use super::sandbox::Sandbox;
use crate::children::{Running, StopSignal};

/// Runs the commands `0.sh`, `1.sh` and on of the folder `$1`, of which there are `$2`.
const DRIVER: &str = r#"
__folder=$1 __count=$2
set --
for ((__command = 0; __command < __count; __command++)); do
    exec </dev/null >>"$__folder/$__command.out" 2>&1
    eval "$(<"$__folder/$__command.sh")"
    echo "$?" >"$__folder/$__command.status"
done
"#;

/// The time limit of a document: ten times the longest one on two busy cores.
pub const SECONDS_MAX: u64 = 600;

/// The time between two looks at the shell.
const POLL: Duration = Duration::from_millis(20);

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandEnd {
    /// It ended with an exit code.
    Exit(i32),
    /// The time limit of the document passed.
    Stopped,
    /// The shell ended.
    ShellEnded,
    /// The document ended before it.
    NotRun,
}

/// The output and the end of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandResult {
    /// Everything that the command and its background processes printed.
    pub output: String,
    /// The end of the command itself.
    pub end: CommandEnd,
}

/// The run of a document.
#[derive(Clone, Debug)]
pub struct DocumentRun {
    /// The results of all commands, in their order.
    pub results: Vec<CommandResult>,
    /// The duration of the run.
    pub elapsed: Duration,
}

/// A shell for documents, with a clean environment.
pub struct Shell {
    folder: PathBuf,
    path: OsString,
    /// The place where documents run.
    pub sandbox: Sandbox,
    limit: Duration,
    documents: AtomicU32,
}

impl Shell {
    /// Returns a shell whose documents find the program as `fencepost`.
    ///
    /// `folder` is empty and gets the files of all runs. `clients` has the programs of PostgreSQL.
    pub fn new(
        folder: &Path,
        program: &Path,
        clients: &Path,
        sandbox: Sandbox,
    ) -> Result<Shell, ConsoleError> {
        let bin = folder.join("bin");
        fs::create_dir(&bin).map_err(ConsoleError::file(&bin))?;
        symlink(program, bin.join("fencepost")).map_err(ConsoleError::file(&bin))?;
        let inherited = std::env::var_os("PATH").unwrap_or_default();
        let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
        let folders = [bin, clients.to_owned()]
            .into_iter()
            .chain(std::env::split_paths(&inherited))
            .chain(system);
        // A folder of PATH has no colon in its name, except for one that was no folder before.
        let path = std::env::join_paths(folders).unwrap_or(inherited);
        Ok(Shell {
            folder: folder.to_owned(),
            path,
            sandbox,
            limit: Duration::from_secs(SECONDS_MAX),
            documents: AtomicU32::new(0),
        })
    }

    /// Returns the shell with another time limit for each document.
    pub fn with_limit(self, limit: Duration) -> Shell {
        Shell { limit, ..self }
    }

    /// Runs the commands of a document, and stops everything that they started.
    pub fn run(
        &self,
        document: &str,
        commands: &[&ConsoleCommand],
    ) -> Result<DocumentRun, ConsoleError> {
        let start = Instant::now();
        let number = self.documents.fetch_add(1, Ordering::Relaxed);
        let name = document.replace(|character: char| !character.is_alphanumeric(), "-");
        let folder = self.folder.join(format!("{number}-{name}"));
        let (home, work) = (folder.join("home"), folder.join("work"));
        for path in [&folder, &home, &work] {
            fs::create_dir(path).map_err(ConsoleError::file(path))?;
        }
        for (index, command) in commands.iter().enumerate() {
            let file = folder.join(format!("{index}.sh"));
            fs::write(&file, &command.text).map_err(ConsoleError::file(&file))?;
        }
        let mut shell = self.sandbox.shell(DRIVER);
        shell
            .arg(&folder)
            .arg(commands.len().to_string())
            .current_dir(&work)
            .env_clear()
            .env("PATH", &self.path)
            .env("HOME", &home)
            .env("LC_ALL", "C.UTF-8")
            .env("TZ", "UTC")
            .process_group(0);
        let running = Running::spawn(&mut shell, StopSignal::KillGroup);
        let mut running = running.map_err(ConsoleError::Shell)?;
        let end = self.wait(&mut running, start + self.limit);
        running.stop();
        running.await_group();
        let end = end.map_err(ConsoleError::Shell)?;
        let results = (0..commands.len()).map(|index| result(&folder, index, end));
        Ok(DocumentRun {
            results: results.collect::<Result<_, _>>()?,
            elapsed: start.elapsed(),
        })
    }

    /// Waits for the end of the shell; returns the end of a command that has not ended then.
    fn wait(&self, shell: &mut Running, deadline: Instant) -> std::io::Result<CommandEnd> {
        while Instant::now() < deadline {
            if shell.try_wait()?.is_some() {
                return Ok(CommandEnd::ShellEnded);
            }
            std::thread::sleep(POLL);
        }
        shell.stop();
        shell.wait()?;
        Ok(CommandEnd::Stopped)
    }
}

/// Reads the result of a command; `unfinished` is the end of the one that was under way.
fn result(
    folder: &Path,
    index: usize,
    unfinished: CommandEnd,
) -> Result<CommandResult, ConsoleError> {
    let read = |suffix: &str| {
        let file = folder.join(format!("{index}.{suffix}"));
        match fs::read(&file) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(ConsoleError::file(&file)(error)),
        }
    };
    let output = read("out")?;
    let status = read("status")?.and_then(|text| text.trim().parse().ok());
    let end = match (status, &output) {
        (Some(exit_code), _) => CommandEnd::Exit(exit_code),
        (None, Some(_)) => unfinished,
        (None, None) => CommandEnd::NotRun,
    };
    Ok(CommandResult {
        output: output.unwrap_or_default(),
        end,
    })
}

#[cfg(test)]
mod tests;
