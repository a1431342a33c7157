//! What a benchmark has to say: prepare, generate, execute, verify.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::AtomicBool;

use fencepost_fabric::random::Random;

use crate::error::BenchError;

/// How one try of a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// It took effect, or read what it wanted.
    Committed,
    /// The data said no (no such row, a duplicate): final, expected and not committed.
    Failed(&'static str),
    /// A conflict: it had no effect and is run again.
    Aborted(&'static str),
}

/// Operation counters of whatever runs the requests, since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// One-sided reads: those a lookup costs if the data are on another machine.
    pub reads: u64,
    /// One-sided writes posted to other machines: log records and messages, both written into rings.
    pub writes: u64,
    /// The messages among the one-sided writes: what is neither a log record nor the head of a ring.
    pub messages: u64,
    /// Others, by name.
    pub others: BTreeMap<String, u64>,
}

impl Counters {
    /// What was counted between `earlier` and now.
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

/// What runs one request after the other.
pub trait Client {
    /// A request with its keys and values drawn.
    type Request;

    /// Draws the next request.
    fn generate(&mut self, random: &mut Random) -> Self::Request;

    /// Which of the workload's [`Workload::KINDS`] it is.
    fn kind(_request: &Self::Request) -> usize {
        0
    }

    /// Runs it once. Where other clients share the thread, they run while this one waits.
    ///
    /// # Errors
    /// What the workload does not expect; it ends the run.
    fn execute(
        &mut self,
        request: &Self::Request,
    ) -> impl Future<Output = Result<Attempt, BenchError>>;
}

/// A benchmark.
pub trait Workload: Sync {
    /// What a thread runs, one or several at once; made on that thread.
    type Client<'a>: Client
    where
        Self: 'a;

    /// The latency of one request in this many is taken; above 1 where the clock would cost a
    /// good part of a request.
    const SAMPLED: u64 = 1;

    /// Kinds of requests whose commits are also counted apart; none where all are alike.
    const KINDS: &'static [&'static str] = &[];

    /// Name on the command line.
    fn name(&self) -> &'static str;

    /// Loads the data; `say` shows how far it is.
    ///
    /// # Errors
    /// Whatever keeps the data from being there.
    fn prepare(&self, say: &dyn Fn(&str)) -> Result<(), BenchError>;

    /// A client of a thread.
    ///
    /// # Errors
    /// A connection or session that cannot be had.
    fn client(&self, thread: usize) -> Result<Self::Client<'_>, BenchError>;

    /// Checks the data while clients run, until `stop`; the text of what broke.
    ///
    /// # Errors
    /// What keeps it from looking.
    fn watch(&self, _stop: &AtomicBool) -> Result<Option<String>, BenchError> {
        Ok(None)
    }

    /// Checks the data after the run: `None` if they are whole, or what broke.
    ///
    /// # Errors
    /// What keeps it from looking.
    fn verify(&self) -> Result<Option<String>, BenchError>;

    /// Operation counters so far.
    fn counters(&self) -> Counters {
        Counters::default()
    }
}
