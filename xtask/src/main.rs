//! Development tasks of the repository: `cargo xtask tidy` checks how its files are written.
//!
//! Exit codes: 0 without findings, 1 with findings, 2 if the task could not run.

mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The command line.
#[derive(Parser)]
#[command(name = "xtask", about = "Development tasks of the repository.")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

/// A development task.
#[derive(Subcommand)]
enum Task {
    /// Check the tracked files against the rules of the house.
    Tidy(tidy::Options),
}

fn main() -> ExitCode {
    let Arguments {
        task: Task::Tidy(options),
    } = Arguments::parse();
    match tidy::run(&options) {
        Ok(tidy::Verdict::Clean) => ExitCode::SUCCESS,
        Ok(tidy::Verdict::Dirty) => ExitCode::from(1),
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(2)
        }
    }
}
