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
//! DIR/regions/m1/0001000000000000        m1's regions, which go from one life to the next
//! ```
//! A *life* is from the start of all machines to the end of all. It has the number of the configuration that it began
//! with. Nothing of an earlier life is written by a later one but the regions, once all that had been under way is
//! settled; so rings begin anew, and nobody meets a machine of the life before.
//!
//! # Failure
//! The kernel gives locks back whose holders die. What a life that never came about has left is overwritten by the next.
//! On a tmpfs the files outlive processes; on a disk also the host, if each machine had the time to have them written
//! (`save`). The memory of one that had not is none once the host has booted again: nobody knows what of it was written.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::fabric::FabricError;
use crate::machine::MachineId;
use crate::memory::Memory;
use crate::random::entropy_seed;
use crate::remains::{Afterlife, Remains};
use crate::segment::{SegmentId, Writer};
use crate::shm::{ShmFabric, home_of, make, name_of, open};

const LOCK: &str = "lock";
const REGIONS: &str = "regions";
const MAP: &str = "map";
const BOOT: &str = "boot";
const SAVED: &str = "saved";
/// Says which boot of which host this is.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const LIFE: &str = "life-";
/// How often the lock is asked for, and how long is waited in between: others may settle what the life before has left.
const TRIES: u32 = 60_000;
const NAP: Duration = Duration::from_millis(5);

/// The directory.
#[derive(Debug)]
pub struct Nvram {
    root: PathBuf,
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

/// Has the files of a machine written to the disk that they are on, its regions and all others; nobody writes them any
/// more.
///
/// # Errors
/// What the system answered; then nothing says that they are.
pub(crate) fn save(home: &Path, regions: &Path) -> io::Result<()> {
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
        fs::create_dir_all(root.join(REGIONS))?;
        Ok(Nvram {
            root: root.to_path_buf(),
        })
    }

