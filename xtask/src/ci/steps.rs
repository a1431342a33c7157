//! The steps, in their order.
//!
//! A new step is one entry of [`STEPS`], and a row of the table in CONTRIBUTING.md.

use std::process::Stdio;

use super::context::{self, Context};
use super::error::{StepError, StepResult};
use super::runner::Step;
use super::{clients, tools};
use crate::console;
use crate::tidy::{self, Verdict};

/// The time limit of the tests: a test that hangs fails here, before the run is given up.
const TESTS_SECONDS_MAX: &str = "3000";

/// All steps.
pub const STEPS: &[Step<Context>] = &[
    Step {
        name: "tools",
        title: "tools",
        run: tools::install,
    },
    Step {
        name: "format",
        title: "format",
        run: |context| context.cargo(&["fmt", "--all", "--check"]),
    },
    Step {
        name: "tidy",
        title: "tidy",
        run: check_style,
    },
    Step {
        name: "clippy",
        title: "clippy",
        run: lint,
    },
    Step {
        name: "clippy-features",
        title: "clippy without default features",
        run: lint_without_features,
    },
    Step {
        name: "parser",
        title: "one SQL parser",
        run: count_parsers,
    },
    Step {
        name: "documentation",
        title: "documentation",
        run: document,
    },
    Step {
        name: "loom",
        title: "loom: header word, region reads and writes",
        run: explore_schedules,
    },
    Step {
        name: "tests",
        title: "tests",
        run: test,
    },
    Step {
        name: "console",
        title: "console blocks of documents",
        run: run_console_blocks,
    },
    Step {
        name: "references",
        title: "generated references",
        run: check_references,
    },
    Step {
        name: "clients",
        title: "real clients, on one machine and on three",
        run: clients::run,
    },
    Step {
        name: "namespaces",
        title: "three machines in network namespaces, and in time namespaces",
        run: |context| context::run(&mut context.script("namespaces", &[])),
    },
];

fn verdict(verdict: Verdict) -> StepResult {
    match verdict {
        Verdict::Clean => Ok(()),
        Verdict::Dirty => Err(StepError::Findings),
    }
}

fn check_style(_context: &mut Context) -> StepResult {
    verdict(tidy::run(&tidy::Options::default())?)
}

/// Lints everything, while the clients come over the network.
fn lint(context: &mut Context) -> StepResult {
    clients::begin_installation(context);
    context.cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ])
}

/// Lints the program and the crates below it, without DataFusion and without the code of tests.
fn lint_without_features(context: &mut Context) -> StepResult {
    let package = ["clippy", "-p", "fencepost-cli", "--no-default-features"];
    context.cargo(&[&package[..], &["--", "-D", "warnings"]].concat())
}

/// Fails if DataFusion brings another version of the SQL parser: cargo then asks for a version.
fn count_parsers(context: &mut Context) -> StepResult {
    let mut command = context.command("cargo", &["tree", "-i", "sqlparser", "--depth", "0"]);
    context::run(command.stdout(Stdio::null()))
}

fn document(context: &mut Context) -> StepResult {
    let mut command = context.command("cargo", &["doc", "--workspace", "--no-deps"]);
    context::run(command.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Tests the lock-free memory under all schedules, in a target folder of its own for its flags.
fn explore_schedules(context: &mut Context) -> StepResult {
    let test = ["test", "-p", "fencepost-storage", "--test", "loom_object"];
    let mut command = context.command("cargo", &test);
    command.env("CARGO_TARGET_DIR", context.target.join("loom"));
    context::run(command.env("RUSTFLAGS", "--cfg loom"))
}

fn test(context: &mut Context) -> StepResult {
    let arguments = [TESTS_SECONDS_MAX, "cargo", "test", "--workspace"];
    context::run(&mut context.command("timeout", &arguments))
}

fn run_console_blocks(context: &mut Context) -> StepResult {
    verdict(console::run(&console::Options {
        program: Some(context.program()?),
        seconds: console::SECONDS_MAX,
        files: Vec::new(),
    })?)
}

/// Compares the generated references with the program.
fn check_references(context: &mut Context) -> StepResult {
    let program = context.program()?;
    let mut command = context.command("cargo", &["xtask", "docs", "--check", "--program"]);
    context::run(command.arg(program))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ci::runner::select;

    #[test]
    fn names_differ_and_select_their_steps() {
        for step in STEPS {
            let selected = select(STEPS, &[step.name.to_owned()]).unwrap();
            assert_eq!(selected.len(), 1, "{}", step.name);
        }
    }

    #[test]
    fn steps_that_run_the_program_come_after_the_tests() {
        let position = |name| STEPS.iter().position(|step| step.name == name).unwrap();
        for name in ["console", "references", "clients", "namespaces"] {
            assert!(position(name) > position("tests"), "{name}");
        }
        assert_eq!(position("tools"), 0);
    }
}
