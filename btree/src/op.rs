//! The encoding of a patch: a change of one key in a leaf, or the removal of several keys.
//!
//! ```text
//! one key        | kind 32 | key length 32 | · tree · value (2) · key, in words
//! several keys   | kind 32 | keys 32       | · tree · for each key: its length · key, in words
//! ```

use fencepost_storage::Addr;

use crate::key;

/// The change of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyChange {
    Insert,
    Remove,
    Replace,
}

const KEY_AT: usize = 4;
/// The kind of a patch that removes several keys; other kinds are those of [`KeyChange`].
const REMOVALS: u64 = 3;
/// First word of the keys of a patch that removes several.
const REMOVALS_AT: usize = 2;
/// Most keys that one patch removes.
pub(crate) const REMOVALS_MAX: usize = 256;
/// Longest key of any node size, in words.
pub(crate) const MAX_KEY_WORDS: usize = 8192;

/// Returns the words of a patch for a key of `len` bytes.
pub(crate) const fn words(len: usize) -> usize {
    KEY_AT + key::words_for(len)
}

/// Encodes a patch into `out`, whose length is [`words`] of the key's length.
pub(crate) fn encode(what: KeyChange, tree: Addr, key: &[u8], value: [u64; 2], out: &mut [u64]) {
    out[0] = ((what as u64) << 32) | key.len() as u64;
    out[1] = tree.raw();
    out[2] = value[0];
    out[3] = value[1];
    key::put_words(key, &mut out[KEY_AT..]);
}

/// A buffer for a patch, on the stack if the key is short.
#[derive(Default)]
pub(crate) struct OpBuffer {
    short: [u64; 16],
    long: Vec<u64>,
}

impl OpBuffer {
    pub(crate) fn fill(
        &mut self,
        what: KeyChange,
        tree: Addr,
        key: &[u8],
        value: [u64; 2],
    ) -> &[u64] {
        let words = words(key.len());
        let buffer = if words <= self.short.len() {
            &mut self.short[..words]
        } else {
            self.long.resize(words, 0);
            &mut self.long[..]
        };
        encode(what, tree, key, value, buffer);
        buffer
    }
}

/// A decoded patch.
pub(crate) struct Op {
    pub(crate) what: KeyChange,
    pub(crate) tree: Addr,
    pub(crate) value: [u64; 2],
    pub(crate) key: KeyBytes,
}

/// Key bytes, on the stack if they are short.
pub(crate) enum KeyBytes {
    Short([u8; 64], usize),
    Long(Vec<u8>),
}

impl KeyBytes {
    /// Returns the first `len` bytes in `words`.
    pub(crate) fn from_words(words: &[u64], len: usize) -> Self {
        let byte = |i: usize| (words[i / 8] >> (56 - 8 * (i % 8))) as u8;
        let len = len.min(words.len() * 8);
        if len <= 64 {
            let mut bytes = [0u8; 64];
            for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
                chunk.copy_from_slice(&word.to_be_bytes());
            }
            KeyBytes::Short(bytes, len)
        } else {
            KeyBytes::Long((0..len).map(byte).collect())
        }
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            KeyBytes::Short(bytes, len) => &bytes[..*len],
            KeyBytes::Long(bytes) => bytes,
        }
    }
}

/// Decodes a patch; returns `None` if the words are not a patch.
pub(crate) fn decode(op: &[u64]) -> Option<Op> {
    let (first, tree) = (*op.first()?, *op.get(1)?);
    let what = match first >> 32 {
        0 => KeyChange::Insert,
        1 => KeyChange::Remove,
        2 => KeyChange::Replace,
        _ => return None,
    };
    let len = first as u32 as usize;
    let words = op.get(KEY_AT..)?;
    (len <= words.len() * 8).then(|| Op {
        what,
        tree: Addr::from_raw(tree),
        value: [op[2], op[3]],
        key: KeyBytes::from_words(words, len),
    })
}

/// A decoded patch that removes several keys of a leaf, in ascending order.
#[derive(Clone, Copy)]
pub(crate) struct Removals<'a> {
    pub(crate) tree: Addr,
    count: usize,
    keys: &'a [u64],
}

