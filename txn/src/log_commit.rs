//! The durable record of a commit: the LOCK records of SOSP'15, and the step at which a commit
//! becomes certain. In the memory tier there is no log, and this module costs nothing.
//!
//! Log space is reserved before LOCK: an upper bound of the bytes to append. So no commit waits for
//! the flusher or the disk while it holds locks. A small transaction appends LOCK and
//! COMMIT-PRIMARY at once. A large transaction logs its settled entries (new objects, exact images,
//! tombstones) before LOCK ([`Transaction::prewrite_and_reserve`]), piece by piece and without
//! locks. Under the locks it logs only the entries that depend on the write timestamp or on nodes
//! that may move.
//!
//! An exact image is logged as the ranges that differ from an object that is not locked and may be
//! changing. The commit succeeds only if LOCK then finds the base version, so in that case the
//! object has not changed.

use fencepost_fabric::memory::WORD_BYTES;
use fencepost_storage::classes::Class;
use fencepost_storage::log::{Log, LogError, Lsn, RECORD_HEADER_BYTES};
use fencepost_storage::region::Regions;
use fencepost_storage::{Timestamp, View};

use crate::context::Context;
use crate::record::{self, LockRecord, TxnId};
use crate::stop::Stop;
use crate::transaction::Transaction;
use crate::work::Work;
use crate::write_set::{Write, WriteKind, WriteSet};

/// Size in words at which a LOCK record is closed and the next one begun.
const CHUNK_WORDS: usize = 128 * 1024;
/// Write-set size in entries from which settled entries are logged before LOCK.
const PREWRITE_FROM: usize = 4096;
/// Bytes of new objects and images from which settled entries are logged before LOCK.
const PREWRITE_FROM_BYTES: usize = 4 << 20;

fn stop(error: &LogError) -> Stop {
    match error {
        LogError::Full => Stop::DiskFull,
        LogError::TooLarge { .. } => Stop::TooLarge("a log record is over the limit"),
        _ => Stop::Failed,
    }
}

/// Returns the size in words at which a LOCK record is closed. The record may exceed it by one
/// object, which is at most a quarter of the limit.
fn chunk_words(log: &Log) -> usize {
    CHUNK_WORDS.min(log.append_limit() / (4 * WORD_BYTES))
}

/// Whether a commit may go on to LOCK, or the step that must come before.
pub(crate) enum Ready {
    /// The commit may go on to LOCK.
    Yes,
    /// The large write set must be logged first.
    AfterPrewrite,
    /// Log space must be reserved first: this many bytes in this many appends.
    AfterReservation(usize, usize),
}

impl Transaction {
    /// Waits for log space for the records that are appended under the locks.
    pub(crate) fn reserve(&mut self, bytes: usize, appends: usize) -> Work<'_, Result<(), Stop>> {
        Box::pin(async move {
            let Some(log) = self.machine().log() else {
                return Ok(());
            };
            let reservation = log.reserve(bytes, appends).await;
            self.context_mut().log_space = reservation.map_err(|error| stop(&error))?;
            Ok(())
        })
    }

    /// Logs the settled entries of a large transaction ahead of LOCK, once, or again if rerouting
    /// has changed them since. Then reserves log space for the rest.
    pub(crate) fn prewrite_and_reserve(&mut self) -> Work<'_, Result<(), Stop>> {
        Box::pin(async move {
            let context = self.context_mut();
            context.release_log_space();
            if context.prewritten && context.prewritten_touched {
                context.log_abort();
            }
            if !context.prewritten {
                let upto = context.writes.writes.len();
                context.prewritten_upto = upto;
                context.prewritten_touched = false;
                let writes = &context.writes.writes;
                let settled = (0..upto as u32).filter(|at| writes[*at as usize].is_settled());
                let entries: Vec<u32> = settled.collect();
                let mut next = 0;
                while next < entries.len() {
                    self.context_mut().build_record(&entries, &mut next);
                    let bytes = RECORD_HEADER_BYTES + WORD_BYTES * self.context().record.len();
                    self.reserve(bytes, 1).await?;
                    self.context_mut().append_record(None)?;
                    self.context_mut().release_log_space();
                }
            }
            match self.context_mut().reserve_at_once() {
                Ready::AfterReservation(bytes, appends) => self.reserve(bytes, appends).await,
                Ready::Yes | Ready::AfterPrewrite => Ok(()),
            }
        })
    }
}

