//! The steps of the machine that has become the CM: remap, send, commit.

use fencepost_fabric::MachineId;

use super::gather::{KnownRegions, gather};
use super::initiator::{ChangeRequest, Swap};
use super::message::{NewConfig, ReconfigurationMessage, RefusedReplica};
use super::remap::{OptionalChanges, RemapResult, remap_regions};
use super::state::Reconfiguration;
use super::{Action, InitialManagerState, Report};
use crate::allocation::{MovedRegion, REGIONS_A_CONFIGURATION};
use crate::configuration::Configuration;
use crate::few::FewSet;
use crate::ids::ConfigurationId;
use crate::lease::LeaseOrder;
use crate::region::RegionId;

/// The state of the CM for its configuration, kept until the next one.
#[derive(Debug)]
pub(super) struct ManagerState {
    configuration: Configuration,
    gathered: KnownRegions,
    remapped: RemapResult,
    /// The members that have not applied the configuration.
    waiting: FewSet<MachineId>,
    refused: FewSet<MachineId>,
    /// The members whose regions cannot all be used yet.
    inactive: FewSet<MachineId>,
    /// The members that have not reported that all of their replicas have all data.
    lacking: FewSet<MachineId>,
    /// Whether regions continue to be moved to less loaded machines.
    balances: bool,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// NEW-CONFIG has been sent; it is repeated at `again`, and the wait ends at `until`.
    Sending {
        again: u64,
        until: u64,
    },
    OldLeases,
    Committed,
}

impl ManagerState {
    pub fn wake(&self) -> Option<u64> {
        match self.stage {
            Stage::Sending { again, until } => Some(again.min(until)),
            Stage::OldLeases | Stage::Committed => None,
        }
    }

    /// Returns the NEW-CONFIG for a member.
    fn new_config(&self, machine: MachineId) -> NewConfig {
        let drained = self.gathered.last_drained.get(&machine);
        let drained = drained.copied().unwrap_or(ConfigurationId(0));
        let changed = self.remapped.map.changed_since(drained);
        let moved = changed.filter_map(|mapping| {
            let request = *self.remapped.requests.get(&mapping.region)?;
            Some(MovedRegion {
                mapping: mapping.clone(),
                request,
            })
        });
        let given_up = self.gathered.given_up.get(&machine);
        let next = self.gathered.next_region;
        let end = next.saturating_add(REGIONS_A_CONFIGURATION);
        NewConfig {
            configuration: self.configuration.clone(),
            moved: moved.collect(),
            given_up: given_up.cloned().unwrap_or_default(),
            lost: self.remapped.lost.clone(),
            next_region: RegionId(end),
            clock: None,
        }
    }
}

impl Reconfiguration {
    /// Carries out step 4 after the swap is won: finds the existing regions, and assigns the
    /// regions of lost machines to other machines.
    pub(super) fn remap_regions(&mut self, now: u64, swap: Swap) {
        let Some(attempt) = self.attempt.take() else {
            return;
        };
        let Swap { new, old_until } = swap;
        if attempt.wish.is_some() {
            self.out.push(Action::Wished(true));
        }
        let mut answers = attempt.answers;
        answers.retain(|machine, _| new.has(*machine));
        let time_ns = answers.values().filter_map(|answer| answer.time_ns).max();
        let gathered = gather(&answers);
        let all = attempt.base.machines().iter().all(|m| new.has(m.id));
        let occasion = match &attempt.wish {
            Some(ChangeRequest::Move { balances }) => OptionalChanges {
                settled: all,
                balances: *balances && all,
            },
            Some(ChangeRequest::Add(..)) => OptionalChanges {
                settled: false,
                balances: all,
            },
            _ => OptionalChanges::default(),
        };
        let replication = self.options.replication;
        let remapped = remap_regions(&gathered, &new, replication, &self.full, occasion);
        self.out.push(Action::Report(Report {
            configuration: new.id(),
            lost: remapped.lost.clone(),
            under_replicated: remapped.under_replicated.clone(),
        }));
        let requests = remapped.requests.iter();
        self.out
            .push(Action::BecomeManager(Box::new(InitialManagerState {
                configuration: new.clone(),
                map: remapped.map.clone(),
                requests: requests.map(|(region, id)| (*id, *region)).collect(),
                next_region: RegionId(gathered.next_region),
                time_ns: time_ns.unwrap_or(0),
            })));
        let members: FewSet<MachineId> = new.machines().iter().map(|m| m.id).collect();
        let stage = Stage::Sending {
            again: now.saturating_add(self.options.retry_ns),
            until: now.saturating_add(self.options.ack_ns),
        };
        let manager = ManagerState {
            configuration: new,
            gathered,
            remapped,
            waiting: members.clone(),
            refused: FewSet::new(),
            inactive: members.clone(),
            lacking: members,
            balances: occasion.balances,
            stage,
        };
        let suspects = std::mem::take(&mut self.suspects);
        self.apply(now, manager.new_config(self.me), Some(old_until));
        self.manager = Some(manager);
        self.send_new_configuration();
        for machine in attempt.base.machines() {
            if !self.newest.has(machine.id) {
                self.tell_newest(machine.id);
            }
        }
        for machine in suspects {
            self.suspect(now, machine);
        }
    }

    /// Carries out step 5: sends NEW-CONFIG to all members that have not applied it.
    fn send_new_configuration(&mut self) {
        let Some(manager) = &self.manager else {
            return;
        };
        let others = manager
            .waiting
            .iter()
            .filter(|machine| **machine != self.me);
        let messages = others.map(|machine| {
            let new = manager.new_config(*machine);
            Action::Send(*machine, ReconfigurationMessage::NewConfig(new))
        });
        self.out.extend(messages);
    }

