//! The durable record of a commit: where SOSP'15 writes its LOCK records, and the step at which a
//! commit becomes certain. In the memory tier there is no log and nothing here costs anything.
//!
//! A small transaction appends LOCK and COMMIT-PRIMARY in one go. The new objects of a large one are
//! logged before LOCK ([`Context::prewrite`]), so locks are held only for what others can see.

use fencepost_storage::classes::Class;
use fencepost_storage::log::{LogError, Lsn};
use fencepost_storage::raw::WORD_BYTES;
use fencepost_storage::region::Regions;
use fencepost_storage::{Addr, Timestamp};

use crate::record::{self, LockRecord, TxnId};
use crate::stop::Stop;
use crate::transaction::Context;
use crate::write_set::{What, Write, WriteSet};

/// Words after which a LOCK record is closed and the next one begun.
const CHUNK_WORDS: usize = 128 * 1024;
/// New objects from which on they are logged before LOCK.
const PREWRITE_FROM: usize = 4096;

fn stop(error: &LogError) -> Stop {
    match error {
        LogError::Full => Stop::DiskFull,
        LogError::TooLarge { .. } => Stop::TooLarge("a log record is over the limit"),
        _ => Stop::Failed,
    }
}

impl Context {
    /// Identity of the running transaction in log records.
    pub(crate) fn txn_id(&self) -> TxnId {
        TxnId {
            configuration: self.machine.incarnation(),
            machine: 0,
            thread: self.number,
            local: self.local,
        }
    }

    /// Logs the new objects of a large transaction ahead of LOCK: once, unless rerouting has changed
    /// them since.
    pub(crate) fn prewrite(&mut self) -> Result<(), Stop> {
        if self.prewritten && self.new_touched {
            self.log_abort();
        }
        let large = self.writes.writes.len() >= PREWRITE_FROM;
        let Some(log) = self.machine.log().filter(|_| large && !self.prewritten) else {
            return Ok(());
        };
        self.slot.hold_log(log.position().raw());
        self.prewritten = true;
        self.prewritten_upto = self.writes.writes.len();
        self.new_touched = false;
        let new = (0..self.prewritten_upto as u32).filter(|at| is_plain_new(&self.writes, *at));
        self.logged.clear();
        self.logged.extend(new);
        self.log_writes(None).map(|_| ())
    }

    /// Appends what the commit writes and that it commits at `w`; the log position to wait for.
    pub(crate) fn log_commit(&mut self, w: Timestamp) -> Result<Option<Lsn>, Stop> {
        if self.machine.log().is_none() {
            return Ok(None);
        }
        let there = if self.prewritten {
            self.prewritten_upto
        } else {
            0
        };
        let new = (0..self.writes.writes.len() as u32).filter(|at| {
            let is_new = matches!(self.writes.writes[*at as usize].what, What::New { .. });
            is_new && !((*at as usize) < there && is_plain_new(&self.writes, *at))
        });
        self.logged.clear();
        self.logged.extend(self.order.iter().copied().chain(new));
        self.log_writes(Some(w))
    }

    /// An aborted transaction whose records are in the log says so.
    pub(crate) fn log_abort(&mut self) {
        if !self.prewritten {
            return;
        }
        self.prewritten = false;
        let body = record::abort(self.txn_id());
        if let Some(log) = self.machine.log() {
            // Without this record replay drops the transaction all the same, when the log ends.
            let _ = log.append(&[(record::ABORT, &[bytemuck::cast_slice(&body)])]);
        }
        self.local += 1;
        self.slot.release_log();
    }

    /// Appends the entries in `logged`, and then that they commit.
    fn log_writes(&mut self, commit: Option<Timestamp>) -> Result<Option<Lsn>, Stop> {
        let id = self.txn_id();
        let Context {
            machine,
            writes,
            slot,
            logged: entries,
            record: words,
            prewritten,
            ..
        } = self;
        let Some(log) = machine.log() else {
            return Ok(None);
        };
        // A chunk may outgrow this by one object, which is a quarter of the limit at most.
        let chunk = CHUNK_WORDS.min(log.append_limit() / (4 * WORD_BYTES));
        let mut next = 0;
        loop {
            let regions = entries[next..]
                .iter()
                .map(|at| writes.writes[*at as usize].addr.region().0)
                .take(chunk);
            let mut lock = LockRecord::begin(words, id, regions);
            while next < entries.len() && lock.len() < chunk {
                log_write(
                    machine.regions(),
                    writes,
                    &mut lock,
                    &writes.writes[entries[next] as usize],
                );
                next += 1;
            }
            let last = next == entries.len();
            if !last {
                // More records follow: the log must keep the first until the last is applied.
                slot.hold_log(log.position().raw());
            }
            let body: &[&[u8]] = &[bytemuck::cast_slice(words)];
            let appended = match commit.filter(|_| last) {
                Some(w) => {
                    let commit = record::commit_primary(id, w);
                    log.append(&[
                        (record::LOCK, body),
                        (record::COMMIT_PRIMARY, &[bytemuck::cast_slice(&commit)]),
                    ])
                }
                None => log.append(&[(record::LOCK, body)]),
            };
            let lsn = appended.map_err(|error| stop(&error))?;
            if last {
                return Ok(Some(lsn));
            }
            *prewritten = true;
        }
    }

    /// Writes `w` into everything that carries its commit timestamp.
    pub(crate) fn stamp(&mut self, w: Timestamp) {
        for at in 0..self.writes.writes.len() {
            let write = self.writes.writes[at];
            match write.what {
                What::Patched(kind) | What::Image { kind: Some(kind) } => {
                    kind.stamp(self.writes.image_mut(write.image), w);
                }
                What::New {
                    kind: Some(kind), ..
                } => self.stamp_new(write.addr, kind, w),
                _ => {}
            }
        }
    }

    fn stamp_new(&mut self, addr: Addr, kind: &'static dyn crate::node::NodeKind, w: Timestamp) {
        if let Some(object) = self.machine.regions().object(addr) {
            self.scratch.clear();
            self.scratch.resize(object.len(), 0);
            object.copy(0, &mut self.scratch);
            kind.stamp(&mut self.scratch, w);
            object.put(0, &self.scratch);
        }
    }
}

/// A new object whose words do not depend on the write timestamp.
fn is_plain_new(writes: &WriteSet, at: u32) -> bool {
    matches!(
        writes.writes[at as usize].what,
        What::New { kind: None, .. }
    )
}

fn log_write(regions: &Regions, writes: &WriteSet, lock: &mut LockRecord<'_>, write: &Write) {
    let (Some(object), Some(Class(class))) =
        (regions.object(write.addr), regions.class_of(write.addr))
    else {
        return;
    };
    match write.what {
        What::New { incarnation, .. } => {
            lock.new_object(write.addr, class, incarnation, object.len(), |out| {
                object.copy(0, out)
            });
        }
        What::Image { .. } | What::Patched(_) => {
            lock.changed(
                write.addr,
                write.base.timestamp(),
                writes.image(write),
                |i| object.word(i),
            );
        }
        What::Freed => lock.freed(write.addr, write.base.timestamp()),
        What::Unborn | What::Idle => {}
    }
}
