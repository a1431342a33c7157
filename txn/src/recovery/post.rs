//! The shared part of a machine's recovery: the members and the actions to carry out.

use std::collections::VecDeque;

use fencepost_cluster::{ConfigurationId, MachineId};

use super::Action;
use super::message::{Body, RecoveryMessage};
use crate::record::TxnId;

/// The configuration, and the actions to carry out.
#[derive(Debug)]
pub(super) struct RecoveryActions {
    pub me: MachineId,
    pub configuration: ConfigurationId,
    /// Sorted.
    members: Vec<MachineId>,
    pub actions: Vec<Action>,
    /// Messages of this machine to itself.
    pub own: VecDeque<Body>,
}

impl RecoveryActions {
    pub fn new(
        me: MachineId,
        configuration: ConfigurationId,
        mut members: Vec<MachineId>,
    ) -> RecoveryActions {
        members.sort_unstable();
        RecoveryActions {
            me,
            configuration,
            members,
            actions: Vec::new(),
            own: VecDeque::new(),
        }
    }

    pub fn has(&self, machine: MachineId) -> bool {
        self.members.binary_search(&machine).is_ok()
    }

    pub fn send(&mut self, to: MachineId, body: Body) {
        if to == self.me {
            return self.own.push_back(body);
        }
        let message = RecoveryMessage {
            configuration: self.configuration,
            body,
        };
        self.actions.push(Action::Send(to, message));
    }

    /// Returns the coordinator of a transaction: the machine that ran it. If that machine is lost,
    /// all members compute the same other member. The transactions of a lost machine are so
    /// distributed over the members.
    pub fn coordinator_of(&self, id: TxnId) -> MachineId {
        let own = MachineId(id.machine);
        if self.has(own) || self.members.is_empty() {
            return own;
        }
        let mixed = id.words().into_iter().fold(0u64, |mixed, word| {
            (mixed ^ word)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                .rotate_left(29)
        });
        let at = (u128::from(mixed) * self.members.len() as u128) >> 64;
        self.members[at as usize]
    }
}
