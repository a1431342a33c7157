//! Slot leases: slots of this machine that a peer has reserved for new objects
//! ([`super::slot_reservations`]), at their primary.
//!
//! # Invariants
//! * SLOTLEASE-1: a leased slot is not allocated, its payload is zeroed, and only the peer's
//!   commits lock it. It is in no free list, so its block keeps its class.
//! * SLOTLEASE-2: only a slot that is leased to a peer becomes its new object, once.
//!
//! If no slot is free, the peer's log is drained first: it may contain slots that the peer returned
//! before its request. If a slot needs another region of this machine, the answer waits for the
//! region.

use std::collections::HashSet;

use fencepost_fabric::Completion;

use fencepost_storage::Addr;
use fencepost_storage::classes::Class;
use fencepost_storage::lanes::{Lane, LaneResources};
use foldhash::fast::FixedState;

use super::message::{Slot, WordReader};
use super::region_allocation::ROUNDS;
use super::slot_messages::{self, RESERVED, ReservedSlot, SlotRequest};
use super::{Network, PeerSender};
use crate::machine::Machine;
use crate::record::BadRecord;

/// The slot leases of one peer.
#[derive(Default)]
pub(super) struct SlotLeases {
    slots: HashSet<Addr, FixedState>,
    /// Requests of the peer that wait, and what each waits for.
    later: Vec<(LeaseRequest, LeaseBlocker)>,
}

#[derive(Clone, Copy)]
struct LeaseRequest {
    ticket: u64,
    wanted: SlotRequest,
    /// Whether the records that were in the peer's log when the request arrived have been
    /// processed.
    log_read: bool,
    /// Number of new regions whose space others took.
    rounds: u32,
}

enum LeaseBlocker {
    Log,
    Region(Completion<bool>),
}

impl SlotLeases {
    /// Handles RESERVE: leases as many slots as there is memory for.
    pub fn reserve(
        &mut self,
        local: (&Machine, &Network),
        lane: usize,
        sender: &PeerSender,
        words: &[u64],
    ) -> Result<(), BadRecord> {
        let (ticket, wanted) = SlotRequest::decode(words)?;
        let ask = LeaseRequest {
            ticket,
            wanted,
            log_read: false,
            rounds: 0,
        };
        self.lend(local, lane, sender, ask);
        Ok(())
    }

    fn lend(
        &mut self,
        (machine, network): (&Machine, &Network),
        lane: usize,
        sender: &PeerSender,
        ask: LeaseRequest,
    ) {
        let regions = machine.regions();
        let slots = loop {
            let there = regions.count();
            let slots = take(machine, lane, ask.wanted);
            // A region that was added meanwhile was not tried yet.
            if !slots.is_empty() || regions.count() == there {
                break slots;
            }
        };
        if slots.is_empty() && !ask.log_read {
            self.later.push((ask, LeaseBlocker::Log));
            return;
        }
        // Otherwise the failure does not come from a missing region.
        if slots.is_empty() && regions.is_full() && ask.rounds < ROUNDS {
            let grown = network.grow(machine, ask.wanted.near);
            let rounds = ask.rounds + 1;
            let ask = LeaseRequest { rounds, ..ask };
            self.later.push((ask, LeaseBlocker::Region(grown)));
            return;
        }
        self.slots.extend(slots.iter().map(|slot| slot.addr));
        slot_messages::answer(ask.ticket, &slots, |words| {
            sender.send_surely(RESERVED, words)
        });
    }

    /// Answers requests that waited for the log, if it has been `read` to its end, or for a region
    /// whose allocation has ended. Returns whether there was any.
    pub fn lend_later(
        &mut self,
        local: (&Machine, &Network),
        lane: usize,
        sender: &PeerSender,
        read: bool,
    ) -> bool {
        let mut any = false;
        let mut at = 0;
        while let Some((_, awaited)) = self.later.get_mut(at) {
            let grown = match awaited {
                LeaseBlocker::Log => read.then_some(Ok(true)),
                LeaseBlocker::Region(grown) => grown.take(),
            };
            let Some(grown) = grown else {
                at += 1;
                continue;
            };
            any = true;
            let (ask, _) = self.later.remove(at);
            let send = |words: &[u64]| sender.send_surely(RESERVED, words);
            match grown {
                Ok(true) => {
                    let ask = LeaseRequest {
                        log_read: true,
                        ..ask
                    };
                    self.lend(local, lane, sender, ask);
                }
                // Without a region there is no memory.
                Ok(false) => slot_messages::answer(ask.ticket, &[], send),
                Err(_) => slot_messages::answer_later(ask.ticket, send),
            }
        }
        any
    }

    /// Returns whether no request waits.
    pub fn is_at_rest(&self) -> bool {
        self.later.is_empty()
    }

    /// Handles UNRESERVE: returns the slots to the allocator.
    pub fn give_back(
        &mut self,
        machine: &Machine,
        lane: usize,
        words: &[u64],
    ) -> Result<(), BadRecord> {
        let mut reader = WordReader(words);
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

    /// Returns all slots of a lost peer to the allocator.
    pub fn take_back(&mut self, machine: &Machine, lane: usize) {
        self.later.clear();
        let mut lane = machine.lanes().enter(lane);
        for addr in self.slots.drain() {
            lane.give_back(machine.regions(), addr);
        }
    }

    /// Returns whether the peer may create an object there.
    pub fn has(&self, addr: Addr) -> bool {
        self.slots.contains(&addr)
    }

    /// Ends the lease of a slot in which the peer has created an object.
    pub fn used(&mut self, addr: Addr) {
        self.slots.remove(&addr);
    }

    /// Returns all leased slots.
    pub fn all(&self) -> impl Iterator<Item = Addr> {
        self.slots.iter().copied()
    }
}

fn take(machine: &Machine, lane: usize, wanted: SlotRequest) -> Vec<ReservedSlot> {
    let SlotRequest {
        class, count, near, ..
    } = wanted;
    let mut slots = Vec::with_capacity(count);
    if wanted.run {
        let run = |lane: &mut Lane, supply: LaneResources<'_>| lane.alloc_run(supply, class, count);
        let Ok(first) = machine.take_slots(lane, run) else {
            return slots;
        };
        let stride = (class.slot_words() * 8) as u64;
        let addrs = (0..count as u64).map(|i| Addr::from_raw(first.raw() + i * stride));
        slots.extend(addrs.filter_map(|addr| prepare(machine, class, addr)));
        return slots;
    }
    let one = |lane: &mut Lane, supply: LaneResources<'_>| lane.alloc(supply, class, near);
    while slots.len() < count {
        // For the first slot all sources are tried.
        let addr = match slots.is_empty() {
            true => machine.take_slots(lane, one),
            false => machine.take_available_slots(lane, one),
        };
        let Ok(addr) = addr else { break };
        slots.extend(prepare(machine, class, addr));
    }
    slots
}

fn prepare(machine: &Machine, class: Class, addr: Addr) -> Option<ReservedSlot> {
    let (base, incarnation) = machine.empty_slot(addr)?;
    let slot = Slot { class, incarnation };
    let since = 0;
    Some(ReservedSlot {
        addr,
        base,
        slot,
        since,
    })
}
