//! How a machine that keeps its data on a disk finds its cluster. It waits for other machines that
//! restart from their disks, and for running machines that admit it, whichever happens first.
//!
//! ```text
//!             ┌─ others restart: all agree on a configuration ─► Again::go_on_with ─► all run
//! Contents ───┤
//!             └─ others run, without this machine ─► Knocking ─► offer, recorded ─► admitted
//! ```
//! Before the machine is admitted, it records the new identity on its disk; its old data is not
//! used.
//!
//! # Failure
//! A machine ends if the others have a later configuration than the one that it has agreed on,
//! because they have evicted it.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use fencepost_cluster::join::{
    ClusterSecret, DurableData, JoinAttempt, JoinEndpoint, JoinOutcome, JoinRefusal, JoinRequest,
    NotAdmitted, PROTOCOL_VERSION,
};
use fencepost_cluster::{
    Address, ConfigStore, Configuration, ConfigurationId, FailureDomain, HostStore, Machine,
    MachineId, StoreError, SwapOutcome,
};
use fencepost_fabric::{Disk, OsDisk, Random, entropy_seed};
use fencepost_txn::network::disk::{Contents, StoreState};
use pollster::FutureExt;

use crate::error::OpenError;
use crate::membership::{
    CONFIGURATION, JOIN_DIRECTORY, JOIN_TIME_LIMIT, MachineRole, POLL_INTERVAL, REST, SILENCE,
    StoreAccess, store, unusable,
};

/// A machine's number and configuration according to the disks, and whether it has just been
/// admitted.
pub(crate) type DiskIdentity = (MachineId, Configuration, bool);

/// The access of an outsider to a cluster that may be running.
pub(crate) struct OutsiderAccess {
    pub endpoint: Arc<JoinEndpoint>,
    /// Reads the current configuration.
    pub look: ReadConfiguration,
}

type ReadConfiguration = Box<dyn Fn() -> Result<Option<Configuration>, OpenError>>;
type Verify = Box<dyn Fn(&Configuration) -> Result<(), OpenError>>;

/// The means by which machines with disks restart together with a configuration store.
pub(crate) struct StoreRestart {
    pub outside: OutsiderAccess,
    /// Creates a store of the machines of a configuration, all of which restart. Used if the store
    /// loses its data when all machines end; otherwise `None`.
    pub found: Option<Verify>,
}

impl OutsiderAccess {
    /// Returns the configuration of the running machines, or of the last ones that ran.
    pub fn stored(&self) -> Result<Option<Configuration>, OpenError> {
        (self.look)()
    }

    /// Returns the access to machines that keep their configuration in a directory.
    pub fn of_directory(
        directory: &Path,
        secret: ClusterSecret,
    ) -> Result<OutsiderAccess, OpenError> {
        let disk = OsDisk::open(directory.join(CONFIGURATION)).map_err(unusable)?;
        let endpoint = JoinEndpoint::new(disk.subdir(JOIN_DIRECTORY).map_err(unusable)?, secret);
        Ok(OutsiderAccess {
            endpoint: Arc::new(endpoint),
            look: Box::new(move || HostStore::look(&disk).map_err(store)),
        })
    }
}

impl StoreRestart {
    /// Returns the state of the store.
    pub fn stored(&self) -> Result<StoreState, OpenError> {
        if self.found.is_some() {
            return Ok(StoreState::Forgotten);
        }
        let stored = self.outside.stored()?;
        Ok(StoreState::Last(
            stored
                .as_ref()
                .map_or(ConfigurationId(0), Configuration::id),
        ))
    }

    /// Writes the configuration with which all machines restart to the store.
    pub fn go_on_with(
        &self,
        config_store: &dyn ConfigStore,
        next: &Configuration,
    ) -> Result<(), OpenError> {
        if let Some(found) = &self.found {
            found(next)?;
        }
        go_on_with(config_store, next)
    }
}

/// Returns the role of a machine with a disk in a cluster that keeps its configuration in
/// `directory`.
pub(crate) fn part_of_directory(
    directory: &Path,
    (me, configuration, joins): DiskIdentity,
    secret: ClusterSecret,
) -> Result<MachineRole, OpenError> {
    let outside = OutsiderAccess::of_directory(directory, secret)?;
    let disk = OsDisk::open(directory.join(CONFIGURATION)).map_err(unusable)?;
    let config_store = HostStore::keeping(Arc::new(disk), me).map_err(store)?;
    Ok(MachineRole {
        me,
        configuration,
        joins,
        store_access: Some(StoreAccess {
            store: Arc::new(config_store),
            endpoint: Arc::clone(&outside.endpoint),
            place: None,
            awaits: None,
            again: Some(StoreRestart {
                outside,
                found: None,
            }),
        }),
    })
}

