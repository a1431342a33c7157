//! The objects of a hash table and their layout.
//!
//! ```text
//! root       | magic 16 | depth 8 | slots 8 | key words 8 | value words 8 | flags 16 |
//!            | address of the directory | buckets of a shard 32 · stride 32 | root |
//! directory  | magic 16 | depth 8 | | root | address of the first bucket of a shard, 2^depth times
//! bucket     | magic 16 | depth 8 | slots 8 | key words 8 | value words 8 | |
//!            | prefix 16 · index 16 · table 32 | tag of each slot |
//!            | forward 16 | backward 16 | chain 16 | away 16 |     joint versions, keys elsewhere
//!            | overflow chain: fat pointer (2) | fingerprints | key and value of each slot |
//! block      as a bucket, with two slots; the fat pointer is that of the next block
//! tag        | used 1 | key length 15 | hash 48 |     0: the slot is free
//! ```
//! The low `depth` bits of a key's hash determine its shard, and the high half determines its
//! *home* bucket. The key lies in its home, in the bucket after it, or in the home's overflow
//! chain. `away` counts the home's keys that lie outside it. `fingerprints` has 12 bits of each of
//! them, so that mostly the home alone shows that a key is absent: `| n 4 | 5 × 12 |`, n = 15 where
//! there were too many. `forward` of a bucket equals `backward` of the next one. Both change when a
//! key of the first comes to, leaves or is moved in the second. `chain` changes with the overflow
//! chain.

use fencepost_storage::{Addr, FatPtr, View};

use crate::hash;

pub(crate) const ROOT_MAGIC: u64 = 0x4A50;
pub(crate) const DIRECTORY_MAGIC: u64 = 0x4A51;
pub(crate) const BUCKET_MAGIC: u64 = 0x4A52;
pub(crate) const BLOCK_MAGIC: u64 = 0x4A53;

/// Words of a root.
pub(crate) const ROOT_WORDS: usize = 4;
/// Words of a directory before its entries.
pub(crate) const DIRECTORY_HEADER: usize = 2;
/// Index of the word that identifies the owner of a bucket.
pub(crate) const WORD_OWNER: usize = 1;
/// Index of the word of the first tag: with the object's own header all tags lie in one cache line.
const WORD_TAGS: usize = 2;
/// Slots of an overflow block.
pub(crate) const BLOCK_SLOTS: usize = 2;
/// Length in bytes of the longest key that a table can allow.
pub(crate) const MAX_KEY_BYTES: usize = 256;
pub(crate) const MAX_KEY_WORDS: usize = MAX_KEY_BYTES / 8;
/// Words of the largest inline value.
pub(crate) const MAX_VALUE_WORDS: usize = 128;

/// Found values join the read set: the value is the data, not a pointer to an object that is itself
/// in the read set.
pub(crate) const FLAG_GUARD_HITS: u64 = 1;

const USED: u64 = 1 << 63;

/// A key with its hash.
#[derive(Clone, Copy)]
pub(crate) struct Key<'a> {
    pub(crate) hash: u64,
    pub(crate) len: usize,
    source: Source<'a>,
}

/// The form in which the words of a key are given.
#[derive(Clone, Copy)]
enum Source<'a> {
    Bytes(&'a [u8]),
    Words(&'a [u64]),
}

impl<'a> Key<'a> {
    /// Returns a key; `None` if it is longer than any slot.
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Option<Key<'a>> {
        (bytes.len() <= MAX_KEY_BYTES).then(|| Key {
            hash: hash::hash(bytes),
            len: bytes.len(),
            source: Source::Bytes(bytes),
        })
    }

    /// Returns a key from stored words, which must contain all `len` bytes.
    pub(crate) fn from_words(hash: u64, len: usize, words: &'a [u64]) -> Key<'a> {
        Key {
            hash,
            len: len.min(words.len() * 8),
            source: Source::Words(words),
        }
    }

    /// Returns word `i` of the key, as stored in slots.
    #[inline]
    pub(crate) fn word(&self, i: usize) -> u64 {
        match self.source {
            Source::Bytes(bytes) => hash::word(bytes.get(i * 8..).unwrap_or(&[])),
            Source::Words(words) => words.get(i).copied().unwrap_or(0),
        }
    }

    /// Returns the tag of its slot.
    #[inline]
    pub(crate) fn tag(&self) -> u64 {
        USED | ((self.len as u64) << 48) | (self.hash >> 16)
    }

    #[inline]
    pub(crate) fn used_words(&self) -> usize {
        self.len.div_ceil(8)
    }

    /// Appends the key's bytes.
    pub(crate) fn append_bytes(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend((0..self.used_words()).flat_map(|i| self.word(i).to_le_bytes()));
        out.truncate(start + self.len);
    }
}

/// The sizes of the slots of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) slots: usize,
    pub(crate) key_words: usize,
    pub(crate) value_words: usize,
}

