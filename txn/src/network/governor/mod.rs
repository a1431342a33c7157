//! What a machine does when others fail: the steps of a reconfiguration, done.
//!
//! # Picture
//! ```text
//! leases ── events ─►┐                        ┌─► leases: orders
//! peers ── messages ─► inbox ─► governor ─────┼─► messages to peers (parts.rs)
//! store ── answers ─►┘  Reconfiguration       ├─► store: compare-and-swap
//! time  ─────────────►                        └─► this machine (carry_out.rs)
//!
//! door ── letters ──► admit.rs
//! Block ─► Survey ─► Lead ─► Apply ─► Commit ─► drain (drain.rs) ─► recovery ─► regions active
//!                                                                  all regions active ─► data recovery (refill)
//! ```
//! What is decided, and when, is in [`fencepost_cluster::reconfiguration`]; here it is carried out, in order.
//!
//! *Concurrency.* One at a time governs, whoever attends; others go past. What arrives meanwhile waits in the
//! inbox, so that nobody who takes messages waits for who governs.
//!
//! # Failure
//! A store that does not answer is asked again. A machine that is no member any more answers nobody.

mod admit;
mod carry_out;
mod clock;
mod drain;
mod leave;
mod parts;
mod recover;
mod refill;
mod severed;
mod timeline;

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fencepost_cluster::allocation::MovedRegion;
use fencepost_cluster::join::{Admission, Door, JoinMessage, Stranger};
use fencepost_cluster::lease::{LeaseEvent, LeaseTerms};
use fencepost_cluster::reconfiguration::{
    Action, Options, Reconfiguration, ReconfigurationMessage, Refused,
};
use fencepost_cluster::{ConfigStore, Configuration, ConfigurationId, StoreError, Swapped};
use fencepost_fabric::{MachineId, MonotonicClock, Random, entropy_seed};
use fencepost_storage::log::Lsn;
use parking_lot::Mutex;

use super::{Network, NetworkOptions, Peer};
use crate::machine::Machine;
use crate::planted::{self, Planted};
use crate::recovery::RecoveryMessage;
use crate::stop::Stop;

use crate::work::Work;
use clock::Handover;
use drain::Drain;
pub(super) use parts::{Assembling, RECONFIGURE, RECOVER, bytes_of};
use recover::Recovering;
use refill::Refill;
pub use refill::RefillCounts;
use severed::Severed;
use timeline::Timelines;
pub use timeline::{Step, Timeline};

/// When it is looked again for what others bring about.
const AGAIN_NS: u64 = 1_000_000;

/// What has happened.
pub(super) enum Input {
    /// And when.
    Lease(u64, LeaseEvent),
    Message(MachineId, ReconfigurationMessage),
    Recovery(MachineId, RecoveryMessage),
    /// From somebody at the door.
    Stranger(Stranger, JoinMessage),
    /// A machine is to leave; or, at once, one that has nothing any more.
    Leave(MachineId, bool),
    /// What was on its way to a peer, or from it, may be lost.
    Severed(MachineId),
}

/// What waits for whoever governs.
#[derive(Default)]
pub(super) struct Inbox {
    inputs: Mutex<VecDeque<Input>>,
    any: AtomicBool,
}

impl Inbox {
    pub fn push(&self, input: Input) {
        self.inputs.lock().push_back(input);
        self.any.store(true, Ordering::Release);
    }

    fn take(&self) -> VecDeque<Input> {
        self.any.store(false, Ordering::Release);
        std::mem::take(&mut *self.inputs.lock())
    }
}

/// Sees to reconfigurations.
pub(super) struct Governor {
    inbox: Arc<Inbox>,
    store: Arc<dyn ConfigStore>,
    clock: Arc<dyn MonotonicClock>,
    /// When there is something to do although nothing happens.
    next_wake: AtomicU64,
    evicted: AtomicBool,
    /// Whether all regions have been active since this machine has joined.
    settled_in: AtomicBool,
    /// Where others ask to be let in, and when the CM looks there next.
    door: Option<Arc<Door>>,
    door_at: AtomicU64,
    state: Mutex<State>,
}

type Asked<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

