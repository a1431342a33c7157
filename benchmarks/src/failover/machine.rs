//! The process of one machine: it loads its part of the data and runs clients. It counts their
//! commits in memory that outlives the process.
//!
//! ```text
//! join ─► tables ─► roots of all ─► load ─► go: clients ─► stop ─► check, timeline ─► until killed
//! ```
//!
//! # Failure
//! The measuring process may end at any time; then this process ends, too. It reports any other
//! error, and ends.

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use fencepost::{Cluster, Database};
use fencepost_fabric::random::Random;
use fencepost_fabric::{HostClock, MonotonicClock};
use fencepost_txn::network::Step;
use fencepost_txn::{Machine, yield_now};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use pollster::block_on;

use super::buckets::{Buckets, Row};
use super::protocol::{MachineMessage, Order};
use super::{Load, Survivor};
use crate::bank::BankNative;
use crate::error::BenchError;
use crate::harness::{Attempt, Client};
use crate::native::{Exchange, Machines};
use crate::tatp::TatpNative;

/// The options of a machine's process.
#[derive(Clone, Debug)]
pub struct MachineOptions {
    /// The directory with the shared memory of all machines.
    pub directory: PathBuf,
    /// The number of the machine, from 1.
    pub machine: u32,
    /// The number of machines.
    pub machines: u32,
    /// The number of machines with a copy of each region.
    pub replicas: u32,
    /// The length of leases.
    pub lease: Duration,
    /// The workload of the clients.
    pub load: Load,
    /// The number of subscribers or accounts.
    pub rows: u32,
    /// The number of threads of this machine.
    pub threads: usize,
    /// The number of clients of each thread.
    pub in_flight: usize,
    /// The seed of all requests.
    pub seed: u64,
    /// The number of milliseconds that are counted.
    pub buckets: usize,
    /// The size of a region in bytes; `None` is the default.
    pub region_bytes: Option<usize>,
    /// The memory limit of its own data in bytes; `None` is the default.
    pub memory_limit: Option<u64>,
    /// Whether it stays on one processor.
    pub pin: bool,
}

/// Returns the path of the file in which a machine counts commits.
pub(super) fn counts_of(directory: &Path, machine: u32) -> PathBuf {
    directory.join(format!("commits-{machine}"))
}

/// The channel to the measuring process.
struct Measurer(Mutex<Receiver<Order>>);

impl Measurer {
    /// Reads messages from the standard input.
    fn listen() -> Result<Arc<Measurer>, BenchError> {
        let (sender, receiver) = channel();
        let read = move || {
            for line in std::io::stdin().lock().lines() {
                let Some(order) = line.ok().and_then(|line| Order::parse(&line)) else {
                    break;
                };
                if sender.send(order).is_err() {
                    break;
                }
            }
            // The measuring process has ended.
            std::process::exit(0);
        };
        let started = thread::Builder::new().spawn(read);
        let measurer = Arc::new(Measurer(Mutex::new(receiver)));
        match started {
            Ok(_) => Ok(measurer),
            Err(error) => Err(BenchError::Io {
                what: "a thread".to_string(),
                error,
            }),
        }
    }

    fn hear(&self) -> Result<Order, BenchError> {
        let ended = || BenchError::Load("the measuring process has ended".to_string());
        let receiver = self.0.lock().map_err(|_| ended())?;
        receiver.recv().map_err(|_| ended())
    }

    /// Waits for the next message, which must be an expected one.
    fn await_order<T>(&self, want: impl FnOnce(Order) -> Option<T>) -> Result<T, BenchError> {
        let order = self.hear()?;
        let why = || BenchError::Load("that was not its turn".to_string());
        want(order).ok_or_else(why)
    }

    fn say(&self, said: &MachineMessage) -> Result<(), BenchError> {
        let mut out = std::io::stdout().lock();
        let written = writeln!(out, "{said}").and_then(|()| out.flush());
        written.map_err(|error| BenchError::Io {
            what: "standard output".to_string(),
            error,
        })
    }
}

/// Runs a machine until the process that started this one ends.
///
/// # Errors
/// Any error of the run; it has been reported to the measuring process.
pub fn run_machine(options: &MachineOptions) -> Result<(), BenchError> {
    let measurer = Measurer::listen()?;
    let done = run(options, &measurer);
    if let Err(error) = &done {
        measurer.say(&MachineMessage::Failed(error.to_string()))?;
    }
    done
}

fn run(options: &MachineOptions, measurer: &Arc<Measurer>) -> Result<(), BenchError> {
    if options.pin {
        super::pin::pin(options.machine)?;
    }
    let cluster = Cluster::of_host(&options.directory, options.machine, options.machines);
    let cluster = cluster.replicas(options.replicas).lease(options.lease);
    let mut database = Database::options().cluster(cluster);
    if let Some(bytes) = options.region_bytes {
        database = database.region_size(bytes);
    }
    if let Some(bytes) = options.memory_limit {
        database = database.memory_limit(bytes);
    }
    let database = database
        .open()
        .map_err(|error| BenchError::Embedded(error.to_string()))?;
    let machine = Arc::clone(database.machine());
    let asks = Arc::clone(measurer);
    let exchange: Exchange = Box::new(move |roots| {
        asks.say(&MachineMessage::Roots(roots.to_vec()))?;
        asks.await_order(|order| match order {
            Order::Roots(all) => Some(all),
            _ => None,
        })
    });
    let at = (options.machine as usize - 1, options.machines as usize);
    let machines = Machines::one_of(database, at, exchange);
    let context = Context {
        options,
        measurer,
        machine: &machine,
    };
    match options.load {
        Load::Tatp => context.drive(&TatpNative::new(machines, options.rows, options.seed)?),
        Load::Bank => context.drive(&BankNative::new(machines, options.rows)?),
    }
}

