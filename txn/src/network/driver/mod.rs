//! The reconfiguration driver: carries out the steps of a reconfiguration on this machine.
//!
//! # Picture
//! ```text
//! leases ── events ─►┐                        ┌─► leases: orders
//! peers ── messages ─► inbox ─► driver ───────┼─► messages to peers (parts.rs)
//! store ── answers ─►┘  Reconfiguration       ├─► store: compare-and-swap
//! time  ─────────────►                        └─► this machine (apply_actions.rs)
//!
//! join endpoint ── join requests ──► admit.rs
//! Block ─► ReportRegions ─► BecomeManager ─► Apply ─► Commit ─► drain (drain.rs) ─► recovery
//!                                      all regions active ─► data recovery
//! ```
//! [`fencepost_cluster::reconfiguration`] decides each step and its time; this module carries the
//! steps out, in order.
//!
//! *Concurrency.* One thread at a time drives: any thread that attends the machine. Other threads
//! skip the driver. Input that arrives meanwhile waits in the inbox, so that no receiver of
//! messages waits for the driver.
//!
//! # Failure
//! A store that does not answer is asked again. A machine that is no member any more answers no
//! requests.

mod admit;
mod apply_actions;
mod clock;
mod data_recovery;
mod drain;
mod leave;
mod parts;
mod recover;
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
use fencepost_cluster::join::{Admission, JoinEndpoint, JoinMessage, Outsider};
use fencepost_cluster::lease::{LeaseEvent, LeaseTerms};
use fencepost_cluster::reconfiguration::{
    Action, Options, Reconfiguration, ReconfigurationMessage, RefusedReplica,
};
use fencepost_cluster::{ConfigStore, Configuration, ConfigurationId, StoreError, SwapOutcome};
use fencepost_fabric::{MachineId, MonotonicClock, Random, entropy_seed};
use fencepost_storage::log::Lsn;
use parking_lot::Mutex;

use super::{Network, NetworkOptions, Peer};
use crate::fault::{self, Fault};
use crate::machine::Machine;
use crate::recovery::RecoveryMessage;
use crate::stop::Stop;

use crate::work::Work;
use clock::Handover;
use data_recovery::DataRecovery;
pub use data_recovery::DataRecoveryCounts;
use drain::Drain;
pub(super) use parts::{Assembling, RECONFIGURE, RECOVER, bytes_of};
use recover::RecoveryDriver;
use severed::SeveredPeers;
use timeline::Timelines;
pub use timeline::{Step, Timeline};

/// The interval after which the driver checks again for progress on other machines.
const AGAIN_NS: u64 = 1_000_000;

/// An input of the reconfiguration driver.
pub(super) enum Input {
    /// A lease event, and its time.
    Lease(u64, LeaseEvent),
    Message(MachineId, ReconfigurationMessage),
    Recovery(MachineId, RecoveryMessage),
    /// A message from a machine at the join endpoint.
    JoinRequest(Outsider, JoinMessage),
    /// A machine is to leave; with `true` a machine without regions leaves at once.
    Leave(MachineId, bool),
    /// Messages to or from a peer may be lost.
    Severed(MachineId),
}

/// The inputs that wait for the driver.
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

/// The reconfiguration driver of one machine.
pub(super) struct ReconfigurationDriver {
    inbox: Arc<Inbox>,
    store: Arc<dyn ConfigStore>,
    clock: Arc<dyn MonotonicClock>,
    /// The next time at which the driver runs without new input.
    next_wake: AtomicU64,
    evicted: AtomicBool,
    /// Whether all regions have been active since this machine joined.
    settled_in: AtomicBool,
    /// The join endpoint, and when the CM checks it next.
    join_endpoint: Option<Arc<JoinEndpoint>>,
    endpoint_check_at: AtomicU64,
    state: Mutex<State>,
}

type PendingStoreCall<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

struct State {
    reconfiguration: Reconfiguration,
    actions: VecDeque<Action>,
    /// Pending requests to the store, by attempt.
    swaps: Vec<(u64, PendingStoreCall<SwapOutcome>)>,
    reads: Vec<(u64, PendingStoreCall<Option<Configuration>>)>,
    /// The configuration up to which the logs are drained.
    last_drained: ConfigurationId,
    drain: Option<Drain>,
    /// A configuration that was applied but is not acknowledged yet.
    applied: Option<PendingAck>,
    /// Regions with another primary. No machine uses them before all regions are active.
    moved: Vec<MovedRegion>,
    recovering: RecoveryDriver,
    data_recovery: DataRecovery,
    /// The configuration for which the CM must still be told that all replicas here are complete.
    whole_in: Option<ConfigurationId>,
    admission: Option<Admission>,
    /// Whether missing replicas of regions are to be restored once all machines have answered.
    /// Replicas may have been lost before the machines restarted.
    makes_up: bool,
    random: Random,
    handover: Handover,
    severed: SeveredPeers,
    timelines: Timelines,
}

/// The acknowledgement of a configuration that was applied.
struct PendingAck {
    configuration: ConfigurationId,
    /// New replicas without memory.
    refused: Vec<RefusedReplica>,
    /// The acknowledgement waits until the log on the disk is durable up to here.
    durable_at: Option<Lsn>,
}