    /// Handles NEW-CONFIG-ACK: a member has applied the configuration.
    pub(super) fn acknowledged(
        &mut self,
        now: u64,
        from: MachineId,
        configuration: ConfigurationId,
        refused: Vec<RefusedReplica>,
    ) {
        let Some(manager) = &mut self.manager else {
            return;
        };
        if manager.configuration.id() != configuration || !manager.waiting.remove(&from) {
            return;
        }
        if !refused.is_empty() {
            manager.refused.insert(from);
        }
        if from != self.me {
            let watch = LeaseOrder::Watch { machine: from };
            self.out.push(Action::Leases(watch));
        }
        if !manager.waiting.is_empty() {
            return;
        }
        if manager.refused.is_empty() {
            manager.stage = Stage::OldLeases;
            self.out.push(Action::Leases(LeaseOrder::AwaitOld));
        } else {
            // Mappings do not change within a configuration: the next configuration places these
            // replicas elsewhere.
            self.full.extend(std::mem::take(&mut manager.refused));
            self.probe(now, None);
        }
    }

    pub(super) fn old_leases_over(&mut self, _now: u64, configuration: ConfigurationId) {
        if let Some(manager) = &self.manager
            && manager.stage == Stage::OldLeases
            && manager.configuration.id() == configuration
        {
            self.commit_new_configuration();
        }
    }

    /// Carries out step 7: all members have applied the configuration, and no other machine holds a
    /// lease.
    fn commit_new_configuration(&mut self) {
        let Some(manager) = &mut self.manager else {
            return;
        };
        manager.stage = Stage::Committed;
        let configuration = manager.configuration.id();
        let others = manager.configuration.machines().iter().map(|m| m.id);
        for machine in others.filter(|machine| *machine != self.me) {
            let commit = ReconfigurationMessage::NewConfigCommit { configuration };
            self.out.push(Action::Send(machine, commit));
        }
        self.full.clear();
        self.commit_applied();
    }

    /// Handles REGIONS-ACTIVE: all regions of a member can be used.
    pub(super) fn active_at(&mut self, from: MachineId, configuration: ConfigurationId) {
        let Some(manager) = &mut self.manager else {
            return;
        };
        let current =
            manager.configuration.id() == configuration && manager.stage == Stage::Committed;
        if !current || !manager.configuration.has(from) {
            return;
        }
        let last = manager.inactive.remove(&from) && manager.inactive.is_empty();
        let all = ReconfigurationMessage::AllRegionsActive { configuration };
        if last {
            let members = manager.configuration.machines().iter().map(|m| m.id);
            for machine in members.filter(|machine| *machine != self.me) {
                self.out.push(Action::Send(machine, all.clone()));
            }
            self.active = false;
            self.out.push(Action::AllRegionsActive(configuration));
        } else if manager.inactive.is_empty() {
            self.send(from, all);
        }
    }

    /// Handles WHOLE: all replicas of a member have all data of their regions. Once all members are
    /// whole, replicas that are to go are given up.
    pub(super) fn whole_at(&mut self, now: u64, from: MachineId, configuration: ConfigurationId) {
        let Some(manager) = &mut self.manager else {
            return;
        };
        if manager.configuration.id() != configuration || manager.stage != Stage::Committed {
            return;
        }
        let last = manager.lacking.remove(&from) && manager.lacking.is_empty();
        let (moving, balances) = (manager.remapped.moving, manager.balances);
        if last && moving && self.may_wish().is_ok() {
            self.probe(now, Some(ChangeRequest::Move { balances }));
        }
    }

    /// Returns whether replicas at other machines must become whole before some are given up; only
    /// at the CM.
    pub fn is_moving(&self) -> bool {
        let manager = self.manager.as_ref();
        manager.is_some_and(|manager| manager.remapped.moving)
    }

    /// Returns whether a leaving machine has no replicas, and will get none.
    pub(super) fn has_nothing(&self, machine: MachineId) -> bool {
        let manager = self.manager.as_ref();
        manager.is_some_and(|manager| {
            let mut mappings = manager.remapped.map.mappings();
            manager.configuration.is_leaving(machine)
                && !mappings.any(|mapping| mapping.replicas.has(machine))
        })
    }

    /// Answers a machine that asks for news, with what it has missed.
    pub(super) fn asked(&mut self, from: MachineId, applied: ConfigurationId, committed: bool) {
        let newest = self.newest.id();
        let manager = self
            .manager
            .as_ref()
            .filter(|manager| manager.configuration.id() == newest);
        let waiting = manager.filter(|manager| manager.waiting.contains(&from));
        if applied > newest {
            self.ask(from);
        } else if let Some(manager) = waiting {
            let new = manager.new_config(from);
            self.send(from, ReconfigurationMessage::NewConfig(new));
        } else if applied < newest {
            self.tell_newest(from);
        } else if manager.is_some_and(|manager| manager.stage == Stage::Committed) && !committed {
            let configuration = newest;
            self.send(
                from,
                ReconfigurationMessage::NewConfigCommit { configuration },
            );
        }
    }

    pub(super) fn handle_manager_timeout(&mut self, now: u64) {
        let retry_ns = self.options.retry_ns;
        let Some(manager) = &mut self.manager else {
            return;
        };
        let Stage::Sending { again, until } = &mut manager.stage else {
            return;
        };
        if now >= *until {
            let silent = std::mem::take(&mut manager.waiting);
            self.suspects
                .extend(silent.into_iter().filter(|m| *m != self.me));
            self.probe(now, None);
        } else {
            *again = now.saturating_add(retry_ns);
            self.send_new_configuration();
        }
    }
}
