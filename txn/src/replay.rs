//! Replay: applies the commits in the log since the checkpoint to the regions, in parallel.
//!
//! # Picture
//! ```text
//! log ─► records in order ─► LOCK bodies wait for their COMMIT-PRIMARY ─► batches of commits
//!                                                             │ every batch to every worker
//!                                                  worker k applies the objects of its share
//! ```
//! # Invariants
//! * REPLAY-1: a write applies only to an object that is older than it. So each object may be in
//!   the checkpoint in a state from before or after the write.
//! * REPLAY-2: one worker applies all writes of a block, in log order. Log order is the order of
//!   their commits, because a commit appends to the log before it unlocks.
//! * REPLAY-3: a transaction without COMMIT-PRIMARY has no effect.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};

use fencepost_storage::classes::{CLASSES, Class};
use fencepost_storage::header::{Header, LinkWord, OldVersionPtr};
use fencepost_storage::log::{LogError, LogRecovery};
use fencepost_storage::region::{BlockId, Regions};
use fencepost_storage::{Addr, Timestamp};
use foldhash::fast::FixedState;

use crate::changes;
use crate::network::disk::BEGUN;
use crate::record::{self, BadRecord, LoggedWrite, TxnId};

/// Number of commits in a batch.
const BATCH: usize = 1024;
/// Most batches that are queued for a worker.
const QUEUE: usize = 16;

/// The result of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplaySummary {
    /// Transactions applied.
    pub commits: u64,
    /// Transactions without COMMIT-PRIMARY.
    pub unfinished: u64,
    /// Newest write timestamp.
    pub newest: Timestamp,
}

/// The reason why replay fails.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A record passed its checksum but is malformed.
    #[error("log record at {lsn}: {why}")]
    Record {
        /// The log position of the record.
        lsn: u64,
        /// The defect of the record.
        why: BadRecord,
    },
    /// The log and the checkpoint do not belong together.
    #[error("replay: {0}")]
    Mismatch(BadRecord),
}

type Commit = (Timestamp, Vec<Vec<u64>>);
type Batch = Arc<Vec<Commit>>;

/// Applies every committed transaction of the log to `regions`, which no other thread uses yet.
/// Blocks until `workers` threads (at least one) have applied all of them.
///
/// # Errors
/// [`ReplayError::Log`] if the log is damaged or cannot be read, [`ReplayError::Record`] for a
/// malformed record, [`ReplayError::Mismatch`] if the log does not fit the checkpoint. Do not start
/// then: the regions are unusable.
pub fn replay(
    log: &mut LogRecovery,
    regions: &Regions,
    workers: usize,
) -> Result<ReplaySummary, ReplayError> {
    let workers = workers.max(1);
    let failure: OnceLock<BadRecord> = OnceLock::new();
    let found = std::thread::scope(|scope| {
        let mut queues = Vec::new();
        for worker in 0..workers {
            let (send, receive) = sync_channel(QUEUE);
            queues.push(send);
            let failure = &failure;
            scope.spawn(move || apply_all(&receive, regions, (worker, workers), failure));
        }
        read_all(log, &queues, &failure)
    })?;
    match failure.get() {
        Some(why) => Err(ReplayError::Mismatch(*why)),
        None => Ok(found),
    }
}

fn read_all(
    log: &mut LogRecovery,
    queues: &[SyncSender<Batch>],
    failure: &OnceLock<BadRecord>,
) -> Result<ReplaySummary, ReplayError> {
    let mut found = ReplaySummary::default();
    let mut waiting: HashMap<TxnId, Vec<Vec<u64>>, FixedState> = HashMap::default();
    let mut batch: Vec<Commit> = Vec::with_capacity(BATCH);
    let send = |batch: &mut Vec<Commit>| {
        let full: Batch = Arc::new(std::mem::replace(batch, Vec::with_capacity(BATCH)));
        for queue in queues {
            // A worker ends early only after a failure, which is reported at the end.
            let _ = queue.send(Arc::clone(&full));
        }
    };
    while let Some(chunk) = log.next_chunk()? {
        for entry in chunk.records() {
            let bad = |why| ReplayError::Record {
                lsn: entry.lsn.raw(),
                why,
            };
            let words: &[u64] = bytemuck::try_cast_slice(entry.body)
                .map_err(|_| bad(BadRecord("not whole words")))?;
            let (id, rest) = record::split_id(words).map_err(bad)?;
            match entry.kind {
                record::LOCK => waiting.entry(id).or_default().push(rest.to_vec()),
                record::ABORT => {
                    waiting.remove(&id);
                }
                record::COMMIT_PRIMARY => {
                    let w = record::decode_commit(rest).map_err(bad)?;
                    found.newest = found.newest.max(w);
                    found.commits += 1;
                    batch.push((w, waiting.remove(&id).unwrap_or_default()));
                    if batch.len() == BATCH {
                        send(&mut batch);
                    }
                }
                record::TRUNCATE => {}
                BEGUN => return Err(bad(BadRecord("it is of a machine among others"))),
                _ => return Err(bad(BadRecord("unknown kind of record"))),
            }
        }
        if failure.get().is_some() {
            break;
        }
    }
    send(&mut batch);
    found.unfinished = waiting.len() as u64;
    Ok(found)
}

