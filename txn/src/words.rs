//! Decoding of records and messages, which consist of words.
//!
//! # Failure
//! The words come from a peer: nothing is read past their end, and a count is used only after a
//! check that as many words follow.

use fencepost_storage::Timestamp;

use crate::record::{BadRecord, TxnId};

pub(crate) const SHORT: BadRecord = BadRecord("a record of a peer ends too early");

/// The words of a record that have not been decoded yet.
#[derive(Clone, Copy)]
pub(crate) struct WordReader<'a>(pub &'a [u64]);

impl<'a> WordReader<'a> {
    pub fn take(&mut self, words: usize) -> Result<&'a [u64], BadRecord> {
        let (taken, rest) = self.0.split_at_checked(words).ok_or(SHORT)?;
        self.0 = rest;
        Ok(taken)
    }

    pub fn word(&mut self) -> Result<u64, BadRecord> {
        self.take(1).map(|word| word[0])
    }

    /// Returns as many words as the next word says.
    pub fn counted(&mut self) -> Result<&'a [u64], BadRecord> {
        let words = self.word()?;
        self.take(usize::try_from(words).map_err(|_| SHORT)?)
    }

    pub fn id(&mut self) -> Result<TxnId, BadRecord> {
        TxnId::from_words(self.take(TxnId::WORDS)?).ok_or(SHORT)
    }

    pub fn timestamp(&mut self) -> Result<Timestamp, BadRecord> {
        let w = self.word()?;
        if w > Timestamp::MAX.raw() {
            return Err(BadRecord("a timestamp that no clock gives"));
        }
        Ok(Timestamp::from_raw(w))
    }
}

/// The digest of an empty sequence.
pub(crate) const NOTHING: u64 = 0x9E37_79B9_7F4A_7C15;

/// Returns the digest of a sequence with digest `digest` followed by a word; the same on all
/// machines.
pub(crate) fn mix(digest: u64, word: u64) -> u64 {
    let mixed = (digest ^ word).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    mixed ^ (mixed >> 32)
}
