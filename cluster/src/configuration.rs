//! A configuration: the machines of a cluster, and the one that is the configuration manager.
//!
//! *Invariants.*
//! 1. CONFIG-1: machines are in the order of their ids, and no two share an id or an address.
//! 2. CONFIG-2: the CM is one of the machines.
//! 3. CONFIG-3: ids count up: a successor has the next configuration id, and a machine that joins
//!    gets an id that no machine of this cluster ever had.
//!
//! *Concurrency.* A configuration is a value and never changes; the next one is another value.

mod restart;
#[cfg(test)]
mod tests;

use fencepost_fabric::MachineId;
use thiserror::Error;

use crate::few::FewSet;
use crate::ids::{Address, ClusterId, ConfigurationId, FailureDomain};
use crate::successors::successors;

/// The largest number of machines of a configuration. An encoded configuration of this size is well
/// below the size limit of a znode.
pub const MAX_MACHINES: usize = 1024;

/// A member of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The machine's id in this cluster, never reused.
    pub id: MachineId,
    /// The address at which the fabric reaches the machine.
    pub address: Address,
    /// The failure domain of the machine.
    pub domain: FailureDomain,
    /// Whether the machine is to leave: its regions are moved to other machines, and it gets no new
    /// ones.
    pub leaving: bool,
}

/// The reason why a configuration is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ConfigurationError {
    /// The configuration has no machines.
    #[error("a configuration has a machine at least")]
    Empty,
    /// The configuration has more than [`MAX_MACHINES`] machines.
    #[error("a configuration has at most {MAX_MACHINES} machines")]
    Full,
    /// Two machines have the same id, or the ids are out of order.
    #[error("{0} is listed twice or out of order")]
    MachineTwice(MachineId),
    /// Two machines have the same address.
    #[error("{0} has the address of another machine")]
    AddressTwice(MachineId),
    /// The CM is not a member.
    #[error("the configuration manager {0} is not a member")]
    NoSuchManager(MachineId),
    /// The machine is not a member.
    #[error("{0} is not a member")]
    NoSuchMachine(MachineId),
    /// A machine has an id that is not below the next id to be assigned.
    #[error("the id {0} has not been given yet")]
    IdNotGiven(MachineId),
    /// The configuration's number is less than that of the first.
    #[error("configurations are numbered from 1")]
    Unnumbered,
}

/// The value that a configuration store agrees on: ⟨id, machines with their domains, CM⟩, and the
/// cluster's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    cluster: ClusterId,
    id: ConfigurationId,
    machines: Vec<Machine>,
    cm: MachineId,
    next_machine: MachineId,
}

impl Configuration {
    /// Returns the first configuration of a new cluster: its only member is m1, which is the CM.
    pub fn founded(cluster: ClusterId, address: Address, domain: FailureDomain) -> Self {
        let initial_member = MachineId(1);
        Self {
            cluster,
            id: ConfigurationId::FIRST,
            machines: vec![Machine {
                id: initial_member,
                address,
                domain,
                leaving: false,
            }],
            cm: initial_member,
            next_machine: MachineId(2),
        }
    }

    /// Returns the first configuration of a new cluster with the listed initial members. They are
    /// m1, m2, … in this order, and m1 is the CM. The same list gives the same configuration on
    /// every machine.
    ///
    /// # Errors
    /// [`ConfigurationError`] if the list breaks an invariant.
    pub fn of_initial_members(
        cluster: ClusterId,
        initial_members: impl IntoIterator<Item = (Address, FailureDomain)>,
    ) -> Result<Self, ConfigurationError> {
        let machines = (1..)
            .zip(initial_members)
            .map(|(id, (address, domain))| Machine {
                id: MachineId(id),
                address,
                domain,
                leaving: false,
            });
        let machines: Vec<Machine> = machines.take(MAX_MACHINES + 1).collect();
        let next = MachineId(machines.len() as u32 + 1);
        Self::from_parts(
            cluster,
            ConfigurationId::FIRST,
            machines,
            MachineId(1),
            next,
        )
    }

    /// Returns the first configuration of `machines` machines within one process. Each has its own
    /// failure domain, and its name (`m1`, `m2`, …) is its address.
    ///
    /// # Errors
    /// As [`Self::of_initial_members`].
    pub fn of_process(machines: u32) -> Result<Self, ConfigurationError> {
        let name = |id: u32| format!("m{id}");
        let initial_member = |id| {
            let address = Address::new(&name(id)).expect("short and printable");
            (
                address,
                FailureDomain::new(&name(id)).expect("short and printable"),
            )
        };
        Self::of_initial_members(ClusterId(0), (1..=machines).map(initial_member))
    }

    /// Returns a configuration with these parts, after it has checked the invariants.
    ///
    /// # Errors
    /// [`ConfigurationError`] if the parts break an invariant.
    pub(crate) fn from_parts(
        cluster: ClusterId,
        id: ConfigurationId,
        machines: Vec<Machine>,
        cm: MachineId,
        next_machine: MachineId,
    ) -> Result<Self, ConfigurationError> {
        let configuration = Self {
            cluster,
            id,
            machines,
            cm,
            next_machine,
        };
        configuration.validate()?;
        Ok(configuration)
    }

    /// Returns the next configuration, with one more machine, and the id of that machine.
    ///
    /// # Errors
    /// [`ConfigurationError`] if the next configuration breaks an invariant, for instance if the
    /// address is in use.
    pub fn with_machine(
        &self,
        address: Address,
        domain: FailureDomain,
    ) -> Result<(Self, MachineId), ConfigurationError> {
        let id = self.next_machine;
        let mut machines = self.machines.clone();
        machines.push(Machine {
            id,
            address,
            domain,
            leaving: false,
        });
        let next_machine = MachineId(id.0.checked_add(1).ok_or(ConfigurationError::Full)?);
        let next = Self::from_parts(
            self.cluster,
            self.id.next(),
            machines,
            self.cm,
            next_machine,
        )?;
        Ok((next, id))
    }

