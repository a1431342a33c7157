//! The directory of a machine's memory in files.
//!
//! ```text
//! DIR/m1/lock       held while m1's process lives
//! DIR/m1/...        its segments, each a file that gets its name when it is whole
//! ```
//! Where memory is to outlive processes ([`crate::nvram`]) regions are in a directory of their own, and what a restart has to look at
//! stays when the machine ends.
//!
//! # Failure
//! A directory that is there already is another process's, which holds a lock on it, or what a process has left behind, which is
//! removed.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use foldhash::HashSet;
use parking_lot::Mutex;

use crate::fabric::FabricError;
use crate::machine::{MachineId, Member};
use crate::memory::Memory;
use crate::nvram::{self, Living};
use crate::segment::{SegmentId, Writer};
use crate::shm::{CONTROL, home_of, is_whole, make, name_of, open};

/// Name of the file that is locked while the machine's process lives.
pub(crate) const LOCK: &str = "lock";

/// The directory of a machine, which is this process's.
#[derive(Debug)]
pub struct Home {
    me: MachineId,
    home: PathBuf,
    root: PathBuf,
    /// Where memory outlives the process.
    kept: Option<Keeping>,
    /// Keeps the directory ours.
    _lock: File,
}

/// Memory that outlives processes.
#[derive(Debug)]
struct Keeping {
    /// Where all machines have their regions.
    regions: PathBuf,
    /// Regions of this machine that are there from its last life.
    there: Mutex<HashSet<SegmentId>>,
    /// Keeps the life.
    _living: Living,
}

impl Home {
    /// That of machine `me`, of those whose memory is in `root`.
    pub(crate) fn open(root: &Path, me: MachineId) -> Result<Home, FabricError> {
        Home::of(root, me, None)
    }

    /// The same where memory outlives processes: `regions` is where all machines have theirs, and `there` are those of
    /// this machine that it gets back when it makes them.
    pub(crate) fn keeping(
        root: &Path,
        (regions, there): (&Path, HashSet<SegmentId>),
        me: MachineId,
        living: Living,
    ) -> Result<Home, FabricError> {
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
        let kept = Keeping {
            regions: regions.to_path_buf(),
            there: Mutex::new(there),
            _living: living,
        };
        Home::of(root, me, Some(kept))
    }

    fn of(root: &Path, me: MachineId, kept: Option<Keeping>) -> Result<Home, FabricError> {
        let home = home_of(root, me);
        fs::create_dir_all(&home)?;
        let lock = File::create(home.join(LOCK))?;
        if lock.try_lock().is_err() {
            return Err(FabricError::Refused("another process is this machine"));
        }
        // What a process that is gone has left is of another life.
        for entry in fs::read_dir(&home)? {
            let path = entry?.path();
            if path.file_name().is_some_and(|name| name != LOCK) {
                fs::remove_file(path)?;
            }
        }
        Ok(Home {
            me,
            home,
            root: root.to_path_buf(),
            kept,
            _lock: lock,
        })
    }

    /// Whose it is.
    pub(crate) fn me(&self) -> MachineId {
        self.me
    }

    /// Where the machines are.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn path(&self) -> &Path {
        &self.home
    }

    /// Whether memory outlives the process.
    pub(crate) fn keeps(&self) -> bool {
        self.kept.is_some()
    }

    /// Bytes that there is room for.
    pub(crate) fn room(&self) -> Option<u64> {
        let stat = rustix::fs::statvfs(&self.home).ok()?;
        Some(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// Where the files of a kind are that a machine has, whose others are in `home`.
    pub(crate) fn place_of(&self, home: &Path, machine: MachineId, segment: SegmentId) -> PathBuf {
        match &self.kept {
            Some(kept) if segment.kind() == SegmentId::REGION => home_of(&kept.regions, machine),
            _ => home.to_path_buf(),
        }
    }

    /// Memory for a segment, and its file: zeroes, or a region of this machine's last life.
    pub(crate) fn make(
        &self,
        segment: SegmentId,
        words: usize,
        writer: Writer,
    ) -> Result<(Memory, PathBuf), FabricError> {
        const MISSING: FabricError = FabricError::Refused("what was kept has another size");
        let place = self.place_of(&self.home, self.me, segment);
        let path = place.join(name_of(segment, writer));
        let kept = self.kept.as_ref();
        let memory = match kept.is_some_and(|kept| kept.there.lock().remove(&segment)) {
            true => {
                let memory = open(&path, true).filter(|memory| memory.len() == words);
                memory.ok_or(MISSING)?
            }
            false => make(&path, words, is_whole(segment))?,
        };
        Ok((memory, path))
    }

    /// Nobody finds a segment any more. What a restart looks at stays: logs between this machine and those that are members.
    pub(crate) fn unmake(
        &self,
        segment: SegmentId,
        path: &Path,
        is_member: impl FnOnce(MachineId) -> bool,
    ) {
        let logs = [SegmentId::RING, SegmentId::HEAD, SegmentId::RELEASED];
        let is_log = self.kept.is_some() && logs.contains(&segment.kind());
        if !is_log || !is_member(MachineId(segment.number())) {
            // A name that is gone already is as good.
            let _ = fs::remove_file(path);
        }
    }

    /// Removes the memory of machines that are neither this one nor among `members`, and whose processes have ended: what
    /// they had others have, or it is lost. Who has mapped some of it keeps that. Where memory outlives processes regions
    /// stay ([`crate::nvram::gone`]), and where in their logs at others they were.
    ///
    /// # Errors
    /// [`FabricError::Io`] where the directory cannot be read.
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
            // A machine that is about to come has yet to have its lock; where memory is kept nobody comes meanwhile.
            if self.kept.is_none() && !path.join(CONTROL).exists() {
                continue;
            }
            let lock = File::open(path.join(LOCK));
            if lock.is_ok_and(|lock| lock.try_lock().is_ok()) {
                // Another machine may be at it, too.
                let _ = match self.kept {
                    None => fs::remove_dir_all(path),
                    Some(_) => clear(&path),
                };
            }
        }
        Ok(())
    }
}

/// Removes all that a machine had for itself but the words that others have told it of its logs, which a restart looks at.
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

impl Drop for Home {
    fn drop(&mut self) {
        if let Some(kept) = &self.kept {
            // What is not saved is not said to be.
            let _ = nvram::sync(&self.home, &home_of(&kept.regions, self.me));
            return;
        }
        // Who has mapped a segment keeps its memory; nobody finds it any more.
        let _ = fs::remove_dir_all(&self.home);
    }
}
