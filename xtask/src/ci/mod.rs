//! `cargo xtask ci`: the steps that a change must pass, in the order in which they fail fastest.
//!
//! It needs Rust and git. The step `tools` installs further programs where it can; tests that want
//! a program that is missing say so and pass. The first step that fails ends the run. The time of
//! each step is printed at the end, also if a signal ends the run.
//!
//! `.ci/run` starts it. While steps run, cargo holds no lock: `cargo run` becomes this process.

mod clients;
mod context;
mod error;
mod runner;
mod steps;
mod times;
mod tools;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::children;
use crate::tidy::{self, Verdict};
use context::Context;
use error::CiError;
use steps::STEPS;
use times::Times;

/// The command line of ci.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Print the names of the steps, and run none.
    #[arg(long)]
    list: bool,
    /// Steps to run, in the order of the list; all without any.
    #[arg(value_name = "STEP")]
    steps: Vec<String>,
}

/// Runs the steps; blocks until they have ended or one has failed.
pub fn run(options: &Options) -> Result<Verdict, CiError> {
    let selected = runner::select(STEPS, &options.steps)?;
    if options.list {
        for step in selected {
            println!("{:<16} {}", step.name, step.title);
        }
        return Ok(Verdict::Clean);
    }
    let root = tidy::root()?;
    let start = Instant::now();
    let times = Arc::new(Mutex::new(Times::default()));
    let at_signal = Arc::clone(&times);
    let print = move |times: &Mutex<Times>| {
        let times = times.lock().unwrap_or_else(PoisonError::into_inner);
        println!("\n{}", times.summary(start.elapsed()));
    };
    children::stop_on_signals(move || print(&at_signal)).map_err(CiError::Signals)?;
    let mut context = Context::new(root, selected.iter().map(|step| step.name).collect());
    let failure = runner::run(&selected, &mut context, &times, || start.elapsed());
    print(&times);
    if let Some((name, error)) = failure {
        eprintln!("\nfailed: {name}: {error}");
        return Ok(Verdict::Dirty);
    }
    Ok(Verdict::Clean)
}
