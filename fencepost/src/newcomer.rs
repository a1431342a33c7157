//! What a machine is to be among the others: one of those that a cluster begins with, or one that joins while they run.
//!
//! ```text
//! nobody runs, or a founder that has not run yet ─► founder, in the first configuration
//! others run, and this founder has run before    ─┐
//! no founder                                     ─┴► knock ─► a new member, under a new number
//! ```
//! A machine whose process has ended is nobody's any more: whatever it had others have, and its number is not given
//! again. So it comes back as any other machine would that was never there; until the others have gone on without it, its
//! address is in use, and it knocks again.
//!
//! One that keeps its data on a disk is another matter (`disks.rs`).
//!
//! # Failure
//! Who is refused says why and ends. Who hears nothing, or that the configuration is being changed, tries for some time.
//! A founder that ends before all of them were there finds nobody who could let it in: all are started again.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost_cluster::join::{
    ClusterSecret, Door, Heard, JoinRefusal, JoinRequest, Keeps, NotAdmitted, PROTOCOL_VERSION,
};
use fencepost_cluster::{
    Address, ConfigStore, Configuration, FailureDomain, HostStore, MachineId, Standing, StoreError,
    Swapped,
};
use fencepost_fabric::{Disk, OsDisk, Random, entropy_seed};
use pollster::FutureExt;

use crate::disks::Again;
use crate::error::OpenError;

/// The directory in which the configuration is kept, in the one that was named.
pub(crate) const CONFIGURATION: &str = "configuration";
/// The directory in that one where machines ask to be let in.
pub(crate) const DOOR: &str = "door";
/// How long a machine tries to get in.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// How long an answer is waited for.
pub(crate) const SILENCE: Duration = Duration::from_secs(5);
/// How long the process that was this machine before may take to end once it is killed.
const ENDING: Duration = Duration::from_secs(5);
/// Between two tries.
pub(crate) const REST: Duration = Duration::from_millis(50);
/// Between two looks for an answer.
pub(crate) const NAP: Duration = Duration::from_millis(2);

/// What a machine is to be.
pub(crate) struct Part {
    pub me: MachineId,
    pub configuration: Configuration,
    /// Whether it has yet to apply that.
    pub joins: bool,
    pub kept: Option<Kept>,
}

/// Where the configuration is kept, and where others ask to be in it.
pub(crate) struct Kept {
    pub store: Arc<dyn ConfigStore>,
    pub door: Arc<Door>,
    pub place: Option<Place>,
    /// Why the store does not count on this machine yet, where it does so at all: nobody is ready before.
    pub awaits: Option<Awaits>,
    /// Of a machine that keeps its data on a disk.
    pub again: Option<Again>,
}

/// What there is to wait for, if anything.
pub(crate) type Awaits = Box<dyn Fn() -> Option<String>>;

/// Gives the place of a founder back, which has never met any of the others, so that it can begin again.
pub(crate) type Place = Box<dyn Fn()>;

impl Part {
    /// Gives the place of a founder back.
    pub fn give_back(&self) {
        if let Some(give_back) = self.kept.as_ref().and_then(|kept| kept.place.as_ref()) {
            give_back();
        }
    }
}

/// What a machine is called: one of the first configuration, or another one.
pub(crate) enum Who {
    Founder(MachineId),
    Newcomer(Address),
}

impl Who {
    /// The part of a machine where failed ones are not replaced.
    pub fn alone(self, first: Configuration) -> Result<Part, OpenError> {
        match self {
            Who::Founder(me) => Ok(Part {
                me,
                configuration: first,
                joins: false,
                kept: None,
            }),
            Who::Newcomer(_) => {
                let why = "machines join only where they have leases and keep their configuration";
                Err(OpenError::Configuration(why.into()))
            }
        }
    }

