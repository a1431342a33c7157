//! An old version as one-sided reads have brought it from another machine.

use super::{PAGE, RECORD_HEAD, generation};
use crate::header::{Header, OldPlace};
use crate::timestamp::Timestamp;

/// A record of the chain.
pub struct OldCopy<'a> {
    /// The version's header.
    pub header: Header,
    /// The version before it.
    pub before: OldPlace,
    /// What it holds.
    pub payload: &'a [u64],
}

/// Words to read at a place, for a version of `payload_words` words.
pub fn record_words(payload_words: usize) -> usize {
    RECORD_HEAD + payload_words
}

/// Where the generation of a place's block is: the page of generations, and the word of it.
pub fn generation_at(place: OldPlace) -> (u32, usize) {
    let block = place.block() as usize;
    ((block / PAGE) as u32, block % PAGE)
}

impl<'a> OldCopy<'a> {
    /// The record in `words`, which were read at `place`, where the version was `replaced` then; `None` if
    /// the generation `counted`, which was read after them, says that they may be another's.
    pub fn of(
        words: &'a [u64],
        counted: u64,
        place: OldPlace,
        replaced: Timestamp,
    ) -> Option<OldCopy<'a>> {
        let (head, payload) = words.split_first_chunk::<RECORD_HEAD>()?;
        let [header, before, at, len] = *head;
        let same = generation(counted) == place.generation() && at == replaced.raw();
        same.then(|| OldCopy {
            header: Header(header),
            before: OldPlace(before),
            payload: &payload[..payload.len().min(len as usize)],
        })
    }
}
