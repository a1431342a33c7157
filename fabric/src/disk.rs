//! What the engine asks of a disk: named files in one flat directory, positioned reads and
//! writes, and the three kinds of sync that durability is made of.
//!
//! *Invariants* a disk promises, and `SimDisk` takes away at a crash where they do not hold:
//! 1. Bytes written are durable once [`DiskFile::sync`] has returned, if the file's name is.
//! 2. A name made, changed or removed is durable once [`Disk::sync_dir`] has returned.
//! 3. A rename is atomic: after a crash a name means the old file or the new one.
//!
//! *Concurrency.* Files may be read and written by many threads at once; overlapping writes
//! have no order.
//!
//! *Failure.* Every call answers with an [`io::Error`]. After a failed sync nothing is known
//! about the bytes written since the last good one.

use std::io;
use std::sync::Arc;

/// Held while a directory is in use; dropping it gives the directory free.
pub type DiskLock = Box<dyn Send + Sync>;

/// One directory of files.
pub trait Disk: Send + Sync {
    /// Creates an empty file, or empties the one that has the name.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens a file for reading and writing; `NotFound` when there is none.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// The names of all files, sorted; directories are left out.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Gives a file another name; a file that had it is gone.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file; `NotFound` when there is none.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes names durable.
    fn sync_dir(&self) -> io::Result<()>;

    /// A directory inside this one, created (durably) when it is not there.
    fn subdir(&self, name: &str) -> io::Result<Arc<dyn Disk>>;

    /// Keeps other processes out until the lock is dropped; `WouldBlock` when one is in.
    fn lock(&self, name: &str) -> io::Result<DiskLock>;

    /// How to call a file when speaking to people.
    fn path(&self, name: &str) -> String;
}

/// One open file.
pub trait DiskFile: Send + Sync {
    /// Bytes in the file.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Reads up to `out.len()` bytes; fewer only at the end of the file.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<usize>;

    /// Writes all of `bytes`; the file grows as needed.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Cuts or extends (with zeros) the file to `len` bytes.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Makes bytes written durable, with no more metadata than finding them again takes.
    fn sync(&self) -> io::Result<()>;

    /// Makes bytes and all metadata durable.
    fn sync_all(&self) -> io::Result<()>;

    /// Writes zeros from `from` up to `to`, so that space is really taken. On an error some of
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
