//! The leases of a machine, alive: [`fencepost_cluster::lease`] with a clock, mailboxes and a thread.
//!
//! # Picture
//! ```text
//! peer ─ one-sided write ─► mailbox ─► leases N ─► Leases ─► write into the peer's mailbox, and ring
//!                    lease bell ────► (a thread)     │ ├───► events ─► sink
//! whoever reconfigures ─ orders ─────────────────────┘ └───► held_until ◄─ holds(): whoever answers
//! ```
//! | file | what it is |
//! |---|---|
//! | `mailbox` | datagrams to and from one peer |
//! | `thread` | the thread that looks after all this |
//! | `suspicions` | who is suspected, for whoever asks |
//!
//! *How it begins.* The founders of a cluster are not all started at once. So a machine asks for no lease, and
//! suspects nobody, before it has seen all of them ([`Leasing::begin`]); a CM grants leases before. It watches a
//! founder from when it first hears of it, and all of them some time after it has begun.
//!
//! *Time.* What arrives is taken before the clock is read, and the clock is read before anything is sent: a lease
//! counts from no earlier than its request was sent where it was granted, and from no later where it is held.
//!
//! *Concurrency.* One lock, for moments; events are told without it, by one thread at a time where one polls.
//! [`Leasing::holds`] takes none.
//!
//! # Failure
//! A thread that is not scheduled for as long as a lease lasts makes for a false suspicion: it asks for priority, and
//! says whether it has it. Who was not scheduled itself suspects nobody for a while.

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

use self::mailbox::Mailbox;
pub use self::suspicions::LeaseCounts;
pub(super) use self::suspicions::Suspicions;
use crate::machine::Machine;

/// How long after its beginning a CM watches founders of whom it has not heard.
const FOUNDING_NS: u64 = 1_000_000_000;
/// Events of one look that take no memory.
const FEW: usize = 8;

type Events = SmallVec<[LeaseEvent; FEW]>;
/// Who is told of events.
pub(super) type Sink = Box<dyn Fn(LeaseEvent) + Send + Sync>;

