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

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fencepost_fabric::{Completer, Completion, MachineId};
use fencepost_storage::classes::Class;
use fencepost_storage::header::Header;
use fencepost_storage::{Addr, RegionId, Timestamp};
use foldhash::fast::FixedState;
use parking_lot::Mutex;

use super::Network;
use super::message::{Slot, WordReader};
use crate::clock::TICK_NS;
use crate::fault::{self, Fault};
use crate::record::{self, BadRecord};
use crate::stop::{AbortReason, Stop};
use crate::transaction::Transaction;
use crate::work::Work;

/// Tags of the messages.
pub(super) const RESERVE: u8 = 6;
pub(super) const RESERVED: u8 = 7;

/// Slots requested at once, and their bytes: most allocations cost no message.
const AT_ONCE: usize = 16;
const BYTES_AT_ONCE: usize = 16 << 10;
/// Slots of a size class that a stock keeps.
const STOCK_SLOTS: usize = 2 * AT_ONCE;
/// How long an unused stock is kept, in ticks of the clock: a second.
const IDLE: u64 = 1_000_000_000 / TICK_NS;
/// Addresses of one UNRESERVE.
const BACK_AT_ONCE: usize = 64;
/// Slots of one RESERVED.
const SLOTS_AT_ONCE: usize = 256;
/// Words of a slot in a RESERVED.
const SLOT_WORDS: usize = 3;

const UNREACHABLE: Stop = Stop::Retry(AbortReason::Unreachable);

/// A slot of a peer that contains no object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReservedSlot {
    pub addr: Addr,
    /// Its header, unlocked and not allocated.
    pub base: Header,
    /// The slot, with the incarnation of the next object.
    pub slot: Slot,
    /// When it left the stock, as [`SlotReservations::since`] counts.
    pub since: u64,
}

/// A request for slots of a primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotRequest {
    pub class: Class,
    pub count: usize,
    /// All of them, contiguous; otherwise as many as are free.
    pub run: bool,
    /// The address that they should be near, if not null.
    pub near: Addr,
}

impl SlotRequest {
    /// Returns the request to send when one slot is needed.
    pub fn batch(class: Class, near: Addr) -> SlotRequest {
        let fit = BYTES_AT_ONCE / (class.slot_words() * 8);
        let (count, run) = (fit.clamp(1, AT_ONCE), false);
        SlotRequest {
            class,
            count,
            run,
            near,
        }
    }

    fn words(self, ticket: u64) -> [u64; 3] {
        let what = (u64::from(self.class.0) << 32) | (u64::from(self.run) << 31);
        [ticket, what | self.count as u64, self.near.raw()]
    }

    pub(super) fn decode(words: &[u64]) -> Result<(u64, SlotRequest), BadRecord> {
        let mut reader = WordReader(words);
        let (ticket, what) = (reader.word()?, reader.word()?);
        let near = Addr::from_raw(reader.word()?);
        let class = u8::try_from(what >> 32).map(Class);
        let class = class.map_err(|_| BadRecord("unknown size class"))?;
        let (run, count) = (what >> 31 & 1 == 1, (what & 0x7FFF_FFFF) as usize);
        let most = if run { class.slots() } else { AT_ONCE };
        if count == 0 || count > most {
            return Err(BadRecord("more slots than anybody asks for"));
        }
        let wanted = SlotRequest {
            class,
            count,
            run,
            near,
        };
        Ok((ticket, wanted))
    }
}

/// The continuation of a RESERVED.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
enum Continuation {
    Nothing = 0,
    More = 1,
    /// No more; a machine that a new region needs is about to be replaced, so memory is not
    /// exhausted.
    AskAgain = 2,
}

impl Continuation {
    fn decode(word: u64) -> Result<Continuation, BadRecord> {
        let all = [
            Continuation::Nothing,
            Continuation::More,
            Continuation::AskAgain,
        ];
        let known = all.into_iter().find(|follows| *follows as u64 == word);
        known.ok_or(BadRecord("what follows a RESERVED is unknown"))
    }
}

/// Passes to `send` the answer to a RESERVE that is to be repeated later.
pub(super) fn answer_later(ticket: u64, mut send: impl FnMut(&[u64])) {
    send(&[ticket, Continuation::AskAgain as u64]);
}