struct State {
    reconfiguration: Reconfiguration,
    actions: VecDeque<Action>,
    /// Questions to the store, by their attempts.
    swaps: Vec<(u64, Asked<Swapped>)>,
    reads: Vec<(u64, Asked<Option<Configuration>>)>,
    /// The configuration up to which the logs are drained.
    last_drained: ConfigurationId,
    drain: Option<Drain>,
    /// A configuration that was applied, and of which that was not said.
    applied: Option<Applied>,
    /// Regions that have another primary, which nobody uses before all are active.
    moved: Vec<MovedRegion>,
    recovering: Recovering,
    refill: Refill,
    /// The configuration of which the CM has yet to hear that all is whole here.
    whole_in: Option<ConfigurationId>,
    admission: Option<Admission>,
    /// Whether it is to be seen to, once all machines are heard of, that all regions have their replicas: some of those
    /// that machines begin again with may have been lost before.
    makes_up: bool,
    random: Random,
    handover: Handover,
    severed: Severed,
    timelines: Timelines,
}

/// What is to be said of a configuration that was applied.
struct Applied {
    configuration: ConfigurationId,
    /// New replicas without room.
    refused: Vec<Refused>,
    /// Once the log on the disk is durable up to there.
    durable_at: Option<Lsn>,
}

impl Governor {
    /// Of a machine whose leases have these terms.
    pub fn new(
        options: &NetworkOptions,
        terms: LeaseTerms,
        store: &Arc<dyn ConfigStore>,
        inbox: &Arc<Inbox>,
    ) -> Governor {
        let NetworkOptions {
            fabric,
            configuration,
            replication,
            clock,
            ..
        } = options;
        let fitting = Options {
            // What is on a disk is not lost (DISK-11).
            loses_regions: options.disk.is_none() || planted::is(Planted::GiveUpRegions),
            ..Options::fitting(terms, *replication)
        };
        let (me, first) = (fabric.me(), configuration.clone());
        let now = clock.now_ns();
        let (reconfiguration, last_drained) = match options.joins {
            false => (Reconfiguration::new(me, first, fitting), configuration.id()),
            true => (
                Reconfiguration::joining(me, first, fitting, now),
                ConfigurationId(0),
            ),
        };
        Governor {
            inbox: Arc::clone(inbox),
            store: Arc::clone(store),
            clock: Arc::clone(clock),
            next_wake: AtomicU64::new(match options.disk {
                Some(_) => 0,
                None => reconfiguration.next_wake(),
            }),
            evicted: AtomicBool::new(false),
            settled_in: AtomicBool::new(!options.joins),
            door: options.door.clone(),
            door_at: AtomicU64::new(0),
            state: Mutex::new(State {
                reconfiguration,
                actions: VecDeque::new(),
                swaps: Vec::new(),
                reads: Vec::new(),
                last_drained,
                drain: None,
                applied: None,
                moved: Vec::new(),
                recovering: Recovering::new(me),
                refill: Refill::new(now),
                whole_in: None,
                admission: admit::admission(options),
                makes_up: options.disk.is_some(),
                random: match options.driven {
                    // Of a run that can be repeated.
                    true => Random::new(now ^ u64::from(me.0)),
                    false => Random::new(entropy_seed()),
                },
                handover: Handover::default(),
                severed: Severed::new(fitting.retry_ns),
                timelines: Timelines::default(),
            }),
        }
    }

    /// When there is something to do although nothing happens.
    pub fn next_wake(&self) -> u64 {
        self.next_wake.load(Ordering::Relaxed)
    }

    fn is_due(&self) -> bool {
        // Mostly there is nothing that the clock is to be read for.
        let is_time = |at: u64| at != u64::MAX && self.clock.now_ns() >= at;
        self.inbox.any.load(Ordering::Acquire) || is_time(self.next_wake())
    }
}

impl Network {
    /// Whether machines that fail are replaced.
    pub fn replaces_machines(&self) -> bool {
        self.governor.is_some()
    }

    /// Whether it is decided later what becomes of a commit whose coordinator cannot know: by recovery, or by whoever puts
    /// in order what machines have left that have all ended. Where neither is, nobody asks any more.
    pub(super) fn decides_later(&self) -> bool {
        self.replaces_machines() || self.fabric.keeps() || self.disk.is_some()
    }

    /// `longest`, or less where whoever governs has something to do before.
    pub(super) fn until_due(&self, longest: Duration) -> Duration {
        let due = self.governor.as_ref().map(|governor| {
            let wait = governor.next_wake().saturating_sub(governor.clock.now_ns());
            Duration::from_nanos(wait)
        });
        due.map_or(longest, |due| due.min(longest))
    }

