//! The clocks of hosts: each has its own zero and runs slightly fast or slow.

use fencepost_fabric::{MonotonicClock, Random, SimNet};

/// The largest deviation of a clock's rate, in millionths. Two clocks drift apart by less than
/// machines allow.
pub const DRIFT_PPM: u64 = 99;
/// The longest uptime of a host at the start of the run.
const UP_NS: u64 = 1_000_000_000_000_000;

/// The clock of a simulated host.
pub struct HostTime {
    net: SimNet,
    ahead_ns: u64,
    ppm: i64,
}

impl HostTime {
    /// Returns a clock with a random zero and rate.
    pub fn draw(net: SimNet, random: &mut Random) -> HostTime {
        HostTime {
            net,
            ahead_ns: random.below(UP_NS),
            ppm: random.below(2 * DRIFT_PPM + 1) as i64 - DRIFT_PPM as i64,
        }
    }
}

impl HostTime {
    /// Returns the clock's reading at a virtual time.
    fn at(&self, time: u64) -> u64 {
        let fast = i128::from(time) * i128::from(self.ppm) / 1_000_000;
        (i128::from(self.ahead_ns) + i128::from(time) + fast) as u64
    }

    /// Returns a virtual time shortly after the clock reaches `ns`.
    pub fn when(&self, ns: u64) -> u64 {
        let since = u128::from(ns.saturating_sub(self.ahead_ns));
        let pace = u128::from(1_000_000u64.saturating_add_signed(self.ppm));
        u64::try_from(since * 1_000_000 / pace).map_or(u64::MAX, |time| time.saturating_add(2))
    }
}

impl MonotonicClock for HostTime {
    fn now_ns(&self) -> u64 {
        self.at(self.net.now_ns())
    }
}

#[cfg(test)]
mod tests {
    use fencepost_fabric::SimKnobs;

    use super::*;

    #[test]
    fn clock_reaches_time_at_predicted_moment() {
        let net = SimNet::new(1, SimKnobs::default());
        let mut random = Random::new(7);
        for _ in 0..200 {
            let clock = HostTime::draw(net.clone(), &mut random);
            let ns = clock.ahead_ns + random.below(1_000_000_000_000);
            let when = clock.when(ns);
            let of = |time: u64| clock.at(time);
            assert!(of(when) >= ns && of(when.saturating_sub(4)) <= ns);
            assert!(clock.when(0) < 10 && clock.when(u64::MAX) > when);
        }
    }
}
