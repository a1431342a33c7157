//! Planned departure of machines: other machines receive their regions before they are removed from
//! the configuration.
//!
//! ```text
//! LEAVE ─► next configuration: further replicas ─► data recovery ─► WHOLE of all
//!       ─► next configuration: without the leaving machines
//! PART-WITH, for a machine without regions ─► PART-WITH to it ─► its clients end
//!       ─► PART-WITH from it ─► next configuration without it ─► evicted, and it knows why
//! ```
//! [`fencepost_cluster::reconfiguration`] decides each step and its time.
//!
//! # Failure
//! The requester checks whether the machine leaves ([`crate::network::Members`]), and repeats the
//! request: a lost or busy CM has forgotten it. That a machine is leaving is recorded in the
//! configuration.

use std::sync::atomic::Ordering;

use fencepost_fabric::MachineId;

use super::{Input, ReconfigurationDriver, State};
use crate::machine::Machine;
use crate::network::Network;

impl Network {
    /// Tells the CM once that all replicas here are complete.
    pub(super) fn tell_whole(&self, driver: &ReconfigurationDriver, state: &mut State) {
        if let Some(configuration) = state.whole_in
            && self.region_allocation.lacking().is_empty()
        {
            state.whole_in = None;
            let now = driver.clock.now_ns();
            let actions = state.reconfiguration.is_whole(now, configuration);
            state.actions.extend(actions);
        }
    }

    /// Returns whether a machine is a member that is to leave.
    pub fn is_leaving(&self, machine: MachineId) -> bool {
        match machine == self.me {
            true => self.leaves.load(Ordering::Acquire),
            false => self.configured.current().is_leaving(machine),
        }
    }

    /// Returns the machine that receives new objects in place of this one, if this machine is to
    /// leave.
    #[inline]
    pub fn stand_in(&self) -> Option<MachineId> {
        match self.leaves.load(Ordering::Acquire) {
            true => self.first_that_stays(),
            false => None,
        }
    }

    #[cold]
    fn first_that_stays(&self) -> Option<MachineId> {
        let current = self.configured.current();
        let machines = current.machines().iter();
        let after = machines.clone().filter(|machine| machine.id > self.me);
        let mut round = after.chain(machines);
        let stays = round.find(|machine| !machine.leaving);
        stays.map(|machine| machine.id)
    }

    fn ask_to_leave(&self, machine: MachineId, at_once: bool) {
        self.inbox.push(Input::Leave(machine, at_once));
        self.fabric.bell().ring();
    }
}

impl Machine {
    /// Returns whether machines may leave: only where failed machines are replaced.
    pub fn lets_others_leave(&self) -> bool {
        let network = self.network();
        network.is_some_and(|network| network.replaces_machines())
    }

    /// Asks the CM to let a machine leave: other machines receive its regions, and it receives
    /// none. Has no effect where machines are not replaced, where too few machines would stay for
    /// the replicas of regions, or during a reconfiguration. The caller must repeat it until
    /// [`Self::members`] shows the machine as leaving.
    pub fn ask_to_leave(&self, machine: MachineId) {
        if let Some(network) = self.network() {
            network.ask_to_leave(machine, false);
        }
    }

    /// Asks the CM to remove a leaving machine without regions from the configuration. The machine
    /// itself must ask, too, once it [has ended](Self::is_to_part) its work for clients.
    pub fn ask_to_part_with(&self, machine: MachineId) {
        if let Some(network) = self.network() {
            network.ask_to_leave(machine, true);
        }
    }

    /// Returns whether this machine has no regions any more and is to be removed. The caller must
    /// end its clients and then call [`Self::ask_to_part_with`] here.
    pub fn is_to_part(&self) -> bool {
        let network = self.network();
        network.is_some_and(|network| network.parts.load(Ordering::Acquire))
    }

    /// Returns whether the machine was removed because it was to leave and had no regions any more.
    pub fn has_left(&self) -> bool {
        let left = |network: &Network| {
            let asked = network.leaves.load(Ordering::Acquire);
            asked && network.is_evicted() && network.region_allocation.has_nothing()
        };
        self.network().is_some_and(|network| left(network))
    }
}
