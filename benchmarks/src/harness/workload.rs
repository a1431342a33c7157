//! The interface of a benchmark: prepare, generate, execute, verify.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::AtomicBool;

use fencepost_fabric::random::Random;

use crate::error::BenchError;

/// The outcome of one attempt at a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The request took effect, or returned its data.
    Committed,
    /// The data refused the request (no such row, a duplicate): final, expected and not committed.
    Failed(&'static str),
    /// A conflict: the request had no effect and is run again.
    Aborted(&'static str),
}

/// The operation counters of the database, since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// One-sided reads: those that a lookup needs if the data is on another machine.
    pub reads: u64,
    /// One-sided writes posted to other machines: log records and messages, both written into
    /// rings.
    pub writes: u64,
    /// The messages among the one-sided writes: writes that are neither log records nor ring heads.
    pub messages: u64,
    /// Other counters, by name.
    pub others: BTreeMap<String, u64>,
}

impl Counters {
    /// Returns the difference to an `earlier` reading.
    pub fn since(&self, earlier: &Counters) -> Counters {
        let mut others = self.others.clone();
        for (name, count) in &mut others {
            *count = count.saturating_sub(earlier.others.get(name).copied().unwrap_or(0));
        }
        Counters {
            reads: self.reads.saturating_sub(earlier.reads),
            writes: self.writes.saturating_sub(earlier.writes),
            messages: self.messages.saturating_sub(earlier.messages),
            others,
        }
    }
}

/// A client, which runs one request after the other.
pub trait Client {
    /// A request with its drawn keys and values.
    type Request;

    /// Draws the next request.
    fn generate(&mut self, random: &mut Random) -> Self::Request;

    /// Returns the index of its kind in [`Workload::KINDS`].
    fn kind(_request: &Self::Request) -> usize {
        0
    }

    /// Runs the request once. Other clients of the thread run while this one waits.
    ///
    /// # Errors
    /// Errors that the workload does not expect; they end the run.
    fn execute(
        &mut self,
        request: &Self::Request,
    ) -> impl Future<Output = Result<Attempt, BenchError>>;
}

/// A benchmark.
pub trait Workload: Sync {
    /// A client, created on the thread that runs it. A thread runs one or several at once.
    type Client<'a>: Client
    where
        Self: 'a;

    /// The latency of one request in this many is measured; above 1 if reading the clock would cost
    /// a good part of a request.
    const SAMPLED: u64 = 1;

    /// The kinds of requests whose commits are counted separately; empty if there is only one kind.
    const KINDS: &'static [&'static str] = &[];

    /// Returns the name on the command line.
    fn name(&self) -> &'static str;

    /// Loads the data; `say` reports progress.
    ///
    /// # Errors
    /// Any failure of the load.
    fn prepare(&self, say: &dyn Fn(&str)) -> Result<(), BenchError>;

    /// Creates a client of a thread.
    ///
    /// # Errors
    /// Failure to open a connection or session.
    fn client(&self, thread: usize) -> Result<Self::Client<'_>, BenchError>;

    /// Checks the data while clients run, until `stop` is set. Returns the violated condition, if
    /// there is one.
    ///
    /// # Errors
    /// Failure to read the data.
    fn watch(&self, _stop: &AtomicBool) -> Result<Option<String>, BenchError> {
        Ok(None)
    }

    /// Checks the data after the run. Returns the violated condition; `None` if there is none.
    ///
    /// # Errors
    /// Failure to read the data.
    fn verify(&self) -> Result<Option<String>, BenchError>;

    /// Returns the current operation counters.
    fn counters(&self) -> Counters {
        Counters::default()
    }
}