    /// Returns the next configuration, without the machines in `lost`, with `cm` as its CM.
    ///
    /// # Errors
    /// [`ConfigurationError`] if no machine remains or `cm` is not among the rest.
    pub fn without(
        &self,
        lost: &FewSet<MachineId>,
        cm: MachineId,
    ) -> Result<Self, ConfigurationError> {
        let mut machines = self.machines.clone();
        machines.retain(|machine| !lost.contains(&machine.id));
        Self::from_parts(
            self.cluster,
            self.id.next(),
            machines,
            cm,
            self.next_machine,
        )
    }

    /// Returns the next configuration, in which the member `leaving` is marked as leaving.
    ///
    /// # Errors
    /// [`ConfigurationError::NoSuchMachine`] if `leaving` is not a member.
    pub fn with_leaving(&self, leaving: MachineId) -> Result<Self, ConfigurationError> {
        let mut machines = self.machines.clone();
        let machine = machines.iter_mut().find(|machine| machine.id == leaving);
        let machine = machine.ok_or(ConfigurationError::NoSuchMachine(leaving))?;
        machine.leaving = true;
        Self::from_parts(
            self.cluster,
            self.id.next(),
            machines,
            self.cm,
            self.next_machine,
        )
    }

    /// Returns the id of the machine at an address.
    pub fn at_address(&self, address: &Address) -> Option<MachineId> {
        let mut machines = self.machines.iter();
        let found = machines.find(|machine| machine.address == *address);
        found.map(|machine| machine.id)
    }

    /// Returns a copy with the id of a first configuration.
    pub fn as_first(&self) -> Self {
        let mut first = self.clone();
        first.id = ConfigurationId::FIRST;
        first
    }

    fn validate(&self) -> Result<(), ConfigurationError> {
        let Some(last) = self.machines.last() else {
            return Err(ConfigurationError::Empty);
        };
        if self.machines.len() > MAX_MACHINES {
            return Err(ConfigurationError::Full);
        }
        if self.id < ConfigurationId::FIRST {
            return Err(ConfigurationError::Unnumbered);
        }
        let pairs = self.machines.iter().zip(self.machines.iter().skip(1));
        for (machine, after) in pairs {
            if after.id <= machine.id {
                return Err(ConfigurationError::MachineTwice(after.id));
            }
        }
        if last.id >= self.next_machine {
            return Err(ConfigurationError::IdNotGiven(last.id));
        }
        let mut addresses = FewSet::new();
        for machine in &self.machines {
            if !addresses.insert(&machine.address) {
                return Err(ConfigurationError::AddressTwice(machine.id));
            }
        }
        match self.machine(self.cm) {
            Some(_) => Ok(()),
            None => Err(ConfigurationError::NoSuchManager(self.cm)),
        }
    }

    /// Returns the id of the cluster.
    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// Returns the number of this configuration.
    pub fn id(&self) -> ConfigurationId {
        self.id
    }

    /// Returns the members, in the order of their ids.
    pub fn machines(&self) -> &[Machine] {
        &self.machines
    }

    /// Returns the id of the configuration manager.
    pub fn cm(&self) -> MachineId {
        self.cm
    }

    /// Returns the configuration manager, with its address.
    pub fn manager(&self) -> &Machine {
        self.machine(self.cm).expect("CONFIG-2: the CM is a member")
    }

    /// Returns the id that the next joining machine gets.
    pub fn next_machine(&self) -> MachineId {
        self.next_machine
    }

    /// Returns a member; `None` for a machine that is not a member.
    pub fn machine(&self, id: MachineId) -> Option<&Machine> {
        let at = self
            .machines
            .binary_search_by_key(&id, |machine| machine.id);
        Some(&self.machines[at.ok()?])
    }

    /// Returns whether a machine is a member.
    pub fn has(&self, id: MachineId) -> bool {
        self.machine(id).is_some()
    }

    /// Returns whether a machine is a member that is to leave.
    pub fn is_leaving(&self, id: MachineId) -> bool {
        self.machine(id).is_some_and(|machine| machine.leaving)
    }

    /// Returns the members that are to leave.
    pub fn leaving(&self) -> FewSet<MachineId> {
        let leaving = self.machines.iter().filter(|machine| machine.leaving);
        leaving.map(|machine| machine.id).collect()
    }

    /// Returns the number of failure domains of the members that are not to leave.
    pub fn domains_that_stay(&self) -> usize {
        let staying = self.machines.iter().filter(|machine| !machine.leaving);
        let domains: FewSet<&FailureDomain> = staying.map(|machine| &machine.domain).collect();
        domains.len()
    }

    /// Returns whether a member has this address.
    pub fn has_address(&self, address: &Address) -> bool {
        self.machines.iter().any(|m| m.address == *address)
    }

    /// Returns the smallest number of machines that is more than half of them.
    pub fn majority(&self) -> usize {
        self.machines.len() / 2 + 1
    }

    /// Returns the `k` successors of the CM, or fewer if there are fewer machines. They are the
    /// first that are asked to take over when the CM is suspected.
    pub fn backup_cms(&self, k: usize) -> Vec<MachineId> {
        let mut after = successors(self.cm, self.machines.iter().map(|machine| machine.id));
        after.truncate(k);
        after
    }
}
