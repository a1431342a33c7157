//! A node of the tree, read in place.
//!
//! ```text
//!  word 0   | magic 16 | level 8 | flags 8 | words 16 | count 16 |
//!  word 1   address of the tree's root          word 2   key timestamp
//!  word 3   address of the right sibling
//!  word 4   | low length 16 | high length 16 | prefix 16 | heap 16 |
//!  then     low fence (inclusive), high fence (exclusive; none at the right edge), in words
//!  then     `count` slots, ascending:  | head 32 | suffix length 16 | offset 16 |
//!  ...      free
//!  heap..   entries: value (2 words), then the suffix without the bytes in the head
//! ```
//! All keys of a node share the first `prefix` bytes with its low fence; only the suffix is stored.
//! Its first four bytes are in the slot, so most searches read only slots. The value of a leaf
//! entry belongs to the caller. The value of an inner entry is the fat pointer of a child, whose
//! low fence is the entry's key. The first entry of an inner node has no key of its own: its key is
//! the low fence.
//!
//! This code may run on torn words: every index is bounded, and every loop ends.

use std::cmp::Ordering;

use fencepost_storage::{Addr, FatPtr, Timestamp, View};

use crate::key;

pub(crate) const MAGIC: u64 = 0xB7EE;
pub(crate) const HEADER_WORDS: usize = 5;
/// Words of a value.
pub(crate) const VALUE_WORDS: usize = 2;
/// Bytes of a suffix that are stored in the slot.
pub(crate) const HEAD_BYTES: usize = 4;

/// The node has no high fence.
pub(crate) const FLAG_RIGHT_EDGE: u64 = 1;
/// The image has uncommitted changes of the transaction that reads it.
pub(crate) const FLAG_OWN: u64 = 2;
/// The tree is kept together: its nodes are on the machine of its root (BTREE-4).
pub(crate) const FLAG_TOGETHER: u64 = 4;

pub(crate) const WORD_TREE: usize = 1;
pub(crate) const WORD_KEY_TIMESTAMP: usize = 2;
pub(crate) const WORD_RIGHT: usize = 3;
pub(crate) const WORD_LENGTHS: usize = 4;

/// A decoded slot word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) head: u32,
    pub(crate) suffix: usize,
    pub(crate) offset: usize,
}

impl Slot {
    #[inline]
    pub(crate) fn from_word(word: u64) -> Self {
        Slot {
            head: (word >> 32) as u32,
            suffix: (word >> 16) as u16 as usize,
            offset: word as u16 as usize,
        }
    }

    #[inline]
    pub(crate) fn to_word(self) -> u64 {
        (u64::from(self.head) << 32)
            | ((self.suffix as u64 & 0xFFFF) << 16)
            | (self.offset as u64 & 0xFFFF)
    }
}

/// Returns the heap words of an entry whose suffix has `suffix` bytes.
#[inline]
pub(crate) const fn heap_words(suffix: usize) -> usize {
    VALUE_WORDS + key::words_for(suffix.saturating_sub(HEAD_BYTES))
}

/// A read-only view of one node, with its header decoded.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a, 'v> {
    pub(crate) view: &'a View<'v>,
    pub(crate) level: u8,
    pub(crate) flags: u64,
    /// Words the node may use; the object may be a little larger.
    pub(crate) words: usize,
    pub(crate) count: usize,
    pub(crate) low_len: usize,
    pub(crate) high_len: usize,
    pub(crate) prefix: usize,
    /// First word of the heap.
    pub(crate) heap: usize,
}

impl<'a, 'v> Node<'a, 'v> {
    /// Opens a node; returns `None` if the words are not a node.
    #[inline]
    pub(crate) fn open(view: &'a View<'v>) -> Option<Self> {
        let (first, lens) = (view.word(0), view.word(WORD_LENGTHS));
        if first >> 48 != MAGIC {
            return None;
        }
        let node = Node {
            view,
            level: (first >> 40) as u8,
            flags: (first >> 32) & 0xFF,
            words: (first >> 16) as u16 as usize,
            count: first as u16 as usize,
            low_len: (lens >> 48) as usize,
            high_len: (lens >> 32) as u16 as usize,
            prefix: (lens >> 16) as u16 as usize,
            heap: lens as u16 as usize,
        };
        let whole = node.words <= view.len()
            && node.slots() + node.count <= node.words
            && node.prefix <= node.low_len;
        whole.then_some(node)
    }

