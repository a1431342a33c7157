//! A copy of an object of another machine, made by one one-sided read.

use crate::header::{Header, LinkWord};
use crate::layout::{self, LINE_WORDS};
use crate::object::View;

/// A copy of a whole slot, whose words existed together.
#[derive(Clone, Debug)]
pub struct ObjectCopy {
    header: Header,
    link: LinkWord,
    /// The payload, without line versions.
    payload: Vec<u64>,
}

impl ObjectCopy {
    /// Decodes the object in `words`, which were read from a slot that begins at word `s` of a
    /// cache line. Returns `None` if the line versions show that the words did not exist together
    /// (NSDI'14 §3.5): read again. The payload of a locked object may be half-changed, so the
    /// caller checks [`Header::is_locked`] first.
    pub fn of(words: Box<[u64]>, s: usize) -> Option<ObjectCopy> {
        let s = s % LINE_WORDS;
        let header = Header(*words.first()?);
        let version = header.unlocked().0;
        let mut lines = words.iter().skip(LINE_WORDS - s).step_by(LINE_WORDS);
        if !header.is_locked() && !lines.all(|line| *line == version) {
            return None;
        }
        let link = LinkWord(words.get(layout::physical(s, 0)).copied()?);
        let len = layout::payload_words(s, words.len());
        let mut payload = words.into_vec();
        for i in 0..len {
            payload[i] = payload[layout::physical(s, i + 1)];
        }
        payload.truncate(len);
        Some(ObjectCopy {
            header,
            link,
            payload,
        })
    }

    /// Returns the header at the time of the read.
    pub fn header(&self) -> Header {
        self.header
    }

    /// Returns the incarnation and the place of the previous version.
    pub fn link(&self) -> LinkWord {
        self.link
    }

    /// Returns a view of the payload.
    pub fn view(&self) -> View<'_> {
        View::Own(&self.payload)
    }

    /// Returns the payload words.
    pub fn payload(&self) -> &[u64] {
        &self.payload
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::header::OldVersionPtr;
    use crate::object::ObjectRef;
    use crate::timestamp::Timestamp;
    use fencepost_fabric::sync::{AtomicU64, Ordering};

    fn read(memory: &[AtomicU64]) -> Box<[u64]> {
        let words = memory.iter().map(|word| word.load(Ordering::Relaxed));
        words.collect()
    }

    #[test]
    fn copy_matches_slot_and_torn_copy_is_rejected() {
        for s in 0..LINE_WORDS {
            for words in [9, 15, 16, 40, 131] {
                let memory: Vec<AtomicU64> = (0..words).map(|_| AtomicU64::new(0)).collect();
                let object = ObjectRef::new(&memory, s);
                let payload: Vec<u64> = (1..=object.len() as u64).collect();
                object.put(0, &payload);
                let header = Header(0).succeed(Timestamp::from_raw(9), true);
                let link = LinkWord::new(3, OldVersionPtr::new(1, 2, 3));
                object.finish_install(header, link);
                let copy = ObjectCopy::of(read(&memory), s).expect("whole");
                assert_eq!((copy.header(), copy.link()), (header, link));
                assert_eq!(copy.payload(), payload);
                let mut torn = read(&memory);
                torn[0] = header.succeed(Timestamp::from_raw(10), true).0;
                assert!(ObjectCopy::of(torn, s).is_none());
                let mut locked = read(&memory);
                locked[0] = header.locked().0;
                let copy = ObjectCopy::of(locked, s).expect("the holder of the lock may look");
                assert_eq!(copy.payload(), payload);
            }
        }
    }
}
