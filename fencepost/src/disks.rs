//! How a machine that keeps its data on a disk finds those it belongs to: others that begin, too, with what their disks have, or
//! those who run and let it in, whichever comes first.
//!
//! ```text
//!             ┌─ others begin: all agree on a configuration ─► Again::go_on_with: the store has it ─► they run
//! Contents ───┤
//!             └─ others run, without this machine ─► Knocking ─► offered a number, written down ─► let in
//! ```
//! Where it is let in its disk says that before, and what was there is not used.
//!
//! # Failure
//! Who finds the others in a later configuration than the one that it has agreed on ends: they have gone on without it.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use fencepost_cluster::join::{
    ClusterSecret, Door, Heard, JoinRefusal, JoinRequest, Keeps, Knock, NotAdmitted,
    PROTOCOL_VERSION,
};
use fencepost_cluster::{
    Address, ConfigStore, Configuration, ConfigurationId, FailureDomain, HostStore, Machine,
    MachineId, StoreError, Swapped,
};
use fencepost_fabric::{Disk, OsDisk, Random, entropy_seed};
use fencepost_txn::network::disk::{Contents, Stored};
use pollster::FutureExt;

use crate::error::OpenError;
use crate::newcomer::{
    CONFIGURATION, DOOR, Kept, NAP, PATIENCE, Part, REST, SILENCE, store, unusable,
};

/// Which machine the disks say one is, in which configuration, and whether it has just been let in there.
pub(crate) type OnDiskAs = (MachineId, Configuration, bool);

/// What somebody can do who is none of the machines that run, if some do.
pub(crate) struct Outside {
    pub door: Arc<Door>,
    /// Reads the configuration.
    pub look: Look,
}

type Look = Box<dyn Fn() -> Result<Option<Configuration>, OpenError>>;
type Found = Box<dyn Fn(&Configuration) -> Result<(), OpenError>>;

/// How machines with disks begin again with a store.
pub(crate) struct Again {
    pub outside: Outside,
    /// Makes a store that has forgotten all one of the machines of a configuration again, all of which begin.
    pub found: Option<Found>,
}

impl Outside {
    /// The configuration of those who run, or ran last.
    pub fn stored(&self) -> Result<Option<Configuration>, OpenError> {
        (self.look)()
    }

    /// Of machines that keep their configuration in a directory.
    pub fn of_directory(directory: &Path, secret: ClusterSecret) -> Result<Outside, OpenError> {
        let disk = OsDisk::open(directory.join(CONFIGURATION)).map_err(unusable)?;
        let door = Door::new(disk.subdir(DOOR).map_err(unusable)?, secret);
        Ok(Outside {
            door: Arc::new(door),
            look: Box::new(move || HostStore::look(&disk).map_err(store)),
        })
    }
}

impl Again {
    /// What the store knows.
    pub fn stored(&self) -> Result<Stored, OpenError> {
        if self.found.is_some() {
            return Ok(Stored::Forgotten);
        }
        let stored = self.outside.stored()?;
        Ok(Stored::Last(
            stored
                .as_ref()
                .map_or(ConfigurationId(0), Configuration::id),
        ))
    }

    /// Has the store have the configuration that all machines begin again with.
    pub fn go_on_with(
        &self,
        kept: &dyn ConfigStore,
        next: &Configuration,
    ) -> Result<(), OpenError> {
        if let Some(found) = &self.found {
            found(next)?;
        }
        go_on_with(kept, next)
    }
}

/// The part of a machine of a cluster that keeps its configuration in `directory`.
pub(crate) fn part_of_directory(
    directory: &Path,
    (me, configuration, joins): OnDiskAs,
    secret: ClusterSecret,
) -> Result<Part, OpenError> {
    let outside = Outside::of_directory(directory, secret)?;
    let disk = OsDisk::open(directory.join(CONFIGURATION)).map_err(unusable)?;
    let kept = HostStore::keeping(Arc::new(disk), me).map_err(store)?;
    Ok(Part {
        me,
        configuration,
        joins,
        kept: Some(Kept {
            store: Arc::new(kept),
            door: Arc::clone(&outside.door),
            place: None,
            awaits: None,
            again: Some(Again {
                outside,
                found: None,
            }),
        }),
    })
}

