//! Carries out the actions of a reconfiguration on this machine.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fencepost_cluster::allocation::MovedRegion;
use fencepost_cluster::lease::{LeaseEvent, LeaseOrder};
use fencepost_cluster::reconfiguration::{Action, NewConfig, ReconfigurationMessage, RegionProbe};
use fencepost_cluster::{Configuration, ConfigurationId, Replication, Wire};
use fencepost_storage::Addr;

use super::drain::Drain;
use super::{Input, PendingAck, ReconfigurationDriver, State, Step, parts};
use crate::fault::{self, Fault};
use crate::machine::Machine;
use crate::network::Network;
use crate::network::disk::RegionsRecord;
use crate::network::peer_receiver::PeerReceiver;
use crate::network::peers::members;

impl Network {
    /// Carries out all queued actions, and those that follow from their answers.
    pub(super) fn apply_actions(
        &self,
        machine: &Machine,
        driver: &ReconfigurationDriver,
        state: &mut State,
    ) {
        while let Some(action) = state.actions.pop_front() {
            match action {
                Action::Send(to, mut message) => {
                    if let ReconfigurationMessage::NewConfig(new) = &mut message {
                        new.clock = Some(self.new_clock(machine.clock(), &state.handover));
                    }
                    if self.sender(to).is_none() {
                        // The receiver is a new machine unknown here. Without memory for its rings
                        // its messages are not received.
                        let _ = self.meet(state.reconfiguration.newest());
                    }
                    if let Some(sender) = self.sender(to) {
                        parts::send_bytes(sender, parts::RECONFIGURE, &message.encode());
                    }
                }
                Action::Leases(order) => self.order(driver, order),
                Action::Block => self.configured.block(),
                Action::ReportRegions(probe) => self.report_regions(machine, driver, state, probe),
                Action::CompareAndSwap {
                    attempt,
                    expected,
                    new,
                } => {
                    let store = Arc::clone(&driver.store);
                    let asked = async move { store.compare_and_swap(Some(expected), &new).await };
                    state.swaps.push((attempt, Box::pin(asked)));
                }
                Action::ReadStore { attempt } => {
                    let store = Arc::clone(&driver.store);
                    let asked = async move { store.read().await };
                    state.reads.push((attempt, Box::pin(asked)));
                }
                Action::BecomeManager(leading) => {
                    // After failures there may be fewer machines than replicas wanted.
                    let replicas = Replication::new(self.replication.wanted() - 1, 1);
                    state.handover.become_manager(leading.time_ns);
                    self.region_allocation.become_manager(*leading, replicas);
                }
                Action::Apply(new) => self.apply_new_configuration(machine, driver, state, &new),
                Action::Commit(configuration) => {
                    let now = driver.clock.now_ns();
                    state.timelines.since_applied(Step::Commit, now);
                    self.begin_to_drain(state, configuration);
                    let outgoing = self.region_allocation.take_up();
                    self.send_regions(machine, outgoing);
                    machine.clock().go_on();
                    self.configured.unblock();
                }
                Action::AllRegionsActive(configuration) => {
                    state.whole_in = Some(configuration);
                    self.activate(machine, &std::mem::take(&mut state.moved));
                    driver.settled_in.store(true, Ordering::Release);
                    self.drop_evicted_receivers();
                    state.recovering.forget(configuration);
                    self.recovers.store(false, Ordering::Release);
                    let now = driver.clock.now_ns();
                    state.timelines.since_applied(Step::AllActive, now);
                    self.begin_data_recovery(machine, now, state);
                }
                Action::Report(report) => self.region_allocation.report(report),
                Action::Wished(stored) => self.wished(driver, state, stored),
                Action::Part => self.parts.store(true, Ordering::Release),
                Action::Evicted(_) => {
                    self.pause_data_recovery(machine, state);
                    self.evict(machine, driver, state);
                }
            }
        }
    }