/// Passes the answer to a RESERVE to `send`.
pub(super) fn answer(ticket: u64, slots: &[ReservedSlot], mut send: impl FnMut(&[u64])) {
    let mut left = slots.chunks(SLOTS_AT_ONCE).peekable();
    loop {
        let part = left.next().unwrap_or_default();
        let follows = match left.peek() {
            Some(_) => Continuation::More,
            None => Continuation::Nothing,
        };
        let mut words = vec![ticket, follows as u64];
        let slot = |slot: &ReservedSlot| [slot.addr.raw(), slot.base.0, slot.slot.word()];
        words.extend(part.iter().flat_map(slot));
        send(&words);
        if follows == Continuation::Nothing {
            return;
        }
    }
}

/// The slots that this machine has reserved at its peers.
#[derive(Default)]
pub(super) struct SlotReservations {
    stocks: Mutex<Stocks>,
    /// Number of region handovers so far.
    changes: AtomicU64,
}

#[derive(Default)]
struct Stocks {
    slots: HashMap<(MachineId, u8), Stock, FixedState>,
    /// Requests whose answers are incomplete or not taken yet.
    asked: HashMap<u64, Answer, FixedState>,
    /// The last handover of each region, as a number of `changes`.
    changed: HashMap<RegionId, u64, FixedState>,
    /// UNRESERVE records without an ack.
    going: Vec<Completion<()>>,
}

impl Stocks {
    /// Returns whether no returned slot is on its way.
    fn is_back(&mut self) -> bool {
        self.going.retain_mut(|sent| sent.take().is_none());
        self.going.is_empty()
    }

    fn is_stale(&self, addr: Addr, since: u64) -> bool {
        let changed = self.changed.get(&addr.region());
        let stale = changed.is_some_and(|changed| *changed >= since);
        stale && !fault::injected(Fault::KeepStaleSlots)
    }

    /// Puts slots of `machine` into its stock.
    fn put(&mut self, machine: MachineId, slots: &[ReservedSlot], now: Timestamp) {
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
struct Stock {
    slots: Vec<ReservedSlot>,
    used_at: Timestamp,
}

struct Answer {
    machine: MachineId,
    came: Vec<ReservedSlot>,
    /// Completed once the whole answer has arrived.
    whole: Option<Completer<()>>,
    /// A region of a sent slot was handed over, or slots could not be allocated yet: the missing
    /// slots do not mean that memory is exhausted.
    again: bool,
    /// No transaction waits for the answer any more: further slots go into the stock.
    abandoned: bool,
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
    /// Does the same as [`SlotReservations::since`].
    #[inline]
    pub fn slots_since(&self) -> u64 {
        self.slot_reservations.since()
    }

    /// Does the same as [`SlotReservations::is_stale`].
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slots(count: usize) -> Vec<ReservedSlot> {
        let slot = |at: usize| ReservedSlot {
            addr: Addr::from_raw(64 * at as u64),
            base: Header(at as u64),
            slot: Slot::from_word(at as u64),
            since: 0,
        };
        (0..count).map(slot).collect()
    }

    #[test]
    fn slot_request_round_trips() {
        let batch = SlotRequest::batch(Class(3), Addr::from_raw(77));
        assert_eq!(batch.count, AT_ONCE);
        let large = SlotRequest::batch(Class(255), Addr::NULL);
        assert_eq!(large.count, 1);
        let run = SlotRequest {
            count: Class(3).slots(),
            run: true,
            ..batch
        };
        for wanted in [batch, large, run] {
            assert_eq!(SlotRequest::decode(&wanted.words(9)), Ok((9, wanted)));
        }
        let many = SlotRequest {
            count: AT_ONCE + 1,
            ..batch
        };
        assert!(SlotRequest::decode(&many.words(9)).is_err());
        let none = SlotRequest { count: 0, ..run };
        assert!(SlotRequest::decode(&none.words(9)).is_err());
    }

    #[test]
    fn many_slots_come_in_parts_and_none_come_as_an_answer() {
        for (count, parts) in [(0, 1), (1, 1), (SLOTS_AT_ONCE, 1), (SLOTS_AT_ONCE + 1, 2)] {
            let mut sent = Vec::new();
            answer(5, &slots(count), |words| sent.push(words.to_vec()));
            let follows = sent.iter().map(|words| Continuation::decode(words[1]));
            let mut expected = vec![Ok(Continuation::More); parts];
            expected[parts - 1] = Ok(Continuation::Nothing);
            assert_eq!(follows.collect::<Vec<_>>(), expected);
            let words: usize = sent.iter().map(|words| words.len() - 2).sum();
            assert_eq!(words, count * SLOT_WORDS);
        }
    }

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

    proptest! {
        #[test]
        fn garbage_is_refused_and_never_panics(words in prop::collection::vec(any::<u64>(), 0..8)) {
            let _ = SlotRequest::decode(&words);
        }
    }
}
