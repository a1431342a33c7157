//! Transaction recovery on this machine (SOSP'15 §5.3): carries out the actions that
//! [`crate::recovery`] decides.
//!
//! ```text
//! logs are drained ─► find ─► Recovery ──┬─► messages
//!    records, own commits, kept evidence  ├─► settle: a primary by its locks,
//!                                         │           other replicas as COMMIT-BACKUP
//!                                         └─► done ─► promote ─► regions active
//! ```
//! *Unlike the paper* a region with a new primary serves once its recovering transactions are
//! settled, not once it is locked. Until then its replica is a backup like any other, to which
//! commits are applied by their versions. So there are no locks to recover, and no reader sees a
//! write that may be undone.
//!
//! # Invariants
//! * RECOVER-1: evidence and decisions that recovery has recorded on this machine stay until they
//!   are truncated: they are evidence if another recovery begins.
//! * RECOVER-2: a region is promoted when no transaction of an earlier configuration waits to be
//!   applied to it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use fencepost_cluster::few::FewSet;
use fencepost_cluster::{ConfigurationId, Replicas};
use fencepost_fabric::MachineId;
use fencepost_storage::log::Lsn;
use fencepost_storage::{RegionId, Timestamp};

use super::{AGAIN_NS, ReconfigurationDriver, State, Step, parts};
use crate::fault::{self, Fault};
use crate::machine::Machine;
use crate::network::Network;
use crate::network::backup;
use crate::record::TxnId;
use crate::recovery::{
    Action, Begin, Decision, Evidence, Recovery, RecoveryMessage, ReplicaEvidence,
};
use crate::recovery::{RecoveryEnvironment, RegionPrimary};

/// Blocks of promoted regions that are searched for free slots in one call (SOSP'15 §5.5).
const BLOCKS_AT_ONCE: usize = 4;

/// The recovery of transactions on this machine.
pub(super) struct RecoveryDriver {
    protocol: Recovery,
    /// Whether a recovery is in progress.
    running: bool,
    evidence: BTreeMap<(TxnId, u32), LocalEvidence>,
    /// Transactions that recovery has truncated here, until every machine has recovered.
    truncated: BTreeSet<TxnId>,
    /// Committed writes that wait for the versions that they change.
    waiting: Vec<PendingWrite>,
    /// Promoted regions whose free slots have not all been found.
    taking_up: Vec<RegionId>,
    /// Actions that wait until the log on this machine's disk is durable up to a position (DISK-8).
    outbox: VecDeque<(Lsn, Action)>,
    /// The log position that must be durable before this machine's recovery ends.
    done_at: Option<Lsn>,
    /// All machines have recovered the configurations before this one, and the disk has not
    /// recorded that yet.
    settled: Option<ConfigurationId>,
}

/// The evidence and content that recovery keeps here for a transaction and a region.
struct LocalEvidence {
    seen: ReplicaEvidence,
    content: Option<Arc<[u64]>>,
}

struct PendingWrite {
    region: u32,
    w: Timestamp,
    content: Arc<[u64]>,
}

impl RecoveryDriver {
    pub fn new(me: MachineId) -> RecoveryDriver {
        RecoveryDriver {
            protocol: Recovery::new(me),
            running: false,
            evidence: BTreeMap::new(),
            truncated: BTreeSet::new(),
            waiting: Vec::new(),
            taking_up: Vec::new(),
            outbox: VecDeque::new(),
            done_at: None,
            settled: None,
        }
    }

    /// Records that every machine has recovered the configurations before this one. No machine asks
    /// about them any more.
    pub fn forget(&mut self, before: ConfigurationId) {
        self.truncated.clear();
        self.settled = Some(before);
    }