    /// Opens a node as [`Self::open`] does, if it belongs to the tree whose root is at `tree`.
    #[inline]
    pub(crate) fn open_in(view: &'a View<'v>, tree: Addr) -> Option<Self> {
        Self::open(view).filter(|node| node.tree() == tree)
    }

    /// Returns the address of the tree's root.
    #[inline]
    pub(crate) fn tree(&self) -> Addr {
        Addr::from_raw(self.view.word(WORD_TREE))
    }

    /// Returns the key timestamp (BTREE-2).
    #[inline]
    pub(crate) fn key_timestamp(&self) -> Timestamp {
        Timestamp::from_raw(self.view.word(WORD_KEY_TIMESTAMP))
    }

    /// Returns the right sibling; null at the right edge.
    #[inline]
    pub(crate) fn right(&self) -> Addr {
        Addr::from_raw(self.view.word(WORD_RIGHT))
    }

    /// Returns whether the image has uncommitted changes of the transaction that reads it.
    #[inline]
    pub(crate) fn is_own(&self) -> bool {
        self.flags & FLAG_OWN != 0
    }

    /// Returns whether there is no high fence.
    #[inline]
    pub(crate) fn is_right_edge(&self) -> bool {
        self.flags & FLAG_RIGHT_EDGE != 0
    }

    #[inline]
    fn high_at(&self) -> usize {
        HEADER_WORDS + key::words_for(self.low_len)
    }

    /// Returns the index of the first slot word.
    #[inline]
    pub(crate) fn slots(&self) -> usize {
        self.high_at() + key::words_for(self.high_len)
    }

    #[inline]
    pub(crate) fn slot(&self, i: usize) -> Slot {
        Slot::from_word(self.view.word(self.slots() + i))
    }

    /// Returns the words in use, without the garbage of removed entries.
    pub(crate) fn used(&self) -> usize {
        let entries: usize = (0..self.count)
            .map(|i| 1 + heap_words(self.slot(i).suffix))
            .sum();
        self.slots() + entries
    }

    /// Compares `key` with the low fence.
    #[inline]
    pub(crate) fn cmp_low(&self, key: &[u8]) -> Ordering {
        key::cmp_words(key, self.view, HEADER_WORDS, self.low_len)
    }

    /// Compares `key` with the high fence: `Less` is inside.
    #[inline]
    pub(crate) fn cmp_high(&self, key: &[u8]) -> Ordering {
        if self.is_right_edge() {
            return Ordering::Less;
        }
        key::cmp_words(key, self.view, self.high_at(), self.high_len)
    }

