//! The clocks of hosts: each counts from a zero of its own and is a little fast or slow.

use fencepost_fabric::{MonotonicClock, Random, SimNet};

/// Millionths by which a clock may be fast or slow. Two of them drift apart by less than what machines allow
/// for.
const DRIFT_PPM: u64 = 99;
/// The longest time that a host has been up before the run.
const UP_NS: u64 = 1_000_000_000_000_000;

/// The clock of a host.
pub struct HostTime {
    net: SimNet,
    ahead_ns: u64,
    ppm: i64,
}

impl HostTime {
    /// Draws one.
    pub fn draw(net: SimNet, random: &mut Random) -> HostTime {
        HostTime {
            net,
            ahead_ns: random.below(UP_NS),
            ppm: random.below(2 * DRIFT_PPM + 1) as i64 - DRIFT_PPM as i64,
        }
    }
}

impl MonotonicClock for HostTime {
    fn now_ns(&self) -> u64 {
        let time = self.net.now_ns();
        let fast = i128::from(time) * i128::from(self.ppm) / 1_000_000;
        (i128::from(self.ahead_ns) + i128::from(time) + fast) as u64
    }
}
