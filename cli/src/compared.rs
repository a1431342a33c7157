//! `fencepost bench tpch` and `bench bulk`: the 22 queries of TPC-H, or statements over many rows,
//! on one server or on two servers in turn.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use fencepost_benchmarks::compared::{ComparedReport, ServerOptions};
use fencepost_benchmarks::tpch::{LoadMode, RecordedAnswers, TpchOptions, digests, run};
use fencepost_benchmarks::{Interface, bulk};

use crate::failure::Failure;

/// The rows of `bench bulk` without `--rows`.
const BULK_ROWS: u64 = 1_000_000;

/// The options of `bench tpch` and `bench bulk` alone.
#[derive(Debug, Args)]
pub struct ComparedArgs {
    /// tpch: scale factor; at 1 the largest table has 6001215 rows.
    #[arg(long, value_name = "S", default_value_t = 0.1)]
    scale: f64,
    /// tpch, bulk: second server, which is loaded too and runs each statement in turn with the
    /// first one; the answers of both must be equal.
    #[arg(long, value_name = "URL")]
    beside: Option<String>,
    /// tpch, bulk: number of measured executions of each item, after one that is not measured.
    #[arg(long, value_name = "K", default_value_t = 5)]
    rounds: usize,
    /// tpch, bulk: time limit of each statement in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 300.0)]
    timeout: f64,
    /// tpch: numbers of the queries to run, separated by commas. [default: all]
    #[arg(long, value_name = "N", value_delimiter = ',')]
    query: Vec<u8>,
    /// bulk: names of the items to run, separated by commas. [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    item: Vec<String>,
    /// tpch: do not load; the servers have the tables of an earlier run with the same scale.
    #[arg(long)]
    loaded: bool,
    /// tpch: write the digests of the answers to this file, and check nothing but that they do not
    /// change.
    #[arg(long, value_name = "FILE")]
    digests: Option<PathBuf>,
}

/// The options of `bench` that also apply here.
pub struct CommonOptions {
    pub via: Interface,
    pub urls: Vec<String>,
    pub machines: Option<usize>,
    pub data_dir: Option<PathBuf>,
    pub memory_limit: Option<u64>,
    pub region_bytes: Option<usize>,
    pub json: Option<PathBuf>,
}

impl CommonOptions {
    /// Returns the servers, and the file for JSON.
    fn split(self, beside: Option<String>) -> Result<(ServerOptions, Option<PathBuf>), Failure> {
        if self.machines.is_some() {
            return Err(Failure::Broken(
                "this benchmark starts no machines\n\
                 HINT: pass the URL of each machine of a cluster."
                    .to_string(),
            ));
        }
        let servers = ServerOptions {
            via: self.via,
            urls: self.urls,
            beside,
            data_dir: self.data_dir,
            memory_limit: self.memory_limit,
            region_bytes: self.region_bytes,
        };
        Ok((servers, self.json))
    }
}

impl ComparedArgs {
    fn timeout(&self) -> Result<Duration, Failure> {
        Duration::try_from_secs_f64(self.timeout)
            .map_err(|_| Failure::Broken("a time limit is a positive number".to_string()))
    }

    pub fn run_tpch(self, common: CommonOptions) -> crate::CommandResult {
        let timeout = self.timeout()?;
        let (servers, json) = common.split(self.beside)?;
        let report = run(&TpchOptions {
            servers,
            scale: self.scale,
            rounds: self.rounds,
            timeout,
            queries: self.query,
            load: if self.loaded {
                LoadMode::Reuse
            } else {
                LoadMode::Load
            },
            recorded: match self.digests {
                Some(_) => RecordedAnswers::Ignore,
                None => RecordedAnswers::Compare,
            },
            progress: true,
        })?;
        if let Some(path) = self.digests {
            write(&path, digests(&report, self.scale))?;
        }
        show(&report, json)
    }

    pub fn run_bulk(self, rows: Option<u64>, common: CommonOptions) -> crate::CommandResult {
        let timeout = self.timeout()?;
        let (servers, json) = common.split(self.beside)?;
        let report = bulk::run(&bulk::BulkOptions {
            servers,
            rows: rows.unwrap_or(BULK_ROWS),
            rounds: self.rounds,
            timeout,
            items: self.item,
            progress: true,
        })?;
        show(&report, json)
    }
}

/// Prints a report, and writes it as JSON. A wrong answer is a failure.
fn show(report: &ComparedReport, json: Option<PathBuf>) -> crate::CommandResult {
    print!("{report}");
    if let Some(path) = json {
        write(&path, format!("{:#}\n", report.to_json()))?;
    }
    match report.check() {
        None => Ok(()),
        Some(wrong) => Err(Failure::Broken(format!("wrong answers or errors: {wrong}"))),
    }
}

fn write(path: &Path, text: String) -> crate::CommandResult {
    std::fs::write(path, text).map_err(Failure::io(path.display().to_string()))
}
