//! A machine's part in transaction recovery, from one configuration to the next.

use std::mem::take;
use std::sync::Arc;

use fencepost_cluster::few::FewMap;
use fencepost_cluster::{ConfigurationId, MachineId, Replicas};
use fencepost_storage::Timestamp;

use super::coordinator::Coordinator;
use super::decide::Decision;
use super::message::{Body, RecoveryMessage, seen_words};
use super::post::RecoveryActions;
use super::region::Primary;
use super::seen::{RegionEvidence, ReplicaEvidence};
use super::vote::Evidence;
use super::{Action, RecoveryEnvironment};
use crate::record::TxnId;

/// Most words of evidence in one NEED-RECOVERY message.
const NEED_WORDS: usize = 2048;

/// The input of a recovery, after this machine has drained its logs.
#[derive(Clone, Debug)]
pub struct Begin {
    /// The configuration that is in force now.
    pub configuration: ConfigurationId,
    /// Its members.
    pub members: Vec<MachineId>,
    /// The regions of which this machine is a replica, with all replicas of each.
    pub regions: Vec<(u32, Replicas)>,
    /// The evidence of this machine for transactions of older configurations. That includes the
    /// evidence that earlier recoveries made it keep, until it is truncated.
    pub found: Vec<ReplicaEvidence>,
    /// Transactions of older configurations that this machine has run and whose outcome it awaits,
    /// with the regions that they write.
    pub awaited: Vec<(TxnId, Arc<[u32]>)>,
}

/// A machine's part in transaction recovery.
#[derive(Debug)]
pub struct Recovery {
    me: MachineId,
    running: Option<RunningRecovery>,
    /// Messages of configurations in which this machine has not begun yet.
    early: Vec<(MachineId, RecoveryMessage)>,
}

/// The recovery in one configuration.
#[derive(Debug)]
struct RunningRecovery {
    post: RecoveryActions,
    regions: FewMap<u32, Region>,
    coordinator: Coordinator,
    /// Whether [`Action::RegionsActive`] was returned.
    active: bool,
}

/// The state of a region of which this machine is a replica.
#[derive(Debug)]
struct Region {
    held: RegionEvidence,
    role: Role,
}

#[derive(Debug)]
enum Role {
    Primary(Primary),
    /// A backup: its primary, and whether the primary has sent all evidence.
    Backup(MachineId, bool),
}

impl Recovery {
    /// Returns the state of a machine before its first configuration.
    pub fn new(me: MachineId) -> Recovery {
        Recovery {
            me,
            running: None,
            early: Vec::new(),
        }
    }

    /// Begins the recovery in a configuration, with the evidence that draining the logs has found
    /// (SOSP'15 §5.3, step 3). The recovery of an earlier configuration is given up. `now` is in
    /// nanoseconds of any monotonic clock, the same for all calls. The caller carries out the
    /// returned actions in their order.
    #[must_use]
    pub fn begin(
        &mut self,
        now: u64,
        begin: Begin,
        around: &dyn RecoveryEnvironment,
    ) -> Vec<Action> {
        let configuration = begin.configuration;
        let mut running = RunningRecovery::new(self.me, begin, now);
        running.find(around);
        for (from, message) in take(&mut self.early) {
            if message.configuration == configuration {
                running.receive(now, from, message.body, around);
            } else if message.configuration > configuration {
                self.early.push((from, message));
            }
        }
        let actions = running.done(now, around);
        self.running = Some(running);
        actions
    }

    /// Handles a message. A message of an older configuration is ignored. A message of a later
    /// configuration is kept until this machine begins in that configuration. All members have
    /// applied that configuration by then, so no configuration begins in between. REQUEST-VOTE is
    /// not kept, because it is sent again. So the number of kept messages is bounded by the regions
    /// and transactions of the peers.
    #[must_use]
    pub fn receive(
        &mut self,
        now: u64,
        from: MachineId,
        message: RecoveryMessage,
        around: &dyn RecoveryEnvironment,
    ) -> Vec<Action> {
        let of = message.configuration;
        match &mut self.running {
            Some(running) if running.post.configuration == of => {
                running.receive(now, from, message.body, around);
                return running.done(now, around);
            }
            Some(running) if running.post.configuration > of => {}
            _ if matches!(message.body, Body::RequestVote { .. }) => {}
            _ => {
                let newest = self.early.last().map(|(_, early)| early.configuration);
                if newest.is_some_and(|newest| newest < of) {
                    self.early.clear();
                }
                if newest.is_none_or(|newest| newest <= of) {
                    self.early.push((from, message));
                }
            }
        }
        Vec::new()
    }

