//! Building and changing the image of a node. Layout: see [`crate::node`].
//!
//! A change that does not fit leaves the image unchanged.

use fencepost_storage::{Addr, Timestamp, View};

use crate::entries::ScanBatch;
use crate::key;
use crate::node::{
    FLAG_RIGHT_EDGE, FLAG_TOGETHER, HEADER_WORDS, MAGIC, Node, Slot, VALUE_WORDS,
    WORD_KEY_TIMESTAMP, WORD_LENGTHS, WORD_RIGHT, WORD_TREE, heap_words,
};

/// The error of a change that does not fit the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoSpace;

/// All parts of a node except its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) level: u8,
    pub(crate) flags: u64,
    /// Words the node may use.
    pub(crate) words: usize,
    pub(crate) tree: Addr,
    pub(crate) key_timestamp: Timestamp,
    pub(crate) right: Addr,
    /// The low fence, inclusive.
    pub(crate) low: Vec<u8>,
    /// The high fence, exclusive; unused at the right edge.
    pub(crate) high: Vec<u8>,
}

impl Frame {
    /// Returns the frame of a root that covers all keys.
    pub(crate) fn root(level: u8, words: usize, tree: Addr) -> Self {
        Frame {
            level,
            flags: FLAG_RIGHT_EDGE,
            words,
            tree,
            key_timestamp: Timestamp::ZERO,
            right: Addr::NULL,
            low: Vec::new(),
            high: Vec::new(),
        }
    }

    /// Returns the frame of an existing node.
    pub(crate) fn of(node: &Node<'_, '_>) -> Self {
        let (mut low, mut high) = (Vec::new(), Vec::new());
        node.append_low(&mut low);
        node.append_high(&mut high);
        Frame {
            level: node.level,
            flags: node.flags,
            words: node.words,
            tree: node.tree(),
            key_timestamp: node.key_timestamp(),
            right: node.right(),
            low,
            high,
        }
    }

    /// Returns the frame with the flag that the tree is kept together, if `flags` of another of its
    /// nodes have it.
    pub(crate) fn together_as(self, flags: u64) -> Self {
        Frame {
            flags: self.flags | flags & FLAG_TOGETHER,
            ..self
        }
    }

    /// Returns whether its tree is kept together.
    pub(crate) fn is_together(&self) -> bool {
        self.flags & FLAG_TOGETHER != 0
    }

    /// Returns whether there is no high fence.
    pub(crate) fn is_right_edge(&self) -> bool {
        self.flags & FLAG_RIGHT_EDGE != 0
    }
}

/// Appends the entries of a node to `out`. The key of the first entry of an inner node is the low
/// fence.
pub(crate) fn decode(node: &Node<'_, '_>, out: &mut ScanBatch) {
    for i in 0..node.count {
        out.push_with(node.value(i), |bytes| node.append_key(i, bytes));
    }
}

/// Returns the number of leading bytes that the keys of entries `from..to` share with `low`.
fn common_prefix(frame: &Frame, entries: &ScanBatch, from: usize, to: usize) -> usize {
    // Keys ascend from the low fence, so the last one shares the fewest bytes.
    let stored = from + usize::from(frame.level > 0);
    if stored < to {
        key::shared(&frame.low, entries.key(to - 1))
    } else {
        frame.low.len()
    }
}

/// Returns whether a node has space for entries `from..to`.
pub(crate) fn fits(frame: &Frame, entries: &ScanBatch, from: usize, to: usize) -> bool {
    let prefix = common_prefix(frame, entries, from, to);
    let mut used = HEADER_WORDS + key::words_for(frame.low.len());
    if !frame.is_right_edge() {
        used += key::words_for(frame.high.len());
    }
    for i in from..to {
        let bare = frame.level > 0 && i == from;
        let suffix = if bare {
            0
        } else {
            entries.key(i).len() - prefix
        };
        used += 1 + heap_words(suffix);
    }
    used <= frame.words
}

