//! The steps of a machine that wants to be the CM of the next configuration: suspect, probe, update
//! configuration.
//!
//! An attempt is about one configuration. Until it has asked the store, it may start anew. After
//! that it repeats the same swap until it knows which machine has won, because its first request
//! may still take effect.

use fencepost_fabric::MachineId;

use super::gather::gather;
use super::message::{ReconfigurationMessage, RegionReport};
use super::state::Reconfiguration;
use super::{Action, ChangeRequestError, RegionProbe};
use crate::configuration::Configuration;
use crate::few::{FewMap, FewSet};
use crate::ids::{Address, ConfigurationId, FailureDomain};
use crate::lease::LeaseOrder;
use crate::store::SwapOutcome;

/// A change of the configuration that the operator or the CM requests.
#[derive(Clone, Debug)]
pub(super) enum ChangeRequest {
    Add(Address, FailureDomain),
    /// The machine is to leave after its regions have been moved.
    Leave(MachineId),
    /// Surplus replicas are given up, as the others are whole. With `balances`, regions continue to
    /// be moved to less loaded machines.
    Move {
        balances: bool,
    },
    Remove(MachineId),
}

/// An attempt to become the CM of the configuration after `base`.
#[derive(Debug)]
pub(super) struct Attempt {
    pub number: u64,
    pub base: Configuration,
    pub wish: Option<ChangeRequest>,
    pub answers: FewMap<MachineId, RegionReport>,
    /// The time at which leases have expired that depend on earlier grants of the machines that
    /// have answered.
    pub old_until: u64,
    pub stage: Stage,
}

/// A swap that the store was asked for.
#[derive(Clone, Debug)]
pub(super) struct Swap {
    pub new: Configuration,
    /// The time at which the leases of evicted machines have expired: a majority has promised to
    /// grant no more.
    pub old_until: u64,
}

#[derive(Debug)]
pub(super) enum Stage {
    /// The attempt waits until this time for the answers of these machines.
    Probing {
        waiting: FewSet<MachineId>,
        until: u64,
    },
    Swapping(Swap),
    /// The attempt reads the current configuration from the store.
    Reading(Option<Swap>),
    /// There was no majority or no store: the attempt pauses until this time.
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
    /// Carries out step 1: a lease has expired.
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

