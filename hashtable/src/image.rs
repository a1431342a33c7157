//! Building and changing images of buckets and blocks. Layout: see [`crate::layout`].

use fencepost_storage::{Addr, FatPtr, View};

use crate::layout::{
    BLOCK_MAGIC, BUCKET_MAGIC, Bucket, Fingerprints, Key, Root, Shape, Versions, WORD_OWNER, owner,
};

/// The words of one slot outside a bucket: tag, key, value.
pub(crate) type Pair = Vec<u64>;

/// Returns the pair of a key and a value.
pub(crate) fn pair(shape: Shape, key: &Key<'_>, value: &[u64]) -> Pair {
    let mut pair = vec![0; shape.pair_words()];
    pair[0] = key.tag();
    let used = key.used_words().min(shape.key_words);
    for (i, word) in pair[1..1 + used].iter_mut().enumerate() {
        *word = key.word(i);
    }
    let space = &mut pair[1 + shape.key_words..];
    let len = value.len().min(space.len());
    space[..len].copy_from_slice(&value[..len]);
    pair
}

/// Returns an empty bucket of the table at `table`.
pub(crate) fn bucket(root: &Root, table: Addr, depth: u8, prefix: u64, index: usize) -> Vec<u64> {
    let mut image = vec![0; root.shape.words()];
    image[0] = root.shape.to_word(BUCKET_MAGIC, depth, root.homes_mark());
    image[WORD_OWNER] = owner(prefix, index, table);
    image
}

/// Returns a block of the chain of bucket `index`, with one pair.
pub(crate) fn block(
    shape: Shape,
    root: Addr,
    prefix: u64,
    index: usize,
    next: FatPtr,
    pair: &[u64],
) -> Vec<u64> {
    let shape = shape.block();
    let mut image = vec![0; shape.words()];
    image[0] = shape.to_word(BLOCK_MAGIC, 0, 0);
    image[WORD_OWNER] = owner(prefix, index, root);
    set_chain(&mut image, next);
    put(&mut image, shape, 0, pair);
    image
}

/// Calls `f` with an image of the table whose root is at `root`.
pub(crate) fn with<T>(image: &[u64], root: Addr, f: impl FnOnce(Bucket<'_, '_>) -> T) -> Option<T> {
    let view = View::Own(image);
    Bucket::open(&view, root).map(f)
}

pub(crate) fn versions(image: &[u64]) -> Versions {
    Versions::from_word(image.get(Shape::of(image).versions()).copied().unwrap_or(0))
}

pub(crate) fn set_versions(image: &mut [u64], versions: Versions) {
    let at = Shape::of(image).versions();
    if let Some(word) = image.get_mut(at) {
        *word = versions.to_word();
    }
}

fn fingerprints(image: &mut [u64]) -> Option<&mut u64> {
    let at = Shape::of(image).fingerprints();
    image.get_mut(at)
}

/// Records that one more of the home's keys, the one with this tag, is outside the home.
pub(crate) fn add_away(image: &mut [u64], tag: u64) {
    let mut versions = versions(image);
    versions.away = versions.away.saturating_add(1);
    set_versions(image, versions);
    if let Some(word) = fingerprints(image) {
        *word = Fingerprints(*word).add(tag).0;
    }
}

/// Records that one of the home's keys, the one with this tag, is no longer outside the home.
pub(crate) fn remove_away(image: &mut [u64], tag: u64) {
    let mut versions = versions(image);
    versions.away = versions.away.saturating_sub(1);
    set_versions(image, versions);
    if let Some(word) = fingerprints(image) {
        *word = Fingerprints(*word).remove(tag, versions.away).0;
    }
}

pub(crate) fn chain(image: &[u64]) -> FatPtr {
    let at = Shape::of(image).chain();
    match image.get(at..at + 2) {
        Some(words) => FatPtr::from_words([words[0], words[1]]),
        None => FatPtr::NULL,
    }
}

pub(crate) fn set_chain(image: &mut [u64], chain: FatPtr) {
    let at = Shape::of(image).chain();
    if let Some(words) = image.get_mut(at..at + 2) {
        words.copy_from_slice(&chain.to_words());
    }
}

/// Puts a pair into a slot.
pub(crate) fn put(image: &mut [u64], shape: Shape, slot: usize, pair: &[u64]) {
    let (Some((tag, rest)), at) = (pair.split_first(), shape.key(slot)) else {
        return;
    };
    if let Some(words) = image.get_mut(at..at + rest.len()) {
        words.copy_from_slice(rest);
        image[shape.tag(slot)] = *tag;
    }
}

/// Returns the pair in a slot.
pub(crate) fn pair_at(image: &[u64], shape: Shape, slot: usize) -> Pair {
    let mut pair = vec![0; shape.pair_words()];
    let at = shape.key(slot);
    if let (Some(tag), Some(words)) = (
        image.get(shape.tag(slot)),
        image.get(at..at + pair.len() - 1),
    ) {
        pair[0] = *tag;
        pair[1..].copy_from_slice(words);
    }
    pair
}

/// Removes the pair from a slot, which becomes free.
pub(crate) fn take(image: &mut [u64], shape: Shape, slot: usize) -> Pair {
    let pair = pair_at(image, shape, slot);
    put(image, shape, slot, &vec![0; pair.len()]);
    pair
}

/// Overwrites the value in a slot.
pub(crate) fn set_value(image: &mut [u64], shape: Shape, slot: usize, value: &[u64]) {
    let at = shape.value(slot);
    let len = value.len().min(shape.value_words);
    if let Some(words) = image.get_mut(at..at + len) {
        words.copy_from_slice(&value[..len]);
    }
}

/// Returns the first free slot.
pub(crate) fn free_slot(image: &[u64], shape: Shape) -> Option<usize> {
    (0..shape.slots).find(|i| image.get(shape.tag(*i)) == Some(&0))
}

/// Returns the last used slot.
pub(crate) fn last_used(image: &[u64], shape: Shape) -> Option<usize> {
    (0..shape.slots)
        .rev()
        .find(|i| image.get(shape.tag(*i)).is_some_and(|tag| *tag != 0))
}
