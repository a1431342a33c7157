//! What a participant says of how much of a peer's log is on its disk.
//!
//! It notes where each record ends that a commit waits for, and each TRUNCATE, in the peer's log and in its own; once the
//! flusher has come that far it says so, once for all of them: no message a transaction, but one a flush at most.

use std::collections::VecDeque;

use fencepost_storage::log::Lsn;

use super::Disk;
use crate::network::link::Link;

/// Tag of the message: position in the log of whoever it is for.
pub const DURABLE: u8 = 40;
/// In place of a position: nothing more becomes durable.
pub const NEVER: u64 = u64::MAX;

/// What is to be said to one peer.
#[derive(Default)]
pub struct Announcing {
    positions: VecDeque<(u64, Lsn)>,
    /// It has been said that there is no more to come.
    ended: bool,
}

impl Announcing {
    /// All of the peer's log up to `position` is durable once this machine's is up to `lsn`.
    pub fn note(&mut self, position: u64, lsn: Lsn) {
        self.positions.push_back((position, lsn));
    }

    /// Says what has become durable.
    pub fn tell(&mut self, disk: &Disk, link: Option<&Link>) {
        if self.is_at_rest() {
            return;
        }
        if disk.has_failed() {
            if let Some(link) = link.filter(|_| !std::mem::replace(&mut self.ended, true)) {
                link.send_surely(DURABLE, &[NEVER]);
            }
            return;
        }
        let mut position = None;
        while let Some((durable, _)) = self
            .positions
            .pop_front_if(|(_, lsn)| disk.is_flushed(*lsn))
        {
            position = Some(durable);
        }
        if let (Some(link), Some(position)) = (link, position) {
            link.send_surely(DURABLE, &[position]);
        }
        if let Some((_, next)) = self.positions.front() {
            disk.arm(*next);
        }
    }

    /// Whether there is nothing to come.
    pub fn is_at_rest(&self) -> bool {
        self.positions.is_empty()
    }
}
