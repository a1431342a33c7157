//! The encoding of a patch: a change of a bucket, a block or the directory.
//!
//! `| code 32 · key length 32 | hash | root | index | key | value |` for pairs, and
//! `| code | prefix of the new half | root | depth | first bucket of the old shard | of the new |`
//! for a shard that was split in two.

use fencepost_storage::Addr;
use smallvec::SmallVec;

use crate::layout::{Key, MAX_KEY_WORDS};

/// The kind of the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// Put the pair into the key's home, which has none of its keys elsewhere.
    Insert,
    /// Overwrite the value of the key.
    Update,
    /// Remove the pair from the key's home, which has no overflow chain.
    Remove,
    /// Set the directory entries of the upper half of a split shard to the new shard.
    Grow,
}

pub(crate) const FIXED: usize = 4;

/// Words of a patch.
pub(crate) type PatchWords = SmallVec<[u64; 24]>;

/// Encodes a patch of a pair.
pub(crate) fn encode(
    code: Code,
    key: &Key<'_>,
    root: Addr,
    index: usize,
    value: &[u64],
) -> PatchWords {
    let mut op = PatchWords::new();
    op.push(((code as u64) << 32) | key.len as u64);
    op.extend_from_slice(&[key.hash, root.raw(), index as u64]);
    op.extend((0..key.used_words()).map(|i| key.word(i)));
    op.extend_from_slice(value);
    op
}

/// Encodes a patch of the directory.
pub(crate) fn encode_grow(root: Addr, prefix: u64, depth: u8, old: Addr, new: Addr) -> PatchWords {
    let mut op = PatchWords::new();
    op.extend_from_slice(&[
        (Code::Grow as u64) << 32,
        prefix,
        root.raw(),
        u64::from(depth),
        old.raw(),
        new.raw(),
    ]);
    op
}

/// A decoded patch of a pair.
pub(crate) struct Op<'a> {
    pub(crate) code: Code,
    pub(crate) key: Key<'a>,
    pub(crate) root: Addr,
    pub(crate) index: usize,
    pub(crate) value: &'a [u64],
}

/// Returns whether two patches are for the same key.
pub(crate) fn same_key(one: &[u64], other: &[u64]) -> bool {
    let key = |op: &[u64]| {
        let len = *op.first()? as u32;
        let used = (len as usize).div_ceil(8);
        let words = op.get(FIXED..FIXED + used)?.to_vec();
        Some((len, op.get(1).copied(), op.get(2).copied(), words))
    };
    key(one).is_some() && key(one) == key(other)
}

/// Returns the code of a patch.
pub(crate) fn code(op: &[u64]) -> Option<Code> {
    match op.first()? >> 32 {
        0 => Some(Code::Insert),
        1 => Some(Code::Update),
        2 => Some(Code::Remove),
        3 => Some(Code::Grow),
        _ => None,
    }
}

/// Decodes a patch of a pair.
pub(crate) fn decode(op: &[u64]) -> Option<Op<'_>> {
    let code = code(op)?;
    let (fixed, rest) = op.split_at_checked(FIXED)?;
    let len = fixed[0] as u32 as usize;
    let used = len.div_ceil(8);
    if used > MAX_KEY_WORDS || used > rest.len() {
        return None;
    }
    let (words, value) = rest.split_at(used);
    let key = Key::from_words(fixed[1], len, words);
    Some(Op {
        code,
        key,
        root: Addr::from_raw(fixed[2]),
        index: fixed[3] as usize,
        value,
    })
}
