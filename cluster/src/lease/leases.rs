//! The leases that one machine holds and grants, as the CM or as another machine.

use fencepost_fabric::MachineId;

use super::message::{LeaseBody, LeaseMessage};
use super::peer::Peer;
use super::{LeaseEvent, LeaseOrder, LeaseTerms};
use crate::configuration::Configuration;
use crate::ids::ConfigurationId;

/// All leases that a machine holds and grants.
#[derive(Debug)]
pub struct Leases {
    terms: LeaseTerms,
    me: MachineId,
    cm: MachineId,
    configuration: ConfigurationId,
    /// The first known configuration of this CM.
    pub(super) since: ConfigurationId,
    /// At the CM all other machines, by id; on other machines the CM alone.
    pub(super) peers: Vec<Peer>,
    /// The number of machines, itself included, whose leases a CM needs.
    need: usize,
    /// Whether this machine grants leases to the CM.
    granting: bool,
    stopped: bool,
    next_number: u64,
    next_renewal: u64,
    held_until: u64,
    /// The time at which leases of earlier configurations have expired.
    old_until: u64,
    /// An upper bound of the same time: a whole lease after this machine applied its configuration.
    before_until: u64,
    awaiting: bool,
    /// No machine is suspected before this time.
    excused_until: u64,
    counts: LeaseCounts,
    /// A reused buffer for the end of a majority's leases.
    scratch: Vec<u64>,
}

/// The numbers of lease events since the machine started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseCounts {
    /// The number of leases that expired here, so that their holder was suspected.
    pub suspicions: u64,
    /// The number of suspected machines that sent a message again in the same configuration.
    pub false_suspicions: u64,
}

/// A step for the owner of the leases to carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseStep {
    /// Send this message to the machine.
    Send(MachineId, LeaseMessage),
    /// Handle this event.
    Event(LeaseEvent),
}

/// The result of a received message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseResult {
    /// The answer to the sender of the message.
    pub answer: Option<LeaseMessage>,
    /// The event for the owner to handle.
    pub event: Option<LeaseEvent>,
}

impl Leases {
    /// Returns the leases of `me` in a configuration that `me` has applied. Its requests are
    /// numbered from `incarnation`, a random number drawn whenever the machine starts. A CM watches
    /// a machine after its first message or after [`LeaseOrder::Watch`].
    pub fn new(
        me: MachineId,
        configuration: &Configuration,
        terms: LeaseTerms,
        incarnation: u64,
        now: u64,
    ) -> Self {
        let mut leases = Self {
            terms,
            me,
            cm: configuration.cm(),
            configuration: configuration.id(),
            since: configuration.id(),
            peers: Vec::new(),
            need: 1,
            granting: true,
            stopped: false,
            next_number: incarnation,
            next_renewal: now,
            held_until: 0,
            old_until: 0,
            before_until: now.saturating_add(terms.expired_ns()),
            awaiting: false,
            excused_until: 0,
            counts: LeaseCounts::default(),
            scratch: Vec::new(),
        };
        leases.begin(configuration, now);
        leases
    }

    /// Returns whether this machine holds its lease, and so is a member of its configuration at
    /// `now`. A machine that answers a request checks this after its last read and before the
    /// answer.
    pub fn holds(&self, now: u64) -> bool {
        now < self.held_until
    }

    /// Returns the time until which [`Self::holds`] is true if no further message arrives; to be
    /// published to other threads.
    pub fn held_until(&self) -> u64 {
        self.held_until
    }

