//! In-flight commits of this machine: from the first COMMIT-BACKUP until all participants may
//! truncate.
//!
//! ```text
//! begin ─► COMMIT-BACKUP ─┬─► shown: COMMIT-PRIMARY ─► all acks ─► TRUNCATE
//!                         └─► in doubt: next configuration applied ─► recovery decides ─► removed
//! ```
//! # Invariants
//! * INFLIGHT-1: a commit is registered here before its first COMMIT-BACKUP is written. A commit
//!   that is not registered when the next configuration is applied cannot have taken effect, and
//!   its coordinator may report that.
//! * INFLIGHT-2: only recovery decides a commit in doubt. Where machines are not replaced, the
//!   commit is decided when all machines restart. Its locks on this machine are held until then,
//!   whether or not a session waits for it.
//! * INFLIGHT-3: where a commit may be decided later ([`Network::decides_later`]), no registered
//!   commit is given up. Suppose that some participants were told to forget the commit and others
//!   were not when its coordinator fails. Then recovery could decide that it takes effect after the
//!   objects that it had locked were changed. A commit that no session waits for any more is an
//!   *orphan*, and continues. For the same reason a commit is not truncated while a primary may not
//!   have received its COMMIT-PRIMARY.
//! * INFLIGHT-4: a commit in doubt also holds locks on its new objects here. Recovery may install
//!   pointers to these objects on other machines before the coordinator installs the objects here,
//!   and readers may follow the pointers.
//! * INFLIGHT-5: a thread that locks the in-flight commits does not wait for the configuration
//!   lock: it takes that lock first. Other threads hold the configuration lock while they wait for
//!   the commits. A thread that waits to apply the next configuration lets no further thread in.
//! * INFLIGHT-6: a decision stays recorded until the coordinator has carried it out, however many
//!   configurations that takes. Recovery does not vote on the commit again: the other machines may
//!   have truncated it and have no record of it.
//! * INFLIGHT-7: the end of this machine does not give a commit up either. Its locks stay until a
//!   later decision.

use std::collections::HashMap;
use std::sync::Arc;
#[cfg(test)]
use std::time::Duration;

use fencepost_fabric::{Completer, Completion, MachineId};
use fencepost_storage::Timestamp;
use fencepost_storage::region::Regions;
use foldhash::fast::FixedState;
use parking_lot::Mutex;

use super::Network;
use crate::fault::{self, Fault};
use crate::record::TxnId;
use crate::recovery::{Decision, Evidence};
use crate::transaction::Transaction;

/// All in-flight commits of this machine.
#[derive(Default)]
pub(super) struct InFlightCommits(Mutex<Commits>);

#[derive(Default)]
struct Commits {
    by_id: HashMap<TxnId, Commit, FixedState>,
    /// The machine is stopping, and no commit continues.
    ended: bool,
}

/// One in-flight commit.
struct Commit {
    /// Regions that contain objects of its write set.
    written: Arc<[u32]>,
    w: Timestamp,
    /// COMMIT-PRIMARY was written at every remote primary and applied locally.
    shown: bool,
    /// Machines that have records of the commit; the next field holds the pending acks of
    /// COMMIT-PRIMARY.
    participants: Vec<MachineId>,
    acks: Vec<Completion<()>>,
    /// An ack will not arrive: recovery decides about the commit at that machine (LINK-2).
    lost: bool,
    decided: Option<Decision>,
    /// The decision has been applied locally, or COMMIT-PRIMARY already had been.
    done: bool,
    /// Recovery needs the commit no more: it is removed as soon as `done` is set.
    settled: bool,
    /// Notified of the decision: the write timestamp if the commit takes effect, otherwise `None`.
    waiting: Option<Completer<Option<Timestamp>>>,
    /// The transaction itself, if no session waits for it (INFLIGHT-3).
    orphan: Option<Transaction>,
}

impl Commit {
    fn outcome(&self, decision: Decision) -> Option<Timestamp> {
        (decision == Decision::Commit).then_some(self.w)
    }
}

/// The state of a commit that this machine coordinated in an earlier configuration.
pub(super) struct InDoubt {
    pub id: TxnId,
    pub written: Arc<[u32]>,
    pub w: Timestamp,
    /// Whether recovery has decided already, and the coordinator only has to carry the decision
    /// out.
    pub decided: bool,
    /// Evidence of the commit seen by the regions whose primary this machine is.
    pub evidence: Evidence,
}

