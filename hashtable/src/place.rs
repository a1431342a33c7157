//! Freeing slots: chained associative hopscotch hashing (NSDI'14 §3.6) on the images of a few
//! buckets.
//!
//! ```text
//!   home   next   ...    free
//!  [full] [full] [full] [ ab_c ]      linear probing finds the nearest free slot beyond `next`;
//!                ◄────── a pair whose home is the bucket before moves into it and frees a slot;
//!  [full] [ _  ] [full] [full ]       this repeats until the free slot is in `next`.
//! ```

use crate::image::{self, Pair};
use crate::layout::{Shape, Versions, home};

/// Consecutive buckets of a shard, some of them changed.
pub(crate) struct Window {
    pub(crate) shape: Shape,
    /// Number of homes of the shard.
    pub(crate) buckets: usize,
    /// Index of the first image.
    pub(crate) first: usize,
    pub(crate) images: Vec<Vec<u64>>,
    pub(crate) changed: Vec<bool>,
    pub(crate) moves: usize,
}

impl Window {
    pub(crate) fn new(shape: Shape, buckets: usize, first: usize, images: Vec<Vec<u64>>) -> Self {
        let changed = vec![false; images.len()];
        Window {
            shape,
            buckets,
            first,
            images,
            changed,
            moves: 0,
        }
    }

    pub(crate) fn has_space(&self, at: usize) -> bool {
        self.images
            .get(at)
            .is_some_and(|image| image::free_slot(image, self.shape).is_some())
    }

    fn edit(&mut self, at: usize, change: impl FnOnce(&mut Versions)) {
        if let Some(image) = self.images.get_mut(at) {
            let mut versions = image::versions(image);
            change(&mut versions);
            image::set_versions(image, versions);
            self.changed[at] = true;
        }
    }

    /// Changes the joint versions of `at` and the bucket after it together.
    pub(crate) fn tie(&mut self, at: usize) {
        let Some(image) = self.images.get(at) else {
            return;
        };
        let forward = image::versions(image).forward.wrapping_add(1);
        self.edit(at, |versions| versions.forward = forward);
        self.edit(at + 1, |versions| versions.backward = forward);
    }

    /// Records in its home that a pair is in the next bucket now.
    fn send_away(&mut self, home: usize, pair: &[u64]) {
        if let (Some(image), Some(tag)) = (self.images.get_mut(home), pair.first()) {
            image::add_away(image, *tag);
        }
        self.tie(home);
    }

    fn put(&mut self, at: usize, pair: &[u64]) -> bool {
        let Some(image) = self.images.get_mut(at) else {
            return false;
        };
        let Some(slot) = image::free_slot(image, self.shape) else {
            return false;
        };
        image::put(image, self.shape, slot, pair);
        self.changed[at] = true;
        true
    }

    /// Puts the pair into image `at`, its home, or into the next one, and moves other pairs if
    /// necessary. Returns `false`, with nothing changed, if that is impossible.
    pub(crate) fn place(&mut self, at: usize, pair: &Pair) -> bool {
        if self.put(at, pair) {
            return true;
        }
        if !self.has_space(at + 1) && !self.free_next(at) {
            return false;
        }
        self.put(at + 1, pair);
        self.send_away(at, pair);
        true
    }

    /// Moves pairs to their next buckets until the image after `at` has a free slot.
    fn free_next(&mut self, at: usize) -> bool {
        let Some(free) = (at + 2..self.images.len()).find(|i| self.has_space(*i)) else {
            return false;
        };
        let moves: Option<Vec<(usize, usize)>> = (at + 1..free)
            .rev()
            .map(|i| self.movable(i).map(|slot| (i, slot)))
            .collect();
        let Some(moves) = moves else { return false };
        for (from, slot) in moves {
            let pair = image::take(&mut self.images[from], self.shape, slot);
            self.put(from + 1, &pair);
            self.send_away(from, &pair);
            self.moves += 1;
        }
        true
    }

    /// Returns a slot whose pair is in its home, so that it may move to the next bucket.
    fn movable(&self, at: usize) -> Option<usize> {
        let image = self.images.get(at)?;
        (0..self.shape.slots).find(|slot| {
            let tag = image.get(self.shape.tag(*slot)).copied().unwrap_or(0);
            tag != 0 && home((tag & ((1 << 48) - 1)) << 16, self.buckets) == self.first + at
        })
    }
}
