//! The leases of a running machine: [`fencepost_cluster::lease`] with a clock, mailboxes and a
//! thread.
//!
//! # Picture
//! ```text
//! peer ─ one-sided write ─► mailbox ─► leases N ─► Leases ─► write into the peer's mailbox, ring
//!                    lease bell ────► (a thread)     │ ├───► events ─► sink
//! reconfiguration ─ orders ──────────────────────────┘ └───► held_until ◄─ holds()
//! ```
//! | file | content |
//! |---|---|
//! | `mailbox` | datagrams to and from one peer |
//! | `thread` | the thread that runs the leases |
//! | `suspicions` | the machines suspected at present |
//!
//! *Start.* The initial members of a cluster do not start at the same time. So a machine requests
//! no lease, and suspects no machine, before it has seen all of them ([`LeaseService::begin`]); a
//! CM grants leases before. The CM watches an initial member from its first message on, and all of
//! them some time after the begin.
//!
//! *Time.* Messages are received before the clock is read, and the clock is read before messages
//! are sent. At its grantor a lease counts from no earlier than its request was sent, and at its
//! holder from no later.
//!
//! *Concurrency.* One mutex, held briefly. Events are delivered without it, by one thread at a time
//! if only one polls. [`LeaseService::holds`] takes no lock.
//!
//! # Failure
//! If the thread is not scheduled for the length of a lease, a false suspicion follows. It asks for
//! a high priority, and reports whether it has it. A machine that was not scheduled itself suspects
//! no machine for a while.

mod mailbox;
mod suspicions;
mod thread;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use fencepost_cluster::lease::{LeaseEvent, LeaseOrder, LeaseStep, LeaseTerms, Leases};
use fencepost_cluster::{Configuration, ConfigurationId, MachineId};
use fencepost_fabric::{Fabric, FabricError, MonotonicClock};
use parking_lot::Mutex;
use smallvec::SmallVec;

use self::mailbox::DatagramQueue;
pub use self::suspicions::LeaseCounts;
pub(super) use self::suspicions::Suspicions;
use crate::machine::Machine;

/// How long after the begin a CM waits before it watches initial members that have sent no message.
const BOOTSTRAP_NS: u64 = 1_000_000_000;
/// Events of one poll that need no allocation.
const FEW: usize = 8;

type Events = SmallVec<[LeaseEvent; FEW]>;
/// The receiver of lease events.
pub(super) type Sink = Box<dyn Fn(LeaseEvent) + Send + Sync>;

/// The lease state of one machine.
pub(super) struct LeaseService {
    fabric: Arc<dyn Fabric>,
    me: MachineId,
    clock: Arc<dyn MonotonicClock>,
    terms: LeaseTerms,
    incarnation: u64,
    sink: Sink,
    state: Mutex<State>,
    /// The time until which the machine has its lease, unless a renewal arrives.
    held_until: AtomicU64,
    /// The time of the next poll, unless a message arrives before.
    next_wake: AtomicU64,
    begun: AtomicBool,
    /// Whether the thread has the priority that it asked for.
    urgent: AtomicBool,
    stopped: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct State {
    configuration: Configuration,
    /// `None` before the begin at machines that are not the CM.
    leases: Option<Leases>,
    /// Ordered by the machine numbers of their peers.
    mailboxes: Vec<DatagramQueue>,
    /// When the CM begins to watch machines that have sent no message.
    watch_all_at: Option<u64>,
    renewals: u64,
}

impl LeaseService {
    /// Creates the leases of `me` among the initial members of a cluster. Nothing happens before
    /// the first poll. `incarnation` is a random number drawn at each start of the machine. The
    /// polling thread passes events to `sink`.
    ///
    /// # Errors
    /// If the mailboxes cannot be made.
    pub fn new(
        fabric: &Arc<dyn Fabric>,
        configuration: &Configuration,
        terms: LeaseTerms,
        clock: Arc<dyn MonotonicClock>,
        incarnation: u64,
        sink: Sink,
    ) -> Result<Self, FabricError> {
        let me = fabric.me();
        let now = clock.now_ns();
        let manages = configuration.cm() == me;
        let mut state = State {
            configuration: configuration.clone(),
            leases: manages.then(|| Leases::new(me, configuration, terms, incarnation, now)),
            mailboxes: Vec::new(),
            watch_all_at: None,
            renewals: 0,
        };
        state.open_mailboxes(fabric, configuration)?;
        let leasing = Self {
            fabric: Arc::clone(fabric),
            me,
            clock,
            terms,
            incarnation,
            sink,
            state: Mutex::new(state),
            held_until: AtomicU64::new(0),
            next_wake: AtomicU64::new(u64::MAX),
            begun: AtomicBool::new(false),
            urgent: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            thread: Mutex::default(),
        };
        leasing.publish(&mut leasing.state.lock());
        Ok(leasing)
    }