impl Context {
    /// Returns the identity of the running transaction in log records.
    pub(crate) fn txn_id(&self) -> TxnId {
        let configuration = match self.machine.network() {
            Some(_) => self.remote.configuration,
            None => self.machine.incarnation(),
        };
        TxnId {
            configuration,
            machine: self.machine.number(),
            thread: self.number,
            local: self.local,
        }
    }

    /// Returns what must be awaited before LOCK. Reserves log space if that needs no waiting.
    pub(crate) fn prepare_log(&mut self) -> Ready {
        if self.machine.log().is_none() {
            return Ready::Yes;
        }
        let bytes = self.new_words * WORD_BYTES + self.writes.bytes();
        if self.writes.writes.len() >= PREWRITE_FROM || bytes >= PREWRITE_FROM_BYTES {
            return Ready::AfterPrewrite;
        }
        self.reserve_at_once()
    }

    fn reserve_at_once(&mut self) -> Ready {
        self.release_log_space();
        let Some(log) = self.machine.log() else {
            return Ready::Yes;
        };
        let (bytes, appends) = self.commit_bytes(log);
        match log.try_reserve(bytes, appends) {
            Some(reservation) => {
                self.log_space = reservation;
                Ready::Yes
            }
            None => Ready::AfterReservation(bytes, appends),
        }
    }

    /// Gives back the log space that was reserved for a commit.
    pub(crate) fn release_log_space(&mut self) {
        if !self.log_space.is_empty()
            && let Some(log) = self.machine.log()
        {
            log.give_back(std::mem::take(&mut self.log_space));
        }
    }

    /// Returns whether entry `at` was logged ahead of LOCK.
    fn is_prewritten(&self, at: usize) -> bool {
        self.prewritten && at < self.prewritten_upto && self.writes.writes[at].is_settled()
    }

    /// Returns an upper bound of the bytes that [`Self::log_commit`] appends, and the number of
    /// appends.
    fn commit_bytes(&self, log: &Log) -> (usize, usize) {
        let mut words = 0;
        for (at, write) in self.writes.writes.iter().enumerate() {
            if self.is_prewritten(at) {
                continue;
            }
            words += match write.what {
                WriteKind::New { .. } => {
                    let object = self.machine.regions().object(write.addr);
                    record::new_words(object.map_or(0, |object| object.len()))
                }
                WriteKind::Image { .. } | WriteKind::Patched(_) => {
                    record::changed_words(write.image.1)
                }
                WriteKind::Freed => record::FREED_WORDS,
                WriteKind::Unborn(_) | WriteKind::Idle => 0,
            };
        }
        let appends = words / chunk_words(log) + 1;
        let regions = self.machine.regions().count() as usize;
        let heads = appends * (RECORD_HEADER_BYTES + WORD_BYTES * record::head_words(regions));
        let end = RECORD_HEADER_BYTES + WORD_BYTES * record::COMMIT_WORDS;
        (words * WORD_BYTES + heads + end, appends)
    }

    /// Appends the writes of the commit and its commit record at `w`, into reserved log space.
    /// Returns the log position to wait for.
    pub(crate) fn log_commit(&mut self, w: Timestamp) -> Result<Option<Lsn>, Stop> {
        if self.machine.log().is_none() {
            return Ok(None);
        }
        let mut entries = std::mem::take(&mut self.logged);
        entries.clear();
        let writes = &self.writes.writes;
        let new = (0..writes.len() as u32)
            .filter(|at| matches!(writes[*at as usize].what, WriteKind::New { .. }));
        let all = self.order.iter().copied().chain(new);
        entries.extend(all.filter(|at| !self.is_prewritten(*at as usize)));
        let mut next = 0;
        let lsn = loop {
            self.build_record(&entries, &mut next);
            let last = next == entries.len();
            match self.append_record(last.then_some(w)) {
                Ok(lsn) if last => break Ok(Some(lsn)),
                Ok(_) => {}
                Err(stop) => break Err(stop),
            }
        };
        self.logged = entries;
        lsn
    }