    /// Returns whether an action of a recovery waits for the disk.
    pub fn waits_for_disk(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Returns the next time at which recovery has work without new input.
    pub fn next_wake(&self) -> u64 {
        // After its own recovery this machine may still have to decide for others.
        let disk = self.waits_for_disk() || self.done_at.is_some();
        match self.waiting.is_empty() && self.taking_up.is_empty() && !disk {
            true => self.protocol.next_wake(),
            false => 0,
        }
    }

    /// Returns when to check next whether the disk can record that all is settled.
    pub fn settles_at(&self, now: u64) -> u64 {
        match self.settled {
            Some(_) => now + AGAIN_NS,
            None => u64::MAX,
        }
    }

    /// Returns whether no recovery is in progress.
    pub fn is_at_rest(&self) -> bool {
        let over = !self.running && self.settled.is_none() && self.outbox.is_empty();
        over && self.waiting.is_empty() && self.evidence.is_empty()
    }

    fn keep(&mut self, seen: ReplicaEvidence, content: Option<Arc<[u64]>>) {
        let of = (seen.id, seen.region);
        match self.evidence.get_mut(&of) {
            Some(there) => {
                there.seen.evidence = there.seen.evidence.and(seen.evidence);
                there.seen.w = there.seen.w.or(seen.w);
                there.content = there.content.take().or(content);
            }
            None => drop(self.evidence.insert(of, LocalEvidence { seen, content })),
        }
    }
}

/// A commit of this machine whose outcome it waits for, and the regions that it writes.
type AwaitedCommit = (TxnId, Arc<[u32]>);

/// The state of this machine that recovery queries.
struct RecoveryView<'a> {
    machine: &'a Machine,
    network: &'a Network,
    evidence: &'a BTreeMap<(TxnId, u32), LocalEvidence>,
    truncated: &'a BTreeSet<TxnId>,
}

impl RecoveryEnvironment for RecoveryView<'_> {
    fn region_primary(&self, region: u32) -> RegionPrimary {
        self.network.replicas_in_force(RegionId(region))
    }

    fn was_truncated(&self, id: TxnId, region: u32) -> bool {
        // A truncation before this machine became a replica of the region tells nothing about the
        // region.
        let truncated = || self.truncated.contains(&id) || self.machine.was_truncated(id);
        self.network.region_allocation.is_whole(RegionId(region)) && truncated()
    }

    fn content(&self, id: TxnId, region: u32) -> Arc<[u64]> {
        let evidence = self.evidence.get(&(id, region));
        let evidence = evidence.and_then(|held| held.content.clone());
        let content = evidence.or_else(|| self.machine.content(id, region));
        content.unwrap_or_else(|| Arc::from([]))
    }
}

impl Network {
    /// Begins recovery once all logs are drained.
    pub(super) fn recover(
        &self,
        machine: &Machine,
        driver: &ReconfigurationDriver,
        state: &mut State,
    ) {
        let now = driver.clock.now_ns();
        let configuration = state.last_drained;
        let regions = self.region_allocation.to_recover();
        let (found, awaited) = self.find_recovering(machine, state, configuration, &regions);
        let members = self.configured.current();
        let members = members.machines().iter().map(|machine| machine.id);
        let begin = Begin {
            configuration,
            members: members.collect(),
            regions,
            found,
            awaited,
        };
        let recovering = &mut state.recovering;
        recovering.running = true;
        recovering.done_at = None;
        recovering.settled = None;
        let around = RecoveryView {
            machine,
            network: self,
            evidence: &recovering.evidence,
            truncated: &recovering.truncated,
        };
        let actions = recovering.protocol.begin(now, begin, &around);
        self.carry_out_recovery(machine, state, actions);
    }

    /// Handles a message of another machine's recovery.
    pub(super) fn recovery_message(
        &self,
        machine: &Machine,
        driver: &ReconfigurationDriver,
        state: &mut State,
        (from, message): (MachineId, RecoveryMessage),
    ) {
        let now = driver.clock.now_ns();
        let recovering = &mut state.recovering;
        let around = RecoveryView {
            machine,
            network: self,
            evidence: &recovering.evidence,
            truncated: &recovering.truncated,
        };
        let actions = recovering.protocol.receive(now, from, message, &around);
        self.carry_out_recovery(machine, state, actions);
    }

