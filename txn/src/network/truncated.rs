//! Truncated transactions, and how long they are remembered (SOSP'15 §5.3, step 6).
//!
//! ```text
//!  coordinator's machine                          a participant
//!  numbers, as they are queued:  5 6 7 8 9
//!    the peers have 5 and 6                       TRUNCATE | low bound 7 | 9 | id | ...
//!    low bound: 7                                 remembers 7, 8 and 9
//! ```
//! If all replicas of a region have truncated a transaction, they must report that at its recovery,
//! instead of not knowing the transaction. So they remember it until all participants have
//! truncated it: then no record of it is left on any machine.
//!
//! # Invariants
//! * TRUNCATE-1: every transaction of a machine with a number below its low bound is truncated at
//!   all participants.
//! * TRUNCATE-2: numbers reach each participant in order.
//!
//! The head of a peer's ring shows what the peer has truncated, without a message. So the number of
//! remembered truncations is bounded by the size of the rings. A peer that stops reading keeps the
//! bound unchanged until it is removed from the configuration.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::FixedState;
use parking_lot::Mutex;

use super::Network;
use crate::fault::{self, Fault};
use crate::record::{BadRecord, TxnId};

/// The numbers of a machine's truncations.
#[derive(Default)]
pub(super) struct Numbers {
    next: Mutex<u64>,
    low: AtomicU64,
}

impl Numbers {
    /// Calls `queue` with the next number, to queue it for every participant.
    pub fn next(&self, queue: impl FnOnce(u64)) {
        // Under the lock, so that all queues have the numbers in order.
        let mut next = self.next.lock();
        queue(*next);
        *next += 1;
    }

    /// Returns the low bound: transactions with lower numbers are truncated at all participants.
    pub fn low(&self) -> u64 {
        self.low.load(Ordering::Acquire)
    }

    /// Updates and returns the low bound; `oldest` returns the least number that is still queued or
    /// in flight.
    fn find_low(&self, oldest: impl FnOnce() -> Option<u64>) -> u64 {
        let next = self.next.lock();
        let low = oldest().unwrap_or(*next);
        self.low.store(low, Ordering::Release);
        low
    }
}

/// The remembered truncations of one machine's transactions.
#[derive(Default)]
pub(super) struct TruncationLog {
    in_order: VecDeque<(u64, TxnId)>,
    all: HashSet<TxnId, FixedState>,
}

impl TruncationLog {
    /// Remembers a truncation until the low bound has passed its number.
    pub fn remember(&mut self, number: u64, id: TxnId) -> Result<(), BadRecord> {
        if self
            .in_order
            .back()
            .is_some_and(|(last, _)| *last >= number)
        {
            return Err(BadRecord("truncations that are not in order"));
        }
        self.in_order.push_back((number, id));
        self.all.insert(id);
        Ok(())
    }

    /// Forgets truncations below the low bound.
    pub fn forget_below(&mut self, low: u64, mut forgotten: impl FnMut(TxnId)) {
        while let Some((_, id)) = self.in_order.pop_front_if(|(number, _)| *number < low) {
            self.all.remove(&id);
            forgotten(id);
        }
    }

    /// Returns whether a transaction is truncated here, and not known to be truncated at all
    /// participants.
    pub fn has(&self, id: TxnId) -> bool {
        self.all.contains(&id) && !fault::injected(Fault::ForgetTruncated)
    }
}

impl Network {
    /// Updates the low bound.
    pub(super) fn find_low_bound(&self) {
        if self.recovers.load(Ordering::Acquire) {
            // Recovery may still ask a machine about a transaction that it has truncated.
            return;
        }
        // An evicted machine truncates nothing more.
        let senders = || self.member_peers().map(|peer| &peer.sender);
        let low = self.numbers.find_low(|| {
            let disk = self.disk.as_ref();
            let own = disk.and_then(|disk| disk.oldest_truncated());
            senders()
                .filter_map(|sender| sender.oldest_truncated(disk.is_some()))
                .chain(own)
                .min()
        });
        let late = self.disk.is_some() && self.home.lock().is_late();
        self.truncated.lock().forget_below(low, |id| {
            if let Some(disk) = &self.disk {
                disk.is_over(id, late);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(local: u64) -> TxnId {
        TxnId {
            configuration: 1,
            machine: 2,
            thread: 0,
            local,
        }
    }

    #[test]
    fn truncation_is_remembered_until_known_on_all_machines() {
        let mut truncated = TruncationLog::default();
        // The missing numbers are of transactions without this participant.
        for number in [3, 4, 7] {
            truncated.remember(number, id(number)).expect("in order");
        }
        truncated.forget_below(4, |id| assert_eq!(id.local, 3));
        assert!(!truncated.has(id(3)));
        assert!(truncated.has(id(4)) && truncated.has(id(7)));
        for again in [7, 5] {
            assert!(truncated.remember(again, id(again)).is_err());
        }
        truncated.forget_below(8, drop);
        assert!(truncated.all.is_empty() && truncated.in_order.is_empty());
    }

    #[test]
    fn low_bound_stays_below_numbers_in_flight() {
        let numbers = Numbers::default();
        let mut ways: [VecDeque<u64>; 2] = Default::default();
        numbers.next(|number| ways[0].push_back(number));
        numbers.next(|number| ways.iter_mut().for_each(|way| way.push_back(number)));
        let find = |ways: &[VecDeque<u64>; 2]| {
            numbers.find_low(|| ways.iter().filter_map(|way| way.front().copied()).min())
        };
        assert_eq!(find(&ways), 0);
        ways[0].clear();
        assert_eq!(find(&ways), 1);
        ways[1].clear();
        assert_eq!((find(&ways), numbers.low()), (2, 2));
    }
}
