//! The step that runs real clients: drivers, ORMs and tools.
//!
//! `.ci/clients/run` installs each client from the network. The installation goes on beside the
//! step `clippy`, and its failures are told by the clients that are skipped then. Both runs of the
//! clients go on at once, because most of either is waiting. A program that runs beside others
//! reads nothing from the terminal: a question of an installer would wait for an answer unseen.

use std::fs::{self, File};
use std::io::Write;
use std::process::Stdio;

use super::context::{self, Context};
use super::error::{StepError, StepResult};
use crate::programs;

/// The language of the script.
const PYTHON: &str = "python3";

/// Starts the installation, if the run has the step `clients` and the host has Python.
pub fn begin_installation(context: &mut Context) {
    if context.is_selected("clients") && programs::find(PYTHON).is_some() {
        let mut command = context.script("clients/run", &["--install"]);
        command.stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        context.installation = context::start(&mut command).ok();
    }
}

/// Runs all clients on one machine and on three; both must pass.
pub fn run(context: &mut Context) -> StepResult {
    if programs::find(PYTHON).is_none() {
        println!("skipped: no {PYTHON}");
        return Ok(());
    }
    let program = context.program()?;
    let program = program.to_string_lossy();
    // Two runs must not install at once, so the installation ends first, with success or without.
    if context.installation.is_none() {
        begin_installation(context);
    }
    if let Some(mut installation) = context.installation.take() {
        let _ = installation.wait();
    }
    let folder = context.target.join("clients");
    let path = folder.join("three");
    let file_error = |source| StepError::File {
        path: path.clone(),
        source,
    };
    fs::create_dir_all(&folder).map_err(file_error)?;
    let output = File::create(&path).map_err(file_error)?;
    let errors = output.try_clone().map_err(file_error)?;
    let arguments = ["--program", &program, "--machines", "3"];
    let mut three = context.script("clients/run", &arguments);
    three.stdin(Stdio::null());
    let running = context::start(three.stdout(output).stderr(errors))?;
    let one = context::run(&mut context.script("clients/run", &["--program", &program]));
    let three = context::finish(running, &three);
    let text = fs::read(&path).map_err(file_error)?;
    // A closed standard output does not change the result.
    let _ = std::io::stdout().write_all(&text);
    one.and(three)
}
