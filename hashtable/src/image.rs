//! Building and changing images of buckets and blocks. Layout: see [`crate::layout`].

use fencepost_storage::{Addr, FatPtr, View};

use crate::layout::{BLOCK_MAGIC, BUCKET_MAGIC, Bucket, HEADER_WORDS, Key, Shape, Versions};

/// The words of one slot, on the move.
pub(crate) type Pair = Vec<u64>;

/// The pair of a key and a value.
pub(crate) fn pair(shape: Shape, key: &Key, value: &[u64]) -> Pair {
    let mut pair = vec![0; shape.slot_words()];
    pair[0] = key.tag();
    let used = key.used_words().min(shape.key_words);
    pair[1..1 + used].copy_from_slice(&key.words[..used]);
    let room = &mut pair[1 + shape.key_words..];
    let len = value.len().min(room.len());
    room[..len].copy_from_slice(&value[..len]);
    pair
}

/// An empty bucket.
pub(crate) fn bucket(shape: Shape, root: Addr, depth: u8, prefix: u64, index: usize) -> Vec<u64> {
    let mut image = vec![0; shape.words()];
    image[0] = shape.to_word(BUCKET_MAGIC, depth, 0);
    image[2] = (prefix << 32) | index as u64;
    image[3] = root.raw();
    image
}

/// A block of the chain of bucket `index`, with one pair.
pub(crate) fn block(shape: Shape, root: Addr, prefix: u64, index: usize, next: FatPtr, pair: &[u64]) -> Vec<u64> {
    let shape = shape.block();
    let mut image = vec![0; shape.words()];
    image[0] = shape.to_word(BLOCK_MAGIC, 0, 0);
    image[2] = (prefix << 32) | index as u64;
    image[3] = root.raw();
    set_chain(&mut image, next);
    put(&mut image, shape, 0, pair);
    image
}

/// Looks at an image of the table with this root.
pub(crate) fn with<T>(image: &[u64], root: Addr, f: impl FnOnce(Bucket<'_, '_>) -> T) -> Option<T> {
    let view = View::Own(image);
    Bucket::open(&view, root).map(f)
}

pub(crate) fn versions(image: &[u64]) -> Versions {
    Versions::from_word(image.get(1).copied().unwrap_or(0))
}

pub(crate) fn set_versions(image: &mut [u64], versions: Versions) {
    if let Some(word) = image.get_mut(1) {
        *word = versions.to_word();
    }
}

pub(crate) fn chain(image: &[u64]) -> FatPtr {
    match image.get(4..HEADER_WORDS) {
        Some(words) => FatPtr::from_words([words[0], words[1]]),
        None => FatPtr::NULL,
    }
}

pub(crate) fn set_chain(image: &mut [u64], chain: FatPtr) {
    if let Some(words) = image.get_mut(4..HEADER_WORDS) {
        words.copy_from_slice(&chain.to_words());
    }
}

/// Puts a pair into a slot.
pub(crate) fn put(image: &mut [u64], shape: Shape, slot: usize, pair: &[u64]) {
    let at = shape.slot(slot);
    if let Some(words) = image.get_mut(at..at + pair.len()) {
        words.copy_from_slice(pair);
    }
}

/// Takes the pair out of a slot, which is free then.
pub(crate) fn take(image: &mut [u64], shape: Shape, slot: usize) -> Pair {
    let at = shape.slot(slot);
    match image.get_mut(at..at + shape.slot_words()) {
        Some(words) => {
            let pair = words.to_vec();
            words.fill(0);
            pair
        }
        None => vec![0; shape.slot_words()],
    }
}

/// Overwrites the value in a slot.
pub(crate) fn set_value(image: &mut [u64], shape: Shape, slot: usize, value: &[u64]) {
    let at = shape.slot(slot) + 1 + shape.key_words;
    let len = value.len().min(shape.value_words);
    if let Some(words) = image.get_mut(at..at + len) {
        words.copy_from_slice(&value[..len]);
    }
}

/// First free slot.
pub(crate) fn free_slot(image: &[u64], shape: Shape) -> Option<usize> {
    (0..shape.slots).find(|i| image.get(shape.slot(*i)) == Some(&0))
}

/// Last used slot.
pub(crate) fn last_used(image: &[u64], shape: Shape) -> Option<usize> {
    (0..shape.slots).rev().find(|i| image.get(shape.slot(*i)).is_some_and(|tag| *tag != 0))
}
