//! A small file that is replaced as a whole.
//!
//! *Invariants.* Replacing the file renames a synced file, so after a crash the file has the old or
//! the new content. Loading first makes durable what a crash between rename and sync has left, so
//! loaded content is durable (STORE-2).

use std::io;

use fencepost_fabric::Disk;

use super::StoreError;
use crate::codec::DecodeError;

/// Returns the bytes of a file; `None` if it does not exist.
///
/// # Errors
/// [`StoreError::Disk`] if the disk fails, [`StoreError::Damaged`] if the file has more than
/// `max_bytes`.
pub fn load(disk: &dyn Disk, name: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, StoreError> {
    let file = match disk.open(name) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(disk, name)(error)),
    };
    // The name may not be durable yet: a reader must find it again after a crash.
    disk.sync_dir().map_err(failed(disk, name))?;
    let len = file.len().map_err(failed(disk, name))?;
    if len > max_bytes {
        return Err(damaged(disk, name)(DecodeError::Trailing));
    }
    let mut bytes = vec![0; len as usize];
    let read = file.read_at(0, &mut bytes).map_err(failed(disk, name))?;
    bytes.truncate(read);
    Ok(Some(bytes))
}

/// Replaces a file, durably.
///
/// # Errors
/// The error of the disk; a restart may then find the old bytes or the new ones.
pub fn replace(disk: &dyn Disk, name: &str, bytes: &[u8]) -> io::Result<()> {
    let draft = format!("{name}.tmp");
    let file = disk.create(&draft)?;
    file.write_at(0, bytes)?;
    file.sync_all()?;
    disk.rename(&draft, name)?;
    disk.sync_dir()
}

/// Returns the error for a failed disk operation.
pub fn failed(disk: &dyn Disk, name: &str) -> impl FnOnce(io::Error) -> StoreError {
    let file = disk.path(name);
    move |error| StoreError::Disk { file, error }
}

/// Returns the error for a file with invalid content.
pub fn damaged(disk: &dyn Disk, name: &str) -> impl FnOnce(DecodeError) -> StoreError {
    let place = disk.path(name);
    move |what| StoreError::Damaged { place, what }
}
