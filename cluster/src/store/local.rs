//! A store of one process: a file on its disk, or nothing but memory.
//!
//! *Invariants.* The file is replaced by a rename of a synced file, so after a crash it is the old
//! configuration or the new one. What is answered is durable first: opening a store makes durable
//! whatever a crash between rename and sync has left (STORE-2).
//!
//! *Concurrency.* One lock; the directory is this process's alone. Writing blocks the caller for
//! two syncs, which is fitting for what happens once a configuration change.
//!
//! *Failure.* After a failed write nothing is known about what a restart would find, so the store
//! answers every further call with that error.

use std::io;
use std::sync::Arc;

use fencepost_fabric::Disk;
use parking_lot::Mutex;

use super::{Answer, ConfigStore, StoreError, Swapped, follows};
use crate::codec::DecodeError;
use crate::configuration::Configuration;
use crate::ids::ConfigurationId;

const NAME: &str = "CONFIGURATION";
const DRAFT: &str = "CONFIGURATION.tmp";
/// More than the largest configuration takes.
const MAX_BYTES: u64 = 1 << 20;

/// The configuration of one process.
pub struct LocalStore {
    disk: Option<Arc<dyn Disk>>,
    state: Mutex<State>,
}

struct State {
    current: Option<Configuration>,
    /// The write that failed.
    broken: Option<io::ErrorKind>,
}

impl LocalStore {
    /// A store that ends with the process.
    pub fn in_memory() -> Self {
        Self::holding(None, None)
    }

    /// The store in a directory that this process has locked.
    ///
    /// # Errors
    /// [`StoreError::Disk`] when the disk fails, [`StoreError::Damaged`] when the file is not as it
    /// was written.
    pub fn open(disk: Arc<dyn Disk>) -> Result<Self, StoreError> {
        let current = load(&*disk)?;
        Ok(Self::holding(Some(disk), current))
    }

    fn holding(disk: Option<Arc<dyn Disk>>, current: Option<Configuration>) -> Self {
        let broken = None;
        Self {
            disk,
            state: Mutex::new(State { current, broken }),
        }
    }

    fn current(&self) -> Result<Option<Configuration>, StoreError> {
        let state = self.state.lock();
        self.working(&state)?;
        Ok(state.current.clone())
    }

    fn swap(
        &self,
        expected: Option<ConfigurationId>,
        new: &Configuration,
    ) -> Result<Swapped, StoreError> {
        let mut state = self.state.lock();
        self.working(&state)?;
        if !follows(state.current.as_ref(), expected, new)? {
            return Ok(Swapped::Lost);
        }
        if let Some(disk) = &self.disk
            && let Err(error) = publish(&**disk, new)
        {
            state.broken = Some(error.kind());
            return Err(failed(&**disk)(error));
        }
        state.current = Some(new.clone());
        Ok(Swapped::Won)
    }

    fn working(&self, state: &State) -> Result<(), StoreError> {
        match (&self.disk, state.broken) {
            (Some(disk), Some(kind)) => Err(failed(&**disk)(kind.into())),
            _ => Ok(()),
        }
    }
}

impl ConfigStore for LocalStore {
    fn read(&self) -> Answer<'_, Option<Configuration>> {
        Box::pin(async { self.current() })
    }

    fn compare_and_swap<'a>(
        &'a self,
        expected: Option<ConfigurationId>,
        new: &'a Configuration,
    ) -> Answer<'a, Swapped> {
        Box::pin(async move { self.swap(expected, new) })
    }
}

fn failed(disk: &dyn Disk) -> impl FnOnce(io::Error) -> StoreError {
    let file = disk.path(NAME);
    move |error| StoreError::Disk { file, error }
}

fn load(disk: &dyn Disk) -> Result<Option<Configuration>, StoreError> {
    let file = match disk.open(NAME) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(disk)(error)),
    };
    // The name may be newer than what survives a crash; whoever reads it must find it again.
    disk.sync_dir().map_err(failed(disk))?;
    let damaged = |what| StoreError::Damaged {
        place: disk.path(NAME),
        what,
    };
    let len = file.len().map_err(failed(disk))?;
    if len > MAX_BYTES {
        return Err(damaged(DecodeError::Trailing));
    }
    let mut bytes = vec![0; len as usize];
    let read = file.read_at(0, &mut bytes).map_err(failed(disk))?;
    Configuration::unseal(&bytes[..read])
        .map(Some)
        .map_err(damaged)
}

fn publish(disk: &dyn Disk, configuration: &Configuration) -> io::Result<()> {
    let file = disk.create(DRAFT)?;
    file.write_at(0, &configuration.seal())?;
    file.sync_all()?;
    disk.rename(DRAFT, NAME)?;
    disk.sync_dir()
}
