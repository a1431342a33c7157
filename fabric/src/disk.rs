//! The interface of a disk: named files in one flat directory, positioned reads and writes, and the
//! three kinds of sync on which durability depends.
//!
//! *Invariants* of a disk. At a crash `SimDisk` discards everything that they do not protect:
//! 1. Written bytes are durable once [`DiskFile::sync`] has returned, if the file's name is.
//! 2. A created, changed or removed name is durable once [`Disk::sync_dir`] has returned.
//! 3. A rename is atomic: after a crash a name refers to the old file or to the new one.
//!
//! *Concurrency.* Files may be read and written by many threads at once; overlapping writes
//! have no order.
//!
//! *Failure.* Every call may return an [`io::Error`]. After a failed sync the state of bytes
//! written since the last successful sync is unknown.

use std::io;
use std::sync::Arc;

/// A lock on a directory in use; dropping it releases the directory.
pub type DiskLock = Box<dyn Send + Sync>;

/// A directory of files.
pub trait Disk: Send + Sync {
    /// Creates an empty file, or truncates the existing file with this name.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens a file for reading and writing; `NotFound` if it does not exist.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Returns the sorted names of all files, without directories.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Renames a file, and removes the file that had the new name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file; `NotFound` if it does not exist.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes created, changed and removed names durable.
    fn sync_dir(&self) -> io::Result<()>;

    /// Returns a directory inside this one, and creates it durably if it does not exist.
    fn subdir(&self, name: &str) -> io::Result<Arc<dyn Disk>>;

    /// Locks out other processes until the lock is dropped; `WouldBlock` if another process holds
    /// it.
    fn lock(&self, name: &str) -> io::Result<DiskLock>;

    /// Returns the name of a file for messages to users.
    fn path(&self, name: &str) -> String;
}

/// An open file.
pub trait DiskFile: Send + Sync {
    /// Returns the number of bytes in the file.
    fn len(&self) -> io::Result<u64>;

    /// Returns whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Reads up to `out.len()` bytes; fewer only at the end of the file.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<usize>;

    /// Writes all of `bytes`; the file grows as needed.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Truncates the file to `len` bytes, or extends it with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Makes written bytes durable, with only the metadata that is needed to read them.
    fn sync(&self) -> io::Result<()>;

    /// Makes bytes and all metadata durable.
    fn sync_all(&self) -> io::Result<()>;

    /// Writes zeros from `from` up to `to`, so that the space is allocated. After an error some of
    /// them may have been written.
    fn zero_fill(&self, from: u64, to: u64) -> io::Result<()> {
        static ZEROS: [u8; 256 * 1024] = [0; 256 * 1024];
        let mut at = from;
        while at < to {
            let step = (to - at).min(ZEROS.len() as u64);
            self.write_at(at, &ZEROS[..step as usize])?;
            at += step;
        }
        Ok(())
    }
}
