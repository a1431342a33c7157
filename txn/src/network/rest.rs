//! Whether anything is left of transactions that are over, and of what.
//!
//! # Invariant
//! REST-1: of the locks that are looked behind one is held at a time, and that of the ends, which is taken before any of them
//! everywhere. Whoever truncates holds the commits and wants the records of this machine; others take them otherwise.

use super::{Disk, End, Network};

impl Network {
    /// Whether nothing is left of transactions that are over: no lock, no record or room for one, no
    /// answer that is waited for; and no call is open. Slots that are reserved for new objects may stay in
    /// stock.
    pub fn is_at_rest(&self) -> bool {
        self.left(1).is_empty()
    }

    /// What is left, for people.
    pub fn unrest(&self) -> Vec<&'static str> {
        self.left(usize::MAX)
    }

    /// What is left, `most` of it.
    fn left(&self, most: usize) -> Vec<&'static str> {
        // Who governs may want the ends.
        let settled = self.is_settled();
        let ends = self.ends.lock();
        let peers = || self.fellows();
        // Called one after the other: in one expression all locks would be held to its end (REST-1).
        let all: [(&str, &dyn Fn() -> bool); 12] = [
            ("a reconfiguration or recovery", &|| settled),
            ("records of peers", &|| ends.iter().all(End::is_at_rest)),
            ("its own records", &|| self.home.lock().left() == 0),
            ("answers to LOCK", &|| self.replies.lock().is_empty()),
            ("commits", &|| self.committing.is_empty()),
            ("intents", &|| self.turns.lock().is_empty()),
            ("headers", &|| self.askers.lock().is_empty()),
            ("slots", &|| self.reserves.is_at_rest()),
            ("regions", &|| self.allotment.is_at_rest()),
            ("logs", &|| peers().all(|peer| peer.link.is_at_rest())),
            ("its disk", &|| {
                self.disk.as_ref().is_none_or(Disk::is_at_rest)
            }),
            ("calls", &|| peers().all(|peer| peer.line.is_at_rest())),
        ];
        let left = all.into_iter().filter(|(_, rests)| !rests());
        left.map(|(what, _)| what).take(most).collect()
    }
}
