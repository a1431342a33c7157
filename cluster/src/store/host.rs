//! A store that the processes of one host share: a file in a directory that all of them see.
//!
//! *What.* Each machine holds a lock of its own for as long as it lives. Who opens the store and finds nobody else
//! alive begins anew: what is there is of a database that is gone with its machines. Where they survive it all, another
//! kind is called for.
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
/// How often the lock is asked for, and how long is waited in between.
const TRIES: u32 = 5_000;
const NAP: Duration = Duration::from_micros(200);

/// The configuration of the machines of a host.
pub struct HostStore {
    disk: Arc<dyn Disk>,
    /// Says to others that this machine lives.
    _alive: DiskLock,
}

impl HostStore {
    /// Opens the store for machine `me` of those numbered up to `machines`.
    ///
    /// # Errors
    /// [`StoreError::Disk`] when the directory cannot be used, or another process is that machine;
    /// [`StoreError::Unreachable`] where the lock is not given back.
    pub fn open(disk: Arc<dyn Disk>, me: MachineId, machines: u32) -> Result<Self, StoreError> {
        let lock = enter(&*disk)?;
        let alive = disk.lock(&alive(me)).map_err(file::failed(&*disk, NAME))?;
        let others = (1..=machines).map(MachineId).filter(|id| *id != me);
        let mut others = others.map(|id| disk.lock(&self::alive(id)));
        let nobody = others.all(|lock| lock.is_ok());
        if nobody {
            match disk.remove(NAME) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(file::failed(&*disk, NAME)(error));
                }
                _ => {}
            }
        }
        drop(lock);
        Ok(Self {
            disk,
            _alive: alive,
        })
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
        let _lock = enter(&*self.disk)?;
        local::load(&*self.disk)
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
    format!("{machine}.alive")
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
