//! Determines the role of a machine: an initial member of a cluster, or a machine that joins a
//! running one.
//!
//! ```text
//! no machine runs, or initial member that has not run ─► starts in the first configuration
//! others run, and this initial member has run before  ─┐
//! no initial member                                   ─┴► join request ─► member with a new number
//! ```
//! When the process of a machine ends, the other machines have its data, and its number is not used
//! again. So it returns like a new machine. Until the others have evicted it, its address is in
//! use, and it repeats the join request.
//!
//! A machine that keeps its data on a disk restarts differently (`disks.rs`).
//!
//! # Failure
//! A refused machine reports the reason and ends. If there is no reply, or the configuration is
//! being changed, the machine retries for some time. If an initial member ends before all of them
//! were ready, no machine can admit it: restart all of them.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost_cluster::join::{
    ClusterSecret, DurableData, JoinEndpoint, JoinOutcome, JoinRefusal, JoinRequest, NotAdmitted,
    PROTOCOL_VERSION,
};
use fencepost_cluster::{
    Address, ConfigStore, Configuration, DirectoryUse, FailureDomain, HostStore, MachineId,
    StoreError, SwapOutcome,
};
use fencepost_fabric::{Disk, OsDisk, Random, entropy_seed};
use pollster::FutureExt;

use crate::disks::StoreRestart;
use crate::error::OpenError;

/// The subdirectory of the shared directory that holds the configuration.
pub(crate) const CONFIGURATION: &str = "configuration";
/// The subdirectory of the configuration directory for join requests.
pub(crate) const JOIN_DIRECTORY: &str = "join";
/// The time limit for joining.
pub(crate) const JOIN_TIME_LIMIT: Duration = Duration::from_secs(60);
/// The time limit for one reply.
pub(crate) const SILENCE: Duration = Duration::from_secs(5);
/// The longest time that this machine's previous process may need to end after it is killed.
const ENDING: Duration = Duration::from_secs(5);
/// The delay between two attempts.
pub(crate) const REST: Duration = Duration::from_millis(50);
/// The delay between two checks for a reply.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The role of a machine at its start.
pub(crate) struct MachineRole {
    pub me: MachineId,
    pub configuration: Configuration,
    /// Whether the machine still has to apply that configuration.
    pub joins: bool,
    pub store_access: Option<StoreAccess>,
}

/// The configuration store, and the join endpoint.
pub(crate) struct StoreAccess {
    pub store: Arc<dyn ConfigStore>,
    pub endpoint: Arc<JoinEndpoint>,
    pub place: Option<ReleaseMember>,
    /// Returns why the store does not count on this machine yet. Until then the machine is not
    /// ready. `None` if the store never waits for machines.
    pub awaits: Option<WaitReason>,
    /// For a machine that keeps its data on a disk.
    pub again: Option<StoreRestart>,
}

/// Returns the reason to wait, if there is one.
pub(crate) type WaitReason = Box<dyn Fn() -> Option<String>>;

/// Releases the place of an initial member that has met no other machine, so that it can start
/// again.
pub(crate) type ReleaseMember = Box<dyn Fn()>;

impl MachineRole {
    /// Releases the place of an initial member, if it has one.
    pub fn give_back(&self) {
        let access = self.store_access.as_ref();
        if let Some(give_back) = access.and_then(|access| access.place.as_ref()) {
            give_back();
        }
    }
}

/// The identity of a machine: an initial member of the first configuration, or a joining machine.
pub(crate) enum MachineIdentity {
    InitialMember(MachineId),
    JoiningMember(Address),
}

impl MachineIdentity {
    /// Returns the role of a machine in a cluster that does not replace failed machines.
    pub fn alone(self, first: Configuration) -> Result<MachineRole, OpenError> {
        match self {
            MachineIdentity::InitialMember(me) => Ok(MachineRole {
                me,
                configuration: first,
                joins: false,
                store_access: None,
            }),
            MachineIdentity::JoiningMember(_) => {
                let why = "machines join only where they have leases and keep their configuration";
                Err(OpenError::Configuration(why.into()))
            }
        }
    }