    fn order(&self, driver: &ReconfigurationDriver, order: LeaseOrder) {
        if fault::injected(Fault::SkipOldLeases) && order == LeaseOrder::AwaitOld {
            let id = self.configured.current().id();
            let over = LeaseEvent::OldRunOut(id);
            return self.inbox.push(Input::Lease(driver.clock.now_ns(), over));
        }
        let applies = matches!(order, LeaseOrder::Apply { .. });
        if let Some(leasing) = &self.leasing {
            // Without a mailbox for its leases a new member is suspected.
            let _ = leasing.obey(order);
        }
        if applies {
            // Leases begin anew, or no remaining machine is suspected.
            self.suspicions.forget();
        }
    }

    fn report_regions(
        &self,
        machine: &Machine,
        driver: &ReconfigurationDriver,
        state: &mut State,
        probe: RegionProbe,
    ) {
        let mut holdings = self.region_allocation.freeze_and_report(state.last_drained);
        // Read after the promise of the probe. Without leases no member has granted any.
        let granted_ns = self
            .leasing
            .as_ref()
            .map(|leases| leases.granted_ns(probe.base));
        holdings.granted_ns = granted_ns.unwrap_or(0);
        holdings.time_ns = state.handover.answer(machine.clock(), probe.by);
        let now = driver.clock.now_ns();
        state.timelines.towards_next(Step::Probe, now);
        let answer = state.reconfiguration.regions_reported(now, probe, holdings);
        state.actions.extend(answer);
    }

    /// Applies a new configuration (step 6). From here on nothing is sent to or accepted from
    /// machines outside it (SOSP'15 §5.2). Without memory for the rings of a new member it does
    /// nothing, and this machine is taken for failed.
    fn apply_new_configuration(
        &self,
        machine: &Machine,
        driver: &ReconfigurationDriver,
        state: &mut State,
        new: &NewConfig,
    ) {
        let configuration = &new.configuration;
        let id = configuration.id();
        if self.meet(configuration).is_err() {
            return;
        }
        if let Some(admission) = &mut state.admission {
            admission.apply(configuration.clone());
        }
        self.pause_data_recovery(machine, state);
        self.recovers.store(true, Ordering::Release);
        let moved = self.regions_that_move(new, state.last_drained);
        let (unanswered, (refused, outgoing, parted)) =
            self.configured.apply(configuration, || {
                self.change_clock(machine.clock(), &mut state.handover, new);
                self.leaves
                    .store(configuration.is_leaving(self.me), Ordering::Release);
                for peer in &self.peers {
                    match configuration.has(peer.id) {
                        true => peer.sender.begin_configuration(id),
                        false => {
                            peer.sender.give_up();
                            peer.evicted.store(true, Ordering::Relaxed);
                        }
                    }
                }
                let unanswered = std::mem::take(&mut *self.replies.lock());
                (unanswered, self.apply_to_regions(machine, new, &moved))
            });
        // Transactions that wait for one of these replies are retried.
        drop(unanswered);
        let evicted_peers = self.peers.iter();
        let evicted = evicted_peers.filter(|peer| !configuration.has(peer.id));
        for peer in evicted {
            peer.channel.break_off();
            self.slot_reservations.forget_machine(peer.id);
        }
        self.remote_lock_waits.lock().clear();
        if !parted.is_empty() {
            self.leave_lines(machine, |row| parted.contains(&row.region()));
        }
        state.whole_in = None;
        let members = members(configuration);
        // This machine is a member: it applies only configurations that contain it.
        if !fault::injected(Fault::AcceptLostMachines) {
            let _ = self.fabric.set_members(&members);
        }
        // Regions of an earlier configuration that are not active yet remain inactive.
        let waits = |moved: &MovedRegion| {
            let mut before = state.moved.iter();
            before.any(|before| before.mapping.region == moved.mapping.region)
        };
        let named = new.moved.iter();
        let inactive = named.filter(|named| moved.contains(&named.mapping.region) || waits(named));
        let inactive: Vec<MovedRegion> = inactive.cloned().collect();
        let is_lost = |before: &MovedRegion| new.lost.contains(&before.mapping.region);
        let is_new = |before: &MovedRegion| {
            let mut inactive = inactive.iter();
            inactive.any(|named| named.mapping.region == before.mapping.region)
        };
        state
            .moved
            .retain(|before| !is_lost(before) && !is_new(before));
        state.moved.extend(inactive);
        self.send_regions(machine, outgoing);
        state.drain = None;
        if fault::injected(Fault::RecoverBeforeDrained) {
            self.begin_to_drain(state, id);
        }
        let now = driver.clock.now_ns();
        state.timelines.applied(id, now);
        tell(configuration);
        let durable_at = self.disk.as_ref().map(|disk| {
            let held = self.region_allocation.held();
            disk.is_in(RegionsRecord {
                configuration: configuration.clone(),
                held,
            })
        });
        state.applied = Some(PendingAck {
            configuration: id,
            refused,
            durable_at,
        });
        self.acknowledge(driver, state);
    }

