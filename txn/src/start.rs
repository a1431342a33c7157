//! The start of a machine: the root object, the newest checkpoint, replay of the log, free lists.
//!
//! # Failure
//! Damage is found before anything is written; the error names file and offset.

use std::sync::Arc;

use fencepost_fabric::{Disk, DiskLock};
use fencepost_storage::checkpoint::{self, CheckpointError, Manifest, read_manifest};
use fencepost_storage::classes::Class;
use fencepost_storage::header::{Header, LinkWord, OldVersionPtr};
use fencepost_storage::log::{Log, LogError, LogRecovery, RequiredLog};
use fencepost_storage::region::{BlockId, Regions};
use fencepost_storage::{Addr, OutOfMemory, RegionId, Timestamp};

use crate::checkpointer::Checkpointer;
use crate::machine::{Order, ROOT_WORDS};
use crate::network::disk::is_of_others;
use crate::options::{DurableStorage, OpenError, StartReport};
use crate::replay::replay;

/// The block of the root object, which is the first slot of the first block.
pub(crate) const ROOT_BLOCK: BlockId = BlockId {
    region: RegionId(0),
    block: 1,
};
/// Timestamp of the root object before any transaction has written it.
pub(crate) const BIRTH: Timestamp = Timestamp::from_raw(1);

/// Name of the lock file in the data directory.
const LOCK_FILE: &str = "lock";
/// Directory of the log in the data directory.
const LOG_DIR: &str = "log";
/// Directory of the checkpoints in the data directory.
const CHECKPOINT_DIR: &str = "checkpoint";

fn root_class() -> Result<Class, OutOfMemory> {
    Class::for_payload(ROOT_WORDS).ok_or(OutOfMemory)
}

/// Creates the root object in the first block, at its initial version.
pub(crate) fn make_root(regions: &Regions) -> Result<(), OutOfMemory> {
    let first = regions.acquire_block(root_class()?, Timestamp::ZERO, false)?;
    let object = regions.object(root_at()?).filter(|_| first == ROOT_BLOCK);
    let object = object.ok_or(OutOfMemory)?;
    object.finish_install(
        Header(0).succeed(BIRTH, true),
        LinkWord::new(1, OldVersionPtr::NONE),
    );
    Ok(())
}

/// Creates the root object in a backup of its region.
pub(crate) fn make_root_backup(regions: &Regions) -> Result<(), OutOfMemory> {
    regions.restore_backup(ROOT_BLOCK, root_class()?)?;
    let object = regions.backup(root_at()?).ok_or(OutOfMemory)?;
    if object.header() == Header(0) {
        object.begin_install();
        object.finish_install(
            Header(0).succeed(BIRTH, true),
            LinkWord::new(1, OldVersionPtr::NONE),
        );
    }
    Ok(())
}

/// Returns whether the root object exists and this machine is its primary. The region exists
/// shortly before the object.
pub(crate) fn has_root(regions: &Regions) -> bool {
    let root = root_at().ok().and_then(|at| regions.own_object(at));
    root.is_some_and(|root| root.header() != Header(0))
}

/// Returns the address of the root object.
pub(crate) fn root_at() -> Result<Addr, OutOfMemory> {
    Ok(ROOT_BLOCK.slot(root_class()?, 0))
}

/// A recovered log, its checkpointer and the lock of the data directory.
pub(crate) struct RecoveredLog {
    pub log: Log,
    pub checkpointer: Checkpointer,
    pub lock: DiskLock,
}

/// A data directory that this process has locked.
pub(crate) struct Directory {
    log: Arc<dyn Disk>,
    checkpoints: Arc<dyn Disk>,
    pub manifest: Option<Manifest>,
    lock: DiskLock,
}