impl ReconfigurationDriver {
    /// Creates the driver of a machine whose leases have these terms.
    pub fn new(
        options: &NetworkOptions,
        terms: LeaseTerms,
        store: &Arc<dyn ConfigStore>,
        inbox: &Arc<Inbox>,
    ) -> ReconfigurationDriver {
        let NetworkOptions {
            fabric,
            configuration,
            replication,
            clock,
            ..
        } = options;
        let fitting = Options {
            // A region with a copy on a disk is not lost (DISK-11).
            loses_regions: options.disk.is_none() || fault::injected(Fault::GiveUpRegions),
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
        ReconfigurationDriver {
            inbox: Arc::clone(inbox),
            store: Arc::clone(store),
            clock: Arc::clone(clock),
            next_wake: AtomicU64::new(match options.disk {
                Some(_) => 0,
                None => reconfiguration.next_wake(),
            }),
            evicted: AtomicBool::new(false),
            settled_in: AtomicBool::new(!options.joins),
            join_endpoint: options.join_endpoint.clone(),
            endpoint_check_at: AtomicU64::new(0),
            state: Mutex::new(State {
                reconfiguration,
                actions: VecDeque::new(),
                swaps: Vec::new(),
                reads: Vec::new(),
                last_drained,
                drain: None,
                applied: None,
                moved: Vec::new(),
                recovering: RecoveryDriver::new(me),
                data_recovery: DataRecovery::new(now),
                whole_in: None,
                admission: admit::admission(options),
                makes_up: options.disk.is_some(),
                random: match options.driven {
                    // A driven run must be repeatable.
                    true => Random::new(now ^ u64::from(me.0)),
                    false => Random::new(entropy_seed()),
                },
                handover: Handover::default(),
                severed: SeveredPeers::new(fitting.retry_ns),
                timelines: Timelines::default(),
            }),
        }
    }

    /// Returns the next time at which the driver runs without new input.
    pub fn next_wake(&self) -> u64 {
        self.next_wake.load(Ordering::Relaxed)
    }

    fn is_due(&self) -> bool {
        // The common case does not need the clock.
        let is_time = |at: u64| at != u64::MAX && self.clock.now_ns() >= at;
        self.inbox.any.load(Ordering::Acquire) || is_time(self.next_wake())
    }
}

impl Network {
    /// Returns whether failed machines are replaced.
    pub fn replaces_machines(&self) -> bool {
        self.driver.is_some()
    }

    /// Returns whether a commit in doubt is decided later: by recovery, or when machines that have
    /// all ended restart from their retained state. Otherwise it is never decided.
    pub(super) fn decides_later(&self) -> bool {
        self.replaces_machines() || self.fabric.keeps() || self.disk.is_some()
    }

    /// Returns `longest`, or the shorter time until the driver must run.
    pub(super) fn until_due(&self, longest: Duration) -> Duration {
        let due = self.driver.as_ref().map(|driver| {
            let wait = driver.next_wake().saturating_sub(driver.clock.now_ns());
            Duration::from_nanos(wait)
        });
        due.map_or(longest, |due| due.min(longest))
    }

    /// Records that the connection with a peer has broken.
    pub(super) fn severed(&self, peer: &Peer) {
        let begun = self.leasing().is_some_and(|leasing| leasing.has_begun());
        if self.replaces_machines() && begun && self.is_member(peer) && !self.is_stopped() {
            self.inbox.push(Input::Severed(peer.id));
        }
    }

    /// Returns the next time at which the driver runs without new input.
    pub fn governs_at(&self) -> Option<u64> {
        self.driver.as_ref().map(ReconfigurationDriver::next_wake)
    }

    /// Returns whether no reconfiguration and no recovery is in progress here, nor due without new
    /// input.
    pub(super) fn is_settled(&self) -> bool {
        self.driver.as_ref().is_none_or(|driver| {
            let state = driver.state.lock();
            let moves = state.whole_in.is_some() || state.reconfiguration.is_moving();
            let applies = state.drain.is_some() || state.applied.is_some();
            let reconfigures = applies || !state.moved.is_empty() || moves;
            let whole = self.region_allocation.lacking().is_empty();
            let recovered = state.recovering.is_at_rest() && whole;
            !reconfigures && recovered && !self.configured.is_blocked()
        })
    }

    /// Returns whether this machine has learned that it is no member any more.
    pub fn is_evicted(&self) -> bool {
        let driver = self.driver.as_ref();
        driver.is_some_and(|driver| driver.evicted.load(Ordering::Acquire))
    }

    /// Returns whether all regions have been active since this machine became a member. Always
    /// `true` on an initial member.
    pub(super) fn has_settled_in(&self) -> bool {
        let driver = self.driver.as_ref();
        driver.is_none_or(|driver| driver.settled_in.load(Ordering::Acquire))
    }

