//! Suspect, probe, update configuration: the steps of a machine that wants to be the CM of the next
//! configuration.
//!
//! An attempt is about one configuration. Until it has asked the store it may begin anew; then it repeats
//! the same swap until it knows who has won, because the first may yet come true.

use fencepost_fabric::MachineId;

use super::gather::gather;
use super::message::{Holdings, ReconfigurationMessage};
use super::state::Reconfiguration;
use super::{Action, Survey, WishError};
use crate::configuration::Configuration;
use crate::few::{FewMap, FewSet};
use crate::ids::{Address, ConfigurationId, FailureDomain};
use crate::lease::LeaseOrder;
use crate::store::Swapped;

/// A change that somebody wishes for.
#[derive(Clone, Debug)]
pub(super) enum Wish {
    Add(Address, FailureDomain),
    /// It is to leave, once others have what it has.
    Leave(MachineId),
    /// Replicas are given up that are to go, as others are whole; and regions go on to be moved to machines that have less.
    Move {
        balances: bool,
    },
    Remove(MachineId),
}

/// A try to become the CM of the configuration after `base`.
#[derive(Debug)]
pub(super) struct Attempt {
    pub number: u64,
    pub base: Configuration,
    pub wish: Option<Wish>,
    pub answers: FewMap<MachineId, Holdings>,
    /// When leases will have run out that stand on what those who have answered had granted before.
    pub old_until: u64,
    pub stage: Stage,
}

/// A swap that the store was asked for.
#[derive(Clone, Debug)]
pub(super) struct Swap {
    pub new: Configuration,
    /// When the leases of those who are out will have run out: a majority has promised to grant no more.
    pub old_until: u64,
}

#[derive(Debug)]
pub(super) enum Stage {
    /// These machines have not answered, and are not waited for any longer than that.
    Probing {
        waiting: FewSet<MachineId>,
        until: u64,
    },
    Swapping(Swap),
    /// The store is asked what is current.
    Reading(Option<Swap>),
    /// There was no majority, or no store: until then nothing.
    Resting(Option<Swap>, u64),
}

impl Attempt {
    pub fn wake(&self) -> Option<u64> {
        match self.stage {
            Stage::Probing { until, .. } | Stage::Resting(_, until) => Some(until),
            Stage::Swapping(_) | Stage::Reading(_) => None,
        }
    }

    pub fn swap(&self) -> Option<&Swap> {
        match &self.stage {
            Stage::Swapping(swap) => Some(swap),
            Stage::Reading(swap) | Stage::Resting(swap, _) => swap.as_ref(),
            Stage::Probing { .. } => None,
        }
    }
}

impl Reconfiguration {
    /// Step 1: a lease has expired.
    pub(super) fn suspect(&mut self, now: u64, machine: MachineId) {
        if self.evicted || machine == self.me || !self.newest.has(machine) {
            return;
        }
        self.suspects.insert(machine);
        if self.attempt.is_some() {
            self.does_not_answer(now, machine);
        } else if self.newest.cm() == self.me {
            self.probe(now, None);
        } else if machine == self.newest.cm() && self.promised < Some(self.newest.id()) {
            let backups = self.newest.backup_cms(self.options.backup_cms);
            if backups.contains(&self.me) {
                return self.probe(now, None);
            }
            self.out.push(Action::Block);
            let configuration = self.newest.id();
            for backup in backups {
                self.send(backup, ReconfigurationMessage::Suspect { configuration });
            }
            self.wait(now);
        }
    }

    /// Two members have lost something between them. The one that says so first stays; that the other says the same
    /// of it counts no more.
    pub(super) fn is_told_of_severed(
        &mut self,
        now: u64,
        from: MachineId,
        of: ConfigurationId,
        machine: MachineId,
    ) {
        let newest = &self.newest;
        let current = of == newest.id() && newest.cm() == self.me && newest.has(from);
        if current && self.attempt.is_none() && !self.suspects.contains(&from) {
            self.suspect(now, machine);
        }
    }