    /// Does the periodic work of recovery.
    pub(super) fn look_after_recovery(
        &self,
        machine: &Machine,
        driver: &ReconfigurationDriver,
        state: &mut State,
    ) {
        self.go_on_with_recovery(machine, state);
        let recovering = &mut state.recovering;
        let now = driver.clock.now_ns();
        if now >= recovering.protocol.next_wake() {
            let around = RecoveryView {
                machine,
                network: self,
                evidence: &recovering.evidence,
                truncated: &recovering.truncated,
            };
            let actions = recovering.protocol.tick(now, &around);
            self.carry_out_recovery(machine, state, actions);
        }
        if !(fault::injected(Fault::ServeBeforeApplied) && state.recovering.running) {
            self.apply_what_waited(machine, state);
        }
        self.finish_recovery(machine, driver, state);
        self.settle_on_disk(state);
        let recovering = &mut state.recovering;
        recovering
            .taking_up
            .retain(|region| !machine.take_up(*region, BLOCKS_AT_ONCE));
    }

    /// Finds recovering transactions (step 3): all of earlier configurations that have state here,
    /// and this machine's own undecided commits.
    fn find_recovering(
        &self,
        machine: &Machine,
        state: &State,
        configuration: ConfigurationId,
        regions: &[(u32, Replicas)],
    ) -> (Vec<ReplicaEvidence>, Vec<AwaitedCommit>) {
        let mut found: BTreeMap<(TxnId, u32), ReplicaEvidence> = BTreeMap::new();
        let mut add = |seen: ReplicaEvidence| match found.get_mut(&(seen.id, seen.region)) {
            Some(there) => {
                there.evidence = there.evidence.and(seen.evidence);
                there.w = there.w.or(seen.w);
            }
            None => drop(found.insert((seen.id, seen.region), seen)),
        };
        machine
            .seen_before(configuration)
            .into_iter()
            .for_each(&mut add);
        let evidence = state.recovering.evidence.values();
        evidence.map(|held| held.seen.clone()).for_each(&mut add);
        // A region whose primary this machine was when the commit began still has this primary.
        let own: FewSet<u32> = regions
            .iter()
            .map(|(region, _)| *region)
            .filter(|region| machine.regions().has_own(RegionId(*region)))
            .collect();
        let mut awaited = Vec::new();
        for commit in self.in_flight.in_doubt(configuration.0) {
            for region in commit.written.iter().filter(|region| own.contains(region)) {
                add(ReplicaEvidence {
                    id: commit.id,
                    region: *region,
                    evidence: commit.evidence,
                    written: Arc::clone(&commit.written),
                    w: Some(commit.w),
                });
            }
            if !commit.decided {
                awaited.push((commit.id, commit.written));
            }
        }
        (found.into_values().collect(), awaited)
    }

    /// Carries out actions of recovery. With a disk, their log records become durable first.
    fn carry_out_recovery(&self, machine: &Machine, state: &mut State, actions: Vec<Action>) {
        let Some(disk) = &self.disk else {
            for action in actions {
                self.do_of_recovery(machine, state, action);
            }
            return;
        };
        let mut later = Vec::new();
        for action in actions {
            match action {
                Action::Keep { seen, content } => {
                    disk.log_evidence(&seen, content.as_deref().unwrap_or_default());
                    // A decision that other machines have been told, or shown, is final.
                    let shown = Evidence::COMMIT_PRIMARY.and(Evidence::COMMIT_RECOVERY);
                    if seen.evidence.any_of(shown) {
                        disk.keep_decided(seen.id, seen.w);
                    } else if seen.evidence.any_of(Evidence::ABORT_RECOVERY) {
                        disk.keep_decided(seen.id, None);
                    }
                    // Another machine may ask for the evidence at once.
                    state.recovering.keep(seen, content);
                    continue;
                }
                Action::Commit(ref seen) => disk.keep_decided(seen.id, seen.w),
                Action::Abort(ref seen) => disk.keep_decided(seen.id, None),
                Action::Decided { id, decision } if id.machine == self.me.0 => {
                    // Recovery may ask again about a decided commit if no machine knows that it has
                    // finished.
                    if let Some(w) = self.in_flight.undecided(id) {
                        let w = (decision == Decision::Commit).then_some(w);
                        disk.keep_own_decided(id, w);
                    }
                }
                _ => {}
            }
            later.push(action);
        }
        let lsn = disk.position();
        let later = later.into_iter().map(|action| (lsn, action));
        state.recovering.outbox.extend(later);
        self.go_on_with_recovery(machine, state);
    }