    /// Returns whether all initial members have been seen.
    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }

    /// Returns whether the CM has received a message from all others.
    pub fn watches_all(&self) -> bool {
        let state = self.state.lock();
        state.leases.as_ref().is_some_and(Leases::watches_all)
    }

    /// Begins, because all initial members have been seen. Later calls have no effect.
    pub fn begin(&self) {
        if self.begun.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut state = self.state.lock();
        let now = self.clock.now_ns();
        if state.configuration.cm() == self.me {
            let patience = BOOTSTRAP_NS.max(self.terms.duration_ns());
            state.watch_all_at = Some(now.saturating_add(patience));
        } else if state.leases.is_none() && !self.is_stopped() {
            let leases = Leases::new(
                self.me,
                &state.configuration,
                self.terms,
                self.incarnation,
                now,
            );
            state.leases = Some(leases);
        }
        self.publish(&mut state);
        drop(state);
        self.fabric.lease_bell().ring();
    }

    /// Receives messages, advances time, sends due messages and delivers events. Returns the time
    /// of the next poll by the machine's clock, unless a message arrives before; `u64::MAX` for
    /// never.
    pub fn poll(&self) -> u64 {
        let mut events = Events::new();
        let mut state = self.state.lock();
        state.poll(&self.fabric, &*self.clock, &mut events);
        let next = self.publish(&mut state);
        drop(state);
        for event in events {
            (self.sink)(event);
        }
        next
    }

    /// Suspends suspicions if the polling thread was to run at `due` and ran late. Other machines
    /// of this host may have been late, too. The suspension lasts as long as the delay, but no
    /// longer than a lease.
    fn excuse(&self, due: u64) {
        let now = self.clock.now_ns();
        let late = now.saturating_sub(due);
        if late < self.terms.renewal_ns() / 4 {
            return;
        }
        if let Some(leases) = &mut self.state.lock().leases {
            let long = late.min(self.terms.duration_ns());
            leases.excuse(now.saturating_add(long));
        }
    }

    /// Carries out an order of the reconfiguration.
    ///
    /// # Errors
    /// If the mailbox of a new machine cannot be made; the order has had no effect.
    pub fn obey(&self, order: LeaseOrder) -> Result<(), FabricError> {
        let mut state = self.state.lock();
        let now = self.clock.now_ns();
        if let LeaseOrder::Apply { configuration, .. } = &order {
            state.open_mailboxes(&self.fabric, configuration)?;
            state.configuration = configuration.clone();
            if state.leases.is_none() && !self.is_stopped() {
                let leases = Leases::new(self.me, configuration, self.terms, self.incarnation, now);
                state.leases = Some(leases);
            }
        }
        if let Some(leases) = &mut state.leases {
            leases.obey(order, now);
        }
        self.publish(&mut state);
        drop(state);
        // An action may be due now.
        self.fabric.lease_bell().ring();
        Ok(())
    }

    /// Returns whether this machine is certainly a member of its configuration now. Must be called
    /// after the last read and before the answer.
    #[inline]
    pub fn holds(&self) -> bool {
        self.clock.now_ns() < self.held_until.load(Ordering::Acquire)
    }

    /// Does the same as [`Leases::granted_ns`]; returns the whole length of a lease if there are no
    /// leases yet.
    pub fn granted_ns(&self, base: ConfigurationId) -> u64 {
        let state = self.state.lock();
        let now = self.clock.now_ns();
        let granted = state
            .leases
            .as_ref()
            .map(|leases| leases.granted_ns(base, now));
        granted.unwrap_or_else(|| self.terms.whole_ns())
    }

    /// Returns the time of the next poll, unless a message arrives before.
    pub fn next_wake(&self) -> u64 {
        self.next_wake.load(Ordering::Relaxed)
    }