    /// A machine, or the CM itself, wants the CM replaced.
    pub(super) fn is_asked_to_start(&mut self, now: u64, from: MachineId, of: ConfigurationId) {
        let cm = self.newest.cm();
        if of < self.newest.id() {
            self.tell_newest(from);
        } else if of == self.newest.id()
            && self.newest.has(from)
            && cm != self.me
            && self.attempt.is_none()
            && self.promised < Some(of)
        {
            self.suspects.insert(cm);
            self.probe(now, None);
        }
    }

    /// Waits for a new configuration, the longer the farther this machine is from the CM, so that not all
    /// lose patience at once.
    pub(super) fn wait(&mut self, now: u64) {
        let all = self.newest.backup_cms(usize::MAX);
        let rank = all.iter().position(|machine| *machine == self.me);
        let rank = rank.unwrap_or(0) as u64;
        let wait_ns = self.options.patience_ns + rank * self.options.probe_ns;
        self.patience
            .get_or_insert_with(|| now.saturating_add(wait_ns));
    }

    /// Step 2: asks all machines but the suspected ones whether they are there, and what they hold.
    pub(super) fn probe(&mut self, now: u64, wish: Option<Wish>) {
        let base = self.newest.clone();
        let (me, id) = (self.me, base.id());
        self.attempts += 1;
        let attempt = self.attempts;
        self.lead = None;
        self.patience = None;
        self.promised = self.promised.max(Some(id));
        let survey = Survey {
            by: me,
            base: id,
            attempt,
        };
        let order = LeaseOrder::Promise { to: me };
        self.out
            .extend([Action::Block, Action::Leases(order), Action::Survey(survey)]);
        let members = base.machines().iter().map(|machine| machine.id);
        let waiting = members.filter(|m| !self.suspects.contains(m));
        let waiting: FewSet<MachineId> = waiting.collect();
        for machine in waiting.iter().filter(|machine| **machine != me) {
            let base = base.clone();
            self.send(*machine, ReconfigurationMessage::Probe { base, attempt });
        }
        let until = now.saturating_add(self.options.probe_ns);
        self.attempt = Some(Attempt {
            number: attempt,
            base,
            wish,
            answers: FewMap::new(),
            old_until: now,
            stage: Stage::Probing { waiting, until },
        });
    }

    pub(super) fn probe_answered(
        &mut self,
        now: u64,
        from: MachineId,
        base: ConfigurationId,
        number: u64,
        holdings: Holdings,
    ) {
        let Some(attempt) = &mut self.attempt else {
            return;
        };
        if let Stage::Probing { waiting, .. } = &mut attempt.stage
            && attempt.number == number
            && attempt.base.id() == base
            && waiting.remove(&from)
        {
            let until = now.saturating_add(holdings.granted_ns);
            attempt.old_until = attempt.old_until.max(until);
            attempt.answers.insert(from, holdings);
            self.go_on_if_all_answered(now);
        }
    }

    /// A machine is not there after all.
    pub(super) fn does_not_answer(&mut self, now: u64, machine: MachineId) {
        if let Some(attempt) = &mut self.attempt
            && let Stage::Probing { waiting, .. } = &mut attempt.stage
        {
            waiting.remove(&machine);
            attempt.answers.remove(&machine);
            self.suspects.insert(machine);
            self.go_on_if_all_answered(now);
        }
    }

    fn go_on_if_all_answered(&mut self, now: u64) {
        let Some(attempt) = &mut self.attempt else {
            return;
        };
        let Stage::Probing { waiting, .. } = &attempt.stage else {
            return;
        };
        if !waiting.is_empty() {
            return;
        }
        let answers = &attempt.answers;
        // Machines that have just joined do not know the time, which must not go back.
        let timed = answers.values().any(|answer| answer.time_ns.is_some());
        let enough = answers.contains_key(&self.me) && answers.len() >= attempt.base.majority();
        let complete = || self.options.loses_regions || !gather(answers).loses_any();
        if enough && timed && complete() {
            self.update_configuration();
        } else {
            let until = now.saturating_add(self.options.retry_ns);
            attempt.stage = Stage::Resting(None, until);
        }
    }

