//! Which versions a primary has of a block's objects, in few words: a backup that had the region before asks for that, and copies
//! what is another there (`governor/refill`).
//!
//! ```text
//! VERSIONS    ticket | region | block                                     to the primary
//! VERSIONS    ticket | class + 1, 0 for none | digest of each piece ...   from it; nothing where it is not the primary
//! ```
//! A *piece* is as many slots as are read together. Its digest is of the versions of its objects, in their order: an object of
//! one version is the same everywhere, so what has the same digest is the same, but for one case in 2^64. What is locked has
//! none, as it may be about to get another one by a commit that the backup does not hear of (REFILL-1).

use std::sync::atomic::Ordering;

use fencepost_fabric::{Completion, MachineId};
use fencepost_storage::classes::Class;
use fencepost_storage::region::{BLOCK_BYTES, BlockId, Regions};
use fencepost_storage::{Addr, ObjectRef, RegionId};

use super::message::Reader;
use super::{Link, Network};
use crate::machine::Machine;
use crate::record::BadRecord;
use crate::words::{NOTHING, mix};

/// Tags of the messages.
pub(super) const VERSIONS: u8 = 42;
pub(super) const VERSIONS_ARE: u8 = 43;

/// In place of a version; a timestamp has fewer bits.
const LOCKED: u64 = u64::MAX;

/// Words of slots that are read together: 8 KB (SOSP'15 §5.4).
const PIECE_WORDS: usize = 1 << 10;

/// Slots of a piece that begins at `first`.
pub(super) fn slots_of_piece(class: Class, first: usize) -> usize {
    let count = (PIECE_WORDS / class.slot_words()).clamp(1, class.slots());
    count.min(class.slots() - first)
}

/// The pieces of a block: the first slot of each, and how many they are.
pub(super) fn pieces(class: Class) -> impl Iterator<Item = (usize, usize)> {
    let step = slots_of_piece(class, 0);
    let firsts = (0..class.slots()).step_by(step);
    firsts.map(move |first| (first, slots_of_piece(class, first)))
}

/// The digest of a piece, whose objects `at` finds.
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
    /// Asks a primary which versions it has of a block; `None` where there is no room for the question now.
    pub(super) fn ask_versions(
        &self,
        primary: MachineId,
        block: BlockId,
    ) -> Option<Completion<Box<[u64]>>> {
        let link = self.link(primary)?;
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let (completer, answer) = Completion::pending();
        self.askers.lock().insert(ticket, (primary, completer));
        let words = [ticket, u64::from(block.region.0), u64::from(block.block)];
        if link.send(VERSIONS, &words).is_err() {
            self.askers.lock().remove(&ticket);
            return None;
        }
        Some(answer)
    }

    /// What a primary has answered.
    pub(super) fn take_versions(&self, peer: MachineId, words: &[u64]) -> Result<(), BadRecord> {
        let mut reader = Reader(words);
        let ticket = reader.word()?;
        self.tell_asker(peer, ticket, reader.0);
        Ok(())
    }
}

/// VERSIONS: tells a peer which versions there are.
pub(super) fn answer(machine: &Machine, link: &Link, words: &[u64]) -> Result<(), BadRecord> {
    let mut reader = Reader(words);
    let mut answer = vec![reader.word()?];
    let [region, block] = [reader.word()?, reader.word()?].map(u32::try_from);
    let wrong = |_| BadRecord("a block whose number is too large");
    let block = BlockId {
        region: RegionId(region.map_err(wrong)?),
        block: block.map_err(wrong)?,
    };
    answer.extend(versions(machine.regions(), block).unwrap_or_default());
    link.send_surely(VERSIONS_ARE, &answer);
    Ok(())
}

/// Those of a block of this machine; `None` where it is not the primary.
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
