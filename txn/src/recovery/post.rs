//! What a machine's parts of a recovery have in common: who is in it, and what is to be done.

use std::collections::VecDeque;

use fencepost_cluster::{ConfigurationId, MachineId};

use super::Action;
use super::message::{Body, RecoveryMessage};
use crate::record::TxnId;

/// The configuration, and what has come up to be done.
#[derive(Debug)]
pub(super) struct Post {
    pub me: MachineId,
    pub configuration: ConfigurationId,
    /// In order.
    members: Vec<MachineId>,
    pub actions: Vec<Action>,
    /// What this machine says to itself.
    pub own: VecDeque<Body>,
}

impl Post {
    pub fn new(me: MachineId, configuration: ConfigurationId, mut members: Vec<MachineId>) -> Post {
        members.sort_unstable();
        Post {
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

    /// Who decides about a transaction: the machine that ran it or, where that is lost, one that all members agree
    /// on, so that those of a lost machine are spread over the others.
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
