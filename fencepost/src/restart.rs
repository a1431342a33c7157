//! How machines of one host whose memory outlives their processes (the `nvram` tier) start and
//! restart. They share memory or use a network.
//!
//! ```text
//! DIR/nvram/                the memory of the machines, by incarnation (`fencepost_fabric::nvram`)
//! DIR/nvram/configuration/  the configuration, the join endpoint; with saves, in their directory
//!
//! enter ─► no configuration                      ─► the first one, an empty incarnation
//!       ─► one, with a machine that still runs
//!            ├─ this machine has not run in it   ─► its regions as the incarnation began
//!            └─ it has, or is no member          ─► join request ─► new member, retained state
//!       ─► one, whose machines have all ended    ─► load ─► settle ─► next incarnation
//!                                                                 ─► next configuration
//! ```
//! An incarnation of the cluster is the time from one start of all machines to their end. The first
//! machine to arrive starts an incarnation for all; the others find it started. The configuration
//! in the store decides whether an incarnation has started: until then the retained state is
//! unchanged. Its machines are the machines of the last configuration, by their addresses. A
//! machine that has returned or joined restarts with the others; an evicted machine sends a join
//! request.
//!
//! # Failure
//! A damaged save is reported; its machine has lost its memory, and the others may have replicas.
//! If a restart is impossible, the machine reports the reason and changes nothing. Without leases,
//! a machine that has ended while others run cannot return before all have ended. If all end while
//! a machine is joining, it restarts with them.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost_cluster::join::{ClusterSecret, JoinEndpoint, JoinRefusal, NotAdmitted};
use fencepost_cluster::{
    Address, ConfigStore, Configuration, FailureDomain, HostStore, StoreError, SwapOutcome,
};
use fencepost_fabric::{
    Disk, EvictedMemory, MachineDirectory, MachineId, Nvram, OsDisk, Random, entropy_seed,
};
use fencepost_txn::network::restart::{RestartError, repair_memory};
use fencepost_txn::network::{Replication, RestartState, members};
use pollster::FutureExt;

use crate::error::OpenError;
use crate::membership::{
    self, CONFIGURATION, JOIN_DIRECTORY, MachineIdentity, MachineRole, StoreAccess,
};
use crate::saves::{LoadReport, Saver};

/// The directory of the memory, inside the directory that the machines share.
const DIRECTORY: &str = "nvram";
/// The time limit for joining.
const JOIN_TIME_LIMIT: Duration = Duration::from_secs(60);
/// The longest time that this machine's previous process may need to end after it is killed.
const ENDING: Duration = Duration::from_secs(5);
/// The delay between two attempts.
const REST: Duration = Duration::from_millis(20);

/// A machine that is ready to start.
pub(crate) struct ReadyMachine {
    /// The place of its memory.
    pub home: MachineDirectory,
    pub part: MachineRole,
    pub memory: Memory,
}

/// The memory state with which a machine starts.
#[derive(Default)]
pub(crate) struct Memory {
    /// The retained state of its previous incarnation.
    pub resumed: Option<Arc<RestartState>>,
    /// For a joining machine: the retained state of earlier machines.
    pub before: Option<Arc<EvictedMemory>>,
    /// The result of loading saved memory.
    pub loaded: LoadReport,
    /// Saves the memory at the end; `None` without a directory for saves.
    pub saver: Option<Saver>,
}

/// The incarnation that a machine starts in.
struct StartIncarnation {
    number: u64,
    me: MachineId,
    resumed: Option<RestartState>,
    loaded: LoadReport,
}

/// The way in which a machine starts.
enum StartMode {
    Begins(Box<StartIncarnation>),
    /// The machine has to join others that run. Its earlier number, if it had one.
    RequestsToJoin(Option<MachineId>),
    /// The machine is no member of the restarting cluster, and that does not run yet.
    Waits,
}

/// The environment of a machine that starts.
struct StartEnvironment<'a> {
    nvram: Nvram,
    disk: Arc<dyn Disk>,
    /// The path of `disk`, for error messages.
    records: String,
    initial_members: &'a Configuration,
    replication: Replication,
    address: Address,
    domain: FailureDomain,
}

