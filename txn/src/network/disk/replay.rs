//! Replay of a machine's log: the writes that have taken effect go into its regions.
//!
//! All regions are backups meanwhile. Each write is applied by its version, ranges to the version
//! that they change (BACKUP-1). So a transaction may be applied at its truncation, in any order of
//! truncations. The beginning of an incarnation decides all transactions before it. The incarnation
//! that is about to begin decides those left at the end.

use std::collections::HashMap;

use fencepost_fabric::MachineId;
use fencepost_storage::log::{LogRecovery, Lsn};
use fencepost_storage::region::Regions;
use fencepost_storage::{RegionId, Timestamp};
use foldhash::fast::FixedState;

use super::agree::AgreedState;
use super::log_content::words;
use super::record::{self, EvidenceRecord, IncarnationRecord};
use crate::network::backup::{self, BlockUses};
use crate::network::message::WordReader;
use crate::options::OpenError;
use crate::record::{
    ABORT, BadRecord, COMMIT_BACKUP, COMMIT_BACKUP_LAST, COMMIT_BACKUP_PART, COMMIT_PRIMARY,
    TRUNCATE, TxnId,
};
use crate::replay::{ReplayError, ReplaySummary};
use crate::start::{self, ROOT_BLOCK};

/// The writes of a transaction on this machine.
#[derive(Default)]
struct Writes {
    w: Option<Timestamp>,
    /// The decision of recovery, if any; `w` is its write timestamp if it takes effect.
    decided: Option<bool>,
    /// Content of PREPARED and EVIDENCE records.
    prepared: Vec<Vec<u64>>,
    /// COMMIT-BACKUP, or its parts.
    backups: Vec<Vec<u64>>,
}

/// A function that returns whether this machine has a region.
pub type RegionFilter<'a> = dyn Fn(RegionId) -> bool + Sync + 'a;

struct Replay<'a> {
    regions: &'a Regions,
    /// The regions of this machine; writes to others are ignored.
    own: &'a RegionFilter<'a>,
    changed: BlockUses,
    open: HashMap<TxnId, Writes, FixedState>,
    /// Transactions that wait for versions that others bring.
    due: Vec<(Writes, Timestamp)>,
    found: ReplaySummary,
}

/// Creates the regions of this machine, as backups.
pub fn make(regions: &Regions, agreed: &AgreedState, me: MachineId) -> Result<(), OpenError> {
    let mine = agreed
        .regions
        .values()
        .filter(|mapping| mapping.replicas.has(me));
    for mapping in mine {
        regions.reserve(mapping.region, false)?;
        regions.keep(mapping.region);
        if mapping.region == ROOT_BLOCK.region {
            start::make_root_backup(regions)?;
        }
    }
    Ok(())
}

