//! The start or restart of a machine with a disk, together with the other machines.
//!
//! ```text
//! Contents::read ─► Beginning::open ─► look, again and again ─► DiskStart
//!   ─► Machine::open: the log into its regions ─► BEGUN, flushed ─► peers find it
//! ```
//! A machine that joins a running cluster: Contents::read ─► write_down ─► joining ─► DiskStart,
//! without its earlier data.
//!
//! # Failure
//! Nothing is written before all have agreed. If power fails between the first BEGUN and the last,
//! the machines that have it tell the others (DISK-4).

use std::collections::BTreeMap;
use std::sync::Arc;

use fencepost_cluster::few::FewMap;
use fencepost_cluster::join::DiskOffer;
use fencepost_cluster::reconfiguration::RestartState;
use fencepost_cluster::{Configuration, ConfigurationId, MAX_MACHINES, Machine};
use fencepost_fabric::{Fabric, MachineId, entropy_seed};
use fencepost_storage::Timestamp;
use fencepost_storage::log::LogError;
use fencepost_storage::region::Regions;
use parking_lot::Mutex;

use super::Disk;
use super::agree::AgreedState;
use super::log_content::LogContent;
use super::meet::{ReadmitPolicy, StateExchange, StateExchangeError};
use super::record::{self, IncarnationRecord, RegionRecord, RegionsRecord};
use super::replay::{make, replay};
use super::retained_data;
use super::retained_records::RetainedRecords;
use super::state::State;
use crate::checkpointer::Checkpointer;
use crate::network::retained_data::RetainedData;
use crate::options::{DurableStorage, OpenError};
use crate::replay::ReplaySummary;
use crate::start::Directory;

/// A machine that exchanges its state with the others.
pub struct Beginning {
    meeting: StateExchange,
    found: Option<Contents>,
}

/// The content of a machine's disk.
pub struct Contents {
    durable: DurableStorage,
    directory: Directory,
    left: LogContent,
    /// The disk had data of an earlier machine.
    replaced: bool,
}

/// The starting state of a machine in a cluster with a disk.
pub struct DiskStart {
    agreed: AgreedState,
    resumed: Option<Arc<RestartState>>,
    region_bytes: Option<usize>,
    found: Mutex<Option<Contents>>,
    /// Whether the machine has just been admitted.
    joins: bool,
}

/// The state of the configuration store at a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreState {
    /// The number of the last configuration; 0 if there was none.
    Last(ConfigurationId),
    /// The store has lost its content when the last of the machines ended.
    Forgotten,
}

impl StoreState {
    /// Returns a number that no earlier configuration exceeds, for a machine whose disk knows
    /// `last`.
    ///
    /// A configuration that no disk has was never in force (DISK-7), and no machine is admitted
    /// before one is in force. So each forgotten configuration but one lacks a machine of the one
    /// before it. Hence there were no more of them than machines.
    fn newest(self, last: Option<ConfigurationId>) -> ConfigurationId {
        match (self, last) {
            (StoreState::Last(stored), _) => stored,
            (StoreState::Forgotten, Some(last)) => ConfigurationId(last.0 + MAX_MACHINES as u64),
            (StoreState::Forgotten, None) => ConfigurationId(0),
        }
    }
}

/// A log that can be continued, and a summary of its content.
pub(crate) struct RestoredLog {
    pub disk: Disk,
    pub checkpointer: Checkpointer,
    pub checkpoint_objects: u64,
    pub replayed: ReplaySummary,
    pub torn_tail: Option<String>,
    pub replaced: bool,
    /// The data that the machine had before its eviction.
    pub before: Option<RetainedData>,
}

impl Contents {
    /// Opens a directory and locks it for this process. Blocks until the log is read and synced.
    ///
    /// # Errors
    /// [`OpenError::InUse`] if another process has it, [`OpenError::Alone`] if its data are of a
    /// machine that is alone, [`OpenError::Log`] or [`OpenError::Checkpoint`] if it is damaged,
    /// [`OpenError::Io`] for errors of the disk.
    pub fn read(durable: &DurableStorage) -> Result<Contents, OpenError> {
        let directory = Directory::open(durable)?;
        let left = Contents::left(durable, &directory)?;
        Ok(Contents {
            durable: durable.clone(),
            directory,
            left,
            replaced: false,
        })
    }

