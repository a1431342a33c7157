//! A machine that keeps its data on a disk begins, or begins again, with the others.
//!
//! ```text
//! Beginning::open ─► what is there ─► look, again and again ─► OnDisk ─► Machine::open: the log into its regions
//!   ─► BEGUN, flushed ─► peers find it
//! ```
//! # Failure
//! Nothing is written before all have agreed. Where power fails between the first BEGUN and the last, who has it tells the
//! others (DISK-4).

use std::sync::Arc;

use fencepost_cluster::reconfiguration::Resumed;
use fencepost_cluster::{Configuration, ConfigurationId};
use fencepost_fabric::{Fabric, MachineId, entropy_seed};
use fencepost_storage::Timestamp;
use fencepost_storage::log::LogError;
use fencepost_storage::region::Regions;
use parking_lot::Mutex;

use super::Disk;
use super::agree::Agreed;
use super::kept::Kept;
use super::left::Left;
use super::meet::{MeetError, Meeting, TakenBack};
use super::record::{self, Begun, Held, Holdings};
use super::replay::{make, replay};
use super::state::State;
use crate::checkpointer::Checkpointer;
use crate::options::{Durable, OpenError};
use crate::replay::Replayed;
use crate::start::Directory;

/// A machine that looks for the others.
pub struct Beginning {
    meeting: Meeting,
    found: Option<Found>,
}

/// What a machine has found.
struct Found {
    durable: Durable,
    directory: Directory,
    left: Left,
}

/// What a machine among others begins with that keeps its data on a disk.
pub struct OnDisk {
    agreed: Agreed,
    resumed: Option<Arc<Resumed>>,
    region_bytes: Option<usize>,
    found: Mutex<Option<Found>>,
}

/// A log that goes on, and what was in it.
pub(crate) struct Restored {
    pub disk: Disk,
    pub checkpointer: Checkpointer,
    pub checkpoint_objects: u64,
    pub replayed: Replayed,
    pub torn_tail: Option<String>,
}

impl Beginning {
    /// Opens the directory of one of `founders`, whose access to the others `fabric` is. What they agree on is later than
    /// the configuration `stored`, which is what their store has; 0 where that has none. Who says which of them are
    /// `taken_back` says the same at all of them.
    ///
    /// # Errors
    /// [`OpenError`] where it is in use, or damaged.
    pub fn open(
        durable: &Durable,
        fabric: &Arc<dyn Fabric>,
        (founders, taken_back): (&Configuration, TakenBack),
        stored: ConfigurationId,
    ) -> Result<Beginning, OpenError> {
        let directory = Directory::open(durable)?;
        let kept = Kept::read(&*durable.disk)?;
        if directory.manifest.is_some() && kept.is_none() {
            return Err(OpenError::Alone(durable.disk.path("")));
        }
        let mut log = directory.log(durable)?;
        // What others are shown must not be lost any more.
        log.sync()?;
        let newest = directory.manifest.map(|manifest| manifest.clock);
        let left = Left::read(&mut log, kept, newest.unwrap_or(Timestamp::ZERO))?;
        let state = State::of(&left, stored, entropy_seed());
        let meeting =
            Meeting::begin(fabric, (founders, taken_back), state).map_err(OpenError::Meet)?;
        let found = Some(Found {
            durable: durable.clone(),
            directory,
            left,
        });
        Ok(Beginning { meeting, found })
    }

    /// Looks at the others; what this machine begins with, once all are there. For whoever comes again and again.
    ///
    /// # Errors
    /// [`MeetError`] where they cannot begin together.
    pub fn look(&mut self) -> Result<Option<Arc<OnDisk>>, MeetError> {
        let Some(agreed) = self.meeting.look()? else {
            return Ok(None);
        };
        let Some(found) = self.found.take() else {
            return Ok(None);
        };
        let begun = found.left.begun.as_ref();
        let region_bytes = begun.filter(|_| !agreed.regions.is_empty());
        Ok(Some(Arc::new(OnDisk {
            resumed: (!agreed.regions.is_empty()).then(|| Arc::new(agreed.resumed())),
            region_bytes: region_bytes.map(|begun| begun.region_bytes as usize),
            found: Mutex::new(Some(found)),
            agreed,
        })))
    }

    /// Who has not been heard of, or does not begin with the others.
    pub fn missing(&self) -> Vec<MachineId> {
        self.meeting.missing()
    }
}

impl OnDisk {
    /// The configuration that all begin with.
    pub fn configuration(&self) -> &Configuration {
        &self.agreed.configuration
    }

    /// What the machine begins again with, where there was something.
    pub fn resumed(&self) -> Option<Arc<Resumed>> {
        self.resumed.clone()
    }

    /// Bytes of its regions, where it has had some.
    pub(crate) fn region_bytes(&self) -> Option<usize> {
        self.region_bytes
    }

    /// Has the log in `regions`, as backups of what this machine has, and goes on with it. Nobody finds the machine before.
    pub(crate) fn restore(
        &self,
        regions: &Regions,
        fabric: &Arc<dyn Fabric>,
    ) -> Result<Restored, OpenError> {
        let found = self.found.lock().take().ok_or(OpenError::Begun)?;
        let Found {
            durable, directory, ..
        } = found;
        let (agreed, me) = (&self.agreed, fabric.me());
        make(regions, agreed, me)?;
        let own = |region| {
            agreed
                .regions
                .get(&region)
                .is_some_and(|mapping| mapping.replicas.has(me))
        };
        let checkpoint_objects = directory.load(regions, &own)?;
        let mut log = directory.log(&durable)?;
        let replayed = replay(&mut log, regions, (agreed, &own))?;
        let (log, report) = log.finish(Box::new(|| 0))?;
        let begun = Begun {
            cluster: agreed.cluster,
            region_bytes: regions.region_bytes() as u64,
            newest: agreed.newest,
            committed: agreed.committed.iter().map(|(id, w)| (*id, *w)).collect(),
            configuration: agreed.configuration.clone(),
        };
        let (checkpointer, lock) = directory.go_on(&durable);
        let words = begun.encode();
        let held = agreed
            .regions
            .values()
            .filter(|mapping| own(mapping.region));
        let held = held.map(|mapping| {
            let (mapping, whole) = (mapping.clone(), true);
            (mapping.region, Held { mapping, whole })
        });
        let holdings = Holdings {
            configuration: agreed.configuration.clone(),
            held: held.collect(),
        };
        let place = (Arc::clone(&durable.disk), lock);
        let kept = Kept {
            begun,
            holdings: holdings.clone(),
        };
        let disk = Disk::new(log, fabric, place, kept);
        disk.append(record::BEGUN, &words);
        disk.is_in(holdings);
        disk.log.wait_flushed_blocking(disk.log.position())?;
        if disk.has_failed() {
            return Err(OpenError::Log(LogError::Full));
        }
        let torn = report.torn;
        let torn_tail =
            torn.map(|torn| format!("{}: {} bytes cut at {}", torn.file, torn.bytes, torn.offset));
        Ok(Restored {
            disk,
            checkpointer,
            checkpoint_objects,
            replayed,
            torn_tail,
        })
    }
}