impl InFlightCommits {
    /// Locks the in-flight commits and calls `meanwhile`; `None` if the lock is not free within
    /// `patience`.
    #[cfg(test)]
    pub fn hold_up<T>(&self, patience: Duration, meanwhile: impl FnOnce() -> T) -> Option<T> {
        let _commits = self.0.try_lock_for(patience)?;
        Some(meanwhile())
    }

    /// Registers a commit whose COMMIT-PRIMARY all participants have acknowledged.
    #[cfg(test)]
    pub fn leave_acknowledged(&self, id: TxnId, by: MachineId) {
        self.begin(id, &[], Timestamp::ZERO);
        self.show(id);
        self.leave(id, vec![by], (Vec::new(), false), false);
    }

    /// Registers a commit, just before its first COMMIT-BACKUP is written.
    pub fn begin(&self, id: TxnId, written: &[u32], w: Timestamp) {
        let commit = Commit {
            written: written.into(),
            w,
            shown: false,
            participants: Vec::new(),
            acks: Vec::new(),
            lost: false,
            decided: None,
            done: false,
            settled: false,
            waiting: None,
            orphan: None,
        };
        self.0.lock().by_id.insert(id, commit);
    }

    /// Removes a commit that is given up: no machine decides about it later, or all others can be
    /// told.
    pub fn withdraw(&self, id: TxnId) {
        self.0.lock().by_id.remove(&id);
    }

    /// Marks a commit as shown: it has taken effect here, and on other machines once they read its
    /// records.
    pub fn show(&self, id: TxnId) {
        if let Some(commit) = self.0.lock().by_id.get_mut(&id) {
            commit.shown = true;
        }
    }

    /// Stores the pending `acks` of a shown commit, and whether one is `lost`. Without `asks` the
    /// coordinator awaits no decision, so the commit is marked as done.
    fn leave(
        &self,
        id: TxnId,
        participants: Vec<MachineId>,
        (acks, lost): (Vec<Completion<()>>, bool),
        asks: bool,
    ) {
        if let Some(commit) = self.0.lock().by_id.get_mut(&id) {
            (commit.participants, commit.acks, commit.lost) = (participants, acks, lost);
        }
        if !asks {
            self.mark_done(id);
        }
    }

    /// Returns whether a commit is in flight.
    pub fn has(&self, id: TxnId) -> bool {
        self.0.lock().by_id.contains_key(&id)
    }

    /// Returns whether no commit is in flight.
    pub fn is_empty(&self) -> bool {
        self.0.lock().by_id.is_empty()
    }

    /// Completes when recovery has decided about a commit in doubt: the write timestamp if it takes
    /// effect. The caller calls [`Self::mark_done`] once it has carried out the decision.
    pub fn decision(&self, id: TxnId) -> Completion<Option<Timestamp>> {
        let (completer, decision) = Completion::pending();
        if let Some(commit) = self.0.lock().by_id.get_mut(&id) {
            match commit.decided {
                Some(decided) => return Completion::done(Ok(commit.outcome(decided))),
                None => commit.waiting = Some(completer),
            }
        }
        decision
    }

    /// Marks the decision about a commit as carried out on this machine.
    pub fn mark_done(&self, id: TxnId) {
        let mut commits = self.0.lock();
        if let Some(commit) = commits.by_id.get_mut(&id) {
            commit.done = true;
            if commit.settled {
                commits.by_id.remove(&id);
            }
        }
    }

    /// Marks a commit as not needed by recovery any more.
    pub fn release_from_recovery(&self, id: TxnId) {
        let mut commits = self.0.lock();
        if let Some(commit) = commits.by_id.get_mut(&id) {
            commit.settled = true;
            if commit.done {
                commits.by_id.remove(&id);
            }
        }
    }

    /// Takes over a commit that no session waits for. It continues, or the decision about it is
    /// carried out.
    pub fn adopt(&self, id: TxnId, transaction: Transaction) {
        let mut commits = self.0.lock();
        let ended = commits.ended;
        let Some(commit) = commits.by_id.get_mut(&id) else {
            return;
        };
        match commit.decided {
            None if ended => {
                drop(commits);
                transaction.leave_in_doubt();
            }
            None => commit.orphan = Some(transaction),
            Some(decision) => {
                let outcome = commit.outcome(decision);
                drop(commits);
                transaction.do_what_is_decided(outcome);
                self.mark_done(id);
            }
        }
    }

