//! The state that machines publish to each other at a restart.
//!
//! ```text
//! nonce | newest | configuration in the store | begun?, BEGUN, HOLDINGS | truncated: id, w ...
//!   | in doubt: id, w or 0 | decided: w, 0, or 1 for none | written | covered ...
//! ```
//! The nonce differs in every process, so that equal nonces mean equal states.

use std::collections::BTreeMap;

use fencepost_cluster::few::FewSet;
use fencepost_cluster::{Configuration, ConfigurationId};
use fencepost_storage::Timestamp;

use super::log_content::{LogContent, UndecidedTransaction};
use super::record::{IncarnationRecord, RegionsRecord, put_outcomes, take_outcomes};
use crate::network::message::WordReader;
use crate::record::{BadRecord, TxnId};

/// The state of one machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub nonce: u64,
    pub newest: Timestamp,
    /// The number of the configuration in the store, if there is one.
    pub stored: u64,
    pub begun: Option<IncarnationRecord>,
    pub holdings: Option<RegionsRecord>,
    pub truncated: Vec<(TxnId, Timestamp)>,
    pub doubts: BTreeMap<TxnId, UndecidedTransaction>,
}

impl State {
    pub fn of(left: &LogContent, stored: ConfigurationId, nonce: u64) -> State {
        State {
            nonce,
            newest: left.newest,
            stored: stored.0,
            begun: left.begun.clone(),
            holdings: left.holdings.clone(),
            truncated: left.outcomes(),
            doubts: left.doubts.clone(),
        }
    }

    /// Returns the last configuration that the machine was in.
    pub fn configuration(&self) -> Option<&Configuration> {
        self.holdings
            .as_ref()
            .map(|holdings| &holdings.configuration)
    }

    pub fn encode(&self) -> Vec<u64> {
        let mut words = vec![self.nonce, self.newest.raw(), self.stored];
        let begun = self.begun.as_ref().zip(self.holdings.as_ref());
        words.push(u64::from(begun.is_some()));
        if let Some((begun, holdings)) = begun {
            words.extend(begun.encode());
            holdings.put(&mut words);
        }
        put_outcomes(&mut words, &self.truncated);
        words.push(self.doubts.len() as u64);
        for (id, doubt) in &self.doubts {
            words.extend(id.words());
            words.push(doubt.w.map_or(0, Timestamp::raw));
            words.push(match doubt.committed {
                Some(w) => w.raw(),
                None => u64::from(!doubt.aborted),
            });
            for regions in [&doubt.written, &doubt.covered] {
                words.push(regions.len() as u64);
                words.extend(regions.iter().map(|region| u64::from(*region)));
            }
        }
        words
    }

    pub fn decode(words: &[u64]) -> Result<State, BadRecord> {
        let mut reader = WordReader(words);
        let mut state = State {
            nonce: reader.word()?,
            newest: reader.timestamp()?,
            stored: reader.word()?,
            ..State::default()
        };
        if reader.word()? != 0 {
            state.begun = Some(IncarnationRecord::take(&mut reader)?);
            state.holdings = Some(RegionsRecord::take(&mut reader)?);
        }
        state.truncated = take_outcomes(&mut reader)?;
        for _ in 0..reader.word()? {
            let id = reader.id()?;
            let (w, decided) = (reader.timestamp()?, reader.timestamp()?);
            let regions = |words: &[u64]| -> Result<FewSet<u32>, BadRecord> {
                let region = |region: &u64| u32::try_from(*region);
                let regions: Result<_, _> = words.iter().map(region).collect();
                regions.map_err(|_| BadRecord("a region whose number is too large"))
            };
            let doubt = UndecidedTransaction {
                w: (w > Timestamp::ZERO).then_some(w),
                committed: (decided.raw() > 1).then_some(decided),
                aborted: decided == Timestamp::ZERO,
                written: regions(reader.counted()?)?,
                covered: regions(reader.counted()?)?,
                ..UndecidedTransaction::default()
            };
            state.doubts.insert(id, doubt);
        }
        Ok(state)
    }
}
