//! Which machines have no space left on their disks.
//!
//! What a peer has written cannot be refused any more: so who finds its disk full says so while its log still has space
//! that is allocated ([`Log::is_full`](fencepost_storage::log::Log::is_full)), enough for what is under way, and whoever
//! begins a commit that it would have part in refuses that before anything is written (DISK-6). It looks for space again
//! until there is some, and says that, too.

use super::Disk;
use crate::network::{Network, Spread};

/// Tag of the message: whether the disk of its sender is full.
pub const FULL: u8 = 41;

impl Disk {
    /// Whether the disk is full, where that is not what was told last; `told` with it.
    fn changed(&self, told: &mut bool) -> Option<bool> {
        let full = self.log.is_full();
        if full {
            self.log.look_for_space();
        }
        (std::mem::replace(told, full) != full).then_some(full)
    }
}

impl Network {
    /// Tells all peers when there is no space left on the disk, and when there is some again.
    pub fn look_for_space(&self) {
        let Some(disk) = &self.disk else {
            return;
        };
        // Held until it is told, so that the last word is the last that peers hear.
        let mut told = disk.told_full.lock();
        if let Some(full) = disk.changed(&mut told) {
            for peer in &self.peers {
                peer.link.send_surely(FULL, &[u64::from(full)]);
            }
        }
    }

    /// Whether the disk of a machine is full that has part in a commit.
    pub fn has_no_space(&self, spread: &Spread) -> bool {
        self.disk.as_ref().is_some_and(|disk| {
            let mut links = spread.machines().filter_map(|machine| self.link(machine));
            disk.log.is_full() || links.any(|link| link.is_full())
        })
    }
}
