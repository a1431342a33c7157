//! Development tasks of the repository: `cargo xtask tidy` checks how its files are written, and
//! `cargo xtask docs` writes the generated references.
//!
//! Exit codes: 0 without findings, 1 with findings, 2 if the task could not run.

mod reference;
mod tidy;

use std::error::Error;
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
    /// Write the generated references of docs/reference.
    Docs(reference::Options),
    /// Check the tracked files against the rules of the house.
    Tidy(tidy::Options),
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(task: Task) -> Result<ExitCode, Box<dyn Error>> {
    let is_success = match task {
        Task::Docs(options) => reference::run(&options)? == reference::Verdict::Success,
        Task::Tidy(options) => tidy::run(&options)? == tidy::Verdict::Clean,
    };
    Ok(ExitCode::from(u8::from(!is_success)))
}