    /// Logs the abort of a transaction that has records in the log.
    pub(crate) fn log_abort(&mut self) {
        if !self.prewritten {
            return;
        }
        self.prewritten = false;
        let body = record::abort(self.txn_id());
        if let Some(log) = self.machine.log() {
            // Without this record replay drops the transaction at the end of the log, so do not
            // wait for log space.
            let _ = log.try_append(&[(record::ABORT, &[bytemuck::cast_slice(&body)])]);
        }
        self.local += 1;
        self.slot.release_log();
    }

    /// Builds the next LOCK record from `entries`, from index `next` on.
    fn build_record(&mut self, entries: &[u32], next: &mut usize) {
        let id = self.txn_id();
        let Context {
            machine,
            writes,
            record: words,
            ..
        } = self;
        let Some(log) = machine.log() else {
            return;
        };
        let chunk = chunk_words(log);
        let regions = entries[*next..]
            .iter()
            .map(|at| writes.writes[*at as usize].addr.region().0)
            .take(chunk);
        let mut lock = LockRecord::begin(words, id, regions);
        while *next < entries.len() && lock.len() < chunk {
            let write = &writes.writes[entries[*next] as usize];
            log_write(machine.regions(), writes, &mut lock, write);
            *next += 1;
        }
    }

    /// Appends the LOCK record that was built, into reserved log space; with `commit`, also the
    /// COMMIT-PRIMARY at that timestamp. Without it more records follow.
    fn append_record(&mut self, commit: Option<Timestamp>) -> Result<Lsn, Stop> {
        let id = self.txn_id();
        let Some(log) = self.machine.log() else {
            return Ok(Lsn::ZERO);
        };
        let body: &[&[u8]] = &[bytemuck::cast_slice(&self.record)];
        let appended = match commit {
            Some(w) => {
                let commit = record::commit_primary(id, w);
                let commit: &[&[u8]] = &[bytemuck::cast_slice(&commit)];
                let records = [(record::LOCK, body), (record::COMMIT_PRIMARY, commit)];
                log.append_reserved(&mut self.log_space, &records, true)
            }
            None => {
                // The log must keep the first record until the last is applied.
                self.slot.hold_log(log.position().raw());
                self.prewritten = true;
                log.append_reserved(&mut self.log_space, &[(record::LOCK, body)], false)
            }
        };
        appended.map_err(|error| stop(&error))
    }

    /// Writes `w` into every image that carries its commit timestamp.
    pub(crate) fn stamp(&mut self, w: Timestamp) {
        for at in 0..self.writes.writes.len() {
            let write = self.writes.writes[at];
            match write.what {
                WriteKind::Patched(kind) | WriteKind::Image { kind: Some(kind) } => {
                    kind.stamp(self.writes.image_mut(write.image), w);
                }
                WriteKind::New {
                    kind: Some(kind), ..
                } => {
                    // While the transaction owns it, the slot of a new object exists.
                    let _ = self.change_new(&write, |image| kind.stamp(image, w));
                }
                _ => {}
            }
        }
    }
}

fn log_write(regions: &Regions, writes: &WriteSet, lock: &mut LockRecord<'_>, write: &Write) {
    let (Some(object), Some(Class(class))) =
        (regions.object(write.addr), regions.class_of(write.addr))
    else {
        return;
    };
    match write.what {
        WriteKind::New { slot, .. } => {
            lock.new_object(write.addr, class, slot.incarnation, object.len(), |out| {
                object.copy(0, out)
            });
        }
        WriteKind::Image { .. } | WriteKind::Patched(_) => {
            let (base, image) = (write.base.timestamp(), writes.image(write));
            lock.changed(write.addr, base, image, &View::Live(object));
        }
        WriteKind::Freed => lock.freed(write.addr, write.base.timestamp()),
        WriteKind::Unborn(_) | WriteKind::Idle => {}
    }
}