    /// Records the decision of recovery. A second decision does not count: the commit may be
    /// finished and forgotten on other machines (INFLIGHT-6).
    pub fn decide(&self, id: TxnId, decision: Decision) {
        let mut commits = self.0.lock();
        let commit = commits.by_id.get_mut(&id);
        let Some(commit) = commit.filter(|commit| commit.decided.is_none()) else {
            return;
        };
        commit.decided = Some(decision);
        let outcome = commit.outcome(decision);
        let (waiting, orphan) = (commit.waiting.take(), commit.orphan.take());
        drop(commits);
        if let Some(waiting) = waiting {
            waiting.complete(Ok(outcome));
        }
        if let Some(orphan) = orphan {
            orphan.do_what_is_decided(outcome);
            self.mark_done(id);
        }
    }

    /// Does the same as [`Self::release_from_recovery`] for all commits of configurations before
    /// `current`.
    pub fn settle_before(&self, current: u64) {
        self.0.lock().by_id.retain(|id, commit| {
            let old = id.configuration < current;
            commit.settled |= old;
            !(old && commit.done)
        });
    }

    /// Removes a commit that all participants truncate.
    fn forget(&self, id: TxnId) {
        self.0.lock().by_id.remove(&id);
    }

    /// Returns the write timestamp of a commit in doubt that is not decided yet.
    pub fn undecided(&self, id: TxnId) -> Option<Timestamp> {
        let commits = self.0.lock();
        let commit = commits.by_id.get(&id);
        commit
            .filter(|commit| commit.decided.is_none())
            .map(|commit| commit.w)
    }

    /// Returns whether a commit of a configuration before `current` is in flight.
    pub fn has_before(&self, current: u64) -> bool {
        self.0
            .lock()
            .by_id
            .keys()
            .any(|id| id.configuration < current)
    }

    /// Returns the commits of configurations before `current`.
    pub fn in_doubt(&self, current: u64) -> Vec<InDoubt> {
        let commits = self.0.lock();
        let old = commits
            .by_id
            .iter()
            .filter(|(id, _)| id.configuration < current);
        let doubt = old.map(|(id, commit)| {
            let shown = match commit.shown {
                true => Evidence::COMMIT_PRIMARY,
                false => Evidence::NONE,
            };
            let decided = match commit.decided {
                Some(Decision::Commit) => Evidence::COMMIT_RECOVERY,
                Some(Decision::Abort) => Evidence::ABORT_RECOVERY,
                None => Evidence::NONE,
            };
            InDoubt {
                id: *id,
                written: Arc::clone(&commit.written),
                w: commit.w,
                decided: commit.decided.is_some(),
                evidence: Evidence::LOCK.and(shown).and(decided),
            }
        });
        doubt.collect()
    }

    /// Tells waiting coordinators that no decision will arrive here. Their commits stay in doubt.
    pub fn leave_undecided(&self) {
        let mut commits = self.0.lock();
        let waiting = commits
            .by_id
            .values_mut()
            .map(|commit| commit.waiting.take());
        let waiting: Vec<_> = waiting.collect();
        drop(commits);
        drop(waiting);
    }

    /// Does the same permanently, because the machine stops (INFLIGHT-7).
    pub fn end(&self) {
        let mut commits = self.0.lock();
        commits.ended = true;
        let orphans = commits.by_id.values_mut();
        let orphans: Vec<_> = orphans.filter_map(|commit| commit.orphan.take()).collect();
        drop(commits);
        self.leave_undecided();
        orphans.into_iter().for_each(Transaction::leave_in_doubt);
    }
}

/// Drops the acks that have arrived. Returns whether one of them reports a lost write.
fn take_acks(acks: &mut Vec<Completion<()>>) -> bool {
    let mut lost = false;
    acks.retain_mut(|ack| match ack.take() {
        None => true,
        Some(answer) => {
            lost |= answer.is_err();
            false
        }
    });
    lost
}

/// The completion of a commit that has taken effect. Its drop truncates the commit or keeps waiting
/// for acks, so it happens whether or not a session still waits.
pub(super) struct CommitCompletion<'a> {
    pub network: &'a Network,
    pub regions: &'a Regions,
    pub id: TxnId,
    pub participants: Vec<MachineId>,
    pub acks: Vec<Completion<()>>,
    /// Whether one of the acks did not arrive.
    pub lost: bool,
    /// The coordinator is about to wait for the decision of recovery.
    pub asks: bool,
}

