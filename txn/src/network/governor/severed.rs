//! Peers with whom a connection has broken while both were members.
//!
//! What is posted over a connection comes in order, or the connection breaks; then nobody knows how much of it has come
//! ([`fencepost_fabric::FabricError::Lost`]), and logs and queues with a hole in them are good for nothing, also where
//! there is another connection soon. So one of both has to leave: the CM is told, again and again, until one has
//! ([`Reconfiguration::severed`]). What waits for acknowledgements is decided by the recovery that follows.

use fencepost_cluster::few::FewSet;
use fencepost_cluster::reconfiguration::{Action, Reconfiguration};
use fencepost_fabric::MachineId;

/// The peers, and when the CM is told next.
pub(super) struct Severed {
    peers: FewSet<MachineId>,
    again_at: u64,
    every_ns: u64,
}

impl Severed {
    pub fn new(every_ns: u64) -> Severed {
        Severed {
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

    /// When the CM is to be told.
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
        let told = peers.flat_map(|peer| reconfiguration.severed(now, *peer));
        told.collect()
    }
}
