//! A participant's reports of how much of a peer's log is on its disk.
//!
//! The participant notes the ends of TRUNCATE records and of records that commits wait for, in the
//! peer's log and in its own. Once the flusher has passed them it reports the last one. So there is
//! at most one message per flush, instead of one per transaction.

use std::collections::VecDeque;

use fencepost_storage::log::Lsn;

use super::Disk;
use crate::network::peer_sender::PeerSender;

/// Tag of the message: a position in the receiver's log.
pub const DURABLE: u8 = 40;
/// In place of a position: no further record becomes durable.
pub const NEVER: u64 = u64::MAX;

/// The pending reports to one peer.
#[derive(Default)]
pub struct DurabilityReports {
    positions: VecDeque<(u64, Lsn)>,
    /// The peer has been told that no further record becomes durable.
    ended: bool,
}

impl DurabilityReports {
    /// Notes that the peer's log up to `position` is durable once this machine's log is durable up
    /// to `lsn`.
    pub fn note(&mut self, position: u64, lsn: Lsn) {
        self.positions.push_back((position, lsn));
    }

    /// Reports the records that have become durable.
    pub fn tell(&mut self, disk: &Disk, sender: Option<&PeerSender>) {
        if self.is_at_rest() {
            return;
        }
        if disk.has_failed() {
            if let Some(sender) = sender.filter(|_| !std::mem::replace(&mut self.ended, true)) {
                sender.send_surely(DURABLE, &[NEVER]);
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
        if let (Some(sender), Some(position)) = (sender, position) {
            sender.send_surely(DURABLE, &[position]);
        }
        if let Some((_, next)) = self.positions.front() {
            disk.arm(*next);
        }
    }

    /// Returns whether no report is pending.
    pub fn is_at_rest(&self) -> bool {
        self.positions.is_empty()
    }
}
