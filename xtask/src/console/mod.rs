//! `cargo xtask console`: runs the `console` blocks of documents and compares their output.
//!
//! ```text
//! document ── blocks ── commands ── one shell in a sandbox ── output of each command ─┐
//!                          └── expected output ───────────────────── compare ─────────┴─ report
//! ```
//! The shell runs all blocks of a document in their order, in an empty folder. The output of a
//! background process belongs to the command that started it. Documents run side by side where
//! each has a network of its own, and one after the other where they share that of the host.

mod blocks;
mod compare;
mod error;
mod normalise;
mod report;
mod run;
mod sandbox;

use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::programs;
use crate::tidy::{self, Verdict};
use blocks::Document;
pub use error::ConsoleError;
use normalise::Normaliser;
use report::Report;
pub use run::SECONDS_MAX;
use run::Shell;
use sandbox::Sandbox;

/// Documents with console blocks that readers are expected to type.
const DOCUMENTS: [&str; 2] = ["README.md", "docs/start.md"];
/// The folder of further documents.
const GUIDES: &str = "docs/guides";
/// Programs of PostgreSQL without which no document runs.
const CLIENTS: [&str; 3] = ["psql", "pgbench", "pg_isready"];
/// Programs that only some documents need.
const TOOLS: [&str; 2] = ["openssl", "pgrep"];

/// The command line of console.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The program `fencepost`; `debug/fencepost` in the target folder without this option.
    #[arg(long, value_name = "PATH")]
    pub program: Option<PathBuf>,
    /// The time limit of a document.
    #[arg(long, value_name = "S", default_value_t = SECONDS_MAX)]
    pub seconds: u64,
    /// Documents; README.md, docs/start.md and the guides without any.
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

/// Runs the blocks of documents and prints each difference; blocks until all of them have ended.
pub fn run(options: &Options) -> Result<Verdict, ConsoleError> {
    let root = tidy::root()?;
    let Some(clients) = programs::postgres_folder(&CLIENTS) else {
        let names = CLIENTS.join(", ");
        println!("skipped: the blocks need {names}, and not all of them are installed");
        return Ok(Verdict::Clean);
    };
    let documents = read_documents(&root, &options.files)?;
    let program = program(&root, options)?;
    let sandbox = Sandbox::detect();
    if let Sandbox::Host { reason } = &sandbox {
        println!("no namespaces, so documents run one after the other: {reason}");
    }
    let folder = tempfile::tempdir().map_err(ConsoleError::Shell)?;
    let shell = Shell::new(folder.path(), &program, &clients, sandbox)?
        .with_limit(Duration::from_secs(options.seconds));
    let with_commands: Vec<_> = documents.iter().filter(|one| one.has_commands()).collect();
    let reports = run_all(&with_commands, &shell)?;
    for report in reports.iter().filter(|report| !report.is_clean()) {
        print!("{report}");
    }
    print_left_out(&documents);
    let is_clean = reports.iter().all(Report::is_clean);
    Ok(if is_clean {
        Verdict::Clean
    } else {
        Verdict::Dirty
    })
}

/// Returns the absolute path of the program.
fn program(root: &Path, options: &Options) -> Result<PathBuf, ConsoleError> {
    let target = || programs::target_folder(root).join("debug/fencepost");
    let path = options.program.clone().unwrap_or_else(target);
    std::fs::canonicalize(&path).map_err(|_| ConsoleError::NoProgram(path))
}

/// Reads the documents that have console blocks.
fn read_documents(root: &Path, files: &[PathBuf]) -> Result<Vec<Document>, ConsoleError> {
    let mut paths = files.to_owned();
    if paths.is_empty() {
        paths.extend(DOCUMENTS.map(|name| root.join(name)));
        let guides = root.join(GUIDES);
        let entries = std::fs::read_dir(&guides).map_err(ConsoleError::file(&guides))?;
        let mut names: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
            .collect();
        names.sort();
        paths.extend(names);
    }
    let mut documents = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).map_err(ConsoleError::file(&path))?;
        let name = path.strip_prefix(root).unwrap_or(&path);
        let document = Document::parse(&name.to_string_lossy(), &text)?;
        if !document.blocks.is_empty() {
            documents.push(document);
        }
    }
    Ok(documents)
}

/// Runs documents, as many at once as the sandbox allows, and prints a line for each.
fn run_all(documents: &[&Document], shell: &Shell) -> Result<Vec<Report>, ConsoleError> {
    let normaliser = Normaliser::new();
    let next = AtomicUsize::new(0);
    let reports = Mutex::new(Vec::new());
    let work = || -> Result<(), ConsoleError> {
        while let Some(document) = documents.get(next.fetch_add(1, Ordering::Relaxed)) {
            let report = run_one(document, shell, &normaliser)?;
            println!("{}", report.summary());
            let _ = std::io::stdout().flush();
            let mut reports = reports.lock().expect("no thread panics with the lock");
            reports.push(report);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..shell.sandbox.documents_at_once())
            .map(|_| scope.spawn(work))
            .collect();
        workers.into_iter().try_for_each(|worker| {
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })?;
    let mut reports = reports.into_inner().expect("all threads have ended");
    reports.sort_by(|left: &Report, right| left.path.cmp(&right.path));
    Ok(reports)
}

/// Runs one document, unless it needs a program that is not installed.
fn run_one(
    document: &Document,
    shell: &Shell,
    normaliser: &Normaliser,
) -> Result<Report, ConsoleError> {
    let is_missing = |tool: &&&str| document.has_word(tool) && programs::find(tool).is_none();
    if let Some(tool) = TOOLS.iter().find(is_missing) {
        return Ok(Report::skipped(&document.path, tool));
    }
    let taken = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_err();
    if let Sandbox::Host { .. } = shell.sandbox
        && let Some(port) = document.ports().into_iter().find(taken)
    {
        return Ok(Report::port_taken(&document.path, port));
    }
    let commands: Vec<_> = document.commands().collect();
    let run = shell.run(&document.path, &commands)?;
    Ok(Report::new(&document.path, &commands, &run, normaliser))
}

/// Prints the blocks that a marker leaves out.
fn print_left_out(documents: &[Document]) {
    for document in documents {
        for block in &document.blocks {
            if let Some(reason) = &block.left_out {
                println!("{}:{}: not run: {reason}", document.path, block.line);
            }
        }
    }
}
