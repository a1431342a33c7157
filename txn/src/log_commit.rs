//! The durable record of a commit: where SOSP'15 writes its LOCK records, and the step at which a
//! commit becomes certain. In the memory tier there is no log and nothing here costs anything.
//!
//! Log space is reserved before LOCK, an upper bound of what is going to be appended, so that nothing
//! waits for the flusher or the disk under the locks. A small transaction appends LOCK and
//! COMMIT-PRIMARY in one go. Of a large one everything that is settled by then (new objects, exact
//! images, tombstones) is logged before LOCK ([`Transaction::prewrite_and_reserve`]), piece by piece
//! and without locks; under them comes what depends on the write timestamp or on moving nodes.
//!
//! An exact image is logged as what differs from an object that is not locked and may be changing. It
//! commits only if LOCK then finds the very version that it is based on, so the object has not changed.

use fencepost_fabric::memory::WORD_BYTES;
use fencepost_storage::classes::Class;
use fencepost_storage::log::{Log, LogError, Lsn, RECORD_HEADER_BYTES};
use fencepost_storage::region::Regions;
use fencepost_storage::{Timestamp, View};

use crate::record::{self, LockRecord, TxnId};
use crate::stop::Stop;
use crate::transaction::{Context, Transaction};
use crate::work::Work;
use crate::write_set::{What, Write, WriteSet};

/// Words after which a LOCK record is closed and the next one begun.
const CHUNK_WORDS: usize = 128 * 1024;
/// Entries of a write set from which on what is settled of them is logged before LOCK.
const PREWRITE_FROM: usize = 4096;
/// Bytes of new objects and images from which on the same is done.
const PREWRITE_FROM_BYTES: usize = 4 << 20;

fn stop(error: &LogError) -> Stop {
    match error {
        LogError::Full => Stop::DiskFull,
        LogError::TooLarge { .. } => Stop::TooLarge("a log record is over the limit"),
        _ => Stop::Failed,
    }
}

/// Words of a LOCK record after which it is closed. It may outgrow this by one object, which is a
/// quarter of the limit at most.
fn chunk_words(log: &Log) -> usize {
    CHUNK_WORDS.min(log.append_limit() / (4 * WORD_BYTES))
}

/// Whether a commit may go on to LOCK.
pub(crate) enum Ready {
    /// It may.
    Yes,
    /// Once a large write set has been logged.
    AfterPrewrite,
    /// Once there is room in the log for so many bytes in so many appends.
    AfterRoom(usize, usize),
}

impl Transaction {
    /// Waits for room in the log, for what is appended under the locks.
    pub(crate) fn reserve(&mut self, bytes: usize, appends: usize) -> Work<'_, Result<(), Stop>> {
        Box::pin(async move {
            let Some(log) = self.machine().log() else {
                return Ok(());
            };
            let room = log.reserve(bytes, appends).await;
            self.context_mut().room = room.map_err(|error| stop(&error))?;
            Ok(())
        })
    }

    /// Logs what is settled of a large transaction ahead of LOCK, once, unless rerouting has changed
    /// it since; then reserves room for the rest.
    pub(crate) fn prewrite_and_reserve(&mut self) -> Work<'_, Result<(), Stop>> {
        Box::pin(async move {
            let context = self.context_mut();
            context.give_room_back();
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
                    self.context_mut().give_room_back();
                }
            }
            match self.context_mut().reserve_at_once() {
                Ready::AfterRoom(bytes, appends) => self.reserve(bytes, appends).await,
                Ready::Yes | Ready::AfterPrewrite => Ok(()),
            }
        })
    }
}

impl Context {
    /// Identity of the running transaction in log records.
    pub(crate) fn txn_id(&self) -> TxnId {
        let configuration = match self.machine.network() {
            Some(_) => self.spread.configuration,
            None => self.machine.incarnation(),
        };
        TxnId {
            configuration,
            machine: self.machine.number(),
            thread: self.number,
            local: self.local,
        }
    }

