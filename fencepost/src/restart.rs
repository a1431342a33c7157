//! Machines of one host whose memory outlives their processes (the `nvram` tier): how they begin, and begin again.
//!
//! ```text
//! DIR/nvram/                 the memory of the machines, life by life ([`fencepost_fabric::nvram`])
//! DIR/nvram/configuration/   who they are; with saves it is in their directory
//!
//! enter ─► no configuration                    ─► the first one, an empty life
//!       ─► one, whose life has a machine left  ─► its regions as that life began
//!       ─► one, whose machines have all ended  ─► load ─► settle ─► the next life ─► the next configuration
//! ```
//! Who comes first does it for all; the others find the life begun. That a life has begun is decided by the configuration
//! in the store: until then everything is as it was left.
//!
//! # Failure
//! A save that is damaged is told; its machine is one that has lost its memory, of which the others may have copies.
//! What cannot be begun again says why and leaves what was there. A machine that has ended while others live cannot come
//! back before all have ended.

use std::path::Path;
use std::sync::Arc;

use fencepost_cluster::{ConfigStore, Configuration, HostStore, StoreError, Swapped};
use fencepost_fabric::{MachineId, Nvram, OsDisk, ShmFabric};
use fencepost_txn::network::restart::{RestartError, settle};
use fencepost_txn::network::{Replication, Resumed};
use pollster::FutureExt;

use crate::error::OpenError;
use crate::newcomer::CONFIGURATION;
use crate::saves::{Loaded, Saver};

/// The directory of the memory, in the one that the machines share.
const MEMORY: &str = "nvram";

/// A machine that begins.
pub(crate) struct Begun {
    pub fabric: ShmFabric,
    pub configuration: Configuration,
    pub store: Arc<dyn ConfigStore>,
    /// What it had before.
    pub resumed: Option<Arc<Resumed>>,
    /// What was loaded of what was saved.
    pub loaded: Loaded,
    /// Saves its memory at the end, where there is a place for that.
    pub saver: Option<Saver>,
}

/// A life that this machine is to be in.
struct Life {
    number: u64,
    resumed: Option<Resumed>,
    loaded: Loaded,
}

/// Machine `me` of `founders`, whose memory is in `directory`, and saved in `saves`.
pub(crate) fn begin(
    (directory, saves): (&Path, Option<&Path>),
    me: MachineId,
    founders: &Configuration,
    replication: Replication,
) -> Result<Begun, OpenError> {
    let directory = directory.join(MEMORY);
    let records = saves.map_or_else(|| directory.clone(), |saves| saves.join(MEMORY));
    let nvram = Nvram::saving_in(&directory, &records).map_err(io)?;
    let _entered = nvram.enter().map_err(io)?;
    let disk = Arc::new(OsDisk::open(records.join(CONFIGURATION)).map_err(io)?);
    let store = HostStore::keeping(disk, me).map_err(stored)?;
    let life = match store.read().block_on().map_err(stored)? {
        None => {
            // A life that did not get so far as to have a machine is none.
            for machine in founders.machines() {
                if nvram.has_ever_lived(machine.id).map_err(io)? {
                    return Err(OpenError::Restart(format!(
                        "{} has the memory of machines, and {} does not say who they were",
                        directory.display(),
                        records.join(CONFIGURATION).display()
                    )));
                }
            }
            nvram.begin(founders.id().0, &[]).map_err(io)?;
            swap(&store, None, founders)?;
            Life {
                number: founders.id().0,
                resumed: None,
                loaded: Loaded::default(),
            }
        }
        Some(current) => go_on(&nvram, &store, &current, me, (founders, replication))?,
    };
    let Life {
        number: life,
        resumed,
        loaded,
    } = life;
    let configuration = resumed
        .as_ref()
        .map_or(founders, |resumed| &resumed.configuration);
    let regions = resumed.iter().flat_map(|resumed| &resumed.regions);
    let regions = regions.filter(|region| region.mapping.replicas.has(me));
    let regions = regions.map(|region| region.mapping.region.0);
    let living = nvram.join(life).map_err(io)?;
    let fabric = nvram.fabric(life, me, regions, living);
    let fabric = fabric.map_err(|error| OpenError::Machine(error.into()))?;
    let store: Arc<dyn ConfigStore> = Arc::new(store);
    Ok(Begun {
        fabric,
        configuration: configuration.clone(),
        resumed: resumed.map(Arc::new),
        loaded,
        saver: saves.map(|_| Saver::new(nvram, Arc::clone(&store), life, me)),
        store,
    })
}

/// There were machines before.
fn go_on(
    nvram: &Nvram,
    store: &HostStore,
    current: &Configuration,
    me: MachineId,
    (founders, replication): (&Configuration, Replication),
) -> Result<Life, OpenError> {
    let last = nvram.last(current.id().0).map_err(io)?;
    let life = last.ok_or_else(|| again(RestartError::Nothing))?;
    let map = nvram.map(life).map_err(io)?;
    let begun = match map.is_empty() {
        true => None,
        false => Some(Resumed::unseal(&map).map_err(|why| OpenError::Restart(why.to_string()))?),
    };
    if nvram.is_alive(life).map_err(io)? {
        if current.id().0 != life || nvram.has_lived(life, me) {
            let id = current.id().0;
            return Err(OpenError::Configuration(format!(
                "the machines are in configuration {id} by now; a machine cannot join them again yet"
            )));
        }
        return Ok(Life {
            number: life,
            resumed: begun,
            loaded: Loaded::default(),
        });
    }
    let members = current.machines().iter().map(|machine| machine.id);
    let loaded =
        Loaded::of(nvram, life, members).map_err(|why| OpenError::Restart(why.to_string()))?;
    let resumed = settle(
        &nvram.after(life),
        (current, begun.as_ref()),
        founders,
        replication,
    );
    let resumed = resumed.map_err(|why| match loaded.damaged.is_empty() {
        true => again(why),
        false => OpenError::Restart(format!("{why}; {}", loaded.damaged.join("; "))),
    })?;
    let life = resumed.configuration.id().0;
    nvram.begin(life, &resumed.seal()).map_err(io)?;
    swap(store, Some(current), &resumed.configuration)?;
    nvram.forget_before(life).map_err(io)?;
    Ok(Life {
        number: life,
        resumed: Some(resumed),
        loaded,
    })
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
        Swapped::Won => Ok(()),
        Swapped::Lost => Err(OpenError::Configuration(
            "somebody else changes the configuration".into(),
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
