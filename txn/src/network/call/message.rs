//! The encoding of requests and answers in the rings: in parts, one message after the other.
//!
//! ```text
//! BEGIN  ticket | kind (8) | service or status (8) | zero (16) | bytes in all (32) | first words
//! MORE   further words of the message that has begun
//! ```
//! A sender writes a message to its end before it begins the next, so a receiver assembles one at a
//! time.
//!
//! # Failure
//! Records come from peers: a malformed record is a [`BadRecord`]. Memory for a message is
//! allocated as its parts arrive, not from its announced length.

use crate::record::BadRecord;

/// Tag of a message's first record.
pub(super) const BEGIN: u8 = 1;
/// Tag of the other records.
pub(super) const MORE: u8 = 2;

/// Bytes of the longest request or answer.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Words of a message in one record.
pub(super) const PART_WORDS: usize = 2048;
/// Words of BEGIN before the message's own.
pub(super) const HEAD_WORDS: usize = 2;

const REQUEST: u64 = 1;
const ANSWER: u64 = 2;
const WORD_BYTES: usize = 8;

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A request for this service.
    Request(u8),
    /// The answer to the request with the same ticket.
    Answer(AnswerStatus),
}

/// The status of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum AnswerStatus {
    /// The message contains the answer.
    Answered = 0,
    /// The peer has no such service.
    NoService = 1,
    /// The handler has ended without an answer.
    Dropped = 2,
    /// The answer is longer than a message may be.
    TooLong = 3,
}

impl Kind {
    fn word(self, bytes: usize) -> u64 {
        let (what, about) = match self {
            Kind::Request(service) => (REQUEST, service),
            Kind::Answer(how) => (ANSWER, how as u8),
        };
        (what << 56) | (u64::from(about) << 48) | bytes as u64
    }

    fn of(word: u64) -> Result<(Kind, usize), BadRecord> {
        const HOW: [AnswerStatus; 4] = [
            AnswerStatus::Answered,
            AnswerStatus::NoService,
            AnswerStatus::Dropped,
            AnswerStatus::TooLong,
        ];
        let about = (word >> 48) as u8;
        let kind = match word >> 56 {
            REQUEST => Kind::Request(about),
            ANSWER => {
                let how = HOW.into_iter().find(|how| *how as u8 == about);
                Kind::Answer(how.ok_or(BadRecord("unknown kind of answer"))?)
            }
            _ => return Err(BadRecord("unknown kind of call")),
        };
        let bytes = (word & 0xFFFF_FFFF_FFFF) as usize;
        if bytes > MESSAGE_BYTES_MAX {
            return Err(BadRecord("a call is longer than any may be"));
        }
        Ok((kind, bytes))
    }
}

/// A message being sent.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub ticket: u64,
    pub kind: Kind,
    words: Vec<u64>,
    bytes: usize,
    /// Number of words written.
    sent: usize,
    pub begun: bool,
}

impl Outgoing {
    pub fn new(ticket: u64, kind: Kind, message: &[u8]) -> Outgoing {
        let mut words = vec![0u64; message.len().div_ceil(WORD_BYTES)];
        bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..message.len()].copy_from_slice(message);
        Outgoing {
            ticket,
            kind,
            words,
            bytes: message.len(),
            sent: 0,
            begun: false,
        }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the next record: its tag, its head, and its words of the message.
    pub fn part(&self) -> (u8, Head, &[u64]) {
        let rest = &self.words[self.sent..];
        let words = &rest[..rest.len().min(PART_WORDS)];
        match self.begun {
            false => {
                let head = [self.ticket, self.kind.word(self.bytes)];
                (BEGIN, Head(Some(head)), words)
            }
            true => (MORE, Head(None), words),
        }
    }

    /// Marks the next record as written. Returns whether it was the last.
    pub fn written(&mut self) -> bool {
        self.sent += (self.words.len() - self.sent).min(PART_WORDS);
        self.begun = true;
        self.sent == self.words.len()
    }
}

/// The words of a record before those of the message.
pub(super) struct Head(Option<[u64; HEAD_WORDS]>);

impl Head {
    pub fn words(&self) -> &[u64] {
        self.0.as_ref().map_or(&[], |head| head)
    }
}

/// A received message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Incoming {
    pub ticket: u64,
    pub kind: Kind,
    pub message: Vec<u8>,
}

/// The message that is being received.
#[derive(Debug, Default)]
pub(super) struct MessageAssembler(Option<PartialMessage>);