    /// Step 3: asks the store to make the machines that have answered the next configuration, and this one its
    /// CM.
    fn update_configuration(&mut self) {
        let Some(attempt) = &mut self.attempt else {
            return;
        };
        let base = &attempt.base;
        let members = base.machines().iter().map(|machine| machine.id);
        let removed = match &attempt.wish {
            Some(Wish::Remove(machine)) => Some(*machine),
            _ => None,
        };
        let lost = members
            .filter(|machine| !attempt.answers.contains_key(machine) || Some(*machine) == removed);
        let lost: FewSet<MachineId> = lost.collect();
        let calm = lost.is_empty() && base.cm() == self.me;
        if !(calm || matches!(attempt.wish, Some(Wish::Remove(_)) | None)) {
            // Those who are lost come first.
            attempt.wish = None;
            self.out.push(Action::Wished(false));
        }
        let new = match &attempt.wish {
            Some(Wish::Add(address, domain)) => {
                let with = base.with_machine(address.clone(), domain.clone());
                with.map(|(new, _)| new)
            }
            Some(Wish::Leave(machine)) => base.with_leaving(*machine),
            Some(Wish::Move { .. } | Wish::Remove(_)) | None => base.without(&lost, self.me),
        };
        let Ok(new) = new else {
            return self.abandon();
        };
        if self.applied.id() == base.id() && base.cm() == self.me {
            let narrow = LeaseOrder::Narrow {
                left_out: lost.into_iter().collect(),
                need: base.majority().max(new.majority()),
            };
            self.out.push(Action::Leases(narrow));
        }
        let old_until = attempt.old_until;
        self.suspects.clear();
        self.ask_for(Swap { new, old_until });
    }

    fn ask_for(&mut self, swap: Swap) {
        if let Some(attempt) = &mut self.attempt {
            self.out.push(Action::CompareAndSwap {
                attempt: attempt.number,
                expected: attempt.base.id(),
                new: swap.new.clone(),
            });
            attempt.stage = Stage::Swapping(swap);
        }
    }

    /// The store's answer to [`Action::CompareAndSwap`]; `None` when it failed, so that nobody knows.
    pub fn swapped(&mut self, now: u64, attempt: u64, outcome: Option<Swapped>) -> Vec<Action> {
        if let Some(current) = &mut self.attempt
            && current.number == attempt
            && let Stage::Swapping(swap) = &current.stage
        {
            let swap = swap.clone();
            match outcome {
                Some(Swapped::Won) => self.remap_regions(now, swap),
                Some(Swapped::Lost) => {
                    current.stage = Stage::Reading(Some(swap));
                    self.out.push(Action::ReadStore { attempt });
                }
                None => {
                    let until = now.saturating_add(self.options.retry_ns);
                    current.stage = Stage::Resting(Some(swap), until);
                }
            }
        }
        self.done()
    }

    /// The store's answer to [`Action::ReadStore`]; `None` when it failed.
    pub fn read(&mut self, now: u64, attempt: u64, current: Option<Configuration>) -> Vec<Action> {
        let Some(reading) = &mut self.attempt else {
            return self.done();
        };
        let Stage::Reading(swap) = &reading.stage else {
            return self.done();
        };
        if reading.number != attempt {
            return self.done();
        }
        let swap = swap.clone();
        match current {
            Some(current) if current.id() > reading.base.id() => self.learn(now, current),
            Some(current) if current.id() == reading.base.id() => match swap {
                Some(swap) => self.ask_for(swap),
                None => {
                    let wish = reading.wish.take();
                    // Whoever did not answer may have come back.
                    self.suspects.clear();
                    self.probe(now, wish);
                }
            },
            _ => {
                let until = now.saturating_add(self.options.retry_ns);
                reading.stage = Stage::Resting(swap, until);
            }
        }
        self.done()
    }

    pub(super) fn attempt_is_due(&mut self, now: u64) {
        let Some(attempt) = &mut self.attempt else {
            return;
        };
        match &mut attempt.stage {
            Stage::Probing { waiting, .. } => {
                self.suspects.extend(std::mem::take(waiting));
                self.go_on_if_all_answered(now);
            }
            Stage::Resting(swap, _) => {
                attempt.stage = Stage::Reading(swap.take());
                let attempt = attempt.number;
                self.out.push(Action::ReadStore { attempt });
            }
            Stage::Swapping(_) | Stage::Reading(_) => {}
        }
    }

