//! The reconfiguration state of a machine, its messages and its timers.

use fencepost_fabric::MachineId;

use super::initiator::Attempt;
use super::manager::ManagerState;
use super::message::{ReconfigurationMessage, RefusedReplica};
use super::{Action, Options};
use crate::configuration::Configuration;
use crate::few::FewSet;
use crate::ids::ConfigurationId;
use crate::lease::LeaseEvent;

/// The reconfiguration state machine of one machine.
#[derive(Debug)]
pub struct Reconfiguration {
    pub(super) me: MachineId,
    pub(super) options: Options,
    /// The configuration that this machine has applied. A joining machine has yet to apply it.
    pub(super) applied: Configuration,
    pub(super) joining: bool,
    pub(super) committed: bool,
    /// The newest configuration that this machine knows.
    pub(super) newest: Configuration,
    /// The newest configuration that this machine has promised to help replace.
    pub(super) promised: Option<ConfigurationId>,
    /// The suspected members of the newest configuration.
    pub(super) suspects: FewSet<MachineId>,
    /// The time at which this machine starts a reconfiguration if it learns nothing new.
    pub(super) patience: Option<u64>,
    /// The time at which an unanswered question is repeated.
    pub(super) ask_at: Option<u64>,
    /// The configuration that is being applied.
    pub(super) applying: Option<ConfigurationId>,
    pub(super) refused: Vec<RefusedReplica>,
    /// Whether all regions whose primary is here can be used, but the CM has not yet said so of all
    /// regions.
    pub(super) active: bool,
    pub(super) attempts: u64,
    pub(super) attempt: Option<Attempt>,
    pub(super) manager: Option<ManagerState>,
    /// The machines that had no memory for a new replica.
    pub(super) full: FewSet<MachineId>,
    pub(super) evicted: bool,
    pub(super) out: Vec<Action>,
}

impl Reconfiguration {
    /// Returns the state of a member of a configuration that is in force, such as the first one.
    pub fn new(me: MachineId, configuration: Configuration, options: Options) -> Self {
        Self {
            me,
            options,
            newest: configuration.clone(),
            applied: configuration,
            joining: false,
            committed: true,
            promised: None,
            suspects: FewSet::new(),
            patience: None,
            ask_at: None,
            applying: None,
            refused: Vec::new(),
            active: false,
            attempts: 0,
            attempt: None,
            manager: None,
            full: FewSet::new(),
            evicted: false,
            out: Vec::new(),
        }
    }

    /// Returns the state of a machine that has just become a member of this configuration and waits
    /// for NEW-CONFIG.
    pub fn joining(
        me: MachineId,
        configuration: Configuration,
        options: Options,
        now: u64,
    ) -> Self {
        Self {
            joining: true,
            committed: false,
            ask_at: Some(now.saturating_add(options.retry_ns)),
            ..Self::new(me, configuration, options)
        }
    }

    /// Returns the configuration that this machine has applied.
    pub fn configuration(&self) -> &Configuration {
        &self.applied
    }

    /// Returns the newest configuration that this machine knows.
    pub fn newest(&self) -> &Configuration {
        &self.newest
    }

    /// Returns whether this machine knows its configuration to be in force.
    pub fn is_committed(&self) -> bool {
        self.committed
    }

    /// Returns whether this machine has learned that it is no longer a member.
    pub fn is_evicted(&self) -> bool {
        self.evicted
    }

    /// Returns whether this machine is trying to become the CM of a next configuration.
    pub fn is_initiating(&self) -> bool {
        self.attempt.is_some()
    }

    pub(super) fn applied_id(&self) -> ConfigurationId {
        let id = self.applied.id();
        if self.joining { id.before() } else { id }
    }

    pub(super) fn send(&mut self, to: MachineId, message: ReconfigurationMessage) {
        self.out.push(Action::Send(to, message));
    }

    pub(super) fn tell_newest(&mut self, to: MachineId) {
        let configuration = self.newest.clone();
        self.send(to, ReconfigurationMessage::Newer { configuration });
    }