    fn left(durable: &DurableStorage, directory: &Directory) -> Result<LogContent, OpenError> {
        let retained = RetainedRecords::read(&*durable.disk)?;
        if directory.manifest.is_some() && retained.is_none() {
            return Err(OpenError::Alone(durable.disk.path("")));
        }
        let mut log = directory.log(durable)?;
        // A state that others have read must not be lost any more.
        log.sync()?;
        let newest = directory.manifest.map(|manifest| manifest.clock);
        Ok(LogContent::read(
            &mut log,
            retained,
            newest.unwrap_or(Timestamp::ZERO),
        )?)
    }

    /// Returns the last configuration that the machine was in, or the one in force when it was
    /// admitted to the next.
    pub fn configuration(&self) -> Option<&Configuration> {
        let holdings = self.left.holdings.as_ref();
        holdings.map(|holdings| &holdings.configuration)
    }

    /// Returns the machine's number, if it was written down.
    pub fn machine(&self) -> Option<MachineId> {
        self.left.me
    }

    /// Returns the number of the machine at `place` among `initial_members`, and the machines that
    /// may be there besides.
    ///
    /// # Errors
    /// [`StateExchangeError`] if they do not form a valid configuration.
    pub fn part(
        &self,
        initial_members: &Configuration,
        place: &Machine,
    ) -> Result<(MachineId, Configuration), StateExchangeError> {
        let Some(last) = self.configuration() else {
            return Ok((place.id, initial_members.clone()));
        };
        let all = last.at_places_of(initial_members)?;
        let me = self.left.me.or_else(|| all.at_address(&place.address));
        let me = me.unwrap_or(place.id);
        let own = all.machine(me).unwrap_or(place).clone();
        Ok((me, all.with_own(me, &own)?))
    }

    /// Writes down the new number of this machine, which discards its earlier data (DISK-12).
    /// Blocks until that is durable.
    ///
    /// # Errors
    /// [`OpenError::Meet`] if the data belong to another cluster; nothing is written then.
    /// Otherwise as [`Self::read`].
    pub fn write_down(&mut self, offer: &DiskOffer) -> Result<(), OpenError> {
        let strange = |left: &LogContent| {
            let begun = left.begun.as_ref()?;
            let holdings = left.holdings.as_ref()?;
            (begun.cluster != offer.data.incarnation && !holdings.held.is_empty())
                .then_some(offer.machine)
        };
        if let Some(me) = strange(&self.left) {
            return Err(OpenError::Meet(StateExchangeError::OtherCluster(vec![me])));
        }
        self.replaced |= self
            .left
            .holdings
            .as_ref()
            .is_some_and(|all| !all.held.is_empty());
        let mut log = self.directory.log(&self.durable)?;
        while log.next_chunk()?.is_some() {}
        let (log, _) = log.finish(Box::new(|| 0))?;
        let words = record::joined(offer);
        let end = log.append(&[(record::JOINED, &[bytemuck::cast_slice(&words)])])?;
        log.wait_flushed_blocking(end)?;
        log.close()?;
        self.left = Contents::left(&self.durable, &self.directory)?;
        Ok(())
    }

    /// Returns the starting state of a machine that has written down its number and is a member of
    /// `configuration`.
    pub fn joining(self, configuration: &Configuration) -> Arc<DiskStart> {
        let begun = self.left.begun.as_ref();
        Arc::new(DiskStart {
            agreed: AgreedState {
                cluster: begun.map_or(0, |begun| begun.cluster),
                configuration: configuration.clone(),
                regions: FewMap::new(),
                newest: Timestamp::ZERO,
                committed: BTreeMap::new(),
            },
            resumed: None,
            region_bytes: begun.map(|begun| begun.region_bytes as usize),
            found: Mutex::new(Some(self)),
            joins: true,
        })
    }
}

impl Beginning {
    /// Begins to exchange states with the others over `fabric`: with the initial members, and with
    /// the machines that may be there now ([`Contents::part`]). The agreed configuration is later
    /// than any in their store. `taken_back` must be the same on all machines.
    ///
    /// # Errors
    /// [`OpenError::Meet`] if the state cannot be published.
    pub fn open(
        contents: Contents,
        fabric: &Arc<dyn Fabric>,
        machines: (&Configuration, &Configuration),
        taken_back: ReadmitPolicy,
        stored: StoreState,
    ) -> Result<Beginning, OpenError> {
        let last = contents.configuration().map(Configuration::id);
        let stored = stored.newest(last);
        let state = State::of(&contents.left, stored, entropy_seed());
        let meeting =
            StateExchange::begin(fabric, machines, taken_back, state).map_err(OpenError::Meet)?;
        let found = Some(contents);
        Ok(Beginning { meeting, found })
    }

    /// Returns the content of the disk for a start without the others.
    pub fn into_contents(self) -> Option<Contents> {
        self.meeting.give_up();
        self.found
    }