    /// Somebody else was faster, or it makes no sense any more.
    pub(super) fn abandon(&mut self) {
        if let Some(attempt) = self.attempt.take()
            && attempt.wish.is_some()
        {
            self.out.push(Action::Wished(false));
        }
    }

    /// To the CM: adds a machine, by way of a reconfiguration. [`Action::Wished`] tells the end of it.
    ///
    /// # Errors
    /// [`WishError`] when it cannot begin.
    pub fn add(
        &mut self,
        now: u64,
        address: Address,
        domain: FailureDomain,
    ) -> Result<Vec<Action>, WishError> {
        self.may_wish()?;
        self.applied.with_machine(address.clone(), domain.clone())?;
        self.probe(now, Some(Wish::Add(address, domain)));
        Ok(self.done())
    }

    /// To the CM: regions that have too few replicas get further ones, where there are machines for them.
    ///
    /// # Errors
    /// [`WishError`] when it cannot begin.
    pub fn make_up(&mut self, now: u64) -> Result<Vec<Action>, WishError> {
        self.may_wish()?;
        self.probe(now, Some(Wish::Move { balances: false }));
        Ok(self.done())
    }

    /// To the CM: a machine is to leave. Others are given what it has, and then it has nothing any more.
    ///
    /// # Errors
    /// [`WishError`] when it cannot begin.
    pub fn leave(&mut self, now: u64, machine: MachineId) -> Result<Vec<Action>, WishError> {
        self.may_wish()?;
        if !self.applied.is_leaving(machine) {
            let next = self.applied.with_leaving(machine)?;
            let (need, have) = (self.options.replication.wanted(), next.domains_that_stay());
            if have < need {
                return Err(WishError::TooFew { need, have });
            }
            self.probe(now, Some(Wish::Leave(machine)));
        }
        Ok(self.done())
    }

    /// To the CM: a machine that has left all that it had to others is to be no member any more. If somebody else than
    /// itself has said so, it is told to say so.
    ///
    /// # Errors
    /// [`WishError`] when it cannot begin, or the machine has something still.
    pub(super) fn part_with(
        &mut self,
        now: u64,
        by: MachineId,
        machine: MachineId,
    ) -> Result<Vec<Action>, WishError> {
        self.may_wish()?;
        if self.applied.has(machine) && !self.has_nothing(machine) {
            return Err(WishError::HasReplicas(machine));
        }
        if by == machine {
            return self.remove(now, machine);
        }
        match machine == self.me {
            true => self.out.push(Action::Part),
            false => self.send(machine, ReconfigurationMessage::PartWith { machine }),
        }
        Ok(self.done())
    }

    /// To the CM: removes a machine, by way of a reconfiguration. [`Action::Wished`] tells the end of it. A CM
    /// that is to be removed has a backup CM take over, and then learns that it is out.
    ///
    /// # Errors
    /// [`WishError`] when it cannot begin.
    pub fn remove(&mut self, now: u64, machine: MachineId) -> Result<Vec<Action>, WishError> {
        self.may_wish()?;
        let heirs = self.applied.backup_cms(1);
        match heirs.first() {
            Some(heir) if self.applied.has(machine) => {
                if machine == self.me {
                    let configuration = self.applied.id();
                    self.send(*heir, ReconfigurationMessage::Suspect { configuration });
                } else {
                    self.probe(now, Some(Wish::Remove(machine)));
                }
                Ok(self.done())
            }
            _ => Err(WishError::NoSuchMachine(machine)),
        }
    }

    /// At the CM: whether the last configuration is in force, and no other is under way.
    pub fn is_in_force(&self) -> bool {
        self.may_wish().is_ok()
    }

    pub(super) fn may_wish(&self) -> Result<(), WishError> {
        if self.newest.cm() != self.me || self.evicted {
            return Err(WishError::NotManager);
        }
        let calm = self.committed && self.attempt.is_none() && self.newest == self.applied;
        calm.then_some(()).ok_or(WishError::Busy)
    }
}
