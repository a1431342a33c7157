//! Saves of the memory of ended machines on another disk, and their loading.
//!
//! # Picture
//! ```text
//! DIR2/incarnation-7/m1/memory    the written parts of m1's files, in chunks ([`super::layout`])
//! DIR2/incarnation-7/m1/manifest  the list of files, and the checksums; written last
//! DIR2/incarnation-7/m1/saving    locked by the process that saves
//! ```
//! Any process of the host may save an ended machine, because all of them can read the files and
//! none writes them. A save is of one incarnation, and is never loaded over memory of a later one.
//! Incarnations are numbered by configurations, which are durable before an incarnation begins.
//!
//! # Invariants
//! * SAVE-1: loaded memory is all saved memory of a machine, unchanged, or the machine has no
//!   memory.
//! * SAVE-2: a save is loaded in its own incarnation only, and only if the memory is gone. So no
//!   newer memory is overwritten, and no memory older than the last incarnation returns.
//! * SAVE-3: memory is not saved while a process writes it, and no incarnation begins during a
//!   save.
//!
//! # Failure
//! Without an intact manifest there is no save. Each chunk is checked when read, and a damaged
//! chunk is reported by file and offset. The memory loaded until then is incomplete (the file
//! `loading` marks it), and the next attempt removes it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{FallocateFlags, fallocate};

use super::layout::{DirectoryKind, Layout, Source};
use super::manifest::Manifest;
use super::transfer;
use super::{Nvram, lock_file, segment_of};
use crate::machine::MachineId;
use crate::shm::home_of;

const MEMORY: &str = "memory";
const MANIFEST: &str = "manifest";
const SAVING: &str = "saving";
/// A bound far above the size of a manifest.
const MANIFEST_BYTES_MAX: u64 = 1 << 30;

/// The outcome of saving a machine's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaveOutcome {
    /// This number of bytes has been written to the disk.
    Now(u64),
    /// The memory was saved before.
    Before,
    /// Another process is saving the memory.
    ByAnother,
}

/// The reason why memory cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The system returned an error.
    #[error("{}: {error}", file.display())]
    Io {
        /// The file that was accessed.
        file: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The save is damaged.
    #[error("{}: byte {at}: {why}", file.display())]
    Damaged {
        /// The damaged file.
        file: PathBuf,
        /// The offset of the damage in the file.
        at: u64,
        /// The kind of damage.
        why: &'static str,
    },
}

fn named(file: &Path) -> impl Fn(io::Error) -> LoadError {
    move |error| LoadError::Io {
        file: file.to_path_buf(),
        error,
    }
}

/// Adds the file's path to an error.
fn at(file: &Path) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{}: {error}", file.display()))
}

impl Nvram {
    /// Returns the directory of the save of a machine's memory in an incarnation.
    fn save_of(&self, incarnation: u64, machine: MachineId) -> PathBuf {
        home_of(&self.record(incarnation), machine)
    }

    /// Returns whether a save of a machine's memory exists, intact or not.
    pub(super) fn has_save(&self, incarnation: u64, machine: MachineId) -> bool {
        self.has_saves() && self.save_of(incarnation, machine).join(MANIFEST).exists()
    }

    /// Returns the directory of a machine's files of a kind.
    fn home(&self, home: DirectoryKind, incarnation: u64, machine: MachineId) -> PathBuf {
        match home {
            DirectoryKind::Incarnation => home_of(&self.memory_dir(incarnation), machine),
            DirectoryKind::Regions => home_of(&self.regions(), machine),
        }
    }

