//! The threads of a run, their clients, and its phases.
//!
//! Failure: the first error of any thread stops all threads, and is the result of the run.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fencepost_fabric::random::Random;
use fencepost_txn::yield_now;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use pollster::block_on;

use super::meter::{Meter, ThreadCounters};
use super::progress::Progress;
use super::report::{Report, RunParameters, WorkloadConstants};
use super::workload::{Attempt, Client, Workload};
use crate::error::BenchError;

/// The length and the parallelism of a run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The number of threads.
    pub threads: usize,
    /// The number of clients of each thread, which is the number of its requests in flight.
    pub in_flight: usize,
    /// The measured time.
    pub seconds: Duration,
    /// The time before it.
    pub warmup: Duration,
    /// The seed of all requests.
    pub seed: u64,
    /// Whether to print a line each second.
    pub progress: bool,
    /// Whether a client that loses its connection opens another one and continues.
    pub survives: bool,
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions {
            threads: 1,
            in_flight: 1,
            seconds: Duration::from_secs(10),
            warmup: Duration::from_secs(2),
            seed: 1,
            progress: true,
            survives: false,
        }
    }
}

const WARMUP: u8 = 0;
const MEASURED: u8 = 1;
const STOPPED: u8 = 2;
/// The time between two progress lines.
const LINE: Duration = Duration::from_secs(1);
/// The interval at which a run checks whether a thread has failed.
const LOOK: Duration = Duration::from_millis(20);
/// The longest time for which a client searches for another server.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// The failure reason of a request whose connection was lost before the reply.
const LOST: &str = "connection lost";

/// The state that the threads of a run share.
struct Shared {
    phase: AtomicU8,
    failed: AtomicBool,
    watch_ends: AtomicBool,
    started: Barrier,
}

/// Prepares, runs and verifies a workload.
///
/// # Errors
/// Errors that the workload does not expect. Broken data is not an error: see [`Report::check`].
pub fn run<W: Workload>(
    workload: &W,
    options: &RunOptions,
    facts: RunParameters,
) -> Result<Report, BenchError> {
    let say = |text: &str| {
        if options.progress {
            eprintln!("{text}");
        }
    };
    let began = Instant::now();
    workload.prepare(&say)?;
    say(&format!("loaded in {:.1} s", began.elapsed().as_secs_f64()));
    let measured = measure(workload, options)?;
    say("checking the data");
    let check = match &measured.watched {
        Some(broken) => Some(format!("while running: {broken}")),
        None => workload.verify()?,
    };
    let about = WorkloadConstants {
        name: workload.name(),
        kinds: W::KINDS,
        sampled: W::SAMPLED,
    };
    let report = Report::new(&about, facts, options, &measured, check);
    say(&report.to_string());
    Ok(report)
}

/// The results of the measured time.
pub(super) struct Measurement {
    pub meter: Meter,
    pub took: Duration,
    pub counters: super::Counters,
    pub watched: Option<String>,
}

fn measure<W: Workload>(workload: &W, options: &RunOptions) -> Result<Measurement, BenchError> {
    let threads = options.threads.max(1);
    let live: Vec<ThreadCounters> = (0..threads).map(|_| ThreadCounters::default()).collect();
    let shared = Shared {
        phase: AtomicU8::new(WARMUP),
        failed: AtomicBool::new(false),
        watch_ends: AtomicBool::new(false),
        started: Barrier::new(threads + 1),
    };
    let mut seeds = Random::new(options.seed);
    thread::scope(|scope| {
        let mut clients = Vec::with_capacity(threads);
        for (index, live) in live.iter().enumerate() {
            let (shared, random) = (&shared, seeds.fork());
            clients.push(scope.spawn(move || {
                let end = EarlyEndGuard {
                    shared,
                    joined: false,
                };
                let client_place = ClientThread {
                    workload,
                    index,
                    options,
                    live,
                };
                client_thread(&client_place, random, end)
            }));
        }
        shared.started.wait();
        let watcher = scope.spawn(|| {
            let found = workload.watch(&shared.watch_ends);
            if !matches!(found, Ok(None)) {
                shared.failed.store(true, Ordering::Relaxed);
            }
            found
        });
        let mut progress = Progress::new(options.progress);
        pass(options.warmup, "warm-up", &shared, &live, &mut progress);
        let before = workload.counters();
        let began = Instant::now();
        shared.phase.store(MEASURED, Ordering::Relaxed);
        pass(options.seconds, "measured", &shared, &live, &mut progress);
        let took = began.elapsed();
        shared.phase.store(STOPPED, Ordering::Relaxed);
        let mut meter = Meter::new(W::KINDS.len());
        let mut first_error = None;
        for client in clients {
            match client.join() {
                Ok(Ok(own)) => meter.merge(&own),
                Ok(Err(error)) => first_error = first_error.or(Some(error)),
                Err(_) => first_error = first_error.or(Some(BenchError::Panicked)),
            }
        }
        // The counters are read after all clients have ended, so that they include all client work
        // even if this thread is late.
        let counters = workload.counters().since(&before);
        shared.watch_ends.store(true, Ordering::Relaxed);
        let watched = watcher.join().map_err(|_| BenchError::Panicked)?;
        match first_error {
            Some(error) => Err(error),
            None => Ok(Measurement {
                meter,
                took,
                counters,
                watched: watched?,
            }),
        }
    })
}

