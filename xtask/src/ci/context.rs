//! The state that steps share, and the commands that they run.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::{StepError, StepResult};
use crate::children::{Running, StopSignal};

/// Variables that `cargo run` sets for xtask. A build script such as that of `ring` runs again if
/// they change, and everything above it would be built twice.
const OF_CARGO_RUN: [&str; 2] = ["CARGO_MANIFEST_", "CARGO_PKG_"];

/// The state that steps share.
pub struct Context {
    /// The root of the repository, in which commands run.
    pub root: PathBuf,
    /// The target folder of cargo: `CI_TARGET`, or `target` in the root.
    pub target: PathBuf,
    /// The installation of the clients, under way beside other steps.
    pub installation: Option<Running>,
    selected: Vec<&'static str>,
}

impl Context {
    /// Returns the state for a run of the selected steps.
    pub fn new(root: PathBuf, selected: Vec<&'static str>) -> Context {
        let target = std::env::var_os("CI_TARGET").filter(|target| !target.is_empty());
        Context {
            target: root.join(target.unwrap_or_else(|| "target".into())),
            root,
            installation: None,
            selected,
        }
    }

    /// Tells whether a step is part of the run.
    pub fn is_selected(&self, name: &str) -> bool {
        self.selected.contains(&name)
    }

    /// Returns a command that runs in the root, with the environment of CI.
    pub fn command(&self, program: impl AsRef<Path>, arguments: &[&str]) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .args(arguments)
            .current_dir(&self.root)
            .env("CARGO_INCREMENTAL", "0")
            .env("CARGO_TERM_COLOR", "never")
            .env("CARGO_TARGET_DIR", &self.target);
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        for name in names.filter(|name| is_of_cargo_run(name)) {
            command.env_remove(name);
        }
        command
    }

    /// Returns a command of a script in the folder `.ci`.
    pub fn script(&self, name: &str, arguments: &[&str]) -> Command {
        self.command(self.root.join(".ci").join(name), arguments)
    }

    /// Runs cargo, and fails unless it succeeds.
    pub fn cargo(&self, arguments: &[&str]) -> StepResult {
        run(&mut self.command("cargo", arguments))
    }

    /// Returns the program that the tests have built.
    pub fn program(&self) -> Result<PathBuf, StepError> {
        let program = self.target.join("debug/fencepost");
        if !program.is_file() {
            return Err(StepError::NoProgram(program));
        }
        Ok(program)
    }
}

fn is_of_cargo_run(name: &str) -> bool {
    OF_CARGO_RUN.iter().any(|prefix| name.starts_with(prefix))
}

/// Runs a command, and fails unless it succeeds.
pub fn run(command: &mut Command) -> StepResult {
    let running = start(command)?;
    finish(running, command)
}

/// Starts a command, which goes on beside this process.
pub fn start(command: &mut Command) -> Result<Running, StepError> {
    Running::spawn(command, StopSignal::Terminate).map_err(|source| StepError::NotStarted {
        command: text(command),
        source,
    })
}

/// Waits for a command that was started, and fails unless it succeeds.
pub fn finish(mut running: Running, command: &Command) -> StepResult {
    let status = running.wait().map_err(|source| StepError::NotStarted {
        command: text(command),
        source,
    })?;
    if !status.success() {
        return Err(StepError::Failed {
            command: text(command),
            status,
        });
    }
    Ok(())
}

/// Returns a command as a reader would type it, without quotes.
fn text(command: &Command) -> String {
    let parts = std::iter::once(command.get_program()).chain(command.get_args());
    let parts: Vec<_> = parts.map(|part| part.to_string_lossy()).collect();
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context() -> Context {
        Context::new(std::env::temp_dir(), vec!["tests"])
    }

    #[test]
    fn children_have_the_environment_of_ci() {
        let context = context();
        let command = context.command("cargo", &["fmt"]);
        let value = |name: &str| {
            let mut all = command.get_envs();
            all.find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        assert_eq!(value("CARGO_INCREMENTAL"), Some(Some("0".as_ref())));
        assert_eq!(value("CARGO_TERM_COLOR"), Some(Some("never".as_ref())));
        let target = Some(Some(context.target.as_os_str()));
        assert_eq!(value("CARGO_TARGET_DIR"), target);
        assert!(is_of_cargo_run("CARGO_PKG_NAME"));
        assert!(!is_of_cargo_run("CARGO_HOME"));
    }

    #[test]
    fn failing_command_is_named_with_its_status() {
        let error = run(&mut context().command("false", &["--now"])).unwrap_err();
        assert_eq!(error.to_string(), "false --now: exit status: 1");
        let error = run(&mut context().command("no-such-program", &[])).unwrap_err();
        assert!(matches!(error, StepError::NotStarted { .. }));
        assert!(run(&mut context().command("true", &[])).is_ok());
    }

    #[test]
    fn missing_program_names_the_step_that_builds_it() {
        let mut context = context();
        context.target = context.root.join("no-such-folder");
        let error = context.program().unwrap_err().to_string();
        assert!(error.ends_with("run the step `tests` first"), "{error}");
    }

    #[test]
    fn selected_steps_are_known() {
        assert!(context().is_selected("tests"));
        assert!(!context().is_selected("clients"));
    }
}
