//! The files of a machine's memory: their names, and how they are made and mapped.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::fabric::FabricError;
use crate::home::LOCK;
use crate::machine::MachineId;
use crate::memory::{Memory, WORD_BYTES};
use crate::segment::{SegmentId, Writer};

pub(crate) fn home_of(root: &Path, machine: MachineId) -> PathBuf {
    root.join(machine.to_string())
}

/// Returns whether a process holds the lock on this directory.
pub(crate) fn is_locked(home: &Path) -> bool {
    let lock = File::open(home.join(LOCK));
    lock.is_ok_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Returns whether all of a segment is written sooner or later. Regions and old versions are large,
/// and are used piece by piece.
pub(crate) fn is_whole(segment: SegmentId) -> bool {
    ![SegmentId::REGION, SegmentId::OLD_VERSIONS].contains(&segment.kind())
}

pub(crate) fn name_of(segment: SegmentId, writer: Writer) -> String {
    match writer {
        Writer::Owner => format!("{:016x}", segment.raw()),
        Writer::Peer(peer) => format!("{:016x}.{peer}", segment.raw()),
    }
}

/// Makes a file of zeroed words and maps it. A `whole` file gets its disk space at once. Others get
/// space as pages are touched. The caller must know that the space exists
/// ([`crate::Fabric::free_bytes`]): without it the process ends.
pub(crate) fn make(path: &Path, words: usize, whole: bool) -> io::Result<Memory> {
    let unnamed = path.with_file_name(format!(
        "{}.new",
        path.file_name().unwrap_or_default().to_string_lossy()
    ));
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&unnamed)?;
    let bytes = (words * WORD_BYTES) as u64;
    file.set_len(bytes)?;
    if whole {
        reserve_space(&file, bytes)?;
    }
    let memory = Memory::of_file(&file, true)?;
    fs::rename(unnamed, path)?;
    Ok(memory)
}

/// Allocates the bytes of a file, if the file system can.
fn reserve_space(file: &File, bytes: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
        taken => taken.map_err(io::Error::from),
    }
}

/// Opens a file that a peer has made.
pub(super) fn open_file(path: &Path, writable: bool) -> Result<File, FabricError> {
    let opened = OpenOptions::new().read(true).write(writable).open(path);
    // The file does not exist yet, or has been removed.
    opened.map_err(|_| FabricError::Lost)
}

pub(crate) fn open(path: &Path, writable: bool) -> Option<Memory> {
    let file = open_file(path, writable).ok()?;
    Memory::of_file(&file, writable).ok()
}
