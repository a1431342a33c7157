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
//! Every call blocks its thread until the disk has answered.
//!
//! *Failure.* Every call may return an [`io::Error`]. After a failed sync the state of bytes
//! written since the last successful sync is unknown.

use std::io;
use std::sync::Arc;

/// A lock on a directory in use; dropping it releases the directory.
pub type DiskLock = Box<dyn Send + Sync>;

/// A directory of files.
pub trait Disk: Send + Sync {
    /// Creates an empty file, or truncates the existing file with this name. The name is durable
    /// only after [`Self::sync_dir`].
    ///
    /// # Errors
    /// The error of the disk.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens an existing file for reading and writing.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if the file does not exist; other errors of the disk.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Returns the sorted names of all files, without directories.
    ///
    /// # Errors
    /// The error of the disk.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Renames a file, and removes the file that had the new name. The change is durable only after
    /// [`Self::sync_dir`].
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if the file `from` does not exist; other errors of the disk.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file. Its open handles can still be used.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if the file does not exist; other errors of the disk.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes created, changed and removed names durable.
    ///
    /// # Errors
    /// The error of the disk; which of the names are durable is unknown then.
    fn sync_dir(&self) -> io::Result<()>;

    /// Returns a directory inside this one, and creates it durably if it does not exist.
    ///
    /// # Errors
    /// The error of the disk.
    fn subdir(&self, name: &str) -> io::Result<Arc<dyn Disk>>;

    /// Locks out other processes until the lock is dropped. Does not wait for another holder.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if the lock is held; other errors of the disk.
    fn lock(&self, name: &str) -> io::Result<DiskLock>;

    /// Returns the name of a file for messages to users.
    fn path(&self, name: &str) -> String;
}

/// An open file.
pub trait DiskFile: Send + Sync {
    /// Returns the number of bytes in the file.
    ///
    /// # Errors
    /// The error of the disk.
    fn len(&self) -> io::Result<u64>;

    /// Returns whether the file has no bytes.
    ///
    /// # Errors
    /// As [`Self::len`].
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Reads up to `out.len()` bytes from the byte `offset` on, and returns their number: fewer
    /// only at the end of the file.
    ///
    /// # Errors
    /// The error of the disk; the content of `out` is unspecified then.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<usize>;

    /// Writes all of `bytes` from the byte `offset` on; the file grows as needed. The bytes are
    /// durable only after [`Self::sync`].
    ///
    /// # Errors
    /// [`io::ErrorKind::StorageFull`] if the disk has no space left; other errors of the disk. A
    /// part of the bytes may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Truncates the file to `len` bytes, or extends it with zeros.
    ///
    /// # Errors
    /// [`io::ErrorKind::StorageFull`] if the disk has no space left; other errors of the disk.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Makes bytes written before the call durable, with only the metadata that is needed to read
    /// them.
    ///
    /// # Errors
    /// The error of the disk; which of the bytes are durable is unknown then, also after a later
    /// sync.
    fn sync(&self) -> io::Result<()>;

    /// Makes bytes and all metadata durable.
    ///
    /// # Errors
    /// As [`Self::sync`].
    fn sync_all(&self) -> io::Result<()>;

    /// Writes zeros from the byte `from` up to, but without, the byte `to`, so that the space is
    /// allocated.
    ///
    /// # Errors
    /// As [`Self::write_at`].
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
