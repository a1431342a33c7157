//! The records in the log of a machine in a cluster, besides the records of its peers.
//!
//! ```text
//! BEGUN     cluster | bytes of a region | newest timestamp | count | id, w, id, w ...
//!               | bytes | configuration
//! HELD      bytes | mapping of a region
//! PREPARED  id | regions, how many and which | content, as network/evidence.rs encodes it
//! COMMIT-BACKUP, its parts and its end, COMMIT-PRIMARY, ABORT, TRUNCATE      as received
//! ```
//! Where failed machines are replaced, these records span configurations:
//!
//! ```text
//! HOLDINGS  bytes | configuration | count | bytes, mapping of a region, whether all its data
//!               is on the disk ...
//! FILLED    region
//! EVIDENCE  id | w or 0 | regions, how many and which | region | content
//! DECIDED   id | w, or 0 where it has no effect
//! SETTLED   configuration
//! JOINED    machine | cluster | bytes of a region | bytes | configuration
//! ```
//! HOLDINGS gives the machine's configuration from there on, and all its regions. EVIDENCE is
//! evidence kept for recovery, DECIDED a decision of recovery. At SETTLED all of that is carried
//! out for transactions of earlier configurations; a transaction that was not decided by then has
//! no effect here.
//!
//! JOINED gives the machine's number from there on, without its earlier data, in a configuration
//! after the named one (DISK-12).
//!
//! BEGUN or JOINED is the first record. BEGUN decides all transactions that are in doubt before it:
//! the listed ones have taken effect, others have not. PREPARED stands for LOCK and LOCK-MOVED
//! together: it is not written before the new values of all objects are known.
//!
//! # Failure
//! Records are read from a disk, and are decoded like those of a peer.

use fencepost_cluster::few::FewMap;
use fencepost_cluster::join::{DiskData, DiskOffer};
use fencepost_cluster::{Configuration, Mapping, RegionId, Wire};
use fencepost_fabric::MachineId;
use fencepost_storage::Timestamp;

use crate::bytes;
use crate::record::{BadRecord, TxnId};
use crate::recovery::ReplicaEvidence;
use crate::words::WordReader;

/// Tag of BEGUN: an incarnation of the cluster begins.
pub const BEGUN: u8 = 32;
/// Tag of HELD: a region of this machine.
pub const HELD: u8 = 33;
/// Tag of PREPARED: the writes that a primary has locked for a transaction.
pub const PREPARED: u8 = 34;
/// Tag of HOLDINGS: a configuration, and all regions of this machine in it.
pub const HOLDINGS: u8 = 35;
/// Tag of FILLED: all data of a region has arrived at this machine.
pub const FILLED: u8 = 36;
/// Tag of EVIDENCE: evidence of a transaction that recovery keeps on this machine.
pub const EVIDENCE: u8 = 37;
/// Tag of DECIDED: the decision about a transaction in a later configuration than its own.
pub const DECIDED: u8 = 38;
/// Tag of SETTLED: all transactions of configurations before one are settled on all machines.
pub const SETTLED: u8 = 39;

/// Tag of JOINED: another machine begins here, without data.
pub const JOINED: u8 = 42;

/// The beginning of an incarnation of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncarnationRecord {
    /// The number that distinguishes clusters.
    pub cluster: u64,
    pub region_bytes: u64,
    /// An upper bound of the timestamps of earlier incarnations.
    pub newest: Timestamp,
    /// Transactions that were in doubt and have taken effect.
    pub committed: Vec<(TxnId, Timestamp)>,
    pub configuration: Configuration,
}

impl IncarnationRecord {
    pub fn encode(&self) -> Vec<u64> {
        let mut words = vec![self.cluster, self.region_bytes, self.newest.raw()];
        put_outcomes(&mut words, &self.committed);
        put_bytes(&mut words, &self.configuration.encode());
        words
    }

    pub fn decode(words: &[u64]) -> Result<IncarnationRecord, BadRecord> {
        let mut reader = WordReader(words);
        IncarnationRecord::take(&mut reader)
    }

    pub fn take(reader: &mut WordReader<'_>) -> Result<IncarnationRecord, BadRecord> {
        Ok(IncarnationRecord {
            cluster: reader.word()?,
            region_bytes: reader.word()?,
            newest: reader.timestamp()?,
            committed: take_outcomes(reader)?,
            configuration: take_value(reader)?,
        })
    }
}

/// A region of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionRecord {
    pub mapping: Mapping,
    /// Whether all of its data is on the disk.
    pub whole: bool,
}

/// A machine's regions in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionsRecord {
    pub configuration: Configuration,
    pub held: FewMap<RegionId, RegionRecord>,
}