/// Starts a machine with the identity `who`, of a cluster that began with `initial_members`. Its
/// memory is in `directory`, and saved in `saves`. With leases, a machine that knows the secret may
/// join.
pub(crate) fn begin(
    (directory, saves): (&Path, Option<&Path>),
    who: &MachineIdentity,
    initial_members: &Configuration,
    replication: Replication,
    secret: Option<ClusterSecret>,
) -> Result<ReadyMachine, OpenError> {
    let directory = directory.join(DIRECTORY);
    let records = saves.map_or_else(|| directory.clone(), |saves| saves.join(DIRECTORY));
    let nvram = Nvram::saving_in(&directory, &records).map_err(io)?;
    let records = records.join(CONFIGURATION);
    let (address, domain) = match who {
        MachineIdentity::InitialMember(me) => {
            let member = initial_members.machine(*me);
            let member = member.expect("CONFIG-1: initial members are in the first configuration");
            (member.address.clone(), member.domain.clone())
        }
        // The machine is a failure domain of its own.
        MachineIdentity::JoiningMember(address) => {
            let domain = FailureDomain::new(address.as_str()).map_err(membership::unusable)?;
            (address.clone(), domain)
        }
    };
    let place = StartEnvironment {
        nvram,
        disk: Arc::new(OsDisk::open(&records).map_err(io)?),
        records: records.display().to_string(),
        initial_members,
        replication,
        address,
        domain,
    };
    let endpoint = secret.map(|secret| {
        let directory = place
            .disk
            .subdir(JOIN_DIRECTORY)
            .map_err(membership::unusable)?;
        Ok::<_, OpenError>(Arc::new(JoinEndpoint::new(directory, secret)))
    });
    let endpoint = endpoint.transpose()?;
    let mut random = Random::new(entropy_seed());
    let began = Instant::now();
    loop {
        let entered = place.nvram.enter().map_err(io)?;
        let was = match place.stands()? {
            StartMode::Begins(incarnation) => {
                return place.begins(*incarnation, endpoint, saves.is_some());
            }
            StartMode::RequestsToJoin(was) => was,
            StartMode::Waits => None,
        };
        drop(entered);
        let Some(endpoint) = &endpoint else {
            let why = "others have begun, or gone on, without this machine; \
                       without leases it cannot join them";
            return Err(OpenError::Configuration(why.into()));
        };
        if let Some(admitted) =
            place.request_to_join(endpoint, was, began.elapsed(), &mut random)?
            && let Some(begun) = place.joins(admitted, endpoint, saves.is_some())?
        {
            return Ok(begun);
        }
        if began.elapsed() > JOIN_TIME_LIMIT {
            let why = "no member of the cluster admits this machine".into();
            return Err(OpenError::Incomplete(JOIN_TIME_LIMIT.as_secs(), why));
        }
        std::thread::sleep(REST);
    }
}

