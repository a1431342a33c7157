//! Leases, by which machines find out that one of them has failed (SOSP'15 §5.1).
//!
//! *What.* Every machine holds a lease at the CM, and the CM holds one at every machine. A machine asks for
//! its lease to be renewed every fifth of its duration, and three messages renew both:
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
//! *The CM's own lease* is what a majority of the configuration, itself included, grants it. What it grants
//! to others ends no later than that: whoever makes a majority stop granting to a CM has stopped all that CM
//! grants, too, one duration later, or sooner: when what that majority had granted before has run out.
//!
//! *Invariants.* They hold where each clock is at most the given drift faster or slower than time.
//! 1. LEASE-1: no machine is told that a lease has expired while its holder still believes in it.
//! 2. LEASE-2: what a CM grants ends no later than its own lease.
//! 3. LEASE-3: once [`LeaseEvent::OldRunOut`] is told, no machine outside the configuration believes in a
//!    lease, nor does any believe in one that an earlier CM granted.
//! 4. LEASE-4: late, doubled and reordered messages lengthen no lease. A number is granted once, and in the
//!    order of the requests; a machine that was started again is granted nothing on the lease of its former life.
//!
//! *Messages* are datagrams of [`LeaseMessage::BYTES`] bytes that may be lost. While the CM stays, leases go
//! on from one configuration to the next, so that further failures are found during a reconfiguration.
//! Where it changes they begin anew, here, as soon as a machine applies the configuration: leases have a thread and a lane
//! of their own, so NEW-CONFIG and its answers do not carry them.
//!
//! *Concurrency.* [`Leases`] has one owner, who may well be a lock: every call is short and none but
//! [`Leases::obey`], at a change of the configuration, allocates.

mod leases;
mod message;
mod peer;
#[cfg(test)]
mod tests;

use std::time::Duration;

use fencepost_fabric::MachineId;

pub use self::leases::{LeaseCounts, LeaseStep, Leases, Received};
pub use self::message::{LeaseBody, LeaseMessage};
use crate::configuration::Configuration;
use crate::ids::ConfigurationId;

const MILLION: u128 = 1_000_000;

/// How long leases are, and how wrong clocks may be; all machines of a cluster have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTerms {
    duration_us: u32,
    drift_ppm: u32,
}

impl LeaseTerms {
    /// The shortest leases there are.
    pub const SHORTEST: Duration = Duration::from_millis(5);
    /// The greatest drift that leases can bear.
    pub const MOST_DRIFT_PPM: u32 = 100_000;

    /// Leases of a duration, in whole microseconds, where every clock runs at most `drift_ppm` millionths
    /// faster or slower than time; `None` for less than [`Self::SHORTEST`], more than an hour, or clocks
    /// beyond [`Self::MOST_DRIFT_PPM`].
    pub fn new(duration: Duration, drift_ppm: u32) -> Option<Self> {
        let fits = (Self::SHORTEST..=Duration::from_secs(3600)).contains(&duration);
        let duration_us = u32::try_from(duration.as_micros()).ok()?;
        (fits && drift_ppm <= Self::MOST_DRIFT_PPM).then_some(Self {
            duration_us,
            drift_ppm,
        })
    }

    /// How long a lease is.
    pub fn duration_ns(self) -> u64 {
        u64::from(self.duration_us) * 1000
    }

    /// How often its renewal is tried.
    pub fn renewal_ns(self) -> u64 {
        self.duration_ns() / 5
    }

    /// How long the holder of a lease may believe in it, by its own clock.
    pub(crate) fn held_ns(self, granted_ns: u64) -> u64 {
        self.shortened(granted_ns.min(self.duration_ns()))
    }

    /// So much time, by a clock that may be slow.
    pub(crate) fn shortened(self, ns: u64) -> u64 {
        ns - self.drift_ns(ns)
    }

    /// How long whoever granted a lease waits until it has expired, by its own clock.
    pub(crate) fn expired_ns(self) -> u64 {
        self.duration_ns() + self.drift_ns(self.duration_ns())
    }

    /// How long, by the clock of anybody, a lease that was granted by now may yet be believed in.
    pub fn whole_ns(self) -> u64 {
        self.lengthened(self.expired_ns())
    }

    /// So much time by one machine's clock, by that of any other, where the one may be slow and the other fast.
    pub(crate) fn lengthened(self, ns: u64) -> u64 {
        // (1 + d) / (1 - d) is below 1 + 3 d for every drift that there can be.
        ns.saturating_add(self.drift_ns(ns).saturating_mul(3))
    }

    fn drift_ns(self, ns: u64) -> u64 {
        let drift = u128::from(ns) * u128::from(self.drift_ppm);
        // Less than a tenth of what is 64 bits long.
        drift.div_ceil(MILLION) as u64
    }
}

/// What the owner of the leases has to know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseEvent {
    /// The lease of this machine has expired here: suspect it. At a CM it is any machine, elsewhere the CM.
    Expired(MachineId),
    /// A machine that was suspected has been heard of, in the configuration in which it was suspected: the
    /// suspicion was false.
    Returned(MachineId),
    /// A machine speaks of a configuration that is not known here.
    Newer(MachineId, ConfigurationId),
    /// A machine that is no member speaks of a configuration that is over.
    Outdated(MachineId),
    /// All leases of machines that are not in this configuration, and those of earlier CMs, have run out, and
    /// this machine has its lease as the CM: it has not been replaced in the meantime.
    OldRunOut(ConfigurationId),
}

/// What a reconfiguration has the leases do; see [`Leases::obey`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseOrder {
    /// This machine helps another to become CM: it grants nothing to a CM other than that one, until the
    /// next configuration is applied.
    Promise {
        /// Who wants to be CM.
        to: MachineId,
    },
    /// To the CM, before it swaps configurations: these machines may be out from now on. They get nothing,
    /// and what they grant does not count.
    Narrow {
        /// Those who are left out.
        left_out: Vec<MachineId>,
        /// Of how many machines, itself counted, the CM needs a lease until it applies the configuration.
        need: usize,
    },
    /// The machine is in this configuration now.
    Apply {
        /// The configuration.
        configuration: Configuration,
        /// For a CM that was not the CM before: when, by this machine's clock, all leases of those who are out will have
        /// run out, as a majority has said with its promises ([`Leases::granted_ns`]).
        old_until: Option<u64>,
    },
    /// To the CM: this machine has applied the configuration, so that its lease counts from now.
    Watch {
        /// The machine.
        machine: MachineId,
    },
    /// To the CM: tell with [`LeaseEvent::OldRunOut`] when old leases have run out.
    AwaitOld,
    /// The machine is no member any more: it holds nothing and grants nothing.
    Stop,
}