fn apply_all(
    queue: &Receiver<Batch>,
    regions: &Regions,
    share: (usize, usize),
    failure: &OnceLock<BadRecord>,
) {
    while let Ok(batch) = queue.recv() {
        for (w, bodies) in batch.iter() {
            for body in bodies {
                let applied = record::decode_lock(body, |addr, write| {
                    if share_of(addr, share.1) == share.0 {
                        apply(regions, addr, &write, *w)
                    } else {
                        Ok(())
                    }
                });
                if let Err(why) = applied {
                    // Only the first reason is reported.
                    let _ = failure.set(why);
                    return;
                }
            }
        }
    }
}

fn share_of(addr: Addr, workers: usize) -> usize {
    // Whole blocks: a block may change its class between two records of the log.
    (addr.raw() >> 20) as usize % workers
}

fn apply(
    regions: &Regions,
    addr: Addr,
    write: &LoggedWrite<'_>,
    w: Timestamp,
) -> Result<(), BadRecord> {
    const NOWHERE: BadRecord = BadRecord("a write leads outside every block");
    const TOO_LONG: BadRecord = BadRecord("a write is longer than its object");
    if let LoggedWrite::New { class, .. } = write {
        if usize::from(*class) >= CLASSES {
            return Err(BadRecord("unknown size class"));
        }
        let restored = regions.restore_block_anew(BlockId::of(addr), Class(*class));
        restored.map_err(|_| {
            BadRecord("a block cannot be restored with the class that the log names")
        })?;
    }
    let object = regions.object(addr).ok_or(NOWHERE)?;
    let header = object.header();
    if header.timestamp() >= w {
        return Ok(());
    }
    let incarnation = object.link().incarnation();
    match write {
        LoggedWrite::New { payload, .. } if payload.len() > object.len() => return Err(TOO_LONG),
        LoggedWrite::New {
            incarnation,
            payload,
            ..
        } => {
            object.put(0, payload);
            object.finish_install(
                Header(0).succeed(w, true),
                LinkWord::new(*incarnation, OldVersionPtr::NONE),
            );
        }
        LoggedWrite::Changed { base, ranges } => {
            if header.timestamp() != *base || !header.is_allocated() {
                return Err(BadRecord("a change applies to a version that is not there"));
            }
            changes::check(ranges, object.len())?;
            changes::install(object, ranges);
            object.finish_install(
                header.succeed(w, true),
                LinkWord::new(incarnation, OldVersionPtr::NONE),
            );
        }
        LoggedWrite::Freed { base } => {
            if header.timestamp() != *base {
                return Err(BadRecord(
                    "a tombstone applies to a version that is not there",
                ));
            }
            object.finish_install(
                header.succeed(w, false),
                LinkWord::new(incarnation, OldVersionPtr::NONE),
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::LockRecord;

    const ID: TxnId = TxnId {
        configuration: 1,
        machine: 2,
        thread: 3,
        local: 4,
    };

    /// Applies the writes of one LOCK record.
    fn applied(regions: &Regions, record: &[u64], w: u64) -> Result<(), BadRecord> {
        let (_, rest) = record::split_id(record)?;
        record::decode_lock(rest, |addr, write| {
            apply(regions, addr, &write, Timestamp::from_raw(w))
        })
    }

    #[test]
    fn writes_beyond_an_object_are_refused() {
        let regions = Regions::new(0);
        let class = Class::for_payload(8).expect("small");
        let block = BlockId {
            region: fencepost_storage::RegionId(0),
            block: 1,
        };
        let addr = block.slot(class, 0);
        let new = |words: usize| {
            let mut record = Vec::new();
            let mut lock = LockRecord::begin(&mut record, ID, std::iter::empty());
            lock.new_object(addr, class.0, 1, words, |out| out.fill(7));
            record
        };
        assert_eq!(applied(&regions, &new(8), 5), Ok(()));
        let long = regions.object(addr).expect("an object").len() + 1;
        assert!(applied(&regions, &new(long), 6).is_err());
        let changed = |from: u64| {
            let kind = 2 << 56 | 1;
            let mut record = ID.words().to_vec();
            record.extend([0, addr.raw(), kind, 5, from << 32 | 1, 9]);
            record
        };
        assert!(applied(&regions, &changed(long as u64), 7).is_err());
        assert!(applied(&regions, &changed(u64::from(u32::MAX)), 7).is_err());
        assert_eq!(applied(&regions, &changed(3), 7), Ok(()));
    }
}