impl<'a> Removals<'a> {
    /// Encodes the removal of `keys` into `out`: at most [`REMOVALS_MAX`] keys in ascending order.
    pub(crate) fn encode<'k>(
        tree: Addr,
        keys: impl ExactSizeIterator<Item = &'k [u8]>,
        out: &mut Vec<u64>,
    ) {
        out.clear();
        out.extend([(REMOVALS << 32) | keys.len() as u64, tree.raw()]);
        for key in keys {
            out.push(key.len() as u64);
            let from = out.len();
            out.resize(from + key::words_for(key.len()), 0);
            key::put_words(key, &mut out[from..]);
        }
    }

    /// Decodes a patch; returns `None` if it does not remove several keys.
    pub(crate) fn decode(op: &'a [u64]) -> Option<Removals<'a>> {
        let (first, tree) = (*op.first()?, *op.get(1)?);
        let count = first as u32 as usize;
        (first >> 32 == REMOVALS && count <= REMOVALS_MAX).then(|| Removals {
            tree: Addr::from_raw(tree),
            count,
            keys: &op[REMOVALS_AT..],
        })
    }

    /// Returns the keys in ascending order.
    pub(crate) fn keys(self) -> impl Iterator<Item = KeyBytes> + 'a {
        let mut rest = self.keys;
        (0..self.count).map_while(move |_| {
            let (len, words) = rest.split_first()?;
            let len = usize::try_from(*len).ok()?;
            let (key, after) = words.split_at_checked(key::words_for(len))?;
            rest = after;
            Some(KeyBytes::from_words(key, len))
        })
    }

    /// Calls `f` with a patch for each key.
    pub(crate) fn for_each_key(self, f: &mut dyn FnMut(&[u64])) {
        for key in self.keys() {
            let mut op = OpBuffer::default();
            f(op.fill(KeyChange::Remove, self.tree, key.as_slice(), [0; 2]));
        }
    }
}

/// Returns whether two patches are for the same key.
pub(crate) fn same_key(one: &[u64], other: &[u64]) -> bool {
    let key = |op: &[u64]| (op.first().map(|first| *first as u32), op.get(1).copied());
    key(one) == key(other) && one.get(KEY_AT..) == other.get(KEY_AT..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_round_trips() {
        for len in [0, 1, 8, 9, 64, 65, 200] {
            let key: Vec<u8> = (0..len).map(|i| i as u8 ^ 0xA5).collect();
            let mut words = vec![0; super::words(len)];
            encode(
                KeyChange::Replace,
                Addr::from_raw(640),
                &key,
                [1, 2],
                &mut words,
            );
            let op = decode(&words).expect("it was encoded");
            assert_eq!(
                (op.what, op.tree, op.value),
                (KeyChange::Replace, Addr::from_raw(640), [1, 2])
            );
            assert_eq!(op.key.as_slice(), key);
        }
        assert!(decode(&[9 << 32, 0, 0, 0]).is_none() && decode(&[1]).is_none());
    }

    #[test]
    fn removals_round_trip_and_consist_of_single_removals() {
        let keys: Vec<Vec<u8>> = [0, 1, 8, 9, 64, 65, 200]
            .map(|len| (0..len).map(|i| i as u8 ^ 0x5A).collect())
            .into();
        let mut words = Vec::new();
        let tree = Addr::from_raw(640);
        Removals::encode(tree, keys.iter().map(Vec::as_slice), &mut words);
        assert!(decode(&words).is_none());
        let removals = Removals::decode(&words).expect("it was encoded");
        assert_eq!(removals.tree, tree);
        let decoded = removals.keys().map(|key| key.as_slice().to_vec());
        assert_eq!(decoded.collect::<Vec<_>>(), keys);
        let mut singles = Vec::new();
        removals.for_each_key(&mut |op| {
            let op = decode(op).expect("a patch of one key");
            assert_eq!((op.what, op.tree), (KeyChange::Remove, tree));
            singles.push(op.key.as_slice().to_vec());
        });
        assert_eq!(singles, keys);
    }
}
