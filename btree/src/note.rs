//! Notes: the parts of a leaf on which a transaction depends, and their validation when the leaf
//! has moved. They prevent phantoms.
//!
//! A note is a range of keys. A lookup that found nothing notes the range of that one key. A scan
//! notes the part of the leaf that it returned or skipped. The note has the snapshot that was read
//! and a hash of the entries in the range. A leaf that has moved is still valid in two cases: no
//! key came or went since that snapshot, or the leaf still covers the range and has the same
//! entries in it. If the leaf was split, the rest of the range is looked up in its right siblings.
//!
//! A note may also say that one key is present, or absent: the condition of a change that a
//! rollback took back.
//!
//! `| tree · snapshot · hash · | flags 16 | from length 24 | to length 24 | · from · to`

use std::cmp::Ordering;

use fencepost_storage::{Addr, Timestamp, View};
use fencepost_txn::Revalidate;

use crate::key;
use crate::node::Node;
use crate::op::KeyBytes;

const KEYS_AT: usize = 4;
/// The range has no end.
const FLAG_TO_THE_END: u64 = 1;
/// The leaf had changes of the transaction's own, so the hash is not that of a committed version.
const FLAG_OWN: u64 = 2;
/// Not a range: the key `from` must be present.
const FLAG_PRESENT: u64 = 4;
/// Not a range: the key `from` must be absent.
const FLAG_ABSENT: u64 = 8;

/// The hash of a range without entries.
const NO_ENTRIES: u64 = 0;

/// Longest note that needs no allocation.
const SHORT_WORDS: usize = KEYS_AT + 2 * 16;

/// The properties of a leaf for a note, taken while reading it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LeafProperties {
    own: bool,
    hash: u64,
}

impl LeafProperties {
    /// Returns the facts about a leaf, with the hash of the range's entries.
    pub(crate) fn new(node: &Node<'_, '_>, hash: u64) -> Self {
        LeafProperties {
            own: node.is_own(),
            hash,
        }
    }
}

/// The end of the range of a note.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RangeEnd<'a> {
    /// Just after its start: the range is one key.
    Point,
    /// Before this key.
    Before(&'a [u8]),
    /// No end.
    Never,
}

impl<'a> RangeEnd<'a> {
    /// Returns the end before a key, or no end without a key.
    pub(crate) fn before(to: Option<&'a [u8]>) -> Self {
        to.map_or(RangeEnd::Never, RangeEnd::Before)
    }
}

/// Builds the note of a range and calls `with` with it.
pub(crate) fn with_note<T>(
    tree: Addr,
    snapshot: Timestamp,
    facts: LeafProperties,
    from: &[u8],
    to: RangeEnd<'_>,
    with: impl FnOnce(&[u64]) -> T,
) -> T {
    // The key just after another is that key and a zero byte, which the padding already contains.
    let (to_bytes, to_len) = match to {
        RangeEnd::Point => (from, from.len() + 1),
        RangeEnd::Before(key) => (key, key.len()),
        RangeEnd::Never => (&[][..], 0),
    };
    let from_words = key::words_for(from.len());
    let words = KEYS_AT + from_words + key::words_for(to_len);
    let own = if facts.own { FLAG_OWN } else { 0 };
    let flags = own
        | if let RangeEnd::Never = to {
            FLAG_TO_THE_END
        } else {
            0
        };
    let fill = |note: &mut [u64]| {
        note[0] = tree.raw();
        note[1] = snapshot.raw();
        note[2] = facts.hash;
        note[3] =
            (flags << 48) | ((from.len() as u64 & 0xFF_FFFF) << 24) | (to_len as u64 & 0xFF_FFFF);
        key::put_words(from, &mut note[KEYS_AT..]);
        key::put_words(to_bytes, &mut note[KEYS_AT + from_words..]);
    };
    if words <= SHORT_WORDS {
        let mut note = [0u64; SHORT_WORDS];
        fill(&mut note[..words]);
        with(&note[..words])
    } else {
        let mut note = vec![0u64; words];
        fill(&mut note);
        with(&note)
    }
}

/// Returns the note that a key is present, with any value, or absent.
pub(crate) fn condition(tree: Addr, key: &[u8], present: bool) -> Vec<u64> {
    let mut note = vec![0; KEYS_AT + key::words_for(key.len())];
    let flag = if present { FLAG_PRESENT } else { FLAG_ABSENT };
    note[0] = tree.raw();
    note[3] = (flag << 48) | ((key.len() as u64 & 0xFF_FFFF) << 24);
    key::put_words(key, &mut note[KEYS_AT..]);
    note
}

