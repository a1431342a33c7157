//! Commits of this machine that others may have seen: from the first COMMIT-BACKUP until all may truncate them.
//!
//! ```text
//! begin ─► COMMIT-BACKUP ─┬─► shown: COMMIT-PRIMARY ─► all acks ─► TRUNCATE
//!                         └─► in doubt: another configuration was applied ─► recovery decides ─► forgotten
//! ```
//! # Invariants
//! * COMMITTING-1: a commit is here before its first COMMIT-BACKUP is written. So what is not here when the next
//!   configuration is applied cannot have taken effect, and who runs it may say so.
//! * COMMITTING-2: what is in doubt is decided by recovery alone, or, where nobody is replaced, when all begin again; the
//!   locks that it holds here stay until then, whether
//!   or not anybody waits for it.
//! * COMMITTING-3: where somebody decides later ([`Network::decides_later`]) no commit is given up that is here: if some
//!   were told to forget it and others were not when its coordinator fails, it could be decided that it takes effect after
//!   what it had locked was changed. One that nobody waits for any more is an *orphan*, and goes on. For the same reason
//!   none is truncated that a primary may not have heard of.
//! * COMMITTING-4: what is in doubt holds locks on its new objects here, too. Recovery may put what leads to them in
//!   place elsewhere before whoever runs the commit puts them in place here, and others may follow it.
//! * COMMITTING-5: who has the commits does not wait for the configuration: it is in that before. Others are in it and wait
//!   for the commits, and whoever waits to apply the next one lets nobody else in.
//! * COMMITTING-6: what was decided stays so until whoever runs the commit has done it, however many configurations that takes.
//!   Nobody is asked about it any more: the others may have truncated it, and remember nothing.
//! * COMMITTING-7: nor is one given up when this machine ends. What it has locked stays so, for whoever decides.

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
use crate::planted::{self, Planted};
use crate::record::TxnId;
use crate::recovery::{Decision, Evidence};
use crate::transaction::Transaction;

/// All of them.
#[derive(Default)]
pub(super) struct Committing(Mutex<Commits>);

#[derive(Default)]
struct Commits {
    by_id: HashMap<TxnId, Commit, FixedState>,
    /// The machine ends, and none goes on.
    ended: bool,
}

/// One commit.
struct Commit {
    /// Regions with objects that it writes.
    written: Arc<[u32]>,
    w: Timestamp,
    /// COMMIT-PRIMARY was written everywhere, and done here.
    shown: bool,
    /// Machines that have records of it, and acks of COMMIT-PRIMARY that are still to come.
    participants: Vec<MachineId>,
    acks: Vec<Completion<()>>,
    /// An ack will not come: what becomes of the commit there is recovery's to say (LINK-2).
    lost: bool,
    decided: Option<Decision>,
    /// It is done here what was decided, or it took effect before.
    done: bool,
    /// Nobody asks about it any more, once it is done.
    settled: bool,
    /// Who waits for the decision: when it took effect, if it has.
    waiting: Option<Completer<Option<Timestamp>>>,
    /// Or what is to be done about it, where nobody does.
    orphan: Option<Transaction>,
}

impl Commit {
    fn outcome(&self, decision: Decision) -> Option<Timestamp> {
        (decision == Decision::Commit).then_some(self.w)
    }
}

/// What this machine knows of a commit of its own in an earlier configuration.
pub(super) struct InDoubt {
    pub id: TxnId,
    pub written: Arc<[u32]>,
    pub w: Timestamp,
    /// Whether it was decided already, and only has to be done by whoever runs it.
    pub decided: bool,
    /// What has been seen of it by the regions whose primary this machine is.
    pub evidence: Evidence,
}

impl Committing {
    /// Has them for itself, if they are free before `patience` is over.
    #[cfg(test)]
    pub fn hold_up<T>(&self, patience: Duration, meanwhile: impl FnOnce() -> T) -> Option<T> {
        let _commits = self.0.try_lock_for(patience)?;
        Some(meanwhile())
    }

    /// One that everybody has acknowledged.
    #[cfg(test)]
    pub fn leave_acknowledged(&self, id: TxnId, by: MachineId) {
        self.begin(id, &[], Timestamp::ZERO);
        self.show(id);
        self.leave(id, vec![by], (Vec::new(), false), false);
    }

    /// The first COMMIT-BACKUP is about to be written.
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

    /// It is given up: nobody decides later, or all others can be told.
    pub fn withdraw(&self, id: TxnId) {
        self.0.lock().by_id.remove(&id);
    }

    /// It has taken effect: here, and elsewhere once its records are read.
    pub fn show(&self, id: TxnId) {
        if let Some(commit) = self.0.lock().by_id.get_mut(&id) {
            commit.shown = true;
        }
    }