    /// The part of a machine of a cluster that keeps its configuration in `directory`.
    pub fn among_those_of(
        self,
        directory: &Path,
        first: Configuration,
        secret: ClusterSecret,
    ) -> Result<Part, OpenError> {
        let disk = OsDisk::open(directory.join(CONFIGURATION)).map_err(unusable)?;
        let disk: Arc<dyn Disk> = Arc::new(disk);
        let door = Door::new(disk.subdir(DOOR).map_err(unusable)?, secret);
        let door = Arc::new(door);
        let (address, domain) = match self {
            Who::Newcomer(address) => {
                if HostStore::standing(&*disk, None).map_err(store)? == Standing::Nobody {
                    let why = "no machine of the cluster runs that could let others in";
                    return Err(OpenError::Configuration(why.into()));
                }
                // It shares the fate of nobody else.
                let domain = FailureDomain::new(address.as_str()).map_err(unusable)?;
                (address, domain)
            }
            Who::Founder(me) => {
                let standing = standing_of(&*disk, me)?;
                if standing != Standing::Before {
                    let kept = HostStore::open(Arc::clone(&disk), me).map_err(store)?;
                    if is_first(&kept, &first)? {
                        return Ok(Part {
                            me,
                            configuration: first,
                            joins: false,
                            kept: Some(Kept {
                                store: Arc::new(kept),
                                door,
                                place: None,
                                awaits: None,
                                again: None,
                            }),
                        });
                    }
                }
                let founder = first.machine(me);
                let founder = founder.expect("CONFIG-1: founders are in the first configuration");
                (founder.address.clone(), founder.domain.clone())
            }
        };
        let (me, configuration) = knock(&door, &first, address, domain)?;
        let kept = HostStore::keeping(disk, me).map_err(store)?;
        Ok(Part {
            me,
            configuration,
            joins: true,
            kept: Some(Kept {
                store: Arc::new(kept),
                door,
                place: None,
                awaits: None,
                again: None,
            }),
        })
    }
}

/// Who lives besides a founder, whose process before may still be ending.
fn standing_of(disk: &dyn Disk, me: MachineId) -> Result<Standing, OpenError> {
    let began = Instant::now();
    loop {
        match HostStore::standing(disk, Some(me)) {
            Err(_) if began.elapsed() < ENDING => std::thread::sleep(REST),
            standing => return standing.map_err(store),
        }
    }
}

/// Whether the machines are still in their first configuration; puts it there if there is none.
pub(crate) fn is_first(kept: &dyn ConfigStore, first: &Configuration) -> Result<bool, OpenError> {
    if kept
        .compare_and_swap(None, first)
        .block_on()
        .map_err(store)?
        == Swapped::Won
    {
        return Ok(true);
    }
    let current = kept.read().block_on().map_err(store)?;
    Ok(current.as_ref() == Some(first))
}

/// What a machine asks for that is to join the cluster that began with `first`.
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
        keeps: Keeps::Nothing,
    }
}

/// Asks to be let into the cluster that began with `first`, until somebody does that.
pub(crate) fn knock(
    door: &Arc<Door>,
    first: &Configuration,
    address: Address,
    domain: FailureDomain,
) -> Result<(MachineId, Configuration), OpenError> {
    let request = request(first, address, domain);
    let mut random = Random::new(entropy_seed());
    let began = Instant::now();
    loop {
        let heard = hear(door, &request, &mut random);
        let why = match heard {
            Ok(Some(admitted)) => return Ok(admitted),
            Ok(None) => None,
            // It may itself have been the one with its address.
            Err(NotAdmitted::Refused(why @ (JoinRefusal::Busy | JoinRefusal::AddressInUse))) => {
                Some(NotAdmitted::Refused(why))
            }
            Err(why) => return Err(OpenError::NotAdmitted(why)),
        };
        if began.elapsed() > PATIENCE {
            let silent = || OpenError::Incomplete(PATIENCE.as_secs(), "nobody answers".into());
            return Err(why.map_or_else(silent, OpenError::NotAdmitted));
        }
        std::thread::sleep(REST);
    }
}

/// Asks once; `None` where nobody answers.
pub(crate) fn hear(
    door: &Arc<Door>,
    request: &JoinRequest,
    random: &mut Random,
) -> Result<Option<(MachineId, Configuration)>, NotAdmitted> {
    let mut knock = door.knock(request.clone(), random)?;
    let began = Instant::now();
    while began.elapsed() < SILENCE {
        match knock.hear()? {
            Some(Heard::Joined(me, configuration)) => return Ok(Some((me, configuration))),
            // It is not offered anything that has no disk.
            Some(Heard::Offered(_)) => return Ok(None),
            None => {}
        }
        std::thread::sleep(NAP);
    }
    Ok(None)
}

pub(crate) fn unusable(error: impl ToString) -> OpenError {
    OpenError::Configuration(error.to_string())
}

pub(crate) fn store(error: StoreError) -> OpenError {
    OpenError::Store(error)
}
