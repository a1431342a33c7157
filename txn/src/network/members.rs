//! The members of the cluster and their state, for monitoring.

use fencepost_cluster::{ConfigurationId, GroupId, Mapping, RegionId, Replicas};
use fencepost_fabric::MachineId;

use super::Network;
use crate::clock::ClockState;
use crate::machine::Machine;
use crate::stop::Stop;

/// The configuration as one machine knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Members {
    /// The id of the configuration.
    pub configuration: u64,
    /// The number of the machine that was asked.
    pub me: u32,
    /// The number of the configuration manager.
    pub manager: u32,
    /// The number of replicas of each region: its primary and its backups.
    pub replicas: usize,
    /// All machines.
    pub machines: Vec<MemberState>,
}

/// The state of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberState {
    /// The machine's number.
    pub id: u32,
    /// Its failure domain.
    pub domain: String,
    /// Whether it is to leave.
    pub leaving: bool,
    /// Whether it was reachable at the last write to it.
    pub reachable: bool,
    /// Nanoseconds of uncertainty of its clock against the manager's, as last published; `None` if
    /// never published.
    pub clock_uncertainty_ns: Option<u64>,
}

impl Machine {
    /// Returns the members of the configuration. A machine that is alone is machine 1 of
    /// configuration 1.
    pub fn members(&self) -> Members {
        match self.network() {
            Some(network) => network.members(self.clock_state()),
            None => Members {
                configuration: 1,
                me: 1,
                manager: 1,
                replicas: 1,
                machines: vec![MemberState {
                    id: 1,
                    domain: "m1".into(),
                    leaving: false,
                    reachable: true,
                    clock_uncertainty_ns: Some(0),
                }],
            },
        }
    }

    /// Returns the number of the configuration.
    pub fn configuration(&self) -> u64 {
        self.network().map_or(1, |network| network.configured.id())
    }

    /// Returns the number of the configuration manager; 0 on a machine that is alone.
    pub fn manager(&self) -> u32 {
        self.network()
            .map_or(0, |network| network.configured.cm().0)
    }

    /// Returns all regions of all machines, as the CM knows them.
    ///
    /// Waits for the CM's answer.
    ///
    /// # Errors
    /// [`Stop::Retry`] if the CM cannot be reached.
    pub async fn all_regions(&self) -> Result<Vec<Mapping>, Stop> {
        if let Some(network) = self.network() {
            return network.all_regions().await;
        }
        let alone = Replicas::new(MachineId(1), Vec::new());
        let mapping = |id| {
            Some(Mapping {
                region: RegionId(id),
                group: GroupId(RegionId(0)),
                replicas: alone.clone()?,
                last_primary_change: ConfigurationId::FIRST,
                last_replica_change: ConfigurationId::FIRST,
            })
        };
        Ok((0..self.regions().count()).filter_map(mapping).collect())
    }
}

impl Network {
    /// Returns the members; `clock` is the state of this machine's clock.
    fn members(&self, clock: ClockState) -> Members {
        let machine = |machine: &fencepost_cluster::Machine| {
            let id = machine.id;
            MemberState {
                id: id.0,
                domain: machine.domain.to_string(),
                leaving: machine.leaving,
                reachable: self.sender(id).is_none_or(|sender| sender.was_up()),
                clock_uncertainty_ns: match self.peer(id) {
                    Some(peer) => self.uncertainty_of(peer),
                    None => clock.uncertainty_ns,
                },
            }
        };
        let configuration = self.configured.current();
        Members {
            configuration: configuration.id().0,
            me: self.me.0,
            manager: configuration.cm().0,
            replicas: self.replication.wanted(),
            machines: configuration.machines().iter().map(machine).collect(),
        }
    }
}
