//! The retained memory of evicted machines while other machines run: a machine that replaces one
//! may use it.
//!
//! ```text
//! DIR/regions/m3/…   m3 is evicted, has no process ─► m4, which joined later, reads and removes it
//! ```
//! All of it has been written since the host's boot. An incarnation is of one boot. The memory that
//! it takes from the previous one is either made anew or known to be intact
//! ([`super::EndedIncarnation`]). So a file has all writes of its machine until the machine was
//! killed, in their order.
//!
//! # Failure
//! A file that cannot be opened is ignored. If the free space is less than the size of the files,
//! none is used, and all are removed at once: the joining machine needs that space.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use super::{Nvram, segment_of};
use crate::machine::MachineId;
use crate::retained_memory::RetainedMemory;
use crate::shm::{home_of, is_locked, open};

/// The size of a block in the system's file statistics.
const STAT_BLOCK_BYTES: u64 = 512;

/// The retained memory of evicted machines.
#[derive(Debug, Default)]
pub struct EvictedMemory {
    left: Vec<RetainedMemory>,
    files: Vec<PathBuf>,
}

impl EvictedMemory {
    /// Returns retained memory without files.
    pub fn of(left: Vec<RetainedMemory>) -> EvictedMemory {
        let files = Vec::new();
        EvictedMemory { left, files }
    }

    /// Returns the memory of each machine, the newest machine first.
    pub fn left(&self) -> &[RetainedMemory] {
        &self.left
    }

    /// Removes the files. Processes that have mapped them keep the memory.
    pub fn forget(&self) {
        for file in &self.files {
            // Another machine may be removing it, too.
            let _ = fs::remove_file(file);
        }
    }
}

impl Nvram {
    /// Returns the retained memory of machines older than `me` in the present incarnation. They are
    /// not `members` of the configuration in which `me` joined, and have no processes.
    pub fn evicted_memory(
        &self,
        incarnation: u64,
        me: MachineId,
        members: &[MachineId],
    ) -> EvictedMemory {
        let mut evicted = EvictedMemory::default();
        let mut bytes = 0;
        let before = (1..me.0).rev().map(MachineId);
        let before = before.filter(|machine| !members.contains(machine));
        for machine in before.filter(|machine| !self.has_process(incarnation, *machine)) {
            let Ok(entries) = fs::read_dir(home_of(&self.regions(), machine)) else {
                continue;
            };
            let mut segments = Vec::new();
            for entry in entries.flatten() {
                let path = entry.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                if let Some(segment) = segment_of(&name)
                    && let Some(memory) = open(&path, false)
                {
                    let blocks = entry.metadata().map_or(0, |metadata| metadata.blocks());
                    bytes += blocks * STAT_BLOCK_BYTES;
                    segments.push((segment, Arc::new(memory)));
                    evicted.files.push(path);
                }
            }
            if !segments.is_empty() {
                evicted.left.push(RetainedMemory::new(segments));
            }
        }
        let stat = rustix::fs::statvfs(&self.root);
        let free_bytes = stat.map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize));
        if free_bytes < 2 * bytes {
            evicted.left.clear();
            evicted.forget();
        }
        evicted
    }

    /// Returns whether a machine of an incarnation has a process.
    pub fn has_process(&self, incarnation: u64, machine: MachineId) -> bool {
        is_locked(&home_of(&self.memory_dir(incarnation), machine))
    }
}
