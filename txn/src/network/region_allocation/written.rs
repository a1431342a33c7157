//! A record of this machine's regions where its memory survives it. It is written at each change,
//! before other machines are told.

use fencepost_cluster::reconfiguration::SavedRegions;
use fencepost_cluster::{ConfigurationId, MapVersion};
use fencepost_fabric::{Fabric, FabricError};

use super::State;
use crate::network::restart::retained_regions::RecordMemory;

/// The place of the record, and its last content.
pub(super) struct MapRecord {
    notes: Option<RecordMemory>,
    configuration: ConfigurationId,
    recovered: ConfigurationId,
    said: Option<RecordedVersions>,
}

/// The versions of the recorded state: the record is rewritten when one of them changes.
type RecordedVersions = (
    u64,
    MapVersion,
    Option<MapVersion>,
    ConfigurationId,
    ConfigurationId,
);

impl MapRecord {
    pub fn of(fabric: &dyn Fabric, id: ConfigurationId) -> Result<MapRecord, FabricError> {
        Ok(MapRecord {
            notes: RecordMemory::of(fabric)?,
            configuration: id,
            recovered: id,
            said: None,
        })
    }

    /// Sets the current configuration.
    pub fn is_in(&mut self, id: ConfigurationId) {
        self.configuration = id;
    }

    /// Notes that recovery of the configurations before the present one has ended on all machines.
    pub fn has_recovered(&mut self) {
        self.recovered = self.configuration;
    }
}

impl State {
    pub(super) fn write_down(&mut self) {
        if self.writing.notes.is_none() {
            return;
        }
        let (configuration, recovered) = (self.writing.configuration, self.writing.recovered);
        let allocator = self.allocator.as_ref();
        let led = allocator.map(|allocator| allocator.map().version());
        let held = self.replica.changes();
        let says = (
            held,
            self.cache.map().version(),
            led,
            configuration,
            recovered,
        );
        if self.writing.said == Some(says) {
            return;
        }
        let holdings = self.regions().holdings(recovered);
        if let Some(notes) = &mut self.writing.notes {
            notes.write(&SavedRegions {
                holdings,
                configuration,
                recovered,
            });
            self.writing.said = Some(says);
        }
    }
}