/// Has the store have the configuration that machines begin again with, unless it has a later one by now.
fn go_on_with(kept: &dyn ConfigStore, next: &Configuration) -> Result<(), OpenError> {
    let began = Instant::now();
    loop {
        match swap_to(kept, next) {
            Ok(Swapped::Won) => return Ok(()),
            Ok(Swapped::Lost) => {}
            // On a busy host those who keep it may take their time to elect who leads.
            Err(OpenError::Store(StoreError::Unreachable(_))) if began.elapsed() < PATIENCE => {
                std::thread::sleep(REST);
            }
            Err(why) => return Err(why),
        }
    }
}

/// Tries once; that the store has it already is as good.
fn swap_to(kept: &dyn ConfigStore, next: &Configuration) -> Result<Swapped, OpenError> {
    let current = kept.read().block_on().map_err(store)?;
    if current.as_ref() == Some(next) {
        return Ok(Swapped::Won);
    }
    let expected = current.as_ref().map(Configuration::id);
    // What all have agreed on is later than what the store had then.
    if expected.is_some_and(|expected| expected >= next.id()) {
        return Err(OpenError::Evicted);
    }
    kept.compare_and_swap(expected, next)
        .block_on()
        .map_err(store)
}

/// Has a machine that none of those who began knows let in by those who run.
pub(crate) fn come_in(
    outside: &Outside,
    (first, address, domain): (&Configuration, Address, FailureDomain),
    mut contents: Contents,
) -> Result<(MachineId, Configuration, Contents), OpenError> {
    let own = Machine {
        id: MachineId(0),
        address,
        domain,
        leaving: false,
    };
    let mut knocking = Knocking::of(outside, first, &own);
    let began = Instant::now();
    loop {
        match knocking.look(contents.machine())? {
            Some(Heard::Joined(me, configuration)) => return Ok((me, configuration, contents)),
            Some(Heard::Offered(offer)) => {
                contents.write_down(&offer).map_err(OpenError::Machine)?;
            }
            None if began.elapsed() > PATIENCE => {
                let why = "nobody answers".into();
                return Err(OpenError::Incomplete(PATIENCE.as_secs(), why));
            }
            None => std::thread::sleep(NAP),
        }
    }
}

/// A machine that keeps its data on a disk asks to be let in by those who run, while it looks for others that begin as well.
pub(crate) struct Knocking<'a> {
    outside: &'a Outside,
    request: JoinRequest,
    random: Random,
    knock: Option<(Knock, Instant)>,
    /// When it looks again whether to knock.
    next: Instant,
}

impl Knocking<'_> {
    /// One that is to be at that place of a cluster that `of` is a configuration of.
    pub fn of<'a>(outside: &'a Outside, of: &Configuration, own: &Machine) -> Knocking<'a> {
        Knocking {
            outside,
            request: JoinRequest {
                version: PROTOCOL_VERSION,
                cluster: Some(of.cluster()),
                address: own.address.clone(),
                domain: own.domain.clone(),
                keeps: Keeps::Disk { written: None },
            },
            random: Random::new(entropy_seed()),
            knock: None,
            next: Instant::now(),
        }
    }

    /// Looks for an answer, and knocks where there is none to come; `written` is which machine the disk says this one is.
    pub fn look(&mut self, written: Option<MachineId>) -> Result<Option<Heard>, OpenError> {
        if let Some((knock, since)) = &mut self.knock {
            let heard = match knock.hear() {
                Ok(None) if since.elapsed() < SILENCE => return Ok(None),
                Ok(heard) => Ok(heard),
                Err(NotAdmitted::Refused(JoinRefusal::Busy | JoinRefusal::AddressInUse)) => {
                    Ok(None)
                }
                Err(why) => Err(OpenError::NotAdmitted(why)),
            };
            self.knock = None;
            self.next = Instant::now() + REST;
            return heard;
        }
        if Instant::now() < self.next {
            return Ok(None);
        }
        self.next = Instant::now() + REST;
        // Without one nobody runs; and an address that is in use is that of a machine that the others have not gone on without.
        let address = &self.request.address;
        let stored = match self.outside.stored() {
            // It may be there the next time.
            Err(OpenError::Store(StoreError::Unreachable(_))) => None,
            stored => stored?,
        };
        if stored.is_some_and(|stored| !stored.has_address(address)) {
            self.request.keeps = Keeps::Disk { written };
            let door = &self.outside.door;
            let knock = door.knock(self.request.clone(), &mut self.random);
            let knock = knock.map_err(OpenError::NotAdmitted)?;
            self.knock = Some((knock, Instant::now()));
        }
        Ok(None)
    }
}
