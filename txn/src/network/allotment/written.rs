//! What this machine holds, written down where its memory outlives it, whenever that changes and before anybody is told.

use fencepost_cluster::reconfiguration::Kept;
use fencepost_cluster::{ConfigurationId, MapVersion};
use fencepost_fabric::{Fabric, FabricError};

use super::State;
use crate::network::restart::kept::Notes;

/// Where it is written, and what it says.
pub(super) struct Writing {
    notes: Option<Notes>,
    configuration: ConfigurationId,
    recovered: ConfigurationId,
    said: Option<Said>,
}

/// What changes whenever there is something else to be said.
type Said = (
    u64,
    MapVersion,
    Option<MapVersion>,
    ConfigurationId,
    ConfigurationId,
);

impl Writing {
    pub fn of(fabric: &dyn Fabric, id: ConfigurationId) -> Result<Writing, FabricError> {
        Ok(Writing {
            notes: Notes::of(fabric)?,
            configuration: id,
            recovered: id,
            said: None,
        })
    }

    /// The machine is in a configuration.
    pub fn is_in(&mut self, id: ConfigurationId) {
        self.configuration = id;
    }

    /// Nothing of configurations before the present one is left to be recovered on any machine.
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
            notes.write(&Kept {
                holdings,
                configuration,
                recovered,
            });
            self.writing.said = Some(says);
        }
    }
}
