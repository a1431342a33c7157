//! Truncations: transactions that the peer may forget (LINK-2).

use super::{LogEnd, PeerSender, TRUNCATE_WORDS, TRUNCATED_WORDS};
use crate::network::traffic::PostKind;
use crate::record::{self, TxnId};

/// Ids of one TRUNCATE record.
const TRUNCATED_AT_ONCE: usize = 64;

impl PeerSender {
    /// Queues a transaction that the peer may forget. Numbers must come in order.
    pub fn truncate(&self, number: u64, id: TxnId) {
        self.log.lock().truncated.push((number, id));
    }

    /// Returns the first number of a transaction that the peer may not have truncated, or may not
    /// have truncated on its disk if `on_disk` (DISK-3).
    pub fn oldest_truncated(&self, on_disk: bool) -> Option<u64> {
        let mut log = self.log.lock();
        let released = match on_disk {
            true => self.durable.lock().upto,
            false => log.ring.released(),
        };
        while log
            .posted
            .pop_front_if(|(end, _)| *end <= released)
            .is_some()
        {}
        let posted = log.posted.front().map(|(_, number)| *number);
        posted.or_else(|| log.truncated.first().map(|(number, _)| *number))
    }

    /// Sends the low bound periodically if no TRUNCATE does. Truncations that a peer remembers keep
    /// its disk's log from being cut.
    pub fn tell_low(&self) {
        /// Calls between two such records.
        const SPARED: u32 = 512;
        let mut log = self.log.lock();
        let low = log.numbers.low();
        if log.remembered.is_none_or(|upto| upto > low) || !log.truncated.is_empty() {
            return;
        }
        log.spared += 1;
        // A full ring has traffic, which carries the bound.
        if log.spared > SPARED && log.ring.push(record::TRUNCATE, &[&[low]]).is_ok() {
            (log.spared, log.remembered) = (0, None);
            drop(log.ring.flush());
            self.counting.count(PostKind::Truncate);
        }
    }

    /// Writes the queued truncations, if no record has carried them.
    pub fn flush_truncated(&self) {
        self.flush(&mut self.log.lock());
    }

    pub(super) fn flush(&self, log: &mut LogEnd) {
        if log.flush_truncated() {
            self.counting.count(PostKind::Truncate);
        }
    }

    /// Returns whether truncations are queued that no record has carried.
    pub fn has_truncated(&self) -> bool {
        !self.log.lock().truncated.is_empty()
    }
}

impl LogEnd {
    pub(super) fn stage_truncated(&mut self) {
        while !self.truncated.is_empty() {
            let many = self.truncated.len().min(TRUNCATED_AT_ONCE);
            let mut words = Vec::with_capacity(1 + many * TRUNCATED_WORDS);
            words.push(self.numbers.low());
            let first = self.truncated[0].0;
            for (number, id) in self.truncated.drain(..many) {
                self.remembered = Some(number + 1);
                words.push(number);
                words.extend(id.words());
            }
            // Together they need no more space than was reserved for each.
            (0..many).for_each(|_| self.ring.give_back(TRUNCATE_WORDS));
            if self.ring.reserve(words.len()).is_err() {
                // Happens only if the peer has withdrawn space that it had granted. The sender
                // cannot recover from that.
                return;
            }
            self.ring.push_reserved(record::TRUNCATE, &[&words]);
            self.posted.push_back((self.ring.position(), first));
        }
    }

    /// Writes the queued truncations. Returns whether there were any.
    fn flush_truncated(&mut self) -> bool {
        let any = !self.truncated.is_empty();
        if any {
            self.stage_truncated();
            drop(self.ring.flush());
        }
        any
    }
}