/// Writes a whole node with entries `from..to`.
///
/// # Errors
/// [`NoSpace`], with the image unchanged.
pub(crate) fn build(
    image: &mut [u64],
    frame: &Frame,
    entries: &ScanBatch,
    from: usize,
    to: usize,
) -> Result<(), NoSpace> {
    if image.len() < frame.words || !fits(frame, entries, from, to) {
        return Err(NoSpace);
    }
    let prefix = common_prefix(frame, entries, from, to);
    let high: &[u8] = if frame.is_right_edge() {
        &[]
    } else {
        &frame.high
    };
    image.fill(0);
    image[WORD_TREE] = frame.tree.raw();
    image[WORD_KEY_TIMESTAMP] = frame.key_timestamp.raw();
    image[WORD_RIGHT] = frame.right.raw();
    let mut at = HEADER_WORDS;
    at += key::put_words(&frame.low, &mut image[at..]);
    at += key::put_words(high, &mut image[at..]);
    let mut heap = frame.words;
    for i in from..to {
        let bare = frame.level > 0 && i == from;
        let suffix = if bare {
            &[][..]
        } else {
            &entries.key(i)[prefix..]
        };
        heap -= heap_words(suffix.len());
        image[at] = put_entry(image, heap, suffix, entries.value(i)).to_word();
        at += 1;
    }
    let counts = Counts {
        level: frame.level,
        flags: frame.flags,
        words: frame.words,
        count: to - from,
    };
    let lens = ImageLengths {
        low: frame.low.len(),
        high: high.len(),
        prefix,
        heap,
    };
    counts.put(image);
    lens.put(image);
    Ok(())
}

struct Counts {
    level: u8,
    flags: u64,
    words: usize,
    count: usize,
}

impl Counts {
    fn put(&self, image: &mut [u64]) {
        image[0] = (MAGIC << 48)
            | (u64::from(self.level) << 40)
            | ((self.flags & 0xFF) << 32)
            | ((self.words as u64 & 0xFFFF) << 16)
            | (self.count as u64 & 0xFFFF);
    }
}

struct ImageLengths {
    low: usize,
    high: usize,
    prefix: usize,
    heap: usize,
}

impl ImageLengths {
    fn put(&self, image: &mut [u64]) {
        image[WORD_LENGTHS] = ((self.low as u64) << 48)
            | ((self.high as u64) << 32)
            | ((self.prefix as u64) << 16)
            | self.heap as u64;
    }
}

/// Writes the value and the rest of the suffix at word `heap`.
fn put_entry(image: &mut [u64], heap: usize, suffix: &[u8], value: [u64; VALUE_WORDS]) -> Slot {
    image[heap] = value[0];
    image[heap + 1] = value[1];
    let rest = suffix.get(crate::node::HEAD_BYTES..).unwrap_or(&[]);
    key::put_words(rest, &mut image[heap + VALUE_WORDS..]);
    Slot {
        head: key::head_at(suffix, 0),
        suffix: suffix.len(),
        offset: heap,
    }
}

/// The properties of an image that a change needs.
#[derive(Clone, Copy)]
struct Shape {
    level: u8,
    flags: u64,
    words: usize,
    count: usize,
    low_len: usize,
    high_len: usize,
    prefix: usize,
    heap: usize,
    slots: usize,
}

impl Shape {
    fn of(node: &Node<'_, '_>) -> Self {
        Shape {
            level: node.level,
            flags: node.flags,
            words: node.words,
            count: node.count,
            low_len: node.low_len,
            high_len: node.high_len,
            prefix: node.prefix,
            heap: node.heap,
            slots: node.slots(),
        }
    }

    fn put(&self, image: &mut [u64]) {
        let counts = Counts {
            level: self.level,
            flags: self.flags,
            words: self.words,
            count: self.count,
        };
        counts.put(image);
        ImageLengths {
            low: self.low_len,
            high: self.high_len,
            prefix: self.prefix,
            heap: self.heap,
        }
        .put(image);
    }
}