    /// Carries out the actions whose log records are durable.
    fn go_on_with_recovery(&self, machine: &Machine, state: &mut State) {
        let Some(disk) = &self.disk else { return };
        let durable = |(lsn, _): &mut (Lsn, Action)| disk.is_flushed(*lsn);
        while let Some((_, action)) = state.recovering.outbox.pop_front_if(durable) {
            self.do_of_recovery(machine, state, action);
        }
        if let Some((lsn, _)) = state.recovering.outbox.front() {
            disk.arm(*lsn);
        }
    }

    /// Records on the disk that nothing of earlier configurations is needed, once all of it has
    /// been applied here.
    fn settle_on_disk(&self, state: &mut State) {
        let recovering = &mut state.recovering;
        let Some(configuration) = recovering.settled else {
            return;
        };
        let Some(disk) = &self.disk else {
            recovering.settled = None;
            return;
        };
        let waits = !recovering.waiting.is_empty() || self.in_flight.has_before(configuration.0);
        if !waits && recovering.outbox.is_empty() {
            recovering.settled = None;
            disk.is_settled(configuration, self.is_late());
        }
    }

    fn do_of_recovery(&self, machine: &Machine, state: &mut State, action: Action) {
        match action {
            Action::Send(to, message) => {
                if let Some(sender) = self.sender(to) {
                    parts::send(sender, parts::RECOVER, &message.words());
                }
            }
            Action::Keep { seen, content } => state.recovering.keep(seen, content),
            // No machine uses a region with a new primary before it is settled.
            Action::Lock { .. } | Action::Active(_) | Action::RegionsActive => {}
            Action::Commit(seen) => {
                self.apply_decision(machine, state, &seen, seen.w);
                state.recovering.keep(seen, None);
            }
            Action::Abort(seen) => {
                self.apply_decision(machine, state, &seen, None);
                state.recovering.keep(seen, None);
            }
            Action::Truncate { id } => {
                state.recovering.evidence.retain(|(of, _), _| *of != id);
                state.recovering.truncated.insert(id);
                self.truncate_recovered(id);
            }
            Action::Decided { id, decision } => self.in_flight.decide(id, decision),
        }
    }

    /// Settles a transaction in a region: it takes effect at `w`, or has no effect.
    fn apply_decision(
        &self,
        machine: &Machine,
        state: &mut State,
        seen: &ReplicaEvidence,
        w: Option<Timestamp>,
    ) {
        let (id, region) = (seen.id, seen.region);
        if machine.regions().has_own(RegionId(region)) {
            // For this machine's own transaction the coordinator does it, or its log records do.
            if id.machine != self.me.0 {
                let mut receivers = self.receivers.lock();
                if let Some(receiver) = receivers
                    .iter_mut()
                    .find(|receiver| receiver.is_of(id.machine))
                {
                    let evidence = state.recovering.evidence.range((id, 0)..=(id, u32::MAX));
                    let found = evidence.filter_map(|(_, held)| held.content.as_deref());
                    receiver.apply_decision(machine, id, w, found);
                }
            }
            return;
        }
        let Some(w) = w else { return };
        let evidence = state.recovering.evidence.get(&(id, region));
        let evidence = evidence.and_then(|held| held.content.clone());
        if let Some(content) = evidence.or_else(|| machine.content(id, region)) {
            state
                .recovering
                .waiting
                .push(PendingWrite { region, w, content });
        }
    }