    /// Keeps others out for as long as the answer is not dropped.
    ///
    /// # Errors
    /// What the system answered.
    pub fn enter(&self) -> io::Result<Living> {
        let lock = lock_file(&self.root.join(LOCK))?;
        for _ in 0..TRIES {
            match lock.try_lock() {
                Ok(()) => return Ok(Living { _lock: lock }),
                Err(TryLockError::WouldBlock) => std::thread::sleep(NAP),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    fn life(&self, life: u64) -> PathBuf {
        self.root.join(format!("{LIFE}{life}"))
    }

    fn lives(&self) -> io::Result<Vec<u64>> {
        let mut lives = Vec::new();
        for entry in fs::read_dir(&self.root)? {
            let name = entry?.file_name();
            let number = name.to_string_lossy();
            lives.extend(
                number
                    .strip_prefix(LIFE)
                    .and_then(|n| n.parse::<u64>().ok()),
            );
        }
        lives.sort_unstable();
        Ok(lives)
    }

    /// The last life that began with a configuration not later than `configuration`.
    ///
    /// # Errors
    /// What the system answered.
    pub fn last(&self, configuration: u64) -> io::Result<Option<u64>> {
        let lives = self.lives()?;
        let mut past = lives.into_iter().filter(|life| *life <= configuration);
        Ok(past.next_back())
    }

    /// Makes the place of a life, and leaves `map` there.
    ///
    /// # Errors
    /// What the system answered.
    pub fn begin(&self, life: u64, map: &[u8]) -> io::Result<()> {
        let place = self.life(life);
        match fs::remove_dir_all(&place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::create_dir_all(&place)?;
        for (name, bytes) in [(MAP, map), (BOOT, boot().as_bytes())] {
            fs::write(place.join(name), bytes)?;
            File::open(place.join(name))?.sync_all()?;
        }
        File::open(&place)?.sync_all()?;
        File::open(&self.root)?.sync_all()
    }

    /// Whether a machine's memory is what it was when the machine ended.
    fn is_intact(&self, life: u64, machine: MachineId) -> bool {
        let place = self.life(life);
        let same = fs::read_to_string(place.join(BOOT)).is_ok_and(|begun| begun == boot());
        same || home_of(&place, machine).join(SAVED).exists()
    }

    /// What was left there.
    ///
    /// # Errors
    /// What the system answered.
    pub fn map(&self, life: u64) -> io::Result<Vec<u8>> {
        fs::read(self.life(life).join(MAP))
    }

    /// Whether a machine of a life is there.
    ///
    /// # Errors
    /// What the system answered.
    pub fn is_alive(&self, life: u64) -> io::Result<bool> {
        let lock = lock_file(&self.life(life).join(LOCK))?;
        match lock.try_lock() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Whether a machine has been in a life.
    pub fn has_lived(&self, life: u64, machine: MachineId) -> bool {
        home_of(&self.life(life), machine).exists()
    }

    /// Takes part in a life. Nobody else has [entered](Self::enter).
    ///
    /// # Errors
    /// What the system answered.
    pub fn join(&self, life: u64) -> io::Result<Living> {
        let lock = lock_file(&self.life(life).join(LOCK))?;
        lock.lock_shared()?;
        Ok(Living { _lock: lock })
    }

    /// Machine `me` in a life, in which it takes part by `living`, with the memory of these regions as they were left; that
    /// of others is removed.
    ///
    /// # Errors
    /// As [`ShmFabric::open`].
    pub fn fabric(
        &self,
        life: u64,
        me: MachineId,
        regions: impl IntoIterator<Item = u32>,
        living: Living,
    ) -> Result<ShmFabric, FabricError> {
        let kept = regions
            .into_iter()
            .map(|region| SegmentId::new(SegmentId::REGION, 0, region))
            .collect();
        let regions = self.root.join(REGIONS);
        ShmFabric::keeping(&self.life(life), (&regions, kept), me, living)
    }

    /// Forgets all lives before one.
    ///
    /// # Errors
    /// What the system answered.
    pub fn forget_before(&self, life: u64) -> io::Result<()> {
        for past in self.lives()?.into_iter().filter(|past| *past < life) {
            fs::remove_dir_all(self.life(past))?;
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
        let places = [self.nvram.life(self.life), self.nvram.root.join(REGIONS)];
        let mut segments = Vec::new();
        for place in places {
            let entries = match fs::read_dir(home_of(&place, machine)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                entries => entries?,
            };
            for entry in entries {
                let path = entry?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                // What has no whole number for a name is no segment.
                let number = name.get(..16).filter(|_| !name.ends_with(".new"));
                let number = number.and_then(|number| u64::from_str_radix(number, 16).ok());
                if let Some(number) = number
                    && let Some(memory) = open(&path, true)
                {
                    segments.push((SegmentId::from_raw(number), Arc::new(memory)));
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
        let home = home_of(&self.nvram.root.join(REGIONS), machine);
        fs::create_dir_all(&home)?;
        let segment = SegmentId::new(SegmentId::REGION, 0, region);
        make(&home.join(name_of(segment, Writer::Owner)), words).map(Arc::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring;
    use crate::{Fabric, Member, sync::Ordering};

    const LANE: u16 = 0;
    const WORDS: usize = 64;

    fn pair(nvram: &Nvram, life: u64, regions: &[u32]) -> [Arc<dyn Fabric>; 2] {
        let members = [1, 2].map(|id| Member {
            id: MachineId(id),
            address: String::new(),
        });
        members.clone().map(|me| {
            let living = nvram.join(life).expect("a life");
            let fabric = nvram.fabric(life, me.id, regions.iter().copied(), living);
            let fabric = fabric.expect("a machine");
            fabric.set_members(&members).expect("a member");
            Arc::new(fabric) as _
        })
    }

    #[test]
    fn records_that_were_not_released_are_found_when_all_have_ended() {
        let directory = tempfile::tempdir().expect("a directory");
        let nvram = Nvram::open(directory.path()).expect("a directory");
        nvram.begin(3, b"map").expect("a life");
        assert_eq!(nvram.map(3).expect("a map"), b"map");
        let [one, two] = pair(&nvram, 3, &[]);
        assert!(nvram.is_alive(3).expect("a lock"));
        let mut writer = ring::send(&one, two.me(), LANE, WORDS).expect("its end");
        let mut reader = ring::receive(&two, one.me(), LANE, WORDS).expect("its end");
        let mut kept = Vec::new();
        // Around the ring once and a half.
        for number in 0..20 {
            writer.push(5, &[&[number; 3]]).expect("room");
            drop(writer.flush());
            let (_, record) = reader.next(&mut Vec::new()).expect("whole").expect("one");
            kept.push(record);
            if number >= 4 {
                reader.release(kept[number as usize - 4]);
            }
        }
        // Released, but behind one that is not; and one that nobody has read.
        reader.release(kept[18]);
        writer.push(6, &[&[7]]).expect("room");
        drop(writer.flush());
        drop((writer, reader, one, two));
        assert!(!nvram.is_alive(3).expect("a lock"));
        let after = nvram.after(3);
        let [one, two] = [1, 2].map(|id| after.remains(MachineId(id)).expect("is read"));
        let word = |memory: &Memory| memory.words()[0].load(Ordering::Relaxed);
        let segment = |kind, number| SegmentId::new(kind, LANE, number);
        let head = word(two.get(segment(SegmentId::RELEASED, 1)).expect("there"));
        let told = word(one.get(segment(SegmentId::HEAD, 2)).expect("there"));
        let rings = two.of_kind(SegmentId::RING);
        assert_eq!(rings.len(), 1);
        let left = ring::left_in(rings[0].1, (head, told), MachineId(1)).expect("whole");
        let expected = (16..20).map(|number| (5, vec![number; 3]));
        let expected: Vec<_> = expected.chain([(6, vec![7])]).collect();
        assert_eq!(left, expected);
        let at = head as usize % WORDS;
        rings[0].1.words()[at].store(u64::MAX >> 1, Ordering::Relaxed);
        assert!(ring::left_in(rings[0].1, (head, told), MachineId(1)).is_err());
    }

    #[test]
    fn regions_go_from_life_to_life_and_nothing_else_does() {
        let directory = tempfile::tempdir().expect("a directory");
        let nvram = Nvram::open(directory.path()).expect("a directory");
        assert_eq!(nvram.last(9).expect("lives"), None);
        let region = |number| SegmentId::new(SegmentId::REGION, 0, number);
        let board = SegmentId::new(SegmentId::BOARD, 0, 0);
        for life in [2, 5] {
            nvram.begin(life, &[]).expect("a life");
            let kept: &[u32] = if life == 2 { &[] } else { &[7] };
            let [one, two] = pair(&nvram, life, kept);
            assert!(nvram.has_lived(life, MachineId(1)));
            for segment in [region(7), region(8), board] {
                let memory = one.provide(segment, 8, Writer::Owner).expect("memory");
                let before = memory.words()[0].fetch_add(life, Ordering::Relaxed);
                let expected = if segment == region(7) && life == 5 {
                    2
                } else {
                    0
                };
                assert_eq!(before, expected, "{segment:?}");
                let seen = two.map(MachineId(1), segment).expect("it is found");
                assert_eq!(seen.words()[0].load(Ordering::Relaxed), expected + life);
            }
            // What was kept is a region of that size or none.
            let words = if life == 2 { 16 } else { 8 };
            let torn = two.provide(region(7), words, Writer::Owner);
            assert_eq!(torn.is_ok(), life == 2);
        }
        assert_eq!(nvram.last(4).expect("lives"), Some(2));
        nvram.forget_before(5).expect("forgotten");
        assert_eq!(nvram.last(4).expect("lives"), None);
        let after = nvram.after(5);
        let made = after.make_region(MachineId(2), 9, 8).expect("memory");
        made.words()[3].store(4, Ordering::Relaxed);
        let left = after.remains(MachineId(2)).expect("is read");
        let there = left.get(region(9)).expect("it is there");
        assert_eq!(there.words()[3].load(Ordering::Relaxed), 4);
        assert!(left.get(region(10)).is_none());
    }

    #[test]
    fn memory_that_was_not_saved_is_none_after_another_boot() {
        let directory = tempfile::tempdir().expect("a directory");
        let nvram = Nvram::open(directory.path()).expect("a directory");
        nvram.begin(1, &[]).expect("a life");
        let [one, two] = pair(&nvram, 1, &[]);
        let region = SegmentId::new(SegmentId::REGION, 0, 7);
        for machine in [&one, &two] {
            machine.provide(region, 8, Writer::Owner).expect("memory");
        }
        // The second one ends in good order.
        drop(two);
        let there = |id| {
            let left = nvram.after(1).remains(MachineId(id)).expect("is read");
            left.get(region).is_some()
        };
        assert!(there(1) && there(2));
        fs::write(nvram.life(1).join(BOOT), "another").expect("is written");
        assert!(!there(1) && there(2));
        drop(one);
        assert!(there(1));
    }

    #[test]
    fn one_at_a_time_finds_out_whether_others_live() {
        let directory = tempfile::tempdir().expect("a directory");
        let nvram = Nvram::open(directory.path()).expect("a directory");
        let entered = nvram.enter().expect("nobody is in");
        std::thread::scope(|scope| {
            let other = scope.spawn(|| nvram.enter().map(drop));
            std::thread::sleep(NAP);
            assert!(!other.is_finished());
            drop(entered);
            other.join().expect("ends").expect("it was its turn");
        });
    }
}
