//! Returning the pages of unneeded blocks to the system.

use super::{OldVersions, Open, ReleasedBlock};
use crate::account::Account;
use crate::timestamp::Timestamp;
use fencepost_fabric::memory::WORD_BYTES;
use fencepost_fabric::sync::{Ordering, fence};

/// Bytes of unneeded blocks that are kept for later commits.
const RETAINED_BYTES: usize = 4 << 20;

impl OldVersions {
    /// Returns to the system the pages of all but a few blocks that readers have `passed`.
    pub fn trim(&self, account: &Account, passed: Timestamp) {
        let mut retained_bytes = 0;
        let mut given = Vec::new();
        self.full.lock().retain(|full| {
            let bytes = full.words * WORD_BYTES;
            if full.newest > passed {
                return true;
            }
            retained_bytes += bytes;
            if retained_bytes > RETAINED_BYTES {
                given.push(ReleasedBlock {
                    block: full.block,
                    words: full.words,
                });
            }
            retained_bytes <= RETAINED_BYTES
        });
        for bare in given {
            let Some(block) = self.block(bare.block) else {
                continue;
            };
            // A late reader notices the new generation, as with a reused block.
            block.generation.fetch_add(1, Ordering::Relaxed);
            fence(Ordering::Release);
            block.memory.discard(0..bare.words);
            let bytes = (bare.words * WORD_BYTES) as u64;
            self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
            account.release(bytes);
            self.bare.lock().push(bare);
        }
    }

    /// Takes a block without pages and with at least `need` words; it counts as used from now on.
    pub(super) fn take_bare(&self, need: usize) -> Option<Open> {
        let mut bare = self.bare.lock();
        let at = bare.iter().rposition(|bare| bare.words >= need)?;
        let ReleasedBlock { block, words } = bare.swap_remove(at);
        self.used_bytes
            .fetch_add((words * WORD_BYTES) as u64, Ordering::Relaxed);
        Some(Open {
            block,
            words,
            at: 0,
            newest: Timestamp::ZERO,
        })
    }
}
