//! What a transaction is going to write: images, patches, new and freed objects.
//!
//! # Picture
//! ```text
//! writes   addr | base header | Image / Patched / New / Freed ... | image range | newest patch
//! images   one growing array of words; an entry's image is a range of it
//! patches  chained per entry:  previous | length | words
//! ```
//! New objects of this machine have no image: nothing leads to their slot before the commit, so they are
//! written in place. Those of other machines have one, as long as what their slot holds. Small sets are searched in a line, larger ones through a map.

use std::collections::HashMap;

use fencepost_storage::Addr;
use fencepost_storage::header::Header;
use foldhash::fast::FixedState;

use crate::bases::Bases;
use crate::network::Slot;
use crate::node::{NodeKind, Refusal};

/// How an object is written.
#[derive(Clone, Copy)]
pub(crate) enum What {
    /// The image replaces the base version, and only that.
    Image {
        /// Who writes the commit timestamp into it, because patches have gone into it.
        kind: Option<&'static dyn NodeKind>,
    },
    /// Patches, shown in the image on top of the base version; a moved node gets them anew.
    Patched(&'static dyn NodeKind),
    /// A new object: on this machine in its slot already, elsewhere in its image.
    New {
        slot: Slot,
        /// Whose version before this commit is the new object's previous version.
        split_of: Addr,
        /// Who writes the commit timestamp into it.
        kind: Option<&'static dyn NodeKind>,
    },
    /// A tombstone.
    Freed,
    /// A new object freed again: its slot goes back.
    Unborn(Slot),
    /// An entry whose patches were taken: nothing to do.
    Idle,
}

/// One entry.
#[derive(Clone, Copy)]
pub(crate) struct Write {
    pub addr: Addr,
    pub base: Header,
    pub what: What,
    pub image: (usize, usize),
    /// Last patch, as position + 1 in `patches`; 0 for none.
    pub patch: u32,
}

/// Where the payload of a new object is.
#[derive(Clone, Copy)]
pub(crate) enum Payload {
    /// In its slot.
    Slot(Addr),
    /// In its image.
    Image((usize, usize)),
}

/// Base of an entry whose image does not show the node: no node has this header, so the patches are
/// applied anew before anybody relies on the image.
pub(crate) const NO_BASE: Header = Header(0);

impl Write {
    /// Whether the commit changes an object that others can see, and so locks it.
    #[inline]
    pub fn takes_lock(&self) -> bool {
        matches!(
            self.what,
            What::Image { .. } | What::Patched(_) | What::Freed
        )
    }

    /// Where the payload of a new object, which this is, lies.
    #[inline]
    pub fn payload(&self) -> Payload {
        match self.image {
            (_, 0) => Payload::Slot(self.addr),
            image => Payload::Image(image),
        }
    }

    /// Whether its log record can be written before LOCK: it depends neither on the write timestamp,
    /// nor on a version that may still be another when the lock is taken.
    pub fn is_settled(&self) -> bool {
        matches!(
            self.what,
            What::New { kind: None, .. } | What::Image { kind: None } | What::Freed
        )
    }

    /// Whether it commits only over its base version.
    pub fn is_exact(&self) -> bool {
        matches!(self.what, What::Image { .. } | What::Freed)
    }
}

const SEARCHED_IN_A_LINE: usize = 12;

/// A write set.
#[derive(Default)]
pub(crate) struct WriteSet {
    pub writes: Vec<Write>,
    images: Vec<u64>,
    patches: Vec<u64>,
    index: HashMap<Addr, u32, FixedState>,
    /// What far objects were before.
    pub bases: Bases,
    /// Whether any patch was made; stays so until the set is cleared.
    patched: bool,
}

impl WriteSet {
    pub fn clear(&mut self) {
        self.writes.clear();
        self.images.clear();
        self.patches.clear();
        self.index.clear();
        self.bases.clear();
        self.patched = false;
    }

    #[inline]
    pub fn has_patches(&self) -> bool {
        self.patched
    }

