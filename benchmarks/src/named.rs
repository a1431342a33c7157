//! Benchmarks by name: what the `fencepost bench` command asks for.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fencepost::Database;
use serde_json::{Value, json};

use crate::bank::{self, BankNative, BankSql};
use crate::error::BenchError;
use crate::harness::{Facts, Report, RunOptions, run};
use crate::kv::{self, Kv, KvOptions};
use crate::native::{FabricKind, Machines, Together};
use crate::orw::{self, OrwNative, OrwOptions, OrwSql};
use crate::smallbank::{self, SmallBankNative, SmallBankSql};
use crate::sql::{Embedded, Isolation, SqlSource};
use crate::tatp::{self, TatpNative, TatpSql};
use crate::tpcc::{self, Remote, Scale, TpccNative, TpccOptions, TpccSql};

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// Lookups and updates of single keys.
    Kv,
    /// The mobile operator's database.
    Tatp,
    /// Transfers; the total must hold.
    Bank,
    /// Savings and checking accounts; the total must hold.
    SmallBank,
    /// Some keys read, some of them updated.
    Orw,
    /// The wholesale supplier's database.
    Tpcc,
}

/// How the database is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// The transaction API, in this process.
    Native,
    /// SQL through the library, in this process.
    Embedded,
    /// SQL over the wire.
    Pg,
}

impl Via {
    const fn name(self) -> &'static str {
        match self {
            Via::Native => "native",
            Via::Embedded => "embedded",
            Via::Pg => "pg",
        }
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// The workload.
    pub name: Name,
    /// How the database is reached.
    pub via: Via,
    /// The server, for [`Via::Pg`]; or the machines of one database, over which clients are dealt out.
    pub urls: Vec<String>,
    /// Keys, subscribers, accounts or customers; each workload has its own default.
    pub rows: Option<u64>,
    /// Zipf's θ of `kv`; uniform without.
    pub zipf: Option<f64>,
    /// Percent of `kv` requests that are updates.
    pub update_percent: u32,
    /// Keys of a transaction of `orw`.
    pub reads: u32,
    /// How many of them it updates on average.
    pub writes: u32,
    /// Warehouses of `tpcc`.
    pub warehouses: u32,
    /// `tpcc` with fewer customers and items than specified.
    pub small: bool,
    /// How much `tpcc` asks for that is of another warehouse.
    pub remote: Remote,
    /// How SQL transactions of `smallbank`, `orw` and `tpcc` are isolated; each has the least that
    /// it needs as its default.
    pub isolation: Option<Isolation>,
    /// Machines of a native run, all of this process; its threads take turns among them.
    pub machines: usize,
    /// Machines that have a copy of each region; as many as there are, up to three, without.
    pub replicas: Option<usize>,
    /// What is between several machines; shared memory without.
    pub fabric: Option<FabricKind>,
    /// Where the data are; with it commits are on disk before they count.
    pub data_dir: Option<PathBuf>,
    /// Bytes that the data may take.
    pub memory_limit: Option<u64>,
    /// Bytes of a region.
    pub region_bytes: Option<usize>,
    /// Threads and times.
    pub run: RunOptions,
}

