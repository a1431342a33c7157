//! Reconfiguration: from one configuration to the next (SOSP'15 §5.2).
//!
//! *Picture.* The steps of the paper, with the functions that take them.
//!
//! ```text
//!  1 suspect                   a lease expires: the CM, or a backup CM, or later anybody starts
//!  2 probe                     PROBE to all but the suspected; a majority must answer
//!  3 update_configuration      compare-and-swap in the store: the winner is the CM
//!  4 remap_regions             backups become primaries, others become backups
//!  5 send_new_configuration    NEW-CONFIG to all members
//!  6 apply_new_configuration   everywhere; NEW-CONFIG-ACK
//!  7 commit_new_configuration  once old leases have run out: NEW-CONFIG-COMMIT
//! ```
//!
//! *Invariants.*
//! 1. RECONF-1: when a configuration is committed, all its members have applied it, and no machine outside it
//!    believes in its lease: never do two configurations act at once.
//! 2. RECONF-2: the CM of a configuration had the answers of a majority of the one before.
//! 3. RECONF-3: a machine applies configurations in their order, and none that it has helped to replace.
//! 4. RECONF-4: a machine whose answer counted has held and granted since what it then said; so the regions
//!    of a configuration follow from those answers, the same for all members.
//!
//! *A probe is a promise.* Who answers one takes no part in allocation until it applies a later configuration, does not
//! apply the one that is to be replaced if it has not yet, and grants no lease to a CM other than the one who
//! asks. So the new CM knows all that there is, and for how long the former one, and all to whom it granted a lease, may
//! believe in theirs: no longer than what a majority says it had granted before (LEASE-2). In return a configuration in which somebody was suspected always has a successor:
//! who has promised and sees nothing come of it starts itself.
//!
//! *Unlike the paper* probes are messages, because what answers them is more than a word of memory, and lease
//! messages have a lane of their own (see [`crate::lease`]). All machines are told the mappings that have
//! changed, so that lost regions are known where anybody has used them.
//!
//! *Concurrency.* [`Reconfiguration`] is a state machine with one owner: it takes messages, answers and time,
//! and says what to do. Actions are done in their order, and a message is sent after what stands before it is
//! done. Actions that have an answer say which; it may come at any time later.
//!
//! *Failure.* Messages between two machines come in order or the connection breaks, which is told with
//! [`Reconfiguration::unreachable`]; what was lost is said again in time. Where what machines write to each other
//! cannot be said again, [`Reconfiguration::severed`] has the CM, to which they turn, remove one of both. Without a majority, or without the store, nothing happens
//! until they are back, and clients stay blocked.

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

pub use self::message::{Holdings, NewClock, NewConfig, ReconfigurationMessage, Refused};
pub use self::regions::{Applied, Regions};
pub use self::restart::{Kept, Resumed, Resuming, resume};
pub use self::state::Reconfiguration;
pub use crate::allocation::MovedRegion;
use crate::allocation::RequestId;
use crate::configuration::{Configuration, ConfigurationError};
use crate::ids::ConfigurationId;
use crate::lease::{LeaseOrder, LeaseTerms};
use crate::placement::Replication;
use crate::region::RegionId;
use crate::region_map::RegionMap;

/// How a cluster reconfigures; all machines have the same.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How many replicas regions have.
    pub replication: Replication,
    /// How many successors of the CM are its backups.
    pub backup_cms: usize,
    /// How long the answer to a probe is waited for.
    pub probe_ns: u64,
    /// How long others than the backup CMs wait for a new configuration before they start themselves.
    pub patience_ns: u64,
    /// How long NEW-CONFIG-ACK is waited for.
    pub ack_ns: u64,
    /// How long after a failure something is tried again, and a question put again.
    pub retry_ns: u64,
    /// Whether the others go on where no replica of a region is left, which is lost then. Otherwise they wait for a machine
    /// that has it: its disk may.
    pub loses_regions: bool,
}

