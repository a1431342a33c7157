//! The two leases between this machine and another one: the one granted here and the one held there.

use fencepost_fabric::MachineId;

use super::LeaseTerms;

/// Requests whose times are remembered. In the time of one lease five are made; older ones are worth nothing.
const REMEMBERED: usize = 8;
/// Numbers of one life are less than this apart; those of another life are not, as good as always.
const ONE_LIFE: u64 = 1 << 32;

#[derive(Debug)]
pub(super) struct Peer {
    pub machine: MachineId,
    /// It may be granted leases, and what it grants counts.
    pub counted: bool,
    /// The newest request of it.
    heard: Option<u64>,
    /// When the lease it has here will have expired; `None` while it is not watched.
    pub granted_until: Option<u64>,
    /// A request that could not be granted when it came.
    pub ungranted: Option<u64>,
    /// Its lease has expired here.
    pub suspected: bool,
    /// Requests to it, with the times they were sent at.
    asked: [Option<(u64, u64)>; REMEMBERED],
    next_asked: usize,
    /// Until when the lease that it granted is believed in.
    pub held_until: u64,
}

impl Peer {
    pub fn new(machine: MachineId) -> Self {
        Self {
            machine,
            counted: true,
            heard: None,
            granted_until: None,
            ungranted: None,
            suspected: false,
            asked: [None; REMEMBERED],
            next_asked: 0,
            held_until: 0,
        }
    }

    /// Takes a request; false for one that is not newer than what was heard before (LEASE-4).
    pub fn hears(&mut self, number: u64) -> bool {
        let newer = self
            .heard
            .is_none_or(|heard| (1..ONE_LIFE).contains(&number.wrapping_sub(heard)));
        if newer {
            self.heard = Some(number);
            self.ungranted = None;
        }
        newer
    }

    /// Counts the machine's lease here from now.
    pub fn watch(&mut self, now: u64, terms: LeaseTerms) {
        let until = now.saturating_add(terms.expired_ns());
        self.granted_until = self.granted_until.max(Some(until));
    }

    /// The machine is the CM and has sent a configuration: it is not suspected in that.
    pub fn is_there(&mut self, now: u64, terms: LeaseTerms) {
        self.suspected = false;
        self.watch(now, terms);
    }

    /// Whether the machine's lease has expired here, which is told once.
    pub fn expires(&mut self, now: u64) -> bool {
        let expired = !self.suspected && self.granted_until.is_some_and(|until| until <= now);
        self.suspected |= expired;
        expired
    }

    /// Remembers when a request was sent.
    pub fn asks(&mut self, number: u64, now: u64) {
        self.asked[self.next_asked] = Some((number, now));
        self.next_asked = (self.next_asked + 1) % REMEMBERED;
    }

    /// Takes a grant: the lease counts from when the request was sent.
    pub fn is_granted(&mut self, number: u64, granted_ns: u64, terms: LeaseTerms) {
        let asked = self.asked.iter().flatten().find(|asked| asked.0 == number);
        if let Some((_, sent)) = asked {
            let until = sent.saturating_add(terms.held_ns(granted_ns));
            self.held_until = self.held_until.max(until);
        }
    }
}
