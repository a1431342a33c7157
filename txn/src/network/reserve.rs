//! Slots of peers for new objects: reserved there ahead of the transactions that need them.
//!
//! ```text
//! RESERVE    ticket | size class, how many, whether side by side | an address to be near     to the primary
//! RESERVED   ticket | what follows | slots: address, header, class and incarnation            from it
//! UNRESERVE  addresses                                                     to it, in the log
//!
//! primary's lane ──RESERVE──► stock ──alloc──► new object of a transaction ──COMMIT-PRIMARY──► object
//!       ▲                     │   ▲                        │
//!       └─────UNRESERVE───────┘   └── abort, rollback ─────┘
//! ```
//! Regions are written by their own machine alone, so until COMMIT-PRIMARY what is to be in a slot is in the
//! write set of its transaction ([`crate::write_set`]). A RESERVED without slots says that there is no memory, or
//! that whether there is some cannot be known yet ([`Follows::AskAgain`]).
//!
//! # Invariants
//! * RESERVE-1: a slot that a primary has lent ([`super::lent`]) is in the stock of one peer, in one of its
//!   transactions or in a commit on its way. At rest the stocks are all that is lent: they may stay, since
//!   nobody sees them, and [`crate::Machine::reserved`] counts them.
//! * RESERVE-2: nothing leads to a new object that is not locked or there: its slot is locked from LOCK to
//!   COMMIT-PRIMARY, so whoever comes by a pointer of the same commit waits for it.
//! * RESERVE-3: UNRESERVE goes through the log, behind the ABORT of whoever had the slot locked.
//!
//! When a region changes hands, what is in stock of it is forgotten (HANDS-2): its new primary finds it free, and may
//! lend it anew. What that has lent stays: it may have done so as soon as it served, and this machine have heard of it
//! later. Transactions know since when they have what they have, and neither give back what is stale by now nor make
//! objects of it.
//!
//! A stock has a bound; beyond it, after [`IDLE`] without use, and when the machine closes, slots go back, and the machine
//! is not at rest before they have come.
//!
//! # Failure
//! Slots that a machine has reserved when it is lost are free as their allocated bits say: they are found again
//! when the primary's free lists are made from those. Where the primary cannot be reached, the transaction is
//! to be tried again; without memory there it stops ([`Stop::OutOfMemory`]).

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
use super::message::{Reader, Slot};
use crate::clock::TICK_NS;
use crate::planted::{self, Planted};
use crate::record::{self, BadRecord};
use crate::stop::{AbortReason, Stop};
use crate::transaction::Transaction;
use crate::work::Work;

/// Tags of the messages.
pub(super) const RESERVE: u8 = 6;
pub(super) const RESERVED: u8 = 7;

/// Slots that are asked for at once, and bytes of them: most allocations cost no message.
const AT_ONCE: usize = 16;
const BYTES_AT_ONCE: usize = 16 << 10;
/// Slots of a size class that a stock keeps.
const KEPT: usize = 2 * AT_ONCE;
/// How long a stock is kept that nobody uses, in ticks of the clock: a second.
const IDLE: u64 = 1_000_000_000 / TICK_NS;
/// Addresses of one UNRESERVE.
const BACK_AT_ONCE: usize = 64;
/// Slots of one RESERVED.
const SLOTS_AT_ONCE: usize = 256;
/// Words of a slot in a RESERVED.
const SLOT_WORDS: usize = 3;

const UNREACHABLE: Stop = Stop::Retry(AbortReason::Unreachable);

/// A slot of a peer that no object is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reserved {
    pub addr: Addr,
    /// Its header, unlocked and not allocated.
    pub base: Header,
    /// With the incarnation of the object to come.
    pub slot: Slot,
    /// Since when it is not in the stock, as [`Reserves::since`] counts.
    pub since: u64,
}

/// What is asked of a primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub class: Class,
    pub count: usize,
    /// All of them, side by side; otherwise as many as there are.
    pub run: bool,
    /// What they should be near, if that is not null.
    pub near: Addr,
}

