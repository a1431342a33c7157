//! The clock handover: the next CM continues the time of the previous one (CLOCK-3).
//!
//! ```text
//! probe ─► answer: U               every machine: the highest time that it may have taken so far
//! NEW-CONFIG: the new CM's clock   above all of these; the clock stops if that is another time
//! NEW-CONFIG-COMMIT                every machine has applied it: the clock goes on
//! ```
//! The answer and NEW-CONFIG form an exchange, like a request for the time. So a machine that has
//! applied a configuration knows its time without a further message.
//!
//! # Failure
//! If a configuration is never committed, the clocks of the machines that have applied it stand
//! still until a later one is. No machine has used its time, and the next configuration's time is
//! above it.

use fencepost_cluster::few::FewMap;
use fencepost_cluster::reconfiguration::{NewClock, NewConfig};
use fencepost_fabric::MachineId;
use fencepost_storage::Timestamp;

use crate::clock::{Clock, NextCmTime, TICK_NS, TimeAnswer};
use crate::network::Network;

/// The state of the clock handover to the next configuration.
#[derive(Default)]
pub(super) struct Handover {
    /// When this machine last answered the probe of each machine, by its own clock.
    answered: FewMap<MachineId, u64>,
    /// The highest time in any answer, if this machine is to be the CM.
    highest_ns: u64,
    /// Whether the time continues unchanged, if this machine is the CM.
    goes_on: bool,
}

impl Handover {
    /// Records the answer to a probe. Returns the highest time that this machine may have taken.
    pub fn answer(&mut self, clock: &Clock, by: MachineId) -> Option<u64> {
        self.answered.insert(by, clock.own_ns());
        clock.highest_ns()
    }

    /// Records that this machine is going to be the CM.
    pub fn become_manager(&mut self, highest_ns: u64) {
        self.highest_ns = highest_ns;
    }
}

impl Network {
    /// Returns the clock of this machine for NEW-CONFIG.
    pub(super) fn new_clock(&self, clock: &Clock, handover: &Handover) -> NewClock {
        let TimeAnswer { ns, ahead } = clock.tell();
        NewClock {
            host: self.asking.host(),
            ns,
            ahead,
            goes_on: handover.goes_on,
        }
    }

    /// Prepares the clock for `new`, whose time is used once every machine has applied it.
    /// Meanwhile no machine learns the previous time.
    pub(super) fn change_clock(&self, clock: &Clock, handover: &mut Handover, new: &NewConfig) {
        let cm = new.configuration.cm();
        let answered = std::mem::take(&mut handover.answered);
        let answered = answered.get(&cm).copied();
        if cm == self.me {
            let asked = answered.unwrap_or(0);
            handover.goes_on = clock.become_manager(handover.highest_ns, asked);
        } else {
            self.follow_clock(clock, answered, new.clock);
        }
        self.asking.begin_anew();
    }

    fn follow_clock(&self, clock: &Clock, answered: Option<u64>, new: Option<NewClock>) {
        let is_time = |new: &NewClock| {
            let now = new.ahead.checked_add(new.ns / TICK_NS);
            now.is_some_and(|now| now < Timestamp::MAX.raw())
        };
        let next = match (new.filter(is_time), answered) {
            (Some(new), _) if new.goes_on && !clock.is_stopped() => return,
            (Some(NewClock { host, ahead, .. }), _) if host == self.asking.host() => {
                NextCmTime::Own { ahead }
            }
            (Some(NewClock { ns, ahead, .. }), Some(asked)) => NextCmTime::Exchange {
                asked,
                answer: TimeAnswer { ns, ahead },
            },
            // The machine has just joined, and asks for the time.
            _ => NextCmTime::Unknown,
        };
        clock.change(next);
    }
}