    /// Returns the role of a machine in a cluster that keeps its configuration in `directory`.
    pub fn among_those_of(
        self,
        directory: &Path,
        first: Configuration,
        secret: ClusterSecret,
    ) -> Result<MachineRole, OpenError> {
        let disk = OsDisk::open(directory.join(CONFIGURATION)).map_err(unusable)?;
        let disk: Arc<dyn Disk> = Arc::new(disk);
        let endpoint = JoinEndpoint::new(disk.subdir(JOIN_DIRECTORY).map_err(unusable)?, secret);
        let endpoint = Arc::new(endpoint);
        let (address, domain) = match self {
            MachineIdentity::JoiningMember(address) => {
                if HostStore::standing(&*disk, None).map_err(store)? == DirectoryUse::Unused {
                    let why = "no machine of the cluster runs that could let others in";
                    return Err(OpenError::Configuration(why.into()));
                }
                // The machine is a failure domain of its own.
                let domain = FailureDomain::new(address.as_str()).map_err(unusable)?;
                (address, domain)
            }
            MachineIdentity::InitialMember(me) => {
                let standing = standing_of(&*disk, me)?;
                if standing != DirectoryUse::Before {
                    let config_store = HostStore::open(Arc::clone(&disk), me).map_err(store)?;
                    if is_first(&config_store, &first)? {
                        return Ok(MachineRole {
                            me,
                            configuration: first,
                            joins: false,
                            store_access: Some(StoreAccess {
                                store: Arc::new(config_store),
                                endpoint,
                                place: None,
                                awaits: None,
                                again: None,
                            }),
                        });
                    }
                }
                let member = first.machine(me);
                let member =
                    member.expect("CONFIG-1: initial members are in the first configuration");
                (member.address.clone(), member.domain.clone())
            }
        };
        let (me, configuration) = request_to_join(&endpoint, &first, address, domain)?;
        let config_store = HostStore::keeping(disk, me).map_err(store)?;
        Ok(MachineRole {
            me,
            configuration,
            joins: true,
            store_access: Some(StoreAccess {
                store: Arc::new(config_store),
                endpoint,
                place: None,
                awaits: None,
                again: None,
            }),
        })
    }
}

/// Returns which machines run besides an initial member, whose previous process may still be
/// ending.
fn standing_of(disk: &dyn Disk, me: MachineId) -> Result<DirectoryUse, OpenError> {
    let began = Instant::now();
    loop {
        match HostStore::standing(disk, Some(me)) {
            Err(_) if began.elapsed() < ENDING => std::thread::sleep(REST),
            standing => return standing.map_err(store),
        }
    }
}

/// Returns whether the cluster is still in its first configuration. Writes that if there is none.
pub(crate) fn is_first(
    config_store: &dyn ConfigStore,
    first: &Configuration,
) -> Result<bool, OpenError> {
    if config_store
        .compare_and_swap(None, first)
        .block_on()
        .map_err(store)?
        == SwapOutcome::Won
    {
        return Ok(true);
    }
    let current = config_store.read().block_on().map_err(store)?;
    Ok(current.as_ref() == Some(first))
}

/// Returns the join request of a machine for the cluster that began with `first`.
pub(crate) fn request(
    first: &Configuration,
    address: Address,
    domain: FailureDomain,
) -> JoinRequest {
    JoinRequest {
        version: PROTOCOL_VERSION,
        cluster: Some(first.cluster()),
        address,
        domain,
        keeps: DurableData::Nothing,
    }
}

/// Sends join requests to the cluster that began with `first`, until it admits this machine.
pub(crate) fn request_to_join(
    endpoint: &Arc<JoinEndpoint>,
    first: &Configuration,
    address: Address,
    domain: FailureDomain,
) -> Result<(MachineId, Configuration), OpenError> {
    let request = request(first, address, domain);
    let mut random = Random::new(entropy_seed());
    let began = Instant::now();
    loop {
        let heard = hear(endpoint, &request, &mut random);
        let why = match heard {
            Ok(Some(admitted)) => return Ok(admitted),
            Ok(None) => None,
            // The address may be in use by this machine's previous process.
            Err(NotAdmitted::Refused(why @ (JoinRefusal::Busy | JoinRefusal::AddressInUse))) => {
                Some(NotAdmitted::Refused(why))
            }
            Err(why) => return Err(OpenError::NotAdmitted(why)),
        };
        if began.elapsed() > JOIN_TIME_LIMIT {
            let silent =
                || OpenError::Incomplete(JOIN_TIME_LIMIT.as_secs(), "no machine answers".into());
            return Err(why.map_or_else(silent, OpenError::NotAdmitted));
        }
        std::thread::sleep(REST);
    }
}

/// Sends one join request. Returns `None` if there is no reply.
pub(crate) fn hear(
    endpoint: &Arc<JoinEndpoint>,
    request: &JoinRequest,
    random: &mut Random,
) -> Result<Option<(MachineId, Configuration)>, NotAdmitted> {
    let mut attempt = endpoint.begin_join(request.clone(), random)?;
    let began = Instant::now();
    while began.elapsed() < SILENCE {
        match attempt.hear()? {
            Some(JoinOutcome::Joined(me, configuration)) => return Ok(Some((me, configuration))),
            // A machine without a disk gets no offer.
            Some(JoinOutcome::Offered(_)) => return Ok(None),
            None => {}
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(None)
}

pub(crate) fn unusable(error: impl ToString) -> OpenError {
    OpenError::Configuration(error.to_string())
}

pub(crate) fn store(error: StoreError) -> OpenError {
    OpenError::Store(error)
}