impl Wanted {
    /// What is asked for where one slot is needed.
    pub fn batch(class: Class, near: Addr) -> Wanted {
        let fit = BYTES_AT_ONCE / (class.slot_words() * 8);
        let (count, run) = (fit.clamp(1, AT_ONCE), false);
        Wanted {
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

    pub(super) fn decode(words: &[u64]) -> Result<(u64, Wanted), BadRecord> {
        let mut reader = Reader(words);
        let (ticket, what) = (reader.word()?, reader.word()?);
        let near = Addr::from_raw(reader.word()?);
        let class = u8::try_from(what >> 32).map(Class);
        let class = class.map_err(|_| BadRecord("unknown size class"))?;
        let (run, count) = (what >> 31 & 1 == 1, (what & 0x7FFF_FFFF) as usize);
        let most = if run { class.slots() } else { AT_ONCE };
        if count == 0 || count > most {
            return Err(BadRecord("more slots than anybody asks for"));
        }
        let wanted = Wanted {
            class,
            count,
            run,
            near,
        };
        Ok((ticket, wanted))
    }
}

/// What follows a RESERVED.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
enum Follows {
    Nothing = 0,
    More = 1,
    /// Nothing; a machine that a further region needs is about to be replaced, so it is no want of memory.
    AskAgain = 2,
}

impl Follows {
    fn decode(word: u64) -> Result<Follows, BadRecord> {
        let all = [Follows::Nothing, Follows::More, Follows::AskAgain];
        let known = all.into_iter().find(|follows| *follows as u64 == word);
        known.ok_or(BadRecord("what follows a RESERVED is unknown"))
    }
}

/// Gives to `send` what answers RESERVE where it is to be asked again.
pub(super) fn answer_later(ticket: u64, mut send: impl FnMut(&[u64])) {
    send(&[ticket, Follows::AskAgain as u64]);
}

/// Gives what answers RESERVE to `send`.
pub(super) fn answer(ticket: u64, slots: &[Reserved], mut send: impl FnMut(&[u64])) {
    let mut left = slots.chunks(SLOTS_AT_ONCE).peekable();
    loop {
        let part = left.next().unwrap_or_default();
        let follows = match left.peek() {
            Some(_) => Follows::More,
            None => Follows::Nothing,
        };
        let mut words = vec![ticket, follows as u64];
        let slot = |slot: &Reserved| [slot.addr.raw(), slot.base.0, slot.slot.word()];
        words.extend(part.iter().flat_map(slot));
        send(&words);
        if follows == Follows::Nothing {
            return;
        }
    }
}

/// What this machine has of its peers.
#[derive(Default)]
pub(super) struct Reserves {
    stocks: Mutex<Stocks>,
    /// Changes of hands of regions so far.
    changes: AtomicU64,
}

#[derive(Default)]
struct Stocks {
    slots: HashMap<(MachineId, u8), Stock, FixedState>,
    /// Questions that have not been answered to the end, or whose answers nobody has taken yet.
    asked: HashMap<u64, Answer, FixedState>,
    /// Which change of hands was the last of a region.
    changed: HashMap<RegionId, u64, FixedState>,
    /// UNRESERVEs on their way.
    going: Vec<Completion<()>>,
}

impl Stocks {
    /// Whether nothing that was given back is on its way.
    fn is_back(&mut self) -> bool {
        self.going.retain_mut(|sent| sent.take().is_none());
        self.going.is_empty()
    }

    fn is_stale(&self, addr: Addr, since: u64) -> bool {
        let changed = self.changed.get(&addr.region());
        let stale = changed.is_some_and(|changed| *changed >= since);
        stale && !planted::is(Planted::KeepStaleSlots)
    }

    /// Puts slots of `machine` into its stock.
    fn put(&mut self, machine: MachineId, slots: &[Reserved], now: Timestamp) {
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
    slots: Vec<Reserved>,
    used_at: Timestamp,
}

struct Answer {
    machine: MachineId,
    came: Vec<Reserved>,
    /// Told once all has come.
    whole: Option<Completer<()>>,
    /// Some that was sent has changed hands, or could not be had yet: what is missing is no want of memory.
    again: bool,
    /// Nobody waits for it any more: what is still to come goes into the stock.
    abandoned: bool,
}

impl Reserves {
    /// Whether nothing is asked for, nor on its way back.
    pub fn is_at_rest(&self) -> bool {
        let mut stocks = self.stocks.lock();
        stocks.asked.is_empty() && stocks.is_back()
    }

    /// A machine is lost, and what it has lent; whoever waits for its answer is told.
    pub fn forget_machine(&self, machine: MachineId) {
        let mut stocks = self.stocks.lock();
        stocks.slots.retain(|(of, _), _| *of != machine);
        let asked = stocks
            .asked
            .extract_if(|_, answer| answer.machine == machine);
        let told: Vec<Answer> = asked.map(|(_, answer)| answer).collect();
        drop(stocks);
        drop(told);
    }

    /// All slots in stock.
    pub fn all(&self) -> Vec<Addr> {
        let stocks = self.stocks.lock();
        let slots = stocks.slots.values().flat_map(|stock| &stock.slots);
        slots.map(|slot| slot.addr).collect()
    }

    /// A region has changed hands: who lent slots of it does not have it any more, but for who has it now.
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

    /// What is taken now is not stale before another region changes hands.
    pub fn since(&self) -> u64 {
        self.changes.load(Ordering::Acquire) + 1
    }

    /// Whether the region of a slot has changed hands since that was taken.
    pub fn is_stale(&self, addr: Addr, since: u64) -> bool {
        self.since() != since && self.stocks.lock().is_stale(addr, since)
    }
}

/// A question to a primary. Dropping it puts what has come, or is still to come, into the stock.
struct Asked<'a> {
    network: &'a Network,
    machine: MachineId,
    ticket: u64,
    now: Timestamp,
}

impl Asked<'_> {
    /// Where the slots are that have come.
    fn places(&self) -> Vec<Addr> {
        let stocks = self.network.reserves.stocks.lock();
        let came = stocks.asked.get(&self.ticket).map(|answer| &answer.came);
        let addrs = came.into_iter().flatten().map(|slot| slot.addr);
        addrs.collect()
    }

    /// What has come; what of it is not used is to be put back, before anything is awaited.
    fn came(&self) -> Vec<Reserved> {
        let reserves = &self.network.reserves;
        let mut stocks = reserves.stocks.lock();
        let answer = stocks.asked.get_mut(&self.ticket);
        let mut came = answer.map_or_else(Vec::new, |answer| std::mem::take(&mut answer.came));
        came.iter_mut()
            .for_each(|slot| slot.since = reserves.since());
        came
    }

    /// Whether it may have more when it is asked again.
    fn again(&self) -> bool {
        let stocks = self.network.reserves.stocks.lock();
        let answer = stocks.asked.get(&self.ticket);
        answer.is_none_or(|answer| answer.again)
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let mut stocks = self.network.reserves.stocks.lock();
        let Some(answer) = stocks.asked.get_mut(&self.ticket) else {
            return;
        };
        let came = std::mem::take(&mut answer.came);
        // As long as some is on its way the question stays open: the machine is not at rest.
        answer.abandoned = answer.whole.take().is_some();
        if !answer.abandoned {
            stocks.asked.remove(&self.ticket);
        }
        // What changed hands meanwhile has been taken out of them.
        stocks.put(self.machine, &came, self.now);
    }
}

impl Network {
    /// As [`Reserves::since`].
    #[inline]
    pub fn slots_since(&self) -> u64 {
        self.reserves.since()
    }

