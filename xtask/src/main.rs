//! Development tasks of the repository.
//!
//! `cargo xtask tidy` checks how files are written, `cargo xtask console` runs the console blocks
//! of documents, `cargo xtask docs` writes the generated references, and `cargo xtask ci` takes all
//! steps that a change must pass.
//!
//! Exit codes: 0 without findings, 1 with findings, 2 if the task could not run; 128 and the
//! number of the signal that ended it.

mod children;
mod ci;
mod console;
mod programs;
mod reference;
mod tidy;

use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use tidy::Verdict;

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
    /// Check the tracked files against the rules of STYLE.md.
    Tidy(tidy::Options),
    /// Write the generated references of docs/reference.
    Docs(reference::Options),
    /// Take the steps that a change must pass.
    Ci(ci::Options),
    /// Run the console blocks of documents and compare their output.
    Console(console::Options),
}

fn run(task: &Task) -> Result<Verdict, Box<dyn Error>> {
    Ok(match task {
        Task::Tidy(options) => tidy::run(options)?,
        Task::Docs(options) => {
            children::stop_on_signals(|| {})?;
            reference::run(options)?
        }
        Task::Ci(options) => ci::run(options)?,
        Task::Console(options) => {
            children::stop_on_signals(|| {})?;
            console::run(options)?
        }
    })
}

fn main() -> ExitCode {
    let Arguments { task } = Arguments::parse();
    match run(&task) {
        Ok(Verdict::Clean) => ExitCode::SUCCESS,
        Ok(Verdict::Dirty) => ExitCode::from(1),
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(2)
        }
    }
}
