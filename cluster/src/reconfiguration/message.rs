//! What machines say to each other when the configuration changes, and its bytes.
//!
//! ```text
//! | kind 1 | fields in the order of their declaration |
//! ```

use crate::allocation::{HeldRegion, MovedRegion, Refusal};
use crate::codec::{DecodeError, Reader, Wire, Writer};
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
            Self::Ask { .. } => "ASK",
            Self::Newer { .. } => "NEWER",
        }
    }
}

impl Wire for ReconfigurationMessage {
    fn put(&self, out: &mut Writer) {
        match self {
            Self::Suspect { configuration } => {
                0u8.put(out);
                configuration.put(out);
            }
            Self::Probe { base, attempt } => {
                1u8.put(out);
                base.put(out);
                attempt.put(out);
            }
            Self::ProbeAnswer {
                base,
                attempt,
                holdings,
            } => {
                2u8.put(out);
                base.put(out);
                attempt.put(out);
                holdings.put(out);
            }
            Self::NewConfig(new) => {
                3u8.put(out);
                new.put(out);
            }
            Self::NewConfigAck {
                configuration,
                refused,
            } => {
                4u8.put(out);
                configuration.put(out);
                refused.put(out);
            }
            Self::NewConfigCommit { configuration } => {
                5u8.put(out);
                configuration.put(out);
            }
            Self::RegionsActive { configuration } => {
                6u8.put(out);
                configuration.put(out);
            }
            Self::AllRegionsActive { configuration } => {
                7u8.put(out);
                configuration.put(out);
            }
            Self::Ask { applied, committed } => {
                8u8.put(out);
                applied.put(out);
                committed.put(out);
            }
            Self::Newer { configuration } => {
                9u8.put(out);
                configuration.put(out);
            }
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match u8::take(from)? {
            0 => Self::Suspect {
                configuration: Wire::take(from)?,
            },
            1 => Self::Probe {
                base: Wire::take(from)?,
                attempt: Wire::take(from)?,
            },
            2 => Self::ProbeAnswer {
                base: Wire::take(from)?,
                attempt: Wire::take(from)?,
                holdings: Wire::take(from)?,
            },
            3 => Self::NewConfig(Wire::take(from)?),
            4 => Self::NewConfigAck {
                configuration: Wire::take(from)?,
                refused: Wire::take(from)?,
            },
            5 => Self::NewConfigCommit {
                configuration: Wire::take(from)?,
            },
            6 => Self::RegionsActive {
                configuration: Wire::take(from)?,
            },
            7 => Self::AllRegionsActive {
                configuration: Wire::take(from)?,
            },
            8 => Self::Ask {
                applied: Wire::take(from)?,
                committed: Wire::take(from)?,
            },
            9 => Self::Newer {
                configuration: Wire::take(from)?,
            },
            _ => return Err(DecodeError::Invalid("message")),
        })
    }
}

impl Wire for Holdings {
    fn put(&self, out: &mut Writer) {
        self.last_drained.put(out);
        self.held.put(out);
        self.known.put(out);
        self.next_region.put(out);
        self.numbers.put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            last_drained: Wire::take(from)?,
            held: Wire::take(from)?,
            known: Wire::take(from)?,
            next_region: Wire::take(from)?,
            numbers: Wire::take(from)?,
        })
    }
}

impl Wire for NewConfig {
    fn put(&self, out: &mut Writer) {
        self.configuration.put(out);
        self.moved.put(out);
        self.given_up.put(out);
        self.lost.put(out);
        self.next_region.put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            configuration: Wire::take(from)?,
            moved: Wire::take(from)?,
            given_up: Wire::take(from)?,
            lost: Wire::take(from)?,
            next_region: Wire::take(from)?,
        })
    }
}

impl Wire for Refused {
    fn put(&self, out: &mut Writer) {
        self.region.put(out);
        self.why.put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            region: Wire::take(from)?,
            why: Wire::take(from)?,
        })
    }
}
