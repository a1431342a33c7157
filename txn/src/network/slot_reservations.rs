//! Slot reservations: slots of peers for new objects, reserved ahead of the transactions that need
//! them.
//!
//! ```text
//! RESERVE    ticket | class, count, contiguous? | address to be near           to the primary
//! RESERVED   ticket | what follows | slots: address, header, incarnation       from the primary
//! UNRESERVE  addresses                                         to the primary, in the log
//!
//! primary's lane ──RESERVE──► stock ──alloc──► new object ──COMMIT-PRIMARY──► object
//!       ▲                     │   ▲                │
//!       └─────UNRESERVE───────┘   └── abort, rollback
//! ```
//! Only a region's own machine writes the region. Until COMMIT-PRIMARY the content of a slot is in
//! the write set of its transaction ([`crate::write_set`]). A RESERVED without slots tells that
//! there is no memory, or that this cannot be known yet ([`Continuation::AskAgain`]).
//!
//! # Invariants
//! * RESERVE-1: a slot that a primary has leased ([`super::slot_leases`]) is in one peer's stock,
//!   transactions or in-flight commits. At rest the stocks contain all leased slots. They may stay
//!   leased, since no reader sees them, and [`crate::Machine::reserved`] counts them.
//! * RESERVE-2: a pointer leads only to a new object that is locked or installed. The slot is
//!   locked from LOCK to COMMIT-PRIMARY, so a reader that follows a pointer of the same commit
//!   waits for it.
//! * RESERVE-3: UNRESERVE goes through the log, behind the ABORT of the transaction that had locked
//!   the slot.
//!
//! After a region handover, the stock of that region is forgotten (HANDOVER-2): its new primary
//! finds the slots free, and may lease them anew. Slots that the new primary has leased stay in
//! stock. It may lease them as soon as it serves, before this machine hears of the handover.
//! Transactions know the age of their slots: stale ones are not returned, and hold no objects.
//!
//! A stock has a bound. Slots return to the primary beyond that bound, after [`IDLE`] without use,
//! and when the machine closes. The machine is not at rest before they have arrived.
//!
//! # Failure
//! Slots that a machine had reserved when it was lost are free by their allocated bits. They are
//! found again when the primary rebuilds its free lists. If the primary cannot be reached, the
//! transaction is to be retried; without memory there it stops ([`Stop::OutOfMemory`]).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fencepost_fabric::{Completion, MachineId};
use fencepost_storage::classes::Class;
use fencepost_storage::header::Header;
use fencepost_storage::{Addr, Timestamp};

use super::Network;
use super::message::{Slot, WordReader};
use super::slot_messages::{AT_ONCE, Continuation, RESERVE, ReservedSlot, SLOT_WORDS, SlotRequest};
use super::slot_stocks::{Answer, Stocks};
use crate::clock::TICK_NS;
use crate::record::{self, BadRecord};
use crate::stop::{AbortReason, Stop};
use crate::transaction::Transaction;
use crate::work::Work;

/// Slots of a size class that a stock keeps.
const STOCK_SLOTS: usize = 2 * AT_ONCE;
/// How long an unused stock is kept, in ticks of the clock: a second.
const IDLE: u64 = 1_000_000_000 / TICK_NS;
/// Addresses of one UNRESERVE.
const BACK_AT_ONCE: usize = 64;

const UNREACHABLE: Stop = Stop::Retry(AbortReason::Unreachable);

/// A request to a primary. Dropping it puts slots that have arrived, or are still to arrive, into
/// the stock.
struct PendingReservation<'a> {
    network: &'a Network,
    machine: MachineId,
    ticket: u64,
    now: Timestamp,
}