/// Validates a note for a leaf that has moved since.
pub(crate) fn revalidate(note: &[u64], now: &View<'_>) -> Revalidate {
    let (Some(head), Some(keys)) = (note.get(..KEYS_AT), note.get(KEYS_AT..)) else {
        return Revalidate::Invalid;
    };
    let flags = head[3] >> 48;
    let from_len = (head[3] >> 24) as usize & 0xFF_FFFF;
    let to_len = head[3] as usize & 0xFF_FFFF;
    let from_words = key::words_for(from_len).min(keys.len());
    let from = KeyBytes::from_words(&keys[..from_words], from_len);
    let to = KeyBytes::from_words(&keys[from_words..], to_len);
    let (from, to) = (
        from.as_slice(),
        (flags & FLAG_TO_THE_END == 0).then(|| to.as_slice()),
    );

    let Some(node) = Node::open_in(now, Addr::from_raw(head[0])) else {
        return Revalidate::Invalid;
    };
    if node.level > 0 {
        // The root was a leaf and was split, or the leaf is gone and its keys are looked up again.
        let child = node.child(node.child_at(from)).addr;
        return if node.count == 0 {
            Revalidate::Invalid
        } else {
            Revalidate::ContinueAt(child)
        };
    }
    if node.cmp_high(from) != Ordering::Less {
        return Revalidate::ContinueAt(node.right());
    }
    if flags & (FLAG_PRESENT | FLAG_ABSENT) != 0 {
        let as_it_was =
            node.covers(from) && node.search(from).is_ok() == (flags & FLAG_PRESENT != 0);
        return if as_it_was {
            Revalidate::Valid
        } else {
            Revalidate::Invalid
        };
    }
    let ends_in_node = match to {
        Some(to) => node.cmp_high(to) != Ordering::Greater,
        None => node.is_right_edge(),
    };
    if node.key_timestamp().raw() <= head[1] {
        return if ends_in_node {
            Revalidate::Valid
        } else {
            Revalidate::ContinueAt(node.right())
        };
    }
    let begins_in_node = node.cmp_low(from) != Ordering::Less;
    // The hash of a leaf with own changes is that of a committed version only if the range was
    // empty.
    let comparable =
        begins_in_node && ends_in_node && (flags & FLAG_OWN == 0 || head[2] == NO_ENTRIES);
    if comparable && node.hash_range(from, to) == head[2] {
        Revalidate::Valid
    } else {
        Revalidate::Invalid
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entries::ScanBatch;
    use crate::image::{self, Frame};

    const TREE: u64 = 64;

    fn leaf(keys: &[&[u8]], key_timestamp: u64) -> Vec<u64> {
        let mut image = vec![0; 80];
        let mut frame = Frame::root(0, 80, Addr::from_raw(TREE));
        frame.key_timestamp = Timestamp::from_raw(key_timestamp);
        let mut entries = ScanBatch::new();
        keys.iter().for_each(|key| entries.push(key, [1, 2]));
        image::build(&mut image, &frame, &entries, 0, entries.len()).expect("a few keys fit");
        image
    }

    fn judge(then: &[u64], range: (&[u8], Option<&[u8]>), now: &[u64]) -> Revalidate {
        let view = View::Own(then);
        let node = Node::open(&view).expect("a node");
        let facts = LeafProperties::new(&node, node.hash_range(range.0, range.1));
        let snapshot = Timestamp::from_raw(5);
        with_note(
            Addr::from_raw(TREE),
            snapshot,
            facts,
            range.0,
            RangeEnd::before(range.1),
            |note| revalidate(note, &View::Own(now)),
        )
    }

    #[test]
    fn keys_outside_the_range_do_not_matter_and_keys_inside_do() {
        let then = leaf(&[b"b", b"d", b"f"], 5);
        let outside = leaf(&[b"b", b"d", b"f", b"g"], 6);
        let inside = leaf(&[b"b", b"c", b"d", b"f"], 6);
        let other_leaf = leaf(&[b"b", b"f"], 6);
        let range: (&[u8], Option<&[u8]>) = (b"b", Some(b"e"));
        assert_eq!(judge(&then, range, &outside), Revalidate::Valid);
        assert_eq!(judge(&then, range, &inside), Revalidate::Invalid);
        assert_eq!(judge(&then, range, &other_leaf), Revalidate::Invalid);
        assert_eq!(judge(&then, (b"b", None), &outside), Revalidate::Invalid);
        assert_eq!(
            judge(&then, (b"e", Some(b"e\0")), &outside),
            Revalidate::Valid
        );
    }

    #[test]
    fn revalidation_after_split_continues_at_right_sibling() {
        let then = leaf(&[b"b", b"d", b"f"], 5);
        let (mut left, mut right) = (then.clone(), vec![0; 80]);
        let right_at = Addr::from_raw(128);
        crate::split::split(&mut left, &mut right, right_at, b"d").expect("d is inside");
        assert_eq!(judge(&then, (b"a", Some(b"c")), &left), Revalidate::Valid);
        assert_eq!(
            judge(&then, (b"a", Some(b"e")), &left),
            Revalidate::ContinueAt(right_at)
        );
        assert_eq!(
            judge(&then, (b"d", Some(b"e")), &left),
            Revalidate::ContinueAt(right_at)
        );
        assert_eq!(judge(&then, (b"a", Some(b"e")), &right), Revalidate::Valid);
        assert_eq!(judge(&then, (b"a", None), &right), Revalidate::Valid);
    }
}
