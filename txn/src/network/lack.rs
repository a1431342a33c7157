//! What a machine lacks that is to begin: its peers, the time, its place among them, the root object.

use std::fmt;

use fencepost_fabric::MachineId;

use super::Network;
use crate::machine::Machine;

/// What a machine lacks yet before it can begin; `Display` says it to who waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// A peer that can be written to.
    Peer(MachineId),
    /// What time it is, which the CM tells.
    Time(MachineId),
    /// A configuration that it is a member of, and all that belongs to one.
    Place,
    /// Where the root object is.
    Root,
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lack::Peer(peer) => write!(f, "{peer} cannot be written to"),
            Lack::Time(cm) => write!(f, "{cm} does not say what time it is"),
            Lack::Place => f.write_str("the others have not taken this machine in"),
            Lack::Root => f.write_str("nobody says where the root object is"),
        }
    }
}

impl Network {
    /// What there is to be yet, if anything: every peer can be written to, the CM has told the time, and the root object is
    /// there; a machine that joins has to be a member first.
    pub async fn lacks(&self, machine: &Machine) -> Option<Lack> {
        let clock = machine.clock();
        for peer in self.fellows() {
            if !peer.link.is_up().await {
                return Some(Lack::Peer(peer.id));
            }
        }
        if !clock.is_known() {
            self.ask_time(clock);
        }
        if !clock.is_known() {
            return Some(Lack::Time(self.configured.cm()));
        }
        if !self.has_settled_in() {
            return Some(Lack::Place);
        }
        if !self.has_root(machine) {
            return Some(Lack::Root);
        }
        if self.joins {
            // What has changed hands before did so before now.
            self.whereabouts.raise_all(clock.interval().1);
        }
        if let Some(leasing) = self.leasing() {
            leasing.begin();
        }
        None
    }
}