    /// Handles the passing of time: sends REQUEST-VOTE where a vote is missing for 250 µs (SOSP'15
    /// §5.3, step 6).
    #[must_use]
    pub fn tick(&mut self, now: u64, around: &dyn RecoveryEnvironment) -> Vec<Action> {
        let Some(running) = &mut self.running else {
            return Vec::new();
        };
        running.coordinator.ask(now, around, &mut running.post);
        running.done(now, around)
    }

    /// Returns when to call [`Self::tick`] at the latest, in nanoseconds of the clock of `now`;
    /// `u64::MAX` for never.
    pub fn next_wake(&self) -> u64 {
        let running = self.running.as_ref();
        running.map_or(u64::MAX, |running| running.coordinator.next_wake())
    }

    /// Returns whether this machine has no record of an older configuration, will receive none, and
    /// has nothing to decide. Other machines may still ask it to decide.
    pub fn is_over(&self) -> bool {
        self.running.as_ref().is_some_and(|running| {
            let mut regions = running.regions.values();
            regions.all(Region::is_settled) && running.coordinator.is_settled()
        })
    }
}

impl Region {
    fn is_settled(&self) -> bool {
        let role = match &self.role {
            Role::Primary(primary) => primary.is_settled(),
            Role::Backup(_, complete) => *complete,
        };
        role && self.held.is_empty()
    }
}

impl RunningRecovery {
    fn new(me: MachineId, begin: Begin, now: u64) -> RunningRecovery {
        let mut found: FewMap<u32, Vec<ReplicaEvidence>> = FewMap::new();
        for seen in begin.found {
            debug_assert!(seen.is_whole(), "{seen:?}");
            if seen.evidence.has_records() && seen.id.configuration < begin.configuration.0 {
                found.entry(seen.region).or_default().push(seen);
            }
        }
        let regions = begin.regions.into_iter().map(|(region, replicas)| {
            let held = RegionEvidence::new(found.remove(&region).into_iter().flatten());
            let role = match replicas.primary() {
                primary if primary == me => Role::Primary(Primary::new(region, replicas)),
                primary => Role::Backup(primary, false),
            };
            (region, Region { held, role })
        });
        let mut coordinator = Coordinator::default();
        for (id, written) in begin.awaited {
            coordinator.awaited(now, id, written);
        }
        RunningRecovery {
            regions: regions.collect(),
            post: RecoveryActions::new(me, begin.configuration, begin.members),
            coordinator,
            active: false,
        }
    }

    /// Finds recovering transactions (step 3): sends NEED-RECOVERY to the primaries.
    fn find(&mut self, around: &dyn RecoveryEnvironment) {
        for (region, replica) in &mut self.regions {
            match &mut replica.role {
                Role::Primary(primary) => {
                    primary.find(&mut replica.held, around, &mut self.post);
                }
                Role::Backup(primary, _) => {
                    need_recovery(*primary, *region, &replica.held, &mut self.post);
                }
            }
        }
    }

    /// Returns the actions to carry out.
    fn done(&mut self, now: u64, around: &dyn RecoveryEnvironment) -> Vec<Action> {
        while let Some(body) = self.post.own.pop_front() {
            self.receive(now, self.post.me, body, around);
        }
        let is_active = |region: &Region| match &region.role {
            Role::Primary(primary) => primary.is_active(),
            Role::Backup(..) => true,
        };
        if !self.active && self.regions.values().all(is_active) {
            self.active = true;
            self.post.actions.push(Action::RegionsActive);
        }
        take(&mut self.post.actions)
    }

    fn receive(&mut self, now: u64, from: MachineId, body: Body, around: &dyn RecoveryEnvironment) {
        let post = &mut self.post;
        if !post.has(from) {
            return;
        }
        match body {
            Body::RecoveryVote(vote) => self.coordinator.recovery_vote(now, vote, post),
            Body::RecoveryAck { id } => self.coordinator.recovery_ack(from, id, post),
            Body::CommitRecovery { id, w, written } => {
                self.decided(id, &written, Some(w), around);
                self.post.send(from, Body::RecoveryAck { id });
            }
            Body::AbortRecovery { id, written } => {
                self.decided(id, &written, None, around);
                self.post.send(from, Body::RecoveryAck { id });
            }
            Body::TruncateRecovery { id } => self.truncate(id),
            Body::NeedRecovery { region, .. }
            | Body::FetchTxState { region, .. }
            | Body::SendTxState { region, .. }
            | Body::ReplicateTxState {
                seen: ReplicaEvidence { region, .. },
                ..
            }
            | Body::ReplicateAck { region, .. }
            | Body::Replicated { region }
            | Body::RequestVote { region, .. } => {
                let Some(Region { held, role }) = self.regions.get_mut(&region) else {
                    return;
                };
                match role {
                    Role::Primary(primary) => {
                        at_primary(primary, from, body, held, around, post);
                    }
                    Role::Backup(primary, complete) if *primary == from => {
                        *complete |= at_backup(from, body, held, around, post);
                    }
                    Role::Backup(..) => {}
                }
            }
        }
    }