    /// Returns whether a client may be told how its transaction ended: no machine acts in a later
    /// configuration (CONFIGURED-2).
    #[inline]
    pub fn may_answer(&self) -> bool {
        let holds = || {
            let leasing = self.leasing.as_ref();
            leasing.is_none_or(|leasing| leasing.holds())
        };
        let may = || !self.configured.is_blocked() && holds();
        !self.replaces_machines() || fault::injected(Fault::AnswerWithoutLease) || may()
    }

    /// Waits until this machine may answer clients.
    ///
    /// # Errors
    /// [`Stop::NotMember`] if this machine stops, or is no member any more.
    pub async fn admitted(&self) -> Result<(), Stop> {
        match self.may_answer() {
            true => Ok(()),
            false => self.wait_for_admission().await,
        }
    }

    /// Does the same as [`Self::admitted`] while this machine may not answer clients yet.
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

    /// Runs the driver if it is due. Returns whether it ran.
    pub(super) fn govern(&self, machine: &Machine) -> bool {
        let Some(driver) = self.driver.as_ref().filter(|driver| driver.is_due()) else {
            return false;
        };
        let Some(mut state) = driver.state.try_lock() else {
            return false;
        };
        let state = &mut *state;
        for input in driver.inbox.take() {
            let now = driver.clock.now_ns();
            let suspected = match input {
                Input::Lease(at, LeaseEvent::Expired(of)) => Some((of, at)),
                Input::Severed(peer) => Some((peer, now)),
                _ => None,
            };
            // A suspicion of an evicted machine leads to no reconfiguration.
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
                    self.recovery_message(machine, driver, state, (from, message));
                }
                Input::JoinRequest(outsider, message) => {
                    self.admit(driver, state, outsider, message);
                }
            }
            self.apply_actions(machine, driver, state);
        }
        let now = driver.clock.now_ns();
        state.actions.extend(state.reconfiguration.tick(now));
        let actions = state.severed.tell(&mut state.reconfiguration, now);
        state.actions.extend(actions);
        self.apply_actions(machine, driver, state);
        self.take_answers(driver, state);
        self.apply_actions(machine, driver, state);
        self.acknowledge(driver, state);
        self.make_up(driver, state);
        self.apply_actions(machine, driver, state);
        self.drain(machine, driver, state);
        self.recover_data(machine, driver, state);
        self.tell_whole(driver, state);
        self.look_after_recovery(machine, driver, state);
        self.apply_actions(machine, driver, state);
        // Waiters for a renewed lease check again.
        self.configured.tell_waiting();
        let asks = !state.swaps.is_empty() || !state.reads.is_empty();
        let waits = asks || state.drain.is_some() || state.applied.is_some();
        let data_recovery = state.data_recovery.next_wake(driver.clock.now_ns());
        let recovering = state.recovering.next_wake().min(data_recovery);
        let recovering = recovering.min(state.severed.next_wake());
        let now = driver.clock.now_ns();
        let recovering = recovering.min(state.recovering.settles_at(now));
        let recovering = match state.makes_up {
            true => recovering.min(now + AGAIN_NS),
            false => recovering,
        };
        let wake = match !waits {
            true => state.reconfiguration.next_wake().min(recovering),
            // No other event would make the driver run.
            false => driver.clock.now_ns(),
        };
        driver.next_wake.store(wake, Ordering::Relaxed);
        true
    }

    /// Requests new replicas for regions that lost some before all machines restarted.
    fn make_up(&self, driver: &ReconfigurationDriver, state: &mut State) {
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
        if self.region_allocation.has_too_few(most) {
            let wished = state.reconfiguration.make_up(driver.clock.now_ns());
            // Otherwise another configuration is in progress, which restores the replicas.
            state.actions.extend(wished.unwrap_or_default());
        }
    }

    /// Takes the answers of the store.
    fn take_answers(&self, driver: &ReconfigurationDriver, state: &mut State) {
        let now = driver.clock.now_ns();
        let mut context = Context::from_waker(Waker::noop());
        let mut actions = Vec::new();
        let reconfiguration = &mut state.reconfiguration;
        let timelines = &mut state.timelines;
        state.swaps.retain_mut(|(attempt, asked)| {
            let Poll::Ready(answer) = asked.as_mut().poll(&mut context) else {
                return true;
            };
            let answer = answer.ok();
            if answer == Some(SwapOutcome::Won) {
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
    /// Returns whether the machine tells clients how their transactions end: it has its lease, and
    /// no reconfiguration is in progress.
    pub fn is_answering(&self) -> bool {
        self.network().is_none_or(|network| network.may_answer())
    }

    /// Waits until [`Self::is_answering`]: then the versions read here before were the latest.
    ///
    /// Does not wait on a machine that is alone.
    ///
    /// # Errors
    /// [`Stop::NotMember`] if the machine stops, or is no member any more.
    pub async fn admitted(&self) -> Result<(), Stop> {
        match self.network() {
            Some(network) => network.admitted().await,
            None => Ok(()),
        }
    }

    /// Returns whether the machine has learned that it is no member any more. It answers no
    /// requests, and is to be stopped.
    pub fn is_evicted(&self) -> bool {
        self.network().is_some_and(|network| network.is_evicted())
    }
}