impl Shape {
    /// Returns the words of a tag with key and value.
    #[inline]
    pub(crate) fn pair_words(self) -> usize {
        1 + self.key_words + self.value_words
    }

    /// Returns the words of the object.
    pub(crate) fn words(self) -> usize {
        self.key(self.slots)
    }

    pub(crate) fn block(self) -> Shape {
        Shape {
            slots: BLOCK_SLOTS,
            ..self
        }
    }

    /// Returns the index of the tag of a slot.
    #[inline]
    pub(crate) fn tag(self, slot: usize) -> usize {
        WORD_TAGS + slot
    }

    /// Returns the index of the joint versions.
    #[inline]
    pub(crate) fn versions(self) -> usize {
        WORD_TAGS + self.slots
    }

    /// Returns the index of the first word of the fat pointer of the overflow chain.
    #[inline]
    pub(crate) fn chain(self) -> usize {
        self.versions() + 1
    }

    /// Returns the index of the fingerprints.
    #[inline]
    pub(crate) fn fingerprints(self) -> usize {
        self.versions() + 3
    }

    /// Returns the index of the first word of the key of a slot.
    #[inline]
    pub(crate) fn key(self, slot: usize) -> usize {
        self.versions() + 4 + slot * (self.key_words + self.value_words)
    }

    /// Returns the index of the first word of the value of a slot.
    #[inline]
    pub(crate) fn value(self, slot: usize) -> usize {
        self.key(slot) + self.key_words
    }

    /// Returns the shape of the bucket or block with this image.
    #[inline]
    pub(crate) fn of(image: &[u64]) -> Shape {
        Shape::from_word(image.first().copied().unwrap_or(0))
    }

    #[inline]
    fn from_word(word: u64) -> Shape {
        Shape {
            slots: (word >> 32) as u8 as usize,
            key_words: (word >> 24) as u8 as usize,
            value_words: (word >> 16) as u8 as usize,
        }
    }

    pub(crate) fn to_word(self, magic: u64, depth: u8, flags: u64) -> u64 {
        (magic << 48)
            | (u64::from(depth) << 40)
            | ((self.slots as u64) << 32)
            | ((self.key_words as u64) << 24)
            | ((self.value_words as u64) << 16)
            | flags
    }
}

/// A decoded root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Root {
    pub(crate) depth: u8,
    pub(crate) shape: Shape,
    pub(crate) flags: u64,
    pub(crate) directory: Addr,
    /// Number of buckets of a shard that are homes; one more bucket follows them.
    pub(crate) buckets: usize,
    /// Bytes from one bucket to the next.
    pub(crate) stride: usize,
}

impl Root {
    #[inline]
    pub(crate) fn open(view: &View<'_>) -> Option<Root> {
        let (first, sizes) = (view.word(0), view.word(2));
        (first >> 48 == ROOT_MAGIC).then(|| Root {
            depth: (first >> 40) as u8,
            shape: Shape::from_word(first),
            flags: first & 0xFFFF,
            directory: Addr::from_raw(view.word(1)),
            buckets: (sizes >> 32) as usize,
            stride: sizes as u32 as usize,
        })
    }

    pub(crate) fn to_words(self, root: Addr) -> [u64; ROOT_WORDS] {
        let sizes = ((self.buckets as u64) << 32) | self.stride as u64;
        [
            self.shape.to_word(ROOT_MAGIC, self.depth, self.flags),
            self.directory.raw(),
            sizes,
            root.raw(),
        ]
    }

    /// Returns the mark in each bucket of the number of homes in its shard.
    pub(crate) fn homes_mark(&self) -> u64 {
        self.buckets as u64 & 0xFFFF
    }

    /// Returns the index of a key's home in its shard.
    #[inline]
    pub(crate) fn home(&self, hash: u64) -> usize {
        home(hash, self.buckets)
    }

    /// Returns the address of bucket `index` of the shard that begins at `first`.
    #[inline]
    pub(crate) fn bucket(&self, first: Addr, index: usize) -> Addr {
        Addr::from_raw(first.raw() + (index * self.stride) as u64)
    }
}

/// Returns the index of the home of a hash among `buckets`.
#[inline]
pub(crate) fn home(hash: u64, buckets: usize) -> usize {
    (((hash >> 32) * buckets as u64) >> 32) as usize
}

/// Returns the shard of a hash in a directory; `None` if the view is not a directory of the table.
#[inline]
pub(crate) fn shard_of(view: &View<'_>, root: Addr, hash: u64) -> Option<Addr> {
    let first = view.word(0);
    if first >> 48 != DIRECTORY_MAGIC || view.word(1) != root.raw() {
        return None;
    }
    let depth = (first >> 40) as u8;
    Some(Addr::from_raw(
        view.word(DIRECTORY_HEADER + low_bits(hash, depth) as usize),
    ))
}