/// Inserts an entry at the position that a search for its key returned.
///
/// # Errors
/// [`NoSpace`], with the image unchanged.
pub(crate) fn insert(
    image: &mut [u64],
    at: usize,
    key: &[u8],
    value: [u64; VALUE_WORDS],
) -> Result<(), NoSpace> {
    let view = View::Own(image);
    let node = Node::open(&view).ok_or(NoSpace)?;
    let mut shape = Shape::of(&node);
    let shared = node.shared_with_low(key);
    if shape.count == usize::from(shape.level > 0) {
        // No stored key depends on the prefix, so it may change.
        shape.prefix = shared;
        if shape.count == 0 {
            shape.heap = shape.words;
        }
    }
    let suffix = key.get(shape.prefix..).filter(|_| shared >= shape.prefix);
    let free_words = shape.heap.saturating_sub(shape.slots + shape.count);
    match suffix {
        Some(suffix) if free_words > heap_words(suffix.len()) => {
            shape.heap -= heap_words(suffix.len());
            let slot = put_entry(image, shape.heap, suffix, value);
            let slots = &mut image[shape.slots..=shape.slots + shape.count];
            slots.copy_within(at..shape.count, at + 1);
            slots[at] = slot.to_word();
            shape.count += 1;
            shape.put(image);
            Ok(())
        }
        _ => rebuild_with(image, at, key, value),
    }
}

/// Builds the node again with one more entry.
fn rebuild_with(
    image: &mut [u64],
    at: usize,
    key: &[u8],
    value: [u64; VALUE_WORDS],
) -> Result<(), NoSpace> {
    let (frame, old) = take_apart(image).ok_or(NoSpace)?;
    let mut entries = ScanBatch::new();
    for (i, (old_key, old_value)) in old.iter().enumerate() {
        if i == at {
            entries.push(key, value);
        }
        entries.push(old_key, old_value);
    }
    if at >= old.len() {
        entries.push(key, value);
    }
    build(image, &frame, &entries, 0, entries.len())
}

/// Returns the frame and the entries of an image.
pub(crate) fn take_apart(image: &[u64]) -> Option<(Frame, ScanBatch)> {
    let view = View::Own(image);
    let node = Node::open(&view)?;
    let mut entries = ScanBatch::new();
    decode(&node, &mut entries);
    Some((Frame::of(&node), entries))
}

/// Removes the entry at a position that a search returned. Its heap words stay unused until the
/// node is built again.
pub(crate) fn remove(image: &mut [u64], at: usize) {
    let view = View::Own(image);
    let Some(node) = Node::open(&view) else {
        return;
    };
    let mut shape = Shape::of(&node);
    if at >= shape.count {
        return;
    }
    image[shape.slots..shape.slots + shape.count].copy_within(at + 1.., at);
    shape.count -= 1;
    if shape.count == 0 {
        shape.heap = shape.words;
    }
    shape.put(image);
}

/// Removes, as [`remove`] does, the entries at ascending positions.
pub(crate) fn remove_all(image: &mut [u64], positions: &[usize]) {
    let view = View::Own(image);
    let Some(node) = Node::open(&view) else {
        return;
    };
    let mut shape = Shape::of(&node);
    let slots = &mut image[shape.slots..shape.slots + shape.count];
    let mut kept = positions.first().map_or(shape.count, |first| *first);
    for (i, at) in positions.iter().enumerate() {
        let next = positions.get(i + 1).map_or(shape.count, |next| *next);
        slots.copy_within(at + 1..next, kept);
        kept += next - (at + 1);
    }
    shape.count = kept;
    if shape.count == 0 {
        shape.heap = shape.words;
    }
    shape.put(image);
}

/// Replaces the value at a position that a search returned.
pub(crate) fn replace(image: &mut [u64], at: usize, value: [u64; VALUE_WORDS]) {
    let view = View::Own(image);
    let offset = Node::open(&view).map(|node| node.slot(at).offset);
    if let Some(place) = offset.and_then(|offset| image.get_mut(offset..offset + VALUE_WORDS)) {
        place.copy_from_slice(&value);
    }
}