    /// Returns the counters so far, without the suspected machines.
    pub fn counts(&self) -> LeaseCounts {
        let state = self.state.lock();
        let counts = state.leases.as_ref().map(Leases::counts);
        let counts = counts.unwrap_or_default();
        LeaseCounts {
            renewals: state.renewals,
            expired: counts.suspicions,
            returned: counts.false_suspicions,
            suspected: Vec::new(),
            urgent: self.urgent.load(Ordering::Relaxed),
        }
    }

    /// Publishes the state of the leases to all other threads. Returns the time of the next poll.
    fn publish(&self, state: &mut State) -> u64 {
        let held_until = state.leases.as_ref().map_or(0, Leases::held_until);
        let before = self.held_until.swap(held_until, Ordering::AcqRel);
        state.renewals += u64::from(held_until > before);
        let next_wake = state.leases.as_ref().map_or(u64::MAX, Leases::next_wake);
        let next_wake = next_wake.min(state.watch_all_at.unwrap_or(u64::MAX));
        self.next_wake.store(next_wake, Ordering::Relaxed);
        next_wake
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Stops: the machine holds and grants no lease any more.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        let stopped = self.obey(LeaseOrder::Stop);
        debug_assert!(stopped.is_ok(), "no mailbox is needed for that");
        self.end_thread();
    }
}

impl State {
    /// Opens a mailbox for each other member of a configuration, and closes those of other
    /// machines.
    fn open_mailboxes(
        &mut self,
        fabric: &Arc<dyn Fabric>,
        configuration: &Configuration,
    ) -> Result<(), FabricError> {
        let me = fabric.me();
        let others = configuration.machines().iter().map(|machine| machine.id);
        for peer in others.filter(|peer| *peer != me) {
            if let Err(at) = self.mailbox(peer) {
                self.mailboxes
                    .insert(at, DatagramQueue::open(fabric, peer)?);
            }
        }
        let stale = self
            .mailboxes
            .extract_if(.., |mailbox| !configuration.has(mailbox.peer));
        stale.for_each(|mailbox| mailbox.close(fabric));
        Ok(())
    }

    /// Returns the index of a peer's mailbox, or the index to insert it at.
    fn mailbox(&self, peer: MachineId) -> Result<usize, usize> {
        self.mailboxes
            .binary_search_by_key(&peer, |mailbox| mailbox.peer)
    }

    fn poll(&mut self, fabric: &Arc<dyn Fabric>, clock: &dyn MonotonicClock, events: &mut Events) {
        let Some(leases) = &mut self.leases else {
            return;
        };
        for mailbox in &mut self.mailboxes {
            for message in mailbox.take() {
                // The clock is read after the message, which may have arrived later otherwise.
                let now = clock.now_ns();
                let received = leases.receive(now, mailbox.peer, message);
                if let Some(answer) = received.answer {
                    mailbox.send(fabric, answer);
                }
                events.extend(received.event);
            }
        }
        let now = clock.now_ns();
        if self.watch_all_at.is_some_and(|at| at <= now) {
            self.watch_all_at = None;
            for mailbox in &self.mailboxes {
                let machine = mailbox.peer;
                leases.obey(LeaseOrder::Watch { machine }, now);
            }
        }
        while let Some(step) = leases.poll(now) {
            match step {
                LeaseStep::Send(peer, message) => {
                    let at = self
                        .mailboxes
                        .binary_search_by_key(&peer, |mailbox| mailbox.peer);
                    if let Ok(at) = at {
                        self.mailboxes[at].send(fabric, message);
                    }
                }
                LeaseStep::Event(event) => events.push(event),
            }
        }
    }
}

impl Machine {
    /// Returns the counters of the machine's leases; `None` if it has none.
    pub fn lease_counts(&self) -> Option<LeaseCounts> {
        self.network()?.lease_counts()
    }

    /// Returns whether the leases show that the machine is a member of its configuration now.
    /// Always `true` without leases.
    pub fn holds_lease(&self) -> bool {
        let leasing = self.network().and_then(|network| network.leasing());
        leasing.is_none_or(|leasing| leasing.holds())
    }

    /// Returns the latest time to drive a machine without threads, by the clock of its host; `None`
    /// if nothing is due.
    pub fn due_ns(&self) -> Option<u64> {
        let network = self.network()?;
        let leasing = network.leasing().map(|leasing| leasing.next_wake());
        let due = leasing.into_iter().chain(network.governs_at()).min()?;
        Some(due).filter(|at| *at < u64::MAX)
    }
}

#[cfg(test)]
mod tests;