    /// Reads the states of the others. Returns this machine's starting state once all agree. The
    /// caller repeats this until then.
    ///
    /// # Errors
    /// [`StateExchangeError`] if they cannot start together.
    pub fn look(&mut self) -> Result<Option<Arc<DiskStart>>, StateExchangeError> {
        let Some(agreed) = self.meeting.look()? else {
            return Ok(None);
        };
        let Some(found) = self.found.take() else {
            return Ok(None);
        };
        let begun = found.left.begun.as_ref();
        let region_bytes = begun.filter(|_| !agreed.regions.is_empty());
        Ok(Some(Arc::new(DiskStart {
            resumed: (!agreed.regions.is_empty()).then(|| Arc::new(agreed.resumed())),
            region_bytes: region_bytes.map(|begun| begun.region_bytes as usize),
            found: Mutex::new(Some(found)),
            joins: false,
            agreed,
        })))
    }

    /// Returns the machines whose state is unknown, or that do not take part with the others.
    pub fn missing(&self) -> Vec<MachineId> {
        self.meeting.missing()
    }
}

impl DiskStart {
    /// Returns the configuration with which all start.
    pub fn configuration(&self) -> &Configuration {
        &self.agreed.configuration
    }

    /// Returns the state to restart from, if there is any.
    pub fn resumed(&self) -> Option<Arc<RestartState>> {
        self.resumed.clone()
    }

    /// Returns the bytes of a region, if the machine has had regions.
    pub(crate) fn region_bytes(&self) -> Option<usize> {
        self.region_bytes
    }

    /// Replays the log into `regions`, as backups of this machine's replicas, and opens it for
    /// appending. Peers do not find the machine before.
    pub(crate) fn restore(
        &self,
        regions: &Regions,
        fabric: &Arc<dyn Fabric>,
    ) -> Result<RestoredLog, OpenError> {
        let found = self.found.lock().take().ok_or(OpenError::Begun)?;
        let Contents {
            durable,
            directory,
            left,
            replaced,
        } = found;
        let (agreed, me) = (&self.agreed, fabric.me());
        make(regions, agreed, me)?;
        let own = |region| {
            agreed
                .regions
                .get(&region)
                .is_some_and(|mapping| mapping.replicas.has(me))
        };
        let checkpoint_objects = match left.joined {
            None => directory.load(regions, &own)?,
            // The checkpoint is of another machine.
            Some(_) => 0,
        };
        let before = match self.joins {
            true => retained_data::load(&durable, &directory, &left, regions.region_bytes()),
            false => None,
        };
        let mut log = directory.log(&durable)?;
        let replayed = replay(&mut log, regions, (agreed, &own), left.joined)?;
        let (log, report) = log.finish(Box::new(|| 0))?;
        let (checkpointer, lock) = directory.go_on(&durable);
        let place = (Arc::clone(&durable.disk), lock);
        let begun = IncarnationRecord {
            cluster: agreed.cluster,
            region_bytes: regions.region_bytes() as u64,
            newest: agreed.newest,
            committed: agreed.committed.iter().map(|(id, w)| (*id, *w)).collect(),
            configuration: agreed.configuration.clone(),
        };
        let words = begun.encode();
        let held = agreed
            .regions
            .values()
            .filter(|mapping| own(mapping.region));
        let held = held.map(|mapping| {
            let (mapping, whole) = (mapping.clone(), true);
            (mapping.region, RegionRecord { mapping, whole })
        });
        let holdings = RegionsRecord {
            configuration: agreed.configuration.clone(),
            held: held.collect(),
        };
        let retained = match (left.begun, left.holdings) {
            // The log contains all of this already.
            (Some(begun), Some(holdings)) if self.joins => RetainedRecords {
                me: Some(me),
                begun,
                holdings,
            },
            _ => RetainedRecords {
                me: Some(me),
                begun,
                holdings: holdings.clone(),
            },
        };
        let disk = Disk::new(log, fabric, place, retained);
        if !self.joins {
            disk.append(record::BEGUN, &words);
            disk.is_in(holdings);
        }
        disk.log.wait_flushed_blocking(disk.log.position())?;
        if disk.has_failed() {
            return Err(OpenError::Log(LogError::Full));
        }
        let torn = report.torn;
        let torn_tail =
            torn.map(|torn| format!("{}: {} bytes cut at {}", torn.file, torn.bytes, torn.offset));
        Ok(RestoredLog {
            disk,
            checkpointer,
            checkpoint_objects,
            replayed,
            torn_tail,
            replaced,
            before,
        })
    }
}
