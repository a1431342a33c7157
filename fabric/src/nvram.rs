//! A directory in which the memory of a host's machines outlives their processes.
//!
//! # Picture
//! ```text
//! DIR/lock                      held for short times by a process that checks which machines run
//! DIR/incarnation-7/lock        each machine of that incarnation holds it shared
//! DIR/incarnation-7/map         the mappings of all regions at its start
//! DIR/incarnation-7/boot        the id of the host's boot at its start
//! DIR/incarnation-7/m1/saved    m1 has ended in good order, and all its memory is on the disk
//! DIR/incarnation-7/m1/...      m1's rings and other segments of one incarnation ([`crate::shm`])
//! DIR/incarnation-7/m1.loading  the memory of m1 is incomplete
//! DIR/regions/m1/000100000...   m1's regions, which pass from one incarnation to the next; those
//!                               of an evicted machine are for its replacement ([`evicted`])
//! ```
//! If memory is saved to another disk, `DIR` stands for two directories. One, such as a tmpfs, has
//! the memory, that is, the contents of `m1`. The other one has the other files and the saves
//! ([`saves`]), and outlives the host.
//!
//! An *incarnation* of the cluster lasts from the start of all machines to the end of all. Its
//! number is that of its first configuration. A later incarnation writes nothing of an earlier one
//! but the regions, and these only after all work in progress is settled. So rings begin anew, and
//! machines of two incarnations never communicate.
//!
//! # Failure
//! The kernel releases the locks of dead processes. The next incarnation overwrites the files of
//! one that did not start completely. On a tmpfs the files outlive processes. On a disk they also
//! outlive the host, if each machine had the time to write them (`sync`). If a machine had not, its
//! memory is lost after a boot of the host, because the written parts are unknown.

pub mod evicted;
mod layout;
mod manifest;
pub mod saves;
mod transfer;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use foldhash::HashSet;

use crate::fabric::FabricError;
use crate::home::MachineDirectory;
use crate::machine::MachineId;
use crate::memory::Memory;
use crate::random::entropy_seed;
use crate::retained_memory::{MemoryStore, RetainedMemory};
use crate::segment::{SegmentId, Writer};
use crate::shm::{home_of, make, name_of, open};

const LOCK: &str = "lock";
const REGIONS: &str = "regions";
const MAP: &str = "map";
const BOOT: &str = "boot";
const SAVED: &str = "saved";
/// The file with the id of the boot in which memory was loaded.
const LOADED: &str = "loaded";
/// The system's file with the id of this boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const INCARNATION_PREFIX: &str = "incarnation-";
/// The number of characters of a segment's number in its file name.
const NUMBER_CHARS: usize = 16;
/// The number of attempts to take the lock, and the pause between them: another process may be
/// settling the previous incarnation.
const TRIES: u32 = 60_000;
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The directory of retained memory.
#[derive(Clone, Debug)]
pub struct Nvram {
    root: PathBuf,
    /// The directory of all files that are not memory.
    records: PathBuf,
}

/// A machine's part in an incarnation, which lasts until all parts are dropped.
#[derive(Debug)]
pub struct IncarnationLock {
    _lock: File,
}

fn lock_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.open(path)
}

/// Returns the id of the host's present boot.
fn boot() -> String {
    // Without an id every call counts as another boot.
    fs::read_to_string(BOOT_ID).unwrap_or_else(|_| entropy_seed().to_string())
}

/// Returns the segment of a complete file with this name ([`name_of`]).
pub(crate) fn segment_of(name: &str) -> Option<SegmentId> {
    let (number, rest) = name.split_at_checked(NUMBER_CHARS)?;
    let writer = rest.strip_prefix(".m").unwrap_or("0");
    let is_one = (rest.is_empty() || rest.starts_with(".m"))
        && number.bytes().all(|digit| digit.is_ascii_hexdigit())
        && !writer.is_empty()
        && writer.bytes().all(|digit| digit.is_ascii_digit());
    let number = u64::from_str_radix(number, 16).ok().filter(|_| is_one);
    number.map(SegmentId::from_raw)
}

/// Returns the incarnations that have a directory in `root`, in ascending order.
fn incarnations_in(root: &Path) -> io::Result<Vec<u64>> {
    let mut incarnations = Vec::new();
    for entry in fs::read_dir(root)? {
        let name = entry?.file_name();
        let number = name.to_string_lossy();
        let number = number.strip_prefix(INCARNATION_PREFIX);
        let number = number.and_then(|n| n.parse::<u64>().ok());
        incarnations.extend(number);
    }
    incarnations.sort_unstable();
    Ok(incarnations)
}

/// Syncs the files of an ended machine, its regions and all others, to their disk, and marks them
/// as saved.
///
/// # Errors
/// The error of the system; the files are not marked as saved then.
pub(crate) fn sync(home: &Path, regions: &Path) -> io::Result<()> {
    for place in [home, regions] {
        for entry in fs::read_dir(place)? {
            File::open(entry?.path())?.sync_all()?;
        }
        File::open(place)?.sync_all()?;
    }
    File::create(home.join(SAVED))?.sync_all()?;
    File::open(home)?.sync_all()
}

