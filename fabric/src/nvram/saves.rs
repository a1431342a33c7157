//! The memory of machines that have ended, saved on a disk that it is not on, and loaded from there.
//!
//! # Picture
//! ```text
//! DIR2/life-7/m1/memory      all that was written of m1's files, chunk by chunk ([`super::layout`])
//! DIR2/life-7/m1/manifest    which files, and the checksums; written last
//! DIR2/life-7/m1/saving      locked by who saves it
//! ```
//! Who saves a machine need not have been it: the files are there for every process of the host, and nobody writes them
//! any more. A save is of one life. What has been in a later one is never loaded over, as lives are counted by the
//! configuration, which is durable before a life begins.
//!
//! # Invariants
//! * SAVE-1: what is loaded is all that was saved of a machine, as it was, or the machine has no memory.
//! * SAVE-2: a save is loaded in its own life alone, and only where memory is gone; so nothing newer is overwritten, and
//!   nothing older than what ran last comes back.
//! * SAVE-3: nothing is saved that anybody still writes, and no life begins while one is saved.
//!
//! # Failure
//! Without a whole manifest there is no save. What is read is checked chunk by chunk, and a chunk that is not what was
//! written is told by file and place; what had been loaded until then is no memory (`loading` says so beside it), and goes
//! with the next attempt.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{FallocateFlags, fallocate};

use super::layout::{Home, Layout, Source};
use super::manifest::Manifest;
use super::transfer;
use super::{Nvram, lock_file, segment_of};
use crate::machine::MachineId;
use crate::shm::home_of;

const MEMORY: &str = "memory";
const MANIFEST: &str = "manifest";
const SAVING: &str = "saving";
/// A manifest is far shorter.
const MANIFEST_BYTES_MAX: u64 = 1 << 30;

/// What came of saving a machine's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    /// So many bytes are on the disk now.
    Now(u64),
    /// It was saved already.
    Before,
    /// Another process is at it.
    ByAnother,
}

/// Why memory cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The system says no.
    #[error("{}: {error}", file.display())]
    Io {
        /// To what.
        file: PathBuf,
        /// What it said.
        error: io::Error,
    },
    /// That is not what was saved.
    #[error("{}: byte {at}: {why}", file.display())]
    Damaged {
        /// Which file.
        file: PathBuf,
        /// Where in it.
        at: u64,
        /// What is the matter.
        why: &'static str,
    },
}

fn named(file: &Path) -> impl Fn(io::Error) -> LoadError {
    move |error| LoadError::Io {
        file: file.to_path_buf(),
        error,
    }
}

/// Names a file in an error that does not.
fn at(file: &Path) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{}: {error}", file.display()))
}

impl Nvram {
    /// Where a machine's memory of a life is saved.
    fn save_of(&self, life: u64, machine: MachineId) -> PathBuf {
        home_of(&self.record(life), machine)
    }

    /// Whether there is a save of a machine's memory, whatever it is worth.
    pub(super) fn has_save(&self, life: u64, machine: MachineId) -> bool {
        self.has_saves() && self.save_of(life, machine).join(MANIFEST).exists()
    }

    /// The directory of a machine's files of a kind.
    fn home(&self, home: Home, life: u64, machine: MachineId) -> PathBuf {
        match home {
            Home::Life => home_of(&self.life(life), machine),
            Home::Regions => home_of(&self.regions(), machine),
        }
    }

    /// Saves a machine's memory as a life has left it, which is over. Who does so keeps others from beginning the next one
    /// ([`Self::enter_to_save`]).
    ///
    /// # Errors
    /// What the system answered; then it is not saved.
    pub fn save(&self, life: u64, machine: MachineId) -> io::Result<Saved> {
        let place = self.save_of(life, machine);
        fs::create_dir_all(&place).map_err(at(&place))?;
        let lock = lock_file(&place.join(SAVING))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(Saved::ByAnother),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        if self.has_save(life, machine) {
            return Ok(Saved::Before);
        }
        let mut layout = Layout::default();
        for home in [Home::Life, Home::Regions] {
            let directory = self.home(home, life, machine);
            for name in segments_in(&directory)? {
                let file = File::open(directory.join(&name))?;
                let bytes = file.metadata()?.len();
                layout.add(Source { home, name, bytes }, &file)?;
            }
        }
        let open =
            |source: &Source| File::open(self.home(source.home, life, machine).join(&source.name));
        let memory = place.join(MEMORY);
        let checksums = write(&memory, &layout, open).map_err(at(&memory))?;
        let bytes = layout.bytes();
        let manifest = Manifest {
            machine,
            life,
            layout,
            checksums,
        };
        let draft = place.join("manifest.new");
        fs::write(&draft, manifest.seal()).map_err(at(&draft))?;
        File::open(&draft)?.sync_all()?;
        fs::rename(draft, place.join(MANIFEST))?;
        for directory in [&place, &self.record(life)] {
            File::open(directory)?.sync_all()?;
        }
        Ok(Saved::Now(bytes))
    }

