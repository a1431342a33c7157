//! What machines that begin again show each other of what they have.
//!
//! ```text
//! nonce | newest | begun?, BEGUN | mappings | truncated: id, w ... | in doubt: id, w or 0 | written | covered ...
//! ```
//! The nonce is another one in every process, so that two that have shown the same are the same.

use std::collections::{BTreeMap, BTreeSet};

use fencepost_cluster::{Mapping, Wire};
use fencepost_storage::Timestamp;

use super::left::{Doubt, Left};
use super::record::{self, Begun, put_bytes, put_outcomes, take_outcomes};
use crate::network::message::Reader;
use crate::record::{BadRecord, TxnId};

/// What one machine has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub nonce: u64,
    pub newest: Timestamp,
    pub begun: Option<Begun>,
    pub held: Vec<Mapping>,
    pub truncated: Vec<(TxnId, Timestamp)>,
    pub doubts: BTreeMap<TxnId, Doubt>,
}

impl State {
    pub fn of(left: &Left, nonce: u64) -> State {
        State {
            nonce,
            newest: left.newest,
            begun: left.begun.clone(),
            held: left.held.values().cloned().collect(),
            truncated: left.outcomes(),
            doubts: left.doubts.clone(),
        }
    }

    pub fn encode(&self) -> Vec<u64> {
        let mut words = vec![
            self.nonce,
            self.newest.raw(),
            u64::from(self.begun.is_some()),
        ];
        words.extend(self.begun.iter().flat_map(Begun::encode));
        words.push(self.held.len() as u64);
        for mapping in &self.held {
            put_bytes(&mut words, &mapping.encode());
        }
        put_outcomes(&mut words, &self.truncated);
        words.push(self.doubts.len() as u64);
        for (id, doubt) in &self.doubts {
            words.extend(id.words());
            words.push(doubt.w.map_or(0, Timestamp::raw));
            for regions in [&doubt.written, &doubt.covered] {
                words.push(regions.len() as u64);
                words.extend(regions.iter().map(|region| u64::from(*region)));
            }
        }
        words
    }

    pub fn decode(words: &[u64]) -> Result<State, BadRecord> {
        let mut reader = Reader(words);
        let mut state = State {
            nonce: reader.word()?,
            newest: reader.timestamp()?,
            ..State::default()
        };
        if reader.word()? != 0 {
            state.begun = Some(Begun::take(&mut reader)?);
        }
        for _ in 0..reader.word()? {
            state.held.push(record::take_mapping(&mut reader)?);
        }
        state.truncated = take_outcomes(&mut reader)?;
        for _ in 0..reader.word()? {
            let id = reader.id()?;
            let w = reader.timestamp()?;
            let regions = |words: &[u64]| -> Result<BTreeSet<u32>, BadRecord> {
                let region = |region: &u64| u32::try_from(*region);
                let regions: Result<_, _> = words.iter().map(region).collect();
                regions.map_err(|_| BadRecord("a region whose number is too large"))
            };
            let doubt = Doubt {
                w: (w > Timestamp::ZERO).then_some(w),
                written: regions(reader.counted()?)?,
                covered: regions(reader.counted()?)?,
                ..Doubt::default()
            };
            state.doubts.insert(id, doubt);
        }
        Ok(state)
    }
}
