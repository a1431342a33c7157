//! Machines that leave in good order: others get what they have, and then they are members no more.
//!
//! ```text
//! LEAVE ─► next configuration: further replicas ─► refill ─► WHOLE of all ─► next one: without those that were to go
//! PART-WITH, of a machine that has nothing any more ─► PART-WITH to it ─► its clients end ─► PART-WITH of it
//!                                              ─► next configuration without it ─► evicted, and it knows why
//! ```
//! What is decided, and when, is in [`fencepost_cluster::reconfiguration`].
//!
//! # Failure
//! Who asks looks whether it comes about ([`crate::network::Members`]), and asks again: a CM that is lost, or busy, has
//! forgotten it. That a machine is to leave is in the configuration.

use std::sync::atomic::Ordering;

use fencepost_fabric::MachineId;

use super::{Governor, Input, State};
use crate::machine::Machine;
use crate::network::Network;

impl Network {
    /// Tells the CM once that all replicas here are whole.
    pub(super) fn tell_whole(&self, governor: &Governor, state: &mut State) {
        if let Some(configuration) = state.whole_in
            && self.allotment.lacking().is_empty()
        {
            state.whole_in = None;
            let now = governor.clock.now_ns();
            let actions = state.reconfiguration.is_whole(now, configuration);
            state.actions.extend(actions);
        }
    }

    /// Whether a machine is a member that is to leave.
    pub fn is_leaving(&self, machine: MachineId) -> bool {
        match machine == self.me {
            true => self.leaves.load(Ordering::Acquire),
            false => self.configured.current().is_leaving(machine),
        }
    }

    /// Where new objects are that would be on this machine, if it is to leave.
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
    /// Whether machines may leave: those that fail are replaced.
    pub fn lets_others_leave(&self) -> bool {
        let network = self.network();
        network.is_some_and(|network| network.replaces_machines())
    }

    /// Has the CM told that a machine is to leave: others are given what it has, and it is given nothing any more.
    /// Nothing happens where machines are not replaced, where too few would stay for the replicas that regions have, or
    /// while the configuration is being changed: so it is to be asked again, until [`Self::members`] say that it leaves.
    pub fn ask_to_leave(&self, machine: MachineId) {
        if let Some(network) = self.network() {
            network.ask_to_leave(machine, false);
        }
    }

    /// The same of a machine that was to leave, and has nothing any more: that it is to be no member. That comes about
    /// once it has been asked so at the machine itself, too, which [has ended](Self::is_to_part) what it does for clients.
    pub fn ask_to_part_with(&self, machine: MachineId) {
        if let Some(network) = self.network() {
            network.ask_to_leave(machine, true);
        }
    }

    /// Whether this machine has nothing any more, and is to be no member: its clients are to end, and then it is to be
    /// said by [`Self::ask_to_part_with`] here.
    pub fn is_to_part(&self) -> bool {
        let network = self.network();
        network.is_some_and(|network| network.parts.load(Ordering::Acquire))
    }

    /// Whether the machine is a member no more because it was to leave, and had nothing any more.
    pub fn has_left(&self) -> bool {
        let left = |network: &Network| {
            let asked = network.leaves.load(Ordering::Acquire);
            asked && network.is_evicted() && network.allotment.has_nothing()
        };
        self.network().is_some_and(|network| left(network))
    }
}
