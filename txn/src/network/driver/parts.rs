//! Messages of reconfigurations and of recovery in the message queues. A message may be longer than
//! a record of a queue, so it is sent in parts.
//!
//! ```text
//! RECONFIGURE, RECOVER   words of the message | where this part begins | the part
//! ```
//! The parts of a message arrive in order; other messages may come between them.

use super::super::PeerSender;
use super::super::message::WordReader;
use crate::bytes;
use crate::record::BadRecord;

/// Tags of the messages.
pub(in crate::network) const RECONFIGURE: u8 = 25;
pub(in crate::network) const RECOVER: u8 = 26;

/// Words of a part.
const PART: usize = 2 << 10;
/// Words of a message at most; no real message is longer.
const LONGEST: usize = 8 << 20;

const NONSENSE: BadRecord = BadRecord("no writer produces such parts of a message");

/// A message of which some parts have arrived.
#[derive(Default)]
pub(in crate::network) struct Assembling(Vec<u64>);

/// Sends a message.
pub(super) fn send(sender: &PeerSender, tag: u8, message: &[u64]) {
    for (at, part) in message.chunks(PART).enumerate() {
        let mut record = vec![message.len() as u64, (at * PART) as u64];
        record.extend_from_slice(part);
        sender.send_surely(tag, &record);
    }
}

/// Does the same as [`send`] for bytes; the first word is their number.
pub(super) fn send_bytes(sender: &PeerSender, tag: u8, message: &[u8]) {
    let mut words = vec![message.len() as u64];
    bytes::put(&mut words, message);
    send(sender, tag, &words);
}

/// Returns the bytes of a message sent by [`send_bytes`].
pub(in crate::network) fn bytes_of(message: &[u64]) -> Result<&[u8], BadRecord> {
    let mut reader = WordReader(message);
    let count = usize::try_from(reader.word()?).map_err(|_| NONSENSE)?;
    bytes::first(reader.0, count).ok_or(NONSENSE)
}

impl Assembling {
    /// Takes a part. Returns the message if the part was the last.
    pub fn take(&mut self, record: &[u64]) -> Result<Option<Vec<u64>>, BadRecord> {
        let mut reader = WordReader(record);
        let (length, from) = (reader.word()?, reader.word()?);
        let length = usize::try_from(length).ok();
        let length = length.filter(|length| (1..=LONGEST).contains(length));
        let length = length.ok_or(NONSENSE)?;
        if from != self.0.len() as u64 || self.0.len() + reader.0.len() > length {
            return Err(NONSENSE);
        }
        self.0.extend_from_slice(reader.0);
        let whole = self.0.len() == length;
        Ok(whole.then(|| std::mem::take(&mut self.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts(message: &[u64]) -> Vec<Vec<u64>> {
        let parts = message.chunks(PART).enumerate();
        let part = |(at, part): (usize, &[u64])| {
            [&[message.len() as u64, (at * PART) as u64], part].concat()
        };
        parts.map(part).collect()
    }

    #[test]
    fn long_message_round_trips() {
        let mut assembling = Assembling::default();
        for words in [1, PART - 1, PART, PART + 1, 5 * PART + 7] {
            let message: Vec<u64> = (0..words as u64).collect();
            let parts = parts(&message);
            for (at, part) in parts.iter().enumerate() {
                let taken = assembling.take(part).expect("a part");
                let whole = (at + 1 == parts.len()).then(|| message.clone());
                assert_eq!(taken, whole);
            }
        }
    }

    proptest! {
        #[test]
        fn garbage_is_refused_and_never_panics(
            records in proptest::collection::vec(proptest::collection::vec(0u64..6, 0..6), 0..6),
        ) {
            let mut assembling = Assembling::default();
            for record in records {
                if let Ok(Some(message)) = assembling.take(&record) {
                    let _ = bytes_of(&message);
                }
            }
        }
    }
}
