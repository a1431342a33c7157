//! The content of a machine's log without object values: its number, its regions, and transactions
//! that are not over.
//!
//! Records are read in order, and interpreted as when they were written. Of a transaction's writes
//! only the regions are read. [`super::replay`] reads the values once the outcomes are known.

use std::collections::BTreeMap;

use fencepost_cluster::RegionId;
use fencepost_cluster::few::{FewMap, FewSet};
use fencepost_cluster::join::DiskOffer;
use fencepost_fabric::MachineId;
use fencepost_storage::Timestamp;
use fencepost_storage::log::{LogRecovery, Lsn};

use super::record::{self, EvidenceRecord, IncarnationRecord, RegionRecord, RegionsRecord};
use super::retained_records::RetainedRecords;
use crate::network::message::WordReader;
use crate::network::truncated::TruncationLog;
use crate::record::{
    ABORT, BadRecord, COMMIT_BACKUP, COMMIT_BACKUP_LAST, COMMIT_BACKUP_PART, COMMIT_PRIMARY,
    TRUNCATE, TxnId,
};
use crate::replay::ReplayError;

/// The state of a transaction that is not over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UndecidedTransaction {
    /// The write timestamp, if it is known: then validation had succeeded.
    pub w: Option<Timestamp>,
    /// All regions that it writes.
    pub written: FewSet<u32>,
    /// Regions for which all of its writes are here.
    pub covered: FewSet<u32>,
    /// Regions in parts of a COMMIT-BACKUP whose last part is missing.
    pub parts: FewSet<u32>,
    /// The write timestamp, if recovery has decided that it takes effect.
    pub committed: Option<Timestamp>,
    /// Recovery has decided that it does not take effect.
    pub aborted: bool,
}

/// The content of a machine's disk.
#[derive(Default)]
pub struct LogContent {
    /// The machine's number, if it was written down.
    pub me: Option<MachineId>,
    /// The position of the last JOINED record; `None` if there is none after the checkpoint.
    pub joined: Option<Lsn>,
    /// The content from before that record.
    pub before: Option<Box<LogContent>>,
    /// The last incarnation of the cluster; `None` if there was none.
    pub begun: Option<IncarnationRecord>,
    /// The last configuration that it was in, and its regions there.
    pub holdings: Option<RegionsRecord>,
    pub doubts: BTreeMap<TxnId, UndecidedTransaction>,
    /// Truncations that are remembered (TRUNCATE-1), by the machine of the coordinator; the next
    /// field has their write timestamps.
    truncated: FewMap<u32, TruncationLog>,
    outcomes: BTreeMap<TxnId, Timestamp>,
    /// An upper bound of the timestamps in the log.
    pub newest: Timestamp,
}

impl LogContent {
    /// Reads the log behind a checkpoint to its end; `retained` and `newest` were written with the
    /// checkpoint.
    pub fn read(
        log: &mut LogRecovery,
        retained: Option<RetainedRecords>,
        newest: Timestamp,
    ) -> Result<LogContent, ReplayError> {
        let mut left = LogContent {
            newest,
            ..LogContent::default()
        };
        if let Some(retained) = retained {
            left.newest = newest.max(retained.begun.newest);
            left.me = retained.me;
            (left.begun, left.holdings) = (Some(retained.begun), Some(retained.holdings));
        }
        while let Some(chunk) = log.next_chunk()? {
            for entry in chunk.records() {
                let taken = words(entry.body).and_then(|words| match entry.kind {
                    record::JOINED => {
                        let before = std::mem::take(&mut left);
                        left = LogContent::joining(&record::take_joined(words)?, entry.lsn, before);
                        Ok(())
                    }
                    kind => left.take(kind, words),
                });
                taken.map_err(|why| ReplayError::Record {
                    lsn: entry.lsn.raw(),
                    why,
                })?;
            }
        }
        Ok(left)
    }

    /// Returns the content after a JOINED record: the machine's new number, and nothing else.
    fn joining(offer: &DiskOffer, at: Lsn, before: LogContent) -> LogContent {
        let configuration = offer.configuration.clone();
        // A machine that was admitted under another number, and never became a member, has no data.
        let has_some = |left: &LogContent| {
            left.holdings
                .as_ref()
                .is_some_and(|all| !all.held.is_empty())
        };
        let before = match has_some(&before) {
            true => Some(Box::new(before)),
            false => before.before,
        };
        LogContent {
            me: Some(offer.machine),
            joined: Some(at),
            before,
            // It decides nothing about transactions of other machines.
            begun: Some(IncarnationRecord {
                cluster: offer.data.incarnation,
                region_bytes: offer.data.region_bytes,
                newest: Timestamp::ZERO,
                committed: Vec::new(),
                configuration: configuration.as_first(),
            }),
            holdings: Some(RegionsRecord {
                configuration,
                held: FewMap::new(),
            }),
            ..LogContent::default()
        }
    }

