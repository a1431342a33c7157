//! The run: the load, the warm-up and the rounds of each query.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::load::{LoadMode, check_scale, load};
use super::queries::{QUERIES, TpchQuery};
use super::recorded::recorded_digests;
use crate::compared::{
    ComparedItem, ComparedReport, ComparedServer, MeasuredWork, ServerOptions, measure,
};
use crate::error::BenchError;
use crate::named::Interface;

/// The use of the recorded answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedAnswers {
    /// An answer that differs from the recorded one is wrong.
    Compare,
    /// Nothing is compared with them, because the run records answers.
    Ignore,
}

/// The options of a run.
#[derive(Clone, Debug)]
pub struct TpchOptions {
    /// The servers.
    pub servers: ServerOptions,
    /// The scale factor: at 1 the table `lineitem` has 6,001,215 rows.
    pub scale: f64,
    /// The number of measured executions of each query.
    pub rounds: usize,
    /// The time limit of each execution.
    pub timeout: Duration,
    /// The numbers of the queries to run; all if there is none.
    pub queries: Vec<u8>,
    /// The origin of the tables.
    pub load: LoadMode,
    /// The use of the recorded answers.
    pub recorded: RecordedAnswers,
    /// Whether to print a line after each step.
    pub progress: bool,
}

impl TpchOptions {
    /// Returns the options of an embedded run with all queries and one round.
    pub fn embedded(scale: f64) -> TpchOptions {
        TpchOptions {
            servers: ServerOptions::embedded(),
            scale,
            rounds: 1,
            timeout: Duration::from_secs(300),
            queries: Vec::new(),
            load: LoadMode::Load,
            recorded: RecordedAnswers::Compare,
            progress: false,
        }
    }
}

/// Loads the tables, measures each query and checks its answers.
///
/// # Errors
/// Wrong options, a server that cannot be reached, and failures of the load. Failures of queries
/// and wrong answers are part of the report: see [`ComparedReport::check`].
pub fn run(options: &TpchOptions) -> Result<ComparedReport, BenchError> {
    check_options(options)?;
    let say = |text: &str| {
        if options.progress {
            eprintln!("{text}");
        }
    };
    let mut servers = Vec::new();
    for source in options.servers.sources()? {
        let mut server = ComparedServer::connect(&source)?;
        if options.load == LoadMode::Load {
            let began = Instant::now();
            say(&format!("loading {}", server.label));
            load(server.loader(), options.scale, &say)?;
            say(&format!("loaded in {:.1} s", began.elapsed().as_secs_f64()));
        }
        server.limit_time(options.timeout)?;
        servers.push(server);
    }
    let recorded = match options.recorded {
        RecordedAnswers::Compare => recorded_digests(options.scale),
        RecordedAnswers::Ignore => BTreeMap::new(),
    };
    let is_chosen =
        |query: &&TpchQuery| options.queries.is_empty() || options.queries.contains(&query.number);
    let mut items = Vec::new();
    for query in QUERIES.iter().filter(is_chosen) {
        let item = ComparedItem {
            name: query.name(),
            before: Vec::new(),
            work: MeasuredWork::Query {
                sql: query.sql(options.scale),
                order_columns: query.order_columns.to_vec(),
            },
        };
        let recorded = recorded.get(item.name.as_str());
        let report = measure(&item, options.rounds, &mut servers, recorded);
        say(&report.to_string());
        items.push(report);
    }
    Ok(ComparedReport {
        workload: "tpch",
        title: format!("TPC-H at scale {}", options.scale),
        rounds: options.rounds,
        timeout: options.timeout,
        servers: servers.into_iter().map(|server| server.label).collect(),
        items,
    })
}

fn check_options(options: &TpchOptions) -> Result<(), BenchError> {
    let wrong = |why: &str| Err(BenchError::Options(why.to_string()));
    check_scale(options.scale)?;
    options.servers.check()?;
    if options.load == LoadMode::Reuse && options.servers.via == Interface::Embedded {
        return wrong("a database in this process has no tables of an earlier run");
    }
    if options.rounds == 0 || options.timeout.as_millis() == 0 {
        return wrong("tpch needs at least one round and a time limit of a millisecond");
    }
    let last = QUERIES.len();
    let is_known = |number: &u8| (1..=last).contains(&usize::from(*number));
    if !options.queries.iter().all(is_known) {
        return wrong("the queries of tpch are numbered from 1 to 22");
    }
    Ok(())
}