    /// The connection with a peer has broken.
    pub(super) fn severed(&self, peer: &Peer) {
        let begun = self.leasing().is_some_and(|leasing| leasing.has_begun());
        if self.replaces_machines() && begun && self.is_member(peer) && !self.is_stopped() {
            self.inbox.push(Input::Severed(peer.id));
        }
    }

    /// When whoever governs has something to do although nothing happens.
    pub fn governs_at(&self) -> Option<u64> {
        self.governor.as_ref().map(Governor::next_wake)
    }

    /// Whether no reconfiguration and no recovery is under way here, and none will be if nothing happens.
    pub(super) fn is_settled(&self) -> bool {
        self.governor.as_ref().is_none_or(|governor| {
            let state = governor.state.lock();
            let moves = state.whole_in.is_some() || state.reconfiguration.is_moving();
            let applies = state.drain.is_some() || state.applied.is_some();
            let reconfigures = applies || !state.moved.is_empty() || moves;
            let whole = self.allotment.lacking().is_empty();
            let recovered = state.recovering.is_at_rest() && whole;
            !reconfigures && recovered && !self.configured.is_blocked()
        })
    }

    /// Whether this machine has learned that it is no member any more.
    pub fn is_evicted(&self) -> bool {
        let governor = self.governor.as_ref();
        governor.is_some_and(|governor| governor.evicted.load(Ordering::Acquire))
    }

    /// Whether all regions have been active since this machine has become a member; the founders' are from the beginning.
    pub(super) fn has_settled_in(&self) -> bool {
        let governor = self.governor.as_ref();
        governor.is_none_or(|governor| governor.settled_in.load(Ordering::Acquire))
    }

    /// Whether a client may be told how its transaction ended: nobody acts in a later configuration
    /// (CONFIGURED-2).
    #[inline]
    pub fn may_answer(&self) -> bool {
        let holds = || {
            let leasing = self.leasing.as_ref();
            leasing.is_none_or(|leasing| leasing.holds())
        };
        let may = || !self.configured.is_blocked() && holds();
        !self.replaces_machines() || planted::is(Planted::AnswerWithoutLease) || may()
    }

    /// Waits until clients may be answered.
    ///
    /// # Errors
    /// [`Stop::NotMember`] where this machine stops, or is no member any more.
    pub async fn admitted(&self) -> Result<(), Stop> {
        match self.may_answer() {
            true => Ok(()),
            false => self.wait_for_admission().await,
        }
    }

