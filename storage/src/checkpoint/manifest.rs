//! The manifest: one small file that names the valid checkpoint and the position where replay
//! begins.
//!
//! *Invariants.* The manifest is replaced by renaming a synced file, so after any crash it is the
//! old one or the new one. So a damaged manifest is reported as damage: no crash can cause it.

use std::io;

use fencepost_fabric::Disk;

use super::error::CheckpointError;
use super::format::crc;
use crate::log::{Lsn, RequiredLog};
use crate::timestamp::Timestamp;

const NAME: &str = "MANIFEST";
const DRAFT: &str = "MANIFEST.tmp";
const SUFFIX: &str = ".ckpt";
const MAGIC: u64 = u64::from_le_bytes(*b"FencMan\x01");
const WORDS: usize = 12;

/// The description of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Manifest {
    /// Number of the checkpoint, from 1; the file's name contains it.
    pub sequence: u64,
    /// The log position where replay begins.
    pub begin: Lsn,
    /// The log was durable up to this position before the checkpoint became valid.
    pub end: Lsn,
    /// No version in the checkpoint is newer than this.
    pub clock: Timestamp,
    /// Number of objects in it, without tombstones.
    pub objects: u64,
    /// Size in bytes of the regions it was taken from.
    pub region_bytes: u64,
    /// Byte offset of the index in the file.
    pub index_offset: u64,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Number of sections.
    pub sections: u64,
}

impl Manifest {
    /// Returns the part of the log that this checkpoint needs.
    pub fn needed(&self) -> RequiredLog {
        RequiredLog {
            from: self.begin,
            through: self.end,
        }
    }

    /// Returns the name of the file with the objects.
    pub(super) fn file_name(&self) -> String {
        file_name(self.sequence)
    }

    fn encode(&self) -> [u64; WORDS] {
        let mut words = [
            MAGIC,
            self.sequence,
            self.begin.raw(),
            self.end.raw(),
            self.clock.raw(),
            self.objects,
            self.region_bytes,
            self.index_offset,
            self.bytes,
            self.sections,
            0,
            0,
        ];
        words[WORDS - 1] = crc(&words[..WORDS - 1]);
        words
    }

    fn decode(words: &[u64; WORDS]) -> Option<Self> {
        let [
            magic,
            sequence,
            begin,
            end,
            clock,
            objects,
            region_bytes,
            index_offset,
            bytes,
            sections,
            _,
            stored_crc,
        ] = *words;
        let whole = magic == MAGIC
            && crc(&words[..WORDS - 1]) == stored_crc
            && clock <= Timestamp::MAX.raw();
        whole.then_some(Self {
            sequence,
            begin: Lsn::from_raw(begin),
            end: Lsn::from_raw(end),
            clock: Timestamp::from_raw(clock),
            objects,
            region_bytes,
            index_offset,
            bytes,
            sections,
        })
    }
}

pub(super) fn file_name(sequence: u64) -> String {
    format!("{sequence:012}{SUFFIX}")
}

/// Reads the manifest of the valid checkpoint; returns `None` if there has never been one.
///
/// # Errors
/// [`CheckpointError::Io`] if the manifest cannot be read, [`CheckpointError::Corrupt`] if it is
/// damaged: do not start, because no crash can damage it.
pub fn read_manifest(disk: &dyn Disk) -> Result<Option<Manifest>, CheckpointError> {
    let path = disk.path(NAME);
    let file = match disk.open(NAME) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(CheckpointError::io(path)(error)),
    };
    let mut words = [0u64; WORDS];
    let read = file.read_at(0, bytemuck::cast_slice_mut(&mut words));
    let n = read.map_err(CheckpointError::io(path.as_str()))?;
    match Manifest::decode(&words).filter(|_| n == size_of_val(&words)) {
        Some(manifest) => Ok(Some(manifest)),
        None => {
            let what = "the manifest is damaged";
            Err(CheckpointError::Corrupt {
                file: path,
                offset: 0,
                what,
            })
        }
    }
}

/// Makes the checkpoint of `manifest` the valid one.
pub(super) fn publish(disk: &dyn Disk, manifest: &Manifest) -> Result<(), CheckpointError> {
    let written = disk.create(DRAFT).and_then(|file| {
        file.write_at(0, bytemuck::cast_slice(&manifest.encode()))?;
        file.sync_all()?;
        disk.rename(DRAFT, NAME)?;
        disk.sync_dir()
    });
    written.map_err(CheckpointError::io(disk.path(NAME)))
}

/// Removes every checkpoint file but that of `retained`.
pub(super) fn remove_others(disk: &dyn Disk, retained: Option<u64>) -> Result<(), CheckpointError> {
    let retained = retained.map(file_name);
    let removed = disk.list().and_then(|names| {
        let mut others = names
            .iter()
            .filter(|name| name.ends_with(SUFFIX) && Some(*name) != retained.as_ref());
        others.try_for_each(|name| disk.remove(name))
    });
    removed.map_err(CheckpointError::io(disk.path("")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifest_with_a_timestamp_that_no_clock_gives_is_refused() {
        let manifest = |clock| Manifest {
            sequence: 1,
            begin: Lsn::ZERO,
            end: Lsn::ZERO,
            clock: Timestamp::from_raw(clock),
            objects: 0,
            region_bytes: 16 << 20,
            index_offset: 0,
            bytes: 0,
            sections: 0,
        };
        let last = manifest(Timestamp::MAX.raw());
        assert_eq!(Manifest::decode(&last.encode()), Some(last));
        for clock in [Timestamp::MAX.raw() + 1, u64::MAX] {
            assert_eq!(Manifest::decode(&manifest(clock).encode()), None);
        }
    }
}
