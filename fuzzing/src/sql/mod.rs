//! Random SQL over the network: statements that are derived from those of the compatibility files
//! and from a small grammar.
//!
//! ```text
//! corpus ─► mutate ─┐
//! grammar ──────────┴─► script ─► round (client ─► server) ─► faults ─► reduce ─► report
//! ```
//!
//! A round has a new server in its own process, and a script of some hundred statements for three
//! sessions. The script depends only on the seed and the number of the round, so a round can be
//! repeated. A fault is one of these: a crash, a panic, a hang, a statement that exceeds its
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
pub use server::{Process, SERVE, serve};

pub use corpus::Corpus;

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The path of this program, which is started as the server.
    pub program: PathBuf,
    /// The folder of the compatibility files.
    pub corpus: PathBuf,
    /// The seed of all rounds.
    pub seed: u64,
    /// The number of the first round.
    pub first_round: u64,
    /// The maximal number of rounds.
    pub rounds: u64,
    /// The time after which no further round begins.
    pub time: Duration,
    /// The number of statements in a round.
    pub statements: usize,
    /// The maximal number of runs to shorten a script with a fault.
    pub reductions: usize,
    /// The limits beyond which a statement is a fault.
    pub bounds: Bounds,
}

/// A fault and the statements that cause it.
#[derive(Clone, Debug)]
pub struct FoundFault {
    /// The number of the round.
    pub round: u64,
    /// The fault.
    pub fault: Fault,
    /// The statements: the shortest script that was found.
    pub steps: Vec<Step>,
}

/// The statistics of a run, and its findings.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The number of rounds that ran.
    pub rounds: u64,
    /// The number of statements that were sent.
    pub statements: usize,
    /// The number of statements that succeeded.
    pub succeeded: usize,
    /// The number of occurrences of each SQLSTATE.
    pub states: BTreeMap<String, usize>,
    /// One finding for each signature.
    pub findings: Vec<FoundFault>,
}

/// Returns the folder of the compatibility files of this source tree.
pub fn corpus_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../pgserver/tests/compat")
}

/// Runs rounds and passes each finding to `report`.
///
/// # Errors
/// Failure to read the files or to start a server.
pub fn run(options: &Options, mut report: impl FnMut(&FoundFault)) -> Result<Summary, String> {
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
            // A run with a hang takes as long as its limits.
            let tries = match fault.kind {
                "hang" | "timeout" => options.reductions / 8,
                _ => options.reductions,
            };
            let (program, bounds) = (&options.program, &options.bounds);
            let steps = reduce::reduce(program, &steps, &outcome, fault, bounds, tries);
            let finding = FoundFault {
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

impl FoundFault {
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
