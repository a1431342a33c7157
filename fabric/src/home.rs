//! The directory of a machine whose memory is in files.
//!
//! ```text
//! DIR/m1/lock       held while m1's process lives
//! DIR/m1/...        its segments, each a file that gets its name when it is complete
//! ```
//! If memory outlives processes ([`crate::nvram`]), regions are in another directory, and the files
//! that a restart reads stay when the machine ends.
//!
//! # Failure
//! An existing directory either belongs to another process, which holds a lock on it, or is the
//! rest of an ended process and is removed.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use foldhash::HashSet;
use parking_lot::Mutex;

use crate::fabric::FabricError;
use crate::machine::{MachineId, Member};
use crate::memory::Memory;
use crate::nvram::{self, IncarnationLock};
use crate::segment::{SegmentId, Writer};
use crate::shm::{CONTROL, home_of, is_whole, make, name_of, open};

/// The name of the file that is locked while the machine's process lives.
pub(crate) const LOCK: &str = "lock";

/// The directory of a machine, owned by this process.
#[derive(Debug)]
pub struct MachineDirectory {
    me: MachineId,
    home: PathBuf,
    root: PathBuf,
    /// Set if memory outlives the process.
    persistence: Option<Persistence>,
    /// The lock on the directory.
    _lock: File,
}

/// The data for memory that outlives processes.
#[derive(Debug)]
struct Persistence {
    /// The directory of all machines' regions.
    regions: PathBuf,
    /// Regions of this machine that remain from its previous incarnation.
    there: Mutex<HashSet<SegmentId>>,
    /// The lock of the present incarnation of all machines.
    _living: IncarnationLock,
}

impl MachineDirectory {
    /// Opens the directory of machine `me`, in the directory `root` of all machines' memory.
    pub(crate) fn open(root: &Path, me: MachineId) -> Result<MachineDirectory, FabricError> {
        MachineDirectory::of(root, me, None)
    }

