//! The run: the load, the warm-up and the rounds of each query.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::answer::{AnswerDigest, CanonicalAnswer};
use super::load::{LoadMode, check_scale, load};
use super::queries::{QUERIES, TpchQuery};
use super::recorded::recorded_digests;
use super::report::{AnswerCheck, QueryOutcome, QueryReport, TpchReport, median};
use super::server::{Execution, TpchServer};
use crate::error::BenchError;
use crate::named::{Interface, open_database};
use crate::sql::{Embedded, SqlSource};

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
    /// The interface to the database: embedded, or over the PostgreSQL protocol.
    pub via: Interface,
    /// The URLs of the server; several URLs are machines of one database, which answer in turn.
    pub urls: Vec<String>,
    /// The URL of a second server, which runs each query after the first one.
    pub beside: Option<String>,
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
    /// The data directory of an embedded database.
    pub data_dir: Option<PathBuf>,
    /// The memory limit of an embedded database in bytes.
    pub memory_limit: Option<u64>,
    /// The size of a region of an embedded database in bytes.
    pub region_bytes: Option<usize>,
    /// Whether to print a line after each step.
    pub progress: bool,
}

impl TpchOptions {
    /// Returns the options of an embedded run with all queries and one round.
    pub fn embedded(scale: f64) -> TpchOptions {
        TpchOptions {
            via: Interface::Embedded,
            urls: Vec::new(),
            beside: None,
            scale,
            rounds: 1,
            timeout: Duration::from_secs(300),
            queries: Vec::new(),
            load: LoadMode::Load,
            recorded: RecordedAnswers::Compare,
            data_dir: None,
            memory_limit: None,
            region_bytes: None,
            progress: false,
        }
    }
}