    pub(super) fn done(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.out)
    }

    /// Handles an event of the leases.
    pub fn lease_event(&mut self, now: u64, event: LeaseEvent) -> Vec<Action> {
        match event {
            LeaseEvent::Expired(machine) => self.suspect(now, machine),
            LeaseEvent::Newer(machine, id) if id > self.newest.id() => self.ask(machine),
            LeaseEvent::Outdated(machine) if !self.newest.has(machine) => {
                self.tell_newest(machine);
            }
            LeaseEvent::OldRunOut(configuration) => self.old_leases_over(now, configuration),
            LeaseEvent::Returned(_) | LeaseEvent::Newer(..) | LeaseEvent::Outdated(_) => {}
        }
        self.done()
    }

    /// Handles a message of another machine.
    pub fn receive(
        &mut self,
        now: u64,
        from: MachineId,
        message: ReconfigurationMessage,
    ) -> Vec<Action> {
        use ReconfigurationMessage as Message;
        if self.evicted {
            self.answer_evicted(from, message);
            return self.done();
        }
        match message {
            Message::Suspect { configuration } => self.is_asked_to_start(now, from, configuration),
            Message::Probe { base, attempt } => self.probed(now, from, base, attempt),
            Message::ProbeAnswer {
                base,
                attempt,
                holdings,
            } => self.probe_answered(now, from, base, attempt, holdings),
            Message::NewConfig(new) => self.apply_new_configuration(now, from, new),
            Message::NewConfigAck {
                configuration,
                refused,
            } => self.acknowledged(now, from, configuration, refused),
            Message::NewConfigCommit { configuration } => {
                if configuration > self.newest.id() {
                    self.ask(from);
                } else if from == self.applied.cm() && configuration == self.applied_id() {
                    self.commit_applied();
                }
            }
            Message::RegionsActive { configuration } => self.active_at(from, configuration),
            Message::AllRegionsActive { configuration } => {
                let current = configuration == self.applied_id() && from == self.applied.cm();
                if current && std::mem::take(&mut self.active) {
                    self.ask_at = None;
                    self.out.push(Action::AllRegionsActive(configuration));
                }
            }
            Message::Whole { configuration } => self.whole_at(now, from, configuration),
            // A refused request is not answered: the requesting machine sees no result, and asks
            // again.
            Message::Leave { machine } if self.newest.has(from) => {
                return self.leave(now, machine).unwrap_or_default();
            }
            Message::PartWith { machine } if machine == self.me && from == self.newest.cm() => {
                self.out.push(Action::Part);
            }
            Message::PartWith { machine } if self.newest.has(from) => {
                return self.part_with(now, from, machine).unwrap_or_default();
            }
            Message::Leave { .. } | Message::PartWith { .. } => {}
            Message::Ask { applied, committed } => self.asked(from, applied, committed),
            Message::Newer { configuration } => self.learn(now, configuration),
            Message::Severed {
                configuration,
                machine,
            } => self.handle_severed(now, from, configuration, machine),
        }
        self.done()
    }

    /// Handles a broken connection with a machine.
    pub fn unreachable(&mut self, now: u64, machine: MachineId) -> Vec<Action> {
        self.does_not_answer(now, machine);
        self.done()
    }

    /// Handles the final loss of messages or writes between this machine and another one. One of
    /// the two must leave the configuration, so that waiting work is decided. The caller repeats
    /// this while both are members.
    pub fn severed(&mut self, now: u64, machine: MachineId) -> Vec<Action> {
        if !self.evicted && machine != self.me && self.newest.has(machine) {
            let cm = self.newest.cm();
            if cm == self.me || cm == machine || self.attempt.is_some() {
                self.suspect(now, machine);
            } else {
                let configuration = self.newest.id();
                let severed = ReconfigurationMessage::Severed {
                    configuration,
                    machine,
                };
                self.send(cm, severed);
            }
        }
        self.done()
    }

    /// Returns the latest time of the next call of [`Self::tick`]; `u64::MAX` for never.
    pub fn next_wake(&self) -> u64 {
        let attempt = self.attempt.as_ref().and_then(Attempt::wake);
        let manager = self.manager.as_ref().and_then(ManagerState::wake);
        let times = [self.patience, self.ask_at, attempt, manager];
        times.into_iter().flatten().min().unwrap_or(u64::MAX)
    }

    /// Handles the timers that are due at `now`.
    pub fn tick(&mut self, now: u64) -> Vec<Action> {
        let due = |at: Option<u64>| at.is_some_and(|at| at <= now);
        if due(self.attempt.as_ref().and_then(Attempt::wake)) {
            self.attempt_is_due(now);
        }
        if due(self.manager.as_ref().and_then(ManagerState::wake)) {
            self.handle_manager_timeout(now);
        }
        if due(self.patience) {
            self.patience = None;
            if self.attempt.is_none() {
                self.probe(now, None);
            }
        }
        if due(self.ask_at) {
            self.ask_at = Some(now.saturating_add(self.options.retry_ns));
            let configuration = self.applied_id();
            let cm = self.newest.cm();
            if cm == self.me {
                self.ask_at = None;
            } else if self.active && self.newest.id() == configuration {
                self.send(cm, ReconfigurationMessage::RegionsActive { configuration });
            } else {
                self.ask(cm);
            }
        }
        self.done()
    }
}
