//! The `fencepost` program, with one file per command.
//!
//! ```text
//!   fencepost start         serves PostgreSQL clients until SIGTERM or SIGINT
//!   fencepost dev-cluster   the same, from several machines on this host
//!   fencepost bench         runs a benchmark and checks its data
//!   fencepost check         verifies a stopped database
//!   fencepost backup        writes a running database to a directory
//!   fencepost restore       restores a backup
//!   fencepost status        shows a running database
//!   fencepost drain         moves the regions of a machine to the others
//!   fencepost remove        removes a drained machine
//! ```
//! Exit codes: 0 success, 1 failure (with a message on stderr), 2 wrong usage, 3 the other machines
//! of the cluster have evicted this one.

#![forbid(unsafe_code)]

mod access;
mod admin_connection;
mod backup;
#[cfg(feature = "bench")]
mod bench;
mod check;
#[cfg(feature = "bench")]
mod compared;
mod configuration;
mod dev_cluster;
#[cfg(feature = "bench")]
mod failover;
mod failure;
mod leave;
mod log;
mod monitoring;
mod shared_directory;
mod signals;
mod size;
mod start;
mod status;

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::configuration::FullCommandLine;
use crate::failure::Failure;

/// The exit code for a wrong command line.
const WRONG_USAGE: u8 = 2;

/// An allocator that returns memory to the system after a large statement, unlike that of the C
/// library.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// An SQL OLTP database that speaks the PostgreSQL protocol.
#[derive(Debug, Parser)]
#[command(name = "fencepost", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve PostgreSQL clients.
    Start(Box<start::Start>),
    /// Run a database of several machines on this host.
    DevCluster(Box<dev_cluster::DevCluster>),
    /// Run a benchmark, check its data and report.
    #[cfg(feature = "bench")]
    Bench(Box<bench::Bench>),
    /// Verify a stopped database.
    Check(check::Check),
    /// Back up a running database to a directory.
    Backup(backup::BackupArgs),
    /// Restore a backup.
    Restore(backup::Restore),
    /// Show a running database.
    Status(status::Status),
    /// Move a machine's regions to the other machines.
    Drain(leave::Drain),
    /// Remove a drained machine.
    Remove(leave::Remove),
    #[cfg(feature = "bench")]
    #[command(hide = true)]
    FailoverMachine(failover::FailoverMachine),
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let done = match arguments.command {
        Command::Start(start) => start.run(),
        Command::DevCluster(cluster) => cluster.run(),
        #[cfg(feature = "bench")]
        Command::Bench(bench) => bench.run(),
        Command::Check(check) => check.run(),
        Command::Backup(take) => take.run(),
        Command::Restore(restore) => restore.run(),
        Command::Status(status) => status.run(),
        Command::Drain(drain) => drain.run(),
        Command::Remove(remove) => remove.run(),
        #[cfg(feature = "bench")]
        Command::FailoverMachine(machine) => machine.run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // One write, because machines of a dev-cluster may report at the same time.
            let line = format!("fencepost: {failure}\n");
            let _ = std::io::stderr().write_all(line.as_bytes());
            failure.code()
        }
    }
}

/// Returns the command line with the options of the configuration file. Reports errors on stderr.
fn arguments() -> Result<Arguments, ExitCode> {
    let wrong = |why: String| {
        // If stderr is closed, the exit code still reports the error.
        let _ = std::io::stderr().write_all(format!("fencepost: {why}\n").as_bytes());
        ExitCode::from(WRONG_USAGE)
    };
    let given = std::env::args_os().collect();
    let expanded = FullCommandLine::of(&Arguments::command(), given).map_err(wrong)?;
    Arguments::try_parse_from(&expanded.arguments).map_err(|error| {
        match expanded.place_of(&error) {
            Some(place) => wrong(format!("{place}{error}")),
            None => error.exit(),
        }
    })
}

/// The result of every command.
type CommandResult = Result<(), Failure>;