    /// Acknowledges a configuration that is applied, once it is durable on the disk if there is one
    /// (DISK-7).
    pub(super) fn acknowledge(&self, driver: &ReconfigurationDriver, state: &mut State) {
        let durable = |applied: &mut PendingAck| match (&self.disk, applied.durable_at) {
            (Some(disk), Some(lsn)) if !disk.is_flushed(lsn) => {
                disk.arm(lsn);
                false
            }
            _ => true,
        };
        if let Some(applied) = state.applied.take_if(durable) {
            let now = driver.clock.now_ns();
            let (id, refused) = (applied.configuration, applied.refused);
            let answer = state.reconfiguration.applied(now, id, refused);
            state.actions.extend(answer);
        }
    }

    /// Abandons the row-lock queues of rows for which `are_handed_over` is true: they are at other
    /// machines from now on. Waiters of other machines in them give nothing back any more.
    fn leave_lines(&self, machine: &Machine, are_handed_over: impl Fn(Addr) -> bool) {
        for receiver in self.receivers.lock().iter_mut() {
            receiver.part_with(&are_handed_over);
        }
        machine.intents().leave_to_own(are_handed_over);
    }

    fn begin_to_drain(&self, state: &mut State, configuration: ConfigurationId) {
        state.drain = Some(Drain::of(configuration));
    }

    /// Drops the receivers of evicted machines. All their records are settled on every machine.
    fn drop_evicted_receivers(&self) {
        let configuration = self.configured.current();
        let mut receivers = self.receivers.lock();
        let is_over = |receiver: &mut PeerReceiver| {
            receiver.is_read_out() && !configuration.has(receiver.peer())
        };
        let over: Vec<PeerReceiver> = receivers.extract_if(.., is_over).collect();
        drop(receivers);
        drop(over);
    }

    /// Handles the eviction of this machine: it sends nothing more, its regions are hidden, and
    /// waiters are told. Locks here stay, because peers that have not heard of the eviction may
    /// still read here.
    fn evict(&self, machine: &Machine, driver: &ReconfigurationDriver, state: &mut State) {
        driver.evicted.store(true, Ordering::Release);
        let me = self.me.0;
        tracing::error!(
            machine = me,
            "machine {me} is no member any more: the others go on without it"
        );
        state.drain = None;
        state.swaps.clear();
        state.reads.clear();
        self.configured.leave();
        self.region_map.suspend_all();
        self.region_allocation.give_up();
        for peer in &self.peers {
            peer.sender.give_up();
            peer.evicted.store(true, Ordering::Relaxed);
            peer.channel.break_off();
            self.slot_reservations.forget_machine(peer.id);
        }
        // Dropped after the mutexes are unlocked.
        let replies = std::mem::take(&mut *self.replies.lock());
        let remote_lock_waits = std::mem::take(&mut *self.remote_lock_waits.lock());
        let askers = std::mem::take(&mut *self.askers.lock());
        drop((replies, remote_lock_waits, askers));
        self.leave_lines(machine, |_| true);
        self.in_flight.leave_undecided();
        self.configured.give_up();
    }
}

/// Logs a configuration that this machine has applied.
fn tell(configuration: &Configuration) {
    let machines: Vec<u32> = configuration.machines().iter().map(|of| of.id.0).collect();
    let (id, cm) = (configuration.id().0, configuration.cm().0);
    tracing::info!(
        configuration = id,
        cm,
        "configuration {id}: its machines are {machines:?}, \
         its configuration manager is machine {cm}"
    );
}
