//! The two leases between this machine and a peer: the one granted to the peer and the one held
//! from it.

use fencepost_fabric::MachineId;

use super::LeaseTerms;

/// The number of requests whose send times are remembered. A machine makes five within one lease;
/// older requests are worthless.
const REMEMBERED: usize = 8;
/// Request numbers of one incarnation differ by less than this; numbers of different incarnations
/// almost never do.
const ONE_INCARNATION: u64 = 1 << 32;

#[derive(Debug)]
pub(super) struct Peer {
    pub machine: MachineId,
    /// Whether the peer may be granted leases, and its grants count.
    pub counted: bool,
    /// The number of the peer's newest request.
    heard: Option<u64>,
    /// The time at which the peer's lease here has expired; `None` while the peer is not watched.
    pub granted_until: Option<u64>,
    /// A request that could not be granted when it arrived.
    pub ungranted: Option<u64>,
    /// Whether the peer's lease has expired here.
    pub suspected: bool,
    /// The numbers of requests sent to the peer, with the times at which they were sent.
    asked: [Option<(u64, u64)>; REMEMBERED],
    next_asked: usize,
    /// The end of the lease that the peer granted.
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

    /// Records a request's number; returns false if it is not newer than the previous one
    /// (LEASE-4).
    pub fn hears(&mut self, number: u64) -> bool {
        let newer = self
            .heard
            .is_none_or(|heard| (1..ONE_INCARNATION).contains(&number.wrapping_sub(heard)));
        if newer {
            self.heard = Some(number);
            self.ungranted = None;
        }
        newer
    }

    /// Restarts the peer's lease here at `now`.
    pub fn watch(&mut self, now: u64, terms: LeaseTerms) {
        let until = now.saturating_add(terms.expired_ns());
        self.granted_until = self.granted_until.max(Some(until));
    }

    /// Records that the peer is the CM and has sent a configuration: it is not suspected in that
    /// one.
    pub fn is_there(&mut self, now: u64, terms: LeaseTerms) {
        self.suspected = false;
        self.watch(now, terms);
    }

    /// Returns whether the peer's lease has expired here; true only once.
    pub fn expires(&mut self, now: u64) -> bool {
        let expired = !self.suspected && self.granted_until.is_some_and(|until| until <= now);
        self.suspected |= expired;
        expired
    }

    /// Records when a request was sent.
    pub fn asks(&mut self, number: u64, now: u64) {
        self.asked[self.next_asked] = Some((number, now));
        self.next_asked = (self.next_asked + 1) % REMEMBERED;
    }

    /// Records a grant: the lease counts from the time at which the request was sent.
    pub fn is_granted(&mut self, number: u64, granted_ns: u64, terms: LeaseTerms) {
        let asked = self.asked.iter().flatten().find(|asked| asked.0 == number);
        if let Some((_, sent)) = asked {
            let until = sent.saturating_add(terms.held_ns(granted_ns));
            self.held_until = self.held_until.max(until);
        }
    }
}
