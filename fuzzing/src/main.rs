//! Sends random statements to its own server and reports the faults that they show.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser};
use fencepost_fuzz::queries::{self, QueryOptions, QueryServer, Settings};
use fencepost_fuzz::sql::{self, Bounds, Options, Process};
use fencepost_fuzz::targets;

/// The memory limit of the server, in bytes.
const MEMORY_LIMIT: u64 = 512 << 20;

/// The number of SQLSTATEs that the output counts separately.
const STATES_SHOWN: usize = 12;

/// The argument with which this program writes the seeds of the fuzz targets into a folder.
const SEEDS: &str = "seeds";

/// The argument with which this program compares the answers to random queries.
const QUERIES: &str = "queries";

/// The rounds of a run.
#[derive(Args)]
struct Rounds {
    /// After how many seconds no further round begins
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// The seed of all rounds
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The number of the first round
    #[arg(long, default_value_t = 0)]
    round: u64,
}

/// Compares the answers to random queries: under several planner settings, and with another server.
#[derive(Parser)]
struct QueryArguments {
    #[command(flatten)]
    rounds: Rounds,
    /// How many queries there are at most
    #[arg(long, default_value_t = u64::MAX)]
    queries: u64,
    /// Queries of a round
    #[arg(long, default_value_t = 100)]
    queries_per_round: u64,
    /// The server under test. [default: a new one in memory]
    #[arg(long)]
    url: Option<String>,
    /// A PostgreSQL server with the right answers; the program creates tables there
    #[arg(long)]
    beside: Option<String>,
}

/// Sends random statements to a server and reports crashes, hangs and internal errors.
///
/// `fencepost-fuzz seeds <folder>` writes the seeds of the fuzz targets instead. `fencepost-fuzz
/// queries` compares the answers to random queries.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    rounds: Rounds,
    /// How many rounds there are at most
    #[arg(long = "rounds", default_value_t = u64::MAX)]
    rounds_max: u64,
    /// Statements of a round
    #[arg(long, default_value_t = 300)]
    statements: usize,
    /// Runs by which a script with a fault is made shorter
    #[arg(long, default_value_t = 80)]
    reductions: usize,
    /// Megabytes of memory that the server may use
    #[arg(long, default_value_t = 2048)]
    memory_mb: u64,
}

fn main() -> ExitCode {
    let result = match std::env::args().nth(1) {
        Some(first) if first == sql::SERVE => sql::serve(MEMORY_LIMIT).map(|()| true),
        Some(first) if first == SEEDS => write_seeds().map(|()| true),
        Some(first) if first == QUERIES => {
            compare_queries(&QueryArguments::parse_from(std::env::args().skip(1)))
        }
        _ => fuzz(&Arguments::parse()),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("fencepost-fuzz: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the seeds of each target into a folder of its name.
fn write_seeds() -> Result<(), String> {
    let folder = std::env::args().nth(2);
    let folder = folder.ok_or("the folder for the seeds is missing")?;
    for target in targets::ALL {
        let folder = Path::new(&folder).join(target.name);
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        std::fs::create_dir_all(&folder).map_err(failed)?;
        for (number, seed) in (target.seeds)().iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number}")), seed).map_err(failed)?;
        }
    }
    Ok(())
}

/// Compares the answers to queries. Returns false if some differ.
fn compare_queries(arguments: &QueryArguments) -> Result<bool, String> {
    let own = match &arguments.url {
        Some(_) => None,
        None => {
            let program = std::env::current_exe().map_err(|error| error.to_string())?;
            Some(Process::start(&program)?)
        }
    };
    let url = match (&arguments.url, &own) {
        (Some(url), _) => url.clone(),
        (None, Some(own)) => format!(
            "host={} port={} user=postgres dbname=postgres",
            own.addr.ip(),
            own.addr.port()
        ),
        (None, None) => return Err("there is no server".to_owned()),
    };
    let tested = QueryServer::connect("fencepost", &url, Settings::of_planner())?;
    let mut servers = vec![tested];
    if let Some(beside) = &arguments.beside {
        let right = QueryServer::connect("postgresql", beside, vec![Settings::default()])?;
        servers.insert(0, right);
    }
    let options = QueryOptions {
        seed: arguments.rounds.seed,
        first_round: arguments.rounds.round,
        queries: arguments.queries,
        queries_per_round: arguments.queries_per_round,
        time: Duration::from_secs(arguments.rounds.seconds),
    };
    let summary = queries::run(&mut servers, &options, |difference| {
        println!("{difference}")
    })?;
    println!(
        "{} rounds, {} queries compared, {} skipped; {} differences",
        summary.rounds,
        summary.compared,
        summary.skipped,
        summary.differences.len()
    );
    Ok(summary.differences.is_empty())
}

/// Runs the requested rounds. Returns false if there are findings.
fn fuzz(arguments: &Arguments) -> Result<bool, String> {
    let options = Options {
        program: std::env::current_exe().map_err(|error| error.to_string())?,
        corpus: sql::corpus_folder(),
        seed: arguments.rounds.seed,
        first_round: arguments.rounds.round,
        rounds: arguments.rounds_max,
        time: Duration::from_secs(arguments.rounds.seconds),
        statements: arguments.statements,
        reductions: arguments.reductions,
        bounds: Bounds {
            memory_bytes: arguments.memory_mb << 20,
            ..Bounds::default()
        },
    };
    let summary = sql::run(&options, |finding| {
        println!("{}", finding.text(options.seed))
    })?;
    println!(
        "{} rounds, {} statements, of which {} succeeded; {} findings",
        summary.rounds,
        summary.statements,
        summary.succeeded,
        summary.findings.len()
    );
    let mut states: Vec<_> = summary.states.iter().collect();
    states.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let states = states.iter().take(STATES_SHOWN);
    let states: Vec<String> = states
        .map(|(state, count)| format!("{state} {count}"))
        .collect();
    println!("most frequent errors: {}", states.join(", "));
    Ok(summary.findings.is_empty())
}
