//! The memory of machines that are gone, while others live: whoever comes in their place may have use for it.
//!
//! ```text
//! DIR/regions/m3/…   m3 is no member, and has no process ─► looked at by m4, which came after it ─► removed by m4
//! ```
//! All of it has been written since the host has booted: a life is of one boot, and what goes into one from the life before is
//! either made anew or known to be whole ([`super::After`]). So a file has all that its machine wrote until it was killed, in the
//! order in which it wrote that.
//!
//! # Failure
//! What cannot be opened is not there. Where there is not room for as much again nothing is looked at, and all of it goes at once:
//! whoever comes needs that room.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use super::{Nvram, segment_of};
use crate::machine::MachineId;
use crate::remains::Remains;
use crate::shm::{home_of, is_locked, open};

/// Bytes of a block as the system counts them.
const STAT_BLOCK_BYTES: u64 = 512;

/// What machines have left that are gone.
#[derive(Debug, Default)]
pub struct Gone {
    left: Vec<Remains>,
    files: Vec<PathBuf>,
}

impl Gone {
    /// What some have left, in no files.
    pub fn of(left: Vec<Remains>) -> Gone {
        let files = Vec::new();
        Gone { left, files }
    }

    /// What each has left, those first that were there last.
    pub fn left(&self) -> &[Remains] {
        &self.left
    }

    /// Nobody needs it any more. Who has mapped some of it keeps that.
    pub fn forget(&self) {
        for file in &self.files {
            // Another machine may be at it, too.
            let _ = fs::remove_file(file);
        }
    }
}

impl Nvram {
    /// What those have left that were there before machine `me` came, in a life that goes on, and that are neither `members` of the
    /// configuration in which it came nor have a process any more.
    pub fn gone(&self, life: u64, me: MachineId, members: &[MachineId]) -> Gone {
        let mut gone = Gone::default();
        let mut bytes = 0;
        let before = (1..me.0).rev().map(MachineId);
        let before = before.filter(|machine| !members.contains(machine));
        for machine in before.filter(|machine| !self.has_process(life, *machine)) {
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
                    gone.files.push(path);
                }
            }
            if !segments.is_empty() {
                gone.left.push(Remains::new(segments));
            }
        }
        let room = rustix::fs::statvfs(&self.root);
        let room = room.map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize));
        if room < 2 * bytes {
            gone.left.clear();
            gone.forget();
        }
        gone
    }

    /// Whether a machine of a life has a process.
    pub fn has_process(&self, life: u64, machine: MachineId) -> bool {
        is_locked(&home_of(&self.life(life), machine))
    }
}
