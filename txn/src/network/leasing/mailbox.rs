//! Datagrams about leases between this machine and one peer, each way by one-sided writes.
//!
//! ```text
//! mailbox  | slot | slot | slot | slot |                     the peer writes the slots in turn
//! slot     | number 1 | message 4 | digest of all these 1 | unused 2 |       words, a cache line
//! ```
//! # Invariants
//! * MAIL-1: a received message is one that was sent completely. A slot may be overwritten while it
//!   is read: a message with a wrong digest is ignored, and the bell rings once it is complete.
//! * MAIL-2: a message is received at most once for each time that it arrives.
//! * MAIL-3: after a burst of messages the last ones, as many as there are slots, can be received.
//!
//! # Failure
//! A message is lost if the peer is gone, or if an earlier one to the same slot is in flight;
//! leases tolerate that. So a peer that hangs delays no other machine.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fencepost_cluster::lease::LeaseMessage;
use fencepost_fabric::{Completion, Fabric, FabricError, MachineId, Memory};
use fencepost_fabric::{Place, SegmentId, Writer};

/// More than the messages of two successive renewals.
const SLOTS: usize = 4;
const SLOT_WORDS: usize = 8;
const MESSAGE_WORDS: usize = LeaseMessage::BYTES / 8;
/// Words of a slot that are used.
const USED_WORDS: usize = 1 + MESSAGE_WORDS + 1;

/// Returns the segment that `peer` writes.
const fn segment(peer: MachineId) -> SegmentId {
    SegmentId::new(SegmentId::MAILBOX, SegmentId::LEASE_LANE, peer.0)
}

/// The datagrams from and to one peer.
pub(super) struct DatagramQueue {
    pub peer: MachineId,
    arrived: Arc<Memory>,
    /// The number received last from each slot.
    taken: [u64; SLOTS],
    /// Number of messages sent.
    sent: u64,
    /// The write in flight to each slot of the peer.
    under_way: [Option<Completion<()>>; SLOTS],
}

impl DatagramQueue {
    /// Creates the memory that the peer writes.
    ///
    /// # Errors
    /// The same as of [`Fabric::provide`].
    pub fn open(fabric: &Arc<dyn Fabric>, peer: MachineId) -> Result<Self, FabricError> {
        Ok(Self {
            peer,
            arrived: fabric.provide(segment(peer), SLOTS * SLOT_WORDS, Writer::Peer(peer))?,
            taken: [0; SLOTS],
            sent: 0,
            under_way: [const { None }; SLOTS],
        })
    }

    /// Closes the mailbox of a peer that is no member any more.
    pub fn close(self, fabric: &Arc<dyn Fabric>) {
        fabric.withdraw(segment(self.peer));
    }

    /// Sends a message, or drops it.
    pub fn send(&mut self, fabric: &Arc<dyn Fabric>, message: LeaseMessage) {
        let number = self.sent + 1;
        let slot = number as usize % SLOTS;
        let before = self.under_way[slot].as_mut();
        if before.is_some_and(|before| before.take().is_none()) {
            return;
        }
        self.sent = number;
        let at = Place {
            machine: self.peer,
            segment: segment(fabric.me()),
            word: slot * SLOT_WORDS,
        };
        let done = fabric.write_and_ring(at, &to_slot(number, message));
        self.under_way[slot] = Some(done);
    }

    /// Receives the messages that have arrived, in the order in which they were sent.
    pub fn take(&mut self) -> impl Iterator<Item = LeaseMessage> + use<> {
        let mut taken: [_; SLOTS] = std::array::from_fn(|slot| self.take_slot(slot));
        taken.sort_unstable_by_key(|taken| taken.map(|(number, _)| number));
        taken.into_iter().flatten().map(|(_, message)| message)
    }

    /// Receives the message in a slot, with its number.
    fn take_slot(&mut self, slot: usize) -> Option<(u64, LeaseMessage)> {
        let at = slot * SLOT_WORDS;
        let number = self.arrived.words()[at].load(Ordering::Acquire);
        if number == self.taken[slot] {
            return None;
        }
        let mut words = [0; USED_WORDS];
        self.arrived.copy_out(at, &mut words);
        if words[USED_WORDS - 1] != digest(&words[..USED_WORDS - 1]) {
            return None;
        }
        self.taken[slot] = words[0];
        let mut bytes = [0; LeaseMessage::BYTES];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(&words[1..]) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        // A malformed message comes from a faulty machine and counts as lost.
        let message = LeaseMessage::from_bytes(&bytes).ok()?;
        Some((words[0], message))
    }
}