    /// As [`Reserves::is_stale`].
    #[inline]
    pub fn is_stale(&self, addr: Addr, since: u64) -> bool {
        self.reserves.is_stale(addr, since)
    }

    /// A slot of `machine` from the stock, if there is one in a region that is known here.
    pub fn take_slot(&self, machine: MachineId, class: Class, now: Timestamp) -> Option<Reserved> {
        let mut stocks = self.reserves.stocks.lock();
        let stock = stocks.slots.get_mut(&(machine, class.0))?;
        stock.used_at = now;
        let known = |slot: &Reserved| self.knows(slot.addr.region());
        let at = stock.slots.iter().rposition(known)?;
        let since = self.reserves.since();
        Some(Reserved {
            since,
            ..stock.slots.swap_remove(at)
        })
    }

    /// Puts slots of `machine` back into the stock that no object came into.
    pub fn put_back(&self, machine: MachineId, slots: &[Reserved], now: Timestamp) {
        let mut stocks = self.reserves.stocks.lock();
        for slot in slots {
            if !stocks.is_stale(slot.addr, slot.since) {
                stocks.put(machine, std::slice::from_ref(slot), now);
            }
        }
    }

    /// Finds out where the regions of slots are, which `machine` has lent.
    async fn find_all(&self, machine: MachineId, slots: &[Addr]) -> Result<(), Stop> {
        for slot in slots {
            if !self.knows(slot.region()) && !self.find(slot.region()).await? {
                return Err(Stop::Damaged);
            }
            // It may have changed hands meanwhile.
            if self.primary(*slot) != Some(machine) {
                return Err(UNREACHABLE);
            }
        }
        Ok(())
    }

