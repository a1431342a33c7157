//! Machines of one host whose memory outlives their processes (the `nvram` tier): how they begin, and begin again.
//!
//! ```text
//! DIR/nvram/                 the memory of the machines, life by life ([`fencepost_fabric::nvram`])
//! DIR/nvram/configuration/   who they are
//!
//! enter ─► no configuration                    ─► the first one, an empty life
//!       ─► one, whose life has a machine left  ─► its regions as that life began
//!       ─► one, whose machines have all ended  ─► settle ─► the next life ─► the next configuration
//! ```
//! Who comes first does it for all; the others find the life begun. That a life has begun is decided by the configuration
//! in the store: until then everything is as it was left.
//!
//! # Failure
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

/// The directory of the memory, in the one that the machines share.
const MEMORY: &str = "nvram";

/// A machine that begins.
pub(crate) struct Begun {
    pub fabric: ShmFabric,
    pub configuration: Configuration,
    pub store: Arc<dyn ConfigStore>,
    /// What it had before.
    pub resumed: Option<Arc<Resumed>>,
}

/// Machine `me` of `founders`, whose memory is in `directory`.
pub(crate) fn begin(
    directory: &Path,
    me: MachineId,
    founders: &Configuration,
    replication: Replication,
) -> Result<Begun, OpenError> {
    let directory = directory.join(MEMORY);
    let nvram = Nvram::open(&directory).map_err(io)?;
    let _entered = nvram.enter().map_err(io)?;
    let disk = Arc::new(OsDisk::open(directory.join(CONFIGURATION)).map_err(io)?);
    let store = HostStore::keeping(disk, me).map_err(stored)?;
    let (life, resumed) = match store.read().block_on().map_err(stored)? {
        None => {
            // One that began and did not get so far as to have a machine is none.
            let last = nvram.last(u64::MAX).map_err(io)?;
            let mut machines = founders.machines().iter();
            if last.is_some_and(|life| machines.any(|machine| nvram.has_lived(life, machine.id))) {
                return Err(OpenError::Restart(format!(
                    "{} has the memory of machines and does not say who they were",
                    directory.display()
                )));
            }
            nvram.begin(founders.id().0, &[]).map_err(io)?;
            swap(&store, None, founders)?;
            (founders.id().0, None)
        }
        Some(current) => go_on(&nvram, &store, &current, me, (founders, replication))?,
    };
    let configuration = resumed
        .as_ref()
        .map_or(founders, |resumed| &resumed.configuration);
    let regions = resumed.iter().flat_map(|resumed| &resumed.regions);
    let regions = regions.filter(|region| region.mapping.replicas.has(me));
    let regions = regions.map(|region| region.mapping.region.0);
    let living = nvram.join(life).map_err(io)?;
    let fabric = nvram.fabric(life, me, regions, living);
    Ok(Begun {
        fabric: fabric.map_err(|error| OpenError::Machine(error.into()))?,
        configuration: configuration.clone(),
        store: Arc::new(store),
        resumed: resumed.map(Arc::new),
    })
}

/// There were machines before.
fn go_on(
    nvram: &Nvram,
    store: &HostStore,
    current: &Configuration,
    me: MachineId,
    (founders, replication): (&Configuration, Replication),
) -> Result<(u64, Option<Resumed>), OpenError> {
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
        return Ok((life, begun));
    }
    let resumed = settle(
        &nvram.after(life),
        (current, begun.as_ref()),
        founders,
        replication,
    );
    let resumed = resumed.map_err(again)?;
    let life = resumed.configuration.id().0;
    nvram.begin(life, &resumed.seal()).map_err(io)?;
    swap(store, Some(current), &resumed.configuration)?;
    nvram.forget_before(life).map_err(io)?;
    Ok((life, Some(resumed)))
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