/// The parameters of a run besides its workload.
struct Context<'a> {
    options: &'a MachineOptions,
    measurer: &'a Measurer,
    machine: &'a Machine,
}

impl Context<'_> {
    fn drive<W: Survivor>(&self, workload: &W) -> Result<(), BenchError> {
        let MachineOptions {
            machine, buckets, ..
        } = *self.options;
        let path = counts_of(&self.options.directory, machine);
        let counts = Buckets::open(&path, buckets)?;
        workload.prepare(&|_| ())?;
        self.measurer.say(&MachineMessage::Loaded)?;
        let origin = self.measurer.await_order(|order| match order {
            Order::Go(origin) => Some(origin),
            _ => None,
        })?;
        let ran = self.run_clients(workload, &counts, origin);
        ran.map_err(|error| BenchError::Load(format!("{error}{}", self.describe_steps())))?;
        self.measurer.say(&MachineMessage::Stopped)?;
        let check = |order| (order == Order::Check).then_some(());
        self.measurer.await_order(check)?;
        let broken = workload.verify_after_failure()?;
        self.tell_what_happened()?;
        self.measurer.say(&MachineMessage::Checked(broken))?;
        // Other machines may still read data here.
        loop {
            self.measurer.hear()?;
        }
    }

    fn run_clients<W: Survivor>(
        &self,
        workload: &W,
        counts: &Buckets,
        origin: u64,
    ) -> Result<(), BenchError> {
        let MachineOptions {
            machine,
            threads,
            in_flight,
            seed,
            ..
        } = *self.options;
        let mut random = Random::new(seed ^ u64::from(machine).rotate_right(8));
        let stops = AtomicBool::new(false);
        thread::scope(|scope| {
            let clients: Vec<_> = (0..threads.max(1))
                .map(|thread| {
                    let (random, stops) = (random.fork(), &stops);
                    let row = counts.row(thread);
                    scope.spawn(move || {
                        let clients = (0..in_flight.max(1)).map(|_| workload.client(thread));
                        let clients: Vec<_> = clients.collect::<Result<_, _>>()?;
                        let mut random = random;
                        let running = clients.into_iter().map(|client| {
                            let counter = Counter { row, origin };
                            run_client(client, random.fork(), counter, stops)
                        });
                        let mut running: FuturesUnordered<_> = running.collect();
                        block_on(async {
                            while let Some(ended) = running.next().await {
                                ended?;
                            }
                            Ok::<(), BenchError>(())
                        })
                    })
                })
                .collect();
            let stopped = self
                .measurer
                .await_order(|order| (order == Order::Stop).then_some(()));
            stops.store(true, Ordering::Relaxed);
            let ends = clients.into_iter().map(|client| client.join());
            let ends: Vec<_> = ends.collect();
            let ended = ends
                .into_iter()
                .try_for_each(|end| end.unwrap_or(Err(BenchError::Panicked)));
            ended.and(stopped)
        })
    }

    /// Returns a readable summary of the reconfigurations that this machine has seen.
    fn describe_steps(&self) -> String {
        let now = HostClock.now_ns();
        let mut times = String::new();
        for timeline in self.machine.timelines() {
            let of = timeline.configuration;
            times += &of.map_or("; next:".to_string(), |of| format!("; configuration {of}:"));
            for step in Step::ALL {
                if let Some(at) = timeline.at_ns(step) {
                    let ago = now.saturating_sub(at) as f64 / 1e6;
                    times += &format!(" {} {ago:.1} ms ago", step.name());
                }
            }
        }
        let leases = self.machine.lease_counts().unwrap_or_default();
        let (expired, returned) = (leases.expired, leases.returned);
        times + &format!("; {expired} leases have expired, {returned} came back")
    }

    fn tell_what_happened(&self) -> Result<(), BenchError> {
        for timeline in self.machine.timelines() {
            // A reconfiguration in progress belongs to the next configuration.
            let configuration = timeline.configuration.unwrap_or(u64::MAX);
            for step in Step::ALL {
                if let Some(at) = timeline.at_ns(step) {
                    self.measurer
                        .say(&MachineMessage::Mark(configuration, step, at))?;
                }
            }
        }
        let leases = self.machine.lease_counts().unwrap_or_default();
        self.measurer
            .say(&MachineMessage::Leases(leases.expired, leases.returned))
    }
}

/// The counter of a client.
#[derive(Clone, Copy)]
struct Counter<'a> {
    row: Row<'a>,
    origin: u64,
}

/// Runs one request after the other, until the run stops.
async fn run_client<C: Client>(
    mut client: C,
    mut random: Random,
    counter: Counter<'_>,
    stops: &AtomicBool,
) -> Result<(), BenchError> {
    let is_over = || stops.load(Ordering::Relaxed);
    while !is_over() {
        let request = client.generate(&mut random);
        loop {
            match client.execute(&request).await? {
                Attempt::Committed => {
                    let after = HostClock.now_ns().saturating_sub(counter.origin);
                    counter.row.count(after);
                }
                // The same request is run again.
                Attempt::Aborted(_) if !is_over() => {
                    yield_now().await;
                    continue;
                }
                Attempt::Aborted(_) | Attempt::Failed(_) => {}
            }
            break;
        }
        yield_now().await;
    }
    Ok(())
}