    /// Handles COMMIT-RECOVERY or, without a timestamp, ABORT-RECOVERY: acts on every region that
    /// the transaction writes, except those where it was truncated here.
    fn decided(
        &mut self,
        id: TxnId,
        written: &Arc<[u32]>,
        w: Option<Timestamp>,
        around: &dyn RecoveryEnvironment,
    ) {
        for (region, replica) in &mut self.regions {
            if !written.contains(region) || around.was_truncated(id, *region) {
                continue;
            }
            let (evidence, decision) = match w {
                Some(_) => (Evidence::COMMIT_RECOVERY, Decision::Commit),
                None => (Evidence::ABORT_RECOVERY, Decision::Abort),
            };
            let seen = ReplicaEvidence {
                id,
                region: *region,
                evidence,
                written: Arc::clone(written),
                w,
            };
            replica.held.learn(&seen);
            self.post.actions.push(match decision {
                Decision::Commit => Action::Commit(seen),
                Decision::Abort => Action::Abort(seen),
            });
        }
    }

    fn truncate(&mut self, id: TxnId) {
        for replica in self.regions.values_mut() {
            replica.held.forget(id);
            if let Role::Primary(primary) = &mut replica.role {
                primary.truncate(id);
            }
        }
        self.post.actions.push(Action::Truncate { id });
    }
}

/// Sends NEED-RECOVERY to the primary of a region, in parts that fit into messages. Sends one
/// message even if there is no evidence.
fn need_recovery(
    primary: MachineId,
    region: u32,
    held: &RegionEvidence,
    post: &mut RecoveryActions,
) {
    let (mut part, mut words) = (Vec::new(), 0);
    for each in held.all() {
        let more = seen_words(each);
        if words + more > NEED_WORDS && !part.is_empty() {
            let (seen, last) = (take(&mut part), false);
            post.send(primary, Body::NeedRecovery { region, seen, last });
            words = 0;
        }
        words += more;
        part.push(each.clone());
    }
    let (seen, last) = (part, true);
    post.send(primary, Body::NeedRecovery { region, seen, last });
}

/// Handles a message to a region's primary.
fn at_primary(
    primary: &mut Primary,
    from: MachineId,
    body: Body,
    held: &mut RegionEvidence,
    around: &dyn RecoveryEnvironment,
    post: &mut RecoveryActions,
) {
    match body {
        Body::NeedRecovery { seen, last, .. } => {
            primary.need_recovery(from, seen, last);
            primary.find(held, around, post);
        }
        Body::SendTxState { id, content, .. } => {
            primary.send_tx_state(id, content, held, around, post);
        }
        Body::ReplicateAck { id, .. } => primary.replicate_ack(from, id, post),
        Body::RequestVote { id, .. } => primary.request_vote(from, id, around, post),
        _ => {}
    }
}

/// Handles a message of a primary at a backup. Returns whether it was the last message with
/// evidence.
fn at_backup(
    primary: MachineId,
    body: Body,
    held: &mut RegionEvidence,
    around: &dyn RecoveryEnvironment,
    post: &mut RecoveryActions,
) -> bool {
    match body {
        Body::FetchTxState { region, id } if held.evidence(id).any_of(Evidence::CONTENT) => {
            let content = around.content(id, region);
            let body = Body::SendTxState {
                region,
                id,
                content,
            };
            post.send(primary, body);
        }
        Body::ReplicateTxState { seen, content } => {
            let (region, id) = (seen.region, seen.id);
            // A transaction that was truncated here needs no evidence.
            if !around.was_truncated(id, region) {
                held.keep(seen, content, &mut post.actions);
            }
            post.send(primary, Body::ReplicateAck { region, id });
        }
        Body::Replicated { .. } => return true,
        _ => {}
    }
    false
}
