//! Reconfiguration: the protocol that replaces a configuration by the next one (SOSP'15 §5.2).
//!
//! *Picture.* The steps of the paper, with the functions that take them.
//!
//! ```text
//!  1 suspect                   a lease expires: the CM starts, or a backup CM, later any machine
//!  2 probe                     PROBE to all but the suspected; a majority must answer
//!  3 update_configuration      compare-and-swap in the store: the winner is the CM
//!  4 remap_regions             backups become primaries, other machines become backups
//!  5 send_new_configuration    NEW-CONFIG to all members
//!  6 apply_new_configuration   everywhere; NEW-CONFIG-ACK
//!  7 commit_new_configuration  once old leases have expired: NEW-CONFIG-COMMIT
//! ```
//!
//! *Invariants.*
//! 1. RECONF-1: when a configuration is committed, all its members have applied it, and no machine
//!    outside it relies on its lease. So two configurations are never active at once.
//! 2. RECONF-2: the CM of a configuration had the answers of a majority of the previous one.
//! 3. RECONF-3: a machine applies configurations in their order, and none that it has helped to
//!    replace.
//! 4. RECONF-4: a machine whose counted answer led to a configuration still holds and grants the
//!    same as in that answer. So the regions of a configuration follow from the answers, and are
//!    the same for all members.
//!
//! *A probe is a promise.* A machine that answers a probe takes no part in allocation until it
//! applies a later configuration. It does not apply the configuration that is to be replaced, if it
//! has not yet. It grants leases to no CM other than the machine that probes. So the new CM knows
//! all regions. It also knows how long the former CM, and the machines to which that CM granted
//! leases, may rely on their leases: no longer than a majority says that it had granted before
//! (LEASE-2). In return, a configuration in which a machine was suspected always has a successor: a
//! machine that has promised and sees no successor starts a reconfiguration itself.
//!
//! *Differences to the paper.* Probes are messages, because their answers are more than a word of
//! memory. Lease messages have their own lane (see [`crate::lease`]). All machines get the changed
//! mappings, so that every machine that has used a lost region knows of its loss.
//!
//! *Concurrency.* [`Reconfiguration`] is a state machine with one owner. It takes messages, answers
//! and the time, and returns actions. The owner carries out actions in their order, and sends a
//! message after the actions before it are done. An action that has an answer names the function
//! for it; the answer may come at any later time.
//!
//! *Failure.* Messages between two machines arrive in order, or the connection breaks, and
//! [`Reconfiguration::unreachable`] reports that. Lost messages are repeated in time. Some
//! one-sided writes between two machines cannot be repeated: then [`Reconfiguration::severed`]
//! makes the CM remove one of both. Without a majority, or without the store, nothing happens until
//! they are back, and clients stay blocked.

mod balance;
mod gather;
mod initiator;
mod manager;
mod member;
mod message;
mod regions;
mod remap;
mod restart;
mod state;
#[cfg(test)]
mod tests;

use fencepost_fabric::MachineId;
use thiserror::Error;

pub use self::message::{
    NewClock, NewConfig, ReconfigurationMessage, RefusedReplica, RegionReport,
};
pub use self::regions::{ConfigurationEffects, Regions};
pub use self::restart::{MappingChange, RestartState, SavedRegions, resume};
pub use self::state::Reconfiguration;
pub use crate::allocation::MovedRegion;
use crate::allocation::RequestId;
use crate::configuration::{Configuration, ConfigurationError};
use crate::ids::ConfigurationId;
use crate::lease::{LeaseOrder, LeaseTerms};
use crate::placement::Replication;
use crate::region::RegionId;
use crate::region_map::RegionMap;

/// The parameters of reconfigurations; the same on all machines.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The numbers of replicas of regions.
    pub replication: Replication,
    /// The number of successors of the CM that are its backup CMs.
    pub backup_cms: usize,
    /// The time to wait for the answer to a probe.
    pub probe_ns: u64,
    /// The time that machines other than the backup CMs wait for a new configuration before they
    /// start one.
    pub patience_ns: u64,
    /// The time to wait for NEW-CONFIG-ACK.
    pub ack_ns: u64,
    /// The interval after which a failed step is retried and a question is repeated.
    pub retry_ns: u64,
    /// Whether the cluster continues when no replica of a region is left; the region is lost then.
    /// Otherwise the cluster waits for a machine that may have a replica on its disk.
    pub loses_regions: bool,
}

