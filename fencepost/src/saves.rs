//! Saves the memory of machines that have shut down cleanly to a disk, and loads it when they
//! restart.
//!
//! ```text
//! a machine has ended ─► all have ─► each saves its own, then the unsaved rest ─► all is saved
//! ```
//! Nothing is saved before all machines have ended: until then others write to this machine's
//! memory, and depend on it. A machine that shut down cleanly also saves the memory of machines
//! that did not. It can, because all memory is in files of the host.
//!
//! # Failure
//! If a machine keeps running longer than the wait, nothing is saved yet; the machine that ends
//! last saves the memory of all. If a machine is killed while it saves, its save does not count,
//! and another machine repeats it. An unfinished save on the disk is no save
//! ([`fencepost_fabric::nvram`]).

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost_cluster::{ConfigStore, StoreError};
use fencepost_fabric::{LoadError, MachineId, Nvram, SaveOutcome};
use pollster::FutureExt;

/// The longest wait until the other machines end.
const TIME_LIMIT: Duration = Duration::from_secs(20);
/// The delay between two checks of the other machines.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The result of loading saved memory at the start of a machine.
#[derive(Clone, Debug, Default)]
pub struct LoadReport {
    /// The number of bytes that this machine has loaded, for all machines; 0 if another machine did
    /// it.
    pub bytes: u64,
    /// The duration of the load.
    pub took: Duration,
    /// The machines whose saves are damaged, with the place. The other machines had replicas of
    /// their data.
    pub damaged: Vec<String>,
}

impl LoadReport {
    /// Loads the saved memory of machines whose memory is lost.
    pub(crate) fn of(
        nvram: &Nvram,
        incarnation: u64,
        machines: impl Iterator<Item = MachineId>,
    ) -> Result<LoadReport, LoadError> {
        let began = Instant::now();
        let mut loaded = LoadReport::default();
        std::thread::scope(|scope| {
            let load = |machine| {
                (
                    machine,
                    scope.spawn(move || nvram.load(incarnation, machine)),
                )
            };
            let all: Vec<_> = machines.map(load).collect();
            for (machine, loading) in all {
                match loading.join().unwrap_or_else(|panic| resume_unwind(panic)) {
                    Ok(bytes) => loaded.bytes += bytes.unwrap_or(0),
                    Err(damaged @ LoadError::Damaged { .. }) => {
                        let damaged =
                            format!("the saved memory of {machine} is damaged: {damaged}");
                        loaded.damaged.push(damaged);
                    }
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        })?;
        loaded.took = began.elapsed();
        Ok(loaded)
    }
}

/// The outcome of a save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaveEnd {
    /// The memory of all machines is on the disk. This machine has written this many bytes in this
    /// time.
    Saved(u64, Duration),
    /// Another machine still runs. The machine that ends last saves.
    OthersGoOn,
    /// The others have evicted this machine, or restarted: its memory is not needed.
    Needless,
}

/// The reason why memory was not saved.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// A file of the memory or of the save could not be read or written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The configuration, which says whether the memory is needed, could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Saves the memory of a machine that has ended, to the directory of
/// [`Cluster::save_in`](crate::Cluster::save_in). Take it with
/// [`Database::saver`](crate::Database::saver) before the database is closed.
#[derive(Clone)]
pub struct Saver(Arc<SaverState>);

struct SaverState {
    nvram: Nvram,
    store: Arc<dyn ConfigStore>,
    incarnation: u64,
    me: MachineId,
}

impl Saver {
    pub(crate) fn new(
        nvram: Nvram,
        store: Arc<dyn ConfigStore>,
        incarnation: u64,
        me: MachineId,
    ) -> Saver {
        Saver(Arc::new(SaverState {
            nvram,
            store,
            incarnation,
            me,
        }))
    }

    /// Saves the memory, once the database of this machine is closed, its last handle is dropped,
    /// and all other machines have ended. Blocks for up to 20 s until they have, and then until the
    /// memory is on the disk.
    ///
    /// # Errors
    /// [`SaveError::Io`] for the memory or the disk; [`SaveError::Store`] if the configuration
    /// cannot be read. The memory is unchanged, so the call may be repeated.
    pub fn save(&self) -> Result<SaveEnd, SaveError> {
        let SaverState {
            nvram,
            store,
            incarnation,
            me,
        } = &*self.0;
        let began = Instant::now();
        // The memory of a machine that has left or was evicted is not needed.
        let is_member = || {
            let current = store.read().block_on()?;
            Ok::<_, StoreError>(current.is_some_and(|current| current.has(*me)))
        };
        if !is_member()? {
            return Ok(SaveEnd::Needless);
        }
        while nvram.is_alive(*incarnation)? {
            if began.elapsed() > TIME_LIMIT {
                return Ok(SaveEnd::OthersGoOn);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        let _entered = nvram.enter_to_save()?;
        let current = store.read().block_on()?.filter(|current| current.has(*me));
        let (Some(current), Some(last)) = (current, nvram.last(u64::MAX)?) else {
            return Ok(SaveEnd::Needless);
        };
        if last != *incarnation {
            return Ok(SaveEnd::Needless);
        }
        let began = Instant::now();
        let members = current.machines().iter().map(|machine| machine.id);
        // Each machine starts with its own memory.
        let (before, mut left): (Vec<MachineId>, Vec<MachineId>) =
            members.partition(|machine| machine < me);
        left.extend(before);
        let mut bytes = 0;
        loop {
            let mut others = Vec::new();
            for machine in left {
                match nvram.save(*incarnation, machine)? {
                    SaveOutcome::Now(saved) => bytes += saved,
                    SaveOutcome::Before => {}
                    SaveOutcome::ByAnother => others.push(machine),
                }
            }
            if others.is_empty() {
                return Ok(SaveEnd::Saved(bytes, began.elapsed()));
            }
            left = others;
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}