    /// Applies committed writes to backups as soon as the versions that they change have arrived.
    fn apply_what_waited(&self, machine: &Machine, state: &mut State) {
        let mut receivers = self.receivers.lock();
        for receiver in receivers.iter_mut() {
            receiver.look_again(machine, self);
        }
        drop(receivers);
        loop {
            let waiting = &mut state.recovering.waiting;
            let before = waiting.len();
            waiting.retain(|waiting| {
                let PendingWrite { w, content, .. } = waiting;
                let (regions, changed) = (machine.regions(), &self.changed);
                let applied = backup::apply_content(regions, changed, content, *w, &|_| true);
                // A write that cannot be applied comes from a faulty peer.
                !applied.unwrap_or(true)
            });
            if waiting.len() == before || waiting.is_empty() {
                return;
            }
        }
    }

    /// Drops the local records of a recovered transaction. No other machine has records of it.
    fn truncate_recovered(&self, id: TxnId) {
        if id.machine == self.me.0 {
            self.home.lock().abort(id);
            self.in_flight.release_from_recovery(id);
            return;
        }
        let mut receivers = self.receivers.lock();
        if let Some(receiver) = receivers
            .iter_mut()
            .find(|receiver| receiver.is_of(id.machine))
        {
            receiver.truncate_recovered(id);
        }
    }

    /// Ends recovery once every transaction is settled: promotes the regions whose primary this
    /// machine has become.
    fn finish_recovery(
        &self,
        machine: &Machine,
        driver: &ReconfigurationDriver,
        state: &mut State,
    ) {
        let recovering = &mut state.recovering;
        let done = recovering.protocol.is_over() || fault::injected(Fault::ServeBeforeSettled);
        if !recovering.running || !done || recovering.waits_for_disk() {
            return;
        }
        if let Some(disk) = &self.disk {
            // The records of truncations must be durable, too.
            let lsn = *recovering.done_at.get_or_insert_with(|| disk.position());
            if !disk.is_flushed(lsn) {
                return disk.arm(lsn);
            }
        }
        let mine = |replicas: &Replicas| replicas.primary() == self.me;
        let mut moved = state
            .moved
            .iter()
            .filter(|moved| mine(&moved.mapping.replicas));
        let waits = |region: RegionId| {
            let mut waiting = recovering.waiting.iter();
            waiting.any(|waiting| waiting.region == region.0)
        };
        // A region whose backup this machine has only now become waits for data recovery instead.
        let promotes = |region| moved.clone().any(|moved| moved.mapping.region == region);
        let applied = fault::injected(Fault::ServeBeforeApplied)
            || !moved.clone().any(|moved| waits(moved.mapping.region))
                && !self.awaits_versions(machine, &promotes);
        if !applied {
            return;
        }
        let (_, floor) = machine.interval();
        let promoted: Vec<RegionId> = moved
            .by_ref()
            .filter(|moved| {
                let mapping = &moved.mapping;
                machine.begin_handover(mapping.region, &mapping.replicas, floor)
            })
            .map(|moved| moved.mapping.region)
            .collect();
        state.recovering.taking_up.extend(promoted);
        state.recovering.running = false;
        state.recovering.done_at = None;
        let mut receivers = self.receivers.lock();
        for receiver in receivers.iter_mut() {
            receiver.sweep(machine, state.last_drained.0);
        }
        for receiver in receivers
            .iter_mut()
            .filter(|receiver| receiver.is_read_out())
        {
            receiver.take_back(machine);
        }
        drop(receivers);
        // A transaction that writes no region of this machine is not truncated here otherwise.
        self.in_flight.settle_before(state.last_drained.0);
        let mut home = self.home.lock();
        for id in home.before(state.last_drained.0) {
            home.abort(id);
        }
        drop(home);
        let now = driver.clock.now_ns();
        state.timelines.since_applied(Step::Active, now);
        let actions = state
            .reconfiguration
            .regions_active(now, state.last_drained);
        state.actions.extend(actions);
    }

    /// Returns whether a truncated transaction at a backup of one of these regions waits for a
    /// version that another transaction writes.
    fn awaits_versions(&self, machine: &Machine, among: &dyn Fn(RegionId) -> bool) -> bool {
        let receivers = self.receivers.lock();
        let mut receivers = receivers.iter();
        receivers.any(|receiver| receiver.awaits_versions(machine, self, among)) || {
            let home = self.home.lock();
            home.awaits_versions(machine.regions(), &self.changed, among)
        }
    }
}
