//! The restart of all machines: the placement of regions, from the saved descriptions of each
//! machine's regions.
//!
//! ```text
//! Kept     | answer to a probe | configuration | last configuration fully recovered |
//! Resumed  | configuration | all regions | number of the next region | newest timestamp | fresh |
//! ```
//! *The rule* is that of a reconfiguration ([`super::gather`], [`super::remap`]) after which all
//! machines are members again. A machine that has lost its memory has none of its regions. The
//! caller makes all replicas whole before any machine starts.
//!
//! *Failure.* A region without a remaining replica with data is reported as an error, and nothing
//! must be changed then.

use fencepost_fabric::MachineId;

use super::gather::gather;
use super::message::RegionReport;
use super::remap::{OptionalChanges, remap_regions};
use crate::allocation::{HeldRegion, MovedRegion, RequestId};
use crate::codec::{DecodeError, Wire, wire_structs};
use crate::configuration::Configuration;
use crate::few::{FewMap, FewSet};
use crate::ids::ConfigurationId;
use crate::placement::Replication;
use crate::region::{Mapping, RegionId};
use crate::seal::{seal, unseal};

const MAGIC: [u8; 4] = *b"FpKp";
const RESUMED: [u8; 4] = *b"FpRs";
const VERSION: u16 = 1;

/// The saved description of the regions that a machine held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedRegions {
    /// The machine's answer to a probe at that time.
    pub holdings: RegionReport,
    /// The configuration that the machine had applied.
    pub configuration: ConfigurationId,
    /// The configuration as of which no recovery of earlier ones was unfinished on any machine.
    pub recovered: ConfigurationId,
}

/// The state with which machines start again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestartState {
    /// The configuration with which all machines start.
    pub configuration: Configuration,
    /// All regions; their requests are of no machine in this incarnation.
    pub regions: Vec<MovedRegion>,
    /// The number of the next region.
    pub next_region: RegionId,
    /// A timestamp that is at least as high as every timestamp ever assigned.
    pub newest: u64,
    /// Whether no data was ever written.
    pub fresh: bool,
}

/// The mapping of a region before and after a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappingChange {
    /// The mapping before the restart.
    pub before: Mapping,
    /// The mapping after the restart; its primary had the region with all of its data.
    pub after: Mapping,
}

wire_structs!(
    SavedRegions {
        holdings,
        configuration,
        recovered
    },
    RestartState {
        configuration,
        regions,
        next_region,
        newest,
        fresh
    }
);

impl SavedRegions {
    /// Returns the sealed bytes to save.
    pub fn seal(&self) -> Vec<u8> {
        seal(MAGIC, VERSION, &self.encode())
    }

    /// Decodes saved bytes.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are damaged.
    pub fn unseal(bytes: &[u8]) -> Result<SavedRegions, DecodeError> {
        SavedRegions::decode(unseal(MAGIC, VERSION, bytes)?)
    }
}

impl RestartState {
    /// Returns the sealed bytes to save.
    pub fn seal(&self) -> Vec<u8> {
        seal(RESUMED, VERSION, &self.encode())
    }

    /// Decodes saved bytes.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are damaged.
    pub fn unseal(bytes: &[u8]) -> Result<RestartState, DecodeError> {
        RestartState::decode(unseal(RESUMED, VERSION, bytes)?)
    }
}

impl RestartState {
    /// Returns pairs of a machine and a region that it starts with.
    pub fn places(&self) -> Vec<(MachineId, u32)> {
        let of = |region: &MovedRegion| {
            let id = region.mapping.region.0;
            let all = region.mapping.replicas.all();
            all.map(|machine| (machine, id)).collect::<Vec<_>>()
        };
        self.regions.iter().flat_map(of).collect()
    }

    /// Returns the saved description of a machine that has started with this state and done nothing
    /// since.
    pub fn retained_by(&self, machine: MachineId) -> SavedRegions {
        let id = self.configuration.id();
        let regions = self.regions.iter();
        let held = regions.filter(|region| region.mapping.replicas.has(machine));
        let held = held.map(|region| HeldRegion {
            mapping: region.mapping.clone(),
            request: region.request,
            committed: true,
            whole: true,
        });
        SavedRegions {
            holdings: RegionReport {
                last_drained: id,
                held: held.collect(),
                known: Vec::new(),
                next_region: self.next_region,
                numbers: machine == self.configuration.cm(),
                granted_ns: 0,
                time_ns: None,
            },
            configuration: id,
            recovered: id,
        }
    }
}

impl MappingChange {
    /// Returns the region with which machines start again.
    pub fn resumed(&self) -> MovedRegion {
        let mapping = self.after.clone();
        // Machines number their requests anew, so this request must differ from all of theirs.
        let request = RequestId {
            machine: MachineId(0),
            number: u64::from(mapping.region.0),
        };
        MovedRegion { mapping, request }
    }
}

