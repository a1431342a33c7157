//! A store that the processes of one host share: a file in a directory that all of them use.
//!
//! *Purpose.* Each machine holds its own lock as long as its process runs. A process that opens the
//! store while no other machine runs removes what the store had, unless it joins. That content
//! belongs to a database that ended with its machines, unless their memory outlives them
//! ([`HostStore::keeping`]).
//!
//! *Concurrency.* A lock file excludes other processes for the short time of a read or write. The
//! kernel releases the lock when its holder dies. The file is replaced as a whole, so the next
//! process finds the old or the new content.
//!
//! *Failure.* A lock that stays held for long gives [`StoreError::Unreachable`].

use std::io;
use std::sync::Arc;
use std::time::Duration;

use fencepost_fabric::{Disk, DiskLock, MachineId};

use super::local::{self, NAME};
use super::{Answer, ConfigStore, StoreError, SwapOutcome, file, follows};
use crate::configuration::Configuration;
use crate::ids::ConfigurationId;

/// The name of the lock that a process holds while it reads or writes.
const LOCK: &str = "configuration.lock";
/// The suffix of the names of machines' own locks.
const ALIVE: &str = ".alive";
/// The number of attempts to take the lock, and the pause between them.
const TRIES: u32 = 25_000;
const POLL_INTERVAL: Duration = Duration::from_micros(200);

/// The configuration store of the machines of a host.
pub struct HostStore {
    disk: Arc<dyn Disk>,
    /// The lock that shows other processes that this machine runs.
    _alive: DiskLock,
}

/// The state of the machines that use a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryUse {
    /// No other machine runs: the content is of machines that are gone.
    Unused,
    /// Other machines run, and this machine has not been one of them yet.
    Others,
    /// Other machines run, and this machine was one of them before. It is no longer a member.
    Before,
}

impl HostStore {
    /// Returns whether machines other than `me` run.
    ///
    /// # Errors
    /// [`StoreError::Disk`] if the directory cannot be used, or another process is that machine;
    /// [`StoreError::Unreachable`] if the lock stays held.
    pub fn standing(disk: &dyn Disk, me: Option<MachineId>) -> Result<DirectoryUse, StoreError> {
        let _lock = enter(disk)?;
        let (others, mine) = lock_names(disk, me)?;
        if others.iter().all(|name| disk.lock(name).is_ok()) {
            return Ok(DirectoryUse::Unused);
        }
        let Some(mine) = mine else {
            return Ok(DirectoryUse::Others);
        };
        // Another process may run as this machine.
        drop(disk.lock(&mine).map_err(file::failed(disk, NAME))?);
        Ok(DirectoryUse::Before)
    }

    /// Opens the store for machine `me`, an initial member of the cluster.
    ///
    /// # Errors
    /// As [`Self::standing`].
    pub fn open(disk: Arc<dyn Disk>, me: MachineId) -> Result<Self, StoreError> {
        let lock = enter(&*disk)?;
        let alive = disk.lock(&alive(me)).map_err(file::failed(&*disk, NAME))?;
        let (others, _) = lock_names(&*disk, Some(me))?;
        if others.iter().all(|name| disk.lock(name).is_ok()) {
            for name in others.iter().map(String::as_str).chain([NAME]) {
                match disk.remove(name) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(file::failed(&*disk, name)(error));
                    }
                    _ => {}
                }
            }
        }
        drop(lock);
        Ok(Self {
            disk,
            _alive: alive,
        })
    }

    /// Opens the store for machine `me` and keeps its content: the machine has joined the others,
    /// or the database outlives its machines.
    ///
    /// # Errors
    /// As [`Self::standing`].
    pub fn keeping(disk: Arc<dyn Disk>, me: MachineId) -> Result<Self, StoreError> {
        let lock = enter(&*disk)?;
        let alive = disk.lock(&alive(me)).map_err(file::failed(&*disk, NAME))?;
        drop(lock);
        Ok(Self {
            disk,
            _alive: alive,
        })
    }

    /// Returns the stored configuration, for a process that is not one of the machines.
    ///
    /// # Errors
    /// As [`Self::standing`].
    pub fn look(disk: &dyn Disk) -> Result<Option<Configuration>, StoreError> {
        let _lock = enter(disk)?;
        local::load(disk)
    }

    fn swap(
        &self,
        expected: Option<ConfigurationId>,
        new: &Configuration,
    ) -> Result<SwapOutcome, StoreError> {
        let _lock = enter(&*self.disk)?;
        let current = local::load(&*self.disk)?;
        if !follows(current.as_ref(), expected, new)? {
            return Ok(SwapOutcome::Lost);
        }
        let replaced = file::replace(&*self.disk, NAME, &new.seal());
        replaced.map_err(file::failed(&*self.disk, NAME))?;
        Ok(SwapOutcome::Won)
    }

    fn current(&self) -> Result<Option<Configuration>, StoreError> {
        Self::look(&*self.disk)
    }
}

/// Takes the lock that excludes other processes.
fn enter(disk: &dyn Disk) -> Result<DiskLock, StoreError> {
    for _ in 0..TRIES {
        match disk.lock(LOCK) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                std::thread::sleep(POLL_INTERVAL)
            }
            locked => return locked.map_err(file::failed(disk, LOCK)),
        }
    }
    Err(StoreError::Unreachable(format!(
        "{} is held",
        disk.path(LOCK)
    )))
}

fn alive(machine: MachineId) -> String {
    format!("{machine}{ALIVE}")
}

/// Returns the names of the locks of all machines that have run other than `me`. Also returns the
/// name of the lock of `me` if it has run.
fn lock_names(
    disk: &dyn Disk,
    me: Option<MachineId>,
) -> Result<(Vec<String>, Option<String>), StoreError> {
    let mine = me.map(alive);
    let mut names = disk.list().map_err(file::failed(disk, NAME))?;
    names.retain(|name| name.ends_with(ALIVE));
    let (mine, others) = names
        .into_iter()
        .partition(|name| Some(name) == mine.as_ref());
    let mine: Vec<String> = mine;
    Ok((others, mine.into_iter().next()))
}

impl ConfigStore for HostStore {
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