/// All that a machine has to do with leases.
pub(super) struct Leasing {
    fabric: Arc<dyn Fabric>,
    me: MachineId,
    clock: Arc<dyn MonotonicClock>,
    terms: LeaseTerms,
    life: u64,
    sink: Sink,
    state: Mutex<State>,
    /// Until when the machine has its lease, if nothing more arrives.
    held_until: AtomicU64,
    /// When to poll, if nothing arrives before.
    next_wake: AtomicU64,
    begun: AtomicBool,
    /// Whether the thread has the priority that it asked for.
    urgent: AtomicBool,
    stopped: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct State {
    configuration: Configuration,
    /// `None` before the beginning at machines that are not the CM.
    leases: Option<Leases>,
    /// By their peers' numbers.
    mailboxes: Vec<Mailbox>,
    /// When the CM watches whoever it has not heard of.
    watch_all_at: Option<u64>,
    renewals: u64,
}

impl Leasing {
    /// The leases of `me` among the founders of a cluster; nothing happens before somebody polls. `life` is drawn
    /// at random whenever the machine is started. `sink` is told of events by whoever polls.
    ///
    /// # Errors
    /// Where the mailboxes cannot be made.
    pub fn new(
        fabric: &Arc<dyn Fabric>,
        configuration: &Configuration,
        terms: LeaseTerms,
        clock: Arc<dyn MonotonicClock>,
        life: u64,
        sink: Sink,
    ) -> Result<Self, FabricError> {
        let me = fabric.me();
        let now = clock.now_ns();
        let manages = configuration.cm() == me;
        let mut state = State {
            configuration: configuration.clone(),
            leases: manages.then(|| Leases::new(me, configuration, terms, life, now)),
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
            life,
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

    /// Whether all founders have been seen.
    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }

    /// At the CM: whether all others have been heard of.
    pub fn watches_all(&self) -> bool {
        let state = self.state.lock();
        state.leases.as_ref().is_some_and(Leases::watches_all)
    }

    /// All founders have been seen. Later calls change nothing.
    pub fn begin(&self) {
        if self.begun.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut state = self.state.lock();
        let now = self.clock.now_ns();
        if state.configuration.cm() == self.me {
            let patience = FOUNDING_NS.max(self.terms.duration_ns());
            state.watch_all_at = Some(now.saturating_add(patience));
        } else if state.leases.is_none() && !self.is_stopped() {
            let leases = Leases::new(self.me, &state.configuration, self.terms, self.life, now);
            state.leases = Some(leases);
        }
        self.publish(&mut state);
        drop(state);
        self.fabric.lease_bell().ring();
    }

    /// Takes what has arrived, moves time on, sends what is due and tells of events. When to do so again, by the
    /// machine's clock, unless something arrives before; `u64::MAX` for never.
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

    /// Whoever polls was to do so at `due` and did not run: it may have been so for others of this host, too. For as long
    /// again, though no longer than a lease, nobody is suspected.
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

    /// Does what a reconfiguration wants.
    ///
    /// # Errors
    /// Where the mailbox of a new machine cannot be made; the order has had no effect.
    pub fn obey(&self, order: LeaseOrder) -> Result<(), FabricError> {
        let mut state = self.state.lock();
        let now = self.clock.now_ns();
        if let LeaseOrder::Apply { configuration, .. } = &order {
            state.open_mailboxes(&self.fabric, configuration)?;
            state.configuration = configuration.clone();
            if state.leases.is_none() && !self.is_stopped() {
                let leases = Leases::new(self.me, configuration, self.terms, self.life, now);
                state.leases = Some(leases);
            }
        }
        if let Some(leases) = &mut state.leases {
            leases.obey(order, now);
        }
        self.publish(&mut state);
        drop(state);
        // Something may be due now.
        self.fabric.lease_bell().ring();
        Ok(())
    }

    /// Whether this machine is a member of its configuration, for all that happens now; to be asked after the last
    /// read and before the answer.
    #[inline]
    pub fn holds(&self) -> bool {
        self.clock.now_ns() < self.held_until.load(Ordering::Acquire)
    }

    /// [`Leases::granted_ns`]; the whole of a lease where it has none yet.
    pub fn granted_ns(&self, base: ConfigurationId) -> u64 {
        let state = self.state.lock();
        let now = self.clock.now_ns();
        let granted = state
            .leases
            .as_ref()
            .map(|leases| leases.granted_ns(base, now));
        granted.unwrap_or_else(|| self.terms.whole_ns())
    }

    /// When to poll, unless something arrives before.
    pub fn next_wake(&self) -> u64 {
        self.next_wake.load(Ordering::Relaxed)
    }

    /// What has happened so far, but for who is suspected.
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

    /// Says to all other threads what has come of the leases; when to poll next.
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

    /// The machine ends: it holds and grants nothing more.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        let stopped = self.obey(LeaseOrder::Stop);
        debug_assert!(stopped.is_ok(), "no mailbox is needed for that");
        self.end_thread();
    }
}

impl State {
    /// One mailbox for each other machine of a configuration, and none for those that are not in it.
    fn open_mailboxes(
        &mut self,
        fabric: &Arc<dyn Fabric>,
        configuration: &Configuration,
    ) -> Result<(), FabricError> {
        let me = fabric.me();
        let others = configuration.machines().iter().map(|machine| machine.id);
        for peer in others.filter(|peer| *peer != me) {
            if let Err(at) = self.mailbox(peer) {
                self.mailboxes.insert(at, Mailbox::open(fabric, peer)?);
            }
        }
        let gone = self
            .mailboxes
            .extract_if(.., |mailbox| !configuration.has(mailbox.peer));
        gone.for_each(|mailbox| mailbox.close(fabric));
        Ok(())
    }

    /// Where the mailbox of a peer is, or would be.
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
                // Not before: it may have arrived later than that.
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
    /// What has happened to the machine's leases; `None` where it has none.
    pub fn lease_counts(&self) -> Option<LeaseCounts> {
        self.network()?.lease_counts()
    }

    /// Whether the machine is a member of its configuration for all that happens now, as far as leases tell. One
    /// without them is.
    pub fn holds_lease(&self) -> bool {
        let leasing = self.network().and_then(|network| network.leasing());
        leasing.is_none_or(|leasing| leasing.holds())
    }

    /// When a machine without threads of its own is to be driven at the latest, by the clock of its host; `None`
    /// where nothing is due at a time.
    pub fn due_ns(&self) -> Option<u64> {
        let network = self.network()?;
        let leasing = network.leasing().map(|leasing| leasing.next_wake());
        let due = leasing.into_iter().chain(network.governs_at()).min()?;
        Some(due).filter(|at| *at < u64::MAX)
    }
}

#[cfg(test)]
mod tests;