    /// Keeps memory for so many words at most, as [`Self::bytes`] counts them, of a set that is empty.
    pub fn shrink(&mut self, words: usize) {
        let part = words / 3;
        let entries = part * 8 / size_of::<Write>();
        self.writes.shrink_to(entries);
        self.images.shrink_to(part);
        self.patches.shrink_to(part);
        self.index.shrink_to(entries);
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Bytes that the set takes.
    pub fn bytes(&self) -> usize {
        (self.images.capacity() + self.patches.capacity()) * 8
            + self.writes.capacity() * size_of::<Write>()
    }

    #[inline]
    pub fn find(&self, addr: Addr) -> Option<usize> {
        if self.writes.len() <= SEARCHED_IN_A_LINE {
            self.writes.iter().rposition(|write| write.addr == addr)
        } else {
            self.index.get(&addr).map(|at| *at as usize)
        }
    }

    pub fn push(&mut self, write: Write) -> usize {
        let at = self.writes.len();
        self.writes.push(write);
        if at == SEARCHED_IN_A_LINE {
            self.index.extend(
                self.writes
                    .iter()
                    .enumerate()
                    .map(|(i, w)| (w.addr, i as u32)),
            );
        } else if at > SEARCHED_IN_A_LINE {
            self.index.insert(write.addr, at as u32);
        }
        at
    }

    /// Takes the newest entry back.
    pub fn pop(&mut self) -> Option<Write> {
        let write = self.writes.pop()?;
        if self.writes.len() >= SEARCHED_IN_A_LINE {
            self.index.remove(&write.addr);
        }
        if self.writes.len() == SEARCHED_IN_A_LINE {
            self.index.clear();
        }
        Some(write)
    }

    /// Room for an image of `words` words, zeroed.
    pub fn new_image(&mut self, words: usize) -> (usize, usize) {
        let from = self.images.len();
        self.images.resize(from + words, 0);
        (from, words)
    }

    #[inline]
    pub fn image(&self, write: &Write) -> &[u64] {
        &self.images[write.image.0..write.image.0 + write.image.1]
    }

    #[inline]
    pub fn image_mut(&mut self, range: (usize, usize)) -> &mut [u64] {
        &mut self.images[range.0..range.0 + range.1]
    }

    /// Adds a patch to entry `at`.
    pub fn push_patch(&mut self, at: usize, op: &[u64]) {
        self.patched = true;
        let here = self.patches.len() as u32;
        self.patches.push(u64::from(self.writes[at].patch));
        self.patches.push(op.len() as u64);
        self.patches.extend_from_slice(op);
        self.writes[at].patch = here + 1;
    }

    /// Where the patches of an entry are, oldest first, as ranges of [`Self::op`].
    pub fn patches_of(&self, write: &Write) -> Vec<(usize, usize)> {
        let mut ranges = Vec::new();
        let mut at = write.patch as usize;
        while at > 0 {
            let len = self.patches[at] as usize;
            ranges.push((at + 1, at + 1 + len));
            at = self.patches[at - 1] as usize;
        }
        ranges.reverse();
        ranges
    }

    /// A patch's words.
    pub fn op(&self, range: (usize, usize)) -> &[u64] {
        &self.patches[range.0..range.1]
    }

    /// Applies every patch of entry `at` to its image, which holds the node's newest version.
    pub fn reapply(&mut self, at: usize, kind: &'static dyn NodeKind) -> Result<(), Refusal> {
        let write = self.writes[at];
        let ranges = self.patches_of(&write);
        let image = &mut self.images[write.image.0..write.image.0 + write.image.1];
        ranges
            .iter()
            .try_for_each(|range| kind.apply(&self.patches[range.0..range.1], image))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_that_has_shrunk_is_no_large_one_any_more() {
        let mut set = WriteSet::default();
        for at in 0..100_000 {
            set.images.extend([at; 3]);
            set.patches.extend([at; 2]);
            set.push(Write {
                addr: Addr::from_raw(at * 64),
                base: NO_BASE,
                what: What::Freed,
                image: (0, 0),
                patch: 0,
            });
        }
        set.clear();
        assert!(set.bytes() > 64 << 10);
        set.shrink(8 << 10);
        assert!(set.bytes() <= 64 << 10, "{}", set.bytes());
        assert!(set.bytes() > 32 << 10, "buffers are kept: {}", set.bytes());
    }
}