    /// RESERVED: for who asked, or for the stock if that is nobody any more.
    pub(super) fn take_answer(
        &self,
        peer: MachineId,
        words: &[u64],
        now: Timestamp,
    ) -> Result<(), BadRecord> {
        let mut reader = Reader(words);
        let (ticket, follows) = (reader.word()?, Follows::decode(reader.word()?)?);
        let more = follows == Follows::More;
        let mut again = follows == Follows::AskAgain;
        let mut slots = Vec::with_capacity(reader.0.len() / SLOT_WORDS);
        while !reader.0.is_empty() {
            let slot = Reserved {
                addr: Addr::from_raw(reader.word()?),
                base: Header(reader.word()?),
                slot: Slot::from_word(reader.word()?),
                since: self.reserves.since(),
            };
            slots.push(slot);
        }
        let mut stocks = self.reserves.stocks.lock();
        let many = slots.len();
        // Where that is not known, whoever takes the slot finds out; its region may have changed hands meanwhile, and what
        // changes hands from here on is forgotten.
        slots.retain(|slot| {
            self.primary(slot.addr)
                .is_none_or(|primary| primary == peer)
        });
        again |= slots.len() < many;
        let Some(answer) = stocks.asked.get_mut(&ticket) else {
            // Whoever asked was told that the peer is lost.
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

    /// Gives back what is over the bound of a stock or has not been used for long; all of it where `closing`.
    pub(super) fn trim_stocks(&self, now: Timestamp, closing: bool) {
        let mut stocks = self.reserves.stocks.lock();
        stocks.is_back();
        let Stocks { slots, going, .. } = &mut *stocks;
        for ((machine, _), stock) in &mut *slots {
            let idle = now.raw().saturating_sub(stock.used_at.raw()) > IDLE;
            let kept = if closing || idle { 0 } else { KEPT };
            while stock.slots.len() > kept {
                // The slots that were used last stay.
                let many = (stock.slots.len() - kept).min(BACK_AT_ONCE);
                let back = stock.slots[..many].iter().map(|slot| slot.addr.raw());
                let back: Vec<u64> = back.collect();
                let link = self.link(*machine);
                let sent = link.map(|link| link.append_unpromised(record::UNRESERVE, &back));
                let Some(Ok(sent)) = sent else { break };
                // Should it not arrive, the peer is lost or this machine is to it.
                going.push(sent);
                stock.slots.drain(..many);
            }
        }
        slots.retain(|_, stock| !stock.slots.is_empty());
    }
}

impl Transaction {
    /// Asks `machine` for slots: the first of those that came, for a single one, or all of a run.
    pub(crate) fn reserve_slots(
        &self,
        machine: MachineId,
        wanted: Wanted,
    ) -> Work<'_, Result<Vec<Reserved>, Stop>> {
        Box::pin(async move {
            let here = self.machine();
            let network = here.network().map(Arc::clone).ok_or(UNREACHABLE)?;
            network.expect_root()?;
            let link = network.link(machine).ok_or(UNREACHABLE)?;
            if !link.is_up().await {
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
            network.reserves.stocks.lock().asked.insert(ticket, answer);
            let asked = Asked {
                network: &network,
                machine,
                ticket,
                now: here.now(),
            };
            link.send_surely(RESERVE, &wanted.words(ticket));
            let whole = network.answered(self.machine(), answered).await;
            let known = network.find_all(machine, &asked.places()).await;
            let mut slots = asked.came();
            let needed = if wanted.run { wanted.count } else { 1 };
            let enough = whole.is_ok() && known.is_ok() && slots.len() >= needed;
            let taken = if enough { needed } else { 0 };
            let rest = slots.split_off(taken);
            network.put_back(machine, &rest, here.now());
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

    fn slots(count: usize) -> Vec<Reserved> {
        let slot = |at: usize| Reserved {
            addr: Addr::from_raw(64 * at as u64),
            base: Header(at as u64),
            slot: Slot::from_word(at as u64),
            since: 0,
        };
        (0..count).map(slot).collect()
    }

    #[test]
    fn what_is_asked_for_comes_back_as_it_was_made() {
        let batch = Wanted::batch(Class(3), Addr::from_raw(77));
        assert_eq!(batch.count, AT_ONCE);
        let large = Wanted::batch(Class(255), Addr::NULL);
        assert_eq!(large.count, 1);
        let run = Wanted {
            count: Class(3).slots(),
            run: true,
            ..batch
        };
        for wanted in [batch, large, run] {
            assert_eq!(Wanted::decode(&wanted.words(9)), Ok((9, wanted)));
        }
        let many = Wanted {
            count: AT_ONCE + 1,
            ..batch
        };
        assert!(Wanted::decode(&many.words(9)).is_err());
        let none = Wanted { count: 0, ..run };
        assert!(Wanted::decode(&none.words(9)).is_err());
    }

    #[test]
    fn many_slots_come_in_parts_and_none_come_as_an_answer() {
        for (count, parts) in [(0, 1), (1, 1), (SLOTS_AT_ONCE, 1), (SLOTS_AT_ONCE + 1, 2)] {
            let mut sent = Vec::new();
            answer(5, &slots(count), |words| sent.push(words.to_vec()));
            let follows = sent.iter().map(|words| Follows::decode(words[1]));
            let mut expected = vec![Ok(Follows::More); parts];
            expected[parts - 1] = Ok(Follows::Nothing);
            assert_eq!(follows.collect::<Vec<_>>(), expected);
            let words: usize = sent.iter().map(|words| words.len() - 2).sum();
            assert_eq!(words, count * SLOT_WORDS);
        }
    }

    #[test]
    fn what_the_next_primary_has_lent_stays_where_a_region_changes_hands() {
        let (reserves, region) = (Reserves::default(), Addr::from_raw(64).region());
        let (before, heir) = (MachineId(2), MachineId(3));
        let now = Timestamp::from_raw(9);
        let lent = |at: usize| vec![slots(4)[at]];
        let mut stocks = reserves.stocks.lock();
        stocks.put(before, &lent(1), now);
        stocks.put(heir, &lent(2), now);
        drop(stocks);
        reserves.forget(region, Some(heir));
        assert_eq!(reserves.all(), [lent(2)[0].addr]);
        reserves.forget(region, None);
        assert_eq!(reserves.all(), []);
    }

    proptest! {
        #[test]
        fn garbage_is_refused_and_never_panics(words in proptest::collection::vec(any::<u64>(), 0..8)) {
            let _ = Wanted::decode(&words);
        }
    }
}
