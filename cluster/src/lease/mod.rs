//! Leases, by which machines detect the failure of a machine (SOSP'15 §5.1).
//!
//! *Purpose.* Every machine holds a lease at the CM, and the CM holds one at every machine. A
//! machine asks the CM to renew its lease every fifth of the lease's duration, and three messages
//! renew both leases:
//!
//! ```text
//!  machine                          CM
//!    │── REQUEST n ─────────────────►│  hears of the machine
//!    │◄──── GRANT n, REQUEST k ──────│  ... counts its lease here from now
//!    │── GRANT k ───────────────────►│
//!   counts its lease from when          counts its own from when it
//!   it sent REQUEST n                   sent REQUEST k
//! ```
//!
//! *The CM's own lease* lasts as long as a majority of the configuration, the CM included, grants
//! it. The leases that the CM grants end no later. Suppose that a majority stops granting to a CM.
//! Then all leases of that CM end one duration later, or sooner if that majority's earlier grants
//! expire sooner.
//!
//! *Invariants.* They hold if each clock runs at most the given drift faster or slower than real
//! time.
//! 1. LEASE-1: no machine reports that a lease has expired while its holder still relies on it.
//! 2. LEASE-2: a lease that a CM grants ends no later than the CM's own lease.
//! 3. LEASE-3: after [`LeaseEvent::OldRunOut`], no machine outside the configuration relies on a
//!    lease, and no machine relies on a lease that an earlier CM granted.
//! 4. LEASE-4: late, duplicated and reordered messages extend no lease. Each request number is
//!    granted once, in the order of the requests. A restarted machine gets no grants for requests
//!    of its previous incarnation.
//!
//! *Messages* are datagrams of [`LeaseMessage::BYTES`] bytes that may be lost. While the CM stays,
//! leases continue from one configuration to the next, so that further failures are detected during
//! a reconfiguration. When the CM changes, leases begin anew as soon as a machine applies the
//! configuration. Leases have their own thread and lane, so NEW-CONFIG and its answers do not carry
//! them.
//!
//! *Concurrency.* [`Leases`] has one owner, which may be a lock. Every call is short, and only
//! [`Leases::obey`], at a change of the configuration, allocates.

mod leases;
mod message;
mod peer;
#[cfg(test)]
mod tests;

use std::time::Duration;

use fencepost_fabric::MachineId;

pub use self::leases::{LeaseCounts, LeaseResult, LeaseStep, Leases};
pub use self::message::{LeaseBody, LeaseMessage};
use crate::configuration::Configuration;
use crate::ids::ConfigurationId;

const MILLION: u128 = 1_000_000;

/// The duration of leases and the largest drift of clocks; the same on all machines of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTerms {
    duration_us: u32,
    drift_ppm: u32,
}

impl LeaseTerms {
    /// The shortest allowed duration.
    pub const SHORTEST: Duration = Duration::from_millis(5);
    /// The largest allowed drift, in millionths.
    pub const MOST_DRIFT_PPM: u32 = 100_000;

    /// Returns terms with a lease duration, in whole microseconds, where every clock runs at most
    /// `drift_ppm` millionths faster or slower than real time. Returns `None` for a duration below
    /// [`Self::SHORTEST`] or above an hour, and for a drift above [`Self::MOST_DRIFT_PPM`].
    pub fn new(duration: Duration, drift_ppm: u32) -> Option<Self> {
        let fits = (Self::SHORTEST..=Duration::from_secs(3600)).contains(&duration);
        let duration_us = u32::try_from(duration.as_micros()).ok()?;
        (fits && drift_ppm <= Self::MOST_DRIFT_PPM).then_some(Self {
            duration_us,
            drift_ppm,
        })
    }

    /// Returns the duration of a lease.
    pub fn duration_ns(self) -> u64 {
        u64::from(self.duration_us) * 1000
    }

    /// Returns the interval between requests for renewal.
    pub fn renewal_ns(self) -> u64 {
        self.duration_ns() / 5
    }

    /// Returns how long the holder of a lease may rely on it, by its own clock.
    pub(crate) fn held_ns(self, granted_ns: u64) -> u64 {
        self.shortened(granted_ns.min(self.duration_ns()))
    }

    /// Returns a time that is shorter by the drift, for a clock that may be slow.
    pub(crate) fn shortened(self, ns: u64) -> u64 {
        ns - self.drift_ns(ns)
    }

    /// Returns how long the grantor of a lease waits until the lease has expired, by its own clock.
    pub(crate) fn expired_ns(self) -> u64 {
        self.duration_ns() + self.drift_ns(self.duration_ns())
    }

    /// Returns how long, by any machine's clock, a holder may still rely on a lease granted up to
    /// now.
    pub fn whole_ns(self) -> u64 {
        self.lengthened(self.expired_ns())
    }

    /// Converts a time by one machine's clock to an upper bound of the same time by any other
    /// clock. One of the clocks may be slow and the other fast.
    pub(crate) fn lengthened(self, ns: u64) -> u64 {
        // (1 + d) / (1 - d) is below 1 + 3 d for every allowed drift.
        ns.saturating_add(self.drift_ns(ns).saturating_mul(3))
    }

    fn drift_ns(self, ns: u64) -> u64 {
        let drift = u128::from(ns) * u128::from(self.drift_ppm);
        // The result is less than a tenth of `ns`, so it fits in 64 bits.
        drift.div_ceil(MILLION) as u64
    }
}

/// An event that the owner of the leases must handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseEvent {
    /// A lease has expired: suspect its holder. At the CM the holder is any machine, on other
    /// machines the CM.
    Expired(MachineId),
    /// A suspected machine has sent a message in the configuration in which it was suspected: the
    /// suspicion was false.
    Returned(MachineId),
    /// A machine has sent a message of a newer configuration.
    Newer(MachineId, ConfigurationId),
    /// A machine that is not a member has sent a message of an earlier configuration.
    Outdated(MachineId),
    /// All leases of machines outside this configuration and of earlier CMs have expired. This
    /// machine holds its lease as the CM, so it has not been replaced in the meantime.
    OldRunOut(ConfigurationId),
}

/// An order of a reconfiguration to the leases; see [`Leases::obey`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseOrder {
    /// Makes this machine support the machine `to` as CM: it grants leases to no other CM until the
    /// next configuration is applied.
    Promise {
        /// The machine that wants to be the CM.
        to: MachineId,
    },
    /// Tells the CM, before it swaps configurations, that these machines may be evicted. The CM
    /// grants them no leases from now on, and their grants do not count.
    Narrow {
        /// The machines that may be evicted.
        left_out: Vec<MachineId>,
        /// The number of machines, the CM included, whose leases the CM needs until it applies the
        /// configuration.
        need: usize,
    },
    /// Applies a configuration.
    Apply {
        /// The configuration.
        configuration: Configuration,
        /// Set for a new CM: the time by this machine's clock at which all leases of evicted
        /// machines have expired. The promises of a majority give it ([`Leases::granted_ns`]).
        old_until: Option<u64>,
    },
    /// Tells the CM that a machine has applied the configuration, so that its lease counts from
    /// now.
    Watch {
        /// The machine that has applied the configuration.
        machine: MachineId,
    },
    /// Asks the CM for [`LeaseEvent::OldRunOut`] when the old leases have expired.
    AwaitOld,
    /// Stops all leases: the machine is no longer a member, so it neither holds nor grants leases.
    Stop,
}
