//! Who the machines are and what they have, for whoever asks.

use fencepost_fabric::MachineId;

use super::Network;
use crate::clock::ClockState;
use crate::machine::Machine;

/// The configuration as one machine knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Members {
    /// Its id.
    pub configuration: u64,
    /// The machine that was asked.
    pub me: u32,
    /// The configuration manager.
    pub manager: u32,
    /// Machines that have each region: its primary and its backups.
    pub replicas: usize,
    /// All machines.
    pub machines: Vec<MemberState>,
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberState {
    /// Its number.
    pub id: u32,
    /// Whether it could be written to when that was last tried.
    pub reachable: bool,
    /// Nanoseconds by which it was uncertain of the manager's time when it said so last; `None` where it has
    /// not.
    pub clock_uncertainty_ns: Option<u64>,
    /// The regions whose primary it is.
    pub regions: Vec<RegionState>,
}

/// A region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionState {
    /// Its id.
    pub id: u32,
    /// The machines that have a backup of it.
    pub backups: Vec<u32>,
}

impl Machine {
    /// The machines of the configuration. One that is alone is machine 1 of configuration 1.
    pub fn members(&self) -> Members {
        match self.network() {
            Some(network) => network.members(self.regions().count(), self.clock_state()),
            None => {
                let region = |id| RegionState {
                    id,
                    backups: Vec::new(),
                };
                Members {
                    configuration: 1,
                    me: 1,
                    manager: 1,
                    replicas: 1,
                    machines: vec![MemberState {
                        id: 1,
                        reachable: true,
                        clock_uncertainty_ns: Some(0),
                        regions: (0..self.regions().count()).map(region).collect(),
                    }],
                }
            }
        }
    }
}

impl Network {
    /// The configuration, where this machine has `own` regions and a clock like that.
    fn members(&self, own: u32, clock: ClockState) -> Members {
        let placement = &self.placement;
        let machine = |id: &MachineId| {
            let made = match self.peer(*id) {
                Some(peer) => self.regions_of(peer),
                None => own,
            };
            let regions = (0..made).filter_map(|made| placement.region_of(*id, made));
            MemberState {
                id: id.0,
                reachable: self.link(*id).is_none_or(|link| link.was_up()),
                clock_uncertainty_ns: match self.peer(*id) {
                    Some(peer) => self.uncertainty_of(peer),
                    None => clock.uncertainty_ns,
                },
                regions: regions
                    .map(|region| RegionState {
                        id: region.0,
                        backups: placement.backups(region).map(|backup| backup.0).collect(),
                    })
                    .collect(),
            }
        };
        Members {
            configuration: self.configuration,
            me: self.me().0,
            manager: placement.manager().map_or(0, |manager| manager.0),
            replicas: placement.backups_each() + 1,
            machines: placement.machines().iter().map(machine).collect(),
        }
    }
}
