//! The write set of a transaction: images, patches, new and freed objects.
//!
//! # Picture
//! ```text
//! writes   addr | base header | Image / Patched / New / Freed ... | image range | newest patch
//! images   an arena; an entry's image is a piece of it: position and words
//! patches  an arena; chained per entry:  previous | length | words
//! ```
//! New objects of this machine have no image: no object points to their slot before the commit, so
//! they are written in place. New objects of other machines have an image as long as their slot's
//! payload. Small sets are searched linearly, larger ones through a map.

use std::collections::HashMap;

use fencepost_storage::Addr;
use fencepost_storage::header::Header;
use foldhash::fast::FixedState;

use crate::arena::Arena;
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
    /// The position just after its last undo ([`crate::savepoint::Undos`]); 0 for none.
    pub saved: u32,
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
/// Words before the words of a patch.
const PATCH_HEAD: usize = 2;

/// A write set.
#[derive(Default)]
pub(crate) struct WriteSet {
    pub writes: Vec<Write>,
    images: Arena,
    patches: Arena,
    index: HashMap<Addr, u32, FixedState>,
    /// Base images of far objects.
    pub bases: Bases,
    /// Whether any patch was made since the set was cleared.
    patched: bool,
    /// Whether an entry has become [`WriteKind::Idle`] since the set was cleared.
    has_idle: bool,
}

impl WriteSet {
    pub fn clear(&mut self) {
        self.writes.clear();
        self.images.clear();
        self.patches.clear();
        self.index.clear();
        self.bases.clear();
        self.patched = false;
        self.has_idle = false;
    }

    /// Returns whether some entry may be [`WriteKind::Idle`].
    #[inline]
    pub fn has_idle(&self) -> bool {
        self.has_idle
    }

    /// Makes entry `at` one without a write.
    pub fn make_idle(&mut self, at: usize) {
        self.has_idle = true;
        self.writes[at].what = WriteKind::Idle;
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
        self.images.shrink(part);
        self.patches.shrink(part);
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

    /// Makes space for entries that are about to be added, so that they are not copied as the set
    /// grows.
    pub fn reserve(&mut self, entries: usize) {
        self.writes.reserve_exact(entries);
        self.index.reserve(entries);
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
        let zeroed = |images: &mut Vec<u64>| images.resize(images.len() + words, 0);
        (self.images.push(words, zeroed), words)
    }

    /// Adds an image with this content and returns its range.
    pub fn push_image(&mut self, image: &[u64]) -> (usize, usize) {
        let copy = |images: &mut Vec<u64>| images.extend_from_slice(image);
        (self.images.push(image.len(), copy), image.len())
    }

    #[inline]
    pub fn image(&self, write: &Write) -> &[u64] {
        self.images.get(write.image.0, write.image.1)
    }

    #[inline]
    pub fn image_mut(&mut self, range: (usize, usize)) -> &mut [u64] {
        self.images.get_mut(range.0, range.1)
    }

    /// Adds a patch to entry `at`.
    pub fn push_patch(&mut self, at: usize, op: &[u64]) {
        self.patched = true;
        let write = &mut self.writes[at];
        let head = [u64::from(write.patch), op.len() as u64];
        let position = self.patches.push(PATCH_HEAD + op.len(), |patches| {
            patches.extend_from_slice(&head);
            patches.extend_from_slice(op);
        });
        write.patch = position as u32 + 1;
    }

    /// Returns the patches of an entry, oldest first, as ranges for [`Self::op`].
    pub fn patches_of(&self, write: &Write) -> Vec<(usize, usize)> {
        let mut ranges = Vec::new();
        let mut at = write.patch as usize;
        while at > 0 {
            let head = self.patches.get(at - 1, PATCH_HEAD);
            ranges.push((at - 1 + PATCH_HEAD, head[1] as usize));
            at = head[0] as usize;
        }
        ranges.reverse();
        ranges
    }

    /// Returns the words of a patch.
    pub fn op(&self, range: (usize, usize)) -> &[u64] {
        self.patches.get(range.0, range.1)
    }

    /// Applies every patch of entry `at` to its image, which has the node's newest version.
    pub fn reapply(&mut self, at: usize, kind: &'static dyn NodeKind) -> Result<(), Refusal> {
        let write = self.writes[at];
        let ranges = self.patches_of(&write);
        let image = self.images.get_mut(write.image.0, write.image.1);
        ranges
            .iter()
            .try_for_each(|range| kind.apply(self.patches.get(range.0, range.1), image))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shrunken_write_set_frees_its_buffers() {
        let mut set = WriteSet::default();
        for at in 0..100_000 {
            set.push_image(&[at; 3]);
            let entry = set.push(Write {
                addr: Addr::from_raw(at * 64),
                base: NO_BASE,
                what: WriteKind::Freed,
                image: (0, 0),
                patch: 0,
                saved: 0,
            });
            set.push_patch(entry, &[at; 2]);
        }
        set.clear();
        assert!(set.bytes() > 64 << 10);
        set.shrink(8 << 10);
        assert!(set.bytes() <= 64 << 10, "{}", set.bytes());
        assert!(set.bytes() > 32 << 10, "buffers are kept: {}", set.bytes());
    }
}