/// Returns the low `depth` bits.
#[inline]
pub(crate) fn low_bits(hash: u64, depth: u8) -> u64 {
    hash & ((1u64 << (depth & 63)) - 1)
}

/// Returns the word that identifies the owner of a bucket: its shard, its index there, and its
/// table.
#[inline]
pub(crate) fn owner(prefix: u64, index: usize, root: Addr) -> u64 {
    (prefix << 48) | ((index as u64 & 0xFFFF) << 32) | u64::from(table_mark(root))
}

/// Returns a mark of the table with this root.
#[inline]
fn table_mark(root: Addr) -> u32 {
    (root.raw().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32
}

/// A read-only view of one bucket or block.
#[derive(Clone, Copy)]
pub(crate) struct Bucket<'a, 'v> {
    pub(crate) view: &'a View<'v>,
    pub(crate) shape: Shape,
    pub(crate) depth: u8,
    pub(crate) is_block: bool,
}

impl<'a, 'v> Bucket<'a, 'v> {
    /// Opens a bucket or block; returns `None` if the words are not one of the table with this
    /// root.
    #[inline]
    pub(crate) fn open(view: &'a View<'v>, root: Addr) -> Option<Self> {
        let first = view.word(0);
        let magic = first >> 48;
        if magic != BUCKET_MAGIC && magic != BLOCK_MAGIC
            || view.word(WORD_OWNER) as u32 != table_mark(root)
        {
            return None;
        }
        let shape = Shape::from_word(first);
        Some(Bucket {
            view,
            shape,
            depth: (first >> 40) as u8,
            is_block: magic == BLOCK_MAGIC,
        })
    }

    #[inline]
    pub(crate) fn versions(&self) -> Versions {
        Versions::from_word(self.view.word(self.shape.versions()))
    }

    #[inline]
    pub(crate) fn prefix(&self) -> u64 {
        self.view.word(WORD_OWNER) >> 48
    }

    #[inline]
    pub(crate) fn index(&self) -> usize {
        (self.view.word(WORD_OWNER) >> 32) as u16 as usize
    }

    /// Returns the first overflow block of a bucket, or the next block of a block.
    #[inline]
    pub(crate) fn chain(&self) -> FatPtr {
        let at = self.shape.chain();
        FatPtr::from_words([self.view.word(at), self.view.word(at + 1)])
    }

    /// Returns whether this is the bucket with that index of the shard that the hash belongs to.
    #[inline]
    pub(crate) fn is_home(&self, hash: u64, index: usize) -> bool {
        !self.is_block && self.index() == index && low_bits(hash, self.depth) == self.prefix()
    }

    /// Returns whether the bucket belongs to a table with the layout of this root. A stale copy of
    /// a root may be of another table, whose root was in the same slot. A bucket without a mark
    /// fits any number of homes.
    #[inline]
    pub(crate) fn fits(&self, root: &Root) -> bool {
        let mark = self.view.word(0) & 0xFFFF;
        self.shape == root.shape && (mark == 0 || mark == root.homes_mark())
    }

    /// Returns whether a key of this home that is not in it may be elsewhere.
    #[inline]
    pub(crate) fn may_be_away(&self, key: &Key<'_>) -> bool {
        self.versions().away > 0
            && Fingerprints(self.view.word(self.shape.fingerprints())).may_have(key.tag())
    }

    /// Returns the slot of a key.
    #[inline]
    pub(crate) fn find(&self, key: &Key<'_>) -> Option<usize> {
        let tag = key.tag();
        let fits = |slot: usize| self.view.word(self.shape.tag(slot)) == tag;
        (0..self.shape.slots).find(|slot| fits(*slot) && self.has(*slot, key))
    }

    /// Returns whether the key of a slot with the right tag is this key. It nearly always is. The
    /// function is separate so that the search over tags stays small.
    #[inline(never)]
    fn has(&self, slot: usize, key: &Key<'_>) -> bool {
        let at = self.shape.key(slot);
        match key.source {
            Source::Bytes(bytes) => {
                let mut words = bytes.chunks(8).zip(at..);
                words.all(|(bytes, at)| self.view.word(at) == hash::word(bytes))
            }
            Source::Words(_) => {
                (0..key.used_words()).all(|i| self.view.word(at + i) == key.word(i))
            }
        }
    }

    #[inline]
    pub(crate) fn is_free(&self, slot: usize) -> bool {
        self.view.word(self.shape.tag(slot)) == 0
    }

    #[inline]
    pub(crate) fn free_slot(&self) -> Option<usize> {
        (0..self.shape.slots).find(|i| self.is_free(*i))
    }

    pub(crate) fn used(&self) -> usize {
        (0..self.shape.slots).filter(|i| !self.is_free(*i)).count()
    }

    /// Copies a value.
    #[inline]
    pub(crate) fn value(&self, slot: usize, out: &mut [u64]) {
        let len = out.len().min(self.shape.value_words);
        self.view.copy(self.shape.value(slot), &mut out[..len]);
    }

    /// Returns a hash of a value, for the read set.
    pub(crate) fn value_hash(&self, slot: usize) -> u64 {
        let at = self.shape.value(slot);
        (0..self.shape.value_words).fold(1, |state: u64, i| {
            (state ^ self.view.word(at + i))
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                .rotate_left(29)
        })
    }

    /// Appends the key of a slot.
    pub(crate) fn append_key(&self, slot: usize, out: &mut Vec<u8>) {
        let at = self.shape.key(slot);
        let len = ((self.view.word(self.shape.tag(slot)) >> 48) as usize & 0x7FFF)
            .min(self.shape.key_words * 8);
        for i in 0..len.div_ceil(8) {
            let run = (len - i * 8).min(8);
            out.extend_from_slice(&self.view.word(at + i).to_le_bytes()[..run]);
        }
    }
}

/// Fingerprints of a home's keys that lie outside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fingerprints(pub(crate) u64);

const FINGERPRINTS: u64 = 5;
const TOO_MANY: u64 = 15;

impl Fingerprints {
    #[inline]
    fn len(self) -> u64 {
        self.0 >> 60
    }

    #[inline]
    fn position(self, tag: u64) -> Option<u64> {
        (0..self.len().min(FINGERPRINTS)).find(|i| (self.0 >> (12 * i)) & 0xFFF == tag & 0xFFF)
    }

    /// Returns whether the key with this tag may be among them.
    #[inline]
    pub(crate) fn may_have(self, tag: u64) -> bool {
        self.len() > FINGERPRINTS || self.position(tag).is_some()
    }

    /// Adds a key.
    pub(crate) fn add(self, tag: u64) -> Self {
        match self.len() {
            len if len < FINGERPRINTS => {
                let lanes = self.0 & ((1 << 60) - 1) | ((tag & 0xFFF) << (12 * len));
                Fingerprints(lanes | ((len + 1) << 60))
            }
            _ => Fingerprints(TOO_MANY << 60),
        }
    }

    /// Removes a key; `left` keys are still elsewhere.
    pub(crate) fn remove(self, tag: u64, left: u16) -> Self {
        let len = self.len();
        match self.position(tag) {
            _ if left == 0 => Fingerprints(0),
            Some(at) if len <= FINGERPRINTS => {
                let last = (self.0 >> (12 * (len - 1))) & 0xFFF;
                let lanes = self.0 & ((1 << 60) - 1) & !(0xFFF << (12 * (len - 1)));
                let lanes = if at == len - 1 {
                    lanes
                } else {
                    lanes & !(0xFFF << (12 * at)) | (last << (12 * at))
                };
                Fingerprints(lanes | ((len - 1) << 60))
            }
            _ => self,
        }
    }
}

/// Joint versions and the number of keys outside the home.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Versions {
    pub(crate) forward: u16,
    pub(crate) backward: u16,
    pub(crate) chain: u16,
    pub(crate) away: u16,
}

