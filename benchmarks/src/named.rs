//! Benchmarks by name, for the `fencepost bench` command.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fencepost::Database;
use serde_json::{Value, json};

use crate::bank::{self, BankNative, BankSql};
use crate::error::BenchError;
use crate::harness::{Report, RunOptions, RunParameters, run};
use crate::kv::{self, Kv, KvOptions};
use crate::native::{ClusterOptions, FabricKind, Machines};
use crate::orw::{self, OrwNative, OrwOptions, OrwSql};
use crate::smallbank::{self, SmallBankNative, SmallBankSql};
use crate::sql::{Embedded, Isolation, SqlSource};
use crate::tatp::{self, TatpNative, TatpSql};
use crate::tpcc::{self, RemoteShares, Scale, TpccNative, TpccOptions, TpccSql};

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// Lookups and updates of single keys.
    Kv,
    /// TATP, the mobile operator's database.
    Tatp,
    /// Bank transfers; the total must not change.
    Bank,
    /// Savings and checking accounts; the total must match the committed requests.
    SmallBank,
    /// Reads of several keys, some of which are updated.
    Orw,
    /// TPC-C, the wholesale supplier's database.
    Tpcc,
}

/// The interface to the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// The transaction API, in this process.
    Native,
    /// SQL through the library, in this process.
    Embedded,
    /// SQL over the PostgreSQL protocol.
    Pg,
}

impl Interface {
    const fn name(self) -> &'static str {
        match self {
            Interface::Native => "native",
            Interface::Embedded => "embedded",
            Interface::Pg => "pg",
        }
    }
}

/// The options of a benchmark.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// The workload.
    pub name: Name,
    /// The interface to the database.
    pub via: Interface,
    /// The URL of the server, for [`Interface::Pg`]; several URLs are machines of one database,
    /// which share the clients.
    pub urls: Vec<String>,
    /// The number of keys, subscribers, accounts or customers; each workload has its own default.
    pub rows: Option<u64>,
    /// θ of Zipf's law for `kv`; `None` for a uniform distribution.
    pub zipf: Option<f64>,
    /// The percentage of `kv` requests that are updates.
    pub update_percent: u32,
    /// The number of keys in a transaction of `orw`.
    pub reads: u32,
    /// The average number of them that it updates.
    pub writes: u32,
    /// The number of warehouses of `tpcc`.
    pub warehouses: u32,
    /// Whether `tpcc` has fewer customers and items than specified.
    pub small: bool,
    /// The shares of `tpcc` requests that concern another warehouse.
    pub remote: RemoteShares,
    /// The isolation level of SQL transactions in `smallbank`, `orw` and `tpcc`; `None` is the
    /// weakest level that the workload needs.
    pub isolation: Option<Isolation>,
    /// The number of machines of a native run, all in this process; its threads use them in turn.
    pub machines: usize,
    /// The number of machines with a copy of each region; `None` is the number of machines, at most
    /// three.
    pub replicas: Option<usize>,
    /// The fabric between several machines; `None` is shared memory.
    pub fabric: Option<FabricKind>,
    /// The data directory; with it, commits are durable on disk before they count.
    pub data_dir: Option<PathBuf>,
    /// The memory limit of the data in bytes.
    pub memory_limit: Option<u64>,
    /// The size of a region in bytes.
    pub region_bytes: Option<usize>,
    /// The threads and times of the run.
    pub run: RunOptions,
}

/// Loads, runs and verifies the benchmark that `options` describe.
///
/// # Errors
/// [`BenchError`]; broken data is part of the report.
pub fn run_named(options: &BenchOptions) -> Result<Report, BenchError> {
    check_machines(options)?;
    match (options.name, options.via) {
        (Name::Kv, Interface::Native) => run_kv(options),
        (Name::Kv, _) => Err(BenchError::Options("kv runs --via native".to_string())),
        (Name::Tatp, via) => {
            let subscribers = rows(options, tatp::SUBSCRIBERS)?;
            let facts = facts(options, json!({ "subscribers": subscribers }));
            let seed = options.run.seed;
            match via {
                Interface::Native => {
                    let workload = TatpNative::new(machines(options)?, subscribers, seed)?;
                    run(&workload, &options.run, facts)
                }
                _ => run(
                    &TatpSql::new(source(options)?, subscribers, seed),
                    &options.run,
                    facts,
                ),
            }
        }
        (Name::Bank, via) => {
            let accounts = rows(options, bank::ACCOUNTS)?;
            let facts = facts(options, json!({ "accounts": accounts }));
            match via {
                Interface::Native => {
                    let workload = BankNative::new(machines(options)?, accounts)?;
                    run(&workload, &options.run, facts)
                }
                _ => run(
                    &BankSql::new(source(options)?, accounts),
                    &options.run,
                    facts,
                ),
            }
        }
        (Name::Orw, _) => run_orw(options),
        (Name::Tpcc, _) => run_tpcc(options),
        (Name::SmallBank, via) => {
            let customers = rows(options, a_thread(options, smallbank::CUSTOMERS_A_THREAD))?;
            let isolation = options.isolation.unwrap_or(Isolation::Serializable);
            let facts = facts(options, json!({ "customers": customers })).isolated(isolation);
            match via {
                Interface::Native => {
                    let workload = SmallBankNative::new(machines(options)?, customers)?;
                    run(&workload, &options.run, facts)
                }
                _ => run(
                    &SmallBankSql::new(source(options)?, isolation, customers),
                    &options.run,
                    facts,
                ),
            }
        }
    }
}