fn to_slot(number: u64, message: LeaseMessage) -> [u64; USED_WORDS] {
    let mut words = [number; USED_WORDS];
    let bytes = message.to_bytes();
    let (parts, _) = bytes.as_chunks::<8>();
    for (word, part) in words[1..].iter_mut().zip(parts) {
        *word = u64::from_le_bytes(*part);
    }
    words[USED_WORDS - 1] = digest(&words[..USED_WORDS - 1]);
    words
}

/// Returns a digest that almost always differs for words that do not belong to one message.
fn digest(words: &[u64]) -> u64 {
    let mix = |sum: u64, word: &u64| {
        let product = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        product ^ (product >> 29)
    };
    words.iter().fold(0x2545_f491_4f6c_dd1d, mix)
}

#[cfg(test)]
mod tests {
    use fencepost_cluster::ConfigurationId;
    use fencepost_cluster::lease::LeaseBody;
    use fencepost_fabric::{LocalNetwork, Member};
    use proptest::prelude::*;

    use super::*;

    const A: MachineId = MachineId(1);
    const B: MachineId = MachineId(2);

    fn message(number: u64) -> LeaseMessage {
        LeaseMessage {
            configuration: ConfigurationId(7),
            body: LeaseBody::Request {
                number,
                duration_us: 50_000,
            },
        }
    }

    /// Returns the fabrics of two machines and their mailboxes for each other.
    fn pair() -> [(Arc<dyn Fabric>, DatagramQueue); 2] {
        let network = LocalNetwork::new();
        let members = [A, B].map(|id| Member {
            id,
            address: String::new(),
        });
        let fabrics = [A, B].map(|id| {
            let fabric: Arc<dyn Fabric> = Arc::new(network.join(id).expect("new"));
            fabric.set_members(&members).expect("a member");
            fabric
        });
        let [a, b] = fabrics;
        let boxes = [DatagramQueue::open(&a, B), DatagramQueue::open(&b, A)];
        let [of_a, of_b] = boxes.map(|opened| opened.expect("memory"));
        [(a, of_a), (b, of_b)]
    }

    #[test]
    fn messages_come_once_in_order_and_of_a_burst_the_last() {
        let [(a, mut of_a), (_b, mut of_b)] = pair();
        let mut sent = 0;
        for burst in [1, 2, 3, 4, 1, 4, 9, 30, 2] {
            for _ in 0..burst {
                sent += 1;
                of_a.send(&a, message(sent));
            }
            let all = sent - burst.min(SLOTS as u64) + 1..=sent;
            assert!(of_b.take().eq(all.map(message)), "{burst}");
            assert_eq!(of_b.take().next(), None, "once");
        }
    }

    #[test]
    fn half_written_datagram_is_not_taken() {
        let [(a, mut of_a), (_b, mut of_b)] = pair();
        for number in 1..=SLOTS as u64 {
            of_a.send(&a, message(number));
        }
        assert_eq!(of_b.take().count(), SLOTS);
        let next = to_slot(SLOTS as u64 + 1, message(SLOTS as u64 + 1));
        let at = SLOT_WORDS;
        // The next message arrives word by word, its number last; or its number arrives with
        // another message's words.
        for words in (1..USED_WORDS).chain([0]) {
            assert_eq!(of_b.take().next(), None, "{words}");
            of_b.arrived.words()[at + words].store(next[words], Ordering::Release);
        }
        of_b.arrived.words()[at + 1].store(99, Ordering::Release);
        assert_eq!(of_b.take().next(), None);
        of_b.arrived.words()[at + 1].store(next[1], Ordering::Release);
        assert!(of_b.take().eq([message(SLOTS as u64 + 1)]));
    }

    #[test]
    fn absent_peer_loses_only_messages() {
        let [(a, mut of_a), (b, of_b)] = pair();
        of_b.close(&b);
        (1..=20).for_each(|number| of_a.send(&a, message(number)));
        let mut of_b = DatagramQueue::open(&b, A).expect("withdrawn before");
        assert_eq!(of_b.take().next(), None);
        of_a.send(&a, message(21));
        assert!(of_b.take().eq([message(21)]));
    }

    proptest! {
        #[test]
        fn arbitrary_peer_memory_causes_no_panic(
            words in proptest::collection::vec(any::<u64>(), SLOTS * SLOT_WORDS),
            valid: [bool; SLOTS],
        ) {
            let [_, (_b, mut of_b)] = pair();
            of_b.arrived.copy_in(0, &words);
            for (slot, valid) in valid.into_iter().enumerate() {
                let from = slot * SLOT_WORDS;
                let sum = digest(&words[from..from + USED_WORDS - 1]);
                if valid {
                    of_b.arrived.words()[from + USED_WORDS - 1].store(sum, Ordering::Relaxed);
                }
            }
            prop_assert!(of_b.take().count() <= SLOTS);
        }
    }
}
