//! The files that are a machine's memory: their names, and how they are made and mapped.

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

/// Whether there is a process whose home that is.
pub(crate) fn is_locked(home: &Path) -> bool {
    let lock = File::open(home.join(LOCK));
    lock.is_ok_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Whether all of a segment is written sooner or later. Regions and old versions are large, and are put to use piece by
/// piece.
pub(crate) fn is_whole(segment: SegmentId) -> bool {
    ![SegmentId::REGION, SegmentId::OLD_VERSIONS].contains(&segment.kind())
}

pub(crate) fn name_of(segment: SegmentId, writer: Writer) -> String {
    match writer {
        Writer::Owner => format!("{:016x}", segment.raw()),
        Writer::Peer(peer) => format!("{:016x}.{peer}", segment.raw()),
    }
}

/// Makes a file of zeroed words and maps it. What is `whole` has its room from the beginning; of the rest room is taken
/// as pages are touched, which whoever does so has to know is there ([`crate::Fabric::room`]): where it is not the process ends.
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
        take_room(&file, bytes)?;
    }
    let memory = Memory::of_file(&file, true)?;
    fs::rename(unnamed, path)?;
    Ok(memory)
}

/// Has the file system set bytes of a file aside, where it can.
fn take_room(file: &File, bytes: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
        taken => taken.map_err(io::Error::from),
    }
}

/// Opens what a peer has made.
pub(super) fn open_file(path: &Path, writable: bool) -> Result<File, FabricError> {
    let opened = OpenOptions::new().read(true).write(writable).open(path);
    // It is not there yet, or no more.
    opened.map_err(|_| FabricError::Lost)
}

pub(crate) fn open(path: &Path, writable: bool) -> Option<Memory> {
    let file = open_file(path, writable).ok()?;
    Memory::of_file(&file, writable).ok()
}
