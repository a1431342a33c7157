//! `cargo xtask tidy`: checks how the tracked files are written.
//!
//! ```text
//! git ls-files ── Source (tokens, sentences, syntax) ── rules over one file ──┐
//!                   └── Summary ── Tree ── rules over the tree ───────────────┴─ findings
//!                                                         ratchet ── judged findings ── stdout
//! ```
//! Files are parsed once, on all cores; the findings are sorted, so the output is the same each
//! time. A file that does not parse is a finding. Tidy fails only without git or a data file.

mod error;
mod finding;
mod imports;
mod manifest;
mod ratchet;
pub mod repository;
mod rule;
mod rules;
mod sample;
mod settings;
mod source;
mod tree;

use std::any::Any;
use std::fmt::Display;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

pub use error::TidyError;
use finding::Finding;
use ratchet::Ratchet;
pub use repository::root;
use settings::Settings;
use source::{Format, Source};
use tree::{Summary, Tree};

/// The command line of tidy.
#[derive(Default, clap::Args)]
pub struct Options {
    /// Print this many comment blocks for reading, and check nothing.
    #[arg(long, value_name = "N")]
    sample: Option<usize>,
    /// Seed of the sample.
    #[arg(long, value_name = "S", default_value_t = 0, requires = "sample")]
    seed: u64,
    /// Lower the ratchet to the findings of today.
    #[arg(long, conflicts_with = "sample")]
    tighten: bool,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No rule is broken.
    Clean,
    /// At least one finding was printed.
    Dirty,
}

/// Runs tidy on the repository around the current folder and prints its findings.
pub fn run(options: &Options) -> Result<Verdict, TidyError> {
    let start = Instant::now();
    let root = repository::root()?;
    let settings = Settings::read(&root)?;
    let paths = repository::tracked_paths(&root)?;
    let Outcome {
        summaries,
        mut findings,
    } = check_files(&root, &settings, &paths)?;
    if let Some(count) = options.sample {
        print(&sample::sample(&summaries, count, options.seed))?;
        return Ok(Verdict::Clean);
    }
    let history = repository::history(&root, &settings.tree.subjects.base)?;
    rules::check_tree(&Tree::new(&settings, summaries, history), &mut findings);
    let mut ratchet = Ratchet::read(&root)?;
    if options.tighten {
        ratchet = ratchet.tighten(&findings);
        ratchet.write(&root)?;
    }
    let judged = ratchet.judge(&findings);
    print(&judged)?;
    let seconds = start.elapsed().as_secs_f64();
    eprintln!(
        "tidy: {} files, {} findings, {seconds:.1} s",
        paths.len(),
        judged.len()
    );
    Ok(if judged.is_empty() {
        Verdict::Clean
    } else {
        Verdict::Dirty
    })
}

/// Prints items line by line; a closed pipe is an error.
fn print(items: &[impl Display]) -> Result<(), TidyError> {
    let mut text = String::new();
    for item in items {
        text.push_str(&format!("{item}\n"));
    }
    std::io::stdout()
        .write_all(text.as_bytes())
        .map_err(TidyError::Output)
}

/// The facts and findings of some files.
#[derive(Default)]
struct Outcome {
    summaries: Vec<Summary>,
    findings: Vec<Finding>,
}

type Worker<'scope> = std::thread::ScopedJoinHandle<'scope, Result<Outcome, TidyError>>;

/// Parses and checks files on all cores; the summaries are in the order of the paths.
fn check_files(root: &Path, settings: &Settings, paths: &[String]) -> Result<Outcome, TidyError> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let check = |worker| check_every(root, settings, paths.iter().skip(worker).step_by(threads));
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<Worker<'_>> = (0..threads)
            .map(|worker| scope.spawn(move || check(worker)))
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(resume))
            .collect()
    });
    let mut all = Outcome::default();
    for outcome in outcomes {
        let outcome = outcome?;
        all.summaries.extend(outcome.summaries);
        all.findings.extend(outcome.findings);
    }
    all.summaries
        .sort_by(|left, right| left.path.cmp(&right.path));
    Ok(all)
}

/// Continues the panic of a worker.
fn resume(panic: Box<dyn Any + Send>) -> Result<Outcome, TidyError> {
    std::panic::resume_unwind(panic)
}

fn check_every<'a>(
    root: &Path,
    settings: &Settings,
    paths: impl Iterator<Item = &'a String>,
) -> Result<Outcome, TidyError> {
    let mut outcome = Outcome::default();
    for path in paths {
        let text = read(root, path)?;
        let source = Source::parse(path, &text, settings);
        rules::check_source(&source, &mut outcome.findings);
        outcome.summaries.push(Summary::of(source));
    }
    Ok(outcome)
}

/// Reads a file that rules look into; the text of other files is empty.
fn read(root: &Path, path: &str) -> Result<String, TidyError> {
    if Format::of(path) == Format::Opaque && !tree::is_manifest(path) {
        return Ok(String::new());
    }
    let file = root.join(path);
    match std::fs::read(&file) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(source) => Err(TidyError::File { path: file, source }),
    }
}