fn run_kv(options: &BenchOptions) -> Result<Report, BenchError> {
    if options
        .zipf
        .is_some_and(|theta| !(0.0..1.0).contains(&theta) || theta == 0.0)
    {
        return Err(BenchError::Options(
            "Zipf's theta is between 0 and 1".to_string(),
        ));
    }
    let kv_options = KvOptions {
        keys: options.rows.unwrap_or(kv::KEYS).max(1),
        zipf: options.zipf,
        update_percent: options.update_percent.min(100),
    };
    let parameters = json!({
        "keys": kv_options.keys,
        "zipf": kv_options.zipf,
        "update_percent": kv_options.update_percent,
        "key_bytes": 16,
        "value_bytes": 32,
        "occupancy": 0.9,
    });
    let workload = Kv::new(machines(options)?, kv_options)?;
    run(&workload, &options.run, facts(options, parameters))
}

fn run_orw(options: &BenchOptions) -> Result<Report, BenchError> {
    let keys = rows(options, a_thread(options, orw::KEYS_A_THREAD))?;
    let (reads, writes) = (options.reads, options.writes);
    if !(1..=orw::MOST_READS.min(keys)).contains(&reads) || writes > reads {
        let most = orw::MOST_READS;
        return Err(BenchError::Options(format!(
            "a transaction reads 1 to {most} different keys and updates some of them"
        )));
    }
    let parameters = json!({ "keys": keys, "reads": reads, "writes": writes });
    let isolation = options.isolation.unwrap_or(Isolation::Serializable);
    let facts = facts(options, parameters).isolated(isolation);
    let orw_options = OrwOptions {
        keys: keys.into(),
        reads,
        writes,
    };
    match options.via {
        Interface::Native => {
            let workload = OrwNative::new(machines(options)?, orw_options)?;
            run(&workload, &options.run, facts)
        }
        _ => run(
            &OrwSql::new(source(options)?, isolation, orw_options),
            &options.run,
            facts,
        ),
    }
}

/// The maximal number of warehouses; the keys of more would not fit.
const MOST_WAREHOUSES: u32 = 1 << 20;

fn run_tpcc(options: &BenchOptions) -> Result<Report, BenchError> {
    if !(1..=MOST_WAREHOUSES).contains(&options.warehouses) {
        return Err(BenchError::Options(format!(
            "between 1 and {MOST_WAREHOUSES} warehouses"
        )));
    }
    let scale = match options.small {
        true => Scale::small(options.warehouses),
        false => Scale::specified(options.warehouses),
    };
    let parameters = json!({
        "warehouses": scale.warehouses,
        "customers_a_district": scale.customers,
        "items": scale.items,
        "population_to_specification": scale.is_specified(),
        "remote_lines_percent": options.remote.lines,
        "remote_payments_percent": options.remote.payments,
        "conditions": tpcc::condition_names(),
    });
    let isolation = options.isolation.unwrap_or(Isolation::RepeatableRead);
    let facts = facts(options, parameters).isolated(isolation);
    let tpcc = TpccOptions {
        scale,
        remote: options.remote,
        threads: options.run.threads,
        seed: options.run.seed,
    };
    match options.via {
        Interface::Native => run(
            &TpccNative::new(machines(options)?, tpcc)?,
            &options.run,
            facts,
        ),
        _ => run(
            &TpccSql::new((source(options)?, isolation), tpcc),
            &options.run,
            facts,
        ),
    }
}

/// The maximal number of machines in this process.
const MOST_MACHINES: usize = 64;

/// The maximal number of clients of a thread.
const MOST_IN_FLIGHT: usize = 4096;

/// Returns `count` for each thread.
fn a_thread(options: &BenchOptions, count: u32) -> u32 {
    let threads = u32::try_from(options.run.threads.max(1)).unwrap_or(u32::MAX);
    count.saturating_mul(threads)
}

fn rows(options: &BenchOptions, default: u32) -> Result<u32, BenchError> {
    let rows = options.rows.unwrap_or(u64::from(default));
    match u32::try_from(rows) {
        Ok(rows @ 2..=0x7fff_ffff) => Ok(rows),
        _ => Err(BenchError::Options(
            "between 2 and 2147483647 rows".to_string(),
        )),
    }
}