impl Options {
    /// Returns options whose times suit leases with these terms.
    pub fn fitting(terms: LeaseTerms, replication: Replication) -> Self {
        let lease_ns = terms.duration_ns();
        Self {
            replication,
            backup_cms: 2,
            probe_ns: lease_ns,
            patience_ns: 3 * lease_ns,
            ack_ns: 4 * lease_ns,
            retry_ns: lease_ns / 2,
            loses_regions: true,
        }
    }
}

/// An action for the owner of the state machine.
#[derive(Debug)]
pub enum Action {
    /// Send this message to the machine.
    Send(MachineId, ReconfigurationMessage),
    /// Pass this order to the leases.
    Leases(LeaseOrder),
    /// Answer no clients from now on.
    Block,
    /// Freeze the regions of this machine and pass their description to
    /// [`Reconfiguration::regions_reported`].
    ReportRegions(RegionProbe),
    /// Ask the store for this swap; the answer goes to [`Reconfiguration::swapped`].
    CompareAndSwap {
        /// The number to return with the answer.
        attempt: u64,
        /// The configuration that must be the current one.
        expected: ConfigurationId,
        /// The configuration that is to replace it.
        new: Configuration,
    },
    /// Read the current configuration from the store; the answer goes to [`Reconfiguration::read`].
    ReadStore {
        /// The number to return with the answer.
        attempt: u64,
    },
    /// This machine is the CM of a configuration that it applies next: make its allocator, which
    /// holds requests back until [`Action::Commit`].
    BecomeManager(Box<InitialManagerState>),
    /// Apply this configuration: exchange messages with members only, learn the mappings, reserve
    /// memory for new replicas. Replicas without memory go to [`Reconfiguration::applied`].
    Apply(Box<NewConfig>),
    /// The configuration is in force: answer clients, and begin transaction recovery. Call
    /// [`Reconfiguration::regions_active`] when all regions whose primary is this machine can be
    /// used.
    Commit(ConfigurationId),
    /// All regions of all machines can be used: begin data recovery.
    AllRegionsActive(ConfigurationId),
    /// Report the fate of lost machines' regions to the operator; only at the CM.
    Report(Report),
    /// A change requested by [`Reconfiguration::add`] or [`Reconfiguration::remove`] has ended;
    /// true if the new configuration is in the store.
    Wished(bool),
    /// This leaving machine has no replicas left. End its work, then call
    /// [`Reconfiguration::ask_to_leave`].
    Part,
    /// This machine is not a member of this configuration: stop.
    Evicted(Configuration),
}

/// The probe for which a machine describes its regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionProbe {
    /// The machine that sent the probe.
    pub by: MachineId,
    /// The configuration that is to be replaced.
    pub base: ConfigurationId,
    /// The number of the sender's attempt.
    pub attempt: u64,
}

/// The initial state of the CM of a new configuration; see [`crate::allocation::Allocator::new`].
#[derive(Clone, Debug)]
pub struct InitialManagerState {
    /// The new configuration.
    pub configuration: Configuration,
    /// The mappings of all regions.
    pub map: RegionMap,
    /// The requests that the regions were allocated for.
    pub requests: Vec<(RequestId, RegionId)>,
    /// The number of the next region.
    pub next_region: RegionId,
    /// The highest cluster time that any answering machine may have used when it answered.
    pub time_ns: u64,
}

/// The facts of a new configuration that an operator must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The number of the new configuration.
    pub configuration: ConfigurationId,
    /// The regions of which no replica with data is left.
    pub lost: Vec<RegionId>,
    /// The regions with fewer replicas than wanted, because machines, domains or memory are
    /// missing.
    pub under_replicated: Vec<RegionId>,
}

/// The reason why a machine is neither added nor removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ChangeRequestError {
    /// Only the CM adds and removes machines.
    #[error("this machine is not the configuration manager")]
    NotManager,
    /// A reconfiguration is in progress: try again.
    #[error("the configuration is being changed")]
    Busy,
    /// The new configuration would break an invariant.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// Too few failure domains would remain for the replicas of regions.
    #[error("regions have {need} replicas, and without it there are {have} failure domains")]
    TooFew {
        /// The replicas of a region.
        need: usize,
        /// The failure domains of the remaining machines.
        have: usize,
    },
    /// The machine still has replicas that have not been moved.
    #[error("{0} has replicas of regions")]
    HasReplicas(MachineId),
    /// The machine is not a member, or is the only one.
    #[error("{0} is no member, or the only one")]
    NoSuchMachine(MachineId),
}
