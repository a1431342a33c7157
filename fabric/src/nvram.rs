//! A directory in which the memory of the machines of a host outlives their processes.
//!
//! # Picture
//! ```text
//! DIR/lock                               held by who finds out whether the machines live, for moments
//! DIR/life-7/lock                        each machine of that life has a part in it
//! DIR/life-7/map                         where all regions were when it began
//! DIR/life-7/boot                        which boot of the host that was
//! DIR/life-7/m1/saved                    m1 has ended in good order, and all its memory is on the disk
//! DIR/life-7/m1/...                      m1's rings and all else that is of one life ([`crate::shm`])
//! DIR/life-7/m1.loading                  what there is of m1 is not all of it
//! DIR/regions/m1/0001000000000000        m1's regions, which go from one life to the next; of a machine that is gone while others
//!                                        live they are there for whoever comes in its place ([`gone`])
//! ```
//! Where memory is to be saved to a disk that it is not on, `DIR` is two directories: memory, what is in `m1`, is in one,
//! such as a tmpfs, and all else, with the saves ([`saves`]), in the other one, which outlives the host.
//!
//! A *life* is from the start of all machines to the end of all. It has the number of the configuration that it began
//! with. Nothing of an earlier life is written by a later one but the regions, once all that had been under way is
//! settled; so rings begin anew, and nobody meets a machine of the life before.
//!
//! # Failure
//! The kernel gives locks back whose holders die. What a life that never came about has left is overwritten by the next.
//! On a tmpfs the files outlive processes; on a disk also the host, if each machine had the time to have them written
//! (`sync`). The memory of one that had not is none once the host has booted again: nobody knows what of it was written.

pub mod gone;
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
use crate::home::Home;
use crate::machine::MachineId;
use crate::memory::Memory;
use crate::random::entropy_seed;
use crate::remains::{Afterlife, Remains};
use crate::segment::{SegmentId, Writer};
use crate::shm::{home_of, make, name_of, open};

const LOCK: &str = "lock";
const REGIONS: &str = "regions";
const MAP: &str = "map";
const BOOT: &str = "boot";
const SAVED: &str = "saved";
/// In which boot of the host memory was loaded.
const LOADED: &str = "loaded";
/// Says which boot of which host this is.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const LIFE: &str = "life-";
/// Characters of a segment's number in the name of its file.
const NUMBER_CHARS: usize = 16;
/// How often the lock is asked for, and how long is waited in between: others may settle what the life before has left.
const TRIES: u32 = 60_000;
const NAP: Duration = Duration::from_millis(5);

/// The directory.
#[derive(Clone, Debug)]
pub struct Nvram {
    root: PathBuf,
    /// Where all is that is no memory.
    records: PathBuf,
}

/// A part in a life: it is not over before all of them are dropped.
#[derive(Debug)]
pub struct Living {
    _lock: File,
}

fn lock_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.open(path)
}

/// Which boot of the host this is.
fn boot() -> String {
    // Where nobody can tell, it is another one each time.
    fs::read_to_string(BOOT_ID).unwrap_or_else(|_| entropy_seed().to_string())
}

/// The segment whose file is called so ([`name_of`]), once it is whole.
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

/// The lives that have a place in a directory, in their order.
fn lives_in(root: &Path) -> io::Result<Vec<u64>> {
    let mut lives = Vec::new();
    for entry in fs::read_dir(root)? {
        let name = entry?.file_name();
        let number = name.to_string_lossy();
        let number = number.strip_prefix(LIFE);
        let number = number.and_then(|n| n.parse::<u64>().ok());
        lives.extend(number);
    }
    lives.sort_unstable();
    Ok(lives)
}

