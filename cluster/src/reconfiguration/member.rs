//! The steps of every member: promise, apply, commit.

use fencepost_fabric::MachineId;

use super::message::{NewConfig, ReconfigurationMessage, RefusedReplica, RegionReport};
use super::state::Reconfiguration;
use super::{Action, RegionProbe};
use crate::configuration::Configuration;
use crate::ids::ConfigurationId;
use crate::lease::LeaseOrder;

impl Reconfiguration {
    /// Handles PROBE: a machine wants to be the CM of the configuration after `base`.
    pub(super) fn probed(&mut self, now: u64, from: MachineId, base: Configuration, attempt: u64) {
        if base.id() < self.newest.id() {
            return self.tell_newest(from);
        }
        if !base.has(from) {
            return;
        }
        let id = base.id();
        self.learn(now, base);
        if self.evicted {
            return self.tell_newest(from);
        }
        if id < self.newest.id() {
            return;
        }
        self.promised = self.promised.max(Some(id));
        self.wait(now);
        let probe = RegionProbe {
            by: from,
            base: id,
            attempt,
        };
        let promise = LeaseOrder::Promise { to: from };
        self.out
            .extend([Action::Leases(promise), Action::ReportRegions(probe)]);
    }

    /// Handles the answer to [`Action::ReportRegions`].
    pub fn regions_reported(
        &mut self,
        now: u64,
        probe: RegionProbe,
        holdings: RegionReport,
    ) -> Vec<Action> {
        let RegionProbe { by, base, attempt } = probe;
        if by == self.me {
            self.probe_answered(now, by, base, attempt, holdings);
        } else if !self.evicted {
            let answer = ReconfigurationMessage::ProbeAnswer {
                base,
                attempt,
                holdings,
            };
            self.send(by, answer);
        }
        self.done()
    }

    /// Carries out step 6: handles NEW-CONFIG.
    pub(super) fn apply_new_configuration(&mut self, now: u64, from: MachineId, new: NewConfig) {
        let configuration = &new.configuration;
        let id = configuration.id();
        if from != configuration.cm() || id < self.newest.id() {
            return;
        }
        if id == self.applied_id() {
            if self.applying.is_none() {
                self.acknowledge(now);
            }
            return;
        }
        // RECONF-3: a machine applies no earlier configuration, and none that it has promised to
        // replace.
        if id < self.applied_id() || self.promised >= Some(id) {
            return;
        }
        if !configuration.has(self.me) {
            return self.learn(now, new.configuration);
        }
        self.apply(now, new, None);
    }

    /// Applies a configuration, as its CM or as another member.
    pub(super) fn apply(&mut self, now: u64, new: NewConfig, old_until: Option<u64>) {
        let configuration = new.configuration.clone();
        self.abandon();
        self.manager = None;
        self.newest = configuration.clone();
        self.applied = configuration.clone();
        self.joining = false;
        self.committed = false;
        self.active = false;
        self.suspects.clear();
        self.patience = None;
        self.applying = Some(configuration.id());
        self.ask_at = Some(now.saturating_add(self.options.retry_ns));
        let apply = LeaseOrder::Apply {
            configuration,
            old_until,
        };
        self.out.extend([
            Action::Block,
            Action::Leases(apply),
            Action::Apply(Box::new(new)),
        ]);
    }

    /// Handles the answer to [`Action::Apply`]: the configuration is applied, except for replicas
    /// without memory.
    pub fn applied(
        &mut self,
        now: u64,
        configuration: ConfigurationId,
        refused: Vec<RefusedReplica>,
    ) -> Vec<Action> {
        if self.applying == Some(configuration) {
            self.applying = None;
            self.refused = refused;
            self.acknowledge(now);
        }
        self.done()
    }

    fn acknowledge(&mut self, now: u64) {
        let configuration = self.applied_id();
        let refused = self.refused.clone();
        let cm = self.applied.cm();
        if cm == self.me {
            return self.acknowledged(now, cm, configuration, refused);
        }
        let ack = ReconfigurationMessage::NewConfigAck {
            configuration,
            refused,
        };
        self.send(cm, ack);
    }