    /// Returns how long, by any machine's clock, leases may last that depend on grants of this
    /// machine. It counts leases of this configuration and of earlier ones. After
    /// [`LeaseOrder::Promise`] this machine grants leases to no other CM.
    ///
    /// A CM holds a lease as long as a majority grants it, and grants no longer leases (LEASE-2).
    /// So the longest of a majority's answers bounds the lease of the CM and the leases that it
    /// granted. This holds within one configuration. If `base` is not applied here, the CM may have
    /// counted on other machines before, and the result is a whole lease. The same bound holds if
    /// `base` was applied less than a lease ago.
    pub fn granted_ns(&self, base: ConfigurationId, now: u64) -> u64 {
        if base != self.configuration {
            return self.terms.whole_ns();
        }
        let granted = self.peers.iter().filter_map(|peer| peer.granted_until);
        let until = granted.fold(self.old_until.max(self.before_until), u64::max);
        self.terms.lengthened(until.saturating_sub(now))
    }

    /// Returns whether a CM has heard of all other machines.
    pub fn watches_all(&self) -> bool {
        let mut peers = self.peers.iter();
        peers.all(|peer| peer.granted_until.is_some())
    }

    /// Returns the numbers of events so far.
    pub fn counts(&self) -> LeaseCounts {
        self.counts
    }

    /// Returns the latest time of the next call of [`Self::poll`], if no message or order arrives
    /// before; `u64::MAX` for never.
    pub fn next_wake(&self) -> u64 {
        if self.stopped {
            return u64::MAX;
        }
        let watched = self.peers.iter().filter(|peer| !peer.suspected);
        let expiry = watched.filter_map(|peer| peer.granted_until).min();
        let expiry = expiry.map(|expiry| expiry.max(self.excused_until));
        let renewal = Some(self.next_renewal).filter(|_| self.me != self.cm);
        // A CM without a lease gets one only by a message, so it does not wake for one.
        let awaiting = self.awaiting && self.holds(self.old_until);
        let old = Some(self.old_until).filter(|_| awaiting);
        let all = [expiry, renewal, old].into_iter().flatten();
        all.min().unwrap_or(u64::MAX)
    }

    /// Returns the next step, or `None` if none is due. Call this until it returns `None`, after
    /// every message and order and at [`Self::next_wake`].
    pub fn poll(&mut self, now: u64) -> Option<LeaseStep> {
        if self.stopped {
            return None;
        }
        if self.me != self.cm && now >= self.next_renewal {
            self.next_renewal = now.saturating_add(self.terms.renewal_ns());
            let body = self.request(0, now)?;
            return Some(LeaseStep::Send(self.cm, self.message(body)));
        }
        if now >= self.excused_until
            && let Some(peer) = self
                .peers
                .iter_mut()
                .find_map(|p| p.expires(now).then_some(p))
        {
            self.counts.suspicions += 1;
            return Some(LeaseStep::Event(LeaseEvent::Expired(peer.machine)));
        }
        if self.awaiting && now >= self.old_until {
            if self.holds(now) {
                self.awaiting = false;
                let over = LeaseEvent::OldRunOut(self.configuration);
                return Some(LeaseStep::Event(over));
            }
            // The CM's own lease has expired, too: nothing can be done before it is renewed.
            self.old_until = self.old_until.max(self.held_until);
        }
        let duration_us = self.grantable_us(now);
        let waiting = |peer: &&mut Peer| peer.counted && peer.ungranted.is_some();
        let peer = self
            .peers
            .iter_mut()
            .find(waiting)
            .filter(|_| duration_us > 0)?;
        let granted = peer.ungranted.take()?;
        peer.watch(now, self.terms);
        let body = LeaseBody::Grant {
            granted,
            duration_us,
        };
        Some(LeaseStep::Send(peer.machine, self.message(body)))
    }

    /// Suspects no machine before `until`. Call this if this thread did not run for a while: other
    /// machines may have paused too, and their messages may be about to arrive. This extends no
    /// lease.
    pub fn excuse(&mut self, until: u64) {
        self.excused_until = self.excused_until.max(until);
    }

