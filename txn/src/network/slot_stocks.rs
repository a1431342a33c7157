//! Stocks of slots that this machine has reserved at its peers, and its open requests for more.
//!
//! [`super::slot_reservations`] has the invariants.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use fencepost_fabric::{Completer, Completion, MachineId};
use fencepost_storage::{Addr, RegionId, Timestamp};
use foldhash::fast::FixedState;
use parking_lot::Mutex;

use super::slot_messages::ReservedSlot;
use crate::fault::{self, Fault};

/// The slots that this machine has reserved at its peers.
#[derive(Default)]
pub(super) struct SlotReservations {
    pub stocks: Mutex<Stocks>,
    /// Number of region handovers so far.
    changes: AtomicU64,
}

#[derive(Default)]
pub(super) struct Stocks {
    pub slots: HashMap<(MachineId, u8), Stock, FixedState>,
    /// Requests whose answers are incomplete or not taken yet.
    pub asked: HashMap<u64, Answer, FixedState>,
    /// The last handover of each region, as a number of `changes`.
    changed: HashMap<RegionId, u64, FixedState>,
    /// UNRESERVE records without an ack.
    pub going: Vec<Completion<()>>,
}

impl Stocks {
    /// Returns whether no returned slot is on its way.
    pub fn is_back(&mut self) -> bool {
        self.going.retain_mut(|sent| sent.take().is_none());
        self.going.is_empty()
    }

    pub fn is_stale(&self, addr: Addr, since: u64) -> bool {
        let changed = self.changed.get(&addr.region());
        let stale = changed.is_some_and(|changed| *changed >= since);
        stale && !fault::injected(Fault::KeepStaleSlots)
    }

    /// Puts slots of `machine` into its stock.
    pub fn put(&mut self, machine: MachineId, slots: &[ReservedSlot], now: Timestamp) {
        for slot in slots {
            let stock = (machine, slot.slot.class.0);
            let stock = self.slots.entry(stock).or_default();
            stock.used_at = now;
            stock.slots.push(*slot);
        }
    }
}

/// Slots of one size class at one peer.
#[derive(Default)]
pub(super) struct Stock {
    pub slots: Vec<ReservedSlot>,
    pub used_at: Timestamp,
}

pub(super) struct Answer {
    pub machine: MachineId,
    pub came: Vec<ReservedSlot>,
    /// Completed once the whole answer has arrived.
    pub whole: Option<Completer<()>>,
    /// A region of a sent slot was handed over, or slots could not be allocated yet: the missing
    /// slots do not mean that memory is exhausted.
    pub again: bool,
    /// No transaction waits for the answer any more: further slots go into the stock.
    pub abandoned: bool,
}

impl SlotReservations {
    /// Returns whether no request is open and no slot is on its way back.
    pub fn is_at_rest(&self) -> bool {
        let mut stocks = self.stocks.lock();
        stocks.asked.is_empty() && stocks.is_back()
    }

    /// Forgets the slots leased by a lost machine, and wakes the transactions that wait for its
    /// answers.
    pub fn forget_machine(&self, machine: MachineId) {
        let mut stocks = self.stocks.lock();
        stocks.slots.retain(|(of, _), _| *of != machine);
        let asked = stocks
            .asked
            .extract_if(|_, answer| answer.machine == machine);
        let abandoned: Vec<Answer> = asked.map(|(_, answer)| answer).collect();
        drop(stocks);
        drop(abandoned);
    }

    /// Returns all slots in stock.
    pub fn all(&self) -> Vec<Addr> {
        let stocks = self.stocks.lock();
        let slots = stocks.slots.values().flat_map(|stock| &stock.slots);
        slots.map(|slot| slot.addr).collect()
    }

    /// Forgets the slots of a region after its handover, except those that `heir`, the new primary,
    /// has leased.
    pub fn forget(&self, region: RegionId, heir: Option<MachineId>) {
        let mut stocks = self.stocks.lock();
        let Stocks { slots, asked, .. } = &mut *stocks;
        let stocked = slots.iter_mut();
        let stocked = stocked.map(|((of, _), stock)| (*of, &mut stock.slots));
        let came = asked.values_mut();
        let came = came.map(|answer| (answer.machine, &mut answer.came));
        for (of, slots) in stocked.chain(came) {
            if heir != Some(of) {
                slots.retain(|slot| slot.addr.region() != region);
            }
        }
        asked.values_mut().for_each(|answer| answer.again = true);
        let change = self.changes.fetch_add(1, Ordering::Release) + 1;
        stocks.changed.insert(region, change);
    }

    /// Returns the current time of slots: a slot taken now becomes stale with the next region
    /// handover.
    pub fn since(&self) -> u64 {
        self.changes.load(Ordering::Acquire) + 1
    }

    /// Returns whether the region of a slot was handed over since the slot was taken.
    pub fn is_stale(&self, addr: Addr, since: u64) -> bool {
        self.since() != since && self.stocks.lock().is_stale(addr, since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::slot_messages::tests::slots;

    #[test]
    fn slots_leased_by_the_next_primary_survive_a_handover() {
        let (slot_reservations, region) =
            (SlotReservations::default(), Addr::from_raw(64).region());
        let (before, heir) = (MachineId(2), MachineId(3));
        let now = Timestamp::from_raw(9);
        let leased = |at: usize| vec![slots(4)[at]];
        let mut stocks = slot_reservations.stocks.lock();
        stocks.put(before, &leased(1), now);
        stocks.put(heir, &leased(2), now);
        drop(stocks);
        slot_reservations.forget(region, Some(heir));
        assert_eq!(slot_reservations.all(), [leased(2)[0].addr]);
        slot_reservations.forget(region, None);
        assert_eq!(slot_reservations.all(), []);
    }
}
