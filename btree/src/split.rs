//! The position of a split, and the images after splits and merges.

use fencepost_storage::{Addr, View};

use crate::entries::ScanBatch;
use crate::image::{self, Frame, NoSpace};
use crate::key;
use crate::node::{FLAG_RIGHT_EDGE, Node};

/// Chooses the low fence of the right half of a full node into which `key` is to be inserted.
///
/// A key after the last one splits at the right end, and a key before the first at the left end. So
/// ascending and descending loads leave full nodes. Otherwise the halves get equal numbers of
/// words. Returns `None` if the node cannot be split.
pub(crate) fn choose(node: &Node<'_, '_>, new_key: &[u8]) -> Option<Vec<u8>> {
    let mut entries = ScanBatch::new();
    image::decode(node, &mut entries);
    let frame = Frame::of(node);
    let at = (0..entries.len())
        .find(|i| entries.key(*i) >= new_key)
        .unwrap_or(entries.len());
    let count = entries.len();
    let end = at == count && count > 2 * usize::from(node.level > 0);
    if end {
        // An inner node moves its last child, which becomes the first child of the right half. A
        // leaf moves no entry, or just enough that the left half has space for its new fence.
        let moved = if node.level > 0 { 1..=1 } else { 0..=2 };
        for left in moved
            .map(|moved| count.saturating_sub(moved))
            .take_while(|left| *left > 0)
        {
            let right = if left == count {
                new_key
            } else {
                entries.key(left)
            };
            let candidate = cut(node.level, entries.key(left - 1), right);
            if both_fit(&frame, &entries, left, candidate) {
                return Some(candidate.to_vec());
            }
        }
    } else if at == 0 && count > 0 && node.level == 0 {
        let separator = cut(0, new_key, entries.key(0)).to_vec();
        if both_fit(&frame, &entries, 0, &separator) {
            return Some(separator);
        }
    }
    middle(node, &frame, &entries)
}

/// Returns the separator between two neighbours. That of a leaf is shortened. That of an inner node
/// is the key itself, because it is the low fence of a child.
fn cut<'a>(level: u8, left: &[u8], right: &'a [u8]) -> &'a [u8] {
    if level == 0 {
        key::separator(left, right)
    } else {
        right
    }
}

/// Returns whether both halves have space for the separator as a fence, with `at` entries on the
/// left.
fn both_fit(frame: &Frame, entries: &ScanBatch, at: usize, separator: &[u8]) -> bool {
    let left = Frame {
        high: separator.to_vec(),
        flags: frame.flags & !FLAG_RIGHT_EDGE,
        ..frame.clone()
    };
    let right = Frame {
        low: separator.to_vec(),
        ..frame.clone()
    };
    image::fits(&left, entries, 0, at) && image::fits(&right, entries, at, entries.len())
}

fn middle(node: &Node<'_, '_>, frame: &Frame, entries: &ScanBatch) -> Option<Vec<u8>> {
    let count = entries.len();
    if count < 2 {
        return None;
    }
    let sizes: Vec<usize> = (0..count)
        .map(|i| 1 + crate::node::heap_words(node.slot(i).suffix))
        .collect();
    let half = sizes.iter().sum::<usize>() / 2;
    let mut left = 0;
    let mut at = 0;
    while at < count && left < half {
        left += sizes[at];
        at += 1;
    }
    let at = at.clamp(1, count - 1);
    // A fence may be longer than the old one; then a position further from the middle may have
    // space for it.
    (1..=at)
        .rev()
        .chain(at + 1..count)
        .map(|at| (at, cut(node.level, entries.key(at - 1), entries.key(at))))
        .find(|(at, separator)| both_fit(frame, entries, *at, separator))
        .map(|(_, separator)| separator.to_vec())
}

/// Returns the separator in the middle of a node, for a split without a new key.
pub(crate) fn choose_middle(image: &[u64]) -> Option<Vec<u8>> {
    let view = View::Own(image);
    let node = Node::open(&view)?;
    let (frame, entries) = image::take_apart(image)?;
    middle(&node, &frame, &entries)
}