impl Nvram {
    /// Opens the directory `root`, and creates it if it does not exist.
    ///
    /// # Errors
    /// The error of the system.
    pub fn open(root: &Path) -> io::Result<Nvram> {
        Nvram::saving_in(root, root)
    }

    /// Opens the directories with memory in `root`, and saves and other files in the directory
    /// `saves` of a disk.
    ///
    /// # Errors
    /// The error of the system.
    pub fn saving_in(root: &Path, saves: &Path) -> io::Result<Nvram> {
        fs::create_dir_all(root.join(REGIONS))?;
        fs::create_dir_all(saves)?;
        Ok(Nvram {
            root: root.to_path_buf(),
            records: saves.to_path_buf(),
        })
    }

    /// Locks out other processes until the result is dropped. Blocks up to five minutes while
    /// another process holds the lock.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] if another process still holds the lock then; otherwise the
    /// error of the system.
    pub fn enter(&self) -> io::Result<IncarnationLock> {
        self.enter_by(File::try_lock)
    }

    /// Locks out processes that would begin an incarnation, but not those that save the memory of
    /// an ended one. Blocks as [`Self::enter`].
    ///
    /// # Errors
    /// As [`Self::enter`].
    pub fn enter_to_save(&self) -> io::Result<IncarnationLock> {
        self.enter_by(File::try_lock_shared)
    }