    /// Returns whether `key` lies between the fences.
    #[inline]
    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        self.cmp_high(key) == Ordering::Less && self.cmp_low(key) != Ordering::Less
    }

    /// Appends the low fence.
    pub(crate) fn append_low(&self, out: &mut Vec<u8>) {
        key::append_words(self.view, HEADER_WORDS, self.low_len, out);
    }

    /// Appends the high fence. Returns `false` if there is none.
    pub(crate) fn append_high(&self, out: &mut Vec<u8>) -> bool {
        key::append_words(self.view, self.high_at(), self.high_len, out);
        !self.is_right_edge()
    }

    /// Returns the number of leading bytes that `key` shares with the low fence.
    #[inline]
    pub(crate) fn shared_with_low(&self, key: &[u8]) -> usize {
        key::shared_with_words(key, self.view, HEADER_WORDS, self.low_len)
    }

    /// Compares the key's part after the prefix with an entry's suffix.
    #[inline]
    fn cmp_suffix(&self, key: &[u8], head: u32, slot: Slot) -> Ordering {
        match head.cmp(&slot.head) {
            Ordering::Equal => {}
            unequal => return unequal,
        }
        let mine = key.len().saturating_sub(self.prefix);
        if mine <= HEAD_BYTES || slot.suffix <= HEAD_BYTES {
            return mine.cmp(&slot.suffix);
        }
        let rest = key.get(self.prefix + HEAD_BYTES..).unwrap_or(&[]);
        key::cmp_words(
            rest,
            self.view,
            slot.offset + VALUE_WORDS,
            slot.suffix - HEAD_BYTES,
        )
    }

    /// Returns the first position in `from..count` whose key is not below `key`: `Ok` if it equals
    /// `key`. The caller knows that the key is not below the low fence.
    #[inline]
    pub(crate) fn search_from(&self, key: &[u8], from: usize) -> Result<usize, usize> {
        if self.prefix > 0 && self.shared_with_low(key) < self.prefix {
            return Err(self.count);
        }
        let head = key::head_at(key, self.prefix);
        let slots = self.slots();
        let (mut left, mut right) = (from, self.count);
        while left < right {
            let middle = left + (right - left) / 2;
            match self.cmp_suffix(key, head, Slot::from_word(self.view.word(slots + middle))) {
                Ordering::Greater => left = middle + 1,
                Ordering::Equal => return Ok(middle),
                Ordering::Less => right = middle,
            }
        }
        Err(left.min(self.count))
    }

    /// Returns the position of `key`, or as an error the position where it would be inserted.
    #[inline]
    pub(crate) fn search(&self, key: &[u8]) -> Result<usize, usize> {
        self.search_from(key, usize::from(self.level > 0).min(self.count))
    }

    /// Returns the position of the child that covers `key`.
    #[inline]
    pub(crate) fn child_at(&self, key: &[u8]) -> usize {
        match self.search(key) {
            Ok(i) => i,
            Err(i) => i.saturating_sub(1),
        }
    }

    /// Returns the position of the child that covers the keys just below `key`.
    pub(crate) fn child_below(&self, key: &[u8]) -> usize {
        match self.search(key) {
            Ok(i) | Err(i) => i.saturating_sub(1),
        }
    }

    /// Returns the value of entry `i`.
    #[inline]
    pub(crate) fn value(&self, i: usize) -> [u64; VALUE_WORDS] {
        let at = self.slot(i).offset;
        [self.view.word(at), self.view.word(at + 1)]
    }

    /// Returns the child of entry `i`.
    #[inline]
    pub(crate) fn child(&self, i: usize) -> FatPtr {
        FatPtr::from_words(self.value(i))
    }

    /// Appends the key of entry `i`.
    pub(crate) fn append_key(&self, i: usize, out: &mut Vec<u8>) {
        if self.level > 0 && i == 0 {
            return self.append_low(out);
        }
        key::append_words(self.view, HEADER_WORDS, self.prefix, out);
        let slot = self.slot(i);
        let in_head = slot.suffix.min(HEAD_BYTES);
        out.extend_from_slice(&slot.head.to_be_bytes()[..in_head]);
        // A torn length must not make the caller allocate beyond the node.
        let rest = (slot.suffix - in_head).min(self.words * 8);
        key::append_words(self.view, slot.offset + VALUE_WORDS, rest, out);
    }

    /// Returns a hash of the entries whose keys are in `from..to`. It depends on the keys and the
    /// values, but not on their layout. It is a sum, so an empty range gives 0.
    pub(crate) fn hash_range(&self, from: &[u8], to: Option<&[u8]>) -> u64 {
        let start = if self.cmp_low(from) == Ordering::Less {
            0
        } else {
            self.position(from)
        };
        let end = match to {
            Some(to) if self.cmp_high(to) == Ordering::Less => self.position(to),
            _ => self.count,
        };
        self.hash_entries(start, end)
    }

    /// Returns the hash of [`Self::hash_range`] for a range of positions.
    pub(crate) fn hash_entries(&self, start: usize, end: usize) -> u64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut prefix = 0u64;
        for i in 0..self.prefix {
            let byte = (self.view.word(HEADER_WORDS + i / 8) >> (56 - 8 * (i % 8))) as u8;
            prefix = (prefix ^ u64::from(byte))
                .wrapping_mul(STEP)
                .rotate_left(23);
        }
        let mut sum = 0u64;
        for i in start..end.min(self.count) {
            let slot = self.slot(i);
            let mut hash = prefix;
            for at in 0..slot.suffix.min(self.words * 8) {
                let byte = if at < HEAD_BYTES {
                    slot.head.to_be_bytes()[at]
                } else {
                    let rest = at - HEAD_BYTES;
                    (self.view.word(slot.offset + VALUE_WORDS + rest / 8) >> (56 - 8 * (rest % 8)))
                        as u8
                };
                hash = (hash ^ u64::from(byte)).wrapping_mul(STEP).rotate_left(23);
            }
            let [first, second] = self.value(i);
            let total =
                (hash ^ first).wrapping_mul(STEP) ^ second.wrapping_mul(0xD6E8_FEB8_6659_FD93);
            sum = sum.wrapping_add((total ^ (total >> 29)).wrapping_mul(STEP) | 1);
        }
        sum
    }

    /// Returns the first position whose key is not below `key`, which is not below the low fence.
    #[inline]
    pub(crate) fn position(&self, key: &[u8]) -> usize {
        match self.search(key) {
            Ok(i) | Err(i) => i,
        }
    }
}
