//! A copy of an old version of another machine, made by one-sided reads.

use super::{PAGE, RECORD_HEAD, generation};
use crate::header::{Header, OldVersionPtr};
use crate::timestamp::Timestamp;

/// A record of a chain of old versions.
pub struct OldCopy<'a> {
    /// The version's header.
    pub header: Header,
    /// The place of the version before it.
    pub before: OldVersionPtr,
    /// The payload words.
    pub payload: &'a [u64],
}

/// Returns the number of words to read at a place, for a version of `payload_words` words.
pub fn record_words(payload_words: usize) -> usize {
    RECORD_HEAD + payload_words
}

/// Returns the location of the generation of a place's block: the page of generations, and the
/// index of its word.
pub fn generation_at(place: OldVersionPtr) -> (u32, usize) {
    let block = place.block() as usize;
    ((block / PAGE) as u32, block % PAGE)
}

impl<'a> OldCopy<'a> {
    /// Decodes the record in `words`, which were read at `place`. The version there was `replaced`
    /// at that time. Returns `None` if the block was reused: the generation `counted`, read after
    /// the words, is another one.
    pub fn of(
        words: &'a [u64],
        counted: u64,
        place: OldVersionPtr,
        replaced: Timestamp,
    ) -> Option<OldCopy<'a>> {
        let (head, payload) = words.split_first_chunk::<RECORD_HEAD>()?;
        let [header, before, at, len] = *head;
        let same = generation(counted) == place.generation() && at == replaced.raw();
        same.then(|| OldCopy {
            header: Header(header),
            before: OldVersionPtr(before),
            payload: &payload[..payload.len().min(len as usize)],
        })
    }
}