impl PendingReservation<'_> {
    /// Returns the addresses of the slots that have arrived.
    fn places(&self) -> Vec<Addr> {
        let stocks = self.network.slot_reservations.stocks.lock();
        let came = stocks.asked.get(&self.ticket).map(|answer| &answer.came);
        let addrs = came.into_iter().flatten().map(|slot| slot.addr);
        addrs.collect()
    }

    /// Takes the slots that have arrived. The caller must put unused slots back before it awaits
    /// anything.
    fn came(&self) -> Vec<ReservedSlot> {
        let slot_reservations = &self.network.slot_reservations;
        let mut stocks = slot_reservations.stocks.lock();
        let answer = stocks.asked.get_mut(&self.ticket);
        let mut came = answer.map_or_else(Vec::new, |answer| std::mem::take(&mut answer.came));
        came.iter_mut()
            .for_each(|slot| slot.since = slot_reservations.since());
        came
    }

    /// Returns whether a repeated request may get more slots.
    fn again(&self) -> bool {
        let stocks = self.network.slot_reservations.stocks.lock();
        let answer = stocks.asked.get(&self.ticket);
        answer.is_none_or(|answer| answer.again)
    }
}

impl Drop for PendingReservation<'_> {
    fn drop(&mut self) {
        let mut stocks = self.network.slot_reservations.stocks.lock();
        let Some(answer) = stocks.asked.get_mut(&self.ticket) else {
            return;
        };
        let came = std::mem::take(&mut answer.came);
        // While slots are on their way the request stays open, so that the machine is not at rest.
        answer.abandoned = answer.whole.take().is_some();
        if !answer.abandoned {
            stocks.asked.remove(&self.ticket);
        }
        // Slots whose region was handed over meanwhile have been removed.
        stocks.put(self.machine, &came, self.now);
    }
}

impl Network {
    /// Does the same as [`super::slot_stocks::SlotReservations::since`].
    #[inline]
    pub fn slots_since(&self) -> u64 {
        self.slot_reservations.since()
    }

    /// Does the same as [`super::slot_stocks::SlotReservations::is_stale`].
    #[inline]
    pub fn is_stale(&self, addr: Addr, since: u64) -> bool {
        self.slot_reservations.is_stale(addr, since)
    }

    /// Takes a slot of `machine` from the stock, if one is in a region that the region map has.
    pub fn take_slot(
        &self,
        machine: MachineId,
        class: Class,
        now: Timestamp,
    ) -> Option<ReservedSlot> {
        let mut stocks = self.slot_reservations.stocks.lock();
        let stock = stocks.slots.get_mut(&(machine, class.0))?;
        stock.used_at = now;
        let known = |slot: &ReservedSlot| self.knows(slot.addr.region());
        let at = stock.slots.iter().rposition(known)?;
        let since = self.slot_reservations.since();
        Some(ReservedSlot {
            since,
            ..stock.slots.swap_remove(at)
        })
    }

    /// Puts slots of `machine` that received no object back into the stock.
    pub fn put_back(&self, machine: MachineId, slots: &[ReservedSlot], now: Timestamp) {
        let mut stocks = self.slot_reservations.stocks.lock();
        for slot in slots {
            if !stocks.is_stale(slot.addr, slot.since) {
                stocks.put(machine, std::slice::from_ref(slot), now);
            }
        }
    }

    /// Looks up the regions of slots that `machine` has leased.
    async fn find_all(&self, machine: MachineId, slots: &[Addr]) -> Result<(), Stop> {
        for slot in slots {
            if !self.knows(slot.region()) && !self.find(slot.region()).await? {
                return Err(Stop::Damaged);
            }
            // The region may have been handed over meanwhile.
            if self.primary(*slot) != Some(machine) {
                return Err(UNREACHABLE);
            }
        }
        Ok(())
    }