    /// Handles a message and returns the answer and the event that follow from it.
    pub fn receive(&mut self, now: u64, from: MachineId, message: LeaseMessage) -> LeaseResult {
        if self.stopped {
            return LeaseResult::default();
        }
        let newer = message.configuration > self.configuration;
        let newer = newer.then_some(LeaseEvent::Newer(from, message.configuration));
        let Ok(at) = self.peers.binary_search_by_key(&from, |peer| peer.machine) else {
            let old = message.configuration < self.configuration && from != self.me;
            let event = newer.or(old.then_some(LeaseEvent::Outdated(from)));
            return LeaseResult {
                answer: None,
                event,
            };
        };
        if message.configuration < self.since {
            return LeaseResult::default();
        }
        let (answer, event) = match message.body {
            LeaseBody::Request {
                number,
                duration_us,
            } if duration_us == self.terms.duration_us => self.requested(at, number, now),
            LeaseBody::GrantAndRequest {
                granted,
                duration_us,
                number,
            } if from == self.cm => {
                self.granted(at, granted, duration_us);
                self.requested(at, number, now)
            }
            LeaseBody::Grant {
                granted,
                duration_us,
            } => {
                self.granted(at, granted, duration_us);
                (None, None)
            }
            _ => (None, None),
        };
        LeaseResult {
            answer: answer.map(|body| self.message(body)),
            event: event.or(newer),
        }
    }

    fn requested(
        &mut self,
        at: usize,
        number: u64,
        now: u64,
    ) -> (Option<LeaseBody>, Option<LeaseEvent>) {
        let peer = &mut self.peers[at];
        if !self.granting || !peer.counted || !peer.hears(number) {
            return (None, None);
        }
        peer.watch(now, self.terms);
        let returned = std::mem::take(&mut peer.suspected);
        let event = returned.then_some(LeaseEvent::Returned(peer.machine));
        self.counts.false_suspicions += u64::from(returned);
        if self.me != self.cm {
            let duration_us = self.terms.duration_us;
            let grant = LeaseBody::Grant {
                granted: number,
                duration_us,
            };
            return (Some(grant), event);
        }
        let duration_us = self.grantable_us(now);
        let answer = self.request(at, now).map(|request| match request {
            LeaseBody::Request { number: own, .. } if duration_us > 0 => {
                LeaseBody::GrantAndRequest {
                    granted: number,
                    duration_us,
                    number: own,
                }
            }
            request => request,
        });
        if duration_us == 0 {
            self.peers[at].ungranted = Some(number);
        }
        (answer, event)
    }

    fn granted(&mut self, at: usize, number: u64, duration_us: u32) {
        let granted_ns = u64::from(duration_us) * 1000;
        self.peers[at].is_granted(number, granted_ns, self.terms);
        self.find_held_until();
    }

    /// Returns for how many microseconds a CM may grant a lease now (LEASE-2).
    fn grantable_us(&self, now: u64) -> u32 {
        if self.me != self.cm {
            return 0;
        }
        // The time is by the clock of the holder, which may be slower than that of this machine.
        let left_us = self.terms.shortened(self.held_until.saturating_sub(now)) / 1000;
        u32::try_from(left_us).map_or(self.terms.duration_us, |left| {
            left.min(self.terms.duration_us)
        })
    }

    /// Computes until when this machine holds its lease: by the CM's grant, or at the CM by the
    /// grants of a majority.
    fn find_held_until(&mut self) {
        if self.me != self.cm {
            self.held_until = self.peers.first().map_or(0, |cm| cm.held_until);
            return;
        }
        let Some(others) = self.need.checked_sub(2) else {
            self.held_until = u64::MAX;
            return;
        };
        self.scratch.clear();
        let counted = self.peers.iter().filter(|peer| peer.counted);
        self.scratch.extend(counted.map(|peer| peer.held_until));
        self.scratch.sort_unstable_by(|a, b| b.cmp(a));
        self.held_until = self.scratch.get(others).copied().unwrap_or(0);
    }