impl Options {
    /// Times that fit leases of such terms.
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

/// Something to do.
#[derive(Debug)]
pub enum Action {
    /// Send this.
    Send(MachineId, ReconfigurationMessage),
    /// Have the leases do this.
    Leases(LeaseOrder),
    /// Answer no client from now on.
    Block,
    /// Freeze what is held here and tell what it is, with [`Reconfiguration::surveyed`].
    Survey(Survey),
    /// Ask the store for this swap; the answer goes to [`Reconfiguration::swapped`].
    CompareAndSwap {
        /// Goes with the answer.
        attempt: u64,
        /// The configuration that is to be the current one.
        expected: ConfigurationId,
        /// The next.
        new: Configuration,
    },
    /// Ask the store what is current; the answer goes to [`Reconfiguration::read`].
    ReadStore {
        /// Goes with the answer.
        attempt: u64,
    },
    /// This machine is the CM of a configuration that it will apply next: make its allocator, which holds
    /// requests back until [`Action::Commit`].
    Lead(Box<Leading>),
    /// Apply this: send to and take from nobody who is no member, take the mappings, make room for new
    /// replicas; what there was no room for goes to [`Reconfiguration::applied`].
    Apply(Box<NewConfig>),
    /// The configuration is in force: answer clients, and begin transaction recovery. When all regions whose primary is
    /// here can be used, [`Reconfiguration::regions_active`] is to be told.
    Commit(ConfigurationId),
    /// All regions of all machines can be used: begin data recovery.
    AllRegionsActive(ConfigurationId),
    /// What has become of the regions of lost machines; for people, from the CM.
    Report(Report),
    /// What came of [`Reconfiguration::add`] or [`Reconfiguration::remove`]: whether it is in the store.
    Wished(bool),
    /// This machine has nothing any more, and is to be no member once it has ended what it does: then it says so
    /// ([`Reconfiguration::ask_to_leave`]).
    Part,
    /// This machine is not in this configuration: stop.
    Evicted(Configuration),
}

/// Which probe a survey is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Survey {
    /// Who probed.
    pub by: MachineId,
    /// The configuration that it wants to replace.
    pub base: ConfigurationId,
    /// Its attempt.
    pub attempt: u64,
}

/// What the CM of a new configuration begins with; see [`crate::allocation::Allocator::new`].
#[derive(Clone, Debug)]
pub struct Leading {
    /// The configuration.
    pub configuration: Configuration,
    /// All regions.
    pub map: RegionMap,
    /// What they were made for.
    pub requests: Vec<(RequestId, RegionId)>,
    /// The number of the next region.
    pub next_region: RegionId,
    /// The highest time that any of those who have answered may have taken for the cluster's, when they did.
    pub time_ns: u64,
}

/// What a person should know of a new configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The configuration.
    pub configuration: ConfigurationId,
    /// Regions of which no replica with its data is left.
    pub lost: Vec<RegionId>,
    /// Regions with fewer replicas than they should have, for want of machines, domains or memory.
    pub under_replicated: Vec<RegionId>,
}

/// Why a machine is neither added nor removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WishError {
    /// Only the CM does that.
    #[error("this machine is not the configuration manager")]
    NotManager,
    /// A configuration is under way: try again.
    #[error("the configuration is being changed")]
    Busy,
    /// There is no such configuration.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// Of those who would stay there are too few for the replicas that regions have.
    #[error("regions have {need} replicas, and without it there are {have} failure domains")]
    TooFew {
        /// Replicas of a region.
        need: usize,
        /// Domains of those who would stay.
        have: usize,
    },
    /// What it has nobody else has been given yet.
    #[error("{0} has replicas of regions")]
    HasReplicas(MachineId),
    /// There is nobody who could do it.
    #[error("{0} is no member, or the only one")]
    NoSuchMachine(MachineId),
}