    fn enter_by(&self, way: fn(&File) -> Result<(), TryLockError>) -> io::Result<IncarnationLock> {
        let lock = lock_file(&self.records.join(LOCK))?;
        for _ in 0..TRIES {
            match way(&lock) {
                Ok(()) => return Ok(IncarnationLock { _lock: lock }),
                Err(TryLockError::WouldBlock) => std::thread::sleep(POLL_INTERVAL),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// Returns the directory of an incarnation's memory.
    fn memory_dir(&self, incarnation: u64) -> PathBuf {
        self.root.join(format!("{INCARNATION_PREFIX}{incarnation}"))
    }

    /// Returns the directory of an incarnation's other files.
    fn record(&self, incarnation: u64) -> PathBuf {
        self.records
            .join(format!("{INCARNATION_PREFIX}{incarnation}"))
    }

    fn regions(&self) -> PathBuf {
        self.root.join(REGIONS)
    }

    /// Returns the path of the file that exists while a machine's memory is incomplete.
    fn loading(&self, incarnation: u64, machine: MachineId) -> PathBuf {
        self.memory_dir(incarnation)
            .join(format!("{machine}.loading"))
    }

    fn has_saves(&self) -> bool {
        self.root != self.records
    }

    /// Returns the last incarnation that began with `configuration` or an earlier one.
    ///
    /// # Errors
    /// The error of the system.
    pub fn last(&self, configuration: u64) -> io::Result<Option<u64>> {
        let incarnations = incarnations_in(&self.records)?;
        let mut past = incarnations
            .into_iter()
            .filter(|incarnation| *incarnation <= configuration);
        Ok(past.next_back())
    }

    /// Creates the directories of an incarnation, and stores `map` there durably. Removes the files
    /// of an incarnation with the same number.
    ///
    /// # Errors
    /// The error of the system.
    pub fn begin(&self, incarnation: u64, map: &[u8]) -> io::Result<()> {
        let place = self.record(incarnation);
        for place in [&self.memory_dir(incarnation), &place] {
            match fs::remove_dir_all(place) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::create_dir_all(&place)?;
        for (name, bytes) in [(MAP, map), (BOOT, boot().as_bytes())] {
            fs::write(place.join(name), bytes)?;
            File::open(place.join(name))?.sync_all()?;
        }
        File::open(&place)?.sync_all()?;
        File::open(&self.records)?.sync_all()
    }

    /// Returns whether a machine's memory is as it was when the machine ended.
    fn is_intact(&self, incarnation: u64, machine: MachineId) -> bool {
        let home = home_of(&self.memory_dir(incarnation), machine);
        let boots =
            [self.record(incarnation).join(BOOT), home.join(LOADED)].map(fs::read_to_string);
        let now = boot();
        let same = boots.into_iter().flatten().any(|boot| boot == now);
        (same || home.join(SAVED).exists()) && !self.loading(incarnation, machine).exists()
    }

    /// Marks all of a machine's memory as loaded.
    fn is_loaded(&self, incarnation: u64, machine: MachineId) -> io::Result<()> {
        fs::write(
            home_of(&self.memory_dir(incarnation), machine).join(LOADED),
            boot(),
        )?;
        fs::remove_file(self.loading(incarnation, machine))
    }

    /// Returns the stored map of an incarnation.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if the incarnation has none; otherwise the error of the system.
    pub fn map(&self, incarnation: u64) -> io::Result<Vec<u8>> {
        fs::read(self.record(incarnation).join(MAP))
    }

    /// Returns whether an incarnation began on this host in its present boot, so that its memory is
    /// here.
    pub fn is_of_this_boot(&self, incarnation: u64) -> bool {
        fs::read_to_string(self.record(incarnation).join(BOOT)).is_ok_and(|began| began == boot())
    }

    /// Returns whether a machine of an incarnation runs.
    ///
    /// # Errors
    /// The error of the system.
    pub fn is_alive(&self, incarnation: u64) -> io::Result<bool> {
        let lock = match lock_file(&self.record(incarnation).join(LOCK)) {
            // The incarnation has been removed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            lock => lock?,
        };
        match lock.try_lock() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Returns whether a machine was part of an incarnation.
    pub fn has_lived(&self, incarnation: u64, machine: MachineId) -> bool {
        home_of(&self.memory_dir(incarnation), machine).exists()
            || self.has_save(incarnation, machine)
    }

    /// Returns whether a machine was part of any incarnation that has not been removed.
    ///
    /// # Errors
    /// The error of the system.
    pub fn has_ever_lived(&self, machine: MachineId) -> io::Result<bool> {
        let mut incarnations = incarnations_in(&self.root)?;
        incarnations.extend(incarnations_in(&self.records)?);
        Ok(incarnations
            .into_iter()
            .any(|incarnation| self.has_lived(incarnation, machine)))
    }

    /// Takes part in an incarnation. The caller must hold the lock of [`Self::enter`]; otherwise
    /// the call may block.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if the incarnation does not exist; otherwise the error of the
    /// system.
    pub fn join(&self, incarnation: u64) -> io::Result<IncarnationLock> {
        let lock = lock_file(&self.record(incarnation).join(LOCK))?;
        lock.lock_shared()?;
        Ok(IncarnationLock { _lock: lock })
    }

    /// Returns the directory of machine `me` in an incarnation, in which `living` is its part. The
    /// memory of these regions is kept as it was left; that of other regions is removed.
    ///
    /// # Errors
    /// [`FabricError::Refused`] if another process runs as this machine; [`FabricError::Io`] if the
    /// directory cannot be created.
    pub fn home_in(
        &self,
        incarnation: u64,
        me: MachineId,
        regions: impl IntoIterator<Item = u32>,
        living: IncarnationLock,
    ) -> Result<MachineDirectory, FabricError> {
        let retained = regions
            .into_iter()
            .map(|region| SegmentId::new(SegmentId::REGION, 0, region))
            .collect();
        let regions = self.regions();
        MachineDirectory::keeping(
            &self.memory_dir(incarnation),
            (&regions, retained),
            me,
            living,
        )
    }

    /// Removes all incarnations before `incarnation`, and all regions but `retained`, with which
    /// machines begin it.
    ///
    /// # Errors
    /// The error of the system.
    pub fn forget_before(&self, incarnation: u64, retained: &[(MachineId, u32)]) -> io::Result<()> {
        let retained = retained.iter().map(|(machine, region)| {
            let segment = SegmentId::new(SegmentId::REGION, 0, *region);
            home_of(&self.regions(), *machine).join(name_of(segment, Writer::Owner))
        });
        let retained: HashSet<PathBuf> = retained.collect();
        for home in fs::read_dir(self.regions())? {
            for file in fs::read_dir(home?.path())? {
                let file = file?.path();
                if !retained.contains(&file) {
                    fs::remove_file(file)?;
                }
            }
        }
        for root in [&self.root, &self.records] {
            for past in incarnations_in(root)?
                .into_iter()
                .filter(|past| *past < incarnation)
            {
                fs::remove_dir_all(root.join(format!("{INCARNATION_PREFIX}{past}")))?;
            }
        }
        Ok(())
    }

    /// Returns the retained memory of an ended incarnation.
    pub fn after(&self, incarnation: u64) -> EndedIncarnation<'_> {
        EndedIncarnation {
            nvram: self,
            incarnation,
        }
    }
}

/// The retained memory of an ended incarnation.
#[derive(Debug)]
pub struct EndedIncarnation<'a> {
    nvram: &'a Nvram,
    incarnation: u64,
}

impl MemoryStore for EndedIncarnation<'_> {
    fn retained(&self, machine: MachineId) -> io::Result<RetainedMemory> {
        if !self.nvram.is_intact(self.incarnation, machine) {
            return Ok(RetainedMemory::default());
        }
        let places = [
            self.nvram.memory_dir(self.incarnation),
            self.nvram.regions(),
        ];
        let mut segments = Vec::new();
        for place in places {
            let entries = match fs::read_dir(home_of(&place, machine)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                entries => entries?,
            };
            for entry in entries {
                let path = entry?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                if let Some(segment) = segment_of(&name)
                    && let Some(memory) = open(&path, true)
                {
                    segments.push((segment, Arc::new(memory)));
                }
            }
        }
        Ok(RetainedMemory::new(segments))
    }

    fn make_region(
        &self,
        machine: MachineId,
        region: u32,
        words: usize,
    ) -> io::Result<Arc<Memory>> {
        let home = home_of(&self.nvram.regions(), machine);
        fs::create_dir_all(&home)?;
        let segment = SegmentId::new(SegmentId::REGION, 0, region);
        make(&home.join(name_of(segment, Writer::Owner)), words, false).map(Arc::new)
    }
}

#[cfg(test)]
mod tests;
