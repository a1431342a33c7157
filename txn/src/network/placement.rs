//! Which machines have which region.

use fencepost_fabric::MachineId;
use fencepost_storage::RegionId;

/// Where the replicas of regions are: region `r` has its primary on machine `r` modulo the number of
/// machines, and its backups on those that follow.
#[derive(Clone, Debug)]
pub struct Placement {
    machines: Vec<MachineId>,
    replicas: usize,
}

impl Placement {
    /// Regions of `machines`, each with as many `replicas` as there are machines for.
    pub fn new(machines: Vec<MachineId>, replicas: usize) -> Self {
        let replicas = replicas.clamp(1, machines.len().max(1));
        Placement { machines, replicas }
    }

    /// All machines.
    pub fn machines(&self) -> &[MachineId] {
        &self.machines
    }

    /// The configuration manager.
    pub fn manager(&self) -> Option<MachineId> {
        self.machines.first().copied()
    }

    /// Backups of each region.
    pub fn backups_each(&self) -> usize {
        self.replicas - 1
    }

    fn at(&self, region: RegionId, replica: usize) -> MachineId {
        self.machines[(region.0 as usize + replica) % self.machines.len()]
    }

    /// The machine that answers for a region.
    #[inline]
    pub fn primary(&self, region: RegionId) -> MachineId {
        self.at(region, 0)
    }

    /// The other machines that have a copy of it.
    pub fn backups(&self, region: RegionId) -> impl Iterator<Item = MachineId> {
        (1..self.replicas).map(move |replica| self.at(region, replica))
    }

    /// Id of the region that `machine` makes after it has `made` so many.
    pub fn region_of(&self, machine: MachineId, made: u32) -> Option<RegionId> {
        let position = self.machines.iter().position(|at| *at == machine)? as u32;
        let id = made.checked_mul(self.machines.len() as u32)?;
        Some(RegionId(id.checked_add(position)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_machine_makes_regions_of_its_own_with_backups_elsewhere() {
        let machines: Vec<_> = [3, 5, 9].map(MachineId).into();
        let placement = Placement::new(machines.clone(), 2);
        let mut seen = Vec::new();
        for machine in machines {
            for made in 0..4 {
                let region = placement.region_of(machine, made).expect("a member");
                assert_eq!(placement.primary(region), machine);
                assert!(placement.backups(region).all(|backup| backup != machine));
                assert!(!seen.contains(&region));
                seen.push(region);
            }
        }
        assert_eq!(placement.region_of(MachineId(4), 0), None);
    }
}