    /// Loads a machine's memory where there is a save of it and it is there no more: how many bytes there were. Nobody
    /// else has [entered](Self::enter), and the life is over.
    ///
    /// # Errors
    /// [`LoadError`]; then the machine has no memory.
    pub fn load(&self, life: u64, machine: MachineId) -> Result<Option<u64>, LoadError> {
        let homes = [Home::Life, Home::Regions].map(|home| self.home(home, life, machine));
        let has = |home: &PathBuf| fs::read_dir(home).is_ok_and(|mut files| files.next().is_some());
        let there = self.is_intact(life, machine) && homes.iter().any(has);
        if there || !self.has_save(life, machine) {
            return Ok(None);
        }
        let place = self.save_of(life, machine);
        let manifest = read_manifest(&place.join(MANIFEST))?;
        if (manifest.machine, manifest.life) != (machine, life) {
            return Err(LoadError::Damaged {
                file: place.join(MANIFEST),
                at: 0,
                why: "this is of another machine or life",
            });
        }
        let loading = self.loading(life, machine);
        fs::create_dir_all(self.life(life)).map_err(named(&loading))?;
        fs::write(&loading, "").map_err(named(&loading))?;
        for home in &homes {
            match fs::remove_dir_all(home) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(named(home)(error));
                }
                _ => fs::create_dir_all(home).map_err(named(home))?,
            }
        }
        let path = |source: &Source| self.home(source.home, life, machine).join(&source.name);
        for source in &manifest.layout.sources {
            let path = path(source);
            let made = File::create(&path).and_then(|file| file.set_len(source.bytes));
            made.map_err(named(&path))?;
        }
        read(&place.join(MEMORY), &manifest, path).inspect_err(|_| {
            // It is no memory and takes room. What cannot be removed is none all the same.
            homes.iter().for_each(|home| drop(fs::remove_dir_all(home)));
        })?;
        self.is_loaded(life, machine).map_err(named(&loading))?;
        Ok(Some(manifest.layout.bytes()))
    }
}

/// The names of all segments in a directory, if it is there.
fn segments_in(directory: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let names = entries.map(|entry| Ok(entry?.file_name().into_string().ok()));
    let names = names.collect::<io::Result<Vec<_>>>()?.into_iter().flatten();
    let mut names: Vec<String> = names.filter(|name| segment_of(name).is_some()).collect();
    names.sort_unstable();
    Ok(names)
}

/// Writes all that is laid out to a file, and has it on the disk; the checksums of the chunks.
fn write(
    memory: &Path,
    layout: &Layout,
    open: impl Fn(&Source) -> io::Result<File> + Sync,
) -> io::Result<Vec<u32>> {
    let mut options = OpenOptions::new();
    let file = transfer::open(options.write(true).create(true).truncate(true), memory)?;
    let chunks = layout.chunks();
    // Where room is not to be had in advance it is as it is written.
    let _ = fallocate(&file, FallocateFlags::empty(), 0, layout.bytes().max(1));
    let checksums = Mutex::new(vec![0; chunks.count()]);
    transfer::each(chunks.count(), |chunk, worker| {
        let place = chunks.place(chunk);
        for part in chunks.parts(chunk) {
            let source = &layout.sources[part.source as usize];
            let (from, bytes) = worker.file(part.source, || open(source))?;
            let bytes = &mut bytes[part.at..][..part.bytes];
            // The last block may go beyond the file.
            let there = part.bytes.min((source.bytes - part.offset) as usize);
            from.read_exact_at(&mut bytes[..there], part.offset)?;
            bytes[there..].fill(0);
        }
        let bytes = worker.bytes((place.end - place.start) as usize);
        let checksum = crc32c::crc32c(bytes);
        file.write_all_at(bytes, place.start)?;
        let mut checksums = checksums.lock().unwrap_or_else(PoisonError::into_inner);
        checksums[chunk] = checksum;
        Ok::<(), io::Error>(())
    })?;
    file.sync_all()?;
    Ok(checksums
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner))
}

/// Reads all that a manifest says from a file into those that it was of, which are there and empty.
fn read(
    memory: &Path,
    manifest: &Manifest,
    path: impl Fn(&Source) -> PathBuf + Sync,
) -> Result<(), LoadError> {
    let damaged = |at, why| {
        let file = memory.to_path_buf();
        LoadError::Damaged { file, at, why }
    };
    let layout = &manifest.layout;
    let mut options = OpenOptions::new();
    let file = match transfer::open(options.read(true), memory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(damaged(0, "it is not there"));
        }
        file => file.map_err(named(memory))?,
    };
    let chunks = layout.chunks();
    transfer::each(chunks.count(), |chunk, worker| {
        let place = chunks.place(chunk);
        let bytes = worker.bytes((place.end - place.start) as usize);
        match file.read_exact_at(bytes, place.start) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(damaged(place.start, "it ends before here"));
            }
            Err(_) => return Err(damaged(place.start, "the disk cannot read it")),
            Ok(()) => {}
        }
        if crc32c::crc32c(bytes) != manifest.checksums[chunk] {
            return Err(damaged(place.start, "the checksum is not what it was"));
        }
        for part in chunks.parts(chunk) {
            let source = &layout.sources[part.source as usize];
            let path = path(source);
            let open = || OpenOptions::new().write(true).open(&path);
            let (to, bytes) = worker.file(part.source, open).map_err(named(&path))?;
            let there = part.bytes.min((source.bytes - part.offset) as usize);
            let written = to.write_all_at(&bytes[part.at..][..there], part.offset);
            written.map_err(named(&path))?;
        }
        Ok(())
    })
}

fn read_manifest(file: &Path) -> Result<Manifest, LoadError> {
    let damaged = LoadError::Damaged {
        file: file.to_path_buf(),
        at: 0,
        why: "it is no manifest",
    };
    let bytes = fs::metadata(file).map_err(named(file))?.len();
    if bytes > MANIFEST_BYTES_MAX {
        return Err(damaged);
    }
    let bytes = fs::read(file).map_err(named(file))?;
    Manifest::unseal(&bytes).ok_or(damaged)
}

#[cfg(test)]
mod tests;