    /// What there is to wait for before LOCK; reserves room in the log where that takes no waiting.
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
        self.give_room_back();
        let Some(log) = self.machine.log() else {
            return Ready::Yes;
        };
        let (bytes, appends) = self.commit_bytes(log);
        match log.try_reserve(bytes, appends) {
            Some(room) => {
                self.room = room;
                Ready::Yes
            }
            None => Ready::AfterRoom(bytes, appends),
        }
    }

    /// Gives back the room that was reserved for a commit.
    pub(crate) fn give_room_back(&mut self) {
        if !self.room.is_empty()
            && let Some(log) = self.machine.log()
        {
            log.give_back(std::mem::take(&mut self.room));
        }
    }

    /// Whether entry `at` was logged ahead of LOCK.
    fn is_prewritten(&self, at: usize) -> bool {
        self.prewritten && at < self.prewritten_upto && self.writes.writes[at].is_settled()
    }

    /// At most what [`Self::log_commit`] appends, and in how many appends.
    fn commit_bytes(&self, log: &Log) -> (usize, usize) {
        let mut words = 0;
        for (at, write) in self.writes.writes.iter().enumerate() {
            if self.is_prewritten(at) {
                continue;
            }
            words += match write.what {
                What::New { .. } => {
                    let object = self.machine.regions().object(write.addr);
                    record::new_words(object.map_or(0, |object| object.len()))
                }
                What::Image { .. } | What::Patched(_) => record::changed_words(write.image.1),
                What::Freed => record::FREED_WORDS,
                What::Unborn(_) | What::Idle => 0,
            };
        }
        let appends = words / chunk_words(log) + 1;
        let regions = self.machine.regions().count() as usize;
        let heads = appends * (RECORD_HEADER_BYTES + WORD_BYTES * record::head_words(regions));
        let end = RECORD_HEADER_BYTES + WORD_BYTES * record::COMMIT_WORDS;
        (words * WORD_BYTES + heads + end, appends)
    }

    /// Appends what the commit writes and that it commits at `w`; the log position to wait for. Room
    /// for it was reserved.
    pub(crate) fn log_commit(&mut self, w: Timestamp) -> Result<Option<Lsn>, Stop> {
        if self.machine.log().is_none() {
            return Ok(None);
        }
        let mut entries = std::mem::take(&mut self.logged);
        entries.clear();
        let writes = &self.writes.writes;
        let new = (0..writes.len() as u32)
            .filter(|at| matches!(writes[*at as usize].what, What::New { .. }));
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

    /// An aborted transaction whose records are in the log says so.
    pub(crate) fn log_abort(&mut self) {
        if !self.prewritten {
            return;
        }
        self.prewritten = false;
        let body = record::abort(self.txn_id());
        if let Some(log) = self.machine.log() {
            // Without this record replay drops the transaction all the same, when the log ends; so
            // nobody waits for room for it.
            let _ = log.try_append(&[(record::ABORT, &[bytemuck::cast_slice(&body)])]);
        }
        self.local += 1;
        self.slot.release_log();
    }

    /// Makes the next LOCK record of `entries`, from `next` on.
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

    /// Appends the LOCK record that was made, into the room that was reserved; with `commit`, that the
    /// transaction commits. Without it more records follow.
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
                log.append_reserved(&mut self.room, &records, true)
            }
            None => {
                // The log must keep the first record until the last is applied.
                self.slot.hold_log(log.position().raw());
                self.prewritten = true;
                log.append_reserved(&mut self.room, &[(record::LOCK, body)], false)
            }
        };
        appended.map_err(|error| stop(&error))
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
                } => {
                    // While the transaction has it, the slot of a new object is there.
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
        What::New { slot, .. } => {
            lock.new_object(write.addr, class, slot.incarnation, object.len(), |out| {
                object.copy(0, out)
            });
        }
        What::Image { .. } | What::Patched(_) => {
            let (base, image) = (write.base.timestamp(), writes.image(write));
            lock.changed(write.addr, base, image, &View::Live(object));
        }
        What::Freed => lock.freed(write.addr, write.base.timestamp()),
        What::Unborn(_) | What::Idle => {}
    }
}