#[derive(Debug)]
struct PartialMessage {
    ticket: u64,
    kind: Kind,
    bytes: usize,
    words: Vec<u64>,
}

impl MessageAssembler {
    /// Takes the next record. Returns the message that it completes, if any.
    pub fn record(&mut self, tag: u8, words: &[u64]) -> Result<Option<Incoming>, BadRecord> {
        const TOO_MUCH: BadRecord = BadRecord("a call has more words than it said");
        let (mut partial, words) = match (tag, self.0.take()) {
            (BEGIN, None) => {
                let (head, words) = words
                    .split_first_chunk::<HEAD_WORDS>()
                    .ok_or(BadRecord("a call ends too early"))?;
                let (kind, bytes) = Kind::of(head[1])?;
                let partial = PartialMessage {
                    ticket: head[0],
                    kind,
                    bytes,
                    words: Vec::new(),
                };
                (partial, words)
            }
            (MORE, Some(partial)) if !words.is_empty() => (partial, words),
            _ => return Err(BadRecord("no writer produces such a part of a call")),
        };
        let all = partial.bytes.div_ceil(WORD_BYTES);
        if words.len() > all - partial.words.len() {
            return Err(TOO_MUCH);
        }
        partial.words.extend_from_slice(words);
        if partial.words.len() < all {
            self.0 = Some(partial);
            return Ok(None);
        }
        let message = bytemuck::cast_slice::<u64, u8>(&partial.words)[..partial.bytes].to_vec();
        Ok(Some(Incoming {
            ticket: partial.ticket,
            kind: partial.kind,
            message,
        }))
    }

    /// Returns whether no message is received in part.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn records(mut outgoing: Outgoing) -> Vec<(u8, Vec<u64>)> {
        let mut records = Vec::new();
        loop {
            let (tag, head, words) = outgoing.part();
            records.push((tag, [head.words(), words].concat()));
            if outgoing.written() {
                return records;
            }
        }
    }

    #[test]
    fn messages_of_all_lengths_come_back_whole() {
        let part = PART_WORDS * WORD_BYTES;
        let kinds = [Kind::Request(9), Kind::Answer(AnswerStatus::Answered)];
        for (bytes, parts) in [
            (0, 1),
            (1, 1),
            (8, 1),
            (part, 1),
            (part + 1, 2),
            (3 * part + 5, 4),
        ] {
            for kind in kinds {
                let message: Vec<u8> = (0..bytes).map(|byte| byte as u8).collect();
                let records = records(Outgoing::new(7, kind, &message));
                assert_eq!(records.len(), parts);
                let mut gathering = MessageAssembler::default();
                for (at, (tag, words)) in records.iter().enumerate() {
                    let whole = gathering.record(*tag, words).expect("well formed");
                    assert_eq!(whole.is_some(), at + 1 == parts);
                    if let Some(whole) = whole {
                        let ticket = 7;
                        let message = message.clone();
                        assert_eq!(
                            whole,
                            Incoming {
                                ticket,
                                kind,
                                message
                            }
                        );
                    }
                }
                assert!(gathering.is_empty());
            }
        }
    }

    #[test]
    fn malformed_call_records_are_refused() {
        let request = Kind::Request(0);
        let bad: [(u8, Vec<u64>); 6] = [
            (BEGIN, vec![1]),
            (BEGIN, vec![1, request.word(8), 2, 3]),
            (BEGIN, vec![1, request.word(MESSAGE_BYTES_MAX + 1)]),
            (BEGIN, vec![1, (ANSWER << 56) | (9 << 48)]),
            (MORE, vec![1]),
            (9, vec![1, request.word(8), 2]),
        ];
        for (tag, words) in bad {
            assert!(MessageAssembler::default().record(tag, &words).is_err());
        }
        for (tag, words) in [(BEGIN, vec![1, request.word(8), 2]), (MORE, vec![])] {
            let mut gathering = MessageAssembler::default();
            let begun = gathering.record(BEGIN, &[1, request.word(64), 2]);
            assert_eq!(begun, Ok(None));
            assert!(gathering.record(tag, &words).is_err());
        }
    }

    proptest! {
        #[test]
        fn garbage_is_refused_and_never_panics(
            records in proptest::collection::vec(
                (
                    0u8..4,
                    proptest::collection::vec(
                        prop_oneof![any::<u64>(), 0u64..4, Just(1 << 56 | 40)],
                        0..9,
                    ),
                ),
                0..9,
            )
        ) {
            let mut gathering = MessageAssembler::default();
            for (tag, words) in &records {
                let _ = gathering.record(*tag, words);
            }
        }
    }
}