    /// Handles the report of a member that data between it and another member is lost. The member
    /// that reports first stays; a later report of the other one about it is ignored.
    pub(super) fn handle_severed(
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

    /// Handles the request of a machine, or of the CM itself, to replace the CM.
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

    /// Waits for a new configuration. The wait is longer the farther this machine is from the CM,
    /// so that machines do not start at the same time.
    pub(super) fn wait(&mut self, now: u64) {
        let all = self.newest.backup_cms(usize::MAX);
        let rank = all.iter().position(|machine| *machine == self.me);
        let rank = rank.unwrap_or(0) as u64;
        let wait_ns = self.options.patience_ns + rank * self.options.probe_ns;
        self.patience
            .get_or_insert_with(|| now.saturating_add(wait_ns));
    }

    /// Carries out step 2: asks all machines but the suspected ones whether they are alive, and
    /// which regions they hold.
    pub(super) fn probe(&mut self, now: u64, wish: Option<ChangeRequest>) {
        let base = self.newest.clone();
        let (me, id) = (self.me, base.id());
        self.attempts += 1;
        let attempt = self.attempts;
        self.manager = None;
        self.patience = None;
        self.promised = self.promised.max(Some(id));
        let probe = RegionProbe {
            by: me,
            base: id,
            attempt,
        };
        let order = LeaseOrder::Promise { to: me };
        self.out.extend([
            Action::Block,
            Action::Leases(order),
            Action::ReportRegions(probe),
        ]);
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
        holdings: RegionReport,
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

    /// Removes a machine that does not answer from the attempt.
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
        // Machines that have just joined do not know the cluster's time, which must not go back.
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

    /// Carries out step 3: asks the store to replace the configuration by one of the machines that
    /// have answered, with this machine as its CM.
    fn update_configuration(&mut self) {
        let Some(attempt) = &mut self.attempt else {
            return;
        };
        let base = &attempt.base;
        let members = base.machines().iter().map(|machine| machine.id);
        let removed = match &attempt.wish {
            Some(ChangeRequest::Remove(machine)) => Some(*machine),
            _ => None,
        };
        let lost = members
            .filter(|machine| !attempt.answers.contains_key(machine) || Some(*machine) == removed);
        let lost: FewSet<MachineId> = lost.collect();
        let calm = lost.is_empty() && base.cm() == self.me;
        if !(calm || matches!(attempt.wish, Some(ChangeRequest::Remove(_)) | None)) {
            // The eviction of lost machines precedes requested changes.
            attempt.wish = None;
            self.out.push(Action::Wished(false));
        }
        let new = match &attempt.wish {
            Some(ChangeRequest::Add(address, domain)) => {
                let with = base.with_machine(address.clone(), domain.clone());
                with.map(|(new, _)| new)
            }
            Some(ChangeRequest::Leave(machine)) => base.with_leaving(*machine),
            Some(ChangeRequest::Move { .. } | ChangeRequest::Remove(_)) | None => {
                base.without(&lost, self.me)
            }
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

    /// Handles the store's answer to [`Action::CompareAndSwap`]; `None` if the store failed and the
    /// outcome is unknown.
    pub fn swapped(&mut self, now: u64, attempt: u64, outcome: Option<SwapOutcome>) -> Vec<Action> {
        if let Some(current) = &mut self.attempt
            && current.number == attempt
            && let Stage::Swapping(swap) = &current.stage
        {
            let swap = swap.clone();
            match outcome {
                Some(SwapOutcome::Won) => self.remap_regions(now, swap),
                Some(SwapOutcome::Lost) => {
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

    /// Handles the store's answer to [`Action::ReadStore`]; `None` if the store failed.
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
                    // Machines that did not answer may be back.
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

    /// Ends the attempt: another machine was faster, or the attempt is pointless by now.
    pub(super) fn abandon(&mut self) {
        if let Some(attempt) = self.attempt.take()
            && attempt.wish.is_some()
        {
            self.out.push(Action::Wished(false));
        }
    }

    /// Adds a machine by a reconfiguration; only at the CM. [`Action::Wished`] reports the end.
    ///
    /// # Errors
    /// [`ChangeRequestError`] if the reconfiguration cannot begin.
    pub fn add(
        &mut self,
        now: u64,
        address: Address,
        domain: FailureDomain,
    ) -> Result<Vec<Action>, ChangeRequestError> {
        self.may_wish()?;
        self.applied.with_machine(address.clone(), domain.clone())?;
        self.probe(now, Some(ChangeRequest::Add(address, domain)));
        Ok(self.done())
    }

    /// Adds replicas to regions that have too few, where machines are available; only at the CM.
    ///
    /// # Errors
    /// [`ChangeRequestError`] if the reconfiguration cannot begin.
    pub fn make_up(&mut self, now: u64) -> Result<Vec<Action>, ChangeRequestError> {
        self.may_wish()?;
        self.probe(now, Some(ChangeRequest::Move { balances: false }));
        Ok(self.done())
    }

    /// Makes a machine leave: moves its regions to other machines until it has none. Only at the
    /// CM.
    ///
    /// # Errors
    /// [`ChangeRequestError`] if the reconfiguration cannot begin.
    pub fn leave(
        &mut self,
        now: u64,
        machine: MachineId,
    ) -> Result<Vec<Action>, ChangeRequestError> {
        self.may_wish()?;
        if !self.applied.is_leaving(machine) {
            let next = self.applied.with_leaving(machine)?;
            let (need, have) = (self.options.replication.wanted(), next.domains_that_stay());
            if have < need {
                return Err(ChangeRequestError::TooFew { need, have });
            }
            self.probe(now, Some(ChangeRequest::Leave(machine)));
        }
        Ok(self.done())
    }

    /// Removes a leaving machine whose regions have all been moved; only at the CM. If another
    /// machine asked for this, the leaving machine is told to ask itself.
    ///
    /// # Errors
    /// [`ChangeRequestError`] if the reconfiguration cannot begin, or the machine still has
    /// replicas.
    pub(super) fn part_with(
        &mut self,
        now: u64,
        by: MachineId,
        machine: MachineId,
    ) -> Result<Vec<Action>, ChangeRequestError> {
        self.may_wish()?;
        if self.applied.has(machine) && !self.has_nothing(machine) {
            return Err(ChangeRequestError::HasReplicas(machine));
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

    /// Removes a machine by a reconfiguration; only at the CM. [`Action::Wished`] reports the end.
    /// A CM that is to be removed asks a backup CM to take over, and then learns that it is
    /// evicted.
    ///
    /// # Errors
    /// [`ChangeRequestError`] if the reconfiguration cannot begin.
    pub fn remove(
        &mut self,
        now: u64,
        machine: MachineId,
    ) -> Result<Vec<Action>, ChangeRequestError> {
        self.may_wish()?;
        let heirs = self.applied.backup_cms(1);
        match heirs.first() {
            Some(heir) if self.applied.has(machine) => {
                if machine == self.me {
                    let configuration = self.applied.id();
                    self.send(*heir, ReconfigurationMessage::Suspect { configuration });
                } else {
                    self.probe(now, Some(ChangeRequest::Remove(machine)));
                }
                Ok(self.done())
            }
            _ => Err(ChangeRequestError::NoSuchMachine(machine)),
        }
    }

    /// Returns whether the last configuration is in force and no other is in progress; only at the
    /// CM.
    pub fn is_in_force(&self) -> bool {
        self.may_wish().is_ok()
    }

    pub(super) fn may_wish(&self) -> Result<(), ChangeRequestError> {
        if self.newest.cm() != self.me || self.evicted {
            return Err(ChangeRequestError::NotManager);
        }
        let calm = self.committed && self.attempt.is_none() && self.newest == self.applied;
        calm.then_some(()).ok_or(ChangeRequestError::Busy)
    }
}