/// Waits for `time`, or until a thread has failed.
fn pass(
    time: Duration,
    phase: &str,
    shared: &Shared,
    live: &[ThreadCounters],
    progress: &mut Progress,
) {
    let began = Instant::now();
    let mut last = began;
    loop {
        let now = Instant::now();
        let done = now - began >= time || shared.failed.load(Ordering::Relaxed);
        if now - last >= LINE || done && now - last > LINE / 10 {
            progress.line(phase, now - began, now - last, live);
            last = now;
        }
        if done {
            return;
        }
        thread::sleep(LOOK.min(time - (now - began)));
    }
}

/// A guard that notifies the other threads when a thread ends early, so that none waits for it.
struct EarlyEndGuard<'a> {
    shared: &'a Shared,
    joined: bool,
}

impl EarlyEndGuard<'_> {
    fn join_start(&mut self) {
        self.joined = true;
        self.shared.started.wait();
    }
}

impl Drop for EarlyEndGuard<'_> {
    fn drop(&mut self) {
        if self.shared.phase.load(Ordering::Relaxed) != STOPPED {
            self.shared.failed.store(true, Ordering::Relaxed);
        }
        if !self.joined {
            self.shared.started.wait();
        }
    }
}

/// A thread of a run.
struct ClientThread<'a, W> {
    workload: &'a W,
    index: usize,
    options: &'a RunOptions,
    live: &'a ThreadCounters,
}

impl<'a, W: Workload> ClientThread<'a, W> {
    /// Opens a new client. Tries again if the server is busy, or if another server must replace a
    /// lost one.
    fn client(&self) -> Result<W::Client<'a>, BenchError> {
        let began = Instant::now();
        let passes = |error: &BenchError| match error {
            BenchError::Sql(failure) if failure.conflict().is_some() => true,
            error => self.options.survives && error.is_connection_lost(),
        };
        loop {
            match self.workload.client(self.index) {
                Err(error) if passes(&error) && began.elapsed() < TIME_LIMIT => thread::sleep(LOOK),
                made => return made,
            }
        }
    }
}

fn client_thread<W: Workload>(
    thread: &ClientThread<'_, W>,
    mut random: Random,
    mut end: EarlyEndGuard<'_>,
) -> Result<Meter, BenchError> {
    let clients = 0..thread.options.in_flight.max(1);
    let clients = clients.map(|_| Ok((thread.client()?, random.fork())));
    let mut clients = clients.collect::<Result<Vec<_>, BenchError>>()?;
    end.join_start();
    let shared = end.shared;
    if let (1, Some((client, random))) = (clients.len(), clients.pop()) {
        return block_on(run_client(thread, (client, random), shared, false));
    }
    let clients = clients.into_iter();
    let running = clients.map(|client| run_client(thread, client, shared, true));
    let mut running: FuturesUnordered<_> = running.collect();
    block_on(async {
        let mut meter = Meter::new(W::KINDS.len());
        while let Some(ended) = running.next().await {
            meter.merge(&ended?);
        }
        Ok(meter)
    })
}

/// Runs the requests of one client, until the run stops.
async fn run_client<'a, W: Workload>(
    thread: &ClientThread<'a, W>,
    (mut client, mut random): (W::Client<'a>, Random),
    shared: &Shared,
    has_neighbours: bool,
) -> Result<Meter, BenchError> {
    let live = thread.live;
    let mut meter = Meter::new(W::KINDS.len());
    let mut phase = WARMUP;
    let mut number = 0u64;
    loop {
        let now = shared.phase.load(Ordering::Relaxed);
        if now != phase {
            if now == STOPPED {
                return Ok(meter);
            }
            meter.clear();
            phase = now;
        }
        number += 1;
        let request = client.generate(&mut random);
        let began = number.is_multiple_of(W::SAMPLED).then(Instant::now);
        loop {
            match client.execute(&request).await {
                Ok(Attempt::Committed) => {
                    meter.commit(<W::Client<'_> as Client>::kind(&request), live);
                }
                Ok(Attempt::Failed(reason)) => meter.fail(reason),
                Ok(Attempt::Aborted(reason)) => {
                    meter.abort(reason, live);
                    if shared.phase.load(Ordering::Relaxed) != STOPPED {
                        continue;
                    }
                }
                Err(error) if thread.options.survives && error.is_connection_lost() => {
                    meter.fail(LOST);
                    client = thread.client()?;
                }
                Err(error) => return Err(error),
            }
            break;
        }
        if let Some(began) = began {
            meter.took(began.elapsed());
        }
        if has_neighbours {
            yield_now().await;
        }
    }
}
