//! The write set of a transaction: images, patches, new and freed objects.
//!
//! # Picture
//! ```text
//! writes   addr | base header | Image / Patched / New / Freed ... | image range | newest patch
//! images   one growing array of words; an entry's image is a range of it
//! patches  chained per entry:  previous | length | words
//! ```
//! New objects of this machine have no image: no object points to their slot before the commit, so
//! they are written in place. New objects of other machines have an image as long as their slot's
//! payload. Small sets are searched linearly, larger ones through a map.

use std::collections::HashMap;

use fencepost_storage::Addr;
use fencepost_storage::header::Header;
use foldhash::fast::FixedState;

use crate::base_images::Bases;
use crate::network::Slot;
use crate::node::{NodeKind, Refusal};

/// The kind of a write.
#[derive(Clone, Copy)]
pub(crate) enum WriteKind {
    /// The image replaces the base version, and only that.
    Image {
        /// The node kind that writes the commit timestamp into the image, because patches have gone
        /// into it.
        kind: Option<&'static dyn NodeKind>,
    },
    /// Patches, applied to an image of the base version; if the node moves, they are applied again.
    Patched(&'static dyn NodeKind),
    /// A new object: on this machine in its slot already, otherwise in its image.
    New {
        slot: Slot,
        /// The object whose version before this commit is the new object's previous version.
        split_of: Addr,
        /// The node kind that writes the commit timestamp into the object.
        kind: Option<&'static dyn NodeKind>,
    },
    /// A tombstone.
    Freed,
    /// A new object that was freed again: its slot is released.
    Unborn(Slot),
    /// An entry whose patches were taken: no write.
    Idle,
}

/// One entry of a write set.
#[derive(Clone, Copy)]
pub(crate) struct Write {
    pub addr: Addr,
    pub base: Header,
    pub what: WriteKind,
    pub image: (usize, usize),
    /// Last patch, as position + 1 in `patches`; 0 for none.
    pub patch: u32,
}

/// The place of the payload of a new object.
#[derive(Clone, Copy)]
pub(crate) enum Payload {
    /// In its slot.
    Slot(Addr),
    /// In its image.
    Image((usize, usize)),
}

/// Base of an entry whose image does not show the node. No node has this header, so the patches are
/// applied again before the image is used.
pub(crate) const NO_BASE: Header = Header(0);

impl Write {
    /// Returns whether the commit changes an object that others can see, and so locks it.
    #[inline]
    pub fn takes_lock(&self) -> bool {
        matches!(
            self.what,
            WriteKind::Image { .. } | WriteKind::Patched(_) | WriteKind::Freed
        )
    }

    /// Returns the place of the payload of this entry, which is a new object.
    #[inline]
    pub fn payload(&self) -> Payload {
        match self.image {
            (_, 0) => Payload::Slot(self.addr),
            image => Payload::Image(image),
        }
    }

    /// Returns whether its log record can be written before LOCK. Such a record depends neither on
    /// the write timestamp nor on a version that may change before the lock is taken.
    pub fn is_settled(&self) -> bool {
        matches!(
            self.what,
            WriteKind::New { kind: None, .. } | WriteKind::Image { kind: None } | WriteKind::Freed
        )
    }

    /// Returns whether it commits only over its base version.
    pub fn is_exact(&self) -> bool {
        matches!(self.what, WriteKind::Image { .. } | WriteKind::Freed)
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
    /// Base images of far objects.
    pub bases: Bases,
    /// Whether any patch was made since the set was cleared.
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

    /// Shrinks the memory of an empty set to at most `words` words, as [`Self::bytes`] counts them.
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

    /// Returns the bytes of memory that the set takes.
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

    /// Removes the newest entry and returns it.
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

    /// Adds a zeroed image of `words` words and returns its range.
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
        let position = self.patches.len() as u32;
        self.patches.push(u64::from(self.writes[at].patch));
        self.patches.push(op.len() as u64);
        self.patches.extend_from_slice(op);
        self.writes[at].patch = position + 1;
    }

    /// Returns the patches of an entry, oldest first, as ranges for [`Self::op`].
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

    /// Returns the words of a patch.
    pub fn op(&self, range: (usize, usize)) -> &[u64] {
        &self.patches[range.0..range.1]
    }

    /// Applies every patch of entry `at` to its image, which has the node's newest version.
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
    fn shrunken_write_set_frees_its_buffers() {
        let mut set = WriteSet::default();
        for at in 0..100_000 {
            set.images.extend([at; 3]);
            set.patches.extend([at; 2]);
            set.push(Write {
                addr: Addr::from_raw(at * 64),
                base: NO_BASE,
                what: WriteKind::Freed,
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
