//! Detection of full disks.
//!
//! Records that a peer has written cannot be refused any more. So a machine reports a full disk
//! while its log still has allocated space
//! ([`Log::is_full`](fencepost_storage::log::Log::is_full)), enough for the commits in progress. A
//! coordinator refuses a commit with such a participant before it writes a record (DISK-6). The
//! machine checks for space until there is some, and reports that, too.

use super::Disk;
use crate::network::{Network, RemoteParticipants};

/// Tag of the message: whether the disk of its sender is full.
pub const FULL: u8 = 41;

impl Disk {
    /// Returns whether the disk is full, if that differs from `reported`; updates `reported`.
    fn changed(&self, reported: &mut bool) -> Option<bool> {
        let full = self.log.is_full();
        if full {
            self.log.look_for_space();
        }
        (std::mem::replace(reported, full) != full).then_some(full)
    }
}

impl Network {
    /// Tells all peers when the disk becomes full, and when it has space again.
    pub fn look_for_space(&self) {
        let Some(disk) = &self.disk else {
            return;
        };
        // The lock is held until peers are told, so that their last message is the latest state.
        let mut reported = disk.full_reported.lock();
        if let Some(full) = disk.changed(&mut reported) {
            for peer in &self.peers {
                peer.sender.send_surely(FULL, &[u64::from(full)]);
            }
        }
    }

    /// Returns whether the disk of this machine or of a participant is full.
    pub fn has_no_space(&self, remote: &RemoteParticipants) -> bool {
        self.disk.as_ref().is_some_and(|disk| {
            let mut senders = remote.machines().filter_map(|machine| self.sender(machine));
            disk.log.is_full() || senders.any(|sender| sender.is_full())
        })
    }
}