impl Versions {
    #[inline]
    pub(crate) fn from_word(word: u64) -> Self {
        Versions {
            forward: (word >> 48) as u16,
            backward: (word >> 32) as u16,
            chain: (word >> 16) as u16,
            away: word as u16,
        }
    }

    #[inline]
    pub(crate) fn to_word(self) -> u64 {
        (u64::from(self.forward) << 48)
            | (u64::from(self.backward) << 32)
            | (u64::from(self.chain) << 16)
            | u64::from(self.away)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn fingerprints_never_deny_a_key_that_is_elsewhere(
            ops in proptest::collection::vec((any::<bool>(), 0u64..12), 0..60),
        ) {
            let mut fingerprints = Fingerprints::default();
            let mut away: Vec<u64> = Vec::new();
            for (add, tag) in ops {
                if add {
                    away.push(tag);
                    fingerprints = fingerprints.add(tag);
                } else if let Some(at) = away.iter().position(|there| *there == tag) {
                    away.swap_remove(at);
                    fingerprints = fingerprints.remove(tag, away.len() as u16);
                }
                prop_assert!(away.iter().all(|tag| fingerprints.may_have(*tag)));
                if away.is_empty() {
                    prop_assert_eq!(fingerprints, Fingerprints::default());
                }
            }
        }
    }
}