    /// Returns a request to a peer, and records when it was sent.
    fn request(&mut self, at: usize, now: u64) -> Option<LeaseBody> {
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        self.peers.get_mut(at)?.asks(number, now);
        let duration_us = self.terms.duration_us;
        Some(LeaseBody::Request {
            number,
            duration_us,
        })
    }

    fn message(&self, body: LeaseBody) -> LeaseMessage {
        LeaseMessage {
            configuration: self.configuration,
            body,
        }
    }

    /// Carries out an order of the reconfiguration.
    pub fn obey(&mut self, order: LeaseOrder, now: u64) {
        match order {
            LeaseOrder::Promise { to } => self.granting &= to == self.cm,
            LeaseOrder::Narrow { left_out, need } => {
                let out = self.peers.iter_mut();
                for peer in out.filter(|peer| left_out.contains(&peer.machine)) {
                    peer.counted = false;
                    peer.ungranted = None;
                }
                self.need = self.need.max(need);
                self.find_held_until();
            }
            LeaseOrder::Apply {
                configuration,
                old_until,
            } => self.apply(&configuration, old_until, now),
            LeaseOrder::Watch { machine } => {
                let mut peers = self.peers.iter_mut();
                if let Some(peer) = peers.find(|peer| peer.machine == machine) {
                    peer.watch(now, self.terms);
                }
            }
            LeaseOrder::AwaitOld => self.awaiting = true,
            LeaseOrder::Stop => {
                self.stopped = true;
                self.held_until = 0;
            }
        }
    }

    fn apply(&mut self, configuration: &Configuration, old_until: Option<u64>, now: u64) {
        if configuration.id() <= self.configuration || self.stopped {
            return;
        }
        let goes_on =
            configuration.cm() == self.cm && configuration.id() == self.configuration.next();
        self.configuration = configuration.id();
        self.granting = true;
        self.awaiting = false;
        self.before_until = now.saturating_add(self.terms.expired_ns());
        if goes_on {
            self.go_on(configuration, now);
            return;
        }
        self.since = configuration.id();
        self.cm = configuration.cm();
        self.old_until = self.old_until.max(old_until.unwrap_or(0));
        self.begin(configuration, now);
    }

    /// Applies the next configuration under the same CM.
    fn go_on(&mut self, configuration: &Configuration, now: u64) {
        if self.me != self.cm {
            for cm in &mut self.peers {
                cm.is_there(now, self.terms);
            }
            return;
        }
        let removed = self
            .peers
            .iter()
            .filter(|peer| !configuration.has(peer.machine));
        let removed_until = removed.filter_map(|peer| peer.granted_until).max();
        self.old_until = self.old_until.max(removed_until.unwrap_or(0));
        self.peers.retain(|peer| configuration.has(peer.machine));
        for machine in configuration.machines().iter().filter(|m| m.id != self.me) {
            if let Err(at) = self.peers.binary_search_by_key(&machine.id, |p| p.machine) {
                self.peers.insert(at, Peer::new(machine.id));
            }
        }
        for peer in &mut self.peers {
            peer.counted = true;
            if std::mem::take(&mut peer.suspected) {
                // The peer has answered a probe since; it is watched from when it applies the
                // configuration.
                peer.granted_until = None;
            }
        }
        self.count_machines(configuration);
    }

    /// Begins leases under a CM with which this machine has exchanged none.
    fn begin(&mut self, configuration: &Configuration, now: u64) {
        self.peers.clear();
        if self.me == self.cm {
            let others = configuration.machines().iter().filter(|m| m.id != self.me);
            self.peers
                .extend(others.map(|machine| Peer::new(machine.id)));
        } else {
            let mut cm = Peer::new(self.cm);
            cm.is_there(now, self.terms);
            self.peers.push(cm);
            self.next_renewal = now;
        }
        self.count_machines(configuration);
    }

    fn count_machines(&mut self, configuration: &Configuration) {
        self.need = configuration.majority();
        self.scratch.clear();
        self.scratch.reserve(configuration.machines().len());
        self.find_held_until();
    }
}
