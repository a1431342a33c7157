//! Statements over many rows: scans, aggregates, sorts, joins, and bulk changes, on one server or
//! on two servers in turn.
//!
//! ```text
//! big   id, g = id % 997, v = id · 7919 % 1000003 (index), c a text      rows of `--rows`
//! one   every thousandth id of big
//! ```
//! Statements that change rows work on copies, which are made anew before each round.

mod items;

use std::time::Duration;

use crate::compared::{ComparedReport, ComparedServer, ServerOptions, measure};
use crate::error::BenchError;
use items::{items, load};

/// The options of a run.
#[derive(Clone, Debug)]
pub struct BulkOptions {
    /// The servers.
    pub servers: ServerOptions,
    /// The number of rows of the large table; at least 1,000.
    pub rows: u64,
    /// The number of measured executions of each item.
    pub rounds: usize,
    /// The time limit of each statement.
    pub timeout: Duration,
    /// The names of the items to run; all if there is none.
    pub items: Vec<String>,
    /// Whether to print a line after each step.
    pub progress: bool,
}

/// Loads the tables, measures each item and compares the answers.
///
/// # Errors
/// Wrong options, a server that cannot be reached, and failures of the load. Failures of items and
/// wrong answers are part of the report: see [`ComparedReport::check`].
pub fn run(options: &BulkOptions) -> Result<ComparedReport, BenchError> {
    options.servers.check()?;
    if options.rows < 1_000 || options.rounds == 0 || options.timeout.as_millis() == 0 {
        return Err(BenchError::Options(
            "bulk needs at least 1000 rows, one round and a time limit of a millisecond".into(),
        ));
    }
    let all = items(options.rows);
    let is_known = |name: &&String| !all.iter().any(|item| item.name == **name);
    if let Some(unknown) = options.items.iter().find(is_known) {
        let known: Vec<&str> = all.iter().map(|item| item.name.as_str()).collect();
        return Err(BenchError::Options(format!(
            "bulk has no item {unknown}; its items are {}",
            known.join(", ")
        )));
    }
    let say = |text: &str| {
        if options.progress {
            eprintln!("{text}");
        }
    };
    let mut servers = Vec::new();
    for source in options.servers.sources()? {
        let mut server = ComparedServer::connect(&source)?;
        say(&format!("loading {}", server.label));
        for statement in load(options.rows) {
            server.loader().script(&statement)?;
        }
        server.limit_time(options.timeout)?;
        servers.push(server);
    }
    let is_chosen = |name: &String| options.items.is_empty() || options.items.contains(name);
    let mut reports = Vec::new();
    for item in all.iter().filter(|item| is_chosen(&item.name)) {
        let report = measure(item, options.rounds, &mut servers, None);
        say(&report.to_string());
        reports.push(report);
    }
    Ok(ComparedReport {
        workload: "bulk",
        title: format!("Statements over {} rows", options.rows),
        rounds: options.rounds,
        timeout: options.timeout,
        servers: servers.into_iter().map(|server| server.label).collect(),
        items: reports,
    })
}