/// Has the files of a machine written to the disk that they are on, its regions and all others; nobody writes them any
/// more.
///
/// # Errors
/// What the system answered; then nothing says that they are.
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
    /// The directory `root`, made if there is none.
    ///
    /// # Errors
    /// What the system answered.
    pub fn open(root: &Path) -> io::Result<Nvram> {
        Nvram::saving_in(root, root)
    }

    /// The same with memory in `root`, and its saves and all that is no memory in the directory `saves` of a disk.
    ///
    /// # Errors
    /// What the system answered.
    pub fn saving_in(root: &Path, saves: &Path) -> io::Result<Nvram> {
        fs::create_dir_all(root.join(REGIONS))?;
        fs::create_dir_all(saves)?;
        Ok(Nvram {
            root: root.to_path_buf(),
            records: saves.to_path_buf(),
        })
    }

    /// Keeps others out for as long as the answer is not dropped.
    ///
    /// # Errors
    /// What the system answered.
    pub fn enter(&self) -> io::Result<Living> {
        self.enter_by(File::try_lock)
    }

    /// Keeps out those who would begin a life, and not those who save the memory of one that is over.
    ///
    /// # Errors
    /// What the system answered.
    pub fn enter_to_save(&self) -> io::Result<Living> {
        self.enter_by(File::try_lock_shared)
    }

    fn enter_by(&self, way: fn(&File) -> Result<(), TryLockError>) -> io::Result<Living> {
        let lock = lock_file(&self.records.join(LOCK))?;
        for _ in 0..TRIES {
            match way(&lock) {
                Ok(()) => return Ok(Living { _lock: lock }),
                Err(TryLockError::WouldBlock) => std::thread::sleep(NAP),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// Where a life's memory is.
    fn life(&self, life: u64) -> PathBuf {
        self.root.join(format!("{LIFE}{life}"))
    }

    /// Where all else is that is of a life.
    fn record(&self, life: u64) -> PathBuf {
        self.records.join(format!("{LIFE}{life}"))
    }

    fn regions(&self) -> PathBuf {
        self.root.join(REGIONS)
    }

    /// What is there while a machine's memory is not all there.
    fn loading(&self, life: u64, machine: MachineId) -> PathBuf {
        self.life(life).join(format!("{machine}.loading"))
    }

    fn has_saves(&self) -> bool {
        self.root != self.records
    }

    /// The last life that began with a configuration not later than `configuration`.
    ///
    /// # Errors
    /// What the system answered.
    pub fn last(&self, configuration: u64) -> io::Result<Option<u64>> {
        let lives = lives_in(&self.records)?;
        let mut past = lives.into_iter().filter(|life| *life <= configuration);
        Ok(past.next_back())
    }

    /// Makes the place of a life, and leaves `map` there.
    ///
    /// # Errors
    /// What the system answered.
    pub fn begin(&self, life: u64, map: &[u8]) -> io::Result<()> {
        let place = self.record(life);
        for place in [&self.life(life), &place] {
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

    /// Whether a machine's memory is what it was when the machine ended.
    fn is_intact(&self, life: u64, machine: MachineId) -> bool {
        let home = home_of(&self.life(life), machine);
        let boots = [self.record(life).join(BOOT), home.join(LOADED)].map(fs::read_to_string);
        let now = boot();
        let same = boots.into_iter().flatten().any(|boot| boot == now);
        (same || home.join(SAVED).exists()) && !self.loading(life, machine).exists()
    }

    /// All of a machine's memory has been loaded.
    fn is_loaded(&self, life: u64, machine: MachineId) -> io::Result<()> {
        fs::write(home_of(&self.life(life), machine).join(LOADED), boot())?;
        fs::remove_file(self.loading(life, machine))
    }

    /// What was left there.
    ///
    /// # Errors
    /// What the system answered.
    pub fn map(&self, life: u64) -> io::Result<Vec<u8>> {
        fs::read(self.record(life).join(MAP))
    }

    /// Whether a life began on this host, and since it has booted: its memory is here.
    pub fn is_here(&self, life: u64) -> bool {
        fs::read_to_string(self.record(life).join(BOOT)).is_ok_and(|began| began == boot())
    }

    /// Whether a machine of a life is there.
    ///
    /// # Errors
    /// What the system answered.
    pub fn is_alive(&self, life: u64) -> io::Result<bool> {
        let lock = match lock_file(&self.record(life).join(LOCK)) {
            // It has been forgotten.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            lock => lock?,
        };
        match lock.try_lock() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Whether a machine has been in a life.
    pub fn has_lived(&self, life: u64, machine: MachineId) -> bool {
        home_of(&self.life(life), machine).exists() || self.has_save(life, machine)
    }

    /// Whether a machine has been in any life that is not forgotten.
    ///
    /// # Errors
    /// What the system answered.
    pub fn has_ever_lived(&self, machine: MachineId) -> io::Result<bool> {
        let mut lives = lives_in(&self.root)?;
        lives.extend(lives_in(&self.records)?);
        Ok(lives.into_iter().any(|life| self.has_lived(life, machine)))
    }

    /// Takes part in a life. Nobody else has [entered](Self::enter).
    ///
    /// # Errors
    /// What the system answered.
    pub fn join(&self, life: u64) -> io::Result<Living> {
        let lock = lock_file(&self.record(life).join(LOCK))?;
        lock.lock_shared()?;
        Ok(Living { _lock: lock })
    }

    /// The directory of machine `me` in a life, in which it takes part by `living`, with the memory of these regions as they were
    /// left; that of others is removed.
    ///
    /// # Errors
    /// [`FabricError::Refused`] if another process is that machine; [`FabricError::Io`] where it cannot be made.
    pub fn home_in(
        &self,
        life: u64,
        me: MachineId,
        regions: impl IntoIterator<Item = u32>,
        living: Living,
    ) -> Result<Home, FabricError> {
        let kept = regions
            .into_iter()
            .map(|region| SegmentId::new(SegmentId::REGION, 0, region))
            .collect();
        let regions = self.regions();
        Home::keeping(&self.life(life), (&regions, kept), me, living)
    }

    /// Forgets all lives before one, and all regions but `kept`, those that machines begin it with.
    ///
    /// # Errors
    /// What the system answered.
    pub fn forget_before(&self, life: u64, kept: &[(MachineId, u32)]) -> io::Result<()> {
        let kept = kept.iter().map(|(machine, region)| {
            let segment = SegmentId::new(SegmentId::REGION, 0, *region);
            home_of(&self.regions(), *machine).join(name_of(segment, Writer::Owner))
        });
        let kept: HashSet<PathBuf> = kept.collect();
        for home in fs::read_dir(self.regions())? {
            for file in fs::read_dir(home?.path())? {
                let file = file?.path();
                if !kept.contains(&file) {
                    fs::remove_file(file)?;
                }
            }
        }
        for root in [&self.root, &self.records] {
            for past in lives_in(root)?.into_iter().filter(|past| *past < life) {
                fs::remove_dir_all(root.join(format!("{LIFE}{past}")))?;
            }
        }
        Ok(())
    }

    /// What the machines of a life have left, which is over.
    pub fn after(&self, life: u64) -> After<'_> {
        After { nvram: self, life }
    }
}

/// A life that is over.
#[derive(Debug)]
pub struct After<'a> {
    nvram: &'a Nvram,
    life: u64,
}

impl Afterlife for After<'_> {
    fn remains(&self, machine: MachineId) -> io::Result<Remains> {
        if !self.nvram.is_intact(self.life, machine) {
            return Ok(Remains::default());
        }
        let places = [self.nvram.life(self.life), self.nvram.regions()];
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
        Ok(Remains::new(segments))
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
