//! Digests of the versions of a block's objects at a primary. A backup that had the region before
//! asks for them, and copies only objects that differ (`driver/data_recovery`).
//!
//! ```text
//! VERSIONS      ticket | region | block                                     to the primary
//! VERSIONS_ARE  ticket | class + 1, 0 for none | digest of each piece ...   from it, else empty
//! ```
//! A *piece* contains as many slots as are read together. Its digest is computed from the versions
//! of its objects, in order. An object of one version is the same on all machines. So pieces with
//! equal digests are equal, except in one case of 2^64. A locked object has no version here,
//! because a commit that the backup does not receive may change it (COPY-1).

use std::sync::atomic::Ordering;

use fencepost_fabric::{Completion, MachineId};
use fencepost_storage::classes::Class;
use fencepost_storage::region::{BLOCK_BYTES, BlockId, Regions};
use fencepost_storage::{Addr, ObjectRef, RegionId};

use super::message::WordReader;
use super::{Network, PeerSender};
use crate::machine::Machine;
use crate::record::BadRecord;
use crate::words::{NOTHING, mix};

/// Tags of the messages.
pub(super) const VERSIONS: u8 = 42;
pub(super) const VERSIONS_ARE: u8 = 43;

/// Stands for the version of a locked object; a timestamp has fewer bits.
const LOCKED: u64 = u64::MAX;

/// Words of slots that are read together: 8 KB (SOSP'15 §5.4).
const PIECE_WORDS: usize = 1 << 10;

/// Returns the number of slots of the piece that begins at `first`.
pub(super) fn slots_of_piece(class: Class, first: usize) -> usize {
    let count = (PIECE_WORDS / class.slot_words()).clamp(1, class.slots());
    count.min(class.slots() - first)
}

/// Returns the pieces of a block: the first slot and the number of slots of each.
pub(super) fn pieces(class: Class) -> impl Iterator<Item = (usize, usize)> {
    let step = slots_of_piece(class, 0);
    let firsts = (0..class.slots()).step_by(step);
    firsts.map(move |first| (first, slots_of_piece(class, first)))
}

/// Returns the digest of a piece, whose objects `at` finds.
pub(super) fn digest<'a>(
    (block, class): (BlockId, Class),
    (first, count): (usize, usize),
    at: impl Fn(Addr) -> Option<ObjectRef<'a>>,
) -> u64 {
    let slots = (first..first + count).map(|slot| at(block.slot(class, slot)));
    slots.fold(NOTHING, |digest, object| {
        let header = object.map(|object| object.header());
        let version = header.map_or(0, |header| match header.is_locked() {
            true => LOCKED,
            false => header.timestamp().raw(),
        });
        mix(digest, version)
    })
}

impl Network {
    /// Asks a primary for the versions of a block; `None` if there is no space for the request now.
    pub(super) fn ask_versions(
        &self,
        primary: MachineId,
        block: BlockId,
    ) -> Option<Completion<Box<[u64]>>> {
        let sender = self.sender(primary)?;
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let (completer, answer) = Completion::pending();
        self.askers.lock().insert(ticket, (primary, completer));
        let words = [ticket, u64::from(block.region.0), u64::from(block.block)];
        if sender.send(VERSIONS, &words).is_err() {
            self.askers.lock().remove(&ticket);
            return None;
        }
        Some(answer)
    }

    /// Handles the reply of a primary.
    pub(super) fn take_versions(&self, peer: MachineId, words: &[u64]) -> Result<(), BadRecord> {
        let mut reader = WordReader(words);
        let ticket = reader.word()?;
        self.tell_asker(peer, ticket, reader.0);
        Ok(())
    }
}

/// Handles VERSIONS: tells a peer the versions of a block.
pub(super) fn answer(
    machine: &Machine,
    sender: &PeerSender,
    words: &[u64],
) -> Result<(), BadRecord> {
    let mut reader = WordReader(words);
    let mut answer = vec![reader.word()?];
    let [region, block] = [reader.word()?, reader.word()?].map(u32::try_from);
    let wrong = |_| BadRecord("a block whose number is too large");
    let block = BlockId {
        region: RegionId(region.map_err(wrong)?),
        block: block.map_err(wrong)?,
    };
    answer.extend(versions(machine.regions(), block).unwrap_or_default());
    sender.send_surely(VERSIONS_ARE, &answer);
    Ok(())
}

/// Returns the class and digests of a block of this machine; `None` if it is not the primary.
fn versions(regions: &Regions, block: BlockId) -> Option<Vec<u64>> {
    let blocks = (regions.region_bytes() / BLOCK_BYTES) as u32;
    let first = block.slot(Class(0), 0);
    if block.block == 0 || block.block >= blocks || !regions.is_own(first) {
        return None;
    }
    let Some(class) = regions.class_of(first) else {
        return Some(vec![0]);
    };
    let of = |piece| digest((block, class), piece, |addr| regions.own_object(addr));
    let all = pieces(class).map(of);
    Some([u64::from(class.0) + 1].into_iter().chain(all).collect())
}
