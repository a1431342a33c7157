//! One small file that is replaced as a whole.
//!
//! *Invariants.* It is replaced by a rename of a synced file, so after a crash it is the old one or
//! the new one. What is loaded is durable first: loading makes durable whatever a crash between
//! rename and sync has left (STORE-2).

use std::io;

use fencepost_fabric::Disk;

use super::StoreError;
use crate::codec::DecodeError;

/// The bytes of a file; `None` when there is none.
///
/// # Errors
/// [`StoreError::Disk`] when the disk fails, [`StoreError::Damaged`] when there are more than
/// `max_bytes`.
pub fn load(disk: &dyn Disk, name: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, StoreError> {
    let file = match disk.open(name) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(disk, name)(error)),
    };
    // The name may be newer than what survives a crash; whoever reads it must find it again.
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
/// What the disk says; then a restart may find the old bytes or the new ones.
pub fn replace(disk: &dyn Disk, name: &str, bytes: &[u8]) -> io::Result<()> {
    let draft = format!("{name}.tmp");
    let file = disk.create(&draft)?;
    file.write_at(0, bytes)?;
    file.sync_all()?;
    disk.rename(&draft, name)?;
    disk.sync_dir()
}

/// The error for a disk that failed.
pub fn failed(disk: &dyn Disk, name: &str) -> impl FnOnce(io::Error) -> StoreError {
    let file = disk.path(name);
    move |error| StoreError::Disk { file, error }
}

/// The error for a file that is not what was written.
pub fn damaged(disk: &dyn Disk, name: &str) -> impl FnOnce(DecodeError) -> StoreError {
    let place = disk.path(name);
    move |what| StoreError::Damaged { place, what }
}