/// Brings the regions from the checkpoint, or from the beginning, to the agreed state. Records
/// before `from` belong to another machine.
pub fn replay(
    log: &mut LogRecovery,
    regions: &Regions,
    (agreed, own): (&AgreedState, &RegionFilter<'_>),
    from: Option<Lsn>,
) -> Result<ReplaySummary, OpenError> {
    let mut replay = Replay::into(regions, own);
    replay.run(log, |lsn| from.is_none_or(|from| lsn >= from))?;
    let last = agreed.committed.iter().map(|(id, w)| (*id, *w));
    replay.decide(last).map_err(ReplayError::Mismatch)?;
    if !replay.due.is_empty() {
        let why = BadRecord("a change applies to a version that is not there");
        return Err(ReplayError::Mismatch(why).into());
    }
    Ok(replay.found)
}

/// Replays the transactions known to have taken effect from the records from `from` to `until`, of
/// an earlier machine.
pub fn before(
    log: &mut LogRecovery,
    regions: &Regions,
    own: &RegionFilter<'_>,
    (from, until): (Option<Lsn>, Lsn),
) -> Result<(), OpenError> {
    let within = |lsn| lsn < until && from.is_none_or(|from| lsn >= from);
    Ok(Replay::into(regions, own).run(log, within)?)
}

impl<'a> Replay<'a> {
    fn into(regions: &'a Regions, own: &'a RegionFilter<'a>) -> Replay<'a> {
        Replay {
            regions,
            own,
            changed: BlockUses::of(regions),
            open: HashMap::default(),
            due: Vec::new(),
            found: ReplaySummary::default(),
        }
    }

    /// Processes all records that are `within`.
    fn run(
        &mut self,
        log: &mut LogRecovery,
        within: impl Fn(Lsn) -> bool,
    ) -> Result<(), ReplayError> {
        while let Some(chunk) = log.next_chunk()? {
            for entry in chunk.records().filter(|entry| within(entry.lsn)) {
                let taken = words(entry.body).and_then(|words| self.take(entry.kind, words));
                taken.map_err(|why| ReplayError::Record {
                    lsn: entry.lsn.raw(),
                    why,
                })?;
            }
        }
        Ok(())
    }

    fn take(&mut self, kind: u8, words: &[u64]) -> Result<(), BadRecord> {
        let mut reader = WordReader(words);
        match kind {
            record::BEGUN => {
                self.decide(IncarnationRecord::decode(words)?.committed.into_iter())?
            }
            record::PREPARED => {
                let id = reader.id()?;
                reader.skip_regions()?;
                let writes = self.open.entry(id).or_default();
                writes.prepared.push(reader.0.to_vec());
            }
            COMMIT_BACKUP | COMMIT_BACKUP_PART | COMMIT_BACKUP_LAST => {
                let (id, w) = (reader.id()?, reader.timestamp()?);
                let writes = self.open.entry(id).or_default();
                writes.w = Some(w);
                writes.backups.push(words.to_vec());
            }
            COMMIT_PRIMARY => {
                let (id, w) = (reader.id()?, reader.timestamp()?);
                self.open.entry(id).or_default().w = Some(w);
            }
            ABORT => {
                self.open.remove(&reader.id()?);
                self.found.unfinished += 1;
            }
            TRUNCATE => {
                reader.word()?;
                while !reader.0.is_empty() {
                    let (_, id) = (reader.word()?, reader.id()?);
                    let writes = self.open.remove(&id);
                    if let Some((writes, w)) = writes
                        .and_then(|writes| Some((writes.w?, writes)))
                        .map(|(w, writes)| (writes, w))
                    {
                        self.commit(writes, w)?;
                    }
                }
            }
            record::EVIDENCE => {
                let evidence = EvidenceRecord::decode(words)?;
                let writes = self.open.entry(evidence.id).or_default();
                writes.w = writes.w.or(evidence.w);
                writes.prepared.push(evidence.content.to_vec());
            }
            record::DECIDED => {
                let (id, w) = record::take_decided(words)?;
                let writes = self.open.entry(id).or_default();
                if writes.decided.is_none() {
                    writes.decided = Some(w.is_some());
                    writes.w = w.or(writes.w);
                }
            }
            record::SETTLED => {
                let configuration = reader.word()?;
                let settled = self
                    .open
                    .extract_if(|id, _| id.configuration < configuration);
                let settled: Vec<Writes> = settled.map(|(_, writes)| writes).collect();
                for writes in settled {
                    match writes.w.filter(|_| writes.decided == Some(true)) {
                        Some(w) => self.commit(writes, w)?,
                        None => self.found.unfinished += 1,
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Applies the given transactions, and drops all other open ones.
    fn decide(
        &mut self,
        committed: impl Iterator<Item = (TxnId, Timestamp)>,
    ) -> Result<(), BadRecord> {
        for (id, w) in committed {
            if let Some(writes) = self.open.remove(&id) {
                self.commit(writes, w)?;
            }
        }
        self.found.unfinished += self.open.len() as u64;
        self.open.clear();
        Ok(())
    }

    fn commit(&mut self, writes: Writes, w: Timestamp) -> Result<(), BadRecord> {
        self.found.commits += 1;
        self.found.newest = self.found.newest.max(w);
        if !self.apply(&writes, w)? {
            self.due.push((writes, w));
            return Ok(());
        }
        // Another transaction may wait for the versions just applied.
        loop {
            let due = std::mem::take(&mut self.due);
            let before = due.len();
            for (writes, w) in due {
                if !self.apply(&writes, w)? {
                    self.due.push((writes, w));
                }
            }
            if self.due.is_empty() || self.due.len() == before {
                return Ok(());
            }
        }
    }

    /// Applies the writes that are not applied yet. Returns whether none waits.
    fn apply(&self, writes: &Writes, w: Timestamp) -> Result<bool, BadRecord> {
        let mut all = true;
        for content in &writes.prepared {
            all &= backup::apply_content(self.regions, &self.changed, content, w, self.own)?;
        }
        for record in &writes.backups {
            all &= backup::apply_record(self.regions, &self.changed, record, self.own)?;
        }
        Ok(all)
    }
}