    /// What is left of one that was shown: `acks` are still to come, or one is `lost`. Where nobody asks what becomes of
    /// it, it is done.
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
            self.is_done(id);
        }
    }

    /// Whether it is here.
    pub fn has(&self, id: TxnId) -> bool {
        self.0.lock().by_id.contains_key(&id)
    }

    /// Whether none is left.
    pub fn is_empty(&self) -> bool {
        self.0.lock().by_id.is_empty()
    }

    /// Comes when recovery has decided about a commit that is in doubt: when it takes effect, if it does. Whoever
    /// has it says [`Self::is_done`] once that is done.
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

    /// What was decided about a commit is done here.
    pub fn is_done(&self, id: TxnId) {
        let mut commits = self.0.lock();
        if let Some(commit) = commits.by_id.get_mut(&id) {
            commit.done = true;
            if commit.settled {
                commits.by_id.remove(&id);
            }
        }
    }

    /// Nobody asks about it any more.
    pub fn settle(&self, id: TxnId) {
        let mut commits = self.0.lock();
        if let Some(commit) = commits.by_id.get_mut(&id) {
            commit.settled = true;
            if commit.done {
                commits.by_id.remove(&id);
            }
        }
    }

    /// Nobody waits for it any more; it goes on, or it is done what is decided, all the same.
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
                self.is_done(id);
            }
        }
    }

    /// Recovery has decided; what it says once that is done elsewhere and forgotten does not count (COMMITTING-6).
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
            self.is_done(id);
        }
    }

    /// The same of all commits of configurations before `current`.
    pub fn settle_before(&self, current: u64) {
        self.0.lock().by_id.retain(|id, commit| {
            let old = id.configuration < current;
            commit.settled |= old;
            !(old && commit.done)
        });
    }

    /// Everybody truncates it.
    fn forget(&self, id: TxnId) {
        self.0.lock().by_id.remove(&id);
    }

    /// When a commit would take effect that is in doubt, and was not decided yet.
    pub fn undecided(&self, id: TxnId) -> Option<Timestamp> {
        let commits = self.0.lock();
        let commit = commits.by_id.get(&id);
        commit
            .filter(|commit| commit.decided.is_none())
            .map(|commit| commit.w)
    }

    /// Whether a commit of a configuration before `current` is here.
    pub fn has_before(&self, current: u64) -> bool {
        self.0
            .lock()
            .by_id
            .keys()
            .any(|id| id.configuration < current)
    }

    /// Commits of configurations before `current`.
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

    /// Whoever waits is told that nobody will decide here; what is in doubt stays so.
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

    /// The same for good: the machine ends (COMMITTING-7).
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

/// Drops acks that have come; whether one of them says that no other will.
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

/// The end of a commit that has taken effect: it comes, whether or not anybody waits for it.
pub(super) struct Ending<'a> {
    pub network: &'a Network,
    pub regions: &'a Regions,
    pub id: TxnId,
    pub participants: Vec<MachineId>,
    pub acks: Vec<Completion<()>>,
    /// Whether one of them did not come.
    pub lost: bool,
    /// Whoever runs the commit is about to ask what recovery makes of it.
    pub asks: bool,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let (id, mut acks) = (self.id, std::mem::take(&mut self.acks));
        let participants = std::mem::take(&mut self.participants);
        let lost = take_acks(&mut acks) || self.lost || !self.network.reaches(&participants);
        let lost = lost && self.network.decides_later();
        if planted::is(Planted::TruncateTooEarly) {
            acks.clear();
        }
        let all = acks.is_empty() && !lost;
        match all && self.network.may_truncate(self.regions, id, &participants) {
            true => self.network.committing.forget(id),
            false => self
                .network
                .committing
                .leave(id, participants, (acks, lost), self.asks),
        }
    }
}

/// The question what recovery makes of a commit that is in place here already: once nobody waits for the answer any more,
/// nothing is left to be done.
pub(super) struct Asking<'a> {
    pub network: &'a Network,
    pub id: TxnId,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.network.committing.is_done(self.id);
    }
}

impl Network {
    /// A commit that others may have seen and that nobody waits for.
    pub fn adopt(&self, transaction: Transaction) {
        let id = transaction.context().txn_id();
        self.committing.adopt(id, transaction);
    }

    /// Truncates a commit that all primaries have acknowledged; `false` where that is recovery's by now.
    fn may_truncate(&self, regions: &Regions, id: TxnId, participants: &[MachineId]) -> bool {
        let truncate = || self.truncate(regions, id, participants);
        let truncated = self.configured.during(id.configuration, truncate);
        truncated.is_some()
    }

    /// Truncates a commit of the configuration that the machine is in, and stays in meanwhile.
    fn truncate(&self, regions: &Regions, id: TxnId, participants: &[MachineId]) {
        self.numbers.next(|number| {
            let links = participants.iter();
            for link in links.filter_map(|machine| self.link(*machine)) {
                link.truncate(number, id);
            }
            // Its own numbers are in order.
            let _ = self.truncated.lock().remember(number, id);
            if let Some(disk) = &self.disk {
                disk.truncate_own(self.numbers.low(), number, id);
            }
        });
        if participants.contains(&self.me) {
            // What it holds itself was made by this machine.
            let mut home = self.home.lock();
            let _ = home.truncate(regions, &self.changed, id);
        }
    }

    /// Truncates what has been acknowledged by all meanwhile, and goes on with what nobody waits for.
    pub(super) fn finish(&self, regions: &Regions) {
        let going_on = self
            .configured
            .within(|current| self.finish_in(current, regions));
        for (id, w, orphan) in going_on {
            if let Err(orphan) = orphan.go_on(self, w) {
                self.committing.adopt(id, orphan);
            }
        }
        let _ = self.home.lock().look_again(regions, &self.changed);
    }

    /// Truncates in the configuration that the machine is in; what nobody waits for and may go on (COMMITTING-5).
    fn finish_in(&self, current: u64, regions: &Regions) -> Vec<(TxnId, Timestamp, Transaction)> {
        let mut going_on = Vec::new();
        let mut commits = self.committing.0.lock();
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
    fn what_was_decided_stays_so_until_it_is_done() {
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
            let commits = Committing::default();
            commits.begin(id, &[], w);
            assert!(commits.in_doubt(2).iter().all(|doubt| !doubt.decided));
            commits.decide(id, first);
            assert!(commits.in_doubt(3).iter().all(|doubt| doubt.decided));
            commits.decide(id, later);
            let told = pollster::block_on(commits.decision(id)).expect("it is decided");
            assert_eq!(told, (first == Decision::Commit).then_some(w));
            commits.settle(id);
            assert!(commits.has(id));
            commits.is_done(id);
            assert!(commits.is_empty());
        }
    }
}