    /// Returns transactions that are truncated here, and perhaps not on other machines, with their
    /// write timestamps.
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
        let mut reader = WordReader(words);
        match kind {
            record::BEGUN => {
                let begun = IncarnationRecord::decode(words)?;
                let mut holdings = self.holdings.take();
                let before = self.begun.as_ref();
                if before.is_some_and(|before| before.cluster != begun.cluster) {
                    // The earlier state belongs to a cluster that never had data.
                    holdings = None;
                }
                // The state written beside the log may be newer.
                let newer =
                    |there: &RegionsRecord| there.configuration.id() > begun.configuration.id();
                if !holdings.as_ref().is_some_and(newer) {
                    let held = holdings.map_or_else(FewMap::new, |there| there.held);
                    let configuration = begun.configuration.clone();
                    holdings = Some(RegionsRecord {
                        configuration,
                        held,
                    });
                }
                self.holdings = holdings;
                self.newest = self.newest.max(begun.newest);
                self.doubts.clear();
                self.truncated.clear();
                self.outcomes.clear();
                self.begun = Some(begun);
            }
            record::HELD => {
                let mapping = record::take_mapping(&mut reader)?;
                let older = |there: &RegionRecord| {
                    there.mapping.last_replica_change <= mapping.last_replica_change
                };
                if let Some(holdings) = &mut self.holdings
                    && holdings.held.get(&mapping.region).is_none_or(older)
                {
                    let whole = true;
                    let held = RegionRecord { mapping, whole };
                    holdings.held.insert(held.mapping.region, held);
                }
            }
            record::HOLDINGS => {
                let holdings = RegionsRecord::take(&mut reader)?;
                let id = |holdings: &RegionsRecord| holdings.configuration.id();
                let before = self.holdings.as_ref().map(id);
                if before.is_none_or(|before| before <= id(&holdings)) {
                    self.holdings = Some(holdings);
                }
            }
            record::FILLED => {
                let region = u32::try_from(reader.word()?);
                let region = region.map_err(|_| BadRecord("a region whose number is too large"))?;
                let holdings = self.holdings.as_mut();
                let held = holdings.and_then(|all| all.held.get_mut(&RegionId(region)));
                if let Some(held) = held {
                    held.whole = true;
                }
            }
            record::EVIDENCE => {
                let evidence = EvidenceRecord::decode(words)?;
                let doubt = self.doubts.entry(evidence.id).or_default();
                doubt.written.extend(regions(evidence.written));
                doubt.w = doubt.w.or(evidence.w);
                if !evidence.content.is_empty() {
                    doubt.covered.insert(evidence.region);
                }
                self.newest = self.newest.max(evidence.w.unwrap_or(Timestamp::ZERO));
            }
            record::DECIDED => {
                let (id, w) = record::take_decided(words)?;
                let doubt = self.doubts.entry(id).or_default();
                match w {
                    None => doubt.aborted = doubt.committed.is_none(),
                    Some(_) if doubt.aborted => {}
                    Some(_) => doubt.committed = doubt.committed.or(w),
                }
                self.newest = self.newest.max(w.unwrap_or(Timestamp::ZERO));
            }
            record::SETTLED => {
                let configuration = reader.word()?;
                let is_left = |id: &TxnId| id.configuration >= configuration;
                self.doubts.retain(|id, _| is_left(id));
                self.outcomes.retain(|id, _| is_left(id));
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
                    doubt.covered.extend(std::mem::take(&mut doubt.parts));
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

    /// Drops, once there are many, the outcomes whose truncations are not remembered any more.
    fn forget_outcomes(&mut self) {
        const MANY: usize = 1 << 16;
        if self.outcomes.len() > MANY {
            self.outcomes = self.outcomes().into_iter().collect();
        }
    }
}

/// Returns the words of a record.
pub fn words(body: &[u8]) -> Result<&[u64], BadRecord> {
    bytemuck::try_cast_slice(body).map_err(|_| BadRecord("not whole words"))
}

fn regions(words: &[u64]) -> impl Iterator<Item = u32> {
    // No machine covers an invalid region number.
    words
        .iter()
        .map(|region| u32::try_from(*region).unwrap_or(u32::MAX))
}
