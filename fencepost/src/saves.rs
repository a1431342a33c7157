//! The memory of machines that have ended in good order is saved to a disk, and loaded when they begin again.
//!
//! ```text
//! a machine has ended ─► all have ─► each saves its own, then what nobody is at ─► all is saved
//! ```
//! Nothing is saved before all have ended: until then others write to this one's memory, and count on it. Whoever has not
//! ended in good order is saved by those who have, as its memory is in files of the host.
//!
//! # Failure
//! Where a machine goes on for longer than is waited for nothing is saved yet; whoever ends last saves the memory of all.
//! Who is killed while it saves has saved nothing; another one does it. What is on the disk before a save has come to its
//! end is none ([`fencepost_fabric::nvram`]).

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost_cluster::{ConfigStore, StoreError};
use fencepost_fabric::{LoadError, MachineId, Nvram, Saved};
use pollster::FutureExt;

/// How long the others may take to end.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks at what others do.
const NAP: Duration = Duration::from_millis(2);

/// What was loaded when a machine began.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// Bytes of all machines; this one has loaded them for all, or none.
    pub bytes: u64,
    /// How long that took.
    pub took: Duration,
    /// The machines whose saves are damaged, and where. Others had copies of what they had.
    pub damaged: Vec<String>,
}

impl Loaded {
    /// What is saved of machines, and not in memory any more.
    pub(crate) fn of(
        nvram: &Nvram,
        life: u64,
        machines: impl Iterator<Item = MachineId>,
    ) -> Result<Loaded, LoadError> {
        let began = Instant::now();
        let mut loaded = Loaded::default();
        std::thread::scope(|scope| {
            let load = |machine| (machine, scope.spawn(move || nvram.load(life, machine)));
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

/// What came of saving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaveEnd {
    /// The memory of all machines is on the disk; this one has written so many bytes in so long.
    Saved(u64, Duration),
    /// Another machine goes on. Whoever ends last saves.
    OthersGoOn,
    /// The others have gone on without this machine, or begun again: nobody needs what it had.
    Needless,
}

/// Why memory was not saved.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// A file.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// Nobody knows who the machines are.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Saves the memory of a machine that has ended.
#[derive(Clone)]
pub struct Saver(Arc<Saving>);

struct Saving {
    nvram: Nvram,
    store: Arc<dyn ConfigStore>,
    life: u64,
    me: MachineId,
}

impl Saver {
    pub(crate) fn new(
        nvram: Nvram,
        store: Arc<dyn ConfigStore>,
        life: u64,
        me: MachineId,
    ) -> Saver {
        Saver(Arc::new(Saving {
            nvram,
            store,
            life,
            me,
        }))
    }

    /// Saves, once the database of this machine is closed and its last handle gone, and all others have ended.
    ///
    /// # Errors
    /// [`SaveError`]; memory is as it was.
    pub fn save(&self) -> Result<SaveEnd, SaveError> {
        let Saving {
            nvram,
            store,
            life,
            me,
        } = &*self.0;
        let began = Instant::now();
        // Who has left, or was out, has nothing that anybody needs.
        let is_member = || {
            let current = store.read().block_on()?;
            Ok::<_, StoreError>(current.is_some_and(|current| current.has(*me)))
        };
        if !is_member()? {
            return Ok(SaveEnd::Needless);
        }
        while nvram.is_alive(*life)? {
            if began.elapsed() > PATIENCE {
                return Ok(SaveEnd::OthersGoOn);
            }
            std::thread::sleep(NAP);
        }
        let _entered = nvram.enter_to_save()?;
        let current = store.read().block_on()?.filter(|current| current.has(*me));
        let (Some(current), Some(last)) = (current, nvram.last(u64::MAX)?) else {
            return Ok(SaveEnd::Needless);
        };
        if last != *life {
            return Ok(SaveEnd::Needless);
        }
        let began = Instant::now();
        let members = current.machines().iter().map(|machine| machine.id);
        // Each begins with its own.
        let (before, mut left): (Vec<MachineId>, Vec<MachineId>) =
            members.partition(|machine| machine < me);
        left.extend(before);
        let mut bytes = 0;
        loop {
            let mut others = Vec::new();
            for machine in left {
                match nvram.save(*life, machine)? {
                    Saved::Now(saved) => bytes += saved,
                    Saved::Before => {}
                    Saved::ByAnother => others.push(machine),
                }
            }
            if others.is_empty() {
                return Ok(SaveEnd::Saved(bytes, began.elapsed()));
            }
            left = others;
            std::thread::sleep(NAP);
        }
    }
}