impl Directory {
    pub fn open(durable: &DurableStorage) -> Result<Self, OpenError> {
        let io = |path: &str| {
            let path = durable.disk.path(path);
            move |error: std::io::Error| match error.kind() {
                std::io::ErrorKind::WouldBlock => OpenError::InUse(path),
                _ => OpenError::Io { path, error },
            }
        };
        let lock = durable.disk.lock(LOCK_FILE).map_err(io(LOCK_FILE))?;
        let log = durable.disk.subdir(LOG_DIR).map_err(io(LOG_DIR))?;
        let checkpoints = durable
            .disk
            .subdir(CHECKPOINT_DIR)
            .map_err(io(CHECKPOINT_DIR))?;
        let manifest = read_manifest(&*checkpoints)?;
        Ok(Directory {
            log,
            checkpoints,
            manifest,
            lock,
        })
    }

    /// Opens the log from the position that the checkpoint needs, or from its beginning.
    pub fn log(&self, durable: &DurableStorage) -> Result<LogRecovery, LogError> {
        LogRecovery::open(Arc::clone(&self.log), &durable.log, self.needed())
    }

    fn needed(&self) -> RequiredLog {
        self.manifest
            .map(|manifest| manifest.needed())
            .unwrap_or_default()
    }

    /// Loads the checkpoint, if there is one, of all regions that are `wanted`. Returns the number
    /// of objects.
    pub fn load(
        &self,
        regions: &Regions,
        wanted: &(dyn Fn(RegionId) -> bool + Sync),
    ) -> Result<u64, CheckpointError> {
        let workers = std::thread::available_parallelism().map_or(2, usize::from);
        match &self.manifest {
            Some(manifest) => {
                checkpoint::load(&*self.checkpoints, manifest, regions, workers, wanted)
            }
            None => Ok(0),
        }
    }

    /// Returns the checkpointer for further checkpoints, and the lock of the directory.
    pub fn go_on(self, durable: &DurableStorage) -> (Checkpointer, DiskLock) {
        let from = self.needed().from;
        let checkpointer = Checkpointer::new(self.checkpoints, from, durable.checkpoint_bytes);
        (checkpointer, self.lock)
    }
}

/// Loads the newest checkpoint and replays the log behind it.
pub(crate) fn recover(
    directory: Directory,
    durable: &DurableStorage,
    regions: &Regions,
    order: &Arc<Order>,
    started: &mut StartReport,
) -> Result<RecoveredLog, OpenError> {
    if is_of_others(&*durable.disk)? {
        return Err(OpenError::AmongOthers(durable.disk.path("")));
    }
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    started.checkpoint_objects = directory.load(regions, &|_| true)?;
    if let Some(manifest) = &directory.manifest {
        order.clock.raise(manifest.clock);
    }
    let mut recovery = directory.log(durable)?;
    started.replayed = replay(&mut recovery, regions, workers)?;
    let settling = Arc::clone(order);
    let settled = move || settling.readers.settled(&settling.clock).raw();
    let (log, report) = recovery.finish(Box::new(settled))?;
    started.torn_tail = report
        .torn
        .map(|torn| format!("{}: {} bytes cut at {}", torn.file, torn.bytes, torn.offset));
    let (checkpointer, lock) = directory.go_on(durable);
    Ok(RecoveredLog {
        log,
        checkpointer,
        lock,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_exists_only_after_its_creation() {
        let regions = Regions::new(0);
        let root = RegionId(0);
        assert!(!has_root(&regions), "no region");
        regions.reserve(root, true).expect("memory");
        assert!(!has_root(&regions), "a region that may still go back");
        regions.keep(root);
        assert!(regions.has_own(root) && !has_root(&regions), "no block");
        let other = Regions::new(0);
        let class = root_class().expect("a class");
        let first = other.acquire_block(class, Timestamp::ZERO, false);
        assert_eq!(first, Ok(ROOT_BLOCK));
        assert!(!has_root(&other), "nothing in the block");
        make_root(&regions).expect("memory");
        assert!(has_root(&regions));
    }

    #[test]
    fn another_machines_root_is_not_here() {
        let regions = Regions::new(0);
        regions.reserve(ROOT_BLOCK.region, false).expect("memory");
        regions.keep(ROOT_BLOCK.region);
        make_root_backup(&regions).expect("memory");
        assert!(!has_root(&regions));
    }
}
