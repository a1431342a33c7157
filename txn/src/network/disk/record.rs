//! What is in the log of a machine among others, besides the records of its peers.
//!
//! ```text
//! BEGUN     cluster | bytes of a region | newest timestamp | count | id, w, id, w ... | bytes | configuration
//! HELD      bytes | mapping of a region
//! PREPARED  id | regions, how many and which | content, as network/evidence.rs has it
//! COMMIT-BACKUP, its parts and its end, COMMIT-PRIMARY, ABORT, TRUNCATE      as they come
//! ```
//! BEGUN is the first. It decides all that is in doubt before it: the listed transactions have taken effect, others have
//! none. PREPARED stands for LOCK and LOCK-MOVED together: there is none before what all objects become is known.
//!
//! # Failure
//! Records come back from a disk, and are decoded as those of a peer.

use fencepost_cluster::{Configuration, Mapping, Wire};
use fencepost_storage::Timestamp;

use crate::bytes;
use crate::record::{BadRecord, TxnId};
use crate::words::Reader;

/// A life begins.
pub const BEGUN: u8 = 32;
/// A region of this machine.
pub const HELD: u8 = 33;
/// What a primary has locked for a transaction.
pub const PREPARED: u8 = 34;

/// Where a life begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// Tells clusters apart.
    pub cluster: u64,
    pub region_bytes: u64,
    /// No timestamp of an earlier life is above it.
    pub newest: Timestamp,
    /// What was in doubt and has taken effect.
    pub committed: Vec<(TxnId, Timestamp)>,
    pub configuration: Configuration,
}

impl Begun {
    pub fn encode(&self) -> Vec<u64> {
        let mut words = vec![self.cluster, self.region_bytes, self.newest.raw()];
        put_outcomes(&mut words, &self.committed);
        put_bytes(&mut words, &self.configuration.encode());
        words
    }

    pub fn decode(words: &[u64]) -> Result<Begun, BadRecord> {
        let mut reader = Reader(words);
        Begun::take(&mut reader)
    }

    pub fn take(reader: &mut Reader<'_>) -> Result<Begun, BadRecord> {
        Ok(Begun {
            cluster: reader.word()?,
            region_bytes: reader.word()?,
            newest: reader.timestamp()?,
            committed: take_outcomes(reader)?,
            configuration: take_value(reader)?,
        })
    }
}

/// A HELD record of an encoded mapping.
pub fn held(mapping: &[u8]) -> Vec<u64> {
    let mut words = Vec::new();
    put_bytes(&mut words, mapping);
    words
}

pub fn take_mapping(reader: &mut Reader<'_>) -> Result<Mapping, BadRecord> {
    take_value(reader)
}

pub fn put_bytes(words: &mut Vec<u64>, put: &[u8]) {
    words.push(put.len() as u64);
    bytes::put(words, put);
}

fn take_value<T: Wire>(reader: &mut Reader<'_>) -> Result<T, BadRecord> {
    const NONE: BadRecord = BadRecord("a value that nobody writes");
    let length = usize::try_from(reader.word()?).map_err(|_| NONE)?;
    let words = reader.take(length.div_ceil(8))?;
    let encoded = bytes::first(words, length).ok_or(NONE)?;
    T::decode(encoded).map_err(|_| NONE)
}

/// Transactions and when they took effect.
pub fn put_outcomes(words: &mut Vec<u64>, outcomes: &[(TxnId, Timestamp)]) {
    words.push(outcomes.len() as u64);
    for (id, w) in outcomes {
        words.extend(id.words());
        words.push(w.raw());
    }
}

pub fn take_outcomes(reader: &mut Reader<'_>) -> Result<Vec<(TxnId, Timestamp)>, BadRecord> {
    let count = reader.word()?;
    let one = |_| Ok((reader.id()?, reader.timestamp()?));
    (0..count).map(one).collect()
}
