//! The leases of one machine: those it holds and those it grants, as CM or as another machine.

use fencepost_fabric::MachineId;

use super::message::{LeaseBody, LeaseMessage};
use super::peer::Peer;
use super::{LeaseEvent, LeaseOrder, LeaseTerms};
use crate::configuration::Configuration;
use crate::ids::ConfigurationId;

/// All leases of a machine.
#[derive(Debug)]
pub struct Leases {
    terms: LeaseTerms,
    me: MachineId,
    cm: MachineId,
    configuration: ConfigurationId,
    /// The configuration with which this CM began, as far as is known here.
    pub(super) since: ConfigurationId,
    /// At the CM all others, by id; elsewhere the CM alone.
    pub(super) peers: Vec<Peer>,
    /// Of how many machines, itself counted, a CM needs a lease.
    need: usize,
    /// Whether the CM is granted leases.
    granting: bool,
    stopped: bool,
    next_number: u64,
    next_renewal: u64,
    held_until: u64,
    /// When leases of earlier configurations will have run out.
    old_until: u64,
    /// The same, as far as anybody can know who has applied this configuration.
    before_until: u64,
    awaiting: bool,
    /// Before that nobody is suspected.
    excused_until: u64,
    counts: LeaseCounts,
    /// Room to find out what a majority grants.
    scratch: Vec<u64>,
}

/// What has happened to leases since the machine was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseCounts {
    /// Leases that expired here, so that their holder was suspected.
    pub suspicions: u64,
    /// Suspected machines that were heard of again in the same configuration.
    pub false_suspicions: u64,
}

/// Something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseStep {
    /// Send this.
    Send(MachineId, LeaseMessage),
    /// Know this.
    Event(LeaseEvent),
}

/// What a message leads to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// The answer to its sender.
    pub answer: Option<LeaseMessage>,
    /// What there is to know.
    pub event: Option<LeaseEvent>,
}

impl Leases {
    /// The leases of `me` in a configuration that it has applied. Its requests are numbered from
    /// `life`, which is drawn at random whenever the machine is started. A CM watches a machine from when
    /// it first hears of it, or is told to ([`LeaseOrder::Watch`]).
    pub fn new(
        me: MachineId,
        configuration: &Configuration,
        terms: LeaseTerms,
        life: u64,
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
            next_number: life,
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

    /// Whether this machine is a member of its configuration, for all that happens now. Whoever answers
    /// checks it after the last read and before the answer.
    pub fn holds(&self, now: u64) -> bool {
        now < self.held_until
    }

    /// Until when [`Self::holds`] is true if no further message comes; to be published to other threads.
    pub fn held_until(&self) -> u64 {
        self.held_until
    }

    /// How long, by the clock of anybody, machines may yet believe in leases of this configuration or earlier ones that
    /// stand on what this machine has granted. Who has promised ([`LeaseOrder::Promise`]) grants nothing more.
    ///
    /// A CM holds what a majority grants, and grants nothing for longer (LEASE-2): of the answers of a majority the
    /// longest says how long the CM and all to whom it has granted a lease may believe in it. That is so while
    /// a configuration lasts; of one that is not applied here, or was applied less than a lease ago, the CM may have
    /// counted on others before, and then it is a whole lease.
    pub fn granted_ns(&self, base: ConfigurationId, now: u64) -> u64 {
        if base != self.configuration {
            return self.terms.whole_ns();
        }
        let granted = self.peers.iter().filter_map(|peer| peer.granted_until);
        let until = granted.fold(self.old_until.max(self.before_until), u64::max);
        self.terms.lengthened(until.saturating_sub(now))
    }

    /// At a CM: whether all others have been heard of.
    pub fn watches_all(&self) -> bool {
        let mut peers = self.peers.iter();
        peers.all(|peer| peer.granted_until.is_some())
    }

    /// What has happened so far.
    pub fn counts(&self) -> LeaseCounts {
        self.counts
    }

    /// When to call [`Self::poll`] at the latest, unless a message or an order comes before; `u64::MAX` for
    /// never.
    pub fn next_wake(&self) -> u64 {
        if self.stopped {
            return u64::MAX;
        }
        let watched = self.peers.iter().filter(|peer| !peer.suspected);
        let expiry = watched.filter_map(|peer| peer.granted_until).min();
        let expiry = expiry.map(|expiry| expiry.max(self.excused_until));
        let renewal = Some(self.next_renewal).filter(|_| self.me != self.cm);
        // A CM that has no lease gets one by a message.
        let awaiting = self.awaiting && self.holds(self.old_until);
        let old = Some(self.old_until).filter(|_| awaiting);
        let all = [expiry, renewal, old].into_iter().flatten();
        all.min().unwrap_or(u64::MAX)
    }

    /// The next thing to do, `None` when nothing is left; to be called until then, after every message and
    /// order and at [`Self::next_wake`].
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
            // Its lease has run out, too: there is nothing to wake for before it is renewed.
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

    /// Suspects nobody before `until`: whoever calls this did not run for a while, and so it may have been for others, whose
    /// messages are about to come. Leases are no longer for that.
    pub fn excuse(&mut self, until: u64) {
        self.excused_until = self.excused_until.max(until);
    }

    /// Takes a message.
    pub fn receive(&mut self, now: u64, from: MachineId, message: LeaseMessage) -> Received {
        if self.stopped {
            return Received::default();
        }
        let newer = message.configuration > self.configuration;
        let newer = newer.then_some(LeaseEvent::Newer(from, message.configuration));
        let Ok(at) = self.peers.binary_search_by_key(&from, |peer| peer.machine) else {
            let old = message.configuration < self.configuration && from != self.me;
            let event = newer.or(old.then_some(LeaseEvent::Outdated(from)));
            return Received {
                answer: None,
                event,
            };
        };
        if message.configuration < self.since {
            return Received::default();
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
        Received {
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

    /// For how long a CM may grant a lease now (LEASE-2).
    fn grantable_us(&self, now: u64) -> u32 {
        if self.me != self.cm {
            return 0;
        }
        // By the clock of the holder, which may be slower than that of this machine.
        let left_us = self.terms.shortened(self.held_until.saturating_sub(now)) / 1000;
        u32::try_from(left_us).map_or(self.terms.duration_us, |left| {
            left.min(self.terms.duration_us)
        })
    }

    /// A machine believes in what the CM granted it, a CM in what a majority did.
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

    /// A request to a peer.
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

    /// Does what a reconfiguration wants.
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

    /// The next configuration under the same CM.
    fn go_on(&mut self, configuration: &Configuration, now: u64) {
        if self.me != self.cm {
            for cm in &mut self.peers {
                cm.is_there(now, self.terms);
            }
            return;
        }
        let gone = self
            .peers
            .iter()
            .filter(|peer| !configuration.has(peer.machine));
        let gone_until = gone.filter_map(|peer| peer.granted_until).max();
        self.old_until = self.old_until.max(gone_until.unwrap_or(0));
        self.peers.retain(|peer| configuration.has(peer.machine));
        for machine in configuration.machines().iter().filter(|m| m.id != self.me) {
            if let Err(at) = self.peers.binary_search_by_key(&machine.id, |p| p.machine) {
                self.peers.insert(at, Peer::new(machine.id));
            }
        }
        for peer in &mut self.peers {
            peer.counted = true;
            if std::mem::take(&mut peer.suspected) {
                // It has answered a probe since, and is watched from when it applies the configuration.
                peer.granted_until = None;
            }
        }
        self.count_machines(configuration);
    }

    /// Leases under a CM with whom none has been exchanged.
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
