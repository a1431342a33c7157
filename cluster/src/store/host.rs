//! A store that the processes of one host share: a file in a directory that all of them see.
//!
//! *What.* Each machine holds a lock of its own for as long as it lives. Who opens the store and finds nobody else
//! alive begins anew, but for those who join: what is there is of a database that is gone with its machines, unless their
//! memory outlives them ([`HostStore::keeping`]).
//!
//! *Concurrency.* A lock file keeps the others out while one reads or writes, for moments. The kernel gives it back when
//! its holder dies, and the file is replaced as a whole, so the next one finds what was there or what is new.
//!
//! *Failure.* Where the lock is not to be had for long, [`StoreError::Unreachable`].

use std::io;
use std::sync::Arc;
use std::time::Duration;

use fencepost_fabric::{Disk, DiskLock, MachineId};

use super::local::{self, NAME};
use super::{Answer, ConfigStore, StoreError, Swapped, file, follows};
use crate::configuration::Configuration;
use crate::ids::ConfigurationId;

/// Held by who reads or writes.
const LOCK: &str = "configuration.lock";
/// How the names of machines' own locks end.
const ALIVE: &str = ".alive";
/// How often the lock is asked for, and how long is waited in between.
const TRIES: u32 = 25_000;
const NAP: Duration = Duration::from_micros(200);

/// The configuration of the machines of a host.
pub struct HostStore {
    disk: Arc<dyn Disk>,
    /// Says to others that this machine lives.
    _alive: DiskLock,
}

/// Who lives of the machines that a directory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nobody: what is there is of machines that are gone.
    Nobody,
    /// Others, with whom this machine has not been yet.
    Others,
    /// Others, and this machine has been one of them: it is none any more, whatever they know.
    Before,
}

impl HostStore {
    /// Who lives besides machine `me`.
    ///
    /// # Errors
    /// [`StoreError::Disk`] when the directory cannot be used, or another process is that machine;
    /// [`StoreError::Unreachable`] where the lock is not given back.
    pub fn standing(disk: &dyn Disk, me: Option<MachineId>) -> Result<Standing, StoreError> {
        let _lock = enter(disk)?;
        let (others, mine) = lives(disk, me)?;
        if others.iter().all(|name| disk.lock(name).is_ok()) {
            return Ok(Standing::Nobody);
        }
        let Some(mine) = mine else {
            return Ok(Standing::Others);
        };
        // Another process may be it.
        drop(disk.lock(&mine).map_err(file::failed(disk, NAME))?);
        Ok(Standing::Before)
    }

    /// Opens the store for machine `me`, one of those that the cluster begins with.
    ///
    /// # Errors
    /// As [`Self::standing`].
    pub fn open(disk: Arc<dyn Disk>, me: MachineId) -> Result<Self, StoreError> {
        let lock = enter(&*disk)?;
        let alive = disk.lock(&alive(me)).map_err(file::failed(&*disk, NAME))?;
        let (others, _) = lives(&*disk, Some(me))?;
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

    /// Opens the store for machine `me`, and leaves what is there: the others have let it in, or the database outlives
    /// its machines.
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

    /// What is there, for who is none of the machines.
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
    ) -> Result<Swapped, StoreError> {
        let _lock = enter(&*self.disk)?;
        let current = local::load(&*self.disk)?;
        if !follows(current.as_ref(), expected, new)? {
            return Ok(Swapped::Lost);
        }
        let replaced = file::replace(&*self.disk, NAME, &new.seal());
        replaced.map_err(file::failed(&*self.disk, NAME))?;
        Ok(Swapped::Won)
    }

    fn current(&self) -> Result<Option<Configuration>, StoreError> {
        Self::look(&*self.disk)
    }
}

/// Keeps the others out.
fn enter(disk: &dyn Disk) -> Result<DiskLock, StoreError> {
    for _ in 0..TRIES {
        match disk.lock(LOCK) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(NAP),
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

/// The locks of all machines that have lived but `me`, and that of `me` if it has.
fn lives(
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
    ) -> Answer<'a, Swapped> {
        Box::pin(async move { self.swap(expected, new) })
    }
}