    /// Saves a machine's memory as an ended incarnation has left it. The caller must keep other
    /// processes from beginning the next one ([`Self::enter_to_save`]).
    ///
    /// # Errors
    /// The error of the system; the memory is not saved then.
    pub fn save(&self, incarnation: u64, machine: MachineId) -> io::Result<SaveOutcome> {
        let place = self.save_of(incarnation, machine);
        fs::create_dir_all(&place).map_err(at(&place))?;
        let lock = lock_file(&place.join(SAVING))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(SaveOutcome::ByAnother),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        if self.has_save(incarnation, machine) {
            return Ok(SaveOutcome::Before);
        }
        let mut layout = Layout::default();
        for home in [DirectoryKind::Incarnation, DirectoryKind::Regions] {
            let directory = self.home(home, incarnation, machine);
            for name in segments_in(&directory)? {
                let file = File::open(directory.join(&name))?;
                let bytes = file.metadata()?.len();
                layout.add(Source { home, name, bytes }, &file)?;
            }
        }
        let open = |source: &Source| {
            File::open(
                self.home(source.home, incarnation, machine)
                    .join(&source.name),
            )
        };
        let memory = place.join(MEMORY);
        let checksums = write(&memory, &layout, open).map_err(at(&memory))?;
        let bytes = layout.bytes();
        let manifest = Manifest {
            machine,
            incarnation,
            layout,
            checksums,
        };
        let draft = place.join("manifest.new");
        fs::write(&draft, manifest.seal()).map_err(at(&draft))?;
        File::open(&draft)?.sync_all()?;
        fs::rename(draft, place.join(MANIFEST))?;
        for directory in [&place, &self.record(incarnation)] {
            File::open(directory)?.sync_all()?;
        }
        Ok(SaveOutcome::Now(bytes))
    }

    /// Loads a machine's memory if it has a save and the memory is gone. Returns the number of
    /// bytes loaded. The caller must hold the lock of [`Self::enter`], and the incarnation must
    /// have ended.
    ///
    /// # Errors
    /// [`LoadError`]; the machine has no memory then.
    pub fn load(&self, incarnation: u64, machine: MachineId) -> Result<Option<u64>, LoadError> {
        let homes = [DirectoryKind::Incarnation, DirectoryKind::Regions]
            .map(|home| self.home(home, incarnation, machine));
        let has = |home: &PathBuf| fs::read_dir(home).is_ok_and(|mut files| files.next().is_some());
        let there = self.is_intact(incarnation, machine) && homes.iter().any(has);
        if there || !self.has_save(incarnation, machine) {
            return Ok(None);
        }
        let place = self.save_of(incarnation, machine);
        let manifest = read_manifest(&place.join(MANIFEST))?;
        if (manifest.machine, manifest.incarnation) != (machine, incarnation) {
            return Err(LoadError::Damaged {
                file: place.join(MANIFEST),
                at: 0,
                why: "this is of another machine or incarnation",
            });
        }
        let loading = self.loading(incarnation, machine);
        fs::create_dir_all(self.memory_dir(incarnation)).map_err(named(&loading))?;
        fs::write(&loading, "").map_err(named(&loading))?;
        for home in &homes {
            match fs::remove_dir_all(home) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(named(home)(error));
                }
                _ => fs::create_dir_all(home).map_err(named(home))?,
            }
        }
        let path = |source: &Source| {
            self.home(source.home, incarnation, machine)
                .join(&source.name)
        };
        for source in &manifest.layout.sources {
            let path = path(source);
            let made = File::create(&path).and_then(|file| file.set_len(source.bytes));
            made.map_err(named(&path))?;
        }
        read(&place.join(MEMORY), &manifest, path).inspect_err(|_| {
            // Incomplete memory only takes space. If the removal fails, it still counts as no
            // memory.
            homes.iter().for_each(|home| drop(fs::remove_dir_all(home)));
        })?;
        self.is_loaded(incarnation, machine)
            .map_err(named(&loading))?;
        Ok(Some(manifest.layout.bytes()))
    }
}

/// Returns the sorted names of all segments in a directory; empty if the directory does not exist.
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

/// Writes the pieces of a layout to a file and syncs it; returns the checksums of the chunks.
fn write(
    memory: &Path,
    layout: &Layout,
    open: impl Fn(&Source) -> io::Result<File> + Sync,
) -> io::Result<Vec<u32>> {
    let mut options = OpenOptions::new();
    let file = transfer::open(options.write(true).create(true).truncate(true), memory)?;
    let chunks = layout.chunks();
    // If the space cannot be reserved, it is allocated by the writes.
    let _ = fallocate(&file, FallocateFlags::empty(), 0, layout.bytes().max(1));
    let checksums = Mutex::new(vec![0; chunks.count()]);
    transfer::each(chunks.count(), |chunk, worker| {
        let place = chunks.place(chunk);
        for part in chunks.parts(chunk) {
            let source = &layout.sources[part.source as usize];
            let (from, bytes) = worker.file(part.source, || open(source))?;
            let bytes = &mut bytes[part.at..][..part.bytes];
            // The last block may extend beyond the file.
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

/// Reads the chunks of a save into their source files, which exist and are empty.
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
