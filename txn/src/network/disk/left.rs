//! What a machine has on its disk, without what it is about: who it was, its regions, and transactions that are not over.
//!
//! Records are taken in their order, each as when it was written. What a transaction writes is not looked at but for
//! where that is; [`super::replay`] does, once it is known what has taken effect.

use std::collections::{BTreeMap, BTreeSet};

use fencepost_cluster::{Mapping, RegionId};
use fencepost_storage::Timestamp;
use fencepost_storage::log::LogRecovery;

use super::kept::Kept;
use super::record::{self, Begun};
use crate::network::message::Reader;
use crate::network::truncated::Truncated;
use crate::record::{
    ABORT, BadRecord, COMMIT_BACKUP, COMMIT_BACKUP_LAST, COMMIT_BACKUP_PART, COMMIT_PRIMARY,
    TRUNCATE, TxnId,
};
use crate::replay::ReplayError;

/// What there is of a transaction that is not over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Doubt {
    /// When it takes effect, where that is known: then it was valid.
    pub w: Option<Timestamp>,
    /// All regions that it writes.
    pub written: BTreeSet<u32>,
    /// Regions of which all that it writes is there.
    pub covered: BTreeSet<u32>,
    /// Regions in parts of which the last is not there.
    pub parts: BTreeSet<u32>,
}

/// What a machine has.
#[derive(Default)]
pub struct Left {
    /// Its last life; `None` where it never had one.
    pub begun: Option<Begun>,
    pub held: BTreeMap<RegionId, Mapping>,
    pub doubts: BTreeMap<TxnId, Doubt>,
    /// Truncations that are remembered (TRUNCATE-1), by the machine of the coordinator, and when those took effect.
    truncated: BTreeMap<u32, Truncated>,
    outcomes: BTreeMap<TxnId, Timestamp>,
    /// No timestamp in the log is above it.
    pub newest: Timestamp,
}

impl Left {
    /// What the log has behind a checkpoint, read to its end; `kept` and `newest` is what was written down with that.
    pub fn read(
        log: &mut LogRecovery,
        kept: Option<Kept>,
        newest: Timestamp,
    ) -> Result<Left, ReplayError> {
        let mut left = Left {
            newest,
            ..Left::default()
        };
        if let Some(kept) = kept {
            left.newest = newest.max(kept.begun.newest);
            (left.begun, left.held) = (Some(kept.begun), kept.held);
        }
        while let Some(chunk) = log.next_chunk()? {
            for entry in chunk.records() {
                let taken = words(entry.body).and_then(|words| left.take(entry.kind, words));
                taken.map_err(|why| ReplayError::Record {
                    lsn: entry.lsn.raw(),
                    why,
                })?;
            }
        }
        Ok(left)
    }

    /// Transactions that are truncated here, and maybe not elsewhere, and when they took effect.
    pub fn outcomes(&self) -> Vec<(TxnId, Timestamp)> {
        let known = |(id, w): (&TxnId, &Timestamp)| {
            let all = self.truncated.get(&id.machine)?;
            all.has(*id).then_some((*id, *w))
        };
        self.outcomes.iter().filter_map(known).collect()
    }

    fn take(&mut self, kind: u8, words: &[u64]) -> Result<(), BadRecord> {
        const ALONE: BadRecord = BadRecord("this is the log of a machine that is alone");
        if self.begun.is_none() && kind != record::BEGUN {
            return Err(ALONE);
        }
        let mut reader = Reader(words);
        match kind {
            record::BEGUN => {
                let begun = Begun::decode(words)?;
                if self
                    .begun
                    .as_ref()
                    .is_some_and(|before| before.cluster != begun.cluster)
                {
                    // Of a cluster that never had anything.
                    self.held.clear();
                }
                self.newest = self.newest.max(begun.newest);
                self.doubts.clear();
                self.truncated.clear();
                self.outcomes.clear();
                self.begun = Some(begun);
            }
            record::HELD => {
                let mapping = record::take_mapping(&mut reader)?;
                self.held.insert(mapping.region, mapping);
            }
            record::PREPARED => {
                let id = reader.id()?;
                let doubt = self.doubts.entry(id).or_default();
                doubt.written.extend(regions(reader.counted()?));
                while let Some(write) = reader.write()? {
                    doubt.covered.insert(write.addr.region().0);
                }
            }
            COMMIT_BACKUP | COMMIT_BACKUP_PART | COMMIT_BACKUP_LAST => {
                let (id, w) = (reader.id()?, reader.timestamp()?);
                self.newest = self.newest.max(w);
                let doubt = self.doubts.entry(id).or_default();
                doubt.written.extend(regions(reader.counted()?));
                while let Some(write) = reader.write()? {
                    doubt.parts.insert(write.addr.region().0);
                }
                if kind != COMMIT_BACKUP_PART {
                    doubt.w = Some(w);
                    doubt.covered.append(&mut doubt.parts);
                }
            }
            COMMIT_PRIMARY => {
                let (id, w) = (reader.id()?, reader.timestamp()?);
                self.newest = self.newest.max(w);
                self.doubts.entry(id).or_default().w = Some(w);
            }
            ABORT => {
                self.doubts.remove(&reader.id()?);
            }
            TRUNCATE => {
                let low = reader.word()?;
                let mut of = None;
                while !reader.0.is_empty() {
                    let (number, id) = (reader.word()?, reader.id()?);
                    of = Some(id.machine);
                    let all = self.truncated.entry(id.machine).or_default();
                    all.remember(number, id)?;
                    let doubt = self.doubts.remove(&id);
                    if let Some(w) = doubt.and_then(|doubt| doubt.w) {
                        self.outcomes.insert(id, w);
                    }
                }
                if let Some(all) = of.and_then(|of| self.truncated.get_mut(&of)) {
                    all.forget_below(low, drop);
                }
                self.forget_outcomes();
            }
            _ => return Err(BadRecord("unknown kind of record")),
        }
        Ok(())
    }

    /// Forgets now and then what is not remembered any more.
    fn forget_outcomes(&mut self) {
        const MANY: usize = 1 << 16;
        if self.outcomes.len() > MANY {
            self.outcomes = self.outcomes().into_iter().collect();
        }
    }
}

/// Words of a record.
pub fn words(body: &[u8]) -> Result<&[u64], BadRecord> {
    bytemuck::try_cast_slice(body).map_err(|_| BadRecord("not whole words"))
}

fn regions(words: &[u64]) -> impl Iterator<Item = u32> {
    // What is no region is covered by nobody.
    words
        .iter()
        .map(|region| u32::try_from(*region).unwrap_or(u32::MAX))
}
