//! Memory of this machine for its replicas of regions.

use fencepost_cluster::allocation::{Refusal, RegionHost};
use fencepost_cluster::{Mapping, RegionId};
use fencepost_fabric::MachineId;

use super::LocalRegionMap;
use crate::machine::Machine;
use crate::start::{self, ROOT_BLOCK};

/// Free bytes below which a machine takes no region: its memory is nearly full.
const LEAST_BYTES: u64 = 64 << 10;

pub(super) struct Host<'a> {
    pub machine: &'a Machine,
    pub region_map: &'a LocalRegionMap,
    pub me: MachineId,
    /// Whether new regions are written to the disk.
    pub writes: bool,
    /// Regions that this machine has given up.
    pub parted: Vec<RegionId>,
}

impl RegionHost for Host<'_> {
    fn reserve(&mut self, mapping: &Mapping) -> Result<(), Refusal> {
        let account = self.machine.account();
        if account.limit().saturating_sub(account.used()) < LEAST_BYTES {
            return Err(Refusal::NoMemory);
        }
        let own = mapping.replicas.primary() == self.me;
        let reserved = self.machine.regions().reserve(mapping.region, own);
        reserved.map_err(|_| Refusal::NoMemory)
    }

    fn keep(&mut self, mapping: &Mapping) {
        let network = self.machine.network().filter(|_| self.writes);
        if let Some(disk) = network.and_then(|network| network.disk()) {
            disk.holds(mapping);
        }
        // ALLOCATION-3.
        self.region_map.find(mapping.region, &mapping.replicas);
        let regions = self.machine.regions();
        regions.keep(mapping.region);
        if mapping.region == ROOT_BLOCK.region {
            // ALLOCATION-2: no transaction has allocated a block before, so the root's block is
            // free. Without the root no machine starts.
            let _ = match mapping.replicas.primary() == self.me {
                true => start::make_root(regions),
                false => start::make_root_backup(regions),
            };
        }
    }

    fn release(&mut self, region: RegionId) {
        self.machine.part_with_region(region);
        self.parted.push(region);
    }
}
