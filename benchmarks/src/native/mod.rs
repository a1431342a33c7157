//! The common parts of native workloads: transactions, loading, rows behind indexes (`rows`),
//! machines (`machines`) and the partitioning of keys (`partitions`).

mod fabrics;
mod machines;
mod partitions;
pub(crate) mod rows;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use fencepost_hashtable::{HashOptions, HashTable, IndexError, Insert};
use fencepost_txn::counters::Totals;
use fencepost_txn::network::PostKind;
use fencepost_txn::{AbortReason, Coordinator, Machine, Mode, Outcome, Stop, Transaction};
use futures_util::{StreamExt, stream};
use pollster::block_on;

use crate::error::BenchError;
use crate::harness::{Attempt, Counters};

pub use fabrics::FabricKind;
pub(crate) use fabrics::shared_directory;
pub(crate) use machines::Exchange;
pub use machines::{ClusterOptions, Machines};
pub(crate) use partitions::{Partitions, Roots};

/// The number of lookups that a check has in flight.
const LOOKS: usize = 64;

/// Runs a future on this thread. Nearly all futures of a local transaction are ready at once, and
/// then no waker is needed.
#[inline]
pub(crate) fn run_future<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    match future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(value) => value,
        Poll::Pending => block_on(future),
    }
}

/// Ends a transaction whose body has run: commits if the body returned [`Attempt::Committed`].
#[inline]
pub(crate) async fn end(
    tx: Transaction,
    body: Result<Attempt, IndexError>,
) -> Result<Attempt, BenchError> {
    match body {
        Ok(Attempt::Committed) => match tx.commit().await {
            Ok(Outcome::Committed(_)) => Ok(Attempt::Committed),
            Ok(Outcome::Aborted(reason)) => Ok(Attempt::Aborted(reason.name())),
            Err(stop) => stopped(stop),
        },
        Ok(other) => {
            tx.abort();
            Ok(other)
        }
        Err(error) => {
            tx.abort();
            match error {
                IndexError::Stop(stop) => stopped(stop),
                other => Err(BenchError::Load(other.to_string())),
            }
        }
    }
}

fn stopped(stop: Stop) -> Result<Attempt, BenchError> {
    match stop {
        Stop::Retry(reason) => Ok(Attempt::Aborted(reason.name())),
        Stop::Deadlock => Ok(Attempt::Aborted("deadlock")),
        other => Err(other.into()),
    }
}

/// Runs `body` in transactions until one commits.
pub(crate) async fn insist(
    coordinator: &mut Coordinator,
    mut body: impl AsyncFnMut(&mut Transaction) -> Result<(), IndexError>,
) -> Result<(), BenchError> {
    loop {
        let mut tx = coordinator.begin(Mode::ReadWrite);
        let done = body(&mut tx).await.map(|()| Attempt::Committed);
        if let Attempt::Committed = end(tx, done).await? {
            return Ok(());
        }
    }
}

/// Looks up `1..=last`, many at once, and passes each result to `see`, in order. Returns the text
/// of the first error.
pub(crate) fn look_at_each<T>(
    last: u64,
    look: impl AsyncFn(u64) -> Result<Result<T, String>, BenchError>,
    mut see: impl FnMut(T),
) -> Result<Option<String>, BenchError> {
    let mut looks = stream::iter(1..=last)
        .map(|number| look(number))
        .buffered(LOOKS);
    block_on(async {
        while let Some(found) = looks.next().await {
            match found? {
                Ok(found) => see(found),
                Err(broken) => return Ok(Some(broken)),
            }
        }
        Ok(None)
    })
}

/// Creates an empty table.
pub(crate) fn create_table(
    machine: &Arc<Machine>,
    key_bytes: usize,
    value_words: usize,
    keys: u64,
) -> Result<HashTable, BenchError> {
    let options = HashOptions {
        key_bytes,
        value_words,
        capacity: usize::try_from(keys).unwrap_or(usize::MAX),
        // The values are the data, so lookups must be validated.
        guard_hits: true,
        ..HashOptions::default()
    };
    create_with(&mut machine.coordinator(), &options)
}

fn create_with(
    coordinator: &mut Coordinator,
    options: &HashOptions,
) -> Result<HashTable, BenchError> {
    let mut made = None;
    run_future(insist(coordinator, async |tx| {
        made = Some(HashTable::create_with(tx, options).await?);
        Ok(())
    }))?;
    made.ok_or_else(|| BenchError::Load("no table was made".to_string()))
}

/// Inserts a key, which must be new.
pub(crate) async fn load(
    tx: &mut Transaction,
    table: &HashTable,
    key: &[u8],
    value: &[u64],
) -> Result<(), IndexError> {
    match table.insert(tx, key, value).await? {
        Insert::Done => Ok(()),
        Insert::Exists(_) => Err(IndexError::Stop(Stop::Damaged)),
    }
}

/// Opens a small machine in memory.
#[cfg(test)]
pub(crate) fn machine_for_tests() -> Machines {
    let options = fencepost::Database::options().region_size(16 << 20);
    Machines::alone(options.open().expect("a database"))
}

/// Opens three such machines, with one backup.
#[cfg(test)]
pub(crate) fn machines_for_tests(fabric: FabricKind) -> Machines {
    Machines::together(&ClusterOptions {
        machines: 3,
        replicas: 2,
        fabric,
        region_bytes: Some(16 << 20),
        memory_limit: None,
    })
    .expect("machines")
}

/// Returns the counters of machines and of the hash tables of this process.
pub(crate) fn counters(machines: &[Arc<Machine>]) -> Counters {
    let mut others = BTreeMap::new();
    let mut add = |name: &str, count: u64| *others.entry(name.to_string()).or_default() += count;
    let (mut writes, mut messages) = (0, 0);
    for machine in machines {
        let totals: Totals = machine.counters().totals();
        add("committed_writes", totals.committed_writes);
        add("committed_reads", totals.committed_reads);
        add("refreshes", totals.refreshes);
        add("old_version_reads", totals.old_version_reads);
        add("lock_waits", totals.lock_waits);
        add("patches_reapplied", totals.patches_reapplied);
        add("versions_awaited", totals.versions_awaited);
        for (reason, count) in AbortReason::ALL.iter().zip(totals.aborts) {
            add(&format!("abort_{}", reason.name()), count);
        }
        let traffic = machine.traffic();
        messages += traffic.messages();
        for what in PostKind::ALL {
            add(&format!("posted_{}", what.name()), traffic.of(what));
        }
        if let Some(posted) = machine.fabric_counts() {
            writes += posted.writes;
            add("posted_reads", posted.reads);
            add("posted_writes", posted.writes);
            add("posted_swaps", posted.swaps);
            add("posted_words", posted.words);
        }
    }
    let tables = fencepost_hashtable::counters();
    add("lookups", tables.lookups);
    add("one_sided_reads", tables.one_sided_reads);
    Counters {
        reads: tables.one_sided_reads,
        writes,
        messages,
        others,
    }
}