    /// Handles RESERVED: passes the slots to the requesting transaction, or to the stock if that
    /// one has given up.
    pub(super) fn take_answer(
        &self,
        peer: MachineId,
        words: &[u64],
        now: Timestamp,
    ) -> Result<(), BadRecord> {
        let mut reader = WordReader(words);
        let (ticket, follows) = (reader.word()?, Continuation::decode(reader.word()?)?);
        let more = follows == Continuation::More;
        let mut again = follows == Continuation::AskAgain;
        let mut slots = Vec::with_capacity(reader.0.len() / SLOT_WORDS);
        while !reader.0.is_empty() {
            let slot = ReservedSlot {
                addr: Addr::from_raw(reader.word()?),
                base: Header(reader.word()?),
                slot: Slot::from_word(reader.word()?),
                since: self.slot_reservations.since(),
            };
            slots.push(slot);
        }
        let mut stocks = self.slot_reservations.stocks.lock();
        let many = slots.len();
        // A region that is not in the region map is looked up when its slot is taken. Its handover
        // may be complete already; a handover from here on removes the slot.
        slots.retain(|slot| {
            self.primary(slot.addr)
                .is_none_or(|primary| primary == peer)
        });
        again |= slots.len() < many;
        let Some(answer) = stocks.asked.get_mut(&ticket) else {
            // The requesting transaction was told that the peer is lost.
            return Ok(());
        };
        if answer.abandoned {
            if !more {
                stocks.asked.remove(&ticket);
            }
            stocks.put(peer, &slots, now);
            return Ok(());
        }
        answer.came.extend(slots);
        answer.again |= again;
        let whole = answer.whole.take_if(|_| !more);
        drop(stocks);
        if let Some(whole) = whole {
            whole.complete(Ok(()));
        }
        Ok(())
    }

    /// Gives back slots beyond the bound of a stock or unused for long; all slots if `closing`.
    pub(super) fn trim_stocks(&self, now: Timestamp, closing: bool) {
        let mut stocks = self.slot_reservations.stocks.lock();
        stocks.is_back();
        let Stocks { slots, going, .. } = &mut *stocks;
        for ((machine, _), stock) in &mut *slots {
            let idle = now.raw().saturating_sub(stock.used_at.raw()) > IDLE;
            let stock_slots = if closing || idle { 0 } else { STOCK_SLOTS };
            while stock.slots.len() > stock_slots {
                // The slots used last stay.
                let many = (stock.slots.len() - stock_slots).min(BACK_AT_ONCE);
                let back = stock.slots[..many].iter().map(|slot| slot.addr.raw());
                let back: Vec<u64> = back.collect();
                let sender = self.sender(*machine);
                let sent = sender.map(|sender| sender.append_unpromised(record::UNRESERVE, &back));
                let Some(Ok(sent)) = sent else { break };
                // If the record does not arrive, the peer is lost, or this machine is lost to the
                // peer.
                going.push(sent);
                stock.slots.drain(..many);
            }
        }
        slots.retain(|_, stock| !stock.slots.is_empty());
    }
}

impl Transaction {
    /// Requests slots of `machine`. Returns one slot, or all slots of a run.
    pub(crate) fn reserve_slots(
        &self,
        machine: MachineId,
        wanted: SlotRequest,
    ) -> Work<'_, Result<Vec<ReservedSlot>, Stop>> {
        Box::pin(async move {
            let local = self.machine();
            let network = local.network().map(Arc::clone).ok_or(UNREACHABLE)?;
            network.expect_root()?;
            let sender = network.sender(machine).ok_or(UNREACHABLE)?;
            if !sender.is_up().await {
                return Err(UNREACHABLE);
            }
            let ticket = network.tickets.fetch_add(1, Ordering::Relaxed);
            let (whole, answered) = Completion::pending();
            let answer = Answer {
                machine,
                came: Vec::new(),
                whole: Some(whole),
                again: false,
                abandoned: false,
            };
            network
                .slot_reservations
                .stocks
                .lock()
                .asked
                .insert(ticket, answer);
            let asked = PendingReservation {
                network: &network,
                machine,
                ticket,
                now: local.now(),
            };
            sender.send_surely(RESERVE, &wanted.words(ticket));
            let whole = network.answered(self.machine(), answered).await;
            let known = network.find_all(machine, &asked.places()).await;
            let mut slots = asked.came();
            let needed = if wanted.run { wanted.count } else { 1 };
            let enough = whole.is_ok() && known.is_ok() && slots.len() >= needed;
            let taken = if enough { needed } else { 0 };
            let rest = slots.split_off(taken);
            network.put_back(machine, &rest, local.now());
            known?;
            match whole {
                Err(_) => Err(UNREACHABLE),
                Ok(()) if enough => Ok(slots),
                Ok(()) if asked.again() => Err(UNREACHABLE),
                Ok(()) => Err(Stop::OutOfMemory),
            }
        })
    }
}