impl Drop for CommitCompletion<'_> {
    fn drop(&mut self) {
        let (id, mut acks) = (self.id, std::mem::take(&mut self.acks));
        let participants = std::mem::take(&mut self.participants);
        let lost = take_acks(&mut acks) || self.lost || !self.network.reaches(&participants);
        let lost = lost && self.network.decides_later();
        if fault::injected(Fault::TruncateTooEarly) {
            acks.clear();
        }
        let all = acks.is_empty() && !lost;
        match all && self.network.may_truncate(self.regions, id, &participants) {
            true => self.network.in_flight.forget(id),
            false => self
                .network
                .in_flight
                .leave(id, participants, (acks, lost), self.asks),
        }
    }
}

/// A wait for the decision of recovery about a commit that is already installed here. If the
/// session stops waiting, dropping this value marks the commit as done.
pub(super) struct DecisionWait<'a> {
    pub network: &'a Network,
    pub id: TxnId,
}

impl Drop for DecisionWait<'_> {
    fn drop(&mut self) {
        self.network.in_flight.mark_done(self.id);
    }
}

impl Network {
    /// Takes over a commit that other machines may have seen and that no session waits for.
    pub fn adopt(&self, transaction: Transaction) {
        let id = transaction.context().txn_id();
        self.in_flight.adopt(id, transaction);
    }

    /// Truncates a commit that all primaries have acknowledged. Returns `false` where recovery is
    /// responsible for it by now.
    fn may_truncate(&self, regions: &Regions, id: TxnId, participants: &[MachineId]) -> bool {
        let truncate = || self.truncate(regions, id, participants);
        let truncated = self.configured.during(id.configuration, truncate);
        truncated.is_some()
    }

    /// Truncates a commit of the current configuration. The caller holds the configuration lock
    /// meanwhile.
    fn truncate(&self, regions: &Regions, id: TxnId, participants: &[MachineId]) {
        self.numbers.next(|number| {
            let senders = participants.iter();
            for sender in senders.filter_map(|machine| self.sender(*machine)) {
                sender.truncate(number, id);
            }
            // This machine issues its own numbers in order.
            let _ = self.truncated.lock().remember(number, id);
            if let Some(disk) = &self.disk {
                disk.truncate_own(self.numbers.low(), number, id);
            }
        });
        if participants.contains(&self.me) {
            // This machine made the records that it holds itself.
            let mut home = self.home.lock();
            let _ = home.truncate(regions, &self.changed, id);
        }
    }

    /// Truncates the commits that all participants have acknowledged, and continues the orphans.
    pub(super) fn finish(&self, regions: &Regions) {
        let going_on = self
            .configured
            .within(|current| self.finish_in(current, regions));
        for (id, w, orphan) in going_on {
            if let Err(orphan) = orphan.go_on(self, w) {
                self.in_flight.adopt(id, orphan);
            }
        }
        let _ = self.home.lock().look_again(regions, &self.changed);
    }

    /// Truncates commits of the current configuration. Returns the orphans that may continue
    /// (INFLIGHT-5).
    fn finish_in(&self, current: u64, regions: &Regions) -> Vec<(TxnId, Timestamp, Transaction)> {
        let mut going_on = Vec::new();
        let mut commits = self.in_flight.0.lock();
        commits.by_id.retain(|id, commit| {
            if id.configuration != current {
                return true;
            }
            let backed = |orphan: &mut Transaction| orphan.is_backed(self);
            if let Some(orphan) = commit.orphan.take_if(backed) {
                going_on.push((*id, commit.w, orphan));
            }
            if !commit.shown || commit.participants.is_empty() {
                return true;
            }
            let lost = take_acks(&mut commit.acks) || !self.reaches(&commit.participants);
            commit.lost |= lost && self.decides_later();
            let all = commit.acks.is_empty() && !commit.lost;
            if all {
                self.truncate(regions, *id, &commit.participants);
            }
            !all
        });
        going_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decision_of_commit_stays_until_marked_done() {
        let id = TxnId {
            configuration: 1,
            machine: 1,
            thread: 0,
            local: 1,
        };
        let w = Timestamp::from_raw(7);
        for (first, later) in [
            (Decision::Commit, Decision::Abort),
            (Decision::Abort, Decision::Commit),
        ] {
            let commits = InFlightCommits::default();
            commits.begin(id, &[], w);
            assert!(commits.in_doubt(2).iter().all(|doubt| !doubt.decided));
            commits.decide(id, first);
            assert!(commits.in_doubt(3).iter().all(|doubt| doubt.decided));
            commits.decide(id, later);
            let decision = pollster::block_on(commits.decision(id)).expect("it is decided");
            assert_eq!(decision, (first == Decision::Commit).then_some(w));
            commits.release_from_recovery(id);
            assert!(commits.has(id));
            commits.mark_done(id);
            assert!(commits.is_empty());
        }
    }
}