/// Sets or clears a flag.
pub(crate) fn set_flag(image: &mut [u64], flag: u64, on: bool) {
    let bit = flag << 32;
    if on {
        image[0] |= bit;
    } else {
        image[0] &= !bit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const WORDS: usize = 64;

    fn empty() -> Vec<u64> {
        let mut image = vec![0; WORDS];
        let frame = Frame::root(0, WORDS, Addr::from_raw(64));
        build(&mut image, &frame, &ScanBatch::new(), 0, 0).expect("an empty node fits");
        image
    }

    fn contents(image: &[u64]) -> BTreeMap<Vec<u8>, [u64; 2]> {
        let (_, entries) = take_apart(image).expect("a node");
        entries
            .iter()
            .map(|(key, value)| (key.to_vec(), value))
            .collect()
    }

    fn key() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255)], 0..16),
            (0u32..200).prop_map(|n| [&[1u8, 0, 0][..], &n.to_be_bytes()].concat()),
        ]
    }

    proptest! {
        #[test]
        fn node_behaves_as_sorted_map(
            ops in proptest::collection::vec((key(), 0u8..4, any::<u64>()), 0..120),
        ) {
            let mut image = empty();
            let mut model: BTreeMap<Vec<u8>, [u64; 2]> = BTreeMap::new();
            for (key, what, value) in ops {
                let view = View::Own(&image);
                let node = Node::open(&view).expect("a node");
                let found = node.search(&key);
                prop_assert_eq!(found.is_ok(), model.contains_key(&key));
                let (Ok(at) | Err(at)) = found;
                prop_assert_eq!(at, model.range(..key.clone()).count());
                match (what, found) {
                    (0, Ok(at)) => {
                        remove(&mut image, at);
                        model.remove(&key);
                    }
                    (1, Ok(at)) => {
                        replace(&mut image, at, [value, 1]);
                        model.insert(key, [value, 1]);
                    }
                    (_, Err(at)) => {
                        let before = image.clone();
                        match insert(&mut image, at, &key, [value, 0]) {
                            Ok(()) => drop(model.insert(key, [value, 0])),
                            Err(NoSpace) => prop_assert_eq!(&before, &image),
                        }
                    }
                    _ => {}
                }
                prop_assert_eq!(&contents(&image), &model);
            }
        }

        #[test]
        fn removing_several_entries_equals_removing_each(
            keys in proptest::collection::btree_map(key(), any::<bool>(), 0..12),
        ) {
            let mut all = empty();
            for key in keys.keys() {
                let view = View::Own(&all);
                let at = Node::open(&view).expect("a node").position(key);
                if insert(&mut all, at, key, [7, 8]).is_err() {
                    break;
                }
            }
            let stored = contents(&all);
            let goes = |key: &Vec<u8>| keys[key];
            let positions: Vec<usize> = stored
                .keys()
                .enumerate()
                .filter_map(|(at, key)| goes(key).then_some(at))
                .collect();
            let mut each = all.clone();
            positions.iter().rev().for_each(|at| remove(&mut each, *at));
            remove_all(&mut all, &positions);
            prop_assert_eq!(contents(&all), contents(&each));
            prop_assert_eq!(contents(&all).len(), stored.len() - positions.len());
        }

        #[test]
        fn range_hash_is_independent_of_layout(
            keys in proptest::collection::btree_set(key(), 1..8), from in key(), to in key()
        ) {
            let mut one = empty();
            let mut two = empty();
            let forth: Vec<_> = keys.iter().cloned().collect();
            let back = forth.iter().rev().cloned().collect();
            for (image, order) in [(&mut one, forth), (&mut two, back)] {
                for key in order {
                    let view = View::Own(image);
                    let at = Node::open(&view).expect("a node").position(&key);
                    insert(image, at, &key, [key.len() as u64, 7]).expect("eight short keys fit");
                }
            }
            let hash = |image: &[u64]| {
                let view = View::Own(image);
                Node::open(&view).expect("a node").hash_range(&from, Some(&to))
            };
            prop_assert_eq!(hash(&one), hash(&two));
            let nothing_there = !keys.iter().any(|key| &from <= key && key < &to);
            prop_assert_eq!(hash(&one) == 0, nothing_there);
        }
    }

    #[test]
    fn random_words_are_no_danger() {
        let mut state = 1u64;
        for _ in 0..20_000 {
            let mut image: Vec<u64> = (0..WORDS)
                .map(|_| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    state ^ (state >> 31)
                })
                .collect();
            image[0] = (MAGIC << 48)
                | (image[0] & 0x0001_0003_0000_0000)
                | ((WORDS as u64) << 16)
                | (image[0] & 31);
            image[WORD_LENGTHS] &= 0x003F_003F_001F_003F;
            let view = View::Own(&image);
            if let Some(node) = Node::open(&view) {
                let mut entries = ScanBatch::new();
                decode(&node, &mut entries);
                let _ = (
                    node.covers(b"abcdefgh"),
                    node.search(b"abcdefgh"),
                    node.hash_range(b"a", None),
                    node.used(),
                );
            }
        }
    }
}
