//! Slots of this machine that a peer has reserved for new objects ([`super::reserve`]), at their primary.
//!
//! # Invariants
//! * LENT-1: a lent slot is not allocated, its payload is zeroed, and nobody but the peer's commits locks it. It
//!   is in no free list, so its block keeps its class.
//! * LENT-2: only a slot that was lent to a peer becomes its new object, once.
//!
//! Where there is none, the peer's log is read first as far as it has come: what it gave back before it asked may be in it.
//! Where a slot needs another region of this machine, the answer waits until that has come.

use std::collections::HashSet;

use fencepost_fabric::Completion;

use fencepost_storage::Addr;
use fencepost_storage::classes::Class;
use fencepost_storage::lanes::{Lane, Supply};
use foldhash::fast::FixedState;

use super::allotment::ROUNDS;
use super::message::{Reader, Slot};
use super::reserve::{self, RESERVED, Reserved, Wanted};
use super::{Link, Network};
use crate::machine::Machine;
use crate::record::BadRecord;

/// What one peer has.
#[derive(Default)]
pub(super) struct Lent {
    slots: HashSet<Addr, FixedState>,
    /// What it has asked for, and what the answer waits for.
    later: Vec<(Ask, Awaited)>,
}

#[derive(Clone, Copy)]
struct Ask {
    ticket: u64,
    wanted: Wanted,
    /// Whether all has been read that was in the peer's log when this came.
    log_read: bool,
    /// Regions that came and were taken by others.
    rounds: u32,
}

enum Awaited {
    Log,
    Region(Completion<bool>),
}

impl Lent {
    /// RESERVE: lends what there is memory for.
    pub fn reserve(
        &mut self,
        here: (&Machine, &Network),
        lane: usize,
        link: &Link,
        words: &[u64],
    ) -> Result<(), BadRecord> {
        let (ticket, wanted) = Wanted::decode(words)?;
        let ask = Ask {
            ticket,
            wanted,
            log_read: false,
            rounds: 0,
        };
        self.lend(here, lane, link, ask);
        Ok(())
    }

    fn lend(
        &mut self,
        (machine, network): (&Machine, &Network),
        lane: usize,
        link: &Link,
        ask: Ask,
    ) {
        let regions = machine.regions();
        let slots = loop {
            let there = regions.count();
            let slots = take(machine, lane, ask.wanted);
            // A region that has come since is not full, and has not been tried.
            if !slots.is_empty() || regions.count() == there {
                break slots;
            }
        };
        if slots.is_empty() && !ask.log_read {
            self.later.push((ask, Awaited::Log));
            return;
        }
        // Otherwise it is not for want of a region.
        if slots.is_empty() && regions.is_full() && ask.rounds < ROUNDS {
            let grown = network.grow(machine, ask.wanted.near);
            let rounds = ask.rounds + 1;
            let ask = Ask { rounds, ..ask };
            self.later.push((ask, Awaited::Region(grown)));
            return;
        }
        self.slots.extend(slots.iter().map(|slot| slot.addr));
        reserve::answer(ask.ticket, &slots, |words| {
            link.send_surely(RESERVED, words)
        });
    }

    /// Lends what has waited for the log, which has been `read` as far as it had come, or for a region that has come, or
    /// will not come; whether there was anything.
    pub fn lend_later(
        &mut self,
        here: (&Machine, &Network),
        lane: usize,
        link: &Link,
        read: bool,
    ) -> bool {
        let mut any = false;
        let mut at = 0;
        while let Some((_, awaited)) = self.later.get_mut(at) {
            let grown = match awaited {
                Awaited::Log => read.then_some(Ok(true)),
                Awaited::Region(grown) => grown.take(),
            };
            let Some(grown) = grown else {
                at += 1;
                continue;
            };
            any = true;
            let (ask, _) = self.later.remove(at);
            let send = |words: &[u64]| link.send_surely(RESERVED, words);
            match grown {
                Ok(true) => {
                    let ask = Ask {
                        log_read: true,
                        ..ask
                    };
                    self.lend(here, lane, link, ask);
                }
                // Without a region there is no memory.
                Ok(false) => reserve::answer(ask.ticket, &[], send),
                Err(_) => reserve::answer_later(ask.ticket, send),
            }
        }
        any
    }

    /// Whether nothing waits.
    pub fn is_at_rest(&self) -> bool {
        self.later.is_empty()
    }

    /// UNRESERVE: the slots may serve others.
    pub fn give_back(
        &mut self,
        machine: &Machine,
        lane: usize,
        words: &[u64],
    ) -> Result<(), BadRecord> {
        let mut reader = Reader(words);
        let mut lane = machine.lanes().enter(lane);
        while !reader.0.is_empty() {
            let addr = Addr::from_raw(reader.word()?);
            if !self.slots.remove(&addr) {
                return Err(BadRecord("a slot comes back that was not lent"));
            }
            lane.give_back(machine.regions(), addr);
        }
        Ok(())
    }

    /// The peer is lost: all that it has serves others.
    pub fn take_back(&mut self, machine: &Machine, lane: usize) {
        self.later.clear();
        let mut lane = machine.lanes().enter(lane);
        for addr in self.slots.drain() {
            lane.give_back(machine.regions(), addr);
        }
    }

    /// Whether the peer may make an object there.
    pub fn has(&self, addr: Addr) -> bool {
        self.slots.contains(&addr)
    }

    /// It has made one.
    pub fn used(&mut self, addr: Addr) {
        self.slots.remove(&addr);
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = Addr> {
        self.slots.iter().copied()
    }
}

fn take(machine: &Machine, lane: usize, wanted: Wanted) -> Vec<Reserved> {
    let Wanted {
        class, count, near, ..
    } = wanted;
    let mut slots = Vec::with_capacity(count);
    if wanted.run {
        let run = |lane: &mut Lane, supply: Supply<'_>| lane.alloc_run(supply, class, count);
        let Ok(first) = machine.take_slots(lane, run) else {
            return slots;
        };
        let stride = (class.slot_words() * 8) as u64;
        let addrs = (0..count as u64).map(|i| Addr::from_raw(first.raw() + i * stride));
        slots.extend(addrs.filter_map(|addr| prepare(machine, class, addr)));
        return slots;
    }
    let one = |lane: &mut Lane, supply: Supply<'_>| lane.alloc(supply, class, near);
    while slots.len() < count {
        // For the first one everything is tried.
        let addr = match slots.is_empty() {
            true => machine.take_slots(lane, one),
            false => machine.take_slots_at_hand(lane, one),
        };
        let Ok(addr) = addr else { break };
        slots.extend(prepare(machine, class, addr));
    }
    slots
}

fn prepare(machine: &Machine, class: Class, addr: Addr) -> Option<Reserved> {
    let (base, incarnation) = machine.empty_slot(addr)?;
    let slot = Slot { class, incarnation };
    let since = 0;
    Some(Reserved {
        addr,
        base,
        slot,
        since,
    })
}
