//! Random SQL over the wire: statements that are made from those of the compatibility files and
//! from a small grammar.
//!
//! ```text
//! corpus ─► mutate ─┐
//! grammar ──────────┴─► script ─► round (client ─► server) ─► faults ─► reduce ─► report
//! ```
//!
//! A round is a new server, a process of its own, and a script of some hundred statements of
//! three sessions. The script is a function of the seed and the number of the round alone, so a
//! round can be repeated. A fault is a crash, a panic, a hang, a statement that outlives its
//! timeout, an internal error, a connection that ends without an error, or too much memory.

mod client;
mod corpus;
mod grammar;
mod mutate;
mod reduce;
mod round;
mod script;
mod server;
mod token;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use client::{Message, Request};
pub use round::{Bounds, Fault};
pub use script::Step;
pub use server::{SERVE, serve};

pub use corpus::Corpus;

/// The extent of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// This program, which is started as the server.
    pub program: PathBuf,
    /// The folder of the compatibility files.
    pub corpus: PathBuf,
    /// The seed.
    pub seed: u64,
    /// The number of the first round.
    pub first_round: u64,
    /// How many rounds there are at most.
    pub rounds: u64,
    /// After how long no further round begins.
    pub time: Duration,
    /// Statements of a round.
    pub statements: usize,
    /// Runs by which a script with a fault is made shorter.
    pub reductions: usize,
    /// The limits.
    pub bounds: Bounds,
}

/// A fault and the statements that lead to it.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The round.
    pub round: u64,
    /// The fault.
    pub fault: Fault,
    /// The statements, the shortest script that was found.
    pub steps: Vec<Step>,
}

/// The numbers of a run, and its findings.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Rounds that ran.
    pub rounds: u64,
    /// Statements that were sent.
    pub statements: usize,
    /// Statements that succeeded.
    pub succeeded: usize,
    /// How often each SQLSTATE was answered.
    pub states: BTreeMap<String, usize>,
    /// One finding of each signature.
    pub findings: Vec<Finding>,
}

/// Returns the folder of the compatibility files of this source tree.
pub fn corpus_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../pgserver/tests/compat")
}

/// Runs rounds and hands each finding to `report`.
///
/// # Errors
/// Files that cannot be read, or a server that does not begin.
pub fn run(options: &Options, mut report: impl FnMut(&Finding)) -> Result<Summary, String> {
    let corpus = Corpus::read(&options.corpus)?;
    let (began, mut seen) = (Instant::now(), BTreeSet::new());
    let mut summary = Summary::default();
    for round in options.first_round..options.first_round.saturating_add(options.rounds) {
        if began.elapsed() >= options.time {
            break;
        }
        let steps = script::script(&corpus, options.seed, round, options.statements);
        let outcome = round::run(&options.program, &steps, &options.bounds)?;
        summary.rounds += 1;
        summary.statements += outcome.succeeded.len();
        summary.succeeded += outcome.succeeded.iter().filter(|done| **done).count();
        for (state, count) in &outcome.states {
            *summary.states.entry(state.clone()).or_default() += count;
        }
        for fault in &outcome.faults {
            if !seen.insert(fault.signature()) {
                continue;
            }
            // A run with a hang takes as long as its bounds.
            let tries = match fault.kind {
                "hang" | "timeout" => options.reductions / 8,
                _ => options.reductions,
            };
            let (program, bounds) = (&options.program, &options.bounds);
            let steps = reduce::reduce(program, &steps, &outcome, fault, bounds, tries);
            let finding = Finding {
                round,
                fault: fault.clone(),
                steps,
            };
            report(&finding);
            summary.findings.push(finding);
        }
    }
    Ok(summary)
}

impl Finding {
    /// Returns the finding as text, with the arguments that repeat its round.
    pub fn text(&self, seed: u64) -> String {
        let Fault { kind, text, .. } = &self.fault;
        let mut out = format!("==== {kind}: {text}\n");
        let _ = writeln!(
            out,
            "repeat with --seed {seed} --round {} --rounds 1",
            self.round
        );
        for step in &self.steps {
            let _ = match &step.request {
                Request::Simple(sql) => writeln!(out, "{}: {sql};", step.session),
                Request::Extended {
                    sql,
                    parameters,
                    format,
                    rows,
                } => writeln!(
                    out,
                    "{}: {sql}; -- extended, format {format}, {rows} rows, {parameters:?}",
                    step.session
                ),
                Request::Pipeline(messages) => {
                    writeln!(out, "{}: -- pipeline {messages:?}", step.session)
                }
            };
        }
        if let Some(step) = self.steps.last()
            && step.request.sql().to_lowercase().contains("copy")
        {
            let _ = writeln!(out, "the last one gets {:?}", step.copy);
        }
        out
    }
}
