//! Peers with which a connection has broken while both machines were members.
//!
//! Writes over a connection arrive in order, or the connection breaks. Then no machine knows how
//! many of them have arrived ([`fencepost_fabric::FabricError::Lost`]). A log or queue with a hole
//! is useless, even if a new connection is made soon. So one of the two machines has to leave: the
//! CM is told repeatedly until one has left ([`Reconfiguration::severed`]). The recovery that
//! follows decides the commits that wait for acks.

use fencepost_cluster::few::FewSet;
use fencepost_cluster::reconfiguration::{Action, Reconfiguration};
use fencepost_fabric::MachineId;

/// The peers, and when the CM is told next.
pub(super) struct SeveredPeers {
    peers: FewSet<MachineId>,
    again_at: u64,
    every_ns: u64,
}

impl SeveredPeers {
    pub fn new(every_ns: u64) -> SeveredPeers {
        SeveredPeers {
            peers: FewSet::new(),
            again_at: 0,
            every_ns,
        }
    }

    pub fn note(&mut self, peer: MachineId) {
        if self.peers.insert(peer) {
            self.again_at = 0;
        }
    }

    /// Returns when the CM is to be told next.
    pub fn next_wake(&self) -> u64 {
        match self.peers.is_empty() {
            true => u64::MAX,
            false => self.again_at,
        }
    }

    /// Tells the CM, if that is due.
    pub fn tell(&mut self, reconfiguration: &mut Reconfiguration, now: u64) -> Vec<Action> {
        if now < self.next_wake() {
            return Vec::new();
        }
        let configuration = reconfiguration.configuration();
        self.peers.retain(|peer| configuration.has(*peer));
        self.again_at = now.saturating_add(self.every_ns);
        let peers = self.peers.iter();
        let actions = peers.flat_map(|peer| reconfiguration.severed(now, *peer));
        actions.collect()
    }
}