/// Loads the tables, measures each query and checks its answers.
///
/// # Errors
/// Wrong options, a server that cannot be reached, and failures of the load. Failures of queries
/// and wrong answers are part of the report: see [`TpchReport::check`].
pub fn run(options: &TpchOptions) -> Result<TpchReport, BenchError> {
    check_options(options)?;
    let say = |text: &str| {
        if options.progress {
            eprintln!("{text}");
        }
    };
    let mut servers = Vec::new();
    for source in sources(options)? {
        let mut server = TpchServer::connect(&source)?;
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
    let mut queries = Vec::new();
    for query in QUERIES.iter().filter(is_chosen) {
        let report = measure(query, options, &mut servers, &recorded);
        say(&report.to_string());
        queries.push(report);
    }
    Ok(TpchReport {
        scale: options.scale,
        rounds: options.rounds,
        timeout: options.timeout,
        servers: servers.into_iter().map(|server| server.label).collect(),
        queries,
    })
}

fn check_options(options: &TpchOptions) -> Result<(), BenchError> {
    let wrong = |why: &str| Err(BenchError::Options(why.to_string()));
    check_scale(options.scale)?;
    match (options.via, &options.urls[..]) {
        (Interface::Native, _) => return wrong("tpch runs --via embedded or --via pg"),
        (Interface::Pg, []) => return wrong("--via pg needs --url"),
        (Interface::Embedded, [_, ..]) => return wrong("--url is for --via pg"),
        (Interface::Pg | Interface::Embedded, _) => {}
    }
    if options.load == LoadMode::Reuse && options.via == Interface::Embedded {
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

/// Returns the server, and the second server if there is one.
fn sources(options: &TpchOptions) -> Result<Vec<SqlSource>, BenchError> {
    let over_the_wire = |urls: Vec<String>| SqlSource::Pg {
        urls,
        may_go: false,
    };
    let first = match options.via {
        Interface::Pg => over_the_wire(options.urls.clone()),
        Interface::Embedded | Interface::Native => {
            let data_dir = options.data_dir.as_deref();
            let database = open_database(data_dir, options.memory_limit, options.region_bytes)?;
            SqlSource::Embedded(Embedded::new(database))
        }
    };
    let second = options.beside.iter().cloned();
    let second = second.map(|url| over_the_wire(vec![url]));
    Ok(std::iter::once(first).chain(second).collect())
}

/// The executions of one query on one server.
struct Series {
    times_ms: Vec<f64>,
    /// The answer of the first execution.
    answer: Option<CanonicalAnswer>,
    /// The reason why no further execution follows.
    end: Option<QueryOutcome>,
    /// The first difference between two executions.
    difference: Option<String>,
}

/// Whether an execution counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    WarmUp,
    Measured,
}

impl Series {
    /// Adds an execution, unless an earlier one has ended the series.
    fn add(&mut self, phase: Phase, execute: impl FnOnce() -> Execution) {
        if self.end.is_some() {
            return;
        }
        match execute() {
            Execution::Finished { elapsed, answer } => {
                if phase == Phase::Measured {
                    self.times_ms.push(elapsed.as_secs_f64() * 1e3);
                }
                let first = self.answer.get_or_insert_with(|| answer.clone());
                if self.difference.is_none() {
                    self.difference = first.first_difference(&answer);
                }
            }
            Execution::TimedOut => self.end = Some(QueryOutcome::TimedOut),
            Execution::Failed(failure) => self.end = Some(QueryOutcome::Failed(failure)),
        }
    }

    fn outcome(&self) -> QueryOutcome {
        match &self.end {
            Some(end) => end.clone(),
            None => QueryOutcome::Measured {
                median_ms: median(&self.times_ms),
            },
        }
    }
}

/// Runs a query on all servers in turn: a warm-up on each machine, then the rounds.
fn measure(
    query: &TpchQuery,
    options: &TpchOptions,
    servers: &mut [TpchServer],
    recorded: &BTreeMap<&'static str, AnswerDigest>,
) -> QueryReport {
    let sql = query.sql(options.scale);
    let new_series = |_: &TpchServer| Series {
        times_ms: Vec::new(),
        answer: None,
        end: None,
        difference: None,
    };
    let mut all: Vec<Series> = servers.iter().map(new_series).collect();
    for (server, series) in servers.iter_mut().zip(&mut all) {
        for machine in 0..server.machines() {
            series.add(Phase::WarmUp, || server.execute(machine, query, &sql));
        }
    }
    for round in 0..options.rounds {
        for (server, series) in servers.iter_mut().zip(&mut all) {
            series.add(Phase::Measured, || server.execute(round, query, &sql));
        }
    }
    let name = query.name();
    let answer = all.iter().find_map(|series| series.answer.as_ref());
    QueryReport {
        check: check(servers, &all, recorded.get(name.as_str())),
        digest: answer.map(CanonicalAnswer::digest),
        outcomes: all.iter().map(Series::outcome).collect(),
        name,
    }
}

/// Compares the answers of executions, of servers, and the recorded answer.
fn check(servers: &[TpchServer], all: &[Series], recorded: Option<&AnswerDigest>) -> AnswerCheck {
    let answers = servers.iter().zip(all);
    for (server, series) in answers.clone() {
        if let Some(difference) = &series.difference {
            let label = &server.label;
            return AnswerCheck::Wrong(format!("two executions on {label} differ: {difference}"));
        }
    }
    let mut answers =
        answers.filter_map(|(server, series)| Some((server, series.answer.as_ref()?)));
    let Some((server, answer)) = answers.next() else {
        return AnswerCheck::NotChecked;
    };
    let other = answers.next();
    let difference = other.and_then(|(_, other)| answer.first_difference(other));
    if let (Some((other, _)), Some(difference)) = (other, difference) {
        let (one, other) = (&server.label, &other.label);
        return AnswerCheck::Wrong(format!("{one} and {other} differ: {difference}"));
    }
    match (recorded, other) {
        (Some(recorded), _) if *recorded == answer.digest() => AnswerCheck::AsRecorded,
        (Some(recorded), _) => AnswerCheck::Wrong(format!(
            "rows and checksum on {} are {}, recorded are {recorded}",
            server.label,
            answer.digest()
        )),
        (None, Some(_)) => AnswerCheck::ServersAgree,
        (None, None) => AnswerCheck::NotChecked,
    }
}