impl StartEnvironment<'_> {
    /// Returns how the machine starts. The caller holds the entry lock, so no other machine starts
    /// now.
    fn stands(&self) -> Result<StartMode, OpenError> {
        let Some(current) = HostStore::look(&*self.disk).map_err(stored)? else {
            let first = self.begin_first()?;
            return Ok(StartMode::Begins(Box::new(first)));
        };
        let last = self.nvram.last(current.id().0).map_err(io)?;
        let incarnation = last.ok_or_else(|| again(RestartError::Nothing))?;
        let me = current.at_address(&self.address);
        let is_alive = self.nvram.is_alive(incarnation).map_err(io)?;
        Ok(match me {
            Some(me) if !is_alive => {
                StartMode::Begins(Box::new(self.begin_again(&current, incarnation, me)?))
            }
            Some(me) if current.id().0 == incarnation && !self.nvram.has_lived(incarnation, me) => {
                StartMode::Begins(Box::new(StartIncarnation {
                    number: incarnation,
                    me,
                    resumed: self.begun(incarnation)?,
                    loaded: LoadReport::default(),
                }))
            }
            None if !is_alive => StartMode::Waits,
            was => StartMode::RequestsToJoin(was),
        })
    }

    /// Starts the first incarnation.
    fn begin_first(&self) -> Result<StartIncarnation, OpenError> {
        let initial_members = self.initial_members;
        let Some(me) = initial_members.at_address(&self.address) else {
            let why = "no machine of the cluster runs that could let others in";
            return Err(OpenError::Configuration(why.into()));
        };
        // An incarnation that never had a machine does not count.
        for machine in initial_members.machines() {
            if self.nvram.has_ever_lived(machine.id).map_err(io)? {
                return Err(OpenError::Restart(format!(
                    "there is the memory of machines, and {} does not say who they were",
                    self.records
                )));
            }
        }
        let number = initial_members.id().0;
        self.nvram.begin(number, &[]).map_err(io)?;
        self.swap(me, None, initial_members)?;
        Ok(StartIncarnation {
            number,
            me,
            resumed: None,
            loaded: LoadReport::default(),
        })
    }

    /// Returns the region map with which an incarnation began, if it began with regions.
    fn begun(&self, incarnation: u64) -> Result<Option<RestartState>, OpenError> {
        let map = self.nvram.map(incarnation).map_err(io)?;
        if map.is_empty() {
            return Ok(None);
        }
        let begun = RestartState::unseal(&map);
        begun
            .map(Some)
            .map_err(|why| OpenError::Restart(why.to_string()))
    }

    /// Starts the next incarnation after all machines have ended.
    fn begin_again(
        &self,
        current: &Configuration,
        incarnation: u64,
        me: MachineId,
    ) -> Result<StartIncarnation, OpenError> {
        let nvram = &self.nvram;
        let begun = self.begun(incarnation)?;
        let members = current.machines().iter().map(|machine| machine.id);
        let loaded = LoadReport::of(nvram, incarnation, members)
            .map_err(|why| OpenError::Restart(why.to_string()))?;
        let before = (current, begun.as_ref());
        let resumed = repair_memory(&nvram.after(incarnation), before, self.replication);
        let resumed = resumed.map_err(|why| match loaded.damaged.is_empty() {
            true => again(why),
            false => OpenError::Restart(format!("{why}; {}", loaded.damaged.join("; "))),
        })?;
        let number = resumed.configuration.id().0;
        nvram.begin(number, &resumed.seal()).map_err(io)?;
        self.swap(me, Some(current), &resumed.configuration)?;
        let places = resumed.places();
        nvram.forget_before(number, &places).map_err(io)?;
        Ok(StartIncarnation {
            number,
            me,
            resumed: Some(resumed),
            loaded,
        })
    }

    fn swap(
        &self,
        me: MachineId,
        current: Option<&Configuration>,
        next: &Configuration,
    ) -> Result<(), OpenError> {
        let store = HostStore::keeping(Arc::clone(&self.disk), me).map_err(stored)?;
        swap(&store, current, next)
    }

    /// Starts the machine together with all others.
    fn begins(
        self,
        incarnation: StartIncarnation,
        endpoint: Option<Arc<JoinEndpoint>>,
        saves: bool,
    ) -> Result<ReadyMachine, OpenError> {
        let StartIncarnation {
            number,
            me,
            resumed,
            loaded,
        } = incarnation;
        let configuration = resumed
            .as_ref()
            .map_or(self.initial_members, |resumed| &resumed.configuration);
        let configuration = configuration.clone();
        let places = resumed.as_ref().map_or_else(Vec::new, RestartState::places);
        let regions = places.into_iter().filter(|(machine, _)| *machine == me);
        let home = self.home(number, me, regions.map(|(_, region)| region))?;
        let store = self.store(me)?;
        let saver = saves.then(|| Saver::new(self.nvram, Arc::clone(&store), number, me));
        Ok(ReadyMachine {
            home,
            part: part((me, configuration, false), store, endpoint),
            memory: Memory {
                resumed: resumed.map(Arc::new),
                before: None,
                loaded,
                saver,
            },
        })
    }

    /// Sends one join request to the running machines. Returns the new number and configuration.
    fn request_to_join(
        &self,
        endpoint: &Arc<JoinEndpoint>,
        was: Option<MachineId>,
        since: Duration,
        random: &mut Random,
    ) -> Result<Option<(MachineId, Configuration)>, OpenError> {
        let Some(current) = HostStore::look(&*self.disk).map_err(stored)? else {
            return Ok(None);
        };
        let Some(incarnation) = self.nvram.last(current.id().0).map_err(io)? else {
            return Ok(None);
        };
        if was.is_some_and(|was| self.nvram.has_process(incarnation, was)) {
            if since > ENDING {
                let why = "another process is this machine".into();
                return Err(OpenError::Configuration(why));
            }
            return Ok(None);
        }
        // The others have not evicted this machine's predecessor yet.
        if !self.nvram.is_alive(incarnation).map_err(io)? || current.has_address(&self.address) {
            return Ok(None);
        }
        let (address, domain) = (self.address.clone(), self.domain.clone());
        let request = membership::request(self.initial_members, address, domain);
        match membership::hear(endpoint, &request, random) {
            Err(NotAdmitted::Refused(JoinRefusal::Busy | JoinRefusal::AddressInUse)) => Ok(None),
            heard => heard.map_err(OpenError::NotAdmitted),
        }
    }

    /// Starts a machine that has been admitted. Returns `None` if all machines have ended since.
    fn joins(
        &self,
        (me, configuration): (MachineId, Configuration),
        endpoint: &Arc<JoinEndpoint>,
        saves: bool,
    ) -> Result<Option<ReadyMachine>, OpenError> {
        let _entered = self.nvram.enter().map_err(io)?;
        let Some(incarnation) = self.nvram.last(configuration.id().0).map_err(io)? else {
            return Ok(None);
        };
        if !self.nvram.is_alive(incarnation).map_err(io)? {
            return Ok(None);
        }
        let all = configuration.machines().iter().map(|machine| machine.id);
        let before = self
            .nvram
            .evicted_memory(incarnation, me, &all.collect::<Vec<_>>());
        let home = self.home(incarnation, me, [])?;
        // Removes the shared memory of earlier machines that have ended.
        let cleared = home.clear_away(&members(&configuration));
        cleared.map_err(|error| OpenError::Machine(error.into()))?;
        let store = self.store(me)?;
        let nvram = self.nvram.clone();
        Ok(Some(ReadyMachine {
            home,
            memory: Memory {
                saver: saves.then(|| Saver::new(nvram, Arc::clone(&store), incarnation, me)),
                before: Some(Arc::new(before)),
                ..Memory::default()
            },
            part: part((me, configuration, true), store, Some(Arc::clone(endpoint))),
        }))
    }

    fn home(
        &self,
        incarnation: u64,
        me: MachineId,
        regions: impl IntoIterator<Item = u32>,
    ) -> Result<MachineDirectory, OpenError> {
        if !self.nvram.is_of_this_boot(incarnation) {
            let why = "the memory of these machines is another host's: all machines of the nvram \
                       tier are on one";
            return Err(OpenError::Tier(why));
        }
        let living = self.nvram.join(incarnation).map_err(io)?;
        let home = self.nvram.home_in(incarnation, me, regions, living);
        home.map_err(|error| OpenError::Machine(error.into()))
    }

    fn store(&self, me: MachineId) -> Result<Arc<dyn ConfigStore>, OpenError> {
        let store = HostStore::keeping(Arc::clone(&self.disk), me).map_err(stored)?;
        Ok(Arc::new(store))
    }
}

/// Returns the role of a machine. Without a join endpoint it has no leases, and no place is taken.
fn part(
    (me, configuration, joins): (MachineId, Configuration, bool),
    store: Arc<dyn ConfigStore>,
    endpoint: Option<Arc<JoinEndpoint>>,
) -> MachineRole {
    MachineRole {
        me,
        configuration,
        joins,
        store_access: endpoint.map(|endpoint| StoreAccess {
            store,
            endpoint,
            place: None,
            awaits: None,
            again: None,
        }),
    }
}

fn swap(
    store: &HostStore,
    current: Option<&Configuration>,
    next: &Configuration,
) -> Result<(), OpenError> {
    let expected = current.map(Configuration::id);
    match store
        .compare_and_swap(expected, next)
        .block_on()
        .map_err(stored)?
    {
        SwapOutcome::Won => Ok(()),
        SwapOutcome::Lost => Err(OpenError::Configuration(
            "another process changes the configuration".into(),
        )),
    }
}

fn io(error: std::io::Error) -> OpenError {
    OpenError::Restart(error.to_string())
}

fn again(error: RestartError) -> OpenError {
    OpenError::Restart(error.to_string())
}

fn stored(error: StoreError) -> OpenError {
    OpenError::Configuration(error.to_string())
}