/// Writes the configuration of a restart to the store, unless the store has a later one.
fn go_on_with(config_store: &dyn ConfigStore, next: &Configuration) -> Result<(), OpenError> {
    let began = Instant::now();
    loop {
        match swap_to(config_store, next) {
            Ok(SwapOutcome::Won) => return Ok(()),
            Ok(SwapOutcome::Lost) => {}
            // On a busy host the store's members may need time to elect a leader.
            Err(OpenError::Store(StoreError::Unreachable(_)))
                if began.elapsed() < JOIN_TIME_LIMIT =>
            {
                std::thread::sleep(REST);
            }
            Err(why) => return Err(why),
        }
    }
}

/// Tries to write the configuration once. Also succeeds if the store has it already.
fn swap_to(config_store: &dyn ConfigStore, next: &Configuration) -> Result<SwapOutcome, OpenError> {
    let current = config_store.read().block_on().map_err(store)?;
    if current.as_ref() == Some(next) {
        return Ok(SwapOutcome::Won);
    }
    let expected = current.as_ref().map(Configuration::id);
    // The agreed configuration is later than the store's configuration at the time of the
    // agreement.
    if expected.is_some_and(|expected| expected >= next.id()) {
        return Err(OpenError::Evicted);
    }
    config_store
        .compare_and_swap(expected, next)
        .block_on()
        .map_err(store)
}

/// Joins a running cluster as a machine that is no initial member.
pub(crate) fn come_in(
    outside: &OutsiderAccess,
    (first, address, domain): (&Configuration, Address, FailureDomain),
    mut contents: Contents,
) -> Result<(MachineId, Configuration, Contents), OpenError> {
    let own = Machine {
        id: MachineId(0),
        address,
        domain,
        leaving: false,
    };
    let mut attempt = DiskJoinAttempt::of(outside, first, &own);
    let began = Instant::now();
    loop {
        match attempt.look(contents.machine())? {
            Some(JoinOutcome::Joined(me, configuration)) => {
                return Ok((me, configuration, contents));
            }
            Some(JoinOutcome::Offered(offer)) => {
                contents.write_down(&offer).map_err(OpenError::Machine)?;
            }
            None if began.elapsed() > JOIN_TIME_LIMIT => {
                let why = "no machine answers".into();
                return Err(OpenError::Incomplete(JOIN_TIME_LIMIT.as_secs(), why));
            }
            None => std::thread::sleep(POLL_INTERVAL),
        }
    }
}

/// The join attempt of a machine with a disk, made while it also looks for other restarting
/// machines.
pub(crate) struct DiskJoinAttempt<'a> {
    outside: &'a OutsiderAccess,
    request: JoinRequest,
    random: Random,
    attempt: Option<(JoinAttempt, Instant)>,
    /// The time of the next check whether to send a join request.
    next: Instant,
}

impl DiskJoinAttempt<'_> {
    /// Returns a join attempt of machine `own` to the cluster that has the configuration `of`.
    pub fn of<'a>(
        outside: &'a OutsiderAccess,
        of: &Configuration,
        own: &Machine,
    ) -> DiskJoinAttempt<'a> {
        DiskJoinAttempt {
            outside,
            request: JoinRequest {
                version: PROTOCOL_VERSION,
                cluster: Some(of.cluster()),
                address: own.address.clone(),
                domain: own.domain.clone(),
                keeps: DurableData::Disk { written: None },
            },
            random: Random::new(entropy_seed()),
            attempt: None,
            next: Instant::now(),
        }
    }

    /// Checks for a reply, and sends a join request if none is pending. `written` is the machine
    /// number that the disk records.
    pub fn look(&mut self, written: Option<MachineId>) -> Result<Option<JoinOutcome>, OpenError> {
        if let Some((attempt, since)) = &mut self.attempt {
            let heard = match attempt.hear() {
                Ok(None) if since.elapsed() < SILENCE => return Ok(None),
                Ok(heard) => Ok(heard),
                Err(NotAdmitted::Refused(JoinRefusal::Busy | JoinRefusal::AddressInUse)) => {
                    Ok(None)
                }
                Err(why) => Err(OpenError::NotAdmitted(why)),
            };
            self.attempt = None;
            self.next = Instant::now() + REST;
            return heard;
        }
        if Instant::now() < self.next {
            return Ok(None);
        }
        self.next = Instant::now() + REST;
        // Without a stored configuration no machine runs. If the address is still in it, the others
        // have not evicted the machine of that address.
        let address = &self.request.address;
        let stored = match self.outside.stored() {
            // The store may be reachable the next time.
            Err(OpenError::Store(StoreError::Unreachable(_))) => None,
            stored => stored?,
        };
        if stored.is_some_and(|stored| !stored.has_address(address)) {
            self.request.keeps = DurableData::Disk { written };
            let endpoint = &self.outside.endpoint;
            let attempt = endpoint.begin_join(self.request.clone(), &mut self.random);
            let attempt = attempt.map_err(OpenError::NotAdmitted)?;
            self.attempt = Some((attempt, Instant::now()));
        }
        Ok(None)
    }
}
