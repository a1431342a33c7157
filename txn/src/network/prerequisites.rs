//! Startup prerequisites: peers, time, membership and root object, which a machine needs before it
//! can begin.

use std::fmt;

use fencepost_fabric::MachineId;

use super::Network;
use crate::machine::Machine;

/// A missing prerequisite; `Display` describes it to the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingPrerequisite {
    /// A peer that cannot be written to yet.
    Peer(MachineId),
    /// The time, which this CM tells.
    Time(MachineId),
    /// Membership in a configuration whose regions are all active.
    Place,
    /// The location of the root object.
    Root,
}

impl fmt::Display for MissingPrerequisite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MissingPrerequisite::Peer(peer) => write!(f, "{peer} cannot be written to"),
            MissingPrerequisite::Time(cm) => write!(f, "{cm} does not say what time it is"),
            MissingPrerequisite::Place => f.write_str("the others have not taken this machine in"),
            MissingPrerequisite::Root => f.write_str("no machine says where the root object is"),
        }
    }
}

impl Network {
    /// Returns the first missing prerequisite, if any. Every peer can be written to, the CM has
    /// told the time, a joining machine is a member, and the root object exists.
    pub async fn lacks(&self, machine: &Machine) -> Option<MissingPrerequisite> {
        let clock = machine.clock();
        for peer in self.member_peers() {
            if !peer.sender.is_up().await {
                return Some(MissingPrerequisite::Peer(peer.id));
            }
        }
        if !clock.is_known() {
            self.ask_time(clock);
        }
        if !clock.is_known() {
            return Some(MissingPrerequisite::Time(self.configured.cm()));
        }
        if !self.has_settled_in() {
            return Some(MissingPrerequisite::Place);
        }
        if !self.has_root(machine) {
            return Some(MissingPrerequisite::Root);
        }
        if self.joins {
            // All handovers before this point have a floor of at most this time.
            self.region_map.raise_all(clock.interval().1);
        }
        if let Some(leasing) = self.leasing() {
            leasing.begin();
        }
        None
    }
}
