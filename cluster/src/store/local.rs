//! A store of one process: a file on its disk, or memory only.
//!
//! *Concurrency.* One lock; the directory belongs to this process alone. A write blocks the caller
//! for two syncs, which is acceptable once a configuration change.
//!
//! *Failure.* After a failed write the content that a restart would find is unknown, so the store
//! answers every further call with that error.

use std::io;
use std::sync::Arc;

use fencepost_fabric::Disk;
use parking_lot::Mutex;

use super::{Answer, ConfigStore, StoreError, SwapOutcome, file, follows};
use crate::configuration::Configuration;
use crate::ids::ConfigurationId;

pub(super) const NAME: &str = "CONFIGURATION";
/// More than the bytes of the largest configuration.
const MAX_BYTES: u64 = 1 << 20;

/// The configuration store of one process.
pub struct LocalStore {
    disk: Option<Arc<dyn Disk>>,
    state: Mutex<State>,
}

struct State {
    current: Option<Configuration>,
    /// The error of the first failed write.
    broken: Option<io::ErrorKind>,
}

impl LocalStore {
    /// Returns a store that ends with the process.
    pub fn in_memory() -> Self {
        Self::holding(None, None)
    }

    /// Opens the store in a directory that this process has locked.
    ///
    /// # Errors
    /// [`StoreError::Disk`] if the disk fails, [`StoreError::Damaged`] if the file is damaged.
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
    ) -> Result<SwapOutcome, StoreError> {
        let mut state = self.state.lock();
        self.working(&state)?;
        if !follows(state.current.as_ref(), expected, new)? {
            return Ok(SwapOutcome::Lost);
        }
        if let Some(disk) = &self.disk
            && let Err(error) = file::replace(&**disk, NAME, &new.seal())
        {
            state.broken = Some(error.kind());
            return Err(file::failed(&**disk, NAME)(error));
        }
        state.current = Some(new.clone());
        Ok(SwapOutcome::Won)
    }

    fn working(&self, state: &State) -> Result<(), StoreError> {
        match (&self.disk, state.broken) {
            (Some(disk), Some(kind)) => Err(file::failed(&**disk, NAME)(kind.into())),
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
    ) -> Answer<'a, SwapOutcome> {
        Box::pin(async move { self.swap(expected, new) })
    }
}

pub(super) fn load(disk: &dyn Disk) -> Result<Option<Configuration>, StoreError> {
    let Some(bytes) = file::load(disk, NAME, MAX_BYTES)? else {
        return Ok(None);
    };
    let configuration = Configuration::unseal(&bytes).map_err(file::damaged(disk, NAME))?;
    Ok(Some(configuration))
}