    /// Carries out step 7 at a member: the applied configuration is in force. A machine that is
    /// about to replace it has blocked its clients, and keeps them blocked.
    pub(super) fn commit_applied(&mut self) {
        if !self.committed && self.attempt.is_none() {
            self.committed = true;
            self.ask_at = None;
            self.out.push(Action::Commit(self.applied.id()));
        }
    }

    /// Reports that all regions whose primary is this machine can be used in `configuration`.
    pub fn regions_active(&mut self, now: u64, configuration: ConfigurationId) -> Vec<Action> {
        if self.committed && configuration == self.applied_id() && !self.evicted {
            self.active = true;
            let cm = self.applied.cm();
            if cm == self.me {
                self.active_at(cm, configuration);
            } else {
                self.ask_at = Some(now.saturating_add(self.options.retry_ns));
                self.send(cm, ReconfigurationMessage::RegionsActive { configuration });
            }
        }
        self.done()
    }

    /// Reports that all replicas of this machine have all data of their regions, in a configuration
    /// whose regions are all active.
    pub fn is_whole(&mut self, now: u64, configuration: ConfigurationId) -> Vec<Action> {
        if self.committed && configuration == self.applied_id() && !self.evicted {
            let cm = self.applied.cm();
            match cm == self.me {
                true => self.whole_at(now, cm, configuration),
                false => self.send(cm, ReconfigurationMessage::Whole { configuration }),
            }
        }
        self.done()
    }

    /// Tells the CM that a machine is to leave. With `at_once`, tells it that a leaving machine
    /// without replicas is to be removed, which that machine confirms itself ([`Action::Part`]).
    /// The caller must check for the result and ask again.
    pub fn ask_to_leave(&mut self, now: u64, machine: MachineId, at_once: bool) -> Vec<Action> {
        let cm = self.newest.cm();
        let asked = match (cm == self.me, at_once) {
            (true, false) => self.leave(now, machine),
            (true, true) => self.part_with(now, self.me, machine),
            (false, _) => {
                self.send(
                    cm,
                    match at_once {
                        false => ReconfigurationMessage::Leave { machine },
                        true => ReconfigurationMessage::PartWith { machine },
                    },
                );
                Ok(self.done())
            }
        };
        asked.unwrap_or_default()
    }

    pub(super) fn ask(&mut self, whom: MachineId) {
        let ask = ReconfigurationMessage::Ask {
            applied: self.applied_id(),
            committed: self.committed,
        };
        self.send(whom, ask);
    }

    /// Learns that a newer configuration exists.
    pub(super) fn learn(&mut self, now: u64, configuration: Configuration) {
        if configuration.id() <= self.newest.id()
            || configuration.cluster() != self.newest.cluster()
        {
            return;
        }
        let swap = self.attempt.as_ref().and_then(|attempt| attempt.swap());
        if let Some(swap) = swap.filter(|swap| swap.new == configuration) {
            let swap = swap.clone();
            return self.remap_regions(now, swap);
        }
        self.abandon();
        self.manager = None;
        self.suspects.clear();
        self.patience = None;
        self.newest = configuration;
        if !self.newest.has(self.me) {
            return self.evict();
        }
        self.out.push(Action::Block);
        let cm = self.newest.cm();
        if cm != self.me {
            self.ask(cm);
            self.ask_at = Some(now.saturating_add(self.options.retry_ns));
        }
        self.wait(now);
    }

    fn evict(&mut self) {
        self.evicted = true;
        self.committed = false;
        self.ask_at = None;
        self.applying = None;
        let configuration = self.newest.clone();
        self.out.extend([
            Action::Leases(LeaseOrder::Stop),
            Action::Evicted(configuration),
        ]);
    }

    /// Answers as an evicted machine: only with the newer configuration that it knows.
    pub(super) fn answer_evicted(&mut self, from: MachineId, message: ReconfigurationMessage) {
        let of = match message {
            ReconfigurationMessage::Probe { base, .. } => base.id(),
            ReconfigurationMessage::Suspect { configuration } => configuration,
            ReconfigurationMessage::Ask { applied, .. } => applied,
            _ => return,
        };
        if of < self.newest.id() {
            self.tell_newest(from);
        }
    }
}
