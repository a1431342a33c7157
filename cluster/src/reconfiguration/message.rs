//! The messages of a reconfiguration and their encoding.
//!
//! ```text
//! | kind 1 | fields in the order of their declaration |
//! ```

use fencepost_fabric::MachineId;

use crate::allocation::{HeldRegion, MovedRegion, Refusal};
use crate::codec::{wire_enum, wire_structs};
use crate::configuration::Configuration;
use crate::ids::ConfigurationId;
use crate::region::{Mapping, RegionId};

/// A message of a reconfiguration. Messages between two machines arrive in the order in which they
/// were sent, until the connection breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReconfigurationMessage {
    /// Asks a backup CM to take over, because the CM of this configuration is suspected.
    Suspect {
        /// The configuration whose CM is suspected.
        configuration: ConfigurationId,
    },
    /// Asks a machine whether it is alive; sent by a machine that wants to be the CM. A machine
    /// that answers promises not to apply `base`, if it has not yet. It takes no part in allocation
    /// until it applies a later configuration.
    Probe {
        /// The configuration that is to be replaced.
        base: Configuration,
        /// The number of the sender's attempt.
        attempt: u64,
    },
    /// Answers a probe.
    ProbeAnswer {
        /// The configuration that is to be replaced.
        base: ConfigurationId,
        /// The number of the prober's attempt.
        attempt: u64,
        /// The data that the new CM needs.
        holdings: RegionReport,
    },
    /// NEW-CONFIG, from the new CM to a member: apply this configuration.
    NewConfig(NewConfig),
    /// NEW-CONFIG-ACK: the sender has applied the configuration.
    NewConfigAck {
        /// The applied configuration.
        configuration: ConfigurationId,
        /// The new replicas for which the sender has no memory.
        refused: Vec<RefusedReplica>,
    },
    /// NEW-CONFIG-COMMIT: all members have applied the configuration, and all leases of other
    /// machines have expired.
    NewConfigCommit {
        /// The committed configuration.
        configuration: ConfigurationId,
    },
    /// REGIONS-ACTIVE, to the CM: all regions whose primary is the sender can be used.
    RegionsActive {
        /// The configuration in which they can be used.
        configuration: ConfigurationId,
    },
    /// ALL-REGIONS-ACTIVE, from the CM: every region can be used, and data recovery begins.
    AllRegionsActive {
        /// The configuration in which they can be used.
        configuration: ConfigurationId,
    },
    /// WHOLE, to the CM: all replicas of the sender have all data of their regions.
    Whole {
        /// The configuration in which they are whole.
        configuration: ConfigurationId,
    },
    /// LEAVE, to the CM: a machine is to leave.
    Leave {
        /// The leaving machine.
        machine: MachineId,
    },
    /// PART-WITH, to the CM: a leaving machine without replicas is to be removed. From the CM to
    /// that machine: the machine must confirm this itself.
    PartWith {
        /// The leaving machine.
        machine: MachineId,
    },
    /// Asks for newer configurations.
    Ask {
        /// The configuration that the sender has applied.
        applied: ConfigurationId,
        /// Whether the sender knows that configuration to be committed.
        committed: bool,
    },
    /// Tells that a newer configuration exists.
    Newer {
        /// The newest configuration that the sender knows.
        configuration: Configuration,
    },
    /// SEVERED, to the CM: messages or writes between the sender and another member are lost.
    Severed {
        /// The newest configuration that the sender knows.
        configuration: ConfigurationId,
        /// The other member.
        machine: MachineId,
    },
}

/// The answer of a machine to a machine that wants to be the CM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionReport {
    /// LastDrained: the configuration up to which the machine has drained its logs.
    pub last_drained: ConfigurationId,
    /// The regions that the machine holds.
    pub held: Vec<HeldRegion>,
    /// The mappings of existing regions that the machine knows.
    pub known: Vec<Mapping>,
    /// A number above those of all existing regions.
    pub next_region: RegionId,
    /// Whether `next_region` is the exact next number. A machine knows it if it is the CM of the
    /// configuration that it has applied, because the CM numbers regions.
    pub numbers: bool,
    /// The time, in nanoseconds, for which leases may last that depend on grants of this machine
    /// before its promise ([`crate::lease::Leases::granted_ns`]).
    pub granted_ns: u64,
    /// The highest cluster time, in nanoseconds, that the machine may have used; `None` if it knows
    /// no time.
    pub time_ns: Option<u64>,
}

/// The clock of the CM of a new configuration, which defines the cluster's time from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewClock {
    /// The number of the clock; machines that share a clock have the same number.
    pub host: u64,
    /// The reading of the clock, in nanoseconds.
    pub ns: u64,
    /// The ticks that are added to the clock's reading.
    pub ahead: u64,
    /// Whether the cluster's time continues that of the previous configurations.
    pub goes_on: bool,
}

/// The data of a new configuration that a member needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewConfig {
    /// The new configuration.
    pub configuration: Configuration,
    /// The regions whose replicas have changed since the member last drained its logs.
    pub moved: Vec<MovedRegion>,
    /// The regions that the member has prepared and that never come to exist. All other prepared
    /// regions exist.
    pub given_up: Vec<RegionId>,
    /// The regions of which no replica with data is left.
    pub lost: Vec<RegionId>,
    /// A number above those of all regions that exist or can be made in this configuration.
    pub next_region: RegionId,
    /// The CM's clock, filled in when the message is sent. The member applies the message after its
    /// answer to the probe.
    pub clock: Option<NewClock>,
}

/// A new replica that a machine does not hold for want of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedReplica {
    /// The region of the replica.
    pub region: RegionId,
    /// The reason for the refusal.
    pub why: Refusal,
}

impl ReconfigurationMessage {
    /// Returns the name of the message, for logs and timelines.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Suspect { .. } => "SUSPECT",
            Self::Probe { .. } => "PROBE",
            Self::ProbeAnswer { .. } => "PROBE-ANSWER",
            Self::NewConfig(_) => "NEW-CONFIG",
            Self::NewConfigAck { .. } => "NEW-CONFIG-ACK",
            Self::NewConfigCommit { .. } => "NEW-CONFIG-COMMIT",
            Self::RegionsActive { .. } => "REGIONS-ACTIVE",
            Self::AllRegionsActive { .. } => "ALL-REGIONS-ACTIVE",
            Self::Whole { .. } => "WHOLE",
            Self::Leave { .. } => "LEAVE",
            Self::PartWith { .. } => "PART-WITH",
            Self::Ask { .. } => "ASK",
            Self::Newer { .. } => "NEWER",
            Self::Severed { .. } => "SEVERED",
        }
    }
}

wire_enum!(ReconfigurationMessage, "message":
    0 Suspect { configuration },
    1 Probe { base, attempt },
    2 ProbeAnswer { base, attempt, holdings },
    3 NewConfig(new),
    4 NewConfigAck { configuration, refused },
    5 NewConfigCommit { configuration },
    6 RegionsActive { configuration },
    7 AllRegionsActive { configuration },
    8 Ask { applied, committed },
    9 Newer { configuration },
    10 Severed { configuration, machine },
    11 Whole { configuration },
    12 Leave { machine },
    13 PartWith { machine }
);

wire_structs!(
    RegionReport {
        last_drained,
        held,
        known,
        next_region,
        numbers,
        granted_ns,
        time_ns
    },
    NewClock {
        host,
        ns,
        ahead,
        goes_on
    },
    NewConfig {
        configuration,
        moved,
        given_up,
        lost,
        next_region,
        clock
    },
    RefusedReplica { region, why }
);
