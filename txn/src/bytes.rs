//! Bytes in records and messages, which are words.

const WORD_BYTES: usize = 8;

/// Appends bytes; the last word is filled up with zeros.
pub(crate) fn put(out: &mut Vec<u64>, bytes: &[u8]) {
    let from = out.len();
    out.resize(from + bytes.len().div_ceil(WORD_BYTES), 0);
    bytemuck::cast_slice_mut::<u64, u8>(&mut out[from..])[..bytes.len()].copy_from_slice(bytes);
}

/// The first `count` bytes of words; `None` where they are not as many.
pub(crate) fn first(words: &[u64], count: usize) -> Option<&[u8]> {
    bytemuck::cast_slice::<u64, u8>(words).get(..count)
}