/// Computes the mappings of all regions in the configuration `next`, and the number of the next
/// region. The input is what members of the previous configuration saved whose memory remains.
///
/// # Errors
/// The regions of which no replica with data is left.
pub fn resume(
    saved: &FewMap<MachineId, SavedRegions>,
    next: &Configuration,
    replication: Replication,
) -> Result<(Vec<MappingChange>, RegionId), Vec<RegionId>> {
    let holdings = saved.iter();
    let holdings = holdings.map(|(machine, saved)| (*machine, saved.holdings.clone()));
    let gathered = gather(&holdings.collect());
    let remapped = remap_regions(
        &gathered,
        next,
        replication,
        &FewSet::new(),
        OptionalChanges::default(),
    );
    if !remapped.lost.is_empty() {
        return Err(remapped.lost);
    }
    let regions = remapped.map.mappings().filter_map(|after| {
        let before = gathered.regions.get(&after.region)?;
        Some(MappingChange {
            before: before.mapping.clone(),
            after: after.clone(),
        })
    });
    Ok((regions.collect(), RegionId(gathered.next_region)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::{GroupId, Replicas};
    use crate::testing::machines;

    fn mapping(region: u32, primary: u32, backups: &[u32]) -> Mapping {
        let backups = backups.iter().copied().map(MachineId).collect();
        Mapping {
            region: RegionId(region),
            group: GroupId(RegionId(region)),
            replicas: Replicas::new(MachineId(primary), backups).unwrap(),
            last_primary_change: ConfigurationId(1),
            last_replica_change: ConfigurationId(1),
        }
    }

    /// Returns the saved description of a machine; the regions in `torn` are not whole.
    fn saved(machine: u32, all: &[Mapping], torn: &[u32]) -> SavedRegions {
        let held = all
            .iter()
            .filter(|mapping| mapping.replicas.has(MachineId(machine)));
        let held = held.map(|mapping| HeldRegion {
            mapping: mapping.clone(),
            request: RequestId {
                machine: mapping.replicas.primary(),
                number: 0,
            },
            committed: true,
            whole: !torn.contains(&mapping.region.0),
        });
        SavedRegions {
            holdings: RegionReport {
                last_drained: ConfigurationId(1),
                held: held.collect(),
                known: Vec::new(),
                next_region: RegionId(9),
                numbers: machine == 1,
                granted_ns: 0,
                time_ns: None,
            },
            configuration: ConfigurationId(3),
            recovered: ConfigurationId(3),
        }
    }

    fn all(of: &[u32], torn: &[u32]) -> FewMap<MachineId, SavedRegions> {
        let regions = [mapping(0, 1, &[2]), mapping(4, 3, &[1])];
        let saved = |machine: &u32| (MachineId(*machine), saved(*machine, &regions, torn));
        of.iter().map(saved).collect()
    }

    fn places(
        saved: &FewMap<MachineId, SavedRegions>,
    ) -> Result<Vec<(u32, u32, usize)>, Vec<RegionId>> {
        let before = machines(3);
        let next = before.again().unwrap();
        assert_eq!(next.id().0, before.id().0 + 1);
        let (regions, number) = resume(saved, &next, Replication::exactly(2))?;
        assert_eq!(number, RegionId(9));
        let place = |resuming: &MappingChange| {
            let replicas = &resuming.after.replicas;
            assert_eq!(resuming.resumed().request.machine, MachineId(0));
            (
                resuming.before.region.0,
                replicas.primary().0,
                replicas.count(),
            )
        };
        Ok(regions.iter().map(place).collect())
    }

    #[test]
    fn restart_keeps_placement() {
        assert_eq!(
            places(&all(&[1, 2, 3], &[])),
            Ok(vec![(0, 1, 2), (4, 3, 2)])
        );
    }

    #[test]
    fn lost_region_is_recovered_from_other_replica() {
        assert_eq!(places(&all(&[1, 2], &[])), Ok(vec![(0, 1, 2), (4, 1, 2)]));
        // No machine has all data of the region.
        assert_eq!(places(&all(&[1, 2], &[4])), Err(vec![RegionId(4)]));
        assert_eq!(places(&all(&[1], &[4])), Err(vec![RegionId(4)]));
    }

    #[test]
    fn damaged_saved_regions_are_refused() {
        let saved = all(&[1], &[]).remove(&MachineId(1)).unwrap();
        let mut sealed = saved.seal();
        assert_eq!(SavedRegions::unseal(&sealed), Ok(saved));
        sealed[9] ^= 1;
        assert!(SavedRegions::unseal(&sealed).is_err());
        let resumed = RestartState {
            configuration: machines(3),
            regions: Vec::new(),
            next_region: RegionId(9),
            newest: 77,
            fresh: false,
        };
        assert_eq!(RestartState::unseal(&resumed.seal()), Ok(resumed.clone()));
        assert!(SavedRegions::unseal(&resumed.seal()).is_err());
    }
}