/// Splits the image of a node at `separator`: `left` keeps its address, `right` is a new node at
/// `right_at`. The key timestamp stays, because no key comes or goes.
///
/// # Errors
/// [`NoSpace`] if the separator is not inside the node or the left half has no space for it as
/// fence.
pub(crate) fn split(
    left: &mut [u64],
    right: &mut [u64],
    right_at: Addr,
    separator: &[u8],
) -> Result<(), NoSpace> {
    let (frame, entries) = image::take_apart(left).ok_or(NoSpace)?;
    let inside = separator > frame.low.as_slice()
        && (frame.is_right_edge() || separator < frame.high.as_slice());
    if !inside {
        return Err(NoSpace);
    }
    let at = (0..entries.len())
        .find(|i| entries.key(*i) >= separator)
        .unwrap_or(entries.len());
    if frame.level > 0 && (at == entries.len() || entries.key(at) != separator) {
        return Err(NoSpace);
    }
    let left_frame = Frame {
        flags: frame.flags & !FLAG_RIGHT_EDGE,
        high: separator.to_vec(),
        right: right_at,
        ..frame.clone()
    };
    let right_frame = Frame {
        low: separator.to_vec(),
        ..frame
    };
    if !image::fits(&left_frame, &entries, 0, at) {
        return Err(NoSpace);
    }
    image::build(right, &right_frame, &entries, at, entries.len())?;
    image::build(left, &left_frame, &entries, 0, at)
}

/// Appends the contents of `right` to its left sibling.
///
/// # Errors
/// [`NoSpace`] if they do not fit one node, or are not neighbours; `left` is unchanged.
pub(crate) fn merge(left: &mut [u64], right: &[u64]) -> Result<(), NoSpace> {
    let (left_frame, mut entries) = image::take_apart(left).ok_or(NoSpace)?;
    let (right_frame, right_entries) = image::take_apart(right).ok_or(NoSpace)?;
    let neighbours = left_frame.level == right_frame.level
        && !left_frame.is_right_edge()
        && left_frame.high == right_frame.low;
    if !neighbours {
        return Err(NoSpace);
    }
    for (key, value) in right_entries.iter() {
        entries.push(key, value);
    }
    let frame = Frame {
        flags: left_frame.flags | (right_frame.flags & FLAG_RIGHT_EDGE),
        high: right_frame.high,
        right: right_frame.right,
        key_timestamp: left_frame.key_timestamp.max(right_frame.key_timestamp),
        ..left_frame
    };
    image::build(left, &frame, &entries, 0, entries.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WORDS: usize = 80;

    fn leaf(keys: &[Vec<u8>]) -> (Vec<u64>, usize) {
        let mut image = vec![0; WORDS];
        let frame = Frame::root(0, WORDS, Addr::from_raw(64));
        image::build(&mut image, &frame, &ScanBatch::new(), 0, 0).expect("an empty node fits");
        let mut count = 0;
        for key in keys {
            let view = View::Own(&image);
            let at = Node::open(&view).expect("a node").position(key);
            if image::insert(&mut image, at, key, [key.len() as u64, 0]).is_err() {
                break;
            }
            count += 1;
        }
        (image, count)
    }

    proptest! {
        #[test]
        fn split_keeps_keys_and_merge_undoes_split(
            keys in proptest::collection::btree_set(
                proptest::collection::vec(any::<u8>(), 1..24),
                3..40,
            ),
            new_key in proptest::collection::vec(any::<u8>(), 1..24),
        ) {
            let keys: Vec<_> = keys.into_iter().filter(|key| *key != new_key).collect();
            let (image, count) = leaf(&keys);
            prop_assume!(count >= 2);
            let view = View::Own(&image);
            let node = Node::open(&view).expect("a node");
            let separator = choose(&node, &new_key).expect("two keys can be parted");
            let (mut left, mut right) = (image.clone(), vec![0; WORDS]);
            split(&mut left, &mut right, Addr::from_raw(128), &separator)
                .expect("it was chosen to fit");
            let (left_frame, left_entries) = image::take_apart(&left).expect("a node");
            let (right_frame, right_entries) = image::take_apart(&right).expect("a node");
            prop_assert_eq!(&left_frame.high, &separator);
            prop_assert_eq!(&right_frame.low, &separator);
            prop_assert_eq!(left_frame.right, Addr::from_raw(128));
            prop_assert!(left_entries.iter().all(|(key, _)| key < separator.as_slice()));
            prop_assert!(right_entries.iter().all(|(key, _)| key >= separator.as_slice()));
            prop_assert_eq!(left_entries.len() + right_entries.len(), count);
            merge(&mut left, &right).expect("they came from one node");
            let (_, merged) = image::take_apart(&left).expect("a node");
            let back: Vec<_> = merged.iter().map(|(key, _)| key.to_vec()).collect();
            prop_assert_eq!(&back[..], &keys[..count]);
        }
    }

    #[test]
    fn ascending_load_leaves_full_nodes() {
        let keys: Vec<Vec<u8>> = (0u64..100).map(|n| n.to_be_bytes().to_vec()).collect();
        let (image, count) = leaf(&keys);
        let view = View::Own(&image);
        let separator =
            choose(&Node::open(&view).expect("a node"), &keys[count]).expect("it can be split");
        assert_eq!(separator, keys[count]);
    }
}