fn facts(options: &BenchOptions, parameters: Value) -> RunParameters {
    let durability = match (options.via, &options.data_dir) {
        (Interface::Pg, _) => "server",
        (_, Some(_)) => "ssd",
        (_, None) => "memory",
    };
    let mut parameters: BTreeMap<String, Value> = match parameters {
        Value::Object(map) => map.into_iter().collect(),
        _ => BTreeMap::new(),
    };
    parameters.insert("seed".to_string(), json!(options.run.seed));
    if options.via == Interface::Pg {
        parameters.insert("servers".to_string(), json!(options.urls.len()));
    }
    RunParameters {
        via: options.via.name().to_string(),
        durability: durability.to_string(),
        machines: options.machines,
        replicas: replicas(options),
        fabric: match options.machines {
            1 => "none",
            _ => fabric(options).name(),
        }
        .to_string(),
        parameters,
    }
}

impl RunParameters {
    /// Records the isolation level of SQL transactions; native transactions are always
    /// serializable.
    fn isolated(mut self, isolation: Isolation) -> RunParameters {
        if self.via != Interface::Native.name() {
            let name = json!(isolation.name());
            self.parameters.insert("isolation".to_string(), name);
        }
        self
    }
}

fn source(options: &BenchOptions) -> Result<SqlSource, BenchError> {
    match (options.via, &options.urls[..]) {
        (Interface::Pg, []) => Err(BenchError::Options("--via pg needs --url".to_string())),
        (Interface::Pg, urls) => Ok(SqlSource::Pg {
            urls: urls.to_vec(),
            may_go: options.run.survives,
        }),
        _ => Ok(SqlSource::Embedded(Embedded::new(open(options)?))),
    }
}

/// Checks that the options allow this number of machines.
fn check_machines(options: &BenchOptions) -> Result<(), BenchError> {
    let wrong = |why: &str| Err(BenchError::Options(why.to_string()));
    let (machines, replicas) = (options.machines, replicas(options));
    let survive = matches!(options.name, Name::Bank | Name::Tatp | Name::Tpcc);
    if options.run.survives && !(survive && options.via == Interface::Pg) {
        return wrong("servers may go in bank, tatp and tpcc --via pg");
    }
    if !(1..=MOST_MACHINES).contains(&machines) || !(1..=machines).contains(&replicas) {
        return wrong("between 1 and 64 machines, and no more replicas than machines");
    }
    match (options.run.in_flight, options.via) {
        (1, _) | (2..=MOST_IN_FLIGHT, Interface::Native) => {}
        (2..=MOST_IN_FLIGHT, _) => {
            return wrong("a thread has several requests in flight --via native");
        }
        _ => return wrong("between 1 and 4096 requests in flight"),
    }
    if machines == 1 {
        return match options.fabric {
            Some(_) => wrong("a fabric is between several machines"),
            None => Ok(()),
        };
    }
    match (options.via, &options.data_dir) {
        (Interface::Native, None) => Ok(()),
        (Interface::Native, Some(_)) => wrong("several machines keep nothing on a disk yet"),
        _ => wrong("several machines are for native runs"),
    }
}

fn replicas(options: &BenchOptions) -> usize {
    options.replicas.unwrap_or(options.machines.min(3))
}

fn fabric(options: &BenchOptions) -> FabricKind {
    options.fabric.unwrap_or(FabricKind::Shm)
}

/// Opens the machines of a native run.
fn machines(options: &BenchOptions) -> Result<Machines, BenchError> {
    if options.machines == 1 {
        return Ok(Machines::alone(open(options)?));
    }
    Machines::together(&ClusterOptions {
        machines: options.machines,
        replicas: replicas(options),
        fabric: fabric(options),
        region_bytes: options.region_bytes,
        memory_limit: options.memory_limit,
    })
}

/// Opens the database of an embedded or native run.
fn open(options: &BenchOptions) -> Result<Database, BenchError> {
    let database = open_database(
        options.data_dir.as_deref(),
        options.memory_limit,
        options.region_bytes,
    )?;
    if options.via == Interface::Native && !database.machine().is_fresh() {
        // Native tables are in no catalog, so the tables of an earlier run could not be found.
        return Err(BenchError::Options(
            "native runs need an empty data directory".to_string(),
        ));
    }
    Ok(database)
}

/// Opens a database in this process; `None` stands for the defaults of the library.
pub(crate) fn open_database(
    data_dir: Option<&Path>,
    memory_limit: Option<u64>,
    region_bytes: Option<usize>,
) -> Result<Database, BenchError> {
    let mut database = Database::options();
    if let Some(dir) = data_dir {
        database = database.data_dir(dir);
    }
    if let Some(bytes) = memory_limit {
        database = database.memory_limit(bytes);
    }
    if let Some(bytes) = region_bytes {
        database = database.region_size(bytes);
    }
    database
        .open()
        .map_err(|error| BenchError::Embedded(error.to_string()))
}
