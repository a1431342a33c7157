//! A machine of the simulated world: its parts, its clock and its memory.

use std::time::Duration;

use fencepost_fabric::{MachineId, Random};

use crate::allocation::{
    Allocator, REGIONS_A_CONFIGURATION, Refusal, RegionCache, RegionHost, ReplicaRegions,
};
use crate::configuration::Configuration;
use crate::few::{FewMap, FewSet};
use crate::ids::ConfigurationId;
use crate::lease::{LeaseTerms, Leases};
use crate::placement::Replication;
use crate::reconfiguration::{Options, Reconfiguration, Regions};
use crate::region::{Mapping, RegionId};

/// A drift so large that it matters within one lease.
pub const DRIFT_PPM: i64 = 30_000;

pub fn terms() -> LeaseTerms {
    LeaseTerms::new(Duration::from_millis(10), DRIFT_PPM as u32).unwrap()
}

pub fn options() -> Options {
    Options::fitting(terms(), Replication::new(1, 1))
}

/// The memory for regions, and the regions whose data it holds.
#[derive(Default)]
pub struct Memory {
    pub free_regions: usize,
    pub reserved: FewSet<RegionId>,
    /// Their mappings when they were made, which tell attempts under one number apart.
    pub data: FewMap<RegionId, Mapping>,
    /// Whether regions that are being made have their data from the start.
    pub making: bool,
}

impl RegionHost for Memory {
    fn reserve(&mut self, mapping: &Mapping) -> Result<(), Refusal> {
        if self.reserved.len() >= self.free_regions {
            return Err(Refusal::NoMemory);
        }
        assert!(self.reserved.insert(mapping.region), "reserved once");
        if self.making {
            self.data.insert(mapping.region, mapping.clone());
        }
        Ok(())
    }

    fn keep(&mut self, mapping: &Mapping) {
        assert!(self.reserved.contains(&mapping.region));
    }

    fn release(&mut self, region: RegionId) {
        assert!(self.reserved.remove(&region), "{region} was reserved");
        self.data.remove(&region);
    }
}

pub struct Node {
    pub reconfiguration: Reconfiguration,
    pub leases: Leases,
    pub cache: RegionCache,
    pub replica: ReplicaRegions,
    pub allocator: Option<Allocator>,
    pub next_region: RegionId,
    pub memory: Memory,
    pub last_drained: ConfigurationId,
    pub blocked: bool,
    pub all_active: Option<ConfigurationId>,
    pub up: bool,
    pub paused_until: u64,
    ahead: u64,
    ppm: i64,
}

impl Node {
    pub fn new(
        id: MachineId,
        configuration: &Configuration,
        joining: bool,
        time: u64,
        random: &mut Random,
    ) -> Self {
        let ahead = random.below(1 << 40);
        let ppm = match random.below(3) {
            0 => DRIFT_PPM,
            1 => -DRIFT_PPM,
            _ => random.below(2 * DRIFT_PPM as u64) as i64 - DRIFT_PPM,
        };
        let now = clock(ahead, ppm, time);
        let reconfiguration = if joining {
            Reconfiguration::joining(id, configuration.clone(), options(), now)
        } else {
            Reconfiguration::new(id, configuration.clone(), options())
        };
        let cm = configuration.cm();
        // A joining machine has no previous configuration.
        let before = ConfigurationId(configuration.id().0 - u64::from(joining));
        Self {
            reconfiguration,
            leases: Leases::new(id, configuration, terms(), random.next_u64(), now),
            cache: RegionCache::new(id, configuration),
            replica: ReplicaRegions::new(id, cm, before),
            allocator: None,
            next_region: RegionId(REGIONS_A_CONFIGURATION),
            memory: Memory {
                free_regions: 4 + random.below(20) as usize,
                ..Memory::default()
            },
            last_drained: ConfigurationId(if joining { 0 } else { before.0 }),
            blocked: joining,
            all_active: None,
            up: true,
            paused_until: 0,
            ahead,
            ppm,
        }
    }

    pub fn now(&self, time: u64) -> u64 {
        clock(self.ahead, self.ppm, time)
    }

    /// Returns whether the machine would answer a client.
    pub fn acts(&self, time: u64) -> bool {
        self.up && !self.blocked && self.leases.holds(self.now(time))
    }

    pub fn applied(&self) -> ConfigurationId {
        self.reconfiguration.configuration().id()
    }

    pub fn regions(&mut self) -> (Regions<'_>, &mut Memory) {
        let regions = Regions {
            cache: &mut self.cache,
            replica: &mut self.replica,
            allocator: &mut self.allocator,
            next_region: &mut self.next_region,
        };
        (regions, &mut self.memory)
    }
}

fn clock(ahead: u64, ppm: i64, time: u64) -> u64 {
    ahead + (i128::from(time) * i128::from(1_000_000 + ppm) / 1_000_000) as u64
}
