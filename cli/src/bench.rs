//! `fencepost bench`: runs benchmarks from the command line.

use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use fencepost_benchmarks::harness::RunOptions;
use fencepost_benchmarks::sql::Isolation;
use fencepost_benchmarks::tpcc::RemoteShares;
use fencepost_benchmarks::{BenchOptions, FabricKind, Interface, Name, null_server, run_named};

use crate::compared::{self, ComparedArgs};
use crate::failover::{CommonOptions, FailoverArgs};
use crate::failure::Failure;
use crate::size;

/// Run a benchmark, check its data and report.
#[derive(Debug, Args)]
pub struct Bench {
    /// Benchmark to run.
    name: Benchmark,
    /// Interface to the database. [default: native; tpch, bulk: embedded, or pg with --url]
    #[arg(long)]
    via: Option<Access>,
    /// Server for --via pg: postgresql://user@host:port/database, or host=… port=…. Any PostgreSQL
    /// server works. The benchmark drops and creates its tables. Given several times, for machines
    /// of one database: the first one loads, clients are distributed over all, and the check runs
    /// through each.
    #[arg(long = "url")]
    urls: Vec<String>,
    /// Servers may fail: their clients continue at other servers, and the check allows for
    /// transactions with an unknown outcome; bank, tatp and tpcc --via pg.
    #[arg(long)]
    survive: bool,
    /// Total number of threads, distributed over the machines.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Clients of each thread, which run while other clients wait for another machine; above 1 for
    /// native runs.
    #[arg(long, value_name = "N", default_value_t = 1)]
    in_flight: usize,
    /// Machines of a native run, all in this process. Keys are distributed by a hash, so that with
    /// N machines (N - 1)/N of the accesses are remote. tpcc is distributed by warehouse, and its
    /// clients run on the machine of their warehouse. The machines of failover are processes.
    /// [default: 1; failover: 3]
    #[arg(long, value_name = "N")]
    machines: Option<usize>,
    /// Number of machines that hold a copy of each region. [default: 3, or all there are]
    #[arg(long, value_name = "R")]
    replicas: Option<usize>,
    /// Fabric between several machines. [default: shm]
    #[arg(long)]
    fabric: Option<FabricArg>,
    /// Measured seconds; failover: seconds after the kill. [default: 10; failover: 3]
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// Seconds before the measurement. [default: 2]
    #[arg(long, value_name = "S")]
    warmup: Option<f64>,
    /// Keys (kv; orw: a million for each thread), subscribers (tatp; failover: 20000), accounts
    /// (bank) or customers (smallbank: 100000 for each thread).
    #[arg(long, value_name = "N")]
    rows: Option<u64>,
    /// kv: draw keys from a Zipf distribution with this theta, for example 0.99. [default: uniform]
    #[arg(long, value_name = "THETA")]
    zipf: Option<f64>,
    /// kv: percentage of requests that are updates.
    #[arg(
        long,
        value_name = "P",
        default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(0..=100)
    )]
    update_percent: u32,
    /// orw: number of keys that a transaction reads.
    #[arg(long, value_name = "R", default_value_t = 4)]
    reads: u32,
    /// orw: number of them that it updates on average.
    #[arg(long, value_name = "W", default_value_t = 2)]
    writes: u32,
    /// tpcc: number of warehouses, each of about 100 MB.
    #[arg(long, value_name = "W", default_value_t = 1)]
    warehouses: u32,
    /// tpcc: 30 customers per district and 200 items; for trials, not to specification.
    #[arg(long)]
    small: bool,
    /// tpcc: percentage of order lines that another warehouse supplies, if there is another.
    #[arg(
        long,
        value_name = "P",
        default_value_t = RemoteShares::SPECIFIED.lines,
        value_parser = clap::value_parser!(u32).range(0..=100)
    )]
    remote_lines: u32,
    /// tpcc: percentage of payments by customers of another warehouse. With both 0, all accesses of
    /// a transaction are local.
    #[arg(
        long,
        value_name = "P",
        default_value_t = RemoteShares::SPECIFIED.payments,
        value_parser = clap::value_parser!(u32).range(0..=100)
    )]
    remote_payments: u32,
    /// orw, smallbank, tpcc over SQL: isolation level of transactions.
    /// [default: the level that the workload needs: tpcc repeatable-read, the others serializable]
    #[arg(long, value_name = "LEVEL")]
    isolation: Option<Level>,
    /// Directory of the database (native: an empty one). With it, a commit counts once it is on
    /// disk.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Memory that the data may take, for example 8G.
    #[arg(long, value_name = "SIZE", value_parser = size::bytes)]
    memory_limit: Option<u64>,
    /// Size of a region: a power of two from 16M to 2G.
    #[arg(long, value_name = "SIZE", value_parser = size::region_bytes)]
    region_size: Option<usize>,
    #[command(flatten)]
    failover: FailoverArgs,
    #[command(flatten)]
    compared: ComparedArgs,
    /// Seed of all requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the report to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// null-server: address to listen on.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:5434")]
    listen: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Benchmark {
    /// Lookups and updates of single keys, 16 B keys and 32 B values.
    Kv,
    /// The mobile operator's database.
    Tatp,
    /// Transfers between accounts; the total must hold.
    Bank,
    /// Six transactions over savings and checking accounts; the total must hold.
    Smallbank,
    /// FaSST's O(r, w): r keys read, w of them updated on average, 8 B keys and 40 B values.
    Orw,
    /// TPC-C: nine tables and five transactions, and the consistency conditions 3.3.2.1 to
    /// 3.3.2.12.
    Tpcc,
    /// TPC-H: eight tables and 22 queries, on one server or on two servers in turn, and the answers
    /// of PostgreSQL.
    Tpch,
    /// Scans, aggregates, sorts, joins and changes of many rows, on one server or on two servers in
    /// turn.
    Bulk,
    /// TATP, or transfers, on machines that are processes, of which one is killed: the duration of
    /// the outage.
    Failover,
    /// The upper limit of benchmarks: a server that answers every statement from a constant.
    NullServer,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Access {
    /// The transaction API, in this process.
    Native,
    /// SQL through the library, in this process.
    Embedded,
    /// SQL over the wire.
    Pg,
}

impl Access {
    fn interface(self) -> Interface {
        match self {
            Access::Native => Interface::Native,
            Access::Embedded => Interface::Embedded,
            Access::Pg => Interface::Pg,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FabricArg {
    /// Direct access to each other's memory.
    Local,
    /// Memory on /dev/shm, as between processes.
    Shm,
    /// Connections on loopback.
    Tcp,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Level {
    /// Each statement has its own snapshot.
    ReadCommitted,
    /// Each transaction has its own snapshot.
    RepeatableRead,
    /// Transactions are serializable.
    Serializable,
}

impl Bench {
    pub fn run(self) -> crate::CommandResult {
        let name = match self.name {
            Benchmark::Kv => Name::Kv,
            Benchmark::Tatp => Name::Tatp,
            Benchmark::Bank => Name::Bank,
            Benchmark::Smallbank => Name::SmallBank,
            Benchmark::Orw => Name::Orw,
            Benchmark::Tpcc => Name::Tpcc,
            Benchmark::Tpch | Benchmark::Bulk => return self.compare(),
            Benchmark::Failover => return self.kill_machines(),
            Benchmark::NullServer => return self.serve_nothing(),
        };
        let json = self.json.clone();
        let report = run_named(&self.options(name)?)?;
        if let Some(path) = json {
            let text = format!("{:#}\n", report.to_json());
            std::fs::write(&path, text).map_err(Failure::io(path.display().to_string()))?;
        }
        match report.check {
            None => Ok(()),
            Some(broken) => Err(Failure::Broken(format!("the data are not whole: {broken}"))),
        }
    }

    fn kill_machines(self) -> crate::CommandResult {
        let common = CommonOptions {
            machines: self.machines,
            replicas: self.replicas,
            threads: self.threads,
            in_flight: self.in_flight,
            before: self.warmup.map(time).transpose()?,
            after: self.seconds.map(time).transpose()?,
            rows: self.rows,
            seed: self.seed,
            region_bytes: self.region_size,
            memory_limit: self.memory_limit,
            json: self.json,
        };
        self.failover.run(common)
    }

    fn compare(self) -> crate::CommandResult {
        let default = match self.urls[..] {
            [] => Access::Embedded,
            _ => Access::Pg,
        };
        let common = compared::CommonOptions {
            via: self.via.unwrap_or(default).interface(),
            urls: self.urls,
            machines: self.machines,
            data_dir: self.data_dir,
            memory_limit: self.memory_limit,
            region_bytes: self.region_size,
            json: self.json,
        };
        match self.name {
            Benchmark::Bulk => self.compared.run_bulk(self.rows, common),
            _ => self.compared.run_tpch(common),
        }
    }

    fn options(self, name: Name) -> Result<BenchOptions, Failure> {
        Ok(BenchOptions {
            name,
            via: self.via.unwrap_or(Access::Native).interface(),
            urls: self.urls,
            rows: self.rows,
            zipf: self.zipf,
            update_percent: self.update_percent,
            reads: self.reads,
            writes: self.writes,
            warehouses: self.warehouses,
            small: self.small,
            remote: RemoteShares {
                lines: self.remote_lines,
                payments: self.remote_payments,
            },
            isolation: self.isolation.map(|level| match level {
                Level::ReadCommitted => Isolation::ReadCommitted,
                Level::RepeatableRead => Isolation::RepeatableRead,
                Level::Serializable => Isolation::Serializable,
            }),
            machines: self.machines.unwrap_or(1),
            replicas: self.replicas,
            fabric: self.fabric.map(|fabric| match fabric {
                FabricArg::Local => FabricKind::Local,
                FabricArg::Shm => FabricKind::Shm,
                FabricArg::Tcp => FabricKind::Tcp,
            }),
            data_dir: self.data_dir,
            memory_limit: self.memory_limit,
            region_bytes: self.region_size,
            run: RunOptions {
                threads: self.threads,
                in_flight: self.in_flight,
                seconds: time(self.seconds.unwrap_or(10.0))?,
                warmup: time(self.warmup.unwrap_or(2.0))?,
                seed: self.seed,
                progress: true,
                survives: self.survive,
            },
        })
    }

    fn serve_nothing(&self) -> crate::CommandResult {
        let listener = TcpListener::bind(&self.listen).map_err(Failure::io(self.listen.clone()))?;
        let address = listener
            .local_addr()
            .map_err(Failure::io(self.listen.clone()))?;
        println!("null server ready on {address}");
        null_server::serve(listener).map_err(Failure::io("null server"))
    }
}

fn time(seconds: f64) -> Result<Duration, Failure> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| Failure::Broken("seconds are a positive number".to_string()))
}
