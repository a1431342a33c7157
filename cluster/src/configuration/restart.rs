//! Configurations after a restart of all machines.
//!
//! A restart begins with the last configuration that the store or a disk has, and with the initial
//! members that the machines are started with now. Addresses, domains and members may differ.

use fencepost_fabric::MachineId;

use super::{Configuration, ConfigurationError, Machine};
use crate::ids::ConfigurationId;

impl Configuration {
    /// Returns the first configuration after a restart of all machines: the members and the CM of
    /// `initial` with the next configuration id. A machine that had been evicted is a member
    /// again, without its former regions.
    fn begin_again(&self, initial: &Configuration) -> Result<Self, ConfigurationError> {
        Self::from_parts(
            self.cluster,
            self.id.next(),
            initial.machines.clone(),
            initial.cm,
            self.next_machine.max(initial.next_machine),
        )
    }

    /// Returns the next configuration with the same machines, none of which is leaving. A restart
    /// of all machines uses it.
    ///
    /// # Errors
    /// [`ConfigurationError`] if the result breaks an invariant.
    pub fn again(&self) -> Result<Self, ConfigurationError> {
        let mut next = self.begin_again(self)?;
        for machine in &mut next.machines {
            machine.leaving = false;
        }
        Ok(next)
    }

    /// Returns the configuration of [`Self::go_on_with_all`] with only those machines that are
    /// members of `self`. Its id is greater than `newest` and the id of `self`.
    ///
    /// # Errors
    /// [`ConfigurationError`] if the result breaks an invariant.
    pub fn go_on_with(
        &self,
        initial: &Configuration,
        newest: ConfigurationId,
    ) -> Result<Self, ConfigurationError> {
        let mut next = self.go_on_with_all(initial, newest)?;
        next.machines.retain(|one| self.has(one.id));
        if !next.has(next.cm) {
            next.cm = self.cm;
        }
        next.validate()?;
        Ok(next)
    }

    /// Returns a configuration of all `initial` whose id is greater than `newest` and the id of
    /// `self`. An evicted initial member is a member again, without its former regions. If `newest`
    /// is greater than the id of `self`, a configuration between may have had one more machine. The
    /// id of that machine is not assigned again.
    ///
    /// # Errors
    /// [`ConfigurationError`] if the result breaks an invariant.
    pub fn go_on_with_all(
        &self,
        initial: &Configuration,
        newest: ConfigurationId,
    ) -> Result<Self, ConfigurationError> {
        let mut next = self.begin_again(initial)?;
        next.id = self.id.max(newest).next();
        if newest > self.id {
            next.next_machine = MachineId(next.next_machine.0.saturating_add(1));
        }
        Ok(next)
    }

    /// Returns this configuration with the addresses and domains that `initial` have now, and with
    /// the machines of `initial` that it lacks. A machine whose address is in `initial` gets the
    /// domain that it has there. Any other machine whose id is in `initial` moves to the address
    /// that it has there, unless a member has that address.
    ///
    /// # Errors
    /// [`ConfigurationError`] if the result breaks an invariant.
    pub fn at_places_of(&self, initial: &Configuration) -> Result<Self, ConfigurationError> {
        let mut machines = self.machines.clone();
        for one in &mut machines {
            one.leaving = false;
            let same = initial
                .machines
                .iter()
                .find(|place| place.address == one.address);
            let moved = initial.machine(one.id);
            let moved = moved.filter(|place| !self.has_address(&place.address));
            if let Some(place) = same.or(moved) {
                one.address.clone_from(&place.address);
                one.domain.clone_from(&place.domain);
            }
        }
        let known = |place: &&Machine| {
            let mut there = machines.iter();
            !there.any(|one| one.id == place.id || one.address == place.address)
        };
        let others: Vec<Machine> = initial.machines.iter().filter(known).cloned().collect();
        machines.extend(others);
        machines.sort_by_key(|one| one.id);
        let first = &initial.manager().address;
        let cm = machines.iter().find(|one| one.address == *first);
        let cm = cm.map_or(self.cm, |one| one.id);
        let next = self.next_machine.max(initial.next_machine);
        Self::from_parts(self.cluster, self.id, machines, cm, next)
    }

    /// Returns this configuration with the machine `me` at the address of `own`. The machine that
    /// had this address is removed.
    ///
    /// # Errors
    /// [`ConfigurationError`] if the result breaks an invariant.
    pub fn with_own(&self, me: MachineId, own: &Machine) -> Result<Self, ConfigurationError> {
        let mut machines = self.machines.clone();
        machines.retain(|one| one.id != me && one.address != own.address);
        machines.push(Machine {
            id: me,
            leaving: false,
            ..own.clone()
        });
        machines.sort_by_key(|one| one.id);
        let has_cm = machines.iter().any(|one| one.id == self.cm);
        let cm = if has_cm { self.cm } else { me };
        let next = self.next_machine.max(MachineId(me.0.saturating_add(1)));
        Self::from_parts(self.cluster, self.id, machines, cm, next)
    }
}
