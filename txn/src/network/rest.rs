//! Checks whether finished transactions have left any state.
//!
//! # Invariant
//! REST-1: of the mutexes taken by the checks only one is held at a time, besides that of the
//! receivers. The latter is taken before any of them everywhere. A truncating thread holds the
//! commits and locks the records of this machine; other threads take them in another order.

use super::{Disk, Network, PeerReceiver};

impl Network {
    /// Returns whether finished transactions have left nothing: no lock, no record or log
    /// reservation, no pending reply, and no open call. Reserved slots for new objects may stay in
    /// stock.
    pub fn is_at_rest(&self) -> bool {
        self.left(1).is_empty()
    }

    /// Returns descriptions of the remaining state.
    pub fn unrest(&self) -> Vec<&'static str> {
        self.left(usize::MAX)
    }

    /// Returns at most `most` descriptions of the remaining state.
    fn left(&self, most: usize) -> Vec<&'static str> {
        // The reconfiguration driver may wait for the receivers.
        let settled = self.is_settled();
        let receivers = self.receivers.lock();
        let peers = || self.member_peers();
        // Called one after the other: in one expression all locks would be held to its end
        // (REST-1).
        let all: [(&str, &dyn Fn() -> bool); 12] = [
            ("a reconfiguration or recovery", &|| settled),
            ("records of peers", &|| {
                receivers.iter().all(PeerReceiver::is_at_rest)
            }),
            ("its own records", &|| self.home.lock().left() == 0),
            ("answers to LOCK", &|| self.replies.lock().is_empty()),
            ("commits", &|| self.in_flight.is_empty()),
            ("intents", &|| self.remote_lock_waits.lock().is_empty()),
            ("headers", &|| self.askers.lock().is_empty()),
            ("slots", &|| self.slot_reservations.is_at_rest()),
            ("regions", &|| self.region_allocation.is_at_rest()),
            ("logs", &|| peers().all(|peer| peer.sender.is_at_rest())),
            ("its disk", &|| {
                self.disk.as_ref().is_none_or(Disk::is_at_rest)
            }),
            ("calls", &|| peers().all(|peer| peer.channel.is_at_rest())),
        ];
        let left = all.into_iter().filter(|(_, rests)| !rests());
        left.map(|(what, _)| what).take(most).collect()
    }
}