/// Loads, runs and checks what `options` say.
///
/// # Errors
/// [`BenchError`]; data that are not whole are in the report.
pub fn run_named(options: &BenchOptions) -> Result<Report, BenchError> {
    check_machines(options)?;
    match (options.name, options.via) {
        (Name::Kv, Via::Native) => run_kv(options),
        (Name::Kv, _) => Err(BenchError::Options("kv runs --via native".to_string())),
        (Name::Tatp, via) => {
            let subscribers = rows(options, tatp::SUBSCRIBERS)?;
            let facts = facts(options, json!({ "subscribers": subscribers }));
            let seed = options.run.seed;
            match via {
                Via::Native => {
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
                Via::Native => {
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
                Via::Native => {
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
        Via::Native => {
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

/// Most warehouses: more would not fit their keys.
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
        Via::Native => run(
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

/// Most machines in this process.
const MOST_MACHINES: usize = 64;

/// Most clients of a thread.
const MOST_IN_FLIGHT: usize = 4096;

/// So many for each thread.
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

fn facts(options: &BenchOptions, parameters: Value) -> Facts {
    let durability = match (options.via, &options.data_dir) {
        (Via::Pg, _) => "server",
        (_, Some(_)) => "ssd",
        (_, None) => "memory",
    };
    let mut parameters: BTreeMap<String, Value> = match parameters {
        Value::Object(map) => map.into_iter().collect(),
        _ => BTreeMap::new(),
    };
    parameters.insert("seed".to_string(), json!(options.run.seed));
    if options.via == Via::Pg {
        parameters.insert("servers".to_string(), json!(options.urls.len()));
    }
    Facts {
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

impl Facts {
    /// Says how SQL transactions are isolated; native ones always are.
    fn isolated(mut self, isolation: Isolation) -> Facts {
        if self.via != Via::Native.name() {
            let name = json!(isolation.name());
            self.parameters.insert("isolation".to_string(), name);
        }
        self
    }
}

fn source(options: &BenchOptions) -> Result<SqlSource, BenchError> {
    match (options.via, &options.urls[..]) {
        (Via::Pg, []) => Err(BenchError::Options("--via pg needs --url".to_string())),
        (Via::Pg, urls) => Ok(SqlSource::Pg {
            urls: urls.to_vec(),
            may_go: options.run.survives,
        }),
        _ => Ok(SqlSource::Embedded(Embedded::new(open(options)?))),
    }
}

/// Whether there can be as many machines.
fn check_machines(options: &BenchOptions) -> Result<(), BenchError> {
    let wrong = |why: &str| Err(BenchError::Options(why.to_string()));
    let (machines, replicas) = (options.machines, replicas(options));
    let survive = matches!(options.name, Name::Bank | Name::Tatp | Name::Tpcc);
    if options.run.survives && !(survive && options.via == Via::Pg) {
        return wrong("servers may go in bank, tatp and tpcc --via pg");
    }
    if !(1..=MOST_MACHINES).contains(&machines) || !(1..=machines).contains(&replicas) {
        return wrong("between 1 and 64 machines, and no more replicas than machines");
    }
    match (options.run.in_flight, options.via) {
        (1, _) | (2..=MOST_IN_FLIGHT, Via::Native) => {}
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
        (Via::Native, None) => Ok(()),
        (Via::Native, Some(_)) => wrong("several machines keep nothing on a disk yet"),
        _ => wrong("several machines are for native runs"),
    }
}

fn replicas(options: &BenchOptions) -> usize {
    options.replicas.unwrap_or(options.machines.min(3))
}

fn fabric(options: &BenchOptions) -> FabricKind {
    options.fabric.unwrap_or(FabricKind::Shm)
}

/// The machines of a native run.
fn machines(options: &BenchOptions) -> Result<Machines, BenchError> {
    if options.machines == 1 {
        return Ok(Machines::alone(open(options)?));
    }
    Machines::together(&Together {
        machines: options.machines,
        replicas: replicas(options),
        fabric: fabric(options),
        region_bytes: options.region_bytes,
        memory_limit: options.memory_limit,
    })
}

/// The database of an embedded or native run.
fn open(options: &BenchOptions) -> Result<Database, BenchError> {
    let mut database = Database::options();
    if let Some(dir) = &options.data_dir {
        database = database.data_dir(dir);
    }
    if let Some(bytes) = options.memory_limit {
        database = database.memory_limit(bytes);
    }
    if let Some(bytes) = options.region_bytes {
        database = database.region_size(bytes);
    }
    let database = database
        .open()
        .map_err(|error| BenchError::Embedded(error.to_string()))?;
    if options.via == Via::Native && !database.machine().is_fresh() {
        // Its tables are in no catalog, so those of an earlier run could not be found again.
        return Err(BenchError::Options(
            "native runs need an empty data directory".to_string(),
        ));
    }
    Ok(database)
}