    /// [`Self::admitted`], where clients may not be answered yet.
    fn wait_for_admission(&self) -> Work<'_, Result<(), Stop>> {
        Box::pin(async move {
            while !self.may_answer() {
                let change = self.configured.change();
                if self.is_evicted() || self.is_stopped() {
                    return Err(Stop::NotMember);
                }
                if !self.may_answer() {
                    change.await.map_err(|_| Stop::NotMember)?;
                }
            }
            Ok(())
        })
    }

    /// Carries out what is due; whether there was anything.
    pub(super) fn govern(&self, machine: &Machine) -> bool {
        let Some(governor) = self.governor.as_ref().filter(|governor| governor.is_due()) else {
            return false;
        };
        let Some(mut state) = governor.state.try_lock() else {
            return false;
        };
        let state = &mut *state;
        for input in governor.inbox.take() {
            let now = governor.clock.now_ns();
            let suspected = match input {
                Input::Lease(at, LeaseEvent::Expired(of)) => Some((of, at)),
                Input::Severed(peer) => Some((peer, now)),
                _ => None,
            };
            // One of a machine that is out already comes too late to lead anywhere.
            if let Some((of, at)) = suspected
                && self.configured.current().has(of)
            {
                state.timelines.suspect(of, at);
            }
            let reconfiguration = &mut state.reconfiguration;
            match input {
                Input::Lease(_, event) => {
                    let actions = reconfiguration.lease_event(now, event);
                    state.actions.extend(actions);
                }
                Input::Message(from, message) => {
                    let actions = reconfiguration.receive(now, from, message);
                    state.actions.extend(actions);
                }
                Input::Severed(peer) => state.severed.note(peer),
                Input::Leave(who, at_once) => {
                    let actions = reconfiguration.ask_to_leave(now, who, at_once);
                    state.actions.extend(actions);
                }
                Input::Recovery(from, message) => {
                    self.recovery_message(machine, governor, state, (from, message));
                }
                Input::Stranger(stranger, message) => {
                    self.admit(governor, state, stranger, message);
                }
            }
            self.carry_out(machine, governor, state);
        }
        let now = governor.clock.now_ns();
        state.actions.extend(state.reconfiguration.tick(now));
        let told = state.severed.tell(&mut state.reconfiguration, now);
        state.actions.extend(told);
        self.carry_out(machine, governor, state);
        self.take_answers(governor, state);
        self.carry_out(machine, governor, state);
        self.acknowledge(governor, state);
        self.make_up(governor, state);
        self.carry_out(machine, governor, state);
        self.drain(machine, governor, state);
        self.refill(machine, governor, state);
        self.tell_whole(governor, state);
        self.look_after_recovery(machine, governor, state);
        self.carry_out(machine, governor, state);
        // Whoever waits for a lease that has come back looks again.
        self.configured.tell_waiting();
        let asks = !state.swaps.is_empty() || !state.reads.is_empty();
        let waits = asks || state.drain.is_some() || state.applied.is_some();
        let refill = state.refill.next_wake(governor.clock.now_ns());
        let recovering = state.recovering.next_wake().min(refill);
        let recovering = recovering.min(state.severed.next_wake());
        let now = governor.clock.now_ns();
        let recovering = recovering.min(state.recovering.settles_at(now));
        let recovering = match state.makes_up {
            true => recovering.min(now + AGAIN_NS),
            false => recovering,
        };
        let wake = match !waits {
            true => state.reconfiguration.next_wake().min(recovering),
            // There is nobody else who would make it look.
            false => governor.clock.now_ns(),
        };
        governor.next_wake.store(wake, Ordering::Relaxed);
        true
    }

    /// Regions that have lost replicas before all machines began again get others.
    fn make_up(&self, governor: &Governor, state: &mut State) {
        let Some(leasing) = self.leasing().filter(|_| state.makes_up) else {
            return;
        };
        let current = self.configured.current();
        if current.cm() != self.me {
            state.makes_up = false;
            return;
        }
        let most = self.replication.wanted().min(current.domains_that_stay());
        if !leasing.watches_all() {
            return;
        }
        state.makes_up = false;
        if self.allotment.has_too_few(most) {
            let wished = state.reconfiguration.make_up(governor.clock.now_ns());
            // Otherwise another configuration is under way, which does.
            state.actions.extend(wished.unwrap_or_default());
        }
    }

    /// What the store has answered.
    fn take_answers(&self, governor: &Governor, state: &mut State) {
        let now = governor.clock.now_ns();
        let mut context = Context::from_waker(Waker::noop());
        let mut actions = Vec::new();
        let reconfiguration = &mut state.reconfiguration;
        let timelines = &mut state.timelines;
        state.swaps.retain_mut(|(attempt, asked)| {
            let Poll::Ready(answer) = asked.as_mut().poll(&mut context) else {
                return true;
            };
            let answer = answer.ok();
            if answer == Some(Swapped::Won) {
                timelines.towards_next(Step::Store, now);
            }
            actions.extend(reconfiguration.swapped(now, *attempt, answer));
            false
        });
        state.reads.retain_mut(|(attempt, asked)| {
            let Poll::Ready(answer) = asked.as_mut().poll(&mut context) else {
                return true;
            };
            actions.extend(reconfiguration.read(now, *attempt, answer.ok().flatten()));
            false
        });
        state.actions.extend(actions);
    }
}

impl Machine {
    /// Whether the machine tells clients how their transactions end: it has its lease, and no other configuration is
    /// being made.
    pub fn is_answering(&self) -> bool {
        self.network().is_none_or(|network| network.may_answer())
    }

    /// Waits until [`Self::is_answering`]: then what was read here before was the newest.
    ///
    /// # Errors
    /// [`Stop::NotMember`] where the machine stops, or is no member any more.
    pub async fn admitted(&self) -> Result<(), Stop> {
        match self.network() {
            Some(network) => network.admitted().await,
            None => Ok(()),
        }
    }

    /// Whether the machine has learned that it is no member any more. It answers nobody, and is to be stopped.
    pub fn is_evicted(&self) -> bool {
        self.network().is_some_and(|network| network.is_evicted())
    }
}