    /// Opens the directory of a machine whose memory outlives processes. `regions` is the directory
    /// of all machines' regions. `there` are the regions that this machine gets back when it makes
    /// them.
    pub(crate) fn keeping(
        root: &Path,
        (regions, there): (&Path, HashSet<SegmentId>),
        me: MachineId,
        living: IncarnationLock,
    ) -> Result<MachineDirectory, FabricError> {
        let own = home_of(regions, me);
        fs::create_dir_all(&own)?;
        let stays: Vec<String> = there
            .iter()
            .map(|segment| name_of(*segment, Writer::Owner))
            .collect();
        for entry in fs::read_dir(&own)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if !stays.iter().any(|stays| *stays == name) {
                fs::remove_file(&path)?;
            }
        }
        let persistence = Persistence {
            regions: regions.to_path_buf(),
            there: Mutex::new(there),
            _living: living,
        };
        MachineDirectory::of(root, me, Some(persistence))
    }

    fn of(
        root: &Path,
        me: MachineId,
        persistence: Option<Persistence>,
    ) -> Result<MachineDirectory, FabricError> {
        let home = home_of(root, me);
        fs::create_dir_all(&home)?;
        let lock = File::create(home.join(LOCK))?;
        if lock.try_lock().is_err() {
            return Err(FabricError::Refused("another process is this machine"));
        }
        // Files of an ended process belong to an earlier incarnation.
        for entry in fs::read_dir(&home)? {
            let path = entry?.path();
            if path.file_name().is_some_and(|name| name != LOCK) {
                fs::remove_file(path)?;
            }
        }
        Ok(MachineDirectory {
            me,
            home,
            root: root.to_path_buf(),
            persistence,
            _lock: lock,
        })
    }

    /// Returns the machine of this directory.
    pub(crate) fn me(&self) -> MachineId {
        self.me
    }

    /// Returns the directory that has the directories of all machines.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn path(&self) -> &Path {
        &self.home
    }

    /// Returns whether memory outlives the process.
    pub(crate) fn keeps(&self) -> bool {
        self.persistence.is_some()
    }

    /// Returns the free bytes of the file system.
    pub(crate) fn free_space(&self) -> Option<u64> {
        let stat = rustix::fs::statvfs(&self.home).ok()?;
        Some(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// Returns the directory of a machine's segment: that of its regions, or `home` for other
    /// kinds.
    pub(crate) fn place_of(&self, home: &Path, machine: MachineId, segment: SegmentId) -> PathBuf {
        match &self.persistence {
            Some(persistence) if segment.kind() == SegmentId::REGION => {
                home_of(&persistence.regions, machine)
            }
            _ => home.to_path_buf(),
        }
    }

    /// Makes memory and its file for a segment: zeroes, or a region of this machine's previous
    /// incarnation.
    pub(crate) fn make(
        &self,
        segment: SegmentId,
        words: usize,
        writer: Writer,
    ) -> Result<(Memory, PathBuf), FabricError> {
        const MISSING: FabricError = FabricError::Refused("what was kept has another size");
        let place = self.place_of(&self.home, self.me, segment);
        let path = place.join(name_of(segment, writer));
        let persistence = self.persistence.as_ref();
        let memory = match persistence
            .is_some_and(|persistence| persistence.there.lock().remove(&segment))
        {
            true => {
                let memory = open(&path, true).filter(|memory| memory.len() == words);
                memory.ok_or(MISSING)?
            }
            false => make(&path, words, is_whole(segment))?,
        };
        Ok((memory, path))
    }

    /// Removes the file of a segment. If memory outlives processes, logs between this machine and
    /// members stay, because a restart reads them.
    pub(crate) fn unmake(
        &self,
        segment: SegmentId,
        path: &Path,
        is_member: impl FnOnce(MachineId) -> bool,
    ) {
        let logs = [SegmentId::RING, SegmentId::HEAD, SegmentId::RELEASED];
        let is_log = self.persistence.is_some() && logs.contains(&segment.kind());
        if !is_log || !is_member(MachineId(segment.number())) {
            // The file may have been removed already.
            let _ = fs::remove_file(path);
        }
    }

    /// Removes the memory of ended machines that are neither this one nor in `members`: other
    /// machines have replicas of it, or it is lost. Processes that have mapped a file keep it. If
    /// memory outlives processes, regions stay ([`crate::nvram::evicted`]), and so do the positions
    /// in logs of other machines.
    ///
    /// # Errors
    /// [`FabricError::Io`] if the directory cannot be read.
    pub fn clear_away(&self, members: &[Member]) -> Result<(), FabricError> {
        let homes = members.iter().map(|member| home_of(&self.root, member.id));
        let homes: Vec<PathBuf> = homes.collect();
        for entry in fs::read_dir(&self.root)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let number = name
                .strip_prefix('m')
                .and_then(|number| number.parse::<u32>().ok());
            if number.is_none() || homes.contains(&path) || path == self.home {
                continue;
            }
            // A starting machine may not hold its lock yet. If memory outlives processes, no
            // machine starts meanwhile.
            if self.persistence.is_none() && !path.join(CONTROL).exists() {
                continue;
            }
            let lock = File::open(path.join(LOCK));
            if lock.is_ok_and(|lock| lock.try_lock().is_ok()) {
                // Another machine may be removing it, too.
                let _ = match self.persistence {
                    None => fs::remove_dir_all(path),
                    Some(_) => clear(&path),
                };
            }
        }
        Ok(())
    }
}

/// Removes all files of a machine but the positions that other machines have written to it about
/// its logs, which a restart reads.
fn clear(home: &Path) -> io::Result<()> {
    let head = SegmentId::new(SegmentId::HEAD, 0, 0).kind();
    for entry in fs::read_dir(home)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if nvram::segment_of(&name).is_none_or(|segment| segment.kind() != head) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

impl Drop for MachineDirectory {
    fn drop(&mut self) {
        if let Some(persistence) = &self.persistence {
            // After an error the memory is not marked as saved.
            let _ = nvram::sync(&self.home, &home_of(&persistence.regions, self.me));
            return;
        }
        // Processes that have mapped a segment keep its memory; no process finds it any more.
        let _ = fs::remove_dir_all(&self.home);
    }
}
