//! `fencepost bench tpch`: the 22 queries of TPC-H, on one server or on two servers in turn.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use fencepost_benchmarks::Interface;
use fencepost_benchmarks::tpch::{LoadMode, RecordedAnswers, TpchOptions, run};

use crate::failure::Failure;

/// The options of `bench tpch` alone.
#[derive(Debug, Args)]
pub struct TpchArgs {
    /// tpch: scale factor; at 1 the largest table has 6001215 rows.
    #[arg(long, value_name = "S", default_value_t = 0.1)]
    scale: f64,
    /// tpch: second server, which is loaded too and runs each query in turn with the first one; the
    /// answers of both must be equal.
    #[arg(long, value_name = "URL")]
    beside: Option<String>,
    /// tpch: number of measured executions of each query, after one that is not measured.
    #[arg(long, value_name = "K", default_value_t = 5)]
    rounds: usize,
    /// tpch: time limit of each execution in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 300.0)]
    timeout: f64,
    /// tpch: numbers of the queries to run, separated by commas. [default: all]
    #[arg(long, value_name = "N", value_delimiter = ',')]
    query: Vec<u8>,
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

impl TpchArgs {
    pub fn run(self, common: CommonOptions) -> crate::CommandResult {
        if common.machines.is_some() {
            return Err(Failure::Broken(
                "tpch starts no machines\nHINT: pass the URL of each machine of a cluster."
                    .to_string(),
            ));
        }
        let timeout = Duration::try_from_secs_f64(self.timeout)
            .map_err(|_| Failure::Broken("a time limit is a positive number".to_string()))?;
        let report = run(&TpchOptions {
            via: common.via,
            urls: common.urls,
            beside: self.beside,
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
            data_dir: common.data_dir,
            memory_limit: common.memory_limit,
            region_bytes: common.region_bytes,
            progress: true,
        })?;
        print!("{report}");
        if let Some(path) = common.json {
            write(&path, format!("{:#}\n", report.to_json()))?;
        }
        if let Some(path) = self.digests {
            write(&path, report.digests())?;
        }
        match report.check() {
            None => Ok(()),
            Some(wrong) => Err(Failure::Broken(format!("wrong answers or errors: {wrong}"))),
        }
    }
}

fn write(path: &Path, text: String) -> crate::CommandResult {
    std::fs::write(path, text).map_err(Failure::io(path.display().to_string()))
}
