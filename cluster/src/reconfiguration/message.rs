//! What machines say to each other when the configuration changes, and its bytes.
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

/// A message of a reconfiguration. Between two machines they arrive in the order in which they were sent, until
/// the connection breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReconfigurationMessage {
    /// To a backup CM: the CM of this configuration is suspected, take over.
    Suspect {
        /// The configuration whose CM it is.
        configuration: ConfigurationId,
    },
    /// From who wants to be CM: are you there? Who answers promises not to apply this configuration, if it
    /// has not yet, and takes no part in allocation until it applies a later one.
    Probe {
        /// The configuration that is to be replaced.
        base: Configuration,
        /// Which attempt of the sender this is.
        attempt: u64,
    },
    /// To who probed: here I am.
    ProbeAnswer {
        /// The configuration that is to be replaced.
        base: ConfigurationId,
        /// The attempt.
        attempt: u64,
        /// What the new CM has to know.
        holdings: Holdings,
    },
    /// NEW-CONFIG, from the new CM to a member.
    NewConfig(NewConfig),
    /// NEW-CONFIG-ACK: applied.
    NewConfigAck {
        /// The configuration.
        configuration: ConfigurationId,
        /// New replicas for which there is no room.
        refused: Vec<Refused>,
    },
    /// NEW-CONFIG-COMMIT: all members have applied it, and all leases of others have run out.
    NewConfigCommit {
        /// The configuration.
        configuration: ConfigurationId,
    },
    /// REGIONS-ACTIVE, to the CM: all regions whose primary the sender is can be used.
    RegionsActive {
        /// The configuration.
        configuration: ConfigurationId,
    },
    /// ALL-REGIONS-ACTIVE, from the CM: every region can be used, and data recovery begins.
    AllRegionsActive {
        /// The configuration.
        configuration: ConfigurationId,
    },
    /// WHOLE, to the CM: all replicas that the sender has have all data of their regions.
    Whole {
        /// The configuration.
        configuration: ConfigurationId,
    },
    /// LEAVE, to the CM: a machine is to leave.
    Leave {
        /// Which one.
        machine: MachineId,
    },
    /// PART-WITH, to the CM: a machine that has nothing any more is to be a member no more. From the CM to that machine:
    /// it is to say so itself.
    PartWith {
        /// Which one.
        machine: MachineId,
    },
    /// What is new?
    Ask {
        /// The configuration that the sender has applied.
        applied: ConfigurationId,
        /// Whether it knows that configuration to be committed.
        committed: bool,
    },
    /// There is a newer configuration.
    Newer {
        /// The newest that the sender knows.
        configuration: Configuration,
    },
    /// SEVERED, to the CM: something that was on its way between the sender and another member is lost.
    Severed {
        /// The newest configuration that the sender knows.
        configuration: ConfigurationId,
        /// The other.
        machine: MachineId,
    },
}

/// What a machine tells who wants to be CM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holdings {
    /// LastDrained: the configuration up to which the machine has drained its logs.
    pub last_drained: ConfigurationId,
    /// The regions that it holds.
    pub held: Vec<HeldRegion>,
    /// Mappings of regions that exist, as far as it knows them.
    pub known: Vec<Mapping>,
    /// There is no region of this number or above.
    pub next_region: RegionId,
    /// Whether that is the very next one, known because this machine numbers them: it is the CM of the
    /// configuration that it has applied.
    pub numbers: bool,
    /// How long, in nanoseconds, leases may yet be believed in that stand on what this machine has granted before it
    /// promised ([`crate::lease::Leases::granted_ns`]).
    pub granted_ns: u64,
    /// The highest time, in nanoseconds, that it may have taken for the cluster's; `None` where it knows none.
    pub time_ns: Option<u64>,
}

/// The clock of the CM of a new configuration, which is the cluster's time from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewClock {
    /// Which clock it is: machines have it in common whose number is the same.
    pub host: u64,
    /// What it shows, in nanoseconds.
    pub ns: u64,
    /// Ticks that are added to it.
    pub ahead: u64,
    /// Whether the time is the one that it was in the configurations before.
    pub goes_on: bool,
}

/// What a member has to know of a new configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewConfig {
    /// The configuration.
    pub configuration: Configuration,
    /// The regions whose replicas have changed since the member last drained its logs.
    pub moved: Vec<MovedRegion>,
    /// Regions that the member has prepared and that will never exist; all others that it has prepared do.
    pub given_up: Vec<RegionId>,
    /// Regions of which no replica with its data is left.
    pub lost: Vec<RegionId>,
    /// Below this are the numbers of all regions that there are and can be in this configuration.
    pub next_region: RegionId,
    /// The CM's clock, put in by whoever sends this, when it does; where this is applied, it is after the member's
    /// answer to the probe.
    pub clock: Option<NewClock>,
}

/// A replica that a machine was to hold and does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The region.
    pub region: RegionId,
    /// Why not.
    pub why: Refusal,
}

impl ReconfigurationMessage {
    /// What the message is called, for logs and timelines.
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
    Holdings {
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
    Refused { region, why }
);