impl RegionsRecord {
    pub fn put(&self, words: &mut Vec<u64>) {
        put_bytes(words, &self.configuration.encode());
        words.push(self.held.len() as u64);
        for RegionRecord { mapping, whole } in self.held.values() {
            put_bytes(words, &mapping.encode());
            words.push(u64::from(*whole));
        }
    }

    pub fn take(reader: &mut WordReader<'_>) -> Result<RegionsRecord, BadRecord> {
        let configuration = take_value(reader)?;
        let count = reader.word()?;
        let one = |_| {
            let mapping = take_mapping(reader)?;
            let whole = reader.word()? != 0;
            Ok((mapping.region, RegionRecord { mapping, whole }))
        };
        Ok(RegionsRecord {
            configuration,
            held: (0..count).map(one).collect::<Result<_, BadRecord>>()?,
        })
    }
}

/// Returns a JOINED record.
pub fn joined(offer: &DiskOffer) -> Vec<u64> {
    let DiskData {
        incarnation,
        region_bytes,
    } = offer.data;
    let mut words = vec![u64::from(offer.machine.0), incarnation, region_bytes];
    put_bytes(&mut words, &offer.configuration.encode());
    words
}

/// Decodes a JOINED record.
pub fn take_joined(words: &[u64]) -> Result<DiskOffer, BadRecord> {
    let mut reader = WordReader(words);
    let machine = u32::try_from(reader.word()?);
    let machine = machine.map_err(|_| BadRecord("a machine whose number is too large"))?;
    let (incarnation, region_bytes) = (reader.word()?, reader.word()?);
    Ok(DiskOffer {
        machine: MachineId(machine),
        configuration: take_value(&mut reader)?,
        data: DiskData {
            incarnation,
            region_bytes,
        },
    })
}

/// A decoded EVIDENCE record.
pub struct EvidenceRecord<'a> {
    pub id: TxnId,
    pub w: Option<Timestamp>,
    pub written: &'a [u64],
    pub region: u32,
    pub content: &'a [u64],
}

impl<'a> EvidenceRecord<'a> {
    pub fn decode(words: &'a [u64]) -> Result<EvidenceRecord<'a>, BadRecord> {
        let mut reader = WordReader(words);
        let (id, w) = (reader.id()?, reader.timestamp()?);
        let written = reader.counted()?;
        let region = u32::try_from(reader.word()?);
        Ok(EvidenceRecord {
            id,
            w: (w > Timestamp::ZERO).then_some(w),
            written,
            region: region.map_err(|_| BadRecord("a region whose number is too large"))?,
            content: reader.0,
        })
    }

    pub fn encode(seen: &ReplicaEvidence, content: &[u64]) -> Vec<u64> {
        let mut words = seen.id.words().to_vec();
        words.push(seen.w.map_or(0, Timestamp::raw));
        words.push(seen.written.len() as u64);
        words.extend(seen.written.iter().map(|region| u64::from(*region)));
        words.push(u64::from(seen.region));
        words.extend_from_slice(content);
        words
    }
}

/// Decodes a DECIDED record.
pub fn take_decided(words: &[u64]) -> Result<(TxnId, Option<Timestamp>), BadRecord> {
    let mut reader = WordReader(words);
    let (id, w) = (reader.id()?, reader.timestamp()?);
    Ok((id, (w > Timestamp::ZERO).then_some(w)))
}

/// Returns a HELD record of an encoded mapping.
pub fn held(mapping: &[u8]) -> Vec<u64> {
    let mut words = Vec::new();
    put_bytes(&mut words, mapping);
    words
}

pub fn take_mapping(reader: &mut WordReader<'_>) -> Result<Mapping, BadRecord> {
    take_value(reader)
}

pub fn put_bytes(words: &mut Vec<u64>, put: &[u8]) {
    words.push(put.len() as u64);
    bytes::put(words, put);
}

fn take_value<T: Wire>(reader: &mut WordReader<'_>) -> Result<T, BadRecord> {
    const NONE: BadRecord = BadRecord("no writer produces such a value");
    let length = usize::try_from(reader.word()?).map_err(|_| NONE)?;
    let words = reader.take(length.div_ceil(8))?;
    let encoded = bytes::first(words, length).ok_or(NONE)?;
    T::decode(encoded).map_err(|_| NONE)
}

/// Appends transactions with their write timestamps.
pub fn put_outcomes(words: &mut Vec<u64>, outcomes: &[(TxnId, Timestamp)]) {
    words.push(outcomes.len() as u64);
    for (id, w) in outcomes {
        words.extend(id.words());
        words.push(w.raw());
    }
}

pub fn take_outcomes(reader: &mut WordReader<'_>) -> Result<Vec<(TxnId, Timestamp)>, BadRecord> {
    let count = reader.word()?;
    let one = |_| Ok((reader.id()?, reader.timestamp()?));
    (0..count).map(one).collect()
}
