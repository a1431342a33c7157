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
        self.unrest().is_empty()
    }

    /// What is left, for people.
    pub fn unrest(&self) -> Vec<&'static str> {
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
        left.map(|(what, _)| what).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use fencepost_cluster::Configuration;
    use fencepost_fabric::{LocalNetwork, MachineId};

    use crate::network::{NetworkOptions, Replication};
    use crate::{Machine, MachineOptions};

    #[test]
    fn who_asks_what_is_left_stands_in_nobodys_way() {
        let fabric = LocalNetwork::new().join(MachineId(1)).expect("a machine");
        let network = NetworkOptions {
            driven: true,
            ..NetworkOptions::of(
                Arc::new(fabric),
                Configuration::of_process(1).expect("one machine"),
                Replication::exactly(1),
            )
        };
        let machine = Machine::open(MachineOptions {
            network: Some(network),
            ..MachineOptions::default()
        })
        .expect("opens");
        let network = machine.network().expect("a network");
        std::thread::scope(|scope| {
            let asks = network.committing.hold_up(|| {
                let asks = scope.spawn(|| network.is_at_rest());
                while network.ends.try_lock().is_some() {
                    std::thread::yield_now();
                }
                // As whoever truncates.
                for _ in 0..100 {
                    let home = network.home.try_lock_for(Duration::from_secs(10));
                    assert!(home.is_some(), "whoever truncates waits for who asks");
                    drop(home);
                    std::thread::sleep(Duration::from_millis(1));
                }
                asks
            });
            assert!(asks.join().expect("no panic"));
        });
    }
}
