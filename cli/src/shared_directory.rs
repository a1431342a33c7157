//! The directory that the machines of a dev-cluster share while they run.
//!
//! It holds the memory of all machines, mostly on a tmpfs, and is removed with the dev-cluster. If
//! all processes are killed, it stays; the next dev-cluster with the same parent directory removes
//! it.
//!
//! Invariant DIR-1: only the holder of a directory's lock removes the directory. A dev-cluster
//! takes the lock (`flock`) before the lock file has its name, and its machines inherit the
//! descriptor. So the lock is free only after the last of these processes has ended.

use std::fs::{File, Metadata, OpenOptions, read_dir, remove_dir_all, rename};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::geteuid;
use tempfile::TempDir;

/// The prefix of the names of all such directories.
const PREFIX: &str = "fencepost-";
const LOCK_FILE: &str = "dev-cluster.lock";
/// The name of the lock file until its lock is held.
const NEW_LOCK_FILE: &str = "dev-cluster.lock.new";

/// A directory that is removed when this is dropped.
pub struct SharedDirectory {
    directory: TempDir,
    /// Dropped after the directory (DIR-1).
    _lock: File,
}

impl SharedDirectory {
    /// Creates a directory in `parent`, after it has removed directories of killed dev-clusters
    /// there.
    pub fn create(parent: &Path) -> io::Result<SharedDirectory> {
        remove_abandoned(parent);
        let directory = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        let path = directory.path();
        let lock = File::create(path.join(NEW_LOCK_FILE))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        // The machines inherit the descriptor.
        fcntl_setfd(&lock, FdFlags::empty())?;
        rename(path.join(NEW_LOCK_FILE), path.join(LOCK_FILE))?;
        Ok(SharedDirectory {
            directory,
            _lock: lock,
        })
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Removes the directories in `parent` whose dev-clusters have ended. A directory that cannot be
/// read or removed is left as it is; it only takes memory.
fn remove_abandoned(parent: &Path) {
    let Ok(entries) = read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let is_named = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let is_own =
            |metadata: &Metadata| metadata.is_dir() && metadata.uid() == geteuid().as_raw();
        if !is_named || !entry.metadata().is_ok_and(|metadata| is_own(&metadata)) {
            continue;
        }
        let path = entry.path();
        let Some(_lock) = lock_abandoned(&path) else {
            continue;
        };
        match remove_dir_all(&path) {
            Ok(()) => eprintln!(
                "fencepost: removed {}, left by a dev-cluster that was killed",
                path.display()
            ),
            Err(error) => eprintln!("fencepost: {}: {error}", path.display()),
        }
    }
}

/// Locks a directory whose processes have all ended; `None` for any other directory.
fn lock_abandoned(directory: &Path) -> Option<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    options.custom_flags(i32::try_from(OFlags::NOFOLLOW.bits()).ok()?);
    let lock = options.open(directory.join(LOCK_FILE)).ok()?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(lock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unlocked_directories_are_removed() {
        let parent = tempfile::tempdir().expect("a directory");
        let at = |name: &str| parent.path().join(name);
        for name in ["fencepost-dead", "fencepost-unlocked", "other"] {
            std::fs::create_dir(at(name)).expect("made");
            std::fs::write(at(name).join("m1"), "memory").expect("written");
        }
        for name in ["fencepost-dead", "other"] {
            std::fs::write(at(name).join(LOCK_FILE), "").expect("written");
        }
        let living = SharedDirectory::create(parent.path()).expect("made");
        assert!(!at("fencepost-dead").exists());
        assert!(at("fencepost-unlocked").exists() && at("other").exists());
        remove_abandoned(parent.path());
        let own = living.path().to_owned();
        assert!(own.join(LOCK_FILE).exists());
        drop(living);
        assert!(!own.exists());
    }

    #[test]
    fn link_in_the_place_of_a_directory_or_a_lock_is_left() {
        let parent = tempfile::tempdir().expect("a directory");
        let elsewhere = tempfile::tempdir().expect("a directory");
        std::fs::write(elsewhere.path().join(LOCK_FILE), "").expect("written");
        let link = parent.path().join("fencepost-link");
        std::os::unix::fs::symlink(elsewhere.path(), &link).expect("linked");
        let own = parent.path().join("fencepost-own");
        std::fs::create_dir(&own).expect("made");
        std::os::unix::fs::symlink(elsewhere.path().join(LOCK_FILE), own.join(LOCK_FILE))
            .expect("linked");
        remove_abandoned(parent.path());
        assert!(elsewhere.path().join(LOCK_FILE).exists());
        assert!(link.exists() && own.exists());
    }
}
